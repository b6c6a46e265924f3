#include "siphash.h"

#include <bit>

#include "../bytes.h"

namespace shoal::net {
namespace {

struct State {
    std::uint64_t v0, v1, v2, v3;

    void round() {
        v0 += v1;
        v2 += v3;
        v1 = std::rotl(v1, 13) ^ v0;
        v3 = std::rotl(v3, 16) ^ v2;
        v0 = std::rotl(v0, 32);
        v2 += v1;
        v0 += v3;
        v1 = std::rotl(v1, 17) ^ v2;
        v3 = std::rotl(v3, 21) ^ v0;
        v2 = std::rotl(v2, 32);
    }
    void absorb(std::uint64_t word) {
        v3 ^= word;
        round();
        round();
        v0 ^= word;
    }
};

}  // namespace

std::uint64_t siphash(const SipKey& key, std::initializer_list<std::uint64_t> prefix,
                      std::span<const std::byte> bytes) {
    // The constants spell "somepseudorandomlygeneratedbytes".
    State state{key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d, key.low ^ 0x6c7967656e657261,
                key.high ^ 0x7465646279746573};
    for (const std::uint64_t word : prefix) state.absorb(word);
    const std::size_t whole = bytes.size() / 8 * 8;
    for (std::size_t i = 0; i < whole; i += 8) state.absorb(load<std::uint64_t>(bytes.data() + i));

    std::uint64_t last = std::uint64_t(prefix.size() * 8 + bytes.size()) << 56;
    for (std::size_t i = whole; i < bytes.size(); ++i) last |= std::uint64_t(bytes[i]) << (8 * (i - whole));
    state.absorb(last);

    state.v2 ^= 0xFF;
    for (int i = 0; i < 4; ++i) state.round();
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace shoal::net
