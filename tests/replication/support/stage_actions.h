#pragma once
// Components and actions for a Stage, and a stage with a box.

#include <cstdint>
#include <string>

#include "tests/replication/support/stage.h"

namespace shoal::replication::impl::stage_actions {

struct Place {
    std::int32_t x = 0;
};
struct Strength {
    std::int32_t points = 0;
};
struct Stunned {};
struct Holds {
    static constexpr auto relation = ecs::many;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

/// The server rejects steps of 13.
struct Push {
    ecs::Entity target;
    std::int32_t by = 0;
    std::uint32_t number = 0;
    std::string validate(const Act&) const { return by == 13 ? "thirteen" : ""; }
    void mutate(Act& act) const {
        if (!act.world.is_alive(target)) return;
        act.world.patch<Place>(target, [&](Place& place) { place.x += by; });
    }
};
struct Make {
    std::int32_t x = 0;
    std::uint32_t number = 0;
    std::string validate(const Act&) const { return x == 13 ? "thirteen" : ""; }
    ecs::Entity mutate(Act& act) const { return act.spawn(Place{x}, Strength{3}); }
};
/// Destroys what has no strength left.
struct Hurt {
    ecs::Entity target;
    std::uint32_t number = 0;
    void mutate(Act& act) const {
        const Strength* strength = act.world.is_alive(target) ? act.world.try_get<Strength>(target) : nullptr;
        if (!strength) return;
        if (strength->points <= 1) return act.destroy(target);
        act.world.patch<Strength>(target, [](Strength& s) { s.points -= 1; });
    }
};
struct Stun {
    ecs::Entity target;
    bool ends = false;
    std::uint32_t number = 0;
    std::string validate(const Act& act) const {
        return act.world.is_alive(target) ? "" : "there is no such entity";
    }
    void mutate(Act& act) const {
        if (!act.world.is_alive(target)) return;
        if (ends) {
            act.world.remove<Stunned>(target);
            act.world.remove<Strength>(target);
        } else {
            act.world.add<Stunned>(target);
            act.world.set(target, Strength{9});
        }
    }
};
struct Hold {
    ecs::Entity source, target;
    std::uint32_t number = 0;
    std::string validate(const Act&) const { return number % 5 == 4 ? "four" : ""; }
    void mutate(Act& act) const {
        if (!act.world.is_alive(source) || !act.world.is_alive(target)) return;
        if (act.world.has(source, ecs::to<Holds>(target))) {
            act.world.remove(source, ecs::to<Holds>(target));
        } else {
            act.world.add(source, ecs::to<Holds>(target));
        }
    }
};
/// Fails on the server after its first half.
struct Stumble {
    ecs::Entity target;
    std::uint32_t number = 0;
    void mutate(Act& act) const {
        if (act.world.is_alive(target)) act.world.patch<Place>(target, [](Place& place) { place.x += 1; });
        if (act.is_server) act.fail("stumbled");
    }
};
struct Shout {
    std::string text;
    std::uint32_t number = 0;
    std::string validate(const Act&) const {
        return text == "?" ? std::string(kMaxRejectionBytes, 'a') : text == "!" ? "too loud" : "";
    }
};
struct Speech {
    std::string text;
    std::uint32_t number = 0;
};
/// Destroys the player's own entity.
struct Perish {
    std::uint32_t number = 0;
    void mutate(Act& act) const { act.destroy(act.player); }
};

inline Schema stage_schema() {
    Schema schema;
    schema.component<Place>("place");
    schema.component<Strength>("strength", bounded(0, 100));
    schema.tag<Stunned>("stunned");
    schema.pair<Holds>("holds");
    schema.pair<PartOf>("part_of");
    schema.action<Push>("push", at_most(1000));
    schema.action<Make>("make", at_most(1000));
    schema.action<Hurt>("hurt", at_most(1000));
    schema.action<Stun>("stun", at_most(1000));
    schema.action<Hold>("hold", at_most(1000));
    schema.action<Stumble>("stumble", at_most(1000));
    schema.action<Shout>("shout", at_most(1000), independent());
    schema.action<Speech>("speech", field(&Speech::text, max_length(500)));
    schema.action<Perish>("perish");
    return schema;
}

template <class T>
std::size_t type_of(const Stage& stage) {
    return stage.schema.find_struct<T>(StructKind::action);
}

/// A stage with a client, and with a box that the client sees.
struct BoxStage : Stage {
    explicit BoxStage(std::int32_t x = 0) : Stage(stage_schema()) {
        box = world.spawn(Place{x}, Replicated{});
        run(5);
        seen = replica(client, box);
    }
    ecs::Entity box, seen;  // on the server and on the client
    Client& client = add_client();
};

}  // namespace shoal::replication::impl::stage_actions
