#include "flags.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace shoal::demo {
namespace {

template <class T>
bool read_number(std::string_view text, T& value, T min, T max) {
    T number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    if (!(number >= min && number <= max)) return false;  // false for NaN
    value = number;
    return true;
}

template <class T>
std::string range(std::string_view what, T min, T max) {
    std::ostringstream out;
    out << what << " from " << min << " to " << max;
    return out.str();
}

}  // namespace

void Flags::toggle(std::string name, bool& value, std::string help) {
    const auto set = [&value](std::string_view) { return value = true; };
    flags_.push_back({std::move(name), std::move(help), false, set, {}});
}

void Flags::text(std::string name, std::string& value, std::string help) {
    const auto set = [&value](std::string_view text) {
        value = text;
        return !text.empty();
    };
    flags_.push_back({std::move(name), std::move(help), true, set, "a text"});
}

void Flags::whole(std::string name, std::uint64_t& value, std::uint64_t min, std::uint64_t max,
                  std::string help) {
    const auto set = [&value, min, max](std::string_view text) { return read_number(text, value, min, max); };
    flags_.push_back({std::move(name), std::move(help), true, set, range("a whole number", min, max)});
}

void Flags::real(std::string name, double& value, double min, double max, std::string help) {
    const auto set = [&value, min, max](std::string_view text) { return read_number(text, value, min, max); };
    flags_.push_back({std::move(name), std::move(help), true, set, range("a number", min, max)});
}

Flags::Outcome Flags::parse(std::span<const char* const> arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string_view argument = arguments[i];
        if (argument == "--help" || argument == "-h") return Outcome::help;
        const std::size_t equals = std::min(argument.find('='), argument.size());
        const std::string name(argument.substr(0, equals));
        const auto flag = std::ranges::find(flags_, name, &Flag::name);
        if (flag == flags_.end()) {
            error_ = "unknown flag " + name + "; see --help";
            return Outcome::bad;
        }
        std::string_view value;
        const bool has_value = equals < argument.size();
        if (has_value) {
            value = argument.substr(equals + 1);
        } else if (flag->takes_value && i + 1 < arguments.size()) {
            value = arguments[++i];
        } else if (flag->takes_value) {
            error_ = name + " needs " + flag->wanted;
            return Outcome::bad;
        }
        if (has_value && !flag->takes_value) {
            error_ = name + " takes no value";
            return Outcome::bad;
        }
        if (!flag->set(value)) {
            error_ = name + " needs " + flag->wanted + ", not '" + std::string(value) + "'";
            return Outcome::bad;
        }
    }
    return Outcome::run;
}

std::string Flags::help() const {
    std::size_t width = 6;
    for (const Flag& flag : flags_) width = std::max(width, flag.name.size());
    const auto line = [&](const std::string& name, const std::string& help) {
        return "  " + name + std::string(width + 2 - name.size(), ' ') + help + "\n";
    };
    std::string out = intro_ + "\n";
    for (const Flag& flag : flags_) out += line(flag.name, flag.help);
    return out + line("--help", "this text");
}

}  // namespace shoal::demo
