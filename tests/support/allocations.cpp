#include "tests/support/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

// The array and nothrow forms of the standard library call these, too. Memory comes from malloc, which
// sanitizers check.
namespace {

std::atomic<std::size_t> count{0}, held{0};

void* note(void* memory) {
    count.fetch_add(1, std::memory_order_relaxed);
    held.fetch_add(malloc_usable_size(memory), std::memory_order_relaxed);
    return memory;
}

void* allocate(std::size_t size) {
    void* const memory = std::malloc(size == 0 ? 1 : size);
    if (!memory) std::abort();
    return note(memory);
}

void* allocate(std::size_t size, std::size_t alignment) {
    void* const memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (!memory) std::abort();
    return note(memory);
}

void release(void* memory) {
    held.fetch_sub(malloc_usable_size(memory), std::memory_order_relaxed);
    std::free(memory);
}

}  // namespace

namespace shoal::test {
std::size_t allocations() {
    return count.load(std::memory_order_relaxed);
}
std::size_t held_bytes() {
    return held.load(std::memory_order_relaxed);
}
}  // namespace shoal::test

void* operator new(std::size_t size) {
    return allocate(size);
}
void* operator new[](std::size_t size) {
    return allocate(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
}
// Without these, the address sanitizer uses its own, which do not match the delete above.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return note(std::malloc(size == 0 ? 1 : size));
}
void* operator new[](std::size_t size, const std::nothrow_t& nothrow) noexcept {
    return operator new(size, nothrow);
}
void operator delete(void* memory) noexcept {
    release(memory);
}
void operator delete[](void* memory) noexcept {
    release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
    release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
    release(memory);
}
