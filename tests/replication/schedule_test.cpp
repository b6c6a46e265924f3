// every() and fresh_within(): when changes are sent, which ones come first, and what is late.

#include "replication/send/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "replication/receive/receiver.h"
#include "replication/send/sender.h"

namespace shoal::replication::impl::schedule_test {
namespace {

using namespace std::chrono_literals;

struct Bell {
    std::uint32_t tick = 0;
};
struct Soon {};
struct Later {};
struct Seldom {};
struct Rare {};
template <int>
struct Extra {};

Schema bells_schema() {
    Schema schema;
    schema.component<Bell>("bell");
    schema.tag<Soon>("soon", fresh_within(100ms));
    schema.tag<Later>("later", fresh_within(1s));
    schema.tag<Seldom>("seldom", every(500ms));
    schema.tag<Rare>("rare", every(10s), fresh_within(1s));
    return schema;
}

/// A sender at 60 Hz and one peer that gets so many bytes in each tick.
struct Tower {
    explicit Tower(std::size_t its_bytes = 100'000, Schema described = bells_schema())
        : bytes(its_bytes), schema(std::move(described)), sender(world, schema), receiver(client, schema) {
        peer = sender.add_peer();
    }

    template <class... Tags>
    std::vector<ecs::Entity> spawn(int count, Tags... tags) {
        std::vector<ecs::Entity> out;
        for (int i = 0; i < count; ++i) out.push_back(world.spawn(Replicated{}, Bell{tick}, tags...));
        return out;
    }
    void ring(const std::vector<ecs::Entity>& bells) {
        for (const ecs::Entity bell : bells) world.set(bell, Bell{tick + 1});
    }
    void step() {
        sender.update(++tick);
        ASSERT_TRUE(sender.is_consistent()) << "tick " << tick;
        std::byte room[1300];
        for (left = std::min(left + bytes, 2 * bytes); left >= 60;) {
            const auto payload = sender.encode(peer, next, std::min<std::size_t>(left, 1200), room);
            if (payload.empty()) break;
            left -= std::min(left, payload.size());
            const bool arrives = random() % 100 >= loss;
            if (arrives) {
                ASSERT_EQ(receiver.receive(next, payload), Receiver::Verdict::accepted);
            }
            sender.on_fate(peer, next++, arrives);
        }
        receiver.apply();
    }
    Tick age(ecs::Entity bell) const {
        const ecs::Entity replica = receiver.entity(sender.net_id(bell));
        return tick - (replica ? client.get<Bell>(replica).tick : 0);
    }
    void note(const std::vector<ecs::Entity>& bells, std::vector<Tick>& ages) const {
        for (const ecs::Entity bell : bells) ages.push_back(age(bell));
    }

    std::size_t bytes, left = 0;
    Schema schema;
    ecs::World world, client;
    Sender sender;
    Receiver receiver;
    Sender::Peer peer = 0;
    std::uint64_t next = 1;
    Tick tick = 0;
    unsigned loss = 0;
    std::mt19937 random{1};
};

Tick p99(std::vector<Tick> ages) {
    std::sort(ages.begin(), ages.end());
    return ages[ages.size() * 99 / 100];
}

TEST(Schedule, WakesEachSlotAtItsTick) {
    const std::vector<Tick> within{0};
    for (const Tick longest : {Tick{1}, Tick{30}, Tick{255}, Tick{1'000}}) {
        std::mt19937 source(longest);
        const auto random = [&] { return static_cast<std::uint32_t>(source()); };
        Tick now = 0xffff'ff00;
        Schedule schedule(within, longest, now);
        schedule.resize(100);
        std::map<std::uint32_t, Tick> model;
        for (int step = 0; step < 5'000; ++step) {
            const std::uint32_t slot = random() % 100;
            if (model.erase(slot) != 0) {
                schedule.wake(slot);
            } else {
                model[slot] = now + 1 + random() % longest;
                schedule.rest(slot, 0, model[slot]);
            }
            ASSERT_EQ(schedule.resting_count(), model.size());
            if (random() % 3 != 0) continue;
            now += random() % 50 == 0 ? random() % 2'000 : 1;
            schedule.advance(now, [&](std::uint32_t woken) {
                ASSERT_TRUE(model.contains(woken) && !is_newer(model[woken], now));
                model.erase(woken);
            });
            for (const auto& [resting, due] : model)
                ASSERT_TRUE(is_newer(due, now) && schedule[resting].rests);
        }
        schedule.wake_all([&](std::uint32_t woken) { model.erase(woken); });
        EXPECT_TRUE(model.empty() && schedule.resting_count() == 0);
    }
}

TEST(Schedule, EveryClassIsWithinItsGoalWhenTheRateSuffices) {
    // A goal of 6 ticks for 100 and of 60 for 400 entities: 24 records a tick are just enough, which take 3.7
    // bytes each.
    Tower tower(22 * 4);
    const auto soon = tower.spawn(100, Soon{}), later = tower.spawn(400, Later{});
    std::vector<Tick> of_soon, of_later;
    for (int i = 0; i < 600; ++i) {
        tower.ring(soon);
        tower.ring(later);
        tower.step();
        if (i < 200) continue;
        tower.note(soon, of_soon);
        tower.note(later, of_later);
    }
    EXPECT_LE(p99(of_soon), 7u);  // 1.2 times the goal
    EXPECT_LE(p99(of_later), 72u);
    EXPECT_GE(p99(of_later), 20u) << "the rate is too high for this test";
}

TEST(Schedule, Rule46AllAreLateAlikeWhenTheRateDoesNotSuffice) {
    for (const unsigned loss : {0u, 20u}) {
        Tower tower(13 * 4);
        tower.loss = loss;
        const auto soon = tower.spawn(100, Soon{}), later = tower.spawn(400, Later{}),
                   plain = tower.spawn(20);
        std::vector<Tick> of_soon, of_later, of_plain;
        for (int i = 0; i < 1'200; ++i) {
            tower.ring(soon);
            tower.ring(later);
            tower.ring(plain);
            tower.step();
            if (i < 600) continue;
            tower.note(soon, of_soon);
            tower.note(later, of_later);
            tower.note(plain, of_plain);
        }
        const int late_soon = static_cast<int>(p99(of_soon)) - 6,
                  late_later = static_cast<int>(p99(of_later)) - 60,
                  late_plain = static_cast<int>(p99(of_plain));
        EXPECT_GT(late_soon, 3);
        EXPECT_NEAR(late_soon, late_later, 5) << loss;
        EXPECT_NEAR(late_soon, late_plain, 5) << loss;
        EXPECT_GT(tower.sender.stats(tower.peer).goals_missed, 1'000u);
    }
}

TEST(Schedule, WhatIsNewDoesNotStopWhatIsSeenNorTheReverse) {
    Tower tower(400);
    const auto soon = tower.spawn(200, Soon{});
    for (int i = 0; i < 60; ++i) tower.ring(soon), tower.step();
    const auto added = tower.spawn(2'000, Soon{});
    std::vector<Tick> ages;
    int steps = 0;
    for (; tower.age(added.back()) == tower.tick && steps < 1'000; ++steps) {
        tower.ring(soon);
        tower.step();
        tower.note(soon, ages);
    }
    EXPECT_LE(p99(ages), 9u) << "half of the rate is enough for what is seen";
    EXPECT_LT(steps, 200);
    // Many changes do not stop what is new.
    for (int i = 0; i < 60; ++i) tower.ring(added), tower.step();
    const auto last = tower.spawn(10, Later{});
    for (int i = 0; i < 10; ++i) tower.ring(added), tower.ring(soon), tower.step();
    for (const ecs::Entity bell : last) EXPECT_TRUE(tower.receiver.entity(tower.sender.net_id(bell)));
}

TEST(Schedule, ChangesWaitForTheirInterval) {
    Tower tower;
    const auto seldom = tower.spawn(3, Seldom{});
    tower.step();
    const ecs::Entity replica = tower.receiver.entity(tower.sender.net_id(seldom[0]));
    std::vector<Tick> heard;
    for (int i = 0; i < 120; ++i) {
        tower.ring(seldom);
        tower.step();
        const Tick has = tower.client.get<Bell>(replica).tick;
        if (heard.empty() || heard.back() != has) heard.push_back(has);
    }
    EXPECT_EQ(heard, (std::vector<Tick>{0, 31, 61, 91, 121}));
    EXPECT_EQ(describe(tower.sender.why(tower.peer, seldom[0])), "has it as of tick 121");
    tower.ring(seldom);
    tower.step();
    EXPECT_EQ(describe(tower.sender.why(tower.peer, seldom[0])),
              "waits: at most every 0.5 s, next in 0.4833 s");
    EXPECT_EQ(tower.sender.stats(tower.peer).pending, 3u);
    EXPECT_FALSE(tower.sender.is_settled(tower.peer));
    for (int i = 0; i < 10; ++i) tower.ring(seldom), tower.step();
    EXPECT_LT(tower.receiver.complete()->tick, tower.tick);
    // What must be sent is sent.
    tower.sender.send_now(tower.peer, seldom[0]);
    tower.world.destroy(seldom[1]);
    tower.step();
    EXPECT_EQ(tower.age(seldom[0]), 1u) << "the bell rang in the tick before";
    EXPECT_EQ(tower.receiver.entity_count(), 2u);
    tower.sender.request_marker(tower.peer);
    tower.step();
    EXPECT_EQ(tower.age(seldom[2]), 2u);
    EXPECT_EQ(tower.receiver.complete()->tick, tower.tick);
}

TEST(Schedule, AnIntervalCanBeLongerThanTheWheelAndEndsWithItsTag) {
    Tower tower;
    const auto rare = tower.spawn(2, Rare{});
    tower.step();
    for (int i = 0; i < 599; ++i) tower.ring(rare), tower.step();
    EXPECT_EQ(tower.age(rare[0]), 600u);
    tower.world.remove<Rare>(rare[1]);
    tower.step();
    EXPECT_EQ(tower.age(rare[0]), 1u);
    EXPECT_EQ(tower.age(rare[1]), 1u);
    tower.ring(rare);
    tower.step();
    EXPECT_EQ(tower.age(rare[0]), 2u);
    EXPECT_EQ(tower.age(rare[1]), 0u);
}

TEST(Schedule, TheOwnEntityDoesNotWaitAndTakesItsChangeAlong) {
    Tower tower;
    const auto seldom = tower.spawn(1, Seldom{});
    tower.step();
    tower.ring(seldom);
    tower.step();
    EXPECT_EQ(tower.age(seldom[0]), 2u);
    tower.sender.set_owner(seldom[0], tower.peer);
    tower.step();
    EXPECT_EQ(tower.age(seldom[0]), 1u);
    tower.ring(seldom);
    tower.step();
    EXPECT_EQ(tower.age(seldom[0]), 0u);
}

TEST(Schedule, AClusterTakesAlongWhatRests) {
    Tower tower;
    const ecs::Entity seldom = tower.world.spawn(Replicated{}, Bell{}, Seldom{}, Cluster{1}),
                      plain = tower.world.spawn(Replicated{}, Bell{}, Cluster{1});
    tower.step();
    tower.ring({seldom});
    tower.step();
    EXPECT_EQ(tower.age(seldom), 2u);
    tower.ring({plain});
    tower.step();
    EXPECT_EQ(tower.age(plain), 0u);
    EXPECT_EQ(tower.age(seldom), 1u);
}

TEST(Schedule, ALostRecordKeepsItsDeadline) {
    const std::vector<Tick> within{0, 6, 60};
    PeerView view(8);
    view.set_schedule(within, 1, 10);
    const auto acked = [&](std::uint32_t entry) {
        const std::uint32_t slot = view.open(entry);
        view.on_fate(view.send(slot, 1, 10), 1, 10, true);
        return slot;
    };
    const std::uint32_t a = acked(1), b = acked(2);
    view.pend_change(a, 0, 1);
    const SentRecord record = view.send(a, 2, 10);
    view.drop_front(PeerView::Queue::first_goal, 1);
    view.wake_due(14);
    view.pend_change(b, 0, 1);
    view.on_fate(record, 2, 10, false);
    EXPECT_EQ(view.queue(PeerView::Queue::first_goal)[0], a);
    EXPECT_EQ((*view.schedule())[a].deadline, 16u);
    EXPECT_EQ((*view.schedule())[b].deadline, 20u);
    EXPECT_FALSE(view.is_late(a, 16));
    EXPECT_TRUE(view.is_late(a, 17));
    EXPECT_TRUE(view.is_consistent());
}

TEST(Schedule, OnlyWhatWasNeverSentWaitsWithWhatIsNew) {
    const std::vector<Tick> within{0};
    PeerView view(8);
    view.set_schedule(within, 1, 10);
    const std::uint32_t seen = view.open(1);
    view.on_fate(view.send(seen, 1, 10), 1, 10, true);
    view.tidy();
    view.rebase(seen);
    const std::uint32_t entering = view.open(2);
    ASSERT_EQ(view.queue(PeerView::Queue::other).size(), 1u) << "its next record is a full one";
    EXPECT_EQ(view.queue(PeerView::Queue::other)[0], seen);
    ASSERT_EQ(view.queue(PeerView::Queue::entering).size(), 1u);
    EXPECT_EQ(view.queue(PeerView::Queue::entering)[0], entering);
}

// The end of an entity does not wait as long as its change might have waited.
TEST(Schedule, WhatMustBeSentDoesNotKeepTheGoalOfAnEarlierChange) {
    const std::vector<Tick> within{0, 600};
    PeerView view(8);
    view.set_schedule(within, 1, 10);
    const std::uint32_t slot = view.open(1);
    view.on_fate(view.send(slot, 1, 10), 1, 10, true);
    view.tidy();
    view.wake_due(20);
    view.pend_change(slot, 0, 1);
    EXPECT_EQ((*view.schedule())[slot].deadline, 620u);
    view.close(slot, Despawn::destroyed);
    view.move_to_their_queues();
    EXPECT_EQ((*view.schedule())[slot].deadline, 20u);
    EXPECT_EQ(view.queue(PeerView::Queue::first_goal).size(), 0u);
    ASSERT_EQ(view.queue(PeerView::Queue::other).size(), 1u);
    EXPECT_TRUE(view.is_consistent());
}

TEST(Schedule, TimesAreRoundedSoThatOptionsHold) {
    Schema schema;
    schema.component<Bell>("bell", every(40ms));  // 2.4 ticks
    Tower tower(100'000, std::move(schema));
    const auto bells = tower.spawn(1);
    tower.step();
    std::vector<Tick> ages;
    for (int i = 0; i < 6; ++i) tower.ring(bells), tower.step(), tower.note(bells, ages);
    EXPECT_EQ(ages, (std::vector<Tick>{2, 3, 0, 1, 2, 0}));
}

TEST(Schedule, IsNotThereIfNothingIsDeclared) {
    Schema schema;
    schema.component<Bell>("bell");
    Tower tower(1'000, schema);
    EXPECT_EQ(tower.sender.view(tower.peer).schedule(), nullptr);
}

TEST(Schedule, TimesThatDoNotFitAreErrors) {
    Schema zero, many, most;
    zero.tag<Soon>("soon", every(0s));
    EXPECT_EQ(zero.error(), "component 'soon' has a time that is not in (0, 1 h]");
    many.component<Bell>("bell", fresh_within(1s));
    many.tag<Soon>("a", fresh_within(2s));
    many.tag<Later>("b", fresh_within(2s));
    many.tag<Seldom>("c", fresh_within(3s));
    EXPECT_EQ(many.goals(), (std::vector<double>{0, 1, 2, 3}));
    EXPECT_TRUE(many.error().empty());
    most.component<Bell>("bell", fresh_within(1s));
    most.tag<Soon>("a", fresh_within(2s)), most.tag<Later>("b", fresh_within(3s));
    most.tag<Seldom>("c", fresh_within(4s)), most.tag<Rare>("d", fresh_within(5s));
    most.tag<Extra<0>>("e", fresh_within(6s)), most.tag<Extra<1>>("f", fresh_within(7s));
    most.tag<Extra<2>>("g", fresh_within(8s));
    EXPECT_TRUE(most.error().empty());
    most.tag<Extra<3>>("h", fresh_within(9s));
    EXPECT_EQ(most.error(), "component 'h' has a time, but there are 8 different ones already");
}

}  // namespace
}  // namespace shoal::replication::impl::schedule_test
