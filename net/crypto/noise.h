#pragma once
// A key exchange, Noise_NK_25519_ChaChaPoly_BLAKE2s: the initiator knows the responder's public key
// beforehand, and proves nothing about himself.
// Source: the Noise protocol framework, revision 34.
//
//   <- s   ...   -> e, es   <- e, ee
//
// Both messages have the same form: 32 bytes of public key, a payload, a tag. They are sealed and opened
// where they are; the caller leaves the room.

#include "primitives.h"

namespace shoal::net {

/// Where the payload of a message starts, and how much longer the message is.
constexpr std::size_t kNoiseKeyBytes = kKeyBytes;
constexpr std::size_t kNoiseOverheadBytes = kKeyBytes + kTagBytes;

/// The payload's place in a message, before sealing and after opening.
inline std::span<std::byte> noise_payload(std::span<std::byte> message) {
    return message.subspan(kNoiseKeyBytes, message.size() - kNoiseOverheadBytes);
}

/// For what follows the two messages: one key for each direction.
struct NoiseKeys {
    Key to_responder;
    Key to_initiator;
};

/// One side of an exchange. The initiator writes message 1 and reads message 2, both with his ephemeral key;
/// the responder reads message 1 with his private key and writes message 2 with an ephemeral one.
class NoiseExchange {
public:
    /// `prologue`, at most 1,200 bytes, is what both know and must agree on, though nobody sends it.
    NoiseExchange(std::span<const std::byte> prologue, const PublicKey& responder);

    /// Seals a message around its payload, which is already at noise_payload(message). `ephemeral` is fresh
    /// for each exchange, and never serves with two prologues or payloads. False if the responder's public
    /// key is a low-order point; never for message 2.
    [[nodiscard]] bool write(const Key& ephemeral, std::span<std::byte> message);
    /// Opens a message. False, with nothing changed, if it is forged, or meant for another key or exchange:
    /// the true one may still come.
    [[nodiscard]] bool read(const Key& own, std::span<std::byte> message);
    /// After both.
    NoiseKeys split() const;

private:
    void mix_hash(std::span<const std::byte> bytes);
    bool mix_agreement(const Key& own);

    Bytes32 hash_;  // of all that was said
    Key chaining_key_, key_;
    PublicKey theirs_;
};

}  // namespace shoal::net
