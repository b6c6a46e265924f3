#include "entropy.h"

#include "../bytes.h"

namespace shoal::net {

Key OneTimeSeed::take() const {
    return key_ ? std::exchange(*key_, Key()) : Key();
}

OneTimeSeed::operator std::span<std::byte>() {
    if (key_.use_count() != 1) key_ = std::make_shared<Key>(key_ ? *key_ : Key());
    return key_->bytes();
}

std::uint64_t OneTimeSeed::number() const {
    if (is_missing()) return 0;
    constexpr std::byte kLabel{3};  // Entropy uses others
    return load<std::uint64_t>(blake2s({&kLabel, 1}, key_->bytes()).data());
}

Key OneTimeSeed::secret() const {
    if (is_missing()) return {};
    constexpr std::byte kLabel{4};
    return derived_key(*key_, {&kLabel, 1});
}

Key Entropy::next_key() {
    constexpr std::byte kOutput{1}, kState{2};
    const Key output = derived_key(state_, {&kOutput, 1});
    state_ = derived_key(state_, {&kState, 1});
    return output;
}

std::uint64_t Entropy::next() {
    return load<std::uint64_t>(next_key().bytes().data());
}

}  // namespace shoal::net
