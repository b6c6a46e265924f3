#pragma once
// The pair of keys that tells a server from an impostor. The private one never leaves the server's machine;
// the public one is compiled into clients, or reaches them in a way that the game trusts. A new pair:
//
//     Key key;
//     if (!fill_random(key.bytes())) return ...;  // any 32 random bytes; see system_random.h
//     const PublicKey known = public_key(key);

#include <optional>
#include <string>
#include <string_view>

#include "../crypto/primitives.h"

namespace shoal::net {

inline PublicKey public_key(const Key& private_key) {
    return x25519_public_key(private_key);
}

/// That of every insecure server: everyone has it.
Key insecure_server_key();

/// Two digits for each byte.
std::string hex_of(std::span<const std::byte> bytes);
/// Fills `bytes`. False unless `text` is two hexadecimal digits for each of them and nothing else.
[[nodiscard]] bool read_hex(std::string_view text, std::span<std::byte> bytes);

/// 64 hexadecimal digits. For a private key the text is as secret as the key.
inline std::string to_text(const PublicKey& key) {
    return hex_of(key);
}
inline std::string to_secret_text(const Key& key) {
    return hex_of(key.bytes());
}

/// Nothing, unless `text` is 64 hexadecimal digits and nothing else.
std::optional<PublicKey> parse_public_key(std::string_view text);
std::optional<Key> parse_private_key(std::string_view text);

/// Whether all bytes are zero: what a config holds before it was given a key.
inline bool is_missing(const PublicKey& key) {
    return equal_in_constant_time(key, Bytes32{});
}
inline bool is_missing(const Key& key) {
    return equal_in_constant_time(key.bytes(), Bytes32{});
}

}  // namespace shoal::net
