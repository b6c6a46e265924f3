#pragma once

namespace shoal::replication::all {

/// Begins to load memory that is needed soon, where the compiler has a way to say so. Any address is safe.
inline void prefetch(const void* memory) {
#if defined(__GNUC__)
    __builtin_prefetch(memory);
    asm volatile("");  // or g++ takes the callers for functions without effect, and removes the calls
#else
    static_cast<void>(memory);
#endif
}

}  // namespace shoal::replication::all
