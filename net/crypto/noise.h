#pragma once
// The key exchange Noise_NK_25519_ChaChaPoly_BLAKE2s: the initiator knows the responder's public key in
// advance, and proves no identity of its own. Source: the Noise protocol framework, revision 34.
//
//   <- s   ...   -> e, es   <- e, ee
//
// Both messages have the same form: a public key of 32 bytes, a payload, a tag. They are sealed and opened in
// place; the caller leaves room for key and tag.

#include "primitives.h"

namespace shoal::net {

/// The offset of the payload in a message; the size of a message less that of its payload.
constexpr std::size_t kNoiseKeyBytes = kKeyBytes;
constexpr std::size_t kNoiseOverheadBytes = kKeyBytes + kTagBytes;

/// The payload of a message, before sealing or after opening.
inline std::span<std::byte> noise_payload(std::span<std::byte> message) {
    return message.subspan(kNoiseKeyBytes, message.size() - kNoiseOverheadBytes);
}

/// The result of the exchange: one key for each direction.
struct NoiseKeys {
    Key to_responder;
    Key to_initiator;
};

/// One side of an exchange. The initiator writes message 1 and reads message 2, both with its ephemeral key.
/// The responder reads message 1 with its private key and writes message 2 with an ephemeral key.
class NoiseExchange {
public:
    /// `prologue`: at most 1,200 bytes that both sides know and must agree on; not sent.
    NoiseExchange(std::span<const std::byte> prologue, const PublicKey& responder);

    /// Seals a message around its payload, which is already at noise_payload(message). `ephemeral`: fresh for
    /// each exchange, never used with two prologues or payloads. Returns false if the other side's public key
    /// is a low-order point; that cannot happen after read().
    [[nodiscard]] bool write(const Key& ephemeral, std::span<std::byte> message);
    /// Opens a message. Returns false, without effect, if it is forged or for another key or exchange: the
    /// genuine message may still come.
    [[nodiscard]] bool read(const Key& own, std::span<std::byte> message);
    /// Requires that both messages were written or read.
    NoiseKeys split() const;

private:
    void mix_hash(std::span<const std::byte> bytes);
    bool mix_agreement(const Key& own);

    Bytes32 hash_;  // of all data so far
    Key chaining_key_, key_;
    PublicKey theirs_;
};

}  // namespace shoal::net
