#pragma once
// Counts the heap allocations of the whole test program.

#include <cstddef>

namespace shoal::test {

/// Number of calls of operator new so far, by all threads.
std::size_t allocations();
/// Bytes of memory that operator new has given and operator delete has not taken back.
std::size_t held_bytes();

}  // namespace shoal::test
