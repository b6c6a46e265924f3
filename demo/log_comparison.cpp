#include "log_comparison.h"

#include <algorithm>
#include <charconv>

namespace shoal::demo {
namespace {

bool is_hash(const std::string& text) {
    return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool read_number(const std::string& text, std::uint64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<std::vector<LogLine>> read_log(std::istream& in, std::string& error) {
    std::vector<LogLine> lines;
    for (LogLine line; std::getline(in, line.text); lines.push_back(line)) {
        const std::string entities = value_of(line.text, "entities"), hash = value_of(line.text, "hash");
        std::uint64_t count = 0;
        const bool is_good =
            read_number(value_of(line.text, "tick"), line.tick) && read_number(entities, count) &&
            is_hash(hash) &&
            line.text == "tick=" + std::to_string(line.tick) + " entities=" + entities + " hash=" + hash;
        if (!is_good) error = "not a line of a hash log: " + line.text;
        if (is_good && !lines.empty() && line.tick <= lines.back().tick)
            error = "ticks do not rise: " + line.text;
        if (!error.empty()) return std::nullopt;
    }
    if (lines.empty()) error = "no ticks";
    return error.empty() ? std::optional(std::move(lines)) : std::nullopt;
}

Comparison compare_logs(const std::vector<LogLine>& server, const std::vector<LogLine>& client,
                        double percent) {
    Comparison result;
    auto theirs = std::ranges::lower_bound(server, client.front().tick, {}, &LogLine::tick);
    result.possible = static_cast<std::size_t>(server.end() - theirs);
    for (const LogLine& ours : client) {
        while (theirs != server.end() && theirs->tick < ours.tick) ++theirs;
        if (theirs == server.end() || theirs->tick != ours.tick)
            result.error = "tick " + std::to_string(ours.tick) + " is not in the server's log";
        else if (*theirs != ours)
            result.error = "worlds differ: server has '" + theirs->text + "', client '" + ours.text + "'";
        if (!result.error.empty()) return result;
        result.compared += 1;
    }
    if (client.back().tick != server.back().tick)
        result.error = "the last tick, " + std::to_string(server.back().tick) + ", never became complete";
    else if (static_cast<double>(result.compared) * 100 < percent * static_cast<double>(result.possible))
        result.error = "only " + std::to_string(result.compared) + " of " + std::to_string(result.possible) +
                       " ticks were complete";
    return result;
}

std::string value_of(const std::string& line, const std::string& key) {
    const std::size_t at = (" " + line).find(" " + key + "=");
    if (at == line.npos) return "-";
    const std::size_t begin = at + key.size() + 1;
    return line.substr(begin, key == "name" ? line.npos : line.find(' ', begin) - begin);
}

}  // namespace shoal::demo
