#include "message.h"

#include "arena.h"

namespace shoal::demo {

std::vector<std::byte> write_name(std::string_view name) {
    std::vector<std::byte> message{static_cast<std::byte>('n')};
    for (const char c : name.substr(0, kMaxNameBytes)) message.push_back(static_cast<std::byte>(c));
    return message;
}

std::optional<std::string> read_name(std::span<const std::byte> message) {
    if (message.size() < 2 || message.size() > 1 + kMaxNameBytes) return std::nullopt;
    if (message[0] != static_cast<std::byte>('n')) return std::nullopt;
    return printable({reinterpret_cast<const char*>(message.data()) + 1, message.size() - 1});
}

std::string printable(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c < ' ' || c > '~') c = '?';
    return out;
}

}  // namespace shoal::demo
