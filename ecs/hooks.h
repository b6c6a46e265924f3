#pragma once
// Functions that are called for events in a world, and the handles that keep them connected.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "archetype.h"
#include "component.h"
#include "entity.h"

namespace shoal::ecs::impl {

class World;
class HookTable;

/// Why a component is removed.
enum class Removal : std::uint8_t {
    component,  // an operation removes it, or the target of the pair is destroyed; the entity stays alive
    entity,     // the entity is being destroyed
    world,      // the world is being destroyed
};

/// A live Hook keeps its function connected. May outlive its world, and may be destroyed or disconnected
/// inside any hook, also its own. Not thread-safe.
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

    /// Disconnects the function. It is not called any more, not even for the other rows of the present event.
    void disconnect();

    /// Leaves the function connected until its world ends.
    void release() { drop_anchor(); }

    /// Returns whether a function is connected by this handle.
    explicit operator bool() const;

private:
    friend class HookTable;

    /// Shared by a table and its handles; either may be destroyed first.
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

/// The rows of one event: consecutive rows in one block of one archetype.
struct HookCall {
    World& world;
    std::span<const Entity> entities;
    const void* values;    // array, one per entity; null for tags and on_destroy
    const Column* column;  // the component's column; null for on_destroy
    Removal reason;
};

/// Connects functions to the components of one world, and calls them. Reports one event at a time.
class HookTable {
public:
    explicit HookTable(ComponentTable& components);
    ~HookTable();
    HookTable(const HookTable&) = delete;
    HookTable& operator=(const HookTable&) = delete;

    bool has_on_destroy() const { return !on_destroy_.empty(); }

    /// Requires the id of a component or relation. For any other id nothing is connected.
    Hook connect(HookKind kind, ComponentId id, HookFunction function);
    Hook connect_on_destroy(HookFunction function) { return connect_to(0, function); }

    /// Calls the functions in the order of connection; remove hooks in reverse order. A function that is
    /// connected during the run is not called.
    void run(HookKind kind, const KnownComponent& component, const HookCall& call) {
        run(component.hooks[static_cast<std::size_t>(kind)], call, kind == HookKind::remove);
    }
    void run_on_destroy(const HookCall& call) { run(on_destroy_, call, true); }

    /// Destroys all functions. A later connect() destroys the function that it gets, and connects nothing.
    /// Requires that no function runs.
    void clear();

    /// Returns whether a hook runs now.
    bool is_running() const { return must_wait() && running_serial_ != kHeld; }

    /// Returns whether add and change events must be queued: a hook runs, or hooks are held.
    bool must_wait() const { return running_serial_ != 0; }

    /// Begins or ends a time in which hooks are held: must_wait() is true then; run() is not affected.
    /// Requires that no hook runs.
    void hold(bool is_held) {
        assert(!is_running());
        running_serial_ = idle_serial_ = is_held ? kHeld : 0;
    }
    bool is_held() const { return idle_serial_ == kHeld; }

private:
    friend class Hook;

    /// The list with this index: 0 for on_destroy, then three per component.
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
    std::vector<std::uint32_t> dirty_lists_;  // index of the list of each subscriber that sweep() must erase
    bool is_closed_ = false;
    static constexpr std::uint64_t kHeld = ~std::uint64_t{0};
    std::uint64_t running_serial_ = 0;  // serial of the running function; idle_serial_ if none runs
    std::uint64_t idle_serial_ = 0;     // kHeld while hooks are held, else 0
    bool is_disconnected_ = false;      // the running function was disconnected
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

/// Keeps what a hook threw. The first exception is thrown again when the outermost operation ends.
void keep_exception(World& world, std::exception_ptr exception);

/// Calls a function of the game from a hook. The library goes on as if it had not thrown.
template <class Fn>
void call_guarded([[maybe_unused]] World& world, const Fn& fn) {
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
    try {
        fn();
    } catch (...) {
        keep_exception(world, std::current_exception());
    }
#else
    fn();
#endif
}

/// Wraps a user's function. Fn takes (World&, Entity, const T&) or (World&, span<const Entity>,
/// span<const T>). For tags and on_destroy there is no value parameter. For a relation, the third parameter
/// is the target of the pair, one Entity in both forms. A remove hook may take a Removal as its last
/// parameter. For a hook connected by id, T is void: the value parameter is a const void* in both forms, and
/// `fn` may leave out the target.
template <class T, class Fn>
HookFunction make_hook_function(Fn fn) {
    constexpr auto call = [](void* state, const HookCall& event, const bool& is_disconnected) {
        Fn& function = *static_cast<Fn*>(state);
        const auto tell = [&](const auto&... what) {
            call_guarded(event.world, [&] {
                if constexpr (std::is_invocable_v<Fn&, World&, decltype(what)..., Removal>) {
                    function(event.world, what..., event.reason);
                } else {
                    function(event.world, what...);
                }
            });
        };
        constexpr auto accepts = []<class... What>() {
            return std::is_invocable_v<Fn&, World&, What...> ||
                   std::is_invocable_v<Fn&, World&, What..., Removal>;
        };
        using Batch = std::span<const Entity>;
        const auto dispatch = [&]<class... Target>(const Target&... target) {
            constexpr bool is_void = std::is_void_v<T>, is_tag = !is_void && std::is_empty_v<T>;
            using One = std::conditional_t<is_void, const void*, std::add_lvalue_reference_t<const T>>;
            using All = std::conditional_t<is_void, const void*, std::span<const T>>;
            constexpr auto accepts_values = [accepts]<class Who, class Values> {
                if constexpr (is_tag) return accepts.template operator()<Who, Target...>();
                return accepts.template operator()<Who, Target..., Values>();
            };
            constexpr bool by_entity = accepts_values.template operator()<Entity, One>();
            static_assert(by_entity || accepts_values.template operator()<Batch, All>(),
                          "a hook takes (World&, Entity, const T&), or spans of entities and values");
            if constexpr (by_entity) {
                for (std::size_t i = 0; i < event.entities.size() && !is_disconnected; ++i) {
                    if constexpr (is_tag) {
                        tell(event.entities[i], target...);
                    } else if constexpr (is_void) {
                        const auto* bytes = static_cast<const std::byte*>(event.values);
                        const void* const value = bytes + i * event.column->type().size;
                        tell(event.entities[i], target..., value);
                    } else {
                        tell(event.entities[i], target..., static_cast<const T*>(event.values)[i]);
                    }
                }
            } else if constexpr (is_tag) {
                tell(event.entities, target...);
            } else if constexpr (is_void) {
                tell(event.entities, target..., event.values);
            } else {
                tell(event.entities, target...,
                     All(static_cast<const T*>(event.values), event.entities.size()));
            }
        };
        constexpr bool takes_target = accepts.template operator()<Entity, Entity, const void*>() ||
                                      accepts.template operator()<Batch, Entity, const void*>();
        if constexpr (Relation<T> || (std::is_void_v<T> && takes_target)) {
            dispatch(event.column->target());
        } else {
            dispatch();
        }
    };
    return {call, [](void* state) { delete static_cast<Fn*>(state); }, new Fn(std::move(fn))};
}

}  // namespace shoal::ecs::impl
