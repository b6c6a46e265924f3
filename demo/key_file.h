#pragma once
// Reads and writes the files with keys and tokens.

#include <optional>
#include <string>
#include <string_view>

#include "net/handshake/server_key.h"
#include "net/handshake/token.h"

namespace shoal::demo {

/// A key or token, or one line that says why there is none.
template <class Key>
struct KeyOrWhy {
    std::optional<Key> key;
    std::string why;
};

inline constexpr std::string_view kBackendKeyFile = "backend.key";  // shared by backend and servers
inline constexpr std::string_view kServerKeyFile = "server.key";

/// Returns the path of file `name` in the folder of the program that was started as `argv0`.
std::string beside(std::string_view argv0, std::string_view name);

/// Reads the private key. If the file does not exist, makes a key and a file that only its owner can read.
KeyOrWhy<net::Key> load_or_make_private_key(const std::string& path);

/// Returns false if the file cannot be written.
bool write_public_key(const std::string& path, const net::PublicKey& key);
KeyOrWhy<net::PublicKey> read_public_key(const std::string& path);

/// Reads what the backend printed, from a file or, if the path is "-", from standard input.
KeyOrWhy<net::ClientToken> read_token(const std::string& path);

}  // namespace shoal::demo
