#pragma once
// Cryptographic primitives: ChaCha20-Poly1305, X25519, BLAKE2s, and Noise's key derivation. Nobody has
// audited this code. To use another library, replace primitives.cpp with a file that defines the same
// functions. Time and memory access depend on lengths, never on secret values (`make secrets` checks this),
// except for the result of open(). Assumes that the processor multiplies in constant time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal::net::impl {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kTagBytes = 16;

using Bytes32 = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 12>;
using Tag = std::array<std::byte, kTagBytes>;
using PublicKey = std::array<std::byte, kKeyBytes>;

/// Overwrites with zeros. The compiler cannot remove this, even if nobody reads the bytes later.
void wipe(std::span<std::byte> bytes);

/// Takes the same time wherever the bytes differ. Returns false if the sizes differ.
[[nodiscard]] bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b);

/// 32 secret bytes, zero at first. The destructor wipes them. Not comparable and not printable, on purpose.
class SecretKey {
public:
    SecretKey() = default;
    explicit SecretKey(std::span<const std::byte, kKeyBytes> bytes) {
        for (std::size_t i = 0; i < kKeyBytes; ++i) bytes_[i] = bytes[i];
    }
    SecretKey(const SecretKey&) = default;
    SecretKey& operator=(const SecretKey&) = default;
    ~SecretKey() { wipe(bytes_); }

    std::span<const std::byte, kKeyBytes> bytes() const { return bytes_; }
    std::span<std::byte, kKeyBytes> bytes() { return bytes_; }

private:
    Bytes32 bytes_{};
};

// ChaCha20-Poly1305. Source: RFC 8439. At most 2^32 - 1 blocks of 64 bytes per call.

/// Four zero bytes, then the number, little-endian, as in the Noise protocol.
inline Nonce nonce_from(std::uint64_t number) {
    Nonce nonce{};
    for (std::size_t i = 0; i < 8; ++i) nonce[4 + i] = std::byte(number >> (8 * i) & 0xFF);
    return nonce;
}

/// Encrypts `text` in place, and writes the tag of it and of `associated`, which is not encrypted. Use each
/// nonce once per key: a second use reveals both texts and allows forgeries. The three spans must not
/// overlap.
void seal(const SecretKey& key, const Nonce& nonce, std::span<const std::byte> associated,
          std::span<std::byte> text, std::span<std::byte, kTagBytes> tag);

/// Decrypts `text` in place. Returns false, leaving `text` unchanged, if any bit of an argument differs from
/// the argument or result of seal().
[[nodiscard]] bool open(const SecretKey& key, const Nonce& nonce, std::span<const std::byte> associated,
                        std::span<std::byte> text, std::span<const std::byte, kTagBytes> tag);

// Key agreement on Curve25519. Source: RFC 7748. A private key is any 32 random bytes.

PublicKey x25519_public_key(const SecretKey& private_key);

/// Writes to `shared` the secret that both sides compute, each from its private and the other's public key.
/// Hash it before use. Returns false and zeros if the public key is a low-order point: end the handshake.
/// `shared` and `private_key` may be the same object.
[[nodiscard]] bool x25519(SecretKey& shared, const SecretKey& private_key, const PublicKey& public_key);

// Hashes. Sources: RFC 7693 (BLAKE2s-256), the Noise protocol, revision 34 (HKDF, of the HMAC of RFC 2104).

/// With a `key` of 1 to 32 bytes the hash is a message authentication code.
Bytes32 blake2s(std::span<const std::byte> bytes, std::span<const std::byte> key = {});
/// Derives a key for one purpose: the hash of `purpose` under the key `from`. It does not reveal `from`.
SecretKey derived_key(const SecretKey& from, std::span<const std::byte> purpose);

/// Noise's HKDF(chaining_key, input, outputs.size()); 2 or 3 outputs. An output may be the same object as
/// `chaining_key`.
void hkdf(const SecretKey& chaining_key, std::span<const std::byte> input, std::span<SecretKey> outputs);

}  // namespace shoal::net::impl
