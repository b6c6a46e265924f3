#pragma once
// Real sockets and the real clock, for the few tests that need them.

#include <chrono>
#include <utility>

#include "net/socket/socket.h"

namespace shoal::net::impl {

inline const Address kLoopback = Address::ipv4(127, 0, 0, 1, 0);

inline Time real_now() {
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

inline Socket open_socket(const SocketConfig& config = {}) {
    return std::move(Socket::open(kLoopback, config).value());
}

}  // namespace shoal::net::impl
