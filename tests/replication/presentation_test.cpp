// What a client draws: see Client::sample(), each_shown(), authoritative() and render_time().

#include "replication/presentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/replication/support/link.h"
#include "tests/support/allocations.h"

namespace shoal::replication::impl::presentation_test {
namespace {

struct Kite {
    float height = 0;
};
struct Label {
    int number = 0;
};
struct Knot {  // not in the schema
    int number = 0;
};

Schema kite_schema(bool is_displayed) {
    Schema schema;
    if (is_displayed) {
        schema.component<Kite>("kite", linear());
    } else {
        schema.component<Kite>("kite");
    }
    schema.component<Label>("label");
    return schema;
}

/// A kite that rises by one in each tick: its height is the tick.
struct Sky {
    explicit Sky(bool is_displayed = true, const ClientOptions& options = {})
        : link(Link::default_options(), kite_schema(is_displayed)), player(link.add(link.schema, options)) {}
    void run(int ticks) {
        for (int i = 0; i < ticks; ++i) {
            const Tick next = link.server.current_tick() + 1;
            link.world.set(kite, Kite{static_cast<float>(next)});
            link.world.set(kite, Label{static_cast<int>(next)});
            link.step();
        }
    }
    ecs::Entity replica() const { return player.client.receiver().entity(link.server.sender().net_id(kite)); }

    Link link;
    ecs::Entity kite = link.world.spawn(Replicated{}, Kite{}, Label{});
    Link::Player& player;
};

TEST(Presentation, AComponentWithADisplayIsShownAsOfTheRenderTime) {
    Sky sky;
    sky.run(60);
    Client& client = sky.player.client;
    for (int i = 0; i < 60; ++i) {
        sky.run(1);
        const ecs::Entity replica = sky.replica();
        ASSERT_TRUE(client.render_time());
        const RenderTime time = *client.render_time();
        const Tick newest = *client.receiver().newest_tick();
        EXPECT_LT(time.tick, newest) << "a moment late";
        EXPECT_NEAR(client.sample<Kite>(replica)->height, static_cast<float>(time.tick) + time.fraction,
                    1e-3);
        EXPECT_EQ(sky.player.world.get<Kite>(replica).height, static_cast<float>(time.tick));
        EXPECT_EQ(client.sample<Label>(replica)->number, static_cast<int>(time.tick))
            << "as in the world: the whole entity is shown as of this tick";
        EXPECT_EQ(client.authoritative<Kite>(replica)->height, static_cast<float>(newest));
        EXPECT_EQ(client.authoritative<Label>(replica)->number, static_cast<int>(newest));
    }
}

TEST(Presentation, WithoutADisplayTheNewestVersionIsShown) {
    for (const bool interpolates : {true, false}) {
        ClientOptions options;
        options.receiver.interpolate = interpolates;
        Sky sky(!interpolates, options);
        sky.run(60);
        const Client& client = sky.player.client;
        const float newest = static_cast<float>(*client.receiver().newest_tick());
        EXPECT_FALSE(client.render_time());
        EXPECT_EQ(client.sample<Kite>(sky.replica())->height, newest);
        EXPECT_EQ(client.authoritative<Kite>(sky.replica())->height, newest);
        EXPECT_EQ(sky.player.world.get<Kite>(sky.replica()).height, newest);
    }
}

TEST(Presentation, EachShownVisitsAllEntitiesOfTheWorldWithTheirSamples) {
    Sky sky;
    const ecs::Entity still = sky.link.world.spawn(Replicated{}, Kite{5});
    for (int i = 0; i < 4; ++i) sky.link.world.spawn(Replicated{}, Label{1});
    sky.run(60);
    Client& client = sky.player.client;
    ecs::World& mirror = sky.player.world;
    const ecs::Entity own = mirror.spawn(Kite{-3});
    std::vector<ecs::Entity> visited;
    client.each_shown<Kite>([&](ecs::Entity entity, const Kite& kite) {
        visited.push_back(entity);
        EXPECT_EQ(kite.height, client.sample<Kite>(entity)->height);
        if (entity == own) mirror.remove<Kite>(own);
        EXPECT_TRUE(mirror.has<Kite>(entity)) << "structural changes are queued";
    });
    EXPECT_FALSE(mirror.has<Kite>(own));
    std::vector<ecs::Entity> expected = {
        sky.replica(), client.receiver().entity(sky.link.server.sender().net_id(still)), own};
    std::sort(visited.begin(), visited.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(visited, expected);
    int labels = 0;
    client.each_shown<Label>([&](ecs::Entity, const Label&) { labels += 1; });
    EXPECT_EQ(labels, 5);
    const std::size_t allocations = test::allocations();
    float sum = 0;
    for (int i = 0; i < 10; ++i)
        client.each_shown<Kite>([&](ecs::Entity, const Kite& kite) { sum += kite.height; });
    EXPECT_EQ(test::allocations(), allocations) << "each type has one query";
}

TEST(Presentation, HasNothingForWhatAnEntityLacks) {
    Sky sky;
    const ecs::Entity plain = sky.link.world.spawn(Replicated{}, Label{1});
    sky.run(60);
    Client& client = sky.player.client;
    ecs::World& mirror = sky.player.world;
    const ecs::Entity replica = client.receiver().entity(sky.link.server.sender().net_id(plain));
    const ecs::Entity own = mirror.spawn(Kite{4}, Knot{2});
    EXPECT_FALSE(client.sample<Kite>(replica));
    EXPECT_FALSE(client.authoritative<Kite>(replica));
    EXPECT_EQ(client.sample<Kite>(own)->height, 4) << "as in the world";
    EXPECT_EQ(client.sample<Knot>(own)->number, 2) << "also what does not replicate";
    EXPECT_FALSE(client.authoritative<Kite>(own)) << "it is no replica";
    EXPECT_FALSE(client.authoritative<Knot>(replica));
    EXPECT_FALSE(client.sample<Kite>({}));
    EXPECT_FALSE(client.authoritative<Kite>({}));
    // What the game writes is in samples, until restore().
    mirror.set(replica, Label{77});
    EXPECT_EQ(client.sample<Label>(replica)->number, 77);
    EXPECT_EQ(client.authoritative<Label>(replica)->number, 1);
    EXPECT_TRUE(client.restore(replica));
    EXPECT_EQ(client.sample<Label>(replica)->number, 1);
    EXPECT_FALSE(client.restore(own));
    mirror.destroy(replica);
    EXPECT_FALSE(client.sample<Label>(replica) || client.authoritative<Label>(replica));
}

TEST(Presentation, ANewConnectionBeginsANewRenderTime) {
    Sky sky;
    sky.run(60);
    Client& client = sky.player.client;
    ASSERT_TRUE(client.render_time());
    client.connect(sky.link.wire.address);
    client.update(sky.link.now);
    EXPECT_FALSE(client.render_time()) << "before the first state";
    sky.run(60);
    const RenderTime time = *client.render_time();
    EXPECT_GT(time.tick + 30, *client.receiver().newest_tick());
    EXPECT_NEAR(client.sample<Kite>(sky.replica())->height, static_cast<float>(time.tick) + time.fraction,
                1e-3);
}

TEST(Presentation, AComponentMovesOnForAMomentWhenTheStateStops) {
    Sky sky;
    sky.run(60);
    Client& client = sky.player.client;
    const ecs::Entity replica = sky.replica();
    const float newest = client.authoritative<Kite>(replica)->height;
    sky.link.cut(30);
    EXPECT_GT(client.sample<Kite>(replica)->height, newest + 1);
    EXPECT_LT(client.sample<Kite>(replica)->height, newest + 7) << "at most 100 ms";
}

TEST(Presentation, TheRenderTimeGoesOnWhenAClientComesBackWithItsWorld) {
    Sky sky;
    sky.run(60);
    Client& client = sky.player.client;
    ASSERT_EQ(client.phase(), Phase::playing);
    const ecs::Entity replica = sky.replica();
    RenderTime last = *client.render_time();
    client.connect(sky.link.wire.address, client.ticket());
    for (int i = 0; i < 60; ++i) {
        sky.run(1);
        ASSERT_TRUE(client.render_time()) << i;
        const RenderTime time = *client.render_time();
        ASSERT_GE(static_cast<float>(static_cast<std::int32_t>(time.tick - last.tick)) + time.fraction,
                  last.fraction)
            << i;
        last = time;
    }
    EXPECT_EQ(client.phase(), Phase::playing);
    EXPECT_EQ(sky.link.server.stats().tickets.used, 1u);
    EXPECT_EQ(sky.replica(), replica);
    EXPECT_GT(last.tick + 30, *client.receiver().newest_tick());
}

/// A presentation without a client: each tick the server sends a packet, and the test says whether it
/// arrives.
struct Stand {
    explicit Stand(Tick first_tick = 1) : first(first_tick), pair({}, {}, first_tick, 1, kite_schema(true)) {}
    enum class Packet { arrives, is_lost, is_not_sent };
    void step(Packet packet = Packet::arrives) {
        pair.world.set(kite, Kite{static_cast<float>(pair.next_tick - first)});
        pair.tick();
        now += std::chrono::microseconds(16'667);
        if (packet != Packet::is_not_sent) {
            const SentPacket sent = pair.encode().value_or(SentPacket{});
            if (packet == Packet::arrives) {
                received += 1;
                pair.deliver(sent);
                pair.receiver.hear(sent.number, now);
                presentation.receive(sent.number, received, now);
            } else {
                pair.lose(sent);
            }
        }
        pair.receiver.update_clock(now);
        presentation.apply(now);
    }
    void start() {
        pair.receiver.start_clock(std::chrono::microseconds(16'667));
        presentation.start(16'667);
    }
    /// Runs 300 ticks. In 5 of each 8 no packet arrives.
    void run(Packet other) {
        for (int i = 0; i < 300; ++i) step(i % 8 < 3 ? Packet::arrives : other);
    }
    net::Duration wanted_delay() const { return presentation.clock()->wanted_delay(); }

    Tick first;
    Pair pair;
    Presentation presentation{pair.mirror, pair.receiver_schema, pair.receiver};
    ecs::Entity kite = pair.spawn(Kite{}, Label{});
    net::Time now{std::chrono::seconds(100)};
    std::uint64_t received = 0;
};

TEST(Presentation, ShowsNothingBeforeTheLengthOfATickIsKnown) {
    for (const Tick first_tick : {100u, 0x8000'0064u}) {
        Stand stand(first_tick);
        stand.presentation.apply(stand.now);
        for (int i = 0; i < 10; ++i) stand.step();
        EXPECT_FALSE(stand.presentation.time());
        EXPECT_EQ(stand.pair.mirror.size(), 0u);
        stand.start();
        EXPECT_FALSE(stand.presentation.time()) << "until apply()";
        stand.presentation.apply(stand.now);
        ASSERT_TRUE(stand.presentation.time()) << "the state that arrived before counts";
        for (int i = 0; i < 10; ++i) stand.step();
        const RenderTime time = *stand.presentation.time();
        const ecs::Entity replica = stand.pair.replica(stand.kite);
        ASSERT_TRUE(replica);
        EXPECT_EQ(stand.pair.mirror.get<Kite>(replica).height, static_cast<float>(time.tick - first_tick));
        EXPECT_TRUE(stand.presentation.sample<Kite>(replica)) << "without a predictor";
        stand.presentation.reset();
        EXPECT_FALSE(stand.presentation.time());
    }
}

TEST(Presentation, ASecondStartChangesNothing) {
    Stand once, twice;
    for (Stand* const stand : {&once, &twice}) {
        stand->start();
        stand->run(Stand::Packet::is_lost);
    }
    twice.start();
    for (int i = 0; i < 10; ++i) {
        once.step();
        twice.step();
        ASSERT_TRUE(twice.presentation.time());
        EXPECT_EQ(twice.presentation.time()->tick, once.presentation.time()->tick);
        EXPECT_EQ(twice.presentation.time()->fraction, once.presentation.time()->fraction);
        EXPECT_EQ(twice.wanted_delay(), once.wanted_delay());
    }
}

// Both arrive in the same ticks.
TEST(Presentation, LostPacketsDelayTheRenderTimeAndPausesOfTheServerDoNot) {
    const net::Duration tick = std::chrono::microseconds(16'667);
    Stand lossy;
    lossy.start();
    lossy.run(Stand::Packet::is_lost);
    EXPECT_GT(lossy.wanted_delay(), 5 * tick);
    Stand pausing;
    pausing.start();
    for (int i = 0; i < 10; ++i) pausing.step(i == 5 ? Stand::Packet::is_lost : Stand::Packet::arrives);
    pausing.run(Stand::Packet::is_not_sent);
    EXPECT_LT(pausing.wanted_delay(), 4 * tick);
    // A new connection counts its packets anew.
    pausing.pair.sender.reconnect_peer(pausing.pair.peer);
    pausing.pair.receiver.reconnect();
    pausing.presentation.reconnect();
    pausing.pair.next_number = 1;
    pausing.received = 0;
    pausing.run(Stand::Packet::is_not_sent);
    EXPECT_LT(pausing.wanted_delay(), 4 * tick);
}

}  // namespace
}  // namespace shoal::replication::impl::presentation_test
