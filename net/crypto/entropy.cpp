#include "entropy.h"

#include "../bytes.h"

namespace shoal::net {

Key OneTimeSeed::take() const {
    if (!key_) return Key();
    const Key taken = *key_;
    *key_ = Key();
    return taken;
}

std::span<std::byte, kKeyBytes> OneTimeSeed::own() {
    if (key_.use_count() != 1) key_ = key_ ? std::make_shared<Key>(*key_) : std::make_shared<Key>();
    return key_->bytes();
}

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
    return load<std::uint64_t>(key.bytes().data());
}

}  // namespace shoal::net
