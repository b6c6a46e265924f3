#pragma once
// The key exchange Noise_NK_25519_ChaChaPoly_BLAKE2s: the initiator knows the responder's public key in
// advance, and proves no identity of its own. Source: the Noise protocol framework, revision 34; in its
// notation <- s ... -> e, es <- e, ee. Both messages are an ephemeral public key of 32 bytes, a payload and a
// tag, sealed and opened in place; the caller leaves room for key and tag.

#include "primitives.h"

namespace shoal::net::impl {

constexpr std::size_t kNoiseKeyBytes = kKeyBytes;                   // key, at the start of each message
constexpr std::size_t kNoiseOverheadBytes = kKeyBytes + kTagBytes;  // bytes of a message without its payload

/// The payload of a message, before sealing or after opening.
inline std::span<std::byte> noise_payload(std::span<std::byte> message) {
    return message.subspan(kNoiseKeyBytes, message.size() - kNoiseOverheadBytes);
}

/// The result of the exchange: one key for each direction.
struct NoiseKeys {
    SecretKey to_responder;
    SecretKey to_initiator;
};

/// One side of an exchange. The initiator writes message 1 and reads message 2; the responder reads and
/// writes.
class NoiseExchange {
public:
    /// `prologue`: at most 1,200 bytes that both sides know and must agree on; not sent.
    NoiseExchange(std::span<const std::byte> prologue, const PublicKey& responder);

    /// Encrypts the payload, which is already at noise_payload(message), and writes the key and the tag of
    /// the message. `ephemeral`: a private key, fresh for each exchange, never used with two prologues or
    /// payloads. Returns false if the other side's public key is a low-order point; that cannot happen after
    /// read().
    [[nodiscard]] bool write(const SecretKey& ephemeral, std::span<std::byte> message);
    /// Decrypts the payload of a message in place. `own`: the responder's private key, or the initiator's
    /// ephemeral key. Returns false, without effect, if the message is forged or for another key or exchange:
    /// the genuine message may still come.
    [[nodiscard]] bool read(const SecretKey& own, std::span<std::byte> message);
    /// Returns the keys. Requires that this side wrote one message and read the other.
    NoiseKeys split() const;

private:
    void mix_hash(std::span<const std::byte> bytes);
    bool mix_agreement(const SecretKey& own);

    Bytes32 hash_;  // of protocol name, prologue, the responder's public key and all messages so far
    SecretKey chaining_key_, key_;
    PublicKey theirs_;
};

}  // namespace shoal::net::impl
