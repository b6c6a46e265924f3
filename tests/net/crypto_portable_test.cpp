// Runs all tests of net/crypto/primitives.h with the code for compilers without 128-bit integers and vectors.
// These headers come first, because they need the macro that is undefined below.
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
