// A schema far larger than a packet: 60 components of ten floats each, and entities of 20 kB, through 5 %
// loss.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/socket/bad_network.h"
#include "replication/client.h"
#include "replication/server.h"
#include "replication/world_hash.h"
#include "tests/net/support/server_key.h"
#include "tests/sim/game.h"

namespace shoal::sim {
namespace {

constexpr int kComponents = 60;

template <int>
struct Wide {
    float at[10] = {};
};
struct Freight {
    std::vector<std::uint8_t> bytes;
};

template <int... I>
replication::Schema wide_schema(std::integer_sequence<int, I...>) {
    replication::Schema schema;
    (schema.component<Wide<I>>("wide " + std::to_string(I)), ...);
    schema.component<Freight>("freight", replication::max_length(20'000));
    return schema;
}

/// Writes to one component, or adds or removes it.
template <int I>
void change(ecs::World& world, ecs::Entity entity, Random& random) {
    if (random.chance(0.1)) {
        world.remove<Wide<I>>(entity);
    } else {
        Wide<I> value = world.has<Wide<I>>(entity) ? world.get<Wide<I>>(entity) : Wide<I>{};
        for (float& f : value.at)
            if (random.chance(0.3)) f = static_cast<float>(random.between(-100, 100));
        world.set(entity, value);
    }
}
using Change = void (*)(ecs::World&, ecs::Entity, Random&);
template <int... I>
std::vector<Change> changes(std::integer_sequence<int, I...>) {
    return {&change<I>...};
}

struct Visitor {
    Visitor(const net::Address& at, const replication::Schema& schema, net::BadNetwork& network,
            const replication::ClientOptions& options)
        : address(at), client(world, schema, network.at(at), options) {}
    net::Address address;
    ecs::World world;
    replication::Client client;
};

TEST(WideSchema, Rule11SixtyComponentsOfTenFloatsAndEntitiesOf20KilobytesAgreeThroughLoss) {
    const auto all = std::make_integer_sequence<int, kComponents>();
    const replication::Schema schema = wide_schema(all);
    ASSERT_EQ(schema.error(), "");
    const std::vector<Change> change_component = changes(all);
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(40);
    link.jitter = std::chrono::milliseconds(10);
    link.loss = 0.05;
    net::BadNetwork network(link, 1);
    const auto seed_of = [](std::uint64_t number) {
        net::Seed seed{};
        std::memcpy(seed.data(), &number, sizeof number);
        return seed;
    };
    const net::Address at_server = net::Address::ipv4(10, 0, 0, 1, 7000);
    replication::ServerOptions options;
    options.host.protocol_id = 5;
    options.host.seed = seed_of(1);
    give_key(options.host);
    ecs::World world;
    replication::Server server(world, schema, network.at(at_server), options);
    std::vector<std::unique_ptr<Visitor>> guests;
    net::Time now{std::chrono::seconds(100)};
    for (std::uint8_t i = 0; i < 2; ++i) {
        replication::ClientOptions guest;
        guest.net.protocol_id = 5;
        guest.net.seed = seed_of(10u + i);
        give_key(guest.net);
        guests.push_back(std::make_unique<Visitor>(
            net::Address::ipv4(10, 0, 0, static_cast<std::uint8_t>(10 + i), 5000), schema, network, guest));
        guests.back()->client.connect(at_server);
    }
    Random random(1);
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 12; ++i) {
        entities.push_back(world.spawn(replication::Replicated{}));
        for (const Change change : change_component) change(world, entities.back(), random);
        if (i % 3 == 0) world.set(entities.back(), Freight{std::vector<std::uint8_t>(20'000, 7)});
    }
    const auto step = [&] {
        now += std::chrono::microseconds(16'667);
        network.receive_all(at_server, server.host(), now);
        server.tick(now);
        for (const auto& guest : guests) {
            network.receive_all(guest->address, guest->client.endpoint(), now);
            guest->client.update(now);
        }
    };
    for (int tick = 0; tick < 600; ++tick) {
        for (int n = 0; n < 3; ++n)
            change_component[random.below(kComponents)](world, entities[random.below(12)], random);
        if (tick % 40 == 0)
            world.patch<Freight>(entities[3 * random.below(4)],
                                 [&](Freight& freight) { freight.bytes[random.below(20'000)] += 1; });
        step();
    }
    const auto is_complete = [&](const Visitor& guest) {
        const auto complete = guest.client.receiver().complete();
        const replication::Tick changed = server.sender().shadow().last_change();
        return complete && !replication::is_newer(changed, complete->tick);
    };
    for (int tick = 0; tick < 3'000; ++tick) {
        step();
        if (is_complete(*guests[0]) && is_complete(*guests[1])) break;
    }
    replication::WorldHash ours(world, schema);
    const auto expected = ours.of_server(server.sender().shadow());
    EXPECT_EQ(expected.entities, 12u);
    for (const auto& guest : guests) {
        EXPECT_TRUE(is_complete(*guest));
        replication::WorldHash theirs(guest->world, schema);
        EXPECT_EQ(theirs.of_client(guest->client.receiver()).hash, expected.hash);
        EXPECT_TRUE(guest->client.receiver().is_consistent());
        EXPECT_EQ(guest->client.receiver().stats().malformed_packets, 0u);
    }
    EXPECT_TRUE(server.sender().is_consistent());
}

}  // namespace
}  // namespace shoal::sim
