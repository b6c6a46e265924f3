#pragma once
// Included ahead of net/crypto/primitives.cpp by `make secrets`: tells valgrind what is no secret any more.

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define SHOAL_DECLASSIFY(data, bytes) static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(data, bytes))
#endif
