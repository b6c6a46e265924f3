#pragma once
// Where the server keeps its key, and where clients on the same machine find what they need of it.

#include <optional>
#include <string>
#include <string_view>

#include "net/server_key.h"

namespace shoal::demo {

/// A key, or one line that says why there is none.
template <class Key>
struct KeyOrWhy {
    std::optional<Key> key;
    std::string why;
};

/// The file `name` in the folder of the program that was started as `argv0`.
std::string beside(std::string_view argv0, std::string_view name);

/// The private key in the file; if there is no such file, a new one in a file that only its owner can read.
KeyOrWhy<net::Key> load_or_make_private_key(const std::string& path);

/// False if the file cannot be written.
bool write_public_key(const std::string& path, const net::PublicKey& key);
KeyOrWhy<net::PublicKey> read_public_key(const std::string& path);

}  // namespace shoal::demo
