// A server with clusters of many sizes, whose entities change, appear and disappear, and clients that lose
// packets. After each update, the replicas of each cluster must be those of one tick of the server.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim {
namespace {

constexpr std::size_t kCrews = 2;
constexpr std::uint32_t kSingles = 40;  // entities in no cluster

struct Berth {
    std::uint32_t cluster = 0;
    std::uint32_t value = 0;
};
struct Boxes {
    std::vector<std::uint32_t> crates;
};

replication::Schema cluster_schema() {
    using namespace replication;
    Schema schema;
    schema.component<Berth>("berth");
    schema.component<Boxes>("boxes", field(&Boxes::crates, max_length(50)));
    return schema;
}

class ClusterGame {
public:
    ClusterGame(std::uint64_t seed, const net::LinkConfig& link, std::vector<std::uint32_t> sizes)
        : random_(seed), session_(schema_, link, kCrews, seed), sizes_(std::move(sizes)) {
        members_.resize(sizes_.size());
        truth_.resize(sizes_.size(), {Values{}});
        for (auto& shown : shown_) shown.assign(sizes_.size(), {});
        for (std::uint32_t i = 0; i < kSingles; ++i)
            singles_.push_back(session_.world().spawn(replication::Replicated{}, Berth{~0u, 0}));
    }

    void step(bool with_changes) {
        if (with_changes) {
            for (std::uint32_t cluster = 0; cluster < sizes_.size(); ++cluster) change(cluster);
            for (int i = 0; i < 5; ++i)
                session_.world().set(singles_[random_.below(kSingles)], Berth{~0u, any_value()});
        }
        session_.step();
        for (std::uint32_t cluster = 0; cluster < sizes_.size(); ++cluster) record(cluster);
        for (std::size_t crew = 0; crew < kCrews; ++crew) check(crew);
    }

    void heal() { session_.set_link({}); }

    void expect_agreement() {
        session_.converge(300);
        std::uint32_t entities = kSingles;
        for (const auto& members : members_) entities += static_cast<std::uint32_t>(members.size());
        session_.expect_agreement(entities);
    }

    /// The fewest ticks of any cluster that a client saw.
    std::size_t fewest_seen() const {
        std::size_t fewest = SIZE_MAX;
        for (const auto& shown : shown_)
            for (const Shown& of_cluster : shown) fewest = std::min(fewest, of_cluster.count);
        return fewest;
    }
    std::uint64_t parted() const {
        std::uint64_t parted = 0;
        session_.server().for_each_peer(
            [&](net::PeerId peer) { parted += session_.server().stats(peer).state.parted_clusters; });
        return parted;
    }

private:
    using Values = std::map<replication::NetId, std::uint32_t>;
    struct Shown {
        std::size_t index = 0;  // in truth_ of the cluster
        std::size_t count = 0;  // how many different ones the client saw
    };

    std::uint32_t any_value() { return static_cast<std::uint32_t>(random_.next()); }

    void change(std::uint32_t cluster) {
        ecs::World& world = session_.world();
        auto& members = members_[cluster];
        while (members.size() < sizes_[cluster]) {
            const ecs::Entity entity = world.spawn(replication::Replicated{}, replication::Cluster{cluster},
                                                   Berth{cluster, any_value()});
            members.push_back(entity);
        }
        if (random_.chance(0.3)) return;
        const std::uint32_t count = random_.chance(0.5) ? 1 : random_.below(sizes_[cluster]) + 1;
        for (std::uint32_t i = 0; i < count; ++i) {
            const ecs::Entity entity = members[random_.below(static_cast<std::uint32_t>(members.size()))];
            world.set(entity, Berth{cluster, any_value()});
            if (random_.chance(0.1))
                world.set(entity, Boxes{std::vector<std::uint32_t>(random_.below(30), 7)});
        }
        if (random_.chance(0.1)) {
            const std::size_t index = random_.below(static_cast<std::uint32_t>(members.size()));
            world.destroy(members[index]);
            members.erase(members.begin() + static_cast<std::ptrdiff_t>(index));
        }
    }

    void record(std::uint32_t cluster) {
        Values values;
        for (const ecs::Entity entity : members_[cluster])
            values[session_.server().sender().net_id(entity)] = session_.world().get<Berth>(entity).value;
        truth_[cluster].push_back(std::move(values));
    }

    void check(std::size_t crew) {
        ecs::World& world = session_.guests()[crew]->world;
        const auto& receiver = session_.guests()[crew]->client.receiver();
        std::vector<Values> values(sizes_.size());
        receiver.for_each_entity([&](replication::NetId net_id, ecs::Entity entity) {
            const Berth& berth = world.get<Berth>(entity);
            if (berth.cluster < values.size()) values[berth.cluster][net_id] = berth.value;
        });
        for (std::uint32_t cluster = 0; cluster < sizes_.size(); ++cluster)
            check(crew, cluster, values[cluster]);
    }

    void check(std::size_t crew, std::uint32_t cluster, const Values& values) {
        Shown& shown = shown_[crew][cluster];
        const auto& truth = truth_[cluster];
        if (truth[shown.index] == values) return;
        const auto found =
            std::find(truth.begin() + static_cast<std::ptrdiff_t>(shown.index), truth.end(), values);
        ASSERT_NE(found, truth.end()) << "client " << crew << " shows cluster " << cluster << " of "
                                      << sizes_[cluster] << " entities as in no tick of the server";
        shown.index = static_cast<std::size_t>(found - truth.begin());
        shown.count += 1;
    }

    replication::Schema schema_ = cluster_schema();
    Random random_;
    mutable Session session_;
    std::vector<std::uint32_t> sizes_;
    std::vector<ecs::Entity> singles_;
    std::vector<std::vector<ecs::Entity>> members_;  // by cluster
    std::vector<std::vector<Values>> truth_;         // by cluster and tick
    std::array<std::vector<Shown>, kCrews> shown_;   // by client and cluster
};

net::LinkConfig lossy_link(std::uint64_t seed) {
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(10 * static_cast<int>(seed % 11));
    if (seed % 2 == 0) link.jitter = std::chrono::milliseconds(25);
    link.loss = 0.05 * static_cast<double>(seed % 5);
    link.duplicate = seed % 3 == 0 ? 0.05 : 0;
    return link;
}

TEST(ClusterWorld, ClientsSeeEachClusterAsItWasInOneTick) {
    for (const std::uint64_t seed : kind_seeds(12)) {
        SCOPED_TRACE(testing::Message() << "SHOAL_KIND_SEEDS=" << seed << ":1");
        ClusterGame game(seed, lossy_link(seed), {1, 2, 3, 10, 30, 100, seed % 3 == 0 ? 2'000u : 300u});
        for (int tick = 0; tick < 500 && !testing::Test::HasFatalFailure(); ++tick) game.step(true);
        // The largest clusters need a large payload for each change. With long latency and 20 % loss, each of
        // those takes about two seconds.
        EXPECT_GE(game.fewest_seen(), 2u) << "a cluster starves";
        EXPECT_EQ(game.parted(), 0u);
        game.heal();
        game.expect_agreement();
        if (testing::Test::HasFailure()) break;
    }
}

}  // namespace
}  // namespace shoal::sim
