#pragma once
// A server and clients with actions and state that clients own, without connections: payloads and messages
// wait in queues, from which the test loses and delays some.

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "replication/action/client_actions.h"
#include "replication/action/server_actions.h"
#include "replication/message/message_queue.h"
#include "replication/play/control_codec.h"
#include "replication/play/owned_reader.h"
#include "replication/play/owned_writer.h"
#include "replication/play/players.h"
#include "replication/play/uplink.h"
#include "replication/receive/receiver.h"
#include "replication/send/sender.h"
#include "replication/world_hash.h"

namespace shoal::replication::impl {

class Stage : private PlayerHost {
public:
    struct Bytes {
        std::uint64_t number = 0;
        int due = 0;  // step at which they arrive
        bool is_lost = false;
        std::vector<std::byte> bytes;
    };
    struct Client {
        Client(const Schema& schema, Sender::Peer peer_, net::PeerId id_)
            : receiver(world, schema),
              actions(world, schema, receiver),
              typed(schema, receiver),
              owned(world, schema, receiver),
              peer(peer_),
              id(id_) {
            uplink.set(Section::actions, &actions.section());
            uplink.set(Section::owned_state, &owned);
            receiver.set_named([this](std::vector<NetId>& net_ids) { queue.append_named(net_ids); });
        }
        template <class T>
        void act(T action) {
            const std::size_t type = schema().template find_struct<T>(StructKind::action);
            if (!actions.begin(type, &action)) return;
            if constexpr (HasMutation<T>) action.mutate(actions.act());
            actions.end(&action);
        }
        /// Does an action that spawns an entity, and returns the entity.
        template <class T>
        ecs::Entity make(T action) {
            if (!actions.begin(schema().template find_struct<T>(StructKind::action), &action)) return {};
            const ecs::Entity made = action.mutate(actions.act());
            actions.end(&action);
            return made;
        }
        const Schema& schema() const { return *of; }
        void hear(std::span<const std::byte> message) {
            const std::span<const std::byte> bytes = message.subspan(1);
            const auto kind = static_cast<MessageKind>(message[0]);
            bool is_valid = false;
            if (kind == MessageKind::action_event) is_valid = queue.add_event(bytes);
            if (kind == MessageKind::action_results)
                is_valid = actions.receive(read_control<ActionResults>(bytes), bytes.size());
            if (kind == MessageKind::gone)
                is_valid = actions.receive(read_control<Gone>(bytes), bytes.size());
            if (kind == MessageKind::refused_value)
                is_valid = owned.receive(read_control<OwnedRefusal>(bytes));
            is_broken = is_broken || !is_valid;
        }
        bool update(net::Time at, std::optional<Tick> render_tick) {
            actions.end_accepted();
            queue.deliver(at, render_tick);
            receiver.end_kept();
            actions.run_waiting();
            return actions.take_answers() && !is_broken;
        }

        const Schema* of = nullptr;
        ecs::World world;
        Receiver receiver;
        ClientActions actions;
        TypedMessages typed;
        MessageQueue queue{typed, receiver, &actions};
        bool is_broken = false;  // a message was malformed
        OwnedWriter owned;
        UplinkWriter uplink;
        Sender::Peer peer;
        net::PeerId id;
        Tick delay = 0;  // of its render tick; 0: it has none
        std::uint64_t next_up = 1, next_down = 1;
        std::deque<Bytes> up, down, messages;
        std::deque<std::vector<std::byte>> unsent;  // control messages that found no room
        ecs::Entity player_entity;                  // on the server
        std::string kicked;
    };

    explicit Stage(Schema described, std::uint32_t seed = 1, ActionLimits limits = {1000, 1000, 1000},
                   const std::function<ecs::ComponentId(ecs::World&)>& tag = {})
        : schema(std::move(described)),
          sender(world, schema, {.tag = tag ? tag(world) : ecs::ComponentId{}}),
          actions(world, schema, sender, players, *this, limits, 60),
          owned(world, schema, sender, *this, std::chrono::microseconds(16'667)),
          random(seed) {
        uplink.set(Section::actions, &actions);
        uplink.set(Section::owned_state, &owned);
    }

    Client& add_client(ecs::Entity player_entity = {}) {
        const auto number = static_cast<std::uint32_t>(clients.size());
        const net::PeerId id{(1u << 16) | number};
        clients.push_back(std::make_unique<Client>(schema, sender.add_peer(), id));
        clients.back()->of = &schema;
        clients.back()->player_entity = player_entity;
        actions.add_player(players.add(id, clients.back()->peer));
        return *clients.back();
    }

    /// One tick of the server, and one update of each client.
    void step() {
        ++now;
        for (const auto& client : clients) send_unsent(*client);
        for (const auto& client : clients) receive_up(*client);
        for (const auto& client : clients)
            if (client->kicked.empty()) player(client->id).seat.set_player(client->player_entity);
        actions.run(next_tick);
        if (on_step) on_step();
        actions.finish();
        owned.repeat_records();
        sender.update(next_tick++);
        for (const auto& client : clients) {
            if (!client->kicked.empty()) continue;
            send_down(*client);
            receive_down(*client);
            update(*client);
        }
    }
    void run(int steps) {
        for (int i = 0; i < steps; ++i) step();
    }
    /// `nobody` if there is no such player.
    Player& player(net::PeerId id) { return players.find(id) ? *players.find(id) : nobody; }
    ActionStats action_stats(net::PeerId id) {
        return player(id).actions ? player(id).actions->stats : ActionStats{};
    }
    std::size_t actions_waiting(net::PeerId id) {
        return player(id).actions ? player(id).actions->waiting() : 0;
    }
    void set_away(net::PeerId id) { players.disconnect(player(id)); }
    void reconnect(net::PeerId id, const std::array<std::uint32_t, kActionStreams>& first) {
        if (players.find(id) && !player(id).connection) players.connect(player(id), id);
        actions.reconnect(player(id), first);
    }
    Resumed replace_client(net::PeerId id) {
        if (players.find(id) && !player(id).connection) players.connect(player(id), id);
        return actions.replace_client(player(id));
    }
    /// As Server::give(); null: to nobody.
    void give(Client* client, ecs::Entity entity) {
        const std::optional<Sender::Peer> before = sender.owner(entity);
        sender.set_owner(entity, client ? std::optional(client->peer) : std::nullopt);
        if (sender.owner(entity) != before) owned.change_owner(entity, before.has_value());
        if (client) {
            world.add<Mine>(entity);
        } else {
            world.remove<Mine>(entity);
        }
    }
    /// Without faults, until everything that is under way has arrived and was answered.
    void settle(int steps = 60) {
        loss = 0;
        most_delay = 1;
        run(steps);
    }
    /// Ends the connection of a client on the server.
    void kick(Client& client, std::string_view why) {
        if (!client.kicked.empty()) return;
        client.kicked = why;
        if (players.find(client.id)) players.remove(player(client.id));
        sender.remove_peer(client.peer);
    }
    bool is_equal(Client& client) {
        WorldHash ours(world, schema), theirs(client.world, schema);
        return ours.of_server(sender.shadow()) == theirs.of_client(client.receiver);
    }
    ecs::Entity replica(Client& client, ecs::Entity entity) const {
        return client.receiver.entity(sender.net_id(entity));
    }

    Schema schema;
    ecs::World world;
    Sender sender;
    Players players;
    Player nobody;
    ServerActions actions;
    OwnedReader owned;
    UplinkReader uplink;
    std::vector<std::unique_ptr<Client>> clients;
    std::function<void()> on_step;
    std::mt19937 random;
    double loss = 0;
    int most_delay = 1;  // in steps
    int now = 0;
    Tick next_tick = 1;
    bool queue_is_full = false;  // of messages to clients

private:
    net::Time time() const { return net::Time{std::chrono::microseconds(16'667) * now}; }
    bool loses() { return static_cast<double>(random() % 1000) < loss * 1000; }
    int arrival() { return now + 1 + static_cast<int>(random() % static_cast<unsigned>(most_delay)); }
    Client* find(net::PeerId id) const {
        for (const auto& client : clients)
            if (client->id == id) return client.get();
        return nullptr;
    }

    bool send_reliable(Client& client, std::span<const std::byte> message) {
        if (queue_is_full) return false;
        int due = arrival();
        while (loses()) due += 3;
        if (!client.messages.empty()) due = std::max(due, client.messages.back().due);
        client.messages.push_back({0, due, false, {message.begin(), message.end()}});
        return true;
    }
    void send_control(Player& player, std::vector<std::byte> message) override {
        if (!player.connection) return;
        Client& client = *find(player.id);
        client.unsent.push_back(std::move(message));
        send_unsent(client);
    }
    void send_unsent(Client& client) {
        while (!client.unsent.empty() && send_reliable(client, client.unsent.front()))
            client.unsent.pop_front();
    }
    bool send_event(Player& player, std::span<const std::byte> message) override {
        return send_reliable(*find(player.id), message);
    }
    void disconnect_player(Player& player, std::string_view why) override { kick(*find(player.id), why); }
    void give_entity(net::PeerId id, ecs::Entity entity) override {
        if (find(id)->kicked.empty()) sender.set_owner(entity, find(id)->peer);
    }

    template <class Use>
    void take_due(std::deque<Bytes>& queue, Use&& use) {
        for (std::size_t i = 0; i < queue.size();) {
            if (queue[i].due > now) {
                ++i;
                continue;
            }
            const Bytes bytes = std::move(queue[i]);
            queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
            use(bytes);
        }
    }
    void receive_up(Client& client) {
        take_due(client.up, [&](const Bytes& packet) {
            if (!packet.is_lost && client.kicked.empty()) {
                EXPECT_TRUE(uplink.read(player(client.id), packet.number, packet.bytes, time()));
                owned.run(player(client.id), next_tick, time());
            }
            client.uplink.on_fate(packet.number, !packet.is_lost);
        });
    }
    void send_down(Client& client) {
        std::byte room[1300];
        for (;;) {
            const auto payload = sender.encode(client.peer, client.next_down, 1100, room);
            if (payload.empty()) return;
            client.down.push_back({client.next_down++, arrival(), loses(), {payload.begin(), payload.end()}});
        }
    }
    void receive_down(Client& client) {
        take_due(client.down, [&](const Bytes& packet) {
            bool is_accepted = false;
            if (!packet.is_lost) {
                const auto verdict = client.receiver.receive(packet.number, packet.bytes);
                EXPECT_NE(verdict, Receiver::Verdict::malformed);
                is_accepted = verdict == Receiver::Verdict::accepted;
            }
            sender.on_fate(client.peer, packet.number, is_accepted);
        });
        for (const std::uint32_t slot : client.receiver.decoder().rebases()) sender.rebase(client.peer, slot);
        client.receiver.decoder().drop_rebases(client.receiver.decoder().rebases().size());
        take_due(client.messages, [&](const Bytes& message) { client.hear(message.bytes); });
    }
    void update(Client& client) {
        EXPECT_TRUE(client.actions.take_answers());
        std::optional<Tick> render_tick;
        if (client.delay != 0 && client.receiver.newest_tick())
            render_tick = *client.receiver.newest_tick() - client.delay;
        render_tick ? client.receiver.apply(*render_tick) : client.receiver.apply();
        client.actions.set_player(client.kicked.empty(), replica(client, client.player_entity),
                                  client.receiver.newest_tick().value_or(0) + 1);
        EXPECT_TRUE(client.update(net::Time(std::chrono::milliseconds(16) * now), render_tick));
        client.owned.update(client.actions.before());
        EXPECT_TRUE(client.owned.is_consistent());
        std::byte room[1160];
        if (const std::size_t size = client.uplink.write(client.next_up, room))
            client.up.push_back({client.next_up++, arrival(), loses(), {room, room + size}});
    }
};

}  // namespace shoal::replication::impl
