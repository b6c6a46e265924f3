#include "process.h"

#include "net/socket/system_random.h"
#include "text.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace shoal::demo {
namespace {

volatile std::sig_atomic_t stop = 0;

extern "C" void on_signal(int) {
    stop = stop == 0 ? 1 : 2;
}

}  // namespace

net::Time now() {
    return std::chrono::duration_cast<net::Time>(std::chrono::steady_clock::now().time_since_epoch());
}

std::uint64_t unix_time_s() {
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(since_1970).count());
}

net::Seed fresh_seed() {
    net::Seed seed;
    if (!net::fill_random(seed)) std::exit(fail("demo", "this system has no random numbers", 1));
    return seed;
}

std::uint64_t random_number() {
    return net::Entropy(fresh_seed()).next();
}

void catch_signals() {
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, on_signal);
#ifdef SIGHUP
    std::signal(SIGHUP, on_signal);
#endif
#ifdef SIGBREAK
    std::signal(SIGBREAK, on_signal);
#endif
}

bool should_stop() {
    return stop != 0;
}

int stop_signals() {
    return stop;
}

void wait(const net::Socket& socket, net::Time deadline) {
    const net::Time left = deadline - now();
    if (left > net::Time(0)) net::wait_readable(socket, left);
}

std::string beside(std::string_view argv0, std::string_view name) {
    return (std::filesystem::path(argv0).parent_path() / name).string();
}

int fail(std::string_view program, std::string_view why, int exit_code) {
    std::fprintf(stderr, "%s: %s\n", printable(program).c_str(), printable(why).c_str());
    return exit_code;
}

}  // namespace shoal::demo
