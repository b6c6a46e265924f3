#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "ecs/query.h"
#include "tests/replication/support/stage_actions.h"

namespace shoal::replication::impl::action_race_test {
namespace {

using namespace stage_actions;

/// Draws actions of several clients over a bad network, and notes what the server does.
class ActionRace {
public:
    explicit ActionRace(std::uint32_t seed) : stage(stage_schema(), seed), random(seed) {
        stage.loss = static_cast<double>(random() % 5) * 0.1;
        stage.most_delay = 1 + static_cast<int>(random() % 6);
        for (int i = 0; i < 4; ++i) boxes.push_back(stage.world.spawn(Place{i}, Strength{5}, Replicated{}));
        for (int i = 0; i < 3; ++i) stage.add_client();
        numbers.resize(3);
        stage.actions.observe([&](const ActionReport& report) { note(report); });
        stage.run(30);
    }

    void step() {
        for (std::size_t i = 0; i < stage.clients.size(); ++i)
            if (random() % 4 == 0) act(i);
        if (random() % 10 == 0) change_on_the_server();
        stage.step();
        for (const auto& client : stage.clients) {
            ASSERT_TRUE(client->actions.is_consistent());
            ASSERT_TRUE(client->receiver.is_consistent());
        }
    }
    void check_at_rest() {
        stage.settle(120);
        for (const auto& client : stage.clients) {
            EXPECT_EQ(client->actions.waiting(), 0u);
            EXPECT_TRUE(stage.is_equal(*client));
            ecs::Query<const Place> ours(stage.world), theirs(client->world);
            EXPECT_EQ(theirs.count(), ours.count());
        }
        EXPECT_TRUE(stage.sender.is_consistent());
    }

    Stage stage;
    std::uint64_t accepted = 0, rejected = 0;

private:
    ecs::Entity any(Stage::Client& client) {
        std::vector<ecs::Entity> all;
        ecs::Query<const Place> places(client.world);
        places.each([&](ecs::Entity entity, const Place&) { all.push_back(entity); });
        return all.empty() ? ecs::Entity{} : all[random() % all.size()];
    }
    void act(std::size_t index) {
        Stage::Client& client = *stage.clients[index];
        const std::uint32_t number = ++numbers[index];
        const auto amount = static_cast<std::int32_t>(random() % 15);
        const ecs::Entity a = any(client), b = any(client);
        switch (random() % 7) {
            case 0:
                return client.act(Push{a, amount, number});
            case 1:
                return client.act(Make{amount, number});
            case 2:
                return client.act(Hurt{a, number});
            case 3:
                return client.act(Stun{a, amount % 2 == 0, number});
            case 4:
                return client.act(Hold{a, b, number});
            case 5:
                return client.act(Stumble{a, number});
            default:
                return client.act(Shout{amount == 3 ? "!" : "hey", number});
        }
    }
    void change_on_the_server() {
        const ecs::Entity box = boxes[random() % boxes.size()];
        if (!stage.world.is_alive(box)) return;
        if (random() % 20 == 0) return stage.world.destroy(box);
        if (random() % 2 == 0) return static_cast<void>(stage.world.set(box, Place{1000}));
        if (stage.world.has<Strength>(box)) return static_cast<void>(stage.world.remove<Strength>(box));
        stage.world.set(box, Strength{7});
    }
    /// Each action runs once, and those of a player in order.
    void note(const ActionReport& report) {
        (report.is_accepted ? accepted : rejected) += 1;
        const std::uint32_t number = number_of(report);
        const bool is_independent = report.type == type_of<Shout>(stage);
        std::uint32_t& last = newest[{report.who.value, is_independent}];
        EXPECT_GT(number, last) << report.name;
        last = number;
    }
    std::uint32_t number_of(const ActionReport& report) const {
        const auto is = [&](std::size_t type) { return report.type == type; };
        if (is(type_of<Push>(stage))) return static_cast<const Push*>(report.action)->number;
        if (is(type_of<Make>(stage))) return static_cast<const Make*>(report.action)->number;
        if (is(type_of<Hurt>(stage))) return static_cast<const Hurt*>(report.action)->number;
        if (is(type_of<Stun>(stage))) return static_cast<const Stun*>(report.action)->number;
        if (is(type_of<Hold>(stage))) return static_cast<const Hold*>(report.action)->number;
        if (is(type_of<Stumble>(stage))) return static_cast<const Stumble*>(report.action)->number;
        return static_cast<const Shout*>(report.action)->number;
    }

    std::mt19937 random;
    std::vector<ecs::Entity> boxes;
    std::vector<std::uint32_t> numbers;
    std::map<std::pair<std::uint32_t, bool>, std::uint32_t> newest;
};

// Goal: after any mix of acceptances, rejections, losses and delays, each action ran once at most and in
// order, and at rest every client equals the server, without entities left over.
TEST(ActionRace, AtRestEveryClientEqualsTheServer) {
    std::uint64_t accepted = 0, rejected = 0;
    const char* const text = std::getenv("SHOAL_ACTION_SEEDS");
    const std::uint32_t count = text ? static_cast<std::uint32_t>(std::atoi(text)) : 60;
    for (std::uint32_t seed = 1; seed <= count; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        ActionRace race(seed);
        for (int step = 0; step < 150; ++step) race.step();
        race.check_at_rest();
        accepted += race.accepted;
        rejected += race.rejected;
        if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(accepted, 20 * count);
    EXPECT_GT(rejected, 5 * count);
}

}  // namespace
}  // namespace shoal::replication::impl::action_race_test
