#pragma once
// The pair of keys by which clients recognise a server. The private key stays on the server's machine. The
// public key is compiled into clients, or sent to them in a way that the game trusts. To make a new pair:
//
//     SecretKey key;
//     if (!fill_random(key.bytes())) return ...;  // any 32 random bytes; see system_random.h
//     const PublicKey known = public_key(key);

#include <optional>
#include <string>

#include "../crypto/primitives.h"

namespace shoal::net::impl {

inline PublicKey public_key(const SecretKey& private_key) {
    return x25519_public_key(private_key);
}

/// The private key of every insecure server; known to everyone.
SecretKey insecure_server_key();

/// Returns two hexadecimal digits for each byte.
std::string hex_of(std::span<const std::byte> bytes);
/// Returns false unless `text` is exactly two hexadecimal digits for each byte.
[[nodiscard]] bool read_hex(std::string_view text, std::span<std::byte> bytes);

/// Returns 64 hexadecimal digits. The text of a private key is as secret as the key.
inline std::string to_text(const PublicKey& key) {
    return hex_of(key);
}
inline std::string to_secret_text(const SecretKey& key) {
    return hex_of(key.bytes());
}

/// Returns nothing unless `text` is exactly 64 hexadecimal digits.
std::optional<PublicKey> parse_public_key(std::string_view text);
std::optional<SecretKey> parse_private_key(std::string_view text);

/// Returns whether all bytes are zero, as in a config without a key.
inline bool is_missing(const PublicKey& key) {
    return equal_in_constant_time(key, Bytes32{});
}
inline bool is_missing(const SecretKey& key) {
    return equal_in_constant_time(key.bytes(), Bytes32{});
}

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::Bytes32, impl::parse_private_key, impl::parse_public_key, impl::public_key, impl::PublicKey,
    impl::SecretKey, impl::to_secret_text, impl::to_text;
using Key = SecretKey;  // its former name
}  // namespace shoal::net
