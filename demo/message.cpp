#include "message.h"

#include "arena.h"

namespace shoal::demo {
namespace {

bool is_kind(std::span<const std::byte> message, char kind) {
    return !message.empty() && message[0] == static_cast<std::byte>(kind);
}

}  // namespace

std::vector<std::byte> write_name(std::string_view name) {
    std::vector<std::byte> message{static_cast<std::byte>('n')};
    for (const char c : name.substr(0, kMaxNameBytes)) message.push_back(static_cast<std::byte>(c));
    return message;
}

std::vector<std::byte> write_steer(Direction direction) {
    return {static_cast<std::byte>('s'), static_cast<std::byte>(direction)};
}

std::optional<std::string> read_name(std::span<const std::byte> message) {
    if (!is_kind(message, 'n') || message.size() < 2 || message.size() > 1 + kMaxNameBytes)
        return std::nullopt;
    return printable({reinterpret_cast<const char*>(message.data()) + 1, message.size() - 1});
}

std::optional<Direction> read_steer(std::span<const std::byte> message) {
    if (!is_kind(message, 's') || message.size() != 2) return std::nullopt;
    if (message[1] > static_cast<std::byte>(Direction::right)) return std::nullopt;
    return static_cast<Direction>(message[1]);
}

std::string printable(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c < ' ' || c > '~') c = '?';
    return out;
}

}  // namespace shoal::demo
