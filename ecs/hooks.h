#pragma once
// Who wants to hear of what happens in a world, and the handles that keep them connected.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "component.h"
#include "entity.h"

namespace shoal::ecs {

class World;
class HookTable;

/// Why a component goes.
enum class Removal : std::uint8_t {
    component,  // it was removed, or the pair's target dies; the entity stays
    entity,     // its entity is being destroyed
    world,      // the whole world is
};

/// Keeps a hook connected while it lives. May outlive its world, and may be destroyed or
/// disconnected inside any hook, also its own. Not thread-safe, like the world.
class [[nodiscard]] Hook {
public:
    Hook() = default;
    Hook(Hook&& other) noexcept { swap(other); }
    Hook& operator=(Hook&& other) noexcept {
        Hook(std::move(other)).swap(*this);
        return *this;
    }
    ~Hook() {
        if (anchor_ != nullptr) disconnect();
    }

    /// From here on the function is not called, not even by a dispatch under way.
    void disconnect();

    /// Leaves the function connected for as long as its world lives.
    void release();

    /// Whether this handle keeps a function connected.
    explicit operator bool() const;

private:
    friend class HookTable;

    /// Shared by a table and its handles, so that either may go first.
    struct Anchor {
        HookTable* table;
        std::uint32_t handles;
    };

    void swap(Hook& other) noexcept {
        std::swap(anchor_, other.anchor_);
        std::swap(list_, other.list_);
        std::swap(serial_, other.serial_);
    }
    void drop_anchor();

    Anchor* anchor_ = nullptr;
    std::uint32_t list_ = 0;
    std::uint64_t serial_ = 0;
};

/// What all hooks are told: rows that follow each other in one archetype, one row when something
/// happened to a single entity.
struct HookCall {
    World& world;
    std::span<const Entity> entities;
    const void* values;  // one per entity, `stride` bytes apart; null for tags and on_destroy
    std::uint32_t stride;
    Removal reason;
    Entity target = {};  // of the pair; null for others
};

/// The subscribers of one world. Runs one dispatch at a time.
class HookTable {
public:
    /// A function with its state; `destroy` may be null. `is_disconnected` turns true if the function
    /// is disconnected while it is called.
    struct Function {
        void (*call)(void* state, const HookCall&, const bool& is_disconnected) = nullptr;
        void (*destroy)(void* state) = nullptr;
        void* state = nullptr;
    };

    explicit HookTable(ComponentTable& components);
    ~HookTable();
    HookTable(const HookTable&) = delete;
    HookTable& operator=(const HookTable&) = delete;

    bool has_on_destroy() const { return !lists_[0].empty(); }

    /// Requires the id of a component, not of a pair. Without one nothing is connected.
    Hook connect(HookKind kind, ComponentId id, Function function);
    Hook connect_on_destroy(Function function) { return connect_to(0, function); }

    /// In the order of connection; removes in reverse. Functions connected meanwhile are not called.
    void run(HookKind kind, ComponentId id, const HookCall& call) {
        run(list_of(kind, id), call, kind == HookKind::remove);
    }
    void run_on_destroy(const HookCall& call) { run(0, call, true); }

    /// Destroys all functions, for good: from here on nothing is connected. Requires that none runs.
    void clear();

    /// Whether a hook is being called now.
    bool is_running() const { return running_serial_ != 0; }

private:
    friend class Hook;

    struct Subscriber {
        Function function;  // call is null: disconnected while running
        std::uint64_t serial;
    };
    using List = std::vector<Subscriber>;

    static std::uint32_t list_of(HookKind kind, ComponentId id) {
        return 1 + id.value * 3 + static_cast<std::uint32_t>(kind);
    }

    Hook connect_to(std::uint32_t list, Function function);
    void run(std::uint32_t list, const HookCall& call, bool reverse);
    void disconnect(std::uint32_t list, std::uint64_t serial);
    void note(std::uint32_t list);
    bool is_connected(std::uint32_t list, std::uint64_t serial) const;
    void sweep();

    ComponentTable& components_;
    std::vector<List> lists_;  // 0: on_destroy; then three per component
    Hook::Anchor* anchor_;
    std::uint64_t next_serial_ = 1;
    std::vector<std::uint32_t> dirty_lists_;  // one entry per subscriber to sweep
    bool is_closed_ = false;
    std::uint64_t running_serial_ = 0;  // of the one running; 0 for none
    bool is_disconnected_ = false;      // the one running
};

inline void HookTable::run(std::uint32_t list, const HookCall& call, bool reverse) {
    assert(!is_running());
    // The list may grow and move while its functions run; nothing leaves it before sweep().
    const std::size_t count = lists_[list].size();
    for (std::size_t i = 0; i < count; ++i) {
        const Subscriber& subscriber = lists_[list][reverse ? count - 1 - i : i];
        if (subscriber.function.call == nullptr) continue;
        running_serial_ = subscriber.serial;
        is_disconnected_ = false;
        subscriber.function.call(subscriber.function.state, call, is_disconnected_);
    }
    running_serial_ = 0;
    if (!dirty_lists_.empty()) sweep();
}

/// Wraps what a user connects. Fn takes (World&, Entity, const T&) or (World&, span<const Entity>,
/// span<const T>); tags and on_destroy have no values; for a relation the target, an Entity in both
/// forms, follows the sources; a remove hook may also take a Removal, last. T is void for what is
/// named by id: its values are const void*, in both forms, and a target may be taken or not.
template <class T, class Fn>
HookTable::Function make_hook_function(Fn fn) {
    constexpr auto call = [](void* state, const HookCall& event, const bool& is_disconnected) {
        Fn& function = *static_cast<Fn*>(state);
        const auto tell = [&](const auto&... what) {
            if constexpr (std::is_invocable_v<Fn&, World&, decltype(what)..., Removal>) {
                function(event.world, what..., event.reason);
            } else {
                function(event.world, what...);
            }
        };
        constexpr auto accepts = []<class... What>() {
            return std::is_invocable_v<Fn&, World&, What...> ||
                   std::is_invocable_v<Fn&, World&, What..., Removal>;
        };
        using Batch = std::span<const Entity>;
        const auto each = [&](const auto& tell_row) {
            for (std::size_t i = 0; i < event.entities.size() && !is_disconnected; ++i)
                tell_row(i, event.entities[i]);
        };
        const auto dispatch = [&]<class... Target>(const Target&... target) {
            if constexpr (std::is_void_v<T>) {
                const auto* values = static_cast<const std::byte*>(event.values);
                if constexpr (accepts.template operator()<Entity, Target..., const void*>()) {
                    each([&](std::size_t i, Entity entity) {
                        tell(entity, target..., static_cast<const void*>(values + i * event.stride));
                    });
                } else {
                    static_assert(accepts.template operator()<Batch, Target..., const void*>(),
                                  "a hook takes (World&, Entity, const T&) or (World&, span<const Entity>, "
                                  "span<const T>)");
                    tell(event.entities, target..., event.values);
                }
            } else if constexpr (std::is_empty_v<T>) {
                if constexpr (accepts.template operator()<Entity, Target...>()) {
                    each([&](std::size_t, Entity entity) { tell(entity, target...); });
                } else {
                    static_assert(accepts.template operator()<Batch, Target...>(),
                                  "a hook takes (World&, Entity, const T&) or (World&, span<const Entity>, "
                                  "span<const T>)");
                    tell(event.entities, target...);
                }
            } else {
                const auto* values = static_cast<const T*>(event.values);
                if constexpr (accepts.template operator()<Entity, Target..., const T&>()) {
                    each([&](std::size_t i, Entity entity) { tell(entity, target..., values[i]); });
                } else {
                    static_assert(accepts.template operator()<Batch, Target..., std::span<const T>>(),
                                  "a hook takes (World&, Entity, const T&) or (World&, span<const Entity>, "
                                  "span<const T>)");
                    tell(event.entities, target..., std::span<const T>(values, event.entities.size()));
                }
            }
        };
        if constexpr (!std::is_void_v<T>) {
            if constexpr (Relation<T>) {
                dispatch(event.target);
            } else {
                dispatch();
            }
        } else if constexpr (accepts.template operator()<Entity, Entity, const void*>() ||
                             accepts.template operator()<Batch, Entity, const void*>()) {
            dispatch(event.target);
        } else {
            dispatch();
        }
    };
    return {call, [](void* state) { delete static_cast<Fn*>(state); }, new Fn(std::move(fn))};
}

}  // namespace shoal::ecs
