#pragma once
// What a program has from its system: the time, the wish of its user to stop, and unpredictable bytes.

#include <string_view>

#include "net/crypto/entropy.h"
#include "net/socket/socket.h"

namespace shoal::demo {

/// Steady; microseconds since some moment in the past.
net::Time now();
/// Since 1970, as the wall's clock has it.
std::uint64_t unix_time_s();

/// For one connection endpoint, from the system's random source: never from a user's --seed.
net::Seed fresh_seed();
std::uint64_t random_number();

/// From here on SIGINT, SIGTERM and SIGHUP only set should_stop().
void catch_signals();
bool should_stop();

/// Returns when a datagram has come, a signal has, or it is `deadline`.
void wait(const net::Socket& socket, net::Time deadline);

/// Says why on one line of stderr; the text may come from the network. Returns `exit_code`.
int fail(std::string_view program, std::string_view why, int exit_code);

/// Turns a growing count of bytes into kB/s.
class Meter {
public:
    /// Since the last call, or the meter's beginning.
    double sample(std::uint64_t bytes, net::Time now) {
        const double elapsed_s = std::chrono::duration<double>(now - time_).count();
        const double added = bytes > bytes_ ? static_cast<double>(bytes - bytes_) : 0.0;
        bytes_ = bytes;
        time_ = now;
        return elapsed_s > 0 ? added / elapsed_s / 1000 : 0;
    }

private:
    std::uint64_t bytes_ = 0;
    net::Time time_ = now();
};

}  // namespace shoal::demo
