#pragma once
// A world with pairs, stable keys, clusters and optional components, and its schemas described by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "replication/schema/own_components.h"
#include "tests/replication/support/naive_schema.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {

namespace naive = naive_replication;

namespace village {

struct Spot {  // equal on all entities of a cluster
    float x = 0;
};
struct Note {
    std::string text;
};
struct Eyes {
    ecs::Entity at;
};
struct Follows {
    static constexpr auto relation = ecs::exclusive;
    float distance = 0;
};
struct Likes {
    static constexpr auto relation = ecs::many;
    double weight = 0;
    std::uint8_t grade = 1;
};
struct Knows {
    static constexpr auto relation = ecs::many;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};
struct Hat {
    std::int32_t size = 0;
};
struct OtherHat {  // has the name of Hat
    float size = 0;
};
struct Fears {
    static constexpr auto relation = ecs::many;
};
struct Glow {};
struct Smell {  // only of a client
    std::int32_t strength = 0;
};

/// What the schema of a client has instead of the server's optional components.
enum class Peer { same, none, other_hat, other_set };
inline constexpr Peer kPeers[] = {Peer::same, Peer::none, Peer::other_hat, Peer::other_set};

inline Schema schema(Peer peer) {
    Schema out;
    out.component<Spot>("spot", quantised(0, 30'000, 0.5));
    out.component<Note>("note", max_length(8));
    out.component<Eyes>("eyes");
    out.pair<Follows>("follows", field(&Follows::distance, quantised(0, 100, 0.5)));
    out.pair<Likes>("likes", field(&Likes::grade, bounded(1, 5)));
    out.pair<Knows>("knows", max_length(20));
    out.pair<PartOf>("part of");
    if (peer == Peer::none) return out;
    if (peer == Peer::other_set) {  // lacks a tag, which shifts the numbers of others
        out.component<Smell>("smell");
        out.optional<Smell>();
    } else {
        out.tag<Glow>("glow");
        out.optional<Glow>();
    }
    out.pair<Fears>("fears");
    out.optional<Fears>();
    if (peer == Peer::other_hat) {
        out.component<OtherHat>("hat");
        out.optional<OtherHat>();
    } else {
        out.component<Hat>("hat");
        out.optional<Hat>();
    }
    return out;
}

inline naive::Description schema_by_hand(Peer peer) {
    using naive::Type;
    const naive::Field entity = naive::plain(Type::entity);
    const auto pairs = [&](std::string name, std::uint32_t length, std::vector<naive::Field> row) {
        row.insert(row.begin(), entity);
        return naive::Component{std::move(name), false, {}, {{length, std::move(row)}}, true};
    };
    std::vector<naive::Component> all = {
        {"spot", false, {naive::steps(Type::f32, 0, 30'000, 0.5)}, {}},
        {"note", false, {}, {naive::text(8)}},
        {"eyes", false, {entity}, {}},
        pairs("follows", 1, {naive::steps(Type::f32, 0, 100, 0.5)}),
        pairs("likes", 16, {naive::plain(Type::f64), naive::range(Type::u8, 1, 5)}),
        pairs("knows", 20, {}),
        pairs("part of", 1, {}),
    };
    const std::size_t required = all.size();
    if (peer != Peer::none) {
        const bool lacks_glow = peer == Peer::other_set;
        all.push_back(lacks_glow ? naive::Component{"smell", false, {naive::plain(Type::i32)}, {}}
                                 : naive::Component{"glow", true, {}, {}});
        all.push_back(pairs("fears", 16, {}));
        all.push_back({"hat", false, {naive::plain(peer == Peer::other_hat ? Type::f32 : Type::i32)}, {}});
    }
    for (std::size_t i = required; i < all.size(); ++i) all[i].is_optional = true;
    return naive::describe(all);
}

}  // namespace village

/// The server's world, changed at random. Also says what a peer must have of it, by the document.
class Village {
public:
    Village(Pair& pair, village::Peer peer, std::uint64_t seed)
        : world_(pair.world), sender_(pair.sender), random_(seed) {
        const naive::Description ours = village::schema_by_hand(village::Peer::same);
        std::uint32_t number = 0;
        const naive::Description theirs = village::schema_by_hand(peer);
        for (const auto& [id, component] : theirs) {
            if (naive::is_known_in(ours, component)) numbers_[component.name] = number;
            ++number;
        }
    }

    void change() {
        std::erase_if(entities_, [&](ecs::Entity entity) { return !world_.is_alive(entity); });
        if (entities_.size() < 4 || (entities_.size() < 16 && random_.chance(0.2))) return spawn();
        const ecs::Entity entity = any();
        switch (random_.below(16)) {
            case 0:
                world_.destroy(random_.chance(0.3) ? entity : any_keyed());
                if (random_.chance(0.5)) spawn();
                return;
            case 1:
                return world_.has<Replicated>(entity) ? world_.remove<Replicated>(entity)
                                                      : world_.add<Replicated>(entity);
            case 2:
            case 3:
                return move(entity);
            case 4:
                return world_.set(entity, village::Note{std::string(random_.below(9), 'n')});
            case 5:
            case 8:
                return world_.set(entity, village::Eyes{random_.chance(0.5) ? any() : any_keyed()});
            case 6:
                return world_.set(entity, village::Hat{static_cast<std::int32_t>(random_.below(99))});
            case 7:
                return world_.has<village::Glow>(entity) ? world_.remove<village::Glow>(entity)
                                                         : world_.add<village::Glow>(entity);
            case 9:
                return world_.remove<village::Hat, village::Eyes>(entity);
            default:
                return change_pairs(entity);
        }
    }

    /// What a peer that has the newest tick has, by net id.
    std::map<std::uint32_t, naive::State> expected() {
        std::map<std::uint32_t, naive::State> out;
        for (const ecs::Entity entity : entities_)
            if (world_.is_alive(entity) && world_.has<Replicated>(entity))
                out[net_id(entity)] = expected(entity);
        return out;
    }

    /// The entities of each cluster, by net id, with the lane of their Spot.
    using Members = std::map<std::uint32_t, std::uint32_t>;
    std::map<std::uint32_t, Members> clusters() {
        std::map<std::uint32_t, Members> out;
        for (const ecs::Entity entity : entities_) {
            if (!world_.is_alive(entity) || !world_.has<Replicated>(entity)) continue;
            if (const Cluster* cluster = world_.try_get<Cluster>(entity)) {
                out[cluster->id][net_id(entity)] = lane(world_.get<village::Spot>(entity).x);
                cluster_of_[net_id(entity)] = cluster->id;
            }
        }
        return out;
    }
    /// The cluster of an entity that has or had the net id; kNone if it never was in one.
    static constexpr std::uint32_t kNone = 0xffffffff;
    std::uint32_t cluster_of(std::uint32_t id) const {
        const auto found = cluster_of_.find(id);
        return found == cluster_of_.end() ? kNone : found->second;
    }
    std::uint32_t number_of(const std::string& component) const { return numbers_.at(component); }

    /// What a reader makes of the net ids: one that is not reserved, and of which there is no entity, is
    /// null.
    void drop_strangers(std::map<std::uint32_t, naive::State>& states) const {
        const auto is_strange = [&](std::uint32_t id) { return id < 0xff000000 && states.count(id) == 0; };
        for (auto& [net_id, state] : states) {
            const auto eyes = state.find(number_of("eyes"));
            if (eyes != state.end() && is_strange(eyes->second.lanes[0])) eyes->second.lanes[0] = 0;
            for (const char* relation : {"follows", "likes", "knows", "part of", "fears"}) {
                const auto number = numbers_.find(relation);
                if (number == numbers_.end() || state.count(number->second) == 0) continue;
                auto& rows = state[number->second].parts.at(0);
                std::erase_if(rows, [&](const auto& row) { return is_strange(row[0]); });
                if (rows.empty()) state.erase(number->second);
            }
        }
    }

private:
    static constexpr std::uint32_t kClusters = 3;

    static std::uint32_t lane(float half_steps) { return static_cast<std::uint32_t>(half_steps * 2); }
    ecs::Entity any() { return entities_[random_.below(static_cast<std::uint32_t>(entities_.size()))]; }

    ecs::Entity any_keyed() {
        const auto has_key = [&](ecs::Entity entity) { return world_.has<StableKey>(entity); };
        const auto found = std::find_if(entities_.begin(), entities_.end(), has_key);
        return found == entities_.end() ? any() : *found;
    }

    /// Entities with keys keep their cluster, because another one may get the net id.
    void spawn() {
        constexpr std::uint32_t kKeys[] = {0, 1, 2, 300, kMaxStableKey};
        const std::uint32_t key = random_.pick(kKeys);
        const bool is_keyed = random_.chance(0.5) && !keyed(key);
        const std::uint32_t cluster = is_keyed ? key % 4 : random_.below(5);
        const ecs::Entity entity = world_.spawn(village::Spot{spots_[cluster % 5]});
        if (is_keyed) world_.set(entity, StableKey{key});
        if (cluster < kClusters) world_.set(entity, Cluster{cluster});
        world_.add<Replicated>(entity);
        entities_.push_back(entity);
    }
    ecs::Entity keyed(std::uint32_t key) {
        for (const ecs::Entity entity : entities_)
            if (world_.is_alive(entity) && world_.has<StableKey>(entity) &&
                world_.get<StableKey>(entity).value == key)
                return entity;
        return {};
    }

    /// Moves an entity with all others of its cluster.
    void move(ecs::Entity entity) {
        const float x = static_cast<float>(random_.below(60'000)) / 2;
        const Cluster* const cluster = world_.try_get<Cluster>(entity);
        if (!cluster) return world_.set(entity, village::Spot{x});
        const std::uint32_t id = cluster->id;
        spots_[id] = x;
        for (const ecs::Entity other : entities_)
            if (world_.is_alive(other) && world_.has<Cluster>(other) && world_.get<Cluster>(other).id == id)
                world_.set(other, village::Spot{x});
    }

    /// Often of one of the first entities, which then have many targets.
    void change_pairs(ecs::Entity any_source) {
        using namespace village;
        const ecs::Entity source = random_.chance(0.5) ? any_source : entities_[random_.below(2)];
        const ecs::Entity target = any();
        const float distance = static_cast<float>(random_.below(200)) / 2;
        const std::uint8_t grade = static_cast<std::uint8_t>(1 + random_.below(5));
        switch (random_.below(10)) {
            case 0:
            case 1:
                return world_.set(source, ecs::to<Follows>(target), Follows{distance});
            case 2:
            case 3:
            case 4:
                return world_.set(source, ecs::to<Likes>(target), Likes{random_.between(-9, 9), grade});
            case 5:
            case 6:
                return world_.add(source, ecs::to<Knows>(target));
            case 7:
                return source == target ? void() : world_.add(source, ecs::to<PartOf>(target));
            case 8:
                return world_.add(source, ecs::to<Fears>(target));
            default:
                if (world_.has(source, ecs::to<Likes>(target))) world_.remove(source, ecs::to<Likes>(target));
                if (world_.has(source, ecs::to<Knows>(target))) world_.remove(source, ecs::to<Knows>(target));
                if (world_.has(source, ecs::to<Follows>(target)))
                    world_.remove(source, ecs::to<Follows>(target));
        }
    }

    /// The net id in references: that of a key, also if the entity does not replicate.
    std::uint32_t net_id(ecs::Entity entity) {
        if (!entity || !world_.is_alive(entity)) return 0;
        if (const StableKey* key = world_.try_get<StableKey>(entity)) return 0xff000000 + key->value;
        return world_.has<Replicated>(entity) ? sender_.net_id(entity) : 0;
    }

    naive::State expected(ecs::Entity entity) {
        using namespace village;
        naive::State out;
        const auto put = [&](const char* name, naive::Value value) {
            if (numbers_.count(name) != 0) out[numbers_[name]] = std::move(value);
        };
        put("spot", {{lane(world_.get<Spot>(entity).x)}, {}});
        if (const Note* note = world_.try_get<Note>(entity)) {
            naive::Value value{{}, {{}}};
            for (const char letter : note->text) value.parts[0].push_back({std::uint32_t(letter)});
            put("note", value);
        }
        if (const Eyes* eyes = world_.try_get<Eyes>(entity)) put("eyes", {{net_id(eyes->at)}, {}});
        if (const Hat* hat = world_.try_get<Hat>(entity)) put("hat", {{std::uint32_t(hat->size)}, {}});
        if (world_.has<Glow>(entity)) put("glow", {});
        put_rows<Follows>("follows", entity, out,
                          [](const Follows& follows, auto& row) { row.push_back(lane(follows.distance)); });
        put_rows<Likes>("likes", entity, out, [](const Likes& likes, auto& row) {
            const std::uint64_t bits = std::bit_cast<std::uint64_t>(likes.weight);
            row.push_back(static_cast<std::uint32_t>(bits));
            row.push_back(static_cast<std::uint32_t>(bits >> 32));
            row.push_back(likes.grade - 1u);
        });
        put_rows<Knows>("knows", entity, out, [](auto&&, auto&) {});
        put_rows<PartOf>("part of", entity, out, [](auto&&, auto&) {});
        put_rows<Fears>("fears", entity, out, [](auto&&, auto&) {});
        return out;
    }

    /// One row for each target with a net id, in the order of the net ids.
    template <class R, class Put>
    void put_rows(const char* name, ecs::Entity source, naive::State& out, Put&& put) {
        std::vector<std::vector<std::uint32_t>> rows;
        const auto targets = world_.targets<R>(source);
        for (std::size_t i = 0; i < targets.size(); ++i) {
            const std::uint32_t target = net_id(targets[i]);
            if (target == 0) continue;
            rows.push_back({target});
            if constexpr (!std::is_empty_v<R>) put(targets.value(i), rows.back());
        }
        std::sort(rows.begin(), rows.end());
        if (!rows.empty() && numbers_.count(name) != 0) out[numbers_[name]] = {{}, {rows}};
    }

    ecs::World& world_;
    Sender& sender_;
    sim::Random random_;
    std::vector<ecs::Entity> entities_;                  // some may be dead
    float spots_[5] = {};                                // by cluster
    std::map<std::string, std::uint32_t> numbers_;       // of the components that both sides know
    std::map<std::uint32_t, std::uint32_t> cluster_of_;  // by net id
};

}  // namespace shoal::replication::impl
