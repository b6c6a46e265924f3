#include "system_random.h"

#include <algorithm>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
// Must follow <windows.h>.
#include <bcrypt.h>
#ifdef _MSC_VER
#pragma comment(lib, "bcrypt.lib")
#endif
#else
#if __has_include(<sys/random.h>)
#include <sys/random.h>
#endif
#include <unistd.h>
#endif

namespace shoal::net {
namespace {

constexpr std::size_t kMostAtOnce = 256;  // what every system gives whole or not at all

bool fill_some(std::span<std::byte> bytes) {
#if defined(_WIN32)
    return BCryptGenRandom(nullptr, reinterpret_cast<PUCHAR>(bytes.data()), static_cast<ULONG>(bytes.size()),
                           BCRYPT_USE_SYSTEM_PREFERRED_RNG) >= 0;
#else
    return getentropy(bytes.data(), bytes.size()) == 0;
#endif
}

}  // namespace

bool fill_random(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const std::size_t size = std::min(bytes.size(), kMostAtOnce);
        if (!fill_some(bytes.first(size))) return false;
        bytes = bytes.subspan(size);
    }
    return true;
}

}  // namespace shoal::net
