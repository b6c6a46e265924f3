#pragma once
// What a program needs from the operating system: time, signals, random bytes, standard error.

#include <string>
#include <string_view>

#include "net/crypto/entropy.h"
#include "net/socket/socket.h"

namespace shoal::demo {

/// Time of the steady clock, in microseconds.
net::Time now();
/// Seconds since 1970, by the system clock.
std::uint64_t unix_time_s();

/// A new seed for one endpoint, from the system's random source. Ends the program if there is none.
net::Seed fresh_seed();
std::uint64_t random_number();

/// After this call SIGINT, SIGTERM and SIGHUP (on Windows: Ctrl-C and Ctrl-Break) only make should_stop()
/// true.
void catch_signals();
bool should_stop();
/// Returns how many signals came since catch_signals(); at most 2.
int stop_signals();

/// Returns when a datagram arrives, a signal arrives, or at `deadline`.
void wait(const net::Socket& socket, net::Time deadline);

inline constexpr std::string_view kBackendKeyFile = "backend.key";  // shared by backend and servers
inline constexpr std::string_view kServerKeyFile = "server.key";

/// Returns the path of file `name` in the folder of the program that was started as `argv0`.
std::string beside(std::string_view argv0, std::string_view name);

/// Prints one line to standard error, and returns `exit_code`. The text may come from the network.
int fail(std::string_view program, std::string_view why, int exit_code);

/// Turns a growing count of bytes into kB/s.
class Meter {
public:
    /// Returns the mean rate since the last call, or since the construction. `bytes`: the count now.
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
