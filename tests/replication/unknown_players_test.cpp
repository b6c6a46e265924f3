// What a server answers about players that it does not have, and entities that do not replicate.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/replication/support/link.h"

namespace shoal::replication::impl::unknown_players_test {
namespace {

struct Sail {
    float angle = 0;
};
struct Sheet {
    std::int8_t pull = 0;
};
struct Hail {
    int number = 0;
};
struct Tack {};

Schema boat_schema() {
    Schema schema;
    schema.component<Sail>("sail", predicted(), linear());
    schema.input<Sheet>("sheet");
    schema.message<Hail>("hail");
    schema.action<Hail>("hail");
    schema.tag<Mine>("mine", to_owner());
    return schema;
}

TEST(UnknownPlayers, HaveNothingAndChangeNothing) {
    Link link(Link::default_options(), boat_schema());
    int calls = 0;
    link.server.on_leave([&](PlayerId) { calls += 1; });
    link.server.on_warning([&](PlayerId, Warning) { calls += 1; });
    Link::Player& player = link.add();
    link.run(20);
    const PlayerId known = link.listener.last;
    ASSERT_EQ(link.server.phase(known), Phase::playing);
    const ecs::Entity boat = link.world.spawn(Sail{}, Replicated{});
    ASSERT_TRUE(link.server.give(known, boat));
    const PlayerId left = [&] {
        Link::Player& leaver = link.add();
        link.run(20);
        const PlayerId id = link.listener.last;
        leaver.client.disconnect(link.now);
        link.run(5);
        return id;
    }();
    ASSERT_NE(left, known);
    calls = 0;
    const int leaves = link.listener.leaves;
    for (const PlayerId none : {PlayerId{}, left, PlayerId{(77u << 16) | 9}}) {
        EXPECT_EQ(link.server.phase(none), Phase::disconnected);
        EXPECT_FALSE(link.server.player(none) || link.server.connection(none));
        EXPECT_FALSE(link.server.stats(none).input_age);
        EXPECT_EQ(link.server.stats(none).inputs.neutral, 0u);
        EXPECT_EQ(link.server.stats(none).messages_waiting, 0u);
        EXPECT_EQ(link.server.stats(none).actions_waiting, 0u);
        EXPECT_EQ(link.server.stats(none).state.records_sent, 0u);
        EXPECT_FALSE(link.server.seen_by(none).get<Sail>(boat));
        EXPECT_EQ(link.server.send(none, Hail{1}), net::SendResult::not_connected);
        EXPECT_EQ(link.server.send_message(none, net::Channel::reliable, {}), net::SendResult::not_connected);
        EXPECT_FALSE(link.server.predict(none, boat));
        link.server.admit(none);
        link.server.set_player(none, boat);
        link.server.view(none).set_groups(to_group(0));
        link.server.view(none).send_now(std::vector<ecs::Entity>{boat, {}});
        link.server.disconnect(none, "nobody", link.now);
    }
    const std::vector<PlayerId> all = {known, left, {}};
    EXPECT_EQ(link.server.send(all, Hail{2}), 1u) << "queued for one of them";
    EXPECT_EQ(link.server.send_all(Hail{3}), 1u);
    link.run(10);
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(link.listener.leaves, leaves);
    EXPECT_EQ(link.server.owner(boat), known);
    EXPECT_FALSE(link.server.player(known)) << "on_join gave it none";
    EXPECT_TRUE(player.client.is_connected());
    EXPECT_TRUE(link.is_equal(player));
}

TEST(UnknownPlayers, EntitiesThatDoNotReplicateAreIgnored) {
    Link link(Link::default_options(), boat_schema());
    Link::Player& player = link.add();
    link.run(20);
    const PlayerId id = link.listener.last;
    const ecs::Entity local = link.world.spawn(Sail{}), dead = link.world.spawn(Sail{}, Replicated{});
    link.world.destroy(dead);
    const std::uint64_t records = link.server.stats(id).state.records_sent;
    link.server.view(id).send_now(std::vector<ecs::Entity>{local, dead, {}});
    link.run(5);
    EXPECT_EQ(link.server.stats(id).state.records_sent, records);
    EXPECT_EQ(link.server.assign_net_id(local), 0u);
    EXPECT_FALSE(link.server.owner(local) || link.server.owner(dead) || link.server.owner({}));
    EXPECT_FALSE(link.server.seen_by(id).get<Sail>(local));
    EXPECT_TRUE(link.is_equal(player));
}

TEST(UnknownPlayers, AKeptViewOfAPlayerThatLeftIsNotTheNextPlayers) {
    Link link(Link::default_options(), boat_schema());
    Link::Player& leaver = link.add();
    link.run(20);
    Server::PlayerView kept = link.server.view(link.listener.last);
    const ecs::Entity boat = link.world.spawn(Sail{}, Replicated{});
    link.run(1);
    EXPECT_TRUE(kept.sees(boat));
    leaver.client.disconnect(link.now);
    link.run(5);
    link.add();
    link.run(20);
    kept.hide(boat);
    link.run(5);
    EXPECT_TRUE(link.server.view(link.listener.last).sees(boat));
    EXPECT_FALSE(kept.sees(boat));
}

}  // namespace
}  // namespace shoal::replication::impl::unknown_players_test
