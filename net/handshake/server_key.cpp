#include "server_key.h"

#include <charconv>

namespace shoal::net::impl {

SecretKey insecure_server_key() {
    static constexpr std::string_view kLetters = "shoal insecure: known to anybody";
    static_assert(kLetters.size() == kKeyBytes);
    return SecretKey(std::as_bytes(std::span<const char, kKeyBytes>(kLetters)));
}

std::string hex_of(std::span<const std::byte> bytes) {
    std::string text;
    text.reserve(2 * bytes.size());  // a reallocation would leave a copy of a secret behind
    for (const std::byte byte : bytes)
        for (const std::byte nibble : {byte >> 4, byte & std::byte(15)})
            text += "0123456789abcdef"[std::to_integer<std::size_t>(nibble)];
    return text;
}

bool read_hex(std::string_view text, std::span<std::byte> bytes) {
    if (text.size() != 2 * bytes.size()) return false;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const char* const end = text.data() + 2 * i + 2;
        std::uint8_t value = 0;
        const auto [stop, error] = std::from_chars(end - 2, end, value, 16);
        if (error != std::errc() || stop != end) return false;
        bytes[i] = std::byte(value);
    }
    return true;
}

std::optional<PublicKey> parse_public_key(std::string_view text) {
    PublicKey key;
    return read_hex(text, key) ? std::optional(key) : std::nullopt;
}

std::optional<SecretKey> parse_private_key(std::string_view text) {
    SecretKey key;
    return read_hex(text, key.bytes()) ? std::optional(key) : std::nullopt;
}

}  // namespace shoal::net::impl
