#include "entropy.h"

namespace shoal::net {

Key Entropy::next_key() {
    constexpr std::array kOutput{std::byte(1)};
    constexpr std::array kNextState{std::byte(2)};
    const auto derive = [this](std::span<const std::byte> label) {
        Bytes32 hash = blake2s(label, state_.bytes());
        const Key key(hash);
        wipe(hash);
        return key;
    };
    const Key output = derive(kOutput);
    state_ = derive(kNextState);
    return output;
}

std::uint64_t Entropy::next() {
    const Key key = next_key();
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < 8; ++i) number |= std::uint64_t(key.bytes()[i]) << (8 * i);
    return number;
}

}  // namespace shoal::net
