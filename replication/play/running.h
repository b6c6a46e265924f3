#pragma once
// Marks the time in which a server or client may call functions of the game.

#include <utility>

#include "../../ecs/world.h"

namespace shoal::replication::all {

/// Sets a flag while it lives, also if a function of the game throws. Nested ones have no effect on the flag.
/// The end of the outermost one throws what hooks and functions given to ecs::all::call_guarded() threw.
class [[nodiscard]] Running {
public:
    Running(ecs::World& world, bool& is_running) : keep_(world), flag_(is_running), before_(is_running) {
        flag_ = true;
    }
    ~Running() noexcept(false) { flag_ = before_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

private:
    ecs::World::KeepThrown keep_;
    bool& flag_;
    const bool before_;
};

/// Returns a function that calls `fn` guarded. It must not outlive the world.
template <class... Arguments, class Fn>
auto guarded(ecs::World& world, Fn fn) {
    return [&world, fn = std::move(fn)](Arguments... arguments) mutable {
        ecs::all::call_guarded(world, [&] { fn(arguments...); });
    };
}

}  // namespace shoal::replication::all
