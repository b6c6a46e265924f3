#include "noise.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>

namespace shoal::net {
namespace {

// Longer than a hash, so the first hash is that of the name.
constexpr std::string_view kName = "Noise_NK_25519_ChaChaPoly_BLAKE2s";
static_assert(kName.size() > sizeof(Bytes32));

PublicKey public_key_in(std::span<const std::byte> message) {
    PublicKey key;
    std::copy_n(message.begin(), key.size(), key.begin());
    return key;
}

/// Puts the public half of `ephemeral` at the head of `message`, and into the state.
void write_public_key(NoiseState& state, const Key& ephemeral, std::span<std::byte> message) {
    const PublicKey key = x25519_public_key(ephemeral);
    std::copy(key.begin(), key.end(), message.begin());
    state.mix_hash(key);
}

/// Mixes in the secret that both sides can compute. False if the public key is a low-order point.
bool mix_agreement(NoiseState& state, const Key& private_key, const PublicKey& public_key) {
    Key shared;
    const bool is_good = x25519(shared, private_key, public_key);
    state.mix_key(shared);
    return is_good;
}

}  // namespace

NoiseState::NoiseState(std::span<const std::byte> prologue, const PublicKey& responder)
    : hash_(blake2s(std::as_bytes(std::span(kName)))), chaining_key_(hash_) {
    mix_hash(prologue);
    mix_hash(responder);
}

void NoiseState::mix_hash(std::span<const std::byte> bytes) {
    std::array<std::byte, 32 + 1200> both;
    assert(bytes.size() <= both.size() - hash_.size());
    const auto end =
        std::copy(bytes.begin(), bytes.end(), std::copy(hash_.begin(), hash_.end(), both.begin()));
    hash_ = blake2s(std::span(both.begin(), end));
}

void NoiseState::mix_key(const Key& input) {
    std::array<Key, 2> outputs;
    hkdf(chaining_key_, input.bytes(), outputs);
    chaining_key_ = outputs[0];
    key_ = outputs[1];
    nonce_ = 0;
}

void NoiseState::encrypt_and_hash(std::span<std::byte> text) {
    assert(text.size() >= kTagBytes);
    seal(key_, nonce_from(nonce_++), hash_, text.first(text.size() - kTagBytes), text.last<kTagBytes>());
    mix_hash(text);
}

bool NoiseState::decrypt_and_hash(std::span<std::byte> text) {
    assert(text.size() >= kTagBytes);
    NoiseState next = *this;
    next.mix_hash(text);
    next.nonce_ += 1;
    if (!open(key_, nonce_from(nonce_), hash_, text.first(text.size() - kTagBytes), text.last<kTagBytes>()))
        return false;
    *this = next;
    return true;
}

NoiseKeys NoiseState::split() const {
    std::array<Key, 2> outputs;
    hkdf(chaining_key_, {}, outputs);
    return {outputs[0], outputs[1]};
}

bool NoiseInitiator::write(std::span<std::byte> message) {
    assert(message.size() >= kNoiseOverheadBytes);
    write_public_key(state_, ephemeral_, message);
    if (!mix_agreement(state_, ephemeral_, responder_)) return false;
    state_.encrypt_and_hash(message.subspan(kNoiseKeyBytes));
    return true;
}

bool NoiseInitiator::read(std::span<std::byte> message) {
    if (message.size() < kNoiseOverheadBytes) return false;
    NoiseState next = state_;
    const PublicKey theirs = public_key_in(message);
    next.mix_hash(theirs);
    if (!mix_agreement(next, ephemeral_, theirs)) return false;
    if (!next.decrypt_and_hash(message.subspan(kNoiseKeyBytes))) return false;
    state_ = next;
    return true;
}

bool NoiseResponder::read(const Key& private_key, std::span<std::byte> message) {
    if (message.size() < kNoiseOverheadBytes) return false;
    initiator_ = public_key_in(message);
    state_.mix_hash(initiator_);
    return mix_agreement(state_, private_key, initiator_) &&
           state_.decrypt_and_hash(message.subspan(kNoiseKeyBytes));
}

void NoiseResponder::write(const Key& ephemeral, std::span<std::byte> message) {
    assert(message.size() >= kNoiseOverheadBytes);
    write_public_key(state_, ephemeral, message);
    const bool is_good = mix_agreement(state_, ephemeral, initiator_);
    assert(is_good);  // read() refused low-order points, whatever the private key
    (void)is_good;
    state_.encrypt_and_hash(message.subspan(kNoiseKeyBytes));
}

}  // namespace shoal::net
