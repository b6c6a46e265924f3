#pragma once
// SipHash-2-4 with 64-bit output.
// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace shoal::net::impl {

struct SipKey {
    std::uint64_t low = 0;   // bytes 0..7 of the 16-byte key, little-endian
    std::uint64_t high = 0;  // bytes 8..15
    friend bool operator==(const SipKey&, const SipKey&) = default;
};

/// Hash of the `prefix` words (eight little-endian bytes each) followed by `bytes`.
std::uint64_t siphash(const SipKey& key, std::initializer_list<std::uint64_t> prefix,
                      std::span<const std::byte> bytes = {});

}  // namespace shoal::net::impl
