#include "entropy.h"

#include "../bytes.h"

namespace shoal::net::impl {

SecretKey OneTimeSeed::take() const {
    return key_ ? std::exchange(*key_, SecretKey()) : SecretKey();
}

OneTimeSeed::operator std::span<std::byte>() {
    if (key_.use_count() != 1) key_ = std::make_shared<SecretKey>(key_ ? *key_ : SecretKey());
    return key_->bytes();
}

std::uint64_t OneTimeSeed::number() const {
    if (is_missing()) return 0;
    constexpr std::byte kLabel{3};  // Entropy uses others
    return load<std::uint64_t>(blake2s({&kLabel, 1}, key_->bytes()).data());
}

SecretKey OneTimeSeed::secret() const {
    if (is_missing()) return {};
    constexpr std::byte kLabel{4};
    return derived_key(*key_, {&kLabel, 1});
}

SecretKey Entropy::next_key() {
    constexpr std::byte kOutput{1}, kState{2};
    const SecretKey output = derived_key(state_, {&kOutput, 1});
    state_ = derived_key(state_, {&kState, 1});
    return output;
}

std::uint64_t Entropy::next() {
    return load<std::uint64_t>(next_key().bytes().data());
}

}  // namespace shoal::net::impl
