#pragma once
// Shared by the fuzzers of replication/: a small game, and a server's world that the input changes.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ecs/world.h"
#include "net/bytes.h"
#include "replication/receive/receiver.h"
#include "replication/schema/own_components.h"
#include "replication/schema/schema.h"
#include "replication/send/sender.h"
#include "replication/world_hash.h"
#include "tests/fuzz/net_parts.h"

namespace shoal::replication::impl::fuzz {

using net::impl::fuzz::check;
using Payload = std::vector<std::byte>;

struct Place {
    float x = 0, y = 0;
};
struct Tally {
    std::int64_t total = 0;
    std::uint8_t kind = 0;
    bool is_open = false;
};
struct Label {
    std::string text;
};
struct Links {
    ecs::Entity first;
    std::vector<ecs::Entity> more;
};
struct Cargo {
    std::vector<std::uint8_t> bytes;
};
/// Parts inside the elements of parts, and maps.
struct Roster {
    struct Member {
        std::string name;
        std::optional<ecs::Entity> pet;
        std::vector<std::uint8_t> marks;
    };
    std::vector<Member> members;
    std::map<std::string, std::vector<std::string>> texts;
    std::unordered_map<std::int16_t, std::optional<float>> odds;
};
struct Marked {};
struct Bond {
    static constexpr auto relation = ecs::many;
    std::int16_t strength = 0;
};
struct Leader {
    static constexpr auto relation = ecs::exclusive;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

struct Hat {
    std::uint8_t size = 0;
};

struct Shout {
    std::string text;
    std::vector<ecs::Entity> about;
    std::uint8_t kind = 0;
};
struct Nod {};
struct Pile {
    std::vector<std::vector<std::uint16_t>> rows;
};

inline constexpr std::uint32_t kFuzzKeys = 4;

/// Some clients do not have the optional component.
inline Schema fuzz_schema(bool has_hats = true) {
    Schema schema;
    schema.component<Place>("place", quantised(-64, 64, 0.01));
    schema.component<Tally>("tally");
    schema.component<Label>("label", max_length(10));
    schema.component<Links>("links", field(&Links::more, max_length(4)));
    schema.component<Cargo>("cargo", max_length(4'000));
    schema.component<Roster>("roster", element(&Roster::members, max_length(6)),
                             element(&Roster::texts, max_length(4)));
    schema.tag<Marked>("marked");
    schema.pair<Bond>("bond", max_length(3));
    if (has_hats) schema.component<Hat>("hat");
    if (has_hats) schema.optional<Hat>();
    schema.pair<Leader>("leader");
    schema.pair<PartOf>("part of");
    schema.message<Shout>("shout", max_length(12), field(&Shout::kind, bounded(0, 4)));
    schema.message<Nod>("nod");
    schema.message<Pile>("pile", max_length(40));
    CHECK(schema.error().empty());
    return schema;
}

inline constexpr std::size_t kMaxFuzzEntities = 40;

/// A world with a sender. The input says how it changes.
struct Origin {
    /// The schema must outlive the origin.
    Origin(const Schema& of_server, Tick first_tick)
        : schema(of_server),
          sender(world, schema, {.history_s = 0.1, .coding = first_tick == 1 ? Coding::range : Coding::bits}),
          tick(first_tick) {}

    Sender::Peer add_peer(const Schema& of_peer, std::uint32_t max_slots = 65'536) {
        return sender.add_peer({.max_slots = max_slots, .numbers = *schema.numbers_in(of_peer.summary())});
    }

    /// Creates, destroys or changes an entity.
    void change(net::impl::ByteReader& in) {
        const unsigned what = in.u8();
        if (entities.empty() || (what % 8 == 0 && entities.size() < kMaxFuzzEntities)) {
            entities.push_back(world.spawn(Replicated{}));
            return;
        }
        const unsigned which = in.u8();
        ecs::Entity& entity = entities[which % entities.size()];
        switch (what % 8) {
            case 1:
                world.destroy(entity);
                return forget_dead();
            case 2:
                if (what & 64) return change_pairs(entity, in);
                return world.set(entity, Place{static_cast<float>(in.u8()) - 128, 1});
            case 3:
                if (what & 64) return change_hat(entity, in.u8());
                return world.set(entity, Tally{in.u8() - (std::int64_t{1} << what % 63), in.u8(), true});
            case 4:
                if (what & 64) return change_roster(entity, in);
                return world.set(entity, Label{std::string(in.u8() % 12, 'a')});
            case 5:
                if (what & 64) return spawn_keyed(in);
                return world.set(entity, Links{entities[in.u8() % entities.size()],
                                               std::vector(in.u8() % 5u, entities.front())});
            case 6:
                if (what & 64) return world.set(entity, Cargo{std::vector<std::uint8_t>(in.u8() * 16u, 9)});
                return world.has<Marked>(entity) ? world.remove<Marked>(entity) : world.add<Marked>(entity);
            default:
                if (what & 64)
                    return world.has<Replicated>(entity) ? world.remove<Replicated>(entity)
                                                         : world.add<Replicated>(entity);
                if (what & 32) return world.remove<Place>(entity);
                if (what & 16) return change_cluster(entity, what);
                return world.remove<Links>(entity);
        }
    }
    /// Parts of a destroyed entity die with it.
    void forget_dead() {
        std::erase_if(entities, [&](ecs::Entity entity) { return !world.is_alive(entity); });
    }
    /// Adds or removes a pair.
    void change_pairs(ecs::Entity source, net::impl::ByteReader& in) {
        const unsigned what = in.u8();
        const ecs::Entity target = entities[in.u8() % entities.size()];
        switch (what % 4) {
            case 0:
                return world.set(source, ecs::to<Bond>(target), Bond{static_cast<std::int16_t>(what * 100)});
            case 1:
                if (what & 64) return drop<Bond>(source, target);
                return world.add(source, ecs::to<Leader>(target));
            case 2:
                if (what & 64) return drop<Leader>(source, target);
                return source == target ? drop<PartOf>(source, target)
                                        : world.add(source, ecs::to<PartOf>(target));
            default:
                return drop<PartOf>(source, target);
        }
    }
    template <class R>
    void drop(ecs::Entity source, ecs::Entity target) {
        if (world.has(source, ecs::to<R>(target))) world.remove(source, ecs::to<R>(target));
    }
    /// Spawns an entity with a key that no other one has.
    void spawn_keyed(net::impl::ByteReader& in) {
        const StableKey key{in.u8() % kFuzzKeys};
        if (entities.size() >= kMaxFuzzEntities) return;
        for (const ecs::Entity entity : entities)
            if (world.has<StableKey>(entity) && world.get<StableKey>(entity).value == key.value) return;
        entities.push_back(world.spawn(key, Replicated{}));
    }
    void change_hat(ecs::Entity entity, unsigned size) {
        if (size % 4 == 0) return world.remove<Hat>(entity);
        world.set(entity, Hat{static_cast<std::uint8_t>(size)});
    }
    void change_cluster(ecs::Entity entity, unsigned what) {
        if (what & 8) return world.remove<Cluster>(entity);
        world.set(entity, Cluster{what >> 7});
    }
    /// Changes a roster in one place.
    void change_roster(ecs::Entity entity, net::impl::ByteReader& in) {
        const Roster* const old = world.try_get<Roster>(entity);
        Roster roster = old ? *old : Roster{};
        const unsigned where = in.u8(), value = in.u8();
        const std::string text(value % 20, static_cast<char>('a' + value % 26));
        switch (where % 8) {
            case 0:
                if (roster.members.size() < 6)
                    roster.members.insert(roster.members.begin() + static_cast<std::ptrdiff_t>(
                                                                       value % (roster.members.size() + 1)),
                                          {text, {}, {1, 2}});
                break;
            case 1:
                if (!roster.members.empty()) roster.members.erase(roster.members.begin());
                break;
            case 2:
                for (Roster::Member& member : roster.members)
                    member.pet =
                        value % 3 == 0 ? std::nullopt : std::optional(entities[value % entities.size()]);
                break;
            case 3:
                if (!roster.members.empty()) roster.members.back().marks.assign(value % 17, 9);
                break;
            case 4:
                roster.texts[text].push_back(text);
                break;
            case 5:
                if (!roster.texts.empty()) roster.texts.erase(roster.texts.begin());
                break;
            case 6:
                roster.odds[static_cast<std::int16_t>(value % 5)] = static_cast<float>(value);
                break;
            default:
                roster.odds.erase(static_cast<std::int16_t>(value % 5));
        }
        // Longer ones are cut, and a client has the cut ones.
        while (roster.texts.size() > 4) roster.texts.erase(roster.texts.begin());
        world.set(entity, roster);
    }
    void update(Tick ticks) {
        tick += ticks;
        sender.update(tick);
    }

    const Schema& schema;
    ecs::World world;
    Sender sender;
    Tick tick;
    std::vector<ecs::Entity> entities;  // alive
};

/// An honest client of an origin receives all state, whatever other peers did. `schema` is the client's.
inline void check_new_client_converges(Origin& origin, const Schema& schema, ecs::World& world,
                                       Receiver& receiver) {
    const Sender::Peer peer = origin.add_peer(schema);
    Payload room(1'200);
    std::uint64_t number = 0;
    // A reference to an entity with a key is null on a client that did not load it.
    for (const ecs::Entity entity : origin.entities)
        if (origin.world.has<StableKey>(entity)) origin.world.add<Replicated>(entity);
    for (int round = 0; round < 3; ++round) {
        origin.update(1);
        for (;;) {
            const std::span<const std::byte> payload = origin.sender.encode(peer, ++number, 1'200, room);
            if (payload.empty()) break;
            CHECK(receiver.receive(number, payload) == Receiver::Verdict::accepted);
            origin.sender.on_fate(peer, number, true);
        }
        receiver.apply();
    }
    CHECK(receiver.complete().has_value());
    const WorldHash::Sum sent = WorldHash(origin.world, origin.schema).of_server(origin.sender.shadow());
    const WorldHash::Sum received = WorldHash(world, schema).of_client(receiver);
    CHECK(sent == received);
    origin.sender.remove_peer(peer);
}

}  // namespace shoal::replication::impl::fuzz
