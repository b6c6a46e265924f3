#pragma once
// Process functions of the benchmarks: CPU time, memory, pinning to a CPU, child processes. POSIX; pinning
// and memory only on Linux.

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "net/endpoint.h"

namespace net_bench {

using shoal::net::Duration;
using shoal::net::Time;

[[noreturn]] inline void fail(const std::string& why) {
    std::fprintf(stderr, "net: %s\n", why.c_str());
    std::exit(2);
}

inline Time wall_now() {
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

inline void sleep_until(Time when) {
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(when));
}

inline double seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
}

inline Duration from_seconds(double value) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

/// User and system CPU time of this process.
inline double cpu_us() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto us = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
    };
    return us(usage.ru_utime) + us(usage.ru_stime);
}

/// Pins the calling thread to a CPU while this object lives; no effect where that is not possible.
class Pin {
public:
    explicit Pin([[maybe_unused]] int cpu) {
#ifdef __linux__
        is_known_ = sched_getaffinity(0, sizeof before_, &before_) == 0;
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<std::size_t>(cpu), &set);
        sched_setaffinity(0, sizeof set, &set);
#endif
    }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    ~Pin() {
#ifdef __linux__
        if (is_known_) sched_setaffinity(0, sizeof before_, &before_);
#endif
    }

#ifdef __linux__
private:
    cpu_set_t before_;
    bool is_known_ = false;
#endif
};

/// Resident memory in bytes; 0 if unknown.
inline double resident_bytes() {
    constexpr std::string_view kField = "VmRSS:";
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.compare(0, kField.size(), kField) == 0) return std::stod(line.substr(kField.size())) * 1024;
    return 0;
}

/// Bytes in use on the heap; 0 if unknown.
inline double heap_bytes() {
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 33)
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
#endif
#endif
    return 0;
}

/// Raises the limit of file descriptors to the maximum.
inline void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/// A child process that runs `fn`. The destructor kills it if it still runs.
class Child {
public:
    template <class Fn>
    explicit Child(Fn&& fn) {
        std::fflush(stdout);
        pid_ = fork();
        if (pid_ < 0) fail("fork");
        if (pid_ > 0) return;
        fn();
        std::fflush(stdout);
        _exit(0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    /// Waits for its end. Returns whether it succeeded.
    bool wait() {
        int status = 0;
        const bool is_gone = waitpid(pid_, &status, 0) == pid_;
        pid_ = 0;
        return is_gone && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }

private:
    pid_t pid_ = 0;
};

/// A T in memory that this process shares with its later children.
template <class T>
class Shared {
public:
    Shared() {
        void* const memory =
            mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) fail("mmap");
        value_ = new (memory) T{};
    }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() { munmap(value_, sizeof(T)); }
    T& operator*() { return *value_; }
    T* operator->() { return value_; }

private:
    T* value_ = nullptr;
};

/// Runs `fn` in a new process, and returns its result.
template <class Fn>
auto in_child(Fn&& fn) {
    using T = decltype(fn());
    static_assert(std::is_trivially_copyable_v<T>);
    Shared<T> result;
    Child child([&] { *result = fn(); });
    if (!child.wait()) std::exit(2);  // the child has printed the reason
    return *result;
}

}  // namespace net_bench
