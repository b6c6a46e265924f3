#pragma once
// Marks the time in which a server or client may call functions of the game.

#include <cstdint>
#include <exception>
#include <utility>

#include "../../ecs/world.h"

namespace shoal::replication::impl {

/// What a server or client knows of the functions of the game that it calls.
struct RunState {
    bool is_running = false;    // a Running lives
    std::exception_ptr thrown;  // in a callback of net, and not thrown again yet
};
enum class Caller : std::uint8_t { game, net };

/// Lives while functions of the game may be called, each through ecs::impl::call_guarded(). The end of the
/// outermost one throws the first exception of them and of hooks. But no exception passes through net: what
/// is thrown in a callback of net waits in the RunState for the next function that the game calls.
class [[nodiscard]] Running {
public:
    Running(ecs::World& world, RunState& state, Caller caller = Caller::game)
        : keep_(world, caller == Caller::net ? &state.thrown : nullptr),
          state_(state),
          before_(std::exchange(state.is_running, true)) {
        if (caller == Caller::game && state.thrown != nullptr)
            ecs::impl::keep_exception(world, std::exchange(state.thrown, nullptr));
    }
    ~Running() noexcept(false) { state_.is_running = before_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

private:
    ecs::World::KeepThrown keep_;
    RunState& state_;
    const bool before_;
};

/// Returns a function that calls `fn` guarded. It must not outlive the world.
template <class... Arguments, class Fn>
auto guarded(ecs::World& world, Fn fn) {
    return [&world, fn = std::move(fn)](Arguments... arguments) mutable {
        ecs::impl::call_guarded(world, [&] { fn(arguments...); });
    };
}

}  // namespace shoal::replication::impl
