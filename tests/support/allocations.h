#pragma once
// Counts the heap allocations of the whole test program.

#include <cstddef>

namespace shoal::test {

/// Number of calls of operator new so far, by all threads.
std::size_t allocations();

}  // namespace shoal::test
