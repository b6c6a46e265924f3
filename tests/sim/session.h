#pragma once
// A server and some clients with any schema, over one simulated network.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "net/socket/bad_network.h"
#include "replication/client.h"
#include "replication/server.h"
#include "replication/world_hash.h"
#include "tests/net/support/server_key.h"
#include "tests/sim/game.h"

namespace shoal::sim {

/// A path that delays, loses and repeats packets.
inline net::LinkConfig bad_link(Random& random) {
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(random.below(100));
    link.jitter = std::chrono::milliseconds(random.below(40));
    link.loss = random.below(3) * 0.1;
    link.duplicate = 0.05;
    return link;
}

class Session {
public:
    struct Visitor {
        Visitor(const net::Address& at, const replication::Schema& schema, net::BadNetwork& network,
                const replication::ClientOptions& options)
            : address(at), client(world, schema, network.at(at), options) {}
        net::Address address;
        ecs::World world;
        replication::Client client;
    };

    /// The schemas must outlive the session. All guests begin to connect; the first ones have the schemas of
    /// `of_guests`, the others that of the server.
    Session(const replication::Schema& schema, const net::LinkConfig& link, std::size_t guest_count,
            std::uint64_t seed = 1, const std::vector<const replication::Schema*>& of_guests = {},
            const replication::ServerOptions& options = {})
        : schema_(schema),
          network_(link, seed),
          server_(world_, schema, network_.at(at_server_), server_options(options)) {
        for (std::size_t i = 0; i < guest_count; ++i) {
            guests_.push_back(make_guest(i < of_guests.size() ? *of_guests[i] : schema));
            guests_.back()->client.connect(at_server_);
        }
    }

    /// The process of a guest ends without a word, and another one with the server's schema is there, at
    /// another address. It does not connect yet.
    Visitor& restart(std::size_t guest) {
        guests_[guest] = make_guest(schema_);
        return *guests_[guest];
    }

    ecs::World& world() { return world_; }
    const net::Address& at_server() const { return at_server_; }
    replication::Server& server() { return server_; }
    net::Time now() const { return now_; }
    const std::vector<std::unique_ptr<Visitor>>& guests() const { return guests_; }

    /// One tick of the server and one update of each client.
    void step() {
        now_ += std::chrono::microseconds(16'667);
        network_.receive_all(at_server_, server_.host(), now_);
        const replication::Tick tick = server_.tick(now_);
        const replication::impl::Shadow& shadow = server_.sender().shadow();
        if (!shadow.opened().empty() || !shadow.changed().empty() || !shadow.closed().empty())
            changed_ = tick;
        for (const auto& guest : guests_) {
            network_.receive_all(guest->address, guest->client.endpoint(), now_);
            guest->client.update(now_);
        }
    }

    /// Steps until all guests play, at most `ticks` times. A guest whose handshake failed tries again, with
    /// its ticket if it has one.
    void let_join(int ticks = 1'800) {
        const auto plays = [](const auto& guest) {
            return guest->client.phase() == replication::Phase::playing;
        };
        for (; ticks > 0 && !std::ranges::all_of(guests_, plays); --ticks) {
            for (const auto& guest : guests_)
                if (guest->client.endpoint().is_idle())
                    guest->client.connect(at_server_, guest->client.ticket());
            step();
        }
    }

    void set_link(const net::LinkConfig& link) {
        network_.in(at_server_).set_config(link);
        for (const auto& guest : guests_) network_.in(guest->address).set_config(link);
    }

    /// Steps until all clients have the server's world, at most `ticks` times.
    void converge(int ticks) {
        while (ticks-- > 0 && !is_everyone_complete()) step();
    }

    /// The clients' worlds equal the server's, which has `entities` replicated entities.
    void expect_agreement(std::uint32_t entities) {
        replication::WorldHash ours(world_, schema_);
        const auto expected = ours.of_server(server_.sender().shadow());
        EXPECT_EQ(expected.entities, entities);
        EXPECT_TRUE(is_everyone_complete());
        for (const auto& guest : guests_) {
            replication::WorldHash theirs(guest->world, schema_);
            const auto sum = theirs.of_client(guest->client.receiver());
            EXPECT_EQ(sum.entities, entities);
            EXPECT_EQ(sum.hash, expected.hash);
            EXPECT_EQ(sum.owned_hash, expected.owned_hash);
            EXPECT_TRUE(guest->client.receiver().is_consistent());
            EXPECT_EQ(guest->client.receiver().stats().malformed_packets, 0u);
        }
        EXPECT_TRUE(server_.sender().is_consistent());
    }

private:
    std::unique_ptr<Visitor> make_guest(const replication::Schema& schema) {
        const std::size_t number = made_++;
        replication::ClientOptions options;
        options.net.protocol_id = 5;
        options.net.seed = seed_of(10 + number);
        // Some servers here have a timeout of 2 s. At 20 % loss two packets in a row are often lost.
        options.net.connection.keep_alive = std::chrono::milliseconds(250);
        give_key(options.net);
        const auto at = net::Address::ipv4(10, 0, 0, static_cast<std::uint8_t>(10 + number), 5000);
        return std::make_unique<Visitor>(at, schema, network_, options);
    }
    static net::Seed seed_of(std::uint64_t number) {
        net::Seed seed{};
        std::memcpy(seed.data(), &number, sizeof number);
        return seed;
    }
    static replication::ServerOptions server_options(replication::ServerOptions options) {
        options.host.protocol_id = 5;
        options.host.seed = seed_of(1);
        give_key(options.host);
        return options;
    }
    bool is_everyone_complete() const {
        for (const auto& guest : guests_) {
            const auto complete = guest->client.receiver().complete();
            if (!complete || replication::is_newer(changed_, complete->tick)) return false;
        }
        return true;
    }

    const replication::Schema& schema_;
    const net::Address at_server_ = net::Address::ipv4(10, 0, 0, 1, 7000);
    net::BadNetwork network_;
    ecs::World world_;
    replication::Server server_;
    std::vector<std::unique_ptr<Visitor>> guests_;
    std::size_t made_ = 0;           // guests, also those that ended
    replication::Tick changed_ = 0;  // the last tick in which an entity changed
    net::Time now_{std::chrono::seconds(100)};
};

}  // namespace shoal::sim
