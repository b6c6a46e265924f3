#pragma once
// Macros that headers of other systems define with common words: windows.h, X11, Qt, Unreal, macOS and glibc.
// Tests include the library behind them.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <chrono>
#include <climits>
#include <cmath>
#include <compare>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

// windows.h, without NOMINMAX and WIN32_LEAN_AND_MEAN
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define small char
#define hyper long long
#define near
#define far
#define pascal
#define cdecl
#define interface struct
#define CALLBACK
#define CONST const
#define VOID void
#define IN
#define OUT
#define OPTIONAL
#define STRICT 1
#define TRUE 1
#define FALSE 0
#define ERROR 0
#define NO_ERROR 0L
#define DELETE (0x00010000L)
#define IGNORE 0
#define INFINITE 0xFFFFFFFF
#define INVALID_SOCKET (~0ull)
#define SOCKET_ERROR (-1)
#define ABSOLUTE 1
#define RELATIVE 2
#define TRANSPARENT 1
#define OPAQUE 2
#define DIFFERENCE 11
#define DOMAIN 1
#define OVERFLOW 3
#define UNDERFLOW 4
#define MAX_PATH 260
#define Yield()
#define GetMessage GetMessageA
#define SendMessage SendMessageA
#define PostMessage PostMessageA
#define GetObject GetObjectA
#define CreateEvent CreateEventA
#define CreateFile CreateFileA
#define DeleteFile DeleteFileA
#define LoadImage LoadImageA
#define GetCurrentTime() 0

// X11
#define None 0L
#define Bool int
#define Status int
#define True 1
#define False 0
#define Success 0
#define Always 2
#define Above 0
#define Below 1
#define Absolute 0
#define Complex 0
#define Convex 2
#define Nonconvex 1
#define Opposite 4
#define Unsorted 0
#define CurrentTime 0L
#define DestroyAll 0
#define RetainPermanent 1
#define KeyPress 2
#define KeyRelease 3
#define FocusIn 9
#define FocusOut 10
#define Expose 12
#define GrayScale 1
#define InputOnly 2
#define InputOutput 1
#define NoSymbol 0L
#define CursorShape 0
#define ControlMask (1 << 2)
#define ParentRelative 1L
#define CopyFromParent 0L
#define PointerWindow 0L
#define AnyKey 0L
#define Button1 1

// Qt
#define slots
#define signals public
#define emit
#define foreach(a, b) for (a : b)
#define forever for (;;)

// Unreal, and AssertMacros.h of older macOS
#define check(x) static_assert(sizeof(x) != 0)
#define verify(x) check(x)
#define require(a, b) check(a)
#define ensure(x) (!!(x))
#define TEXT(x) L##x
#define PI 3.14159f
#define FORCEINLINE inline
#define uint8 unsigned char
#define int32 int
#define nil 0
#define YES 1
#define NO 0

// sys/sysmacros.h, and the compiler without -std
#define major(dev) 1
#define minor(dev) 2
#define makedev(a, b) 3
#define unix 1
#define linux 1
