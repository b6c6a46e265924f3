// Once all buffers have grown, a tick with changes allocates no memory, on server and clients.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "replication/client.h"
#include "replication/server.h"
#include "tests/net/support/server_key.h"
#include "tests/sim/game.h"
#include "tests/support/allocations.h"

namespace shoal::sim {
namespace {

constexpr net::Address address_of(std::uint8_t last) {
    net::Address address;
    address.ip = {10, 0, 0, last};
    address.port = 7000;
    address.family = net::Address::Family::ipv4;
    return address;
}

/// A network without faults: datagrams in a ring of fixed buffers.
class Wire final : public net::Sink {
public:
    explicit Wire(std::uint8_t from) : from_(address_of(from)), slots_(256) {}
    void send(const net::Address& to, std::span<const std::byte> datagram) override {
        Slot& slot = slots_[tail_++ % slots_.size()];
        ASSERT_LE(tail_ - head_, slots_.size());
        slot.to = to;
        slot.size = datagram.size();
        std::memcpy(slot.bytes, datagram.data(), datagram.size());
    }
    template <class Use>
    void drain(Use&& use) {
        for (; head_ != tail_; ++head_) {
            const Slot& slot = slots_[head_ % slots_.size()];
            use(from_, slot.to, std::span(slot.bytes, slot.size));
        }
    }

private:
    struct Slot {
        net::Address to;
        std::size_t size = 0;
        std::byte bytes[net::kMaxDatagramBytes];
    };
    net::Address from_;
    std::vector<Slot> slots_;
    std::size_t head_ = 0, tail_ = 0;
};

struct Guest {
    Guest(std::uint8_t number, const replication::Schema& schema, const replication::ClientOptions& options)
        : address(address_of(number)), wire(number), client(world, schema, wire, options) {}
    net::Address address;
    ecs::World world;
    Wire wire;
    replication::Client client;
};

class SteadyWorld {
public:
    SteadyWorld() : schema(game_schema()), server(world, schema, wire, server_options()) {
        for (std::uint8_t i = 0; i < 3; ++i) {
            replication::ClientOptions options;
            options.net.protocol_id = 1;
            options.net.seed[0] = static_cast<std::byte>(i + 1);
            give_key(options.net);
            guests.push_back(std::make_unique<Guest>(static_cast<std::uint8_t>(10 + i), schema, options));
        }
        for (int i = 0; i < 300; ++i)
            entities.push_back(world.spawn(replication::Replicated{}, Position{}, Velocity{}));
        for (std::size_t i = 0; i < entities.size(); i += 3)
            world.set(entities[i], Name{}, Bag{}, Aim{}, Squad{});
        for (std::uint32_t i = 0; i < entities.size(); i += 4) {  // both sides have these
            world.set(entities[i], replication::StableKey{i});
            for (const auto& guest : guests) guest->world.spawn(Position{}, replication::StableKey{i});
        }
    }
    static replication::Schema game_schema() {
        replication::Schema out;
        describe(out);
        return out;
    }
    static replication::ServerOptions server_options() {
        replication::ServerOptions options;
        options.host.protocol_id = 1;
        options.host.seed[0] = std::byte{9};
        give_key(options.host);
        return options;
    }

    void tick() {
        step_ += 1;
        const auto some = [this](std::size_t i, std::size_t limit) { return (step_ * 7 + i * 13) % limit; };
        for (std::size_t i = 0; i < entities.size(); ++i) {
            const float x = static_cast<float>(some(i, 5'000)) / 50 - 50;
            world.patch<Position>(entities[i], [&](Position& p) { p = {x, -x, x / 2}; });
            if (some(i, 10) == 0)
                world.has<Frozen>(entities[i]) ? world.remove<Frozen>(entities[i])
                                               : world.add<Frozen>(entities[i]);
            if (i % 3 != 0) continue;
            world.patch<Name>(entities[i], [&](Name& n) { n.text.assign(some(i, kMaxName), 'a'); });
            world.patch<Bag>(entities[i], [&](Bag& b) {
                b.items.resize(some(i, kMaxItems), Item{1, 2, true});
            });
            world.patch<Aim>(entities[i], [&](Aim& a) { a.target = entities[some(i, entities.size())]; });
            world.patch<Squad>(entities[i],
                               [&](Squad& s) { s.members.resize(some(i, kMaxMembers), entities[i]); });
        }
        now_ += std::chrono::microseconds(16'667);
        for (const auto& guest : guests)
            guest->wire.drain(
                [&](const net::Address& from, const net::Address&, std::span<const std::byte> bytes) {
                    server.host().receive(from, bytes, now_);
                });
        server.tick(now_);
        wire.drain([&](const net::Address& from, const net::Address& to, std::span<const std::byte> bytes) {
            lost_ += 1;
            if (loses && lost_ % 11 == 0) return;
            for (const auto& guest : guests)
                if (guest->address == to) guest->client.endpoint().receive(from, bytes, now_);
        });
        const std::size_t before = test::allocations();
        for (const auto& guest : guests) guest->client.update(now_);
        client_allocations += test::allocations() - before;
    }
    void connect() {
        for (const auto& guest : guests) guest->client.connect(address_of(1));
    }

    replication::Schema schema;
    ecs::World world;
    Wire wire{1};
    replication::Server server;
    std::vector<std::unique_ptr<Guest>> guests;
    std::vector<ecs::Entity> entities;
    std::size_t client_allocations = 0;
    bool loses = false;

private:
    net::Time now_{std::chrono::seconds(1)};
    std::size_t step_ = 0, lost_ = 0;
};

void expect_no_allocations(bool loses) {
    SteadyWorld steady;
    steady.loses = loses;
    steady.connect();
    for (int i = 0; i < 600; ++i) steady.tick();
    for (const auto& guest : steady.guests) ASSERT_EQ(guest->world.size(), 300u);
    const std::size_t before = test::allocations();
    steady.client_allocations = 0;
    for (int i = 0; i < 300; ++i) steady.tick();
    const std::size_t all = test::allocations() - before;
    EXPECT_EQ(all, 0u) << "of which in Client::update " << steady.client_allocations;
    for (const auto& guest : steady.guests) {
        EXPECT_TRUE(guest->client.is_connected());
        const auto& stats = guest->client.receiver().stats();
        EXPECT_EQ(stats.malformed_packets, 0u);
        // Datagrams keep their order, so loss alone provokes none of these.
        EXPECT_EQ(stats.refused_packets, 0u);
        EXPECT_EQ(stats.stale_records, 0u);
        EXPECT_EQ(stats.rebases, 0u);
        EXPECT_EQ(guest->client.stats().drops.total(), 0u);
    }
    steady.server.for_each_peer(
        [&](net::PeerId peer) { EXPECT_EQ(steady.server.host().stats(peer).packets_lost > 0, loses); });
}

TEST(SteadyState, AllocatesNothingPerTickOnServerAndClients) {
    expect_no_allocations(false);
}

TEST(SteadyState, AllocatesNothingPerTickUnderLoss) {
    expect_no_allocations(true);
}

}  // namespace
}  // namespace shoal::sim
