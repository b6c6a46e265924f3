#pragma once
// Options of servers and clients that notice a lost connection after a second.

#include <chrono>

#include "tests/replication/support/link.h"

namespace shoal::replication::impl {

/// The options with a short timeout. A player may come back within 5 s.
inline ServerOptions short_timeouts(ServerOptions options = Link::default_options()) {
    options.host.connection.timeout = std::chrono::seconds(1);
    options.host.connection.keep_alive = std::chrono::milliseconds(250);
    options.join.resume_time = std::chrono::seconds(5);
    return options;
}

inline ClientOptions short_timeouts_of_client() {
    ClientOptions options;
    options.net.connection.timeout = std::chrono::seconds(1);
    options.net.connection.keep_alive = std::chrono::milliseconds(250);
    return options;
}

}  // namespace shoal::replication::impl
