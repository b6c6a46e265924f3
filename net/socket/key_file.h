#pragma once
// Reads and writes the files with keys and tokens.

#include "../handshake/server_key.h"
#include "../handshake/token.h"

namespace shoal::net::impl {

/// A key or token, or one line that says why there is none.
template <class T>
struct KeyOrWhy {
    std::optional<T> key;
    std::string why;
};

/// Reads the private key. If the file does not exist, makes a key and a file that only its owner can read.
KeyOrWhy<SecretKey> load_or_make_private_key(const std::string& path);
KeyOrWhy<PublicKey> read_public_key(const std::string& path);

// Return false if the file cannot be written. Only its owner can read the file of write_private().
bool write_public_key(const std::string& path, const PublicKey& key);
bool write_private(const std::string& path, const std::string& bytes);

/// Reads a token as the backend prints it, from a file or, if the path is "-", from standard input.
KeyOrWhy<ClientToken> read_token(const std::string& path);

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::KeyOrWhy, impl::load_or_make_private_key, impl::read_public_key, impl::read_token,
    impl::write_private, impl::write_public_key;
}  // namespace shoal::net
