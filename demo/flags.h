#pragma once
// Parses a command line: --flag value, --flag=value, or --flag without a value.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::demo {

class Flags {
public:
    enum class Outcome : std::uint8_t { run, help, bad };

    /// `intro` begins the help text.
    explicit Flags(std::string intro) : intro_(std::move(intro)) {}

    // Each function adds a flag. parse() writes to `value`, which must outlive that call.
    void toggle(std::string name, bool& value, std::string help);
    void text(std::string name, std::string& value, std::string help);
    void whole(std::string name, std::uint64_t& value, std::uint64_t min, std::uint64_t max,
               std::string help);
    void real(std::string name, double& value, double min, double max, std::string help);

    /// `arguments` are without the program's name. After `bad`, error() is one line that names the flag and
    /// the reason.
    Outcome parse(std::span<const char* const> arguments);
    const std::string& error() const { return error_; }
    std::string help() const;

private:
    struct Flag {
        std::string name, help;
        bool takes_value;
        std::function<bool(std::string_view)> set;
        std::string wanted;  // for example "a number from 0 to 1"
    };

    std::string intro_;
    std::vector<Flag> flags_;
    std::string error_;
};

}  // namespace shoal::demo
