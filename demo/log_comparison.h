#pragma once
// Compares a client's hash log with the server's.

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace shoal::demo {

struct LogLine {
    std::uint64_t tick = 0;
    std::string text;  // the whole line
    bool operator==(const LogLine&) const = default;
};

/// Reads a hash log. Returns nothing if it is empty, or if a line is malformed or its tick does not rise;
/// `error` then says why.
std::optional<std::vector<LogLine>> read_log(std::istream& in, std::string& error);

struct Comparison {
    std::size_t compared = 0;  // ticks of the client that equal the server's
    std::size_t possible = 0;  // ticks of the server from the client's first tick on
    std::string error;         // empty: the client's log agrees
};

/// The client's log agrees with the server's if three things hold: each of its lines is in the server's log,
/// its last tick is the server's last one, and it has at least `percent` of the server's ticks from the
/// client's first tick on. Neither log may be empty.
Comparison compare_logs(const std::vector<LogLine>& server, const std::vector<LogLine>& client,
                        double percent);

/// Returns the value of `key` in a line of words `key=value`, or "-" if it is missing. The value of "name"
/// may contain spaces and goes to the end of the line.
std::string value_of(const std::string& line, const std::string& key);

}  // namespace shoal::demo
