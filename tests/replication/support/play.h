#pragma once
// A server and clients with connections, a virtual clock and a bad network, for the tests of play.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "net/socket/bad_network.h"
#include "replication/client.h"
#include "replication/server.h"

namespace shoal::replication::impl {

class Play {
public:
    struct Guest {
        Guest(const Schema& schema, net::Sink& sink, net::Address address, const ClientOptions& options,
              ClientListener* listener)
            : at(address), client(world, schema, sink, options, listener) {}
        net::Address at;
        ecs::World world;
        Client client;
        std::function<void()> on_frame;  // before each update()
    };

    explicit Play(Schema of_both, net::LinkConfig link = {}, std::uint64_t seed = 1,
                  const ServerOptions& options = server_options(), ServerListener* listener = nullptr)
        : schema(std::move(of_both)),
          network(link, seed),
          server(world, schema, network.at(at_server), options, listener) {}

    Guest& add(ClientOptions options = {}, ClientListener* listener = nullptr) {
        const auto n = static_cast<std::uint8_t>(10 + guests.size());
        return add(net::Address::ipv4(10, 0, 0, n, 5000), options, listener);
    }
    Guest& add(const net::Address& address, ClientOptions options = {}, ClientListener* listener = nullptr) {
        options.net.seed = net::Seed{std::byte(10 + guests.size()), std::byte(guests.size() / 256)};
        options.net.server_key = net::public_key(key());
        guests.push_back(std::make_unique<Guest>(schema, network.at(address), address, options, listener));
        guests.back()->client.connect(at_server);
        return *guests.back();
    }
    Guest& join(const ClientOptions& options = {}) {
        Guest& guest = add(options);
        for (int i = 0; i < 600 && guest.client.phase() != Phase::playing; ++i) run(1);
        EXPECT_EQ(guest.client.phase(), Phase::playing) << guest.client.failure();
        return guest;
    }
    void set_link(const net::LinkConfig& link) {
        network.in(at_server).set_config(link);
        for (const auto& guest : guests) network.in(guest->at).set_config(link);
    }
    /// Ticks of 20 ms. In each, the server comes first.
    void run(int ticks) {
        for (int i = 0; i < ticks; ++i) {
            now += std::chrono::milliseconds(20);
            network.receive_all(at_server, server.host(), now);
            if (before_tick) before_tick();
            server.tick(now);
            for (const auto& guest : guests) {
                network.receive_all(guest->at, guest->client.endpoint(), now);
                if (guest->on_frame) guest->on_frame();
                guest->client.update(now);
            }
        }
    }
    ecs::Entity replica(const Guest& guest, ecs::Entity entity) {
        return guest.client.receiver().entity(server.sender().net_id(entity));
    }

    static net::SecretKey key() { return net::SecretKey(net::Bytes32{std::byte(2)}); }
    static ServerOptions server_options() {
        ServerOptions options;
        options.host.seed = net::Seed{std::byte(1)};
        options.host.key = key();
        options.sender.tick_hz = 50;
        return options;
    }

    Schema schema;
    const net::Address at_server = net::Address::ipv4(10, 0, 0, 1, 7000);
    net::BadNetwork network;
    ecs::World world;
    Server server;
    std::vector<std::unique_ptr<Guest>> guests;
    net::Time now{std::chrono::seconds(5)};
    std::function<void()> before_tick;
};

}  // namespace shoal::replication::impl
