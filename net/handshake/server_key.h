#pragma once
// The pair of keys that tells a server from an impostor. The private one never leaves the server's machine;
// the public one is compiled into clients, or reaches them in a way that the game trusts.

#include <optional>
#include <string>
#include <string_view>

#include "../crypto/entropy.h"

namespace shoal::net {

/// A new private key, from a source like std::random_device, called 32 times.
template <class Random>
Key make_server_key(Random& random) {
    return Key(make_seed(random));
}

inline PublicKey public_key(const Key& private_key) {
    return x25519_public_key(private_key);
}

/// 64 hexadecimal digits. For a private key the text is as secret as the key.
std::string to_text(const PublicKey& key);
std::string to_secret_text(const Key& key);

/// Nothing, unless `text` is 64 hexadecimal digits and nothing else.
std::optional<PublicKey> parse_public_key(std::string_view text);
std::optional<Key> parse_private_key(std::string_view text);

/// Whether all bytes are zero: what a config holds before it was given a key.
bool is_missing(const PublicKey& key);
bool is_missing(const Key& key);

}  // namespace shoal::net
