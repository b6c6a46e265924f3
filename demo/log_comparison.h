#pragma once
// Whether a client's hash log tells the same story as the server's.

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace shoal::demo {

struct LogLine {
    std::uint64_t tick = 0;
    std::string text;  // all of it
    bool operator==(const LogLine&) const = default;
};

/// The lines of a hash log. None if one is malformed or its tick does not rise; `error` says which.
std::optional<std::vector<LogLine>> read_log(std::istream& in, std::string& error);

struct Comparison {
    std::size_t compared = 0;  // ticks that the client has, all equal if there is no error
    std::size_t possible = 0;  // the server's, from the client's first to the last
    std::string error;         // empty: good
};

/// Good if every tick of the client is there and equal in the server's log, the last one is among them, and
/// they are at least `percent` of the server's since the client's first.
Comparison compare_logs(const std::vector<LogLine>& server, const std::vector<LogLine>& client,
                        double percent);

/// The value of `key=value` in a line of such words; "-" if it is not there. A name comes last, and whole.
std::string value_of(const std::string& line, const std::string& key);

}  // namespace shoal::demo
