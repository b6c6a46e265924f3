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

namespace shoal::net::impl {

bool fill_random(std::span<std::byte> bytes) {
#ifdef _WIN32
    const auto is_filled = [](auto* data, std::size_t size) {
        return BCryptGenRandom(nullptr, reinterpret_cast<PUCHAR>(data), static_cast<ULONG>(size),
                               BCRYPT_USE_SYSTEM_PREFERRED_RNG) >= 0;
    };
#else
    const auto is_filled = [](auto* data, std::size_t size) { return getentropy(data, size) == 0; };
#endif
    while (!bytes.empty()) {
        const std::size_t size = std::min<std::size_t>(bytes.size(), 256);  // the maximum of getentropy
        if (!is_filled(bytes.data(), size)) return false;
        bytes = bytes.subspan(size);
    }
    return true;
}

}  // namespace shoal::net::impl
