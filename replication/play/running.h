#pragma once
// Marks the time in which a server or client may call functions of the game.

#include <utility>

#include "../../ecs/world.h"

namespace shoal::replication::all {

/// Keeps a flag true while it lives. The end of a nested Running leaves the flag true. The end of the
/// outermost one throws the first exception that came from a hook or from a function given to
/// ecs::all::call_guarded().
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
