#include "server_key.h"

#include <algorithm>

namespace shoal::net {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

std::string to_hex(std::span<const std::byte> bytes) {
    std::string text;
    text.reserve(2 * bytes.size());
    for (const std::byte byte : bytes) {
        text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
        text += kDigits[std::to_integer<std::size_t>(byte & std::byte(15))];
    }
    return text;
}

std::optional<unsigned> read_digit(char digit) {
    const char lower = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit;
    const std::size_t value = kDigits.find(lower);
    if (value == std::string_view::npos) return std::nullopt;
    return static_cast<unsigned>(value);
}

bool read_hex(std::string_view text, std::span<std::byte> bytes) {
    if (text.size() != 2 * bytes.size()) return false;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::optional<unsigned> high = read_digit(text[2 * i]);
        const std::optional<unsigned> low = read_digit(text[2 * i + 1]);
        if (!high || !low) return false;
        bytes[i] = std::byte(*high << 4 | *low);
    }
    return true;
}

}  // namespace

Key insecure_server_key() {
    static constexpr std::string_view kLetters = "shoal insecure: known to anybody";
    static_assert(kLetters.size() == kKeyBytes);
    return Key(std::as_bytes(std::span<const char, kKeyBytes>(kLetters)));
}

std::string to_text(const PublicKey& key) {
    return to_hex(key);
}

std::string to_secret_text(const Key& key) {
    return to_hex(key.bytes());
}

std::optional<PublicKey> parse_public_key(std::string_view text) {
    PublicKey key;
    return read_hex(text, key) ? std::optional(key) : std::nullopt;
}

std::optional<Key> parse_private_key(std::string_view text) {
    Key key;
    return read_hex(text, key.bytes()) ? std::optional(key) : std::nullopt;
}

}  // namespace shoal::net
