#include "noise.h"

#include <algorithm>
#include <cassert>
#include <string_view>

namespace shoal::net::impl {
namespace {

// The first hash value is BLAKE2s of this name, because the name is longer than a hash. A shorter name would
// be padded with zeros instead.
constexpr std::string_view kName = "Noise_NK_25519_ChaChaPoly_BLAKE2s";
static_assert(kName.size() > sizeof(Bytes32));

}  // namespace

NoiseExchange::NoiseExchange(std::span<const std::byte> prologue, const PublicKey& responder)
    : hash_(blake2s(std::as_bytes(std::span(kName)))), chaining_key_(hash_), theirs_(responder) {
    mix_hash(prologue);
    mix_hash(responder);
}

void NoiseExchange::mix_hash(std::span<const std::byte> bytes) {
    std::array<std::byte, 32 + 1200> both;
    assert(bytes.size() <= both.size() - hash_.size());
    const auto end = std::ranges::copy(bytes, std::ranges::copy(hash_, both.begin()).out).out;
    hash_ = blake2s(std::span(both.begin(), end));
}

/// Derives new keys from the old ones and the secret shared with the other side. Returns false if the other
/// side's public key is a low-order point.
bool NoiseExchange::mix_agreement(const SecretKey& own) {
    SecretKey shared;
    const bool is_good = x25519(shared, own, theirs_);
    SecretKey outputs[2];
    hkdf(chaining_key_, shared.bytes(), outputs);
    chaining_key_ = outputs[0];
    key_ = outputs[1];
    return is_good;
}

// Each key seals only one text, so the nonce is always 0.

bool NoiseExchange::write(const SecretKey& ephemeral, std::span<std::byte> message) {
    assert(message.size() >= kNoiseOverheadBytes);
    const PublicKey key = x25519_public_key(ephemeral);
    std::ranges::copy(key, message.begin());
    mix_hash(key);
    if (!mix_agreement(ephemeral)) return false;
    seal(key_, nonce_from(0), hash_, noise_payload(message), message.last<kTagBytes>());
    mix_hash(message.subspan(kNoiseKeyBytes));
    return true;
}

bool NoiseExchange::read(const SecretKey& own, std::span<std::byte> message) {
    if (message.size() < kNoiseOverheadBytes) return false;
    NoiseExchange next = *this;
    std::copy_n(message.begin(), kNoiseKeyBytes, next.theirs_.begin());
    next.mix_hash(next.theirs_);
    if (!next.mix_agreement(own)) return false;
    const Bytes32 hash = next.hash_;
    next.mix_hash(message.subspan(kNoiseKeyBytes));  // before open() overwrites the ciphertext
    if (!open(next.key_, nonce_from(0), hash, noise_payload(message), message.last<kTagBytes>()))
        return false;
    *this = next;
    return true;
}

NoiseKeys NoiseExchange::split() const {
    SecretKey outputs[2];
    hkdf(chaining_key_, {}, outputs);
    return {outputs[0], outputs[1]};
}

}  // namespace shoal::net::impl
