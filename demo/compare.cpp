// Compares hash logs, to check that the clients' worlds equal the server's.

#include "log_comparison.h"
#include "process.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

namespace shoal::demo {
namespace {

constexpr const char* kHelp =
    "usage: compare SERVER_LOG [--at-least PERCENT] CLIENT_LOG ...\n"
    "Each tick of a client's log must have the same line in the server's log. The client's log must have\n"
    "the server's last tick, and PERCENT (90) of its ticks since the client's first. If there is a file\n"
    "NAME.out beside NAME.log, the table contains values from its summary line.\n";

std::optional<std::vector<LogLine>> open_log(const std::string& path, std::string& error) {
    std::ifstream in(path);
    if (!in) error = "cannot read it";
    auto lines = error.empty() ? read_log(in, error) : std::nullopt;
    if (!error.empty()) error = path + ": " + error;
    return lines;
}

/// Returns the last line of a client's output that begins with "summary "; empty if there is none.
std::string summary_of(const std::string& log_path) {
    std::ifstream in(std::filesystem::path(log_path).replace_extension(".out"));
    std::string summary;
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("summary ")) summary = line;
    return summary;
}

int main(std::span<const char* const> arguments) {
    if (arguments.size() == 1 && arguments[0] == std::string_view("--help"))
        return std::printf("%s", kHelp) < 0;
    if (arguments.size() < 2) return fail("compare", "needs a server's log and clients' logs; see --help", 2);
    std::string error;
    const auto server = open_log(arguments[0], error);
    if (!server) return fail("compare", error, 1);

    std::printf("%-17s %15s %9s %8s %10s\n", "client", "ticks compared", "entities", "kB/s", "round trip");
    double percent = 90;
    for (std::size_t i = 1; i < arguments.size(); ++i) {
        const std::string argument = arguments[i];
        if (argument == "--at-least" && i + 1 < arguments.size()) {
            percent = std::atof(arguments[++i]);
            continue;
        }
        const auto client = open_log(argument, error);
        if (!client) return fail("compare", error, 1);
        const Comparison result = compare_logs(*server, *client, percent);
        if (!result.error.empty()) return fail("compare", argument + ": " + result.error, 1);
        const std::string summary = summary_of(argument);
        const std::string name = value_of(summary, "name");
        std::printf("%-17s %7zu of %4zu %9s %8s %7s ms\n", name == "-" ? argument.c_str() : name.c_str(),
                    result.compared, result.possible, value_of(client->back().text, "entities").c_str(),
                    value_of(summary, "kB/s").c_str(), value_of(summary, "rtt_ms").c_str());
    }
    std::printf("worlds identical\n");
    return 0;
}

}  // namespace
}  // namespace shoal::demo

int main(int count, char** arguments) {
    return shoal::demo::main({arguments + 1, static_cast<std::size_t>(count > 0 ? count - 1 : 0)});
}
