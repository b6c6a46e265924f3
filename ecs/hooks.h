#pragma once
// Who wants to hear of what happens in a world, and the handles that keep them connected.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "archetype.h"
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
    const void* values;    // one per entity, in a row; null for tags and on_destroy
    const Column* column;  // they are in; null for on_destroy
    Removal reason;
};

/// Connects functions to the components of one world, and calls them. Runs one dispatch at a time.
class HookTable {
public:
    explicit HookTable(ComponentTable& components);
    ~HookTable();
    HookTable(const HookTable&) = delete;
    HookTable& operator=(const HookTable&) = delete;

    bool has_on_destroy() const { return !on_destroy_.empty(); }

    /// Requires the id of a component, not of a pair. Without one nothing is connected.
    Hook connect(HookKind kind, ComponentId id, HookFunction function);
    Hook connect_on_destroy(HookFunction function) { return connect_to(0, function); }

    /// In the order of connection; removes in reverse. Functions connected meanwhile are not called.
    void run(HookKind kind, const KnownComponent& component, const HookCall& call) {
        run(component.hooks[static_cast<std::size_t>(kind)], call, kind == HookKind::remove);
    }
    void run_on_destroy(const HookCall& call) { run(on_destroy_, call, true); }

    /// Destroys all functions, for good: from here on nothing is connected. Requires that none runs.
    void clear();

    /// Whether a hook is being called now.
    bool is_running() const { return must_wait() && running_serial_ != kHeld; }

    /// Whether what happens is told later: a hook is running, or the world delays its hooks.
    bool must_wait() const { return running_serial_ != 0; }

    /// Nothing is run differently; must_wait() is true as long as hooks are held.
    void hold(bool is_held) {
        assert(!is_running());
        running_serial_ = idle_serial_ = is_held ? kHeld : 0;
    }
    bool is_held() const { return idle_serial_ == kHeld; }

private:
    friend class Hook;

    /// The list that a handle names: 0 for on_destroy, then three per component.
    SubscriberList& list_at(std::uint32_t list) {
        if (list == 0) return on_destroy_;
        return components_[ComponentId{(list - 1) / 3}].hooks[(list - 1) % 3];
    }

    Hook connect_to(std::uint32_t list, HookFunction function);
    void run(const SubscriberList& list, const HookCall& call, bool reverse);
    void run_one(const Subscriber& subscriber, const HookCall& call);
    void run_several(const SubscriberList& list, const HookCall& call, bool reverse);
    void disconnect(std::uint32_t list, std::uint64_t serial);
    bool is_connected(std::uint32_t list, std::uint64_t serial);
    void sweep();

    ComponentTable& components_;
    SubscriberList on_destroy_;
    Hook::Anchor* anchor_;
    std::uint64_t next_serial_ = 1;
    std::vector<std::uint32_t> dirty_lists_;  // one entry per subscriber to sweep
    bool is_closed_ = false;
    static constexpr std::uint64_t kHeld = ~std::uint64_t{0};
    std::uint64_t running_serial_ = 0;  // of the one running; idle_serial_ for none
    std::uint64_t idle_serial_ = 0;     // kHeld while hooks are held
    bool is_disconnected_ = false;      // the one running
};

inline void HookTable::run(const SubscriberList& list, const HookCall& call, bool reverse) {
    assert(!is_running());
    if (list.size() != 1) return run_several(list, call, reverse);
    run_one(list[0], call);
    running_serial_ = idle_serial_;
    if (!dirty_lists_.empty()) sweep();
}

inline void HookTable::run_one(const Subscriber& subscriber, const HookCall& call) {
    running_serial_ = subscriber.serial;
    is_disconnected_ = false;
    subscriber.function.call(subscriber.function.state, call, is_disconnected_);
}

/// Wraps what a user connects. Fn takes (World&, Entity, const T&) or (World&, span<const Entity>,
/// span<const T>); tags and on_destroy have no values; for a relation the target, an Entity in both
/// forms, follows the sources; a remove hook may also take a Removal, last. T is void for what is
/// named by id: its values are const void*, in both forms, and a target may be taken or not.
template <class T, class Fn>
HookFunction make_hook_function(Fn fn) {
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
                        tell(entity, target...,
                             static_cast<const void*>(values + i * event.column->type().size));
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
                dispatch(event.column->target());
            } else {
                dispatch();
            }
        } else if constexpr (accepts.template operator()<Entity, Entity, const void*>() ||
                             accepts.template operator()<Batch, Entity, const void*>()) {
            dispatch(event.column->target());
        } else {
            dispatch();
        }
    };
    return {call, [](void* state) { delete static_cast<Fn*>(state); }, new Fn(std::move(fn))};
}

}  // namespace shoal::ecs
