#pragma once
// Counts heap allocations of the whole test binary, to prove that a steady state makes none.

#include <cstddef>

namespace shoal::test {

/// How often operator new was called so far, by any thread.
std::size_t allocations();

}  // namespace shoal::test
