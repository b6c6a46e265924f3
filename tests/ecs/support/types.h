#pragma once
// Components that detect errors of a container: leaks, copies, wrong alignment, byte-wise moves.

#include <cstdint>
#include <memory>
#include <utility>

#include "ecs/world.h"

namespace ecs_types {

inline std::uint32_t archetype_count(shoal::ecs::World& world) {
    std::uint32_t count = 0;
    world.each_archetype([&](const shoal::ecs::Archetype&) { ++count; });
    return count;
}

struct Position {
    float x = 0, y = 0;
    bool operator==(const Position&) const = default;
};
struct Velocity {
    float x = 0, y = 0;
    bool operator==(const Velocity&) const = default;
};
struct Health {
    int points = 0;
    bool operator==(const Health&) const = default;
};
struct Frozen {};
struct Burning {};

/// Counts its living instances; must be 0 at the end of each test.
struct Counted {
    static inline int alive = 0;
    int value = 0;

    Counted() { ++alive; }
    explicit Counted(int v) : value(v) { ++alive; }
    Counted(const Counted& other) : value(other.value) { ++alive; }
    Counted(Counted&& other) noexcept : value(std::exchange(other.value, -1)) { ++alive; }
    Counted& operator=(const Counted&) = default;
    Counted& operator=(Counted&&) = default;
    ~Counted() { --alive; }
};

struct MoveOnly {
    std::unique_ptr<int> value;
};

struct alignas(64) Wide {
    double lanes[8] = {};
    bool is_aligned() const { return reinterpret_cast<std::uintptr_t>(this) % 64 == 0; }
};

/// Contains its own address; a byte-wise move makes it invalid.
struct SelfReferential {
    const SelfReferential* self = this;
    int value = 0;

    SelfReferential() = default;
    explicit SelfReferential(int v) : value(v) {}
    SelfReferential(SelfReferential&& other) noexcept : value(other.value) { other.self = nullptr; }
    SelfReferential& operator=(SelfReferential&& other) noexcept {
        value = other.value;
        return *this;
    }
    ~SelfReferential() { self = nullptr; }
    bool is_intact() const { return self == this; }
};

}  // namespace ecs_types
