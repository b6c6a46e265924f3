#include "noise.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>

namespace shoal::net {
namespace {

constexpr std::string_view kName = "Noise_NK_25519_ChaChaPoly_BLAKE2s";
constexpr std::string_view kNameWithSecret = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

PublicKey public_key_in(std::span<const std::byte> message) {
    PublicKey key;
    std::copy_n(message.begin(), key.size(), key.begin());
    return key;
}

/// Puts the public half of `ephemeral` at the head of `message`, and into the state.
void write_public_key(NoiseState& state, const Key& ephemeral, std::span<std::byte> message) {
    const PublicKey key = x25519_public_key(ephemeral);
    std::copy(key.begin(), key.end(), message.begin());
    state.mix_ephemeral(key);
}

/// Mixes in the secret that both sides can compute. False if one of the keys is none.
bool mix_agreement(NoiseState& state, const Key& private_key, const PublicKey& public_key) {
    Key shared;
    const bool is_good = x25519(shared, private_key, public_key);
    state.mix_key(shared);
    return is_good;
}

}  // namespace

// The names are longer than a hash, so each starts as one.
NoiseState::NoiseState(std::string_view name, std::span<const std::byte> prologue)
    : hash_(blake2s(std::as_bytes(std::span(name)))), chaining_key_(hash_) {
    static_assert(kName.size() > sizeof(Bytes32) && kNameWithSecret.size() > sizeof(Bytes32));
    mix_hash(prologue);
}

NoiseState::NoiseState(std::span<const std::byte> prologue, const PublicKey& responder)
    : NoiseState(kName, prologue) {
    mix_hash(responder);
}

// The secret is the first thing in the first message, so it can as well be mixed in here.
NoiseState::NoiseState(std::span<const std::byte> prologue, const Key& secret)
    : NoiseState(kNameWithSecret, prologue) {
    std::array<Key, 3> outputs;
    hkdf(chaining_key_, secret.bytes(), outputs);
    chaining_key_ = outputs[0];
    mix_hash(outputs[1].bytes());
    key_ = outputs[2];
    has_secret_ = true;
}

void NoiseState::mix_hash(std::span<const std::byte> bytes) {
    // The hash of both together; what is mixed in fits into a datagram.
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

void NoiseState::mix_ephemeral(const PublicKey& key) {
    mix_hash(key);
    if (has_secret_) mix_key(Key(key));
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
    if (!state_.has_secret() && !mix_agreement(state_, ephemeral_, responder_)) return false;
    state_.encrypt_and_hash(message.subspan(kNoiseKeyBytes));
    return true;
}

bool NoiseInitiator::read(std::span<std::byte> message) {
    if (message.size() < kNoiseOverheadBytes) return false;
    NoiseState next = state_;
    const PublicKey theirs = public_key_in(message);
    next.mix_ephemeral(theirs);
    if (!mix_agreement(next, ephemeral_, theirs)) return false;
    if (!next.decrypt_and_hash(message.subspan(kNoiseKeyBytes))) return false;
    state_ = next;
    return true;
}

bool NoiseResponder::read(const Key& private_key, std::span<std::byte> message) {
    if (message.size() < kNoiseOverheadBytes) return false;
    initiator_ = public_key_in(message);
    state_.mix_ephemeral(initiator_);
    if (!state_.has_secret() && !mix_agreement(state_, private_key, initiator_)) return false;
    return state_.decrypt_and_hash(message.subspan(kNoiseKeyBytes));
}

bool NoiseResponder::write(const Key& ephemeral, std::span<std::byte> message) {
    assert(message.size() >= kNoiseOverheadBytes);
    write_public_key(state_, ephemeral, message);
    if (!mix_agreement(state_, ephemeral, initiator_)) return false;
    state_.encrypt_and_hash(message.subspan(kNoiseKeyBytes));
    return true;
}

}  // namespace shoal::net
