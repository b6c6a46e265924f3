// Every test of net/crypto/primitives.h again, for the code that compilers without 128-bit numbers and
// vectors get. These headers come first: they need the macro that the library must not see.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#undef __SIZEOF_INT128__
#define shoal shoal_portable
#define Crypto CryptoPortable
#include "tests/net/crypto_test.cpp"
