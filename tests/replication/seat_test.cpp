#include "replication/play/seat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/replication/support/link.h"

namespace shoal::replication::impl::seat_test {
namespace {

using namespace std::chrono_literals;
using sim::Position;

/// A server whose players get an entity when they begin to play.
struct Party {
    explicit Party(const ServerOptions& options = Link::default_options()) : link(options) {
        link.server.on_join([this](PlayerId player) {
            joined.push_back(player);
            return link.world.spawn(Position{9, 0, 0}, Replicated{});
        });
        link.server.on_leave([this](PlayerId player) {
            EXPECT_TRUE(link.server.player(player)) << "its entity is still there";
            left.push_back(player);
        });
        link.server.on_warning([this](PlayerId, Warning warning) { warnings.push_back(warning); });
    }
    PlayerId last() { return link.listener.last; }

    Link link;
    std::vector<PlayerId> joined, left;
    std::vector<Warning> warnings;
};

TEST(Seat, A10AClientLoadsThenPlaysWithItsEntity) {
    Party party;
    Link& link = party.link;
    for (int i = 0; i < 300; ++i) link.world.spawn(Replicated{}, Position{1, 2, 3});
    Link::Player& player = link.add();
    std::vector<Phase> phases;
    for (int i = 0; i < 60; ++i) {
        link.step();
        if (phases.empty() || phases.back() != player.client.phase()) phases.push_back(player.client.phase());
        const bool plays = player.client.phase() == Phase::playing;
        EXPECT_EQ(static_cast<bool>(player.client.player()), plays);
        if (!plays) continue;
        EXPECT_EQ(link.server.phase(party.last()), Phase::playing);
        EXPECT_EQ(player.world.get<Position>(player.client.player()).x, 9);
        EXPECT_GE(player.world.size(), 301u) << "everything that was there when it began to load";
    }
    EXPECT_EQ(phases.back(), Phase::playing);
    EXPECT_TRUE(std::is_sorted(phases.begin(), phases.end()));
    ASSERT_EQ(party.joined, std::vector<PlayerId>{party.last()});
    const ecs::Entity entity = link.server.player(party.last());
    EXPECT_EQ(player.client.player(), player.client.receiver().entity(link.server.assign_net_id(entity)));
    EXPECT_EQ(link.server.owner(entity), party.last()) << "it was given to the player";
    // Another entity for the same player; the former one stays.
    const ecs::Entity other = link.world.spawn(Position{5, 0, 0}, Replicated{});
    link.server.set_player(party.last(), other);
    link.run(10);
    EXPECT_EQ(player.world.get<Position>(player.client.player()).x, 5);
    player.client.disconnect(link.now);
    link.run(5);
    EXPECT_EQ(player.client.phase(), Phase::disconnected);
    EXPECT_EQ(party.left.size(), 1u);
    EXPECT_FALSE(link.world.is_alive(other)) << "its player left";
    EXPECT_TRUE(link.world.is_alive(entity));
    EXPECT_EQ(link.server.phase(party.joined[0]), Phase::disconnected);
    EXPECT_FALSE(link.server.player(party.joined[0]));
}

TEST(Seat, ThePlayersEntityStaysIfTheGameWantsIt) {
    ServerOptions options = Link::default_options();
    options.join.destroys_player = false;
    Party party(options);
    Link::Player& player = party.link.add();
    party.link.run(20);
    ASSERT_EQ(party.joined.size(), 1u);
    const ecs::Entity entity = party.link.server.player(party.last());
    player.client.disconnect(party.link.now);
    party.link.run(5);
    EXPECT_TRUE(party.link.world.is_alive(entity));
}

// Trap 46: DONE comes before the player's entity.
TEST(Seat, Trap46AClientDoesNotPlayBeforeItHasItsEntity) {
    Link link;
    link.server.on_join([&](PlayerId) { return ecs::Entity{}; });
    Link::Player& player = link.add();
    link.run(20);
    EXPECT_EQ(link.server.phase(link.listener.last), Phase::playing);
    EXPECT_EQ(player.client.phase(), Phase::playing) << "without an entity";
    EXPECT_FALSE(player.client.player());
    // A hand-made DONE with a net id that comes later.
    Link early;
    Link::Player& waits = early.add();
    early.step();
    early.step();
    PlayerId id;
    early.server.for_each_peer([&](PlayerId peer) { id = peer; });
    ASSERT_TRUE(id);
    const ecs::Entity late = early.world.spawn(Position{4, 0, 0});
    early.world.add<Replicated>(late);
    const std::vector<std::byte> done = write_control(PlayerEntity{early.server.assign_net_id(late)});
    // The game's first update that sends the entity is held back: the client's payloads are lost.
    early.server.on_join([&](PlayerId) { return late; });
    ASSERT_EQ(early.server.host().send_message(id, net::Channel::reliable, done), net::SendResult::queued);
    early.server.poll(early.now);
    early.exchange();
    waits.client.update(early.now);
    EXPECT_NE(waits.client.phase(), Phase::playing);
    early.run(10);
    EXPECT_EQ(waits.client.phase(), Phase::playing);
    EXPECT_EQ(waits.world.get<Position>(waits.client.player()).x, 4);
}

#ifndef NDEBUG
TEST(SeatDeathTest, ThePlayersEntityReplicates) {
    Link link;
    link.server.on_join([&](PlayerId) { return link.world.spawn(Position{}); });
    link.add();
    EXPECT_DEATH(link.run(20), "on_join\\(\\) returned an entity without the tag Replicated");
}
#endif

TEST(Seat, A10NoStateIsSentBeforeTheGoAhead) {
    Party party;
    Link& link = party.link;
    for (int i = 0; i < 50; ++i) link.world.spawn(Replicated{}, Position{1, 2, 3});
    ClientOptions options;
    options.is_ready_at_once = false;
    Link::Player& player = link.add(link.schema, options);
    player.client.ready();  // not connected: no effect
    link.run(30);
    ASSERT_TRUE(player.client.is_connected());
    EXPECT_EQ(player.client.phase(), Phase::waiting);
    EXPECT_EQ(link.server.phase(party.last()), Phase::waiting);
    EXPECT_EQ(link.server.stats(party.last()).state.state_bytes, 0u);
    EXPECT_TRUE(link.server.is_settled()) << "nothing is to be sent";
    EXPECT_TRUE(link.server.sender().is_consistent());
    EXPECT_FALSE(player.client.receiver().newest_tick());
    // The game can talk to it meanwhile, and give it entities.
    const ecs::Entity gift = link.world.spawn(Replicated{}, Position{});
    EXPECT_TRUE(link.server.give(party.last(), gift));
    EXPECT_EQ(link.server.send_message(party.last(), net::Channel::reliable, {}), net::SendResult::queued);
    link.run(3);
    EXPECT_EQ(player.listener.messages.size(), 1u);
    player.client.ready();
    player.client.ready();
    link.run(20);
    EXPECT_EQ(player.client.phase(), Phase::playing);
    EXPECT_EQ(link.server.owner(gift), party.last());
    EXPECT_TRUE(link.is_equal(player));
    EXPECT_EQ(party.joined.size(), 1u);
}

TEST(Seat, A10TheGameHoldsAJoinerUntilItAdmitsIt) {
    ServerOptions options = Link::default_options();
    options.join.waits_for_admit = true;
    Party party(options);
    Link& link = party.link;
    Link::Player& player = link.add();
    link.run(30);
    EXPECT_EQ(link.server.phase(party.last()), Phase::waiting);
    EXPECT_EQ(player.client.phase(), Phase::waiting);
    link.server.admit(party.last());
    link.run(20);
    EXPECT_EQ(player.client.phase(), Phase::playing);
    // Admitted before its go-ahead.
    ClientOptions slow;
    slow.is_ready_at_once = false;
    Link::Player& second = link.add(link.schema, slow);
    link.run(10);
    link.server.admit(party.last());
    link.run(10);
    EXPECT_EQ(second.client.phase(), Phase::waiting);
    second.client.ready();
    link.run(20);
    EXPECT_EQ(second.client.phase(), Phase::playing);
    link.server.admit({});
}

TEST(Seat, Rule32AJoinEndsAlthoughEverythingMoves) {
    ServerOptions options = Link::default_options();
    options.host.connection.max_bytes_per_second = 20'000;
    Party party(options);
    Link& link = party.link;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 3'000; ++i) entities.push_back(link.world.spawn(Replicated{}, Position{1, 2, 3}));
    Link::Player& player = link.add();
    int ticks = 0;
    for (; ticks < 1'500 && player.client.phase() != Phase::playing; ++ticks) {
        for (std::size_t i = 0; i < entities.size(); ++i)
            link.world.set(entities[i],
                           Position{static_cast<float>((ticks + static_cast<int>(i)) % 60), 0, 0});
        // New entities, and those that replace others, are not waited for.
        const std::size_t at = static_cast<std::size_t>(ticks) % entities.size();
        link.world.destroy(entities[at]);
        entities[at] = link.world.spawn(Replicated{}, Position{});
        link.step();
        if (link.server.phase(party.last()) == Phase::loading) {
            EXPECT_LE(link.server.stats(party.last()).state.unjoined, 3'000u);
        }
    }
    EXPECT_EQ(player.client.phase(), Phase::playing);
    EXPECT_FALSE(player.client.receiver().complete()) << "it never has everything of one tick";
    EXPECT_GT(ticks, 30) << "the world takes long to load";
    EXPECT_EQ(link.server.stats(party.last()).state.unjoined, 0u);
    EXPECT_TRUE(link.server.sender().is_consistent());
}

// Trap 45 and rule 22: the world outruns the join.
TEST(Seat, Trap45AJoinThatTakesTooLongIsRestartedOnceAndThenRefused) {
    ServerOptions options = Link::default_options();
    options.host.connection.max_bytes_per_second = 4'000;
    options.join.timeout = 1s;
    Party party(options);
    Link& link = party.link;
    for (int i = 0; i < 3'000; ++i)
        link.world.spawn(Replicated{}, sim::Counters{i * 1'000'000'000'000ll, 5, 6, 7, 8, 9, 10});
    Link::Player& player = link.add();
    link.run(10);
    const PlayerId id = party.last();
    for (int i = 0; i < 90 && party.warnings.empty(); ++i) link.step();
    EXPECT_EQ(party.warnings, std::vector<Warning>{Warning::join_restarted});
    EXPECT_EQ(link.server.stats(id).state.unjoined, 3'000u) << "acks are forgotten";
    EXPECT_TRUE(player.client.is_connected());
    link.run(90);
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_EQ(party.warnings.size(), 1u);
    EXPECT_NE(player.client.failure().find("loading the world took too long"), std::string::npos)
        << player.client.failure();
    EXPECT_TRUE(party.joined.empty() && party.left.empty());
    EXPECT_EQ(link.listener.leaves, 1);
}

TEST(Seat, Rule22ARestartedJoinStillEndsWell) {
    ServerOptions options = Link::default_options();
    options.join.timeout = 1s;
    Party party(options);
    Link& link = party.link;
    for (int i = 0; i < 300; ++i) link.world.spawn(Replicated{}, Position{1, 2, 3});
    Link::Player& player = link.add();
    for (int i = 0; i < 20 && link.server.phase(party.last()) != Phase::loading; ++i) link.step();
    ASSERT_EQ(link.server.phase(party.last()), Phase::loading);
    link.is_cut = true;
    link.under_way.clear();
    for (int i = 0; i < 70; ++i) link.step();
    link.is_cut = false;
    EXPECT_EQ(party.warnings.size(), 1u);
    for (int i = 0; i < 120 && player.client.phase() != Phase::playing; ++i) link.step();
    EXPECT_EQ(player.client.phase(), Phase::playing);
    link.run(30);
    EXPECT_TRUE(link.is_equal(player));
    EXPECT_TRUE(link.server.sender().is_consistent());
}

TEST(Seat, AHandlerMayDisconnectThePlayerThatJoins) {
    Link link;
    ecs::Entity entity;
    link.server.on_join([&](PlayerId player) {
        link.server.disconnect(player, "no", link.now);
        return entity = link.world.spawn(Position{}, Replicated{});
    });
    Link::Player& player = link.add();
    link.run(20);
    EXPECT_FALSE(player.client.is_connected());
    ASSERT_TRUE(entity);
    EXPECT_FALSE(link.world.is_alive(entity));
}

TEST(Seat, ANewConnectionJoinsAnew) {
    Party party;
    Link::Player& player = party.link.add();
    party.link.run(20);
    ASSERT_EQ(player.client.phase(), Phase::playing);
    player.client.connect(party.link.wire.address);
    player.client.update(party.link.now);
    EXPECT_EQ(player.client.phase(), Phase::disconnected);
    EXPECT_FALSE(player.client.player());
    party.link.run(20);
    EXPECT_EQ(player.client.phase(), Phase::playing);
    EXPECT_TRUE(player.client.player());
    EXPECT_EQ(party.joined.size(), 2u);
    EXPECT_EQ(party.left.size(), 1u);
}

TEST(Seat, LoadsOnceItIsReadyAndAdmitted) {
    JoinOptions free, held;
    held.waits_for_admit = true;
    Seat seat;
    seat.set_ready();
    seat.admit();
    EXPECT_FALSE(seat.may_load(free)) << "not connected";
    Seat other;
    other.connect(net::Time(0));
    EXPECT_FALSE(other.may_load(free)) << "not ready";
    other.set_ready();
    EXPECT_TRUE(other.may_load(free));
    EXPECT_FALSE(other.may_load(held)) << "not admitted";
    other.admit();
    EXPECT_TRUE(other.may_load(held));
    other.load(1s);
    EXPECT_FALSE(other.may_load(held)) << "it loads";
    EXPECT_EQ(other.since(), net::Time(1s));
}

TEST(Seat, IsGivenUpWhenLoadingTakesTooLongTwice) {
    JoinOptions options;
    options.timeout = 3s;
    Seat seat;
    seat.connect(net::Time(0));
    seat.set_ready();
    seat.load(10s);
    EXPECT_EQ(seat.advance(options, 1, 12'999'999us), Seat::Next::wait);
    EXPECT_EQ(seat.advance(options, 1, 13s), Seat::Next::restart);
    EXPECT_EQ(seat.advance(options, 1, 15'999'999us), Seat::Next::wait);
    EXPECT_EQ(seat.advance(options, 1, 16s), Seat::Next::give_up);
    EXPECT_FALSE(seat.has_joined());
    EXPECT_EQ(seat.advance(options, 0, 17s), Seat::Next::play);
    EXPECT_TRUE(seat.has_joined());
    EXPECT_EQ(seat.phase(), Phase::playing);
}

TEST(Seat, ComesBackAsAtFirstButAdmitted) {
    JoinOptions options;
    options.timeout = 3s;
    options.resume_time = 5s;
    options.waits_for_admit = true;
    Seat seat;
    seat.connect(net::Time(0));
    seat.set_ready();
    seat.admit();
    seat.load(10s);
    EXPECT_EQ(seat.advance(options, 1, 13s), Seat::Next::restart);
    EXPECT_EQ(seat.advance(options, 0, 14s), Seat::Next::play);
    seat.go_away(20s);
    EXPECT_EQ(seat.phase(), Phase::away);
    EXPECT_TRUE(seat.has_joined());
    EXPECT_FALSE(seat.is_overdue(options, 24'999'999us));
    EXPECT_TRUE(seat.is_overdue(options, 25s));
    seat.come_back(false, 22s);
    EXPECT_EQ(seat.phase(), Phase::waiting);
    EXPECT_FALSE(seat.may_load(options)) << "the new process is not ready";
    seat.set_ready();
    EXPECT_TRUE(seat.may_load(options));
    seat.load(23s);
    EXPECT_EQ(seat.advance(options, 1, 26s), Seat::Next::restart) << "once again";
    EXPECT_EQ(seat.advance(options, 0, 27s), Seat::Next::play);
    seat.go_away(30s);
    seat.come_back(true, 31s);
    EXPECT_EQ(seat.phase(), Phase::loading);
    EXPECT_EQ(seat.since(), net::Time(31s));
    EXPECT_EQ(seat.advance(options, 1, 33s), Seat::Next::wait);
    EXPECT_EQ(seat.advance(options, 1, 34s), Seat::Next::restart);
}

TEST(Server, A13SendNowSendsChosenEntitiesAlthoughNothingChanged) {
    Link link;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 20; ++i) entities.push_back(link.world.spawn(Replicated{}, Position{1, 2, 3}));
    Link::Player& player = link.add();
    link.add();
    link.run(30);
    net::PeerId id;
    link.server.for_each_peer([&](net::PeerId peer) {
        if (link.server.host().address(peer) == player.wire.address) id = peer;
    });
    ASSERT_TRUE(id);
    const auto newest = [&](ecs::Entity entity) {
        return player.client.receiver()
            .at(link.server.assign_net_id(entity), link.server.current_tick())
            ->tick;
    };
    const auto before = link.server.stats(id).state;
    const Tick quiet = newest(entities[0]);
    EXPECT_LT(quiet, link.server.current_tick());
    const ecs::Entity local = link.world.spawn(Position{});
    const ecs::Entity chosen[] = {entities[3], local, entities[7], entities[3], {}};
    link.server.view(id).send_now(chosen);
    link.step();
    EXPECT_EQ(newest(entities[3]), link.server.current_tick());
    EXPECT_EQ(newest(entities[7]), link.server.current_tick());
    EXPECT_EQ(newest(entities[0]), quiet);
    EXPECT_EQ(link.server.stats(id).state.records_sent, before.records_sent + 2);
    EXPECT_EQ(link.server.stats(id).state.empty_records, before.empty_records + 2);
    link.run(30);
    EXPECT_EQ(link.server.stats(id).state.records_sent, before.records_sent + 2) << "once";
    // Lost: sent again.
    link.server.view(id).send_now(chosen);
    link.is_cut = true;
    link.step();
    const Tick asked = link.server.current_tick();
    link.is_cut = false;
    link.run(60);
    EXPECT_GE(newest(entities[3]), asked);
    EXPECT_EQ(newest(entities[0]), quiet);
    EXPECT_TRUE(link.server.sender().is_consistent());
    link.server.view({}).send_now(chosen);
}

}  // namespace
}  // namespace shoal::replication::impl::seat_test
