// A server whose entities get and lose pairs of every kind of relation, and clients that lose packets. After
// each update, the pairs of each replica are compared with those of the server at the tick of its version.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim {
namespace {

constexpr std::size_t kWatchers = 2, kMaxEntities = 30;

struct Leads {
    static constexpr auto relation = ecs::exclusive;
    std::int32_t rank = 0;
    ecs::Entity deputy;
};
struct Touches {
    static constexpr auto relation = ecs::many;
};
struct Trades {
    static constexpr auto relation = ecs::many;
    std::int32_t price = 0;
};
struct Carries {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

replication::Schema pair_schema() {
    using namespace replication;
    Schema schema;
    schema.component<Health>("health");
    schema.pair<Leads>("leads", field(&Leads::rank, bounded(0, 1000)));
    schema.pair<Touches>("touches", max_length(100));
    schema.pair<Trades>("trades", max_length(100));
    schema.pair<Carries>("carries");
    return schema;
}

/// The pairs of one source: relation and net id of the target, with the value.
using PairValues = std::map<std::pair<std::string, replication::NetId>, std::vector<std::int64_t>>;

template <class NetIdOf>
PairValues pairs_of(ecs::World& world, ecs::Entity source, NetIdOf&& net_id_of) {
    PairValues out;
    for (const ecs::Entity target : world.targets<Leads>(source)) {
        const Leads& leads = world.get(source, ecs::to<Leads>(target));
        out[{"leads", net_id_of(target)}] = {leads.rank, net_id_of(leads.deputy)};
    }
    for (const ecs::Entity target : world.targets<Touches>(source)) out[{"touches", net_id_of(target)}] = {};
    for (const ecs::Entity target : world.targets<Trades>(source))
        out[{"trades", net_id_of(target)}] = {world.get(source, ecs::to<Trades>(target)).price};
    for (const ecs::Entity target : world.targets<Carries>(source)) out[{"carries", net_id_of(target)}] = {};
    std::erase_if(out, [](const auto& pair) { return pair.first.second == 0; });
    return out;
}

class PairGame {
public:
    PairGame(std::uint64_t seed, const net::LinkConfig& link)
        : random_(seed), session_(schema_, link, kWatchers, seed) {}

    void step(bool with_changes) {
        for (std::uint32_t i = with_changes ? random_.below(5) : 0; i > 0; --i) change();
        session_.step();
        record();
        for (std::size_t watcher = 0; watcher < kWatchers; ++watcher) check(watcher);
    }

    void heal() { session_.set_link({}); }

    void expect_agreement() {
        replication::WorldHash hash(session_.world(), schema_);
        const auto truth = hash.of_server(session_.server().sender().shadow());
        for (const auto& guest : session_.guests()) {
            replication::WorldHash of_guest(guest->world, schema_);
            const auto sum = of_guest.of_client(guest->client.receiver());
            EXPECT_EQ(sum.hash, truth.hash);
            EXPECT_EQ(sum.entities, truth.entities);
            EXPECT_EQ(guest->client.receiver().stats().suppressed, 0u) << "nobody destroys replicas";
            EXPECT_EQ(guest->world.size(), truth.entities);
        }
        EXPECT_GT(checked_, 10'000u);
        EXPECT_GT(parts_lost_, 0u) << "no parent died with its parts";
    }

private:
    ecs::Entity any() { return entities_[random_.below(static_cast<std::uint32_t>(entities_.size()))]; }

    template <class R>
    void change_pair(ecs::Entity source, R value) {
        ecs::World& world = session_.world();
        const ecs::Entity target = any();
        if (random_.chance(0.4)) {
            for (const ecs::Entity old : world.targets<R>(source))
                if (random_.chance(0.5)) world.remove(source, ecs::to<R>(old));
        } else if constexpr (std::is_empty_v<R>) {
            world.add(source, ecs::to<R>(target));
        } else {
            world.set(source, ecs::to<R>(target), std::move(value));
        }
    }

    /// A part never carries what it is part of.
    bool is_inside(ecs::Entity entity, ecs::Entity whole) {
        while (entity && entity != whole) entity = session_.world().target<Carries>(entity);
        return entity == whole;
    }

    void change() {
        ecs::World& world = session_.world();
        std::erase_if(entities_, [&](ecs::Entity entity) { return !world.is_alive(entity); });
        if (entities_.size() < 3 || (entities_.size() < kMaxEntities && random_.chance(0.2))) {
            entities_.push_back(world.spawn(replication::Replicated{}, Health{}));
            return;
        }
        const ecs::Entity entity = any();
        switch (random_.below(12)) {
            case 0:
                if (random_.chance(0.5)) return;
                if (!world.sources(ecs::to<Carries>(entity)).empty()) ++parts_lost_;
                return world.destroy(entity);
            case 1:
                if (world.has<replication::Replicated>(entity)) {
                    world.remove<replication::Replicated>(entity);
                } else {
                    world.add<replication::Replicated>(entity);
                }
                return;
            case 2:
                world.set(entity, Health{static_cast<std::int32_t>(random_.below(100)), 0});
                return;
            case 3:
            case 4:
                return change_pair(entity, Touches{});
            case 5:
            case 6:
                return change_pair(entity, Trades{static_cast<std::int32_t>(random_.below(50))});
            case 7:
            case 8:
            case 9:
                return change_pair(entity, Leads{static_cast<std::int32_t>(random_.below(50)), any()});
            default: {
                const ecs::Entity whole = any();
                if (random_.chance(0.2)) return world.remove(entity, ecs::to<Carries>(whole));
                if (!is_inside(whole, entity)) world.add(entity, ecs::to<Carries>(whole));
            }
        }
    }

    void record() {
        auto& truth = truth_[session_.server().current_tick()];
        const auto net_id_of = [&](ecs::Entity entity) { return session_.server().sender().net_id(entity); };
        for (const ecs::Entity entity : entities_)
            if (session_.world().is_alive(entity) && session_.world().has<replication::Replicated>(entity))
                truth[net_id_of(entity)] = pairs_of(session_.world(), entity, net_id_of);
    }

    void check(std::size_t watcher) {
        ecs::World& world = session_.guests()[watcher]->world;
        const auto& receiver = session_.guests()[watcher]->client.receiver();
        const auto net_id_of = [&](ecs::Entity entity) { return receiver.net_id(entity); };
        receiver.for_each_entity([&](replication::NetId net_id, ecs::Entity entity) {
            const auto version = receiver.at(net_id, *receiver.newest_tick());
            ASSERT_TRUE(version);
            const auto& truth = truth_.at(version->tick);
            ASSERT_TRUE(truth.contains(net_id));
            PairValues expected = truth.at(net_id), is = pairs_of(world, entity, net_id_of);
            const auto is_gone = [&](const auto& pair) { return !receiver.entity(pair.first.second); };
            std::erase_if(expected, is_gone);
            for (auto* pairs : {&expected, &is})  // deputies and targets that do not replicate any more
                for (auto& [key, value] : *pairs)
                    if (key.first == "leads" && (!truth.contains(static_cast<replication::NetId>(value[1])) ||
                                                 !receiver.entity(static_cast<replication::NetId>(value[1]))))
                        value[1] = 0;
            std::erase_if(is, [&](const auto& pair) { return !truth.contains(pair.first.second); });
            ASSERT_EQ(is, expected) << "watcher " << watcher << ", net id " << net_id << ", tick "
                                    << version->tick;
            ++checked_;
        });
        EXPECT_TRUE(receiver.is_consistent());
    }

    replication::Schema schema_ = pair_schema();
    Random random_;
    Session session_;
    std::vector<ecs::Entity> entities_;
    std::map<replication::Tick, std::map<replication::NetId, PairValues>> truth_;
    std::size_t checked_ = 0, parts_lost_ = 0;
};

TEST(PairWorld, Rule27EachReplicaHasThePairsOfItsVersionUnderLoss) {
    for (const std::uint64_t seed : kind_seeds(12)) {
        SCOPED_TRACE(testing::Message() << "SHOAL_KIND_SEEDS=" << seed << ":1");
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(10 * static_cast<int>(seed % 13));
        if (seed % 2 == 0) link.jitter = std::chrono::milliseconds(25);
        link.loss = 0.03 * static_cast<double>(seed % 7);
        PairGame game(seed, link);
        for (int tick = 0; tick < 500 && !testing::Test::HasFatalFailure(); ++tick) game.step(true);
        game.heal();
        for (int tick = 0; tick < 200 && !testing::Test::HasFatalFailure(); ++tick) game.step(false);
        game.expect_agreement();
        if (testing::Test::HasFailure()) break;
    }
}

}  // namespace
}  // namespace shoal::sim
