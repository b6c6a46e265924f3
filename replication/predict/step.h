#pragma once
// One step of the game's simulation, as server and clients run it.

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "../../ecs/query.h"
#include "../schema/image.h"
#include "../schema/schema.h"

namespace shoal::replication::impl {

/// A client's entity has this tag while the client predicts it.
struct Predicted {};

/// The queries that step functions use, each made at its first use. Must not outlive the world.
class StepQueries {
public:
    explicit StepQueries(ecs::World& world) : world_(world) {}

    template <class... Terms>
    ecs::Query<Terms...>& get() {
        std::unique_ptr<Any>& found = queries_[&type_address<void(Terms...)>];
        if (!found) found = std::make_unique<Held<Terms...>>(world_);
        return static_cast<Held<Terms...>&>(*found).query;
    }

private:
    struct Any {
        virtual ~Any() = default;
    };
    template <class... Terms>
    struct Held final : Any {
        explicit Held(ecs::World& world) : query(world) {}
        ecs::Query<Terms...> query;
    };

    ecs::World& world_;
    std::unordered_map<const void*, std::unique_ptr<Any>> queries_;  // by the address of a type
};

/// The argument of a step function. The function may read inputs, predicted components and values that never
/// change. It may write predicted components. It must not spawn, destroy or send, because a client runs it
/// again for ticks in the past when the server's state differs from the client's.
class Step {
public:
    struct Context {
        StepQueries& queries;
        EntityMap& map;
        std::uint64_t seed;   // see Welcome::random_seed
        bool only_predicted;  // true on a client: each() visits only entities with the tag Predicted
    };
    Step(Tick of_tick, float seconds, bool runs_first, const Context& context)
        : tick(of_tick), dt(seconds), is_new(runs_first), context_(context) {}

    Tick tick;
    float dt;     // time between two ticks, in seconds
    bool is_new;  // false: a client runs this tick again; then do not start sounds or other effects

    /// Calls fn for each entity with these components, with arguments as in ecs::Query::each(). A client
    /// visits only the entities that it predicts.
    template <class... Terms, class Fn>
    void each(Fn&& fn) const {
        if (context_.only_predicted) {
            context_.queries.get<Terms..., ecs::With<Predicted>>().each(fn);
        } else {
            context_.queries.get<Terms...>().each(fn);
        }
    }

    /// Returns a random number for `number`, which the game chooses. Server and clients get the same result,
    /// and so does each run of this tick. Another `salt` gives another result. Players can compute the
    /// results in advance.
    std::uint64_t random(std::uint64_t number, std::uint32_t salt = 0) const;
    /// Returns a random number for an entity that replicates. Requires that the entity has a net id. A
    /// client does not know the net id of an entity that it spawned ahead of the server: for such entities
    /// use the function above, with a number that the action wrote to a component.
    std::uint64_t random(ecs::Entity entity, std::uint32_t salt = 0) const;

private:
    const Context& context_;
};

/// A step function of the game.
using OnStep = std::function<void(const Step&)>;

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::Predicted, impl::Step;
}  // namespace shoal::replication
