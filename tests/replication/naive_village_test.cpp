// Two decoders read every payload about worlds with pairs, stable keys, clusters and optional components: the
// library's, and a simple one written from replication/WIRE.md.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/replication/support/naive_race.h"
#include "tests/replication/support/naive_village.h"

namespace shoal::replication::impl {
namespace {

constexpr std::uint32_t kVillageSlots = 500;

/// What occurred in the states that were compared with the server's world.
struct VillageCoverage {
    int worlds = 0, rows = 0, longest = 0, reserved_sources = 0, reserved_targets = 0, ghosts = 0, known = 0;
    int clusters = 0;
};

/// The naive decoder's newest states by net id.
std::map<std::uint32_t, naive::State> newest_states(const naive::Decoder& decoder) {
    std::map<std::uint32_t, naive::State> out;
    for (const auto& [slot, replica] : decoder.replicas()) {
        auto newest = replica.versions.begin();
        for (auto at = newest; at != replica.versions.end(); ++at)
            if (naive::is_after(at->first, newest->first)) newest = at;
        out[replica.net_id] = newest->second;
    }
    return out;
}

/// One line for each entity.
std::string text_of(const std::map<std::uint32_t, naive::State>& states) {
    std::string text;
    const auto add = [&](const std::vector<std::uint32_t>& lanes) {
        text += " (";
        for (const std::uint32_t lane : lanes) text += std::to_string(lane) + ' ';
        text += ')';
    };
    for (const auto& [net_id, state] : states) {
        text += std::to_string(net_id) + ':';
        for (const auto& [number, value] : state) {
            text += " component " + std::to_string(number);
            add(value.lanes);
            for (const auto& part : value.parts)
                for (const auto& element : part) add(element);
        }
        text += '\n';
    }
    return text;
}

class VillageRace {
public:
    VillageRace(std::uint64_t seed, village::Peer peer, Coverage& seen, VillageCoverage& of_village)
        : random_(seed),
          pair_(village::schema(village::Peer::same), village::schema(peer), sender_options(random_),
                {.max_slots = kVillageSlots}, random_.chance(0.5) ? 1 : 0xffffffe0u),
          race_(pair_.receiver, pair_.receiver_schema, {village::schema_by_hand(peer), kVillageSlots}, seen),
          village_(pair_, peer, seed),
          path_(pair_, race_, random_, seen),
          seen_(of_village) {}

    void run(bool is_hostile) {
        constexpr std::size_t kCapacities[] = {60, 200, 1'100};
        const std::size_t capacity = random_.pick(kCapacities);
        path_.delay = random_.pick({0.0, 0.3, 0.7});
        path_.damage = is_hostile ? 0.6 : 0;
        if (!is_hostile) path_.check = [this] { compare_clusters(); };
        bool is_over = false;
        for (int step = 0; step < 60 && !is_over; ++step) {
            if (step == 52) path_.delay = path_.loss = 0;  // all packets arrive
            for (std::uint32_t i = step < 50 ? random_.below(6) : 0; i > 0; --i) village_.change();
            pair_.tick();
            for (const auto& [id, members] : village_.clusters()) past_[id].insert(members);
            path_.send(capacity);
            ASSERT_NO_FATAL_FAILURE(path_.deliver(is_over));
            if (!is_hostile) {
                ASSERT_NO_FATAL_FAILURE(compare_worlds());
            }
        }
        if (is_hostile) return;
        pair_.receiver.apply();
        ASSERT_NO_FATAL_FAILURE(race_.compare_complete());
        ASSERT_TRUE(race_.decoder.complete().has_value());
    }

private:
    static SenderOptions sender_options(sim::Random& random) {
        return {.history_s = random.chance(0.3) ? 0.1 : 0.6};
    }

    /// If the naive decoder says that it has the newest tick, it has the server's world.
    void compare_worlds() {
        const auto complete = race_.decoder.complete();
        if (!complete || complete->second != pair_.sender.tick()) return;
        auto states = newest_states(race_.decoder);
        village_.drop_strangers(states);
        ASSERT_EQ(text_of(states), text_of(village_.expected()));
        seen_.worlds += 1;
        for (const auto& [net_id, state] : states) {
            seen_.reserved_sources += net_id >= 0xff000000;
            for (const char* relation : {"follows", "likes", "knows", "part of"}) {
                const auto found = state.find(village_.number_of(relation));
                if (found == state.end()) continue;
                const auto& rows = found->second.parts.at(0);
                seen_.rows += 1;
                seen_.longest = std::max(seen_.longest, static_cast<int>(rows.size()));
                for (const auto& row : rows) {
                    seen_.reserved_targets += row[0] >= 0xff000000;
                    seen_.ghosts += states.count(row[0]) == 0;
                }
            }
        }
    }

    /// After each payload, a cluster is as the server had it in one tick.
    void compare_clusters() {
        std::map<std::uint32_t, Village::Members> present;
        for (const auto& [net_id, state] : newest_states(race_.decoder)) {
            const std::uint32_t cluster = village_.cluster_of(net_id);
            if (cluster != Village::kNone)
                present[cluster][net_id] = state.at(village_.number_of("spot")).lanes.at(0);
        }
        for (const auto& [id, members] : present) {
            ASSERT_EQ(past_[id].count(members), 1u) << "cluster " << id;
            seen_.clusters += members.size() > 1;
        }
    }

    sim::Random random_;
    Pair pair_;
    Race race_;
    Village village_;
    NaivePath path_;
    VillageCoverage& seen_;
    std::map<std::uint32_t, std::set<Village::Members>> past_;  // by cluster
};

}  // namespace

// Goal: with WIRE.md alone one can read pairs, reserved net ids, clusters, and the component numbers of a
// client with another schema. Method: both decoders read what a sender writes about random worlds. When the
// second decoder is complete, its lanes and rows are compared with the server's world.
TEST(NaiveVillage, ReadsWhatTheSenderWrites) {
    Coverage seen;
    VillageCoverage of_village;
    for (const village::Peer peer : village::kPeers)
        for (std::uint64_t seed = 1; seed <= 30; ++seed) {
            SCOPED_TRACE(testing::Message() << "peer " << int(peer) << " seed " << seed);
            VillageRace race(seed, peer, seen, of_village);
            ASSERT_NO_FATAL_FAILURE(race.run(false));
        }
    for (const int count :
         {of_village.worlds, of_village.rows, of_village.reserved_sources, of_village.reserved_targets,
          of_village.ghosts, of_village.clusters, seen.at_anchor, seen.other, seen.full, seen.despawns[0],
          seen.despawns[1], seen.reordered, seen.complete, seen.checks})
        EXPECT_GT(count, 100);
    EXPECT_EQ(seen.differences, 0);
    EXPECT_GE(of_village.longest, 4);
}

// Goal: the library refuses a payload exactly if a rule of WIRE.md refuses it.
TEST(NaiveVillage, RefusesWhatTheLibraryRefuses) {
    Coverage seen;
    VillageCoverage of_village;
    for (const village::Peer peer : village::kPeers)
        for (std::uint64_t seed = 1; seed <= 15; ++seed) {
            SCOPED_TRACE(testing::Message() << "peer " << int(peer) << " seed " << seed);
            VillageRace race(seed, peer, seen, of_village);
            ASSERT_NO_FATAL_FAILURE(race.run(true));
        }
    EXPECT_GT(seen.flipped_accepted, 100);
    EXPECT_GT(seen.flipped_refused, 1'000);
}

TEST(NaiveVillage, ComputesTheHashAndSummaryOfASchemaWithOptionalComponents) {
    for (const village::Peer peer : village::kPeers) {
        const Schema schema = village::schema(peer);
        ASSERT_EQ(schema.error(), "");
        EXPECT_EQ(naive::hash_of(village::schema_by_hand(peer)), schema.hash());
        EXPECT_EQ(naive::summary_of(village::schema_by_hand(peer)), schema.summary());
    }
}

}  // namespace shoal::replication::impl
