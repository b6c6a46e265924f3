#pragma once
// The private key of every server in the tests, and its public key.

#include "net/client.h"
#include "net/host.h"

namespace shoal::net::impl {

inline const SecretKey& server_key() {
    static const SecretKey key = [] {
        Bytes32 bytes{};
        bytes[0] = std::byte(0x77);
        return SecretKey(bytes);
    }();
    return key;
}
inline void give_key(HostConfig& config) {
    config.key = server_key();
}
inline void give_key(ClientConfig& config) {
    static const PublicKey known = public_key(server_key());
    config.server_key = known;
}

}  // namespace shoal::net::impl
