#pragma once
// A sender and a receiver without a network: the test decides which packets arrive, and when fates are
// reported. The schema is that of tests/sim.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replication/codec/bits.h"
#include "replication/codec/state_packet.h"
#include "replication/receive/receiver.h"
#include "replication/send/sender.h"
#include "replication/world_hash.h"
#include "tests/sim/game.h"

namespace shoal::replication::impl {

inline Schema game_schema() {
    Schema schema;
    sim::describe(schema);
    return schema;
}

inline sim::Position at(float x) {
    return {x, 0, 0};
}

struct SentPacket {
    std::uint64_t number = 0;
    Tick tick = 0;
    std::vector<std::byte> bytes;
};

inline StateHeader header_of(const SentPacket& packet) {
    BitReader in(packet.bytes);
    const StateHeader header = read_state_header(in);
    EXPECT_TRUE(in.ok());
    return header;
}

/// Maps every entity and net id to none.
class NoEntities final : public EntityMap {
public:
    std::uint32_t to_net(ecs::Entity) override { return 0; }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }
};

class Pair {
public:
    explicit Pair(const SenderOptions& sender_options = {}, const ReceiverOptions& receiver_options = {},
                  Tick first_tick = 1, std::uint64_t first_number = 1, Schema described = game_schema())
        : Pair(described, described, sender_options, receiver_options, first_tick, first_number) {}

    /// The schemas differ in optional components.
    Pair(Schema of_sender, Schema of_receiver, const SenderOptions& sender_options = {},
         const ReceiverOptions& receiver_options = {}, Tick first_tick = 1, std::uint64_t first_number = 1)
        : schema(std::move(of_sender)),
          receiver_schema(std::move(of_receiver)),
          sender(world, schema, sender_options),
          receiver(mirror, receiver_schema, receiver_options),
          next_tick(first_tick),
          next_number(first_number),
          peer(sender.add_peer({.numbers = *schema.numbers_in(receiver_schema.summary())})) {}

    Tick tick() {
        sender.update(next_tick);
        return next_tick++;
    }

    /// Returns the next packet of this tick, or nothing if nothing is left to send.
    std::optional<SentPacket> encode(std::size_t capacity = 1100, bool may_be_large = true) {
        std::byte room[1300];
        const auto payload = sender.encode(peer, next_number, capacity, room, may_be_large);
        if (payload.empty()) return std::nullopt;
        return SentPacket{next_number++, sender.tick(), {payload.begin(), payload.end()}};
    }
    /// Starts a tick that must give exactly one packet, and returns it.
    SentPacket tick_and_encode() {
        tick();
        std::optional<SentPacket> packet = encode();
        EXPECT_TRUE(packet.has_value());
        EXPECT_FALSE(encode().has_value());
        return packet.value_or(SentPacket{});
    }

    Receiver::Verdict receive(const SentPacket& packet) {
        return receiver.receive(packet.number, packet.bytes);
    }
    void tell(const SentPacket& packet, bool delivered) { sender.on_fate(peer, packet.number, delivered); }
    void lose(const SentPacket& packet) { tell(packet, false); }
    void deliver(const SentPacket& packet) {
        const Receiver::Verdict verdict = receive(packet);
        EXPECT_NE(verdict, Receiver::Verdict::malformed);
        tell(packet, verdict == Receiver::Verdict::accepted);
    }

    void forward_rebases() {
        for (const std::uint32_t slot : receiver.decoder().rebases()) sender.rebase(peer, slot);
        receiver.decoder().drop_rebases(receiver.decoder().rebases().size());
    }

    /// Runs a tick, delivers all its packets and applies them. Returns their number.
    int exchange() {
        forward_rebases();
        tick();
        int packets = 0;
        while (const std::optional<SentPacket> packet = encode()) {
            deliver(*packet);
            forward_rebases();
            ++packets;
        }
        receiver.apply();
        return packets;
    }

    /// Runs a tick, delivers one packet of at most `capacity` bytes and applies it.
    void exchange_one(std::size_t capacity) {
        forward_rebases();
        tick();
        if (const std::optional<SentPacket> packet = encode(capacity)) deliver(*packet);
        receiver.apply();
    }

    ecs::Entity replica(ecs::Entity entity) { return receiver.entity(sender.net_id(entity)); }
    template <class T>
    const T& on_client(ecs::Entity entity) {
        return mirror.get<T>(replica(entity));
    }

    bool worlds_are_equal() {
        WorldHash server(world, schema), client(mirror, schema);
        const WorldHash::Sum a = server.of_server(sender.shadow()), b = client.of_client(receiver);
        return a.hash == b.hash && a.entities == b.entities;
    }

    template <class... Ts>
    ecs::Entity spawn(Ts&&... values) {
        return world.spawn(Replicated{}, std::forward<Ts>(values)...);
    }

    Schema schema, receiver_schema;
    ecs::World world, mirror;
    Sender sender;
    Receiver receiver;
    Tick next_tick;
    std::uint64_t next_number;
    Sender::Peer peer;
};

/// The receiver's versions as text, to check that nothing changed.
inline std::string state_of(const Receiver& receiver, const Schema& schema) {
    std::string text;
    receiver.for_each_version([&](std::uint32_t slot, std::uint32_t net_id, Tick tick, const Image& image) {
        text += std::to_string(slot) + ' ' + std::to_string(net_id) + ' ' + std::to_string(tick) +
                sim::snapshot_of(schema, image).to_string() + '\n';
    });
    if (const auto tick = receiver.newest_tick()) text += "newest " + std::to_string(*tick) + '\n';
    text += "records " + std::to_string(receiver.stats().records);
    return text;
}

}  // namespace shoal::replication::impl
