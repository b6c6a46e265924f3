// Which peers get which components, for each view class and for sets of them.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "replication/receive/receiver.h"
#include "replication/send/sender.h"

namespace shoal::replication::impl::who_sees_test {
namespace {

template <int N>
struct Fact {
    int number = N;
};

/// What a peer is for the entity.
struct Part {
    bool owns = false, predicts = false, in_first = false, in_last = false;
};

Schema facts_schema() {
    Schema schema;
    schema.component<Fact<0>>("all");
    schema.component<Fact<1>>("owner", to_owner());
    schema.component<Fact<2>>("others", to_others());
    schema.component<Fact<3>>("predictors", to_predictors());
    schema.component<Fact<4>>("first group", to_group(0));
    schema.component<Fact<5>>("last group", to_group(kMaxGroups - 1));
    schema.component<Fact<6>>("owner or first group", to_owner() | to_group(0));
    schema.component<Fact<7>>("predictors or others", to_predictors() | to_others());
    return schema;
}

std::array<bool, 8> expected(const Part& part) {
    return {true,
            part.owns,
            !part.owns,
            part.predicts,
            part.in_first,
            part.in_last,
            part.owns || part.in_first,
            part.predicts || !part.owns};
}

struct Watcher {
    Watcher(Sender& its_sender, const Schema& schema) : sender(its_sender), receiver(world, schema) {}
    void exchange() {
        std::byte room[1300];
        while (true) {
            const auto payload = sender.encode(peer, number, 1100, room);
            if (payload.empty()) break;
            EXPECT_EQ(receiver.receive(number, payload), Receiver::Verdict::accepted);
            sender.on_fate(peer, number++, true);
        }
        receiver.apply();
    }
    std::array<bool, 8> sees(ecs::Entity entity) {
        const ecs::Entity replica = receiver.entity(sender.net_id(entity));
        return {world.has<Fact<0>>(replica), world.has<Fact<1>>(replica), world.has<Fact<2>>(replica),
                world.has<Fact<3>>(replica), world.has<Fact<4>>(replica), world.has<Fact<5>>(replica),
                world.has<Fact<6>>(replica), world.has<Fact<7>>(replica)};
    }

    Sender& sender;
    ecs::World world;
    Receiver receiver;
    Sender::Peer peer = sender.add_peer();
    std::uint64_t number = 1;
    Part part;
};

// Roles and groups of three peers change at random. Each peer has exactly what its view classes show.
TEST(WhoSees, EachPeerHasTheComponentsOfItsViewClasses) {
    const Schema schema = facts_schema();
    ecs::World world;
    Sender sender(world, schema);
    std::vector<std::unique_ptr<Watcher>> watchers;
    for (int i = 0; i < 3; ++i) watchers.push_back(std::make_unique<Watcher>(sender, schema));
    const ecs::Entity entity = world.spawn(Replicated{}, Fact<0>{}, Fact<1>{}, Fact<2>{}, Fact<3>{},
                                           Fact<4>{}, Fact<5>{}, Fact<6>{}, Fact<7>{});
    std::mt19937 random(11);
    for (Tick tick = 1; tick <= 300; ++tick) {
        SCOPED_TRACE(tick);
        Watcher& one = *watchers[random() % 3];
        switch (random() % 5) {
            case 0:
                for (const auto& watcher : watchers) watcher->part.owns = watcher.get() == &one;
                ASSERT_TRUE(sender.set_owner(entity, one.peer));
                break;
            case 1:
                for (const auto& watcher : watchers) watcher->part.owns = false;
                ASSERT_TRUE(sender.set_owner(entity, std::nullopt));
                break;
            case 2:
                one.part.predicts = random() % 2 == 0;
                ASSERT_TRUE(sender.set_predictor(one.peer, entity, one.part.predicts));
                break;
            default:
                one.part.in_first = random() % 2 == 0;
                one.part.in_last = random() % 2 == 0;
                sender.set_groups(one.peer,
                                  (one.part.in_first ? to_group(0) : ViewClasses{}) |
                                      (one.part.in_last ? to_group(kMaxGroups - 1) : ViewClasses{}));
        }
        sender.update(tick);
        for (const auto& watcher : watchers) {
            watcher->exchange();
            EXPECT_EQ(watcher->sees(entity), expected(watcher->part));
        }
        ASSERT_TRUE(sender.is_consistent());
    }
}

TEST(WhoSees, ViewClassesAreApart) {
    std::vector<ViewClasses> all = {to_owner(), to_others(), to_predictors()};
    for (unsigned group = 0; group < kMaxGroups; ++group) {
        all.push_back(to_group(group));
        EXPECT_TRUE(overlap(to_group(group), to_all_groups()));
    }
    ViewClasses sum;
    for (std::size_t i = 0; i < all.size(); ++i) {
        for (std::size_t j = 0; j < all.size(); ++j) EXPECT_EQ(overlap(all[i], all[j]), i == j);
        EXPECT_TRUE(overlap(all[i], to_everyone()));
        sum = sum | all[i];
    }
    EXPECT_EQ(sum, to_everyone());
    for (std::size_t i = 0; i < 3; ++i) EXPECT_FALSE(overlap(all[i], to_all_groups()));
}

}  // namespace
}  // namespace shoal::replication::impl::who_sees_test
