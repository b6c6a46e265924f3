#include "process.h"

#include "message.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>

namespace shoal::demo {
namespace {

volatile std::sig_atomic_t stop = 0;

extern "C" void on_signal(int) {
    stop = 1;
}

}  // namespace

net::Time now() {
    return std::chrono::duration_cast<net::Time>(std::chrono::steady_clock::now().time_since_epoch());
}

net::Seed fresh_seed() {
    std::random_device random;
    net::Seed seed;
    for (std::byte& byte : seed) byte = static_cast<std::byte>(random());
    return seed;
}

std::uint64_t random_number() {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
}

void catch_signals() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, on_signal);
}

bool should_stop() {
    return stop != 0;
}

void wait(const net::Socket& socket, net::Time deadline) {
    using Milliseconds = std::chrono::duration<int, std::milli>;
    const net::Time left = deadline - now();
    if (left <= net::Time(0)) return;
    pollfd waiting{static_cast<int>(socket.handle()), POLLIN, 0};
    poll(&waiting, 1, std::chrono::ceil<Milliseconds>(left).count());
}

int fail(std::string_view program, std::string_view why, int exit_code) {
    std::fprintf(stderr, "%s: %s\n", printable(program).c_str(), printable(why).c_str());
    return exit_code;
}

}  // namespace shoal::demo
