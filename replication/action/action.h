#pragma once
// Actions: what players and the server do to the world, as structs of the schema. For example:
//
//     struct Shoot {
//         Velocity aim;
//         std::string validate(const Act& act) const;  // why the action is rejected; empty: allowed
//         ecs::Entity mutate(Act& act) const;          // on the player's client at once, later on the server
//     };
//     schema.action<Shoot>("shoot", at_most(10));
//
// Both functions are optional. The server and Client::why_not() call validate(). mutate() may return
// anything.

#include <cassert>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../ecs/world.h"
#include "../../net/endpoint.h"
#include "../schema/image.h"
#include "../schema/schema.h"
#include "../show/sight.h"

namespace shoal::replication::impl {

/// The argument of validators and mutations.
class Act {
public:
    /// `tag`: see SenderOptions; null: Replicated. `sight` answers seen(), and must outlive this object;
    /// null: seen() returns what the world has.
    explicit Act(ecs::World& in, ecs::ComponentId tag = {}, const Sight* sight = nullptr)
        : world(in), tag_(tag), sight_(sight) {}
    Act(const Act&) = delete;
    Act& operator=(const Act&) = delete;

    ecs::World& world;
    ecs::Entity player;     // the entity of the player who acts; null if the server acts
    net::PeerId who;        // on the server: the player; empty if the server itself acts, and on a client
    Tick tick = 0;          // tick of the next step of the game
    Tick late_ticks = 0;    // on the server: how many ticks too late the action came; 0: in time
    bool is_server = true;  // false: a client runs the action ahead of the server

    /// Spawns an entity with the tag Replicated, which the player owns. On a server with SenderOptions::tag
    /// the entity has that tag instead. On a client the entity is pending. If the server spawns it, too, it
    /// becomes the replica of the server's entity, and keeps its handle. Otherwise the client destroys it.
    /// An entity that the mutation spawns without this function is treated the same if it has the tag.
    template <class... Values>
    ecs::Entity spawn(Values&&... values) {
        if (!tag_ || tag_ == world.component<Replicated>())
            return world.spawn(std::forward<Values>(values)..., Replicated{});
        const ecs::Entity entity = world.spawn(std::forward<Values>(values)...);
        world.add(entity, tag_, nullptr);
        return entity;
    }

    /// Destroys an entity. On a client the entity only loses its components of the schema, after the
    /// mutation: if the server rejects the action, the entity gets them back.
    void destroy(ecs::Entity entity) {
        if (is_server) return world.destroy(entity);
        destroyed_.push_back(entity);
    }
    /// On a client: the entities given to destroy(). Empty on the server.
    const std::vector<ecs::Entity>& destroyed() const { return destroyed_; }

    /// A component as the client of the player showed it when the action was called. On the client: what
    /// Client::sample() returns. On the server, for lag compensation: what Server::seen_by() returned in the
    /// last tick. Both sides get the same value unless the action is late, or waited because of
    /// ActionLimits: the server looks no further back for it, because a client could claim that any action
    /// is late. Returns nothing if the client did not show the component. If the server itself acts, or if
    /// the schema has no input, returns the component in the server's world.
    template <class T>
    std::optional<T> seen(ecs::Entity entity) const {
        const T* const now = world.try_get<T>(entity);
        std::optional<T> value = now ? std::optional<T>(*now) : std::optional<T>(std::in_place);
        const bool is_seen =
            sight_ ? sight_->see(who, entity, &type_address<T>, now != nullptr, &*value) : now != nullptr;
        return is_seen ? value : std::nullopt;
    }

    /// Rejects the action, because it cannot be done. On the server the changes that the mutation already
    /// made stay; on the client they are undone. `why` must not be empty. Only the first call has an effect.
    void fail(std::string_view why) {
        assert(!why.empty());
        if (why_not_.empty()) why_not_ = why;
    }
    /// Empty if fail() was not called.
    const std::string& why_not() const { return why_not_; }

private:
    ecs::ComponentId tag_;
    const Sight* sight_;
    std::string why_not_;
    std::vector<ecs::Entity> destroyed_;  // used only on a client
};

template <class T>
concept HasValidator = requires(const T& action, const Act& act) {
    { action.validate(act) } -> std::convertible_to<std::string>;
};
template <class T>
concept HasMutation = requires(const T& action, Act& act) {
    action.mutate(act);
};

// A name that two base classes have is ambiguous: so a class has a member of this name, whatever its type,
// if &Both<..>::name is invalid.
struct NameValidate {
    int validate;
};
struct NameMutate {
    int mutate;
};
template <class T, class Name>
struct Both : T, Name {};

template <class T>
concept NamesValidate = requires {
    &T::validate;
}
|| (!std::is_final_v<T> && !requires { &Both<T, NameValidate>::validate; });
template <class T>
concept NamesMutate = requires {
    &T::mutate;
}
|| (!std::is_final_v<T> && !requires { &Both<T, NameMutate>::mutate; });

/// Whether the library can call the `validate` and the `mutate` of an action, if it has members of these
/// names.
template <class T>
concept ValidatorFits = HasValidator<T> || !NamesValidate<T>;
template <class T>
concept MutationFits = HasMutation<T> || !NamesMutate<T>;

template <class T>
ActionOps action_ops() {
    static_assert(ValidatorFits<T>, "validate() must be public: std::string validate(const Act&) const");
    static_assert(MutationFits<T>,
                  "mutate() must be public and const: it takes (Act&), and returns anything");
    ActionOps ops;
    if constexpr (HasValidator<T>)
        ops.validate = [](const void* action, const Act& act) -> std::string {
            return static_cast<const T*>(action)->validate(act);
        };
    if constexpr (HasMutation<T>)
        ops.mutate = [](const void* action, Act& act) { static_cast<const T*>(action)->mutate(act); };
    return ops;
}

/// Runs the mutation of an action after actions.begin(), ends the action, and returns the result of
/// mutate(). If the mutation throws, abandons the action. `actions`: a ClientActions or ServerActions.
template <class Actions, class T>
auto finish_act(Actions& actions, const T& action) {
    [[maybe_unused]] bool has_run = !HasMutation<T>;
    const ecs::impl::AtEnd check{[&] {
        if (!has_run) actions.abandon();
    }};
    if constexpr (!HasMutation<T>) {
        actions.end(&action);
    } else if constexpr (std::is_void_v<decltype(action.mutate(actions.act()))>) {
        action.mutate(actions.act());
        has_run = true;
        actions.end(&action);
    } else {
        auto result = action.mutate(actions.act());
        has_run = true;
        actions.end(&action);
        return result;
    }
}

template <std::default_initializable T, ActionOption<T>... Options>
void Schema::action(std::string_view name, const Options&... options) {
    add_struct<T>(StructKind::action, name, action_ops<T>(), options...);
}

/// Who did an action; the second argument of its handlers.
struct Call {
    ecs::Entity player;    // the entity of the player; null if the server did the action, if the entity is
                           // dead, or if this client does not have it
    net::PeerId who;       // the player; empty if the server did the action, and for a client's own action
    bool is_mine = false;  // on a client: this client's player did the action
    Tick tick = 0;         // tick at which the server did the action; for a client's own action an estimate
    bool is_late = false;  // on a client: an entity that the action names did not arrive in time, and is null
};

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::Act, impl::Call, impl::is_newer, impl::PlayerId, impl::Tick;
}  // namespace shoal::replication
