#pragma once
// Bytes as hexadecimal digits.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::net::impl {

inline std::vector<std::byte> from_hex(std::string_view digits) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(std::byte(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
    return bytes;
}

inline std::string to_hex(std::span<const std::byte> bytes) {
    std::string digits;
    for (const std::byte byte : bytes)
        for (const unsigned nibble : {unsigned(byte) >> 4, unsigned(byte) & 15})
            digits += "0123456789abcdef"[nibble];
    return digits;
}

}  // namespace shoal::net::impl
