#include "siphash.h"

#include <bit>

#include "../bytes.h"

namespace shoal::net::impl {

std::uint64_t siphash(const SipKey& key, std::initializer_list<std::uint64_t> prefix,
                      std::span<const std::byte> bytes) {
    // The constants spell "somepseudorandomlygeneratedbytes".
    std::uint64_t v0 = key.low ^ 0x736f6d6570736575, v1 = key.high ^ 0x646f72616e646f6d;
    std::uint64_t v2 = key.low ^ 0x6c7967656e657261, v3 = key.high ^ 0x7465646279746573;
    const auto round = [&] {
        v0 += v1, v2 += v3;
        v1 = std::rotl(v1, 13) ^ v0, v3 = std::rotl(v3, 16) ^ v2;
        v0 = std::rotl(v0, 32);
        v2 += v1, v0 += v3;
        v1 = std::rotl(v1, 17) ^ v2, v3 = std::rotl(v3, 21) ^ v0;
        v2 = std::rotl(v2, 32);
    };
    const auto absorb = [&](std::uint64_t word) {
        v3 ^= word;
        round();
        round();
        v0 ^= word;
    };
    for (const std::uint64_t word : prefix) absorb(word);
    // The highest byte of the last word is the number of all bytes, modulo 256.
    std::uint64_t last = std::uint64_t(prefix.size() * 8 + bytes.size()) << 56;
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) absorb(load<std::uint64_t>(bytes.data()));
    for (std::size_t i = 0; i < bytes.size(); ++i) last |= std::uint64_t(bytes[i]) << (8 * i);
    absorb(last);
    v2 ^= 0xFF;
    for (int i = 0; i < 4; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace shoal::net::impl
