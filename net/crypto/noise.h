#pragma once
// A key exchange, Noise_NK_25519_ChaChaPoly_BLAKE2s: the initiator knows the responder's public key
// beforehand, and proves nothing about himself.
// Source: the Noise protocol framework, revision 34.
//
//   <- s   ...   -> e, es   <- e, ee
//
// Both messages have the same form: 32 bytes of public key, a payload, a tag. They are sealed and opened
// where they are; the caller leaves the room.

#include <cstddef>
#include <cstdint>
#include <span>

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

/// What both sides of an exchange compute alike: Noise's symmetric state.
class NoiseState {
public:
    /// `prologue` is what both know and must agree on, though nobody sends it.
    NoiseState(std::span<const std::byte> prologue, const PublicKey& responder);

    /// At most 1,200 bytes.
    void mix_hash(std::span<const std::byte> bytes);
    void mix_key(const Key& input);
    /// The last kTagBytes of `text` are room for the tag.
    void encrypt_and_hash(std::span<std::byte> text);
    /// False, with nothing changed, if this is not what the other side encrypted.
    [[nodiscard]] bool decrypt_and_hash(std::span<std::byte> text);
    NoiseKeys split() const;

private:
    Bytes32 hash_;  // of all that was said
    Key chaining_key_;
    Key key_;
    std::uint64_t nonce_ = 0;
};

/// The client. Messages must have more than kNoiseOverheadBytes.
class NoiseInitiator {
public:
    /// `ephemeral` is fresh for each exchange, and never serves with two prologues or payloads.
    NoiseInitiator(std::span<const std::byte> prologue, const PublicKey& responder, const Key& ephemeral)
        : state_(prologue, responder), responder_(responder), ephemeral_(ephemeral) {}

    /// Encrypts message 1 in place; the payload is already at noise_payload(message). Call it once. Returns
    /// false if the responder's public key is a low-order point.
    [[nodiscard]] bool write(std::span<std::byte> message);
    /// Opens message 2. False, with nothing changed but `message`, if it is not an answer to message 1 from
    /// the owner of the key: the true one may still come.
    [[nodiscard]] bool read(std::span<std::byte> message);
    /// After both.
    NoiseKeys split() const { return state_.split(); }

private:
    NoiseState state_;
    PublicKey responder_;
    Key ephemeral_;
};

/// The server.
class NoiseResponder {
public:
    NoiseResponder(std::span<const std::byte> prologue, const PublicKey& public_key)
        : state_(prologue, public_key) {}

    /// Opens message 1. After false, with `message` untouched, nothing more may be asked.
    [[nodiscard]] bool read(const Key& private_key, std::span<std::byte> message);
    /// Seals message 2 around its payload. Once.
    void write(const Key& ephemeral, std::span<std::byte> message);
    NoiseKeys split() const { return state_.split(); }

private:
    NoiseState state_;
    PublicKey initiator_{};  // the client's ephemeral key
};

}  // namespace shoal::net
