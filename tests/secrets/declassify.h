#pragma once
// Included before net/crypto/primitives.cpp by `make secrets`: marks memory for valgrind that is no longer
// secret.

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define SHOAL_DECLASSIFY(data, bytes) static_cast<void>(VALGRIND_MAKE_MEM_DEFINED(data, bytes))
#endif
