#pragma once
// A replication server and its clients with a virtual clock and a network without faults, in one program.

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "replication/client.h"
#include "replication/server.h"
#include "tests/net/support/server_key.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {

inline net::Seed seed_of(std::uint64_t number) {
    net::Seed seed{};
    std::memcpy(seed.data(), &number, sizeof number);
    return seed;
}

class Link {
public:
    struct Datagram {
        net::Address from, to;
        std::vector<std::byte> bytes;
    };
    struct Wire final : net::Sink {
        Wire(Link& in, const net::Address& at) : link(in), address(at) {}
        void send(const net::Address& to, std::span<const std::byte> datagram) override {
            if (!link.is_cut) link.under_way.push_back({address, to, {datagram.begin(), datagram.end()}});
        }
        Link& link;
        net::Address address;
    };
    struct Listener final : ServerListener, ClientListener {
        bool on_admit(const net::Admission& admission, std::string& refusal) override {
            client_id = admission.client_id;
            refusal = says_no;
            return says_no.empty();
        }
        void on_join(net::PeerId peer) override {
            last = peer;
            ++joins;
        }
        void on_leave(net::PeerId, net::DisconnectReason reason, std::string_view text) override {
            left(reason, text);
        }
        void on_too_large(ecs::Entity entity, std::string_view component, std::size_t bytes) override {
            too_large.push_back({entity, std::string(component), bytes});
        }
        void on_message(net::PeerId peer, net::Channel, std::span<const std::byte> message) override {
            last = peer;
            said(message);
        }
        void on_join() override { ++joins; }
        void on_leave(net::DisconnectReason reason, std::string_view text) override { left(reason, text); }
        void on_message(net::Channel, std::span<const std::byte> message) override { said(message); }
        void left(net::DisconnectReason reason, std::string_view text) {
            ++leaves;
            last_reason = reason;
            last_text = text;
        }
        void said(std::span<const std::byte> message) {
            messages.emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
        }
        struct TooLarge {
            ecs::Entity entity;
            std::string component;
            std::size_t bytes;
        };
        std::string says_no, last_text;
        net::DisconnectReason last_reason = net::impl::kLastDisconnectReason;
        std::vector<TooLarge> too_large;
        std::vector<std::string> messages;
        net::PeerId last;
        int joins = 0, leaves = 0;
        std::uint64_t client_id = 0;  // of the last on_admit
    };
    struct Player {
        Player(Link& link, const Schema& schema, const ClientOptions& options, std::uint8_t number)
            : wire(link, net::Address::ipv4(10, 0, 0, number, 5000)),
              client(world, schema, wire, options, &listener) {}
        ecs::World world;
        Listener listener;
        Wire wire;
        Client client;
    };

    explicit Link(const ServerOptions& options = default_options(), Schema described = game_schema())
        : schema(std::move(described)), server(world, schema, wire, options, &listener) {}

    static ServerOptions default_options() {
        ServerOptions options;
        options.host.protocol_id = 5;
        options.host.seed = seed_of(1);
        give_key(options.host);
        return options;
    }
    Player& add(const Schema& with, ClientOptions options = {}) {
        options.net.protocol_id = 5;
        options.net.seed = seed_of(100 + players.size());
        give_key(options.net);
        players.push_back(
            std::make_unique<Player>(*this, with, options, static_cast<std::uint8_t>(10 + players.size())));
        players.back()->client.connect(wire.address);
        return *players.back();
    }
    Player& add() { return add(schema); }

    void exchange() {
        for (; !under_way.empty(); under_way.pop_front()) {
            const Datagram& datagram = under_way.front();
            if (datagram.to == deaf) continue;
            if (datagram.to == wire.address) server.host().receive(datagram.from, datagram.bytes, now);
            for (const auto& player : players)
                if (datagram.to == player->wire.address)
                    player->client.endpoint().receive(datagram.from, datagram.bytes, now);
        }
    }
    void step(bool ticks = true) {
        now += std::chrono::microseconds(16'667);
        exchange();
        ticks ? static_cast<void>(server.tick(now)) : server.resend(now);
        exchange();
        for (const auto& player : players) player->client.update(now);
    }
    void run(int ticks) {
        for (int i = 0; i < ticks; ++i) step();
    }
    /// Loses all datagrams for this many ticks.
    void cut(int ticks) {
        is_cut = true;
        under_way.clear();
        run(ticks);
        is_cut = false;
        under_way.clear();
    }
    /// The server's process ends, and another one with an empty world begins.
    void restart(const ServerOptions& options) {
        std::destroy_at(&server);
        std::vector<ecs::Entity> all;
        ecs::Query<ecs::With<Replicated>>(world).each([&](ecs::Entity entity) { all.push_back(entity); });
        for (const ecs::Entity entity : all) world.destroy(entity);
        under_way.clear();
        std::construct_at(&server, world, schema, wire, options, &listener);
    }
    bool is_equal(const Player& player) {
        WorldHash ours(world, schema), theirs(const_cast<Player&>(player).world, schema);
        return ours.of_server(server.sender().shadow()) == theirs.of_client(player.client.receiver());
    }

    Schema schema;
    ecs::World world;
    net::Time now{std::chrono::seconds(100)};
    std::deque<Datagram> under_way;
    bool is_cut = false;
    std::optional<net::Address> deaf;  // datagrams to this address are lost
    Wire wire{*this, net::Address::ipv4(10, 0, 0, 1, 7000)};
    Listener listener;
    Server server;
    std::vector<std::unique_ptr<Player>> players;
};

}  // namespace shoal::replication::impl
