#include "replication/predict/server_inputs.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "replication/play/players.h"
#include "tests/sim/play_session.h"

namespace shoal::replication::impl::server_inputs_test {
namespace {

using namespace std::chrono_literals;

TEST(ServerInputs, AreRepeatedForAQuarterOfASecondAndThenNeutral) {
    sim::PlaySession session(sim::play_schema(), {}, 1);
    sim::PlaySession::Player& player = *session.players[0];
    player.on_frame = [](sim::PlaySession::Player& self) { self.client.input(sim::Helm{1, 0, {}}); };
    session.run(std::chrono::seconds(2));
    const ecs::Entity ship = session.ship(player);
    ASSERT_EQ(session.world.get<sim::Helm>(ship).x, 1);
    const InputStats before = session.input_stats(player);
    net::LinkConfig cut;
    cut.loss = 1;
    session.set_link(cut);
    session.run(std::chrono::seconds(1));
    const InputStats after = session.input_stats(player);
    EXPECT_EQ(after.repeated - before.repeated, 14u) << "whole ticks of 16.667 ms in 250 ms";
    EXPECT_GT(after.neutral - before.neutral, 30u);
    EXPECT_EQ(session.world.get<sim::Helm>(ship).x, 0);
}

struct Wheel {
    std::int8_t turn = 0;
    ecs::Entity target;
    Press horn;
};

/// The inputs of two players, without connections. The server's ticks last 20 ms; tick n begins at n * 20 ms.
struct Bridge {
    explicit Bridge(std::uint32_t slots_of_first = 65'536) {
        for (std::uint32_t i = 0; i < 2; ++i) {
            peers.push_back(sender.add_peer({.max_slots = i == 0 ? slots_of_first : 65'536}));
            ids.push_back(PlayerId{(1u << 16) | i});
            players.add(ids[i], peers[i]);
            ships.push_back(world.spawn(Wheel{}, Replicated{}));
            sender.set_owner(ships[i], peers[i]);
        }
        tick();
    }
    static Schema declared() {
        Schema out;
        out.input<Wheel>("wheel", field(&Wheel::turn, bounded(-9, 9)));
        return out;
    }
    void tick() {
        inputs.apply(next, net::Time(20ms) * next);
        ++next;
        sender.update(sent++);
        std::byte room[1300];
        for (const Sender::Peer peer : peers)
            for (;; ++number) {
                const auto payload = sender.encode(peer, number, 1100, room);
                if (payload.empty()) break;
                BitReader in(payload);
                if (const auto margin = read_state_header(in, schema.predicts(), true).margin)
                    margins[peer] = margin;
                sender.on_fate(peer, number, true);
            }
    }
    /// Sends the input of a tick, `early` before the tick begins.
    /// `repeated`: number of earlier inputs that the packet has, too.
    bool send(std::size_t player, Tick tick, std::int8_t turn, std::optional<std::uint32_t> lag = {},
              NetId target = 0, net::Duration early = 20ms, Tick repeated = 0) {
        struct Names final : EntityMap {
            std::uint32_t to_net(ecs::Entity) override { return net_id; }
            ecs::Entity to_entity(std::uint32_t) override { return {}; }
            NetId net_id = 0;
        } names;
        names.net_id = target;
        StructCodec codec(names);
        const SchemaStruct& type = schema.structs(StructKind::input)[0];
        std::vector<std::uint32_t> words, neutral;
        const Wheel nothing, wheel{turn, target != 0 ? ecs::Entity{1, 1} : ecs::Entity{}, {}};
        codec.quantise(type, &wheel, words);
        names.net_id = 0;
        codec.quantise(type, &nothing, neutral);
        InputLog log(type, neutral);
        log.set_input(words);
        if (lag) log.set_seen(RenderTime{tick - *lag / RenderTime::kLagsPerTick, 0});
        for (Tick back = repeated + 1; back-- > 0;) log.record(tick - back);
        BitWriter out;
        EXPECT_TRUE(log.write_section(1, 8'000, out));
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        if (!inputs.read_section(*players.find(ids[player]), ++packets, in)) return false;
        inputs.commit_section(*players.find(ids[player]), net::Time(20ms) * tick - early);
        return true;
    }
    const InputBuffer& buffer(std::size_t player) const { return *players.find(ids[player])->inputs; }
    const Wheel& wheel(std::size_t player) const { return world.get<Wheel>(ships[player]); }

    const Schema schema = declared();
    ecs::World world;
    Sender sender{world, schema, {}};
    Players players;
    ServerInputs inputs{world, schema, sender, players, 20ms};
    std::array<std::optional<StateHeader::Margin>, 2> margins;  // the last ones that the peers got
    std::vector<Sender::Peer> peers;
    std::vector<PlayerId> ids;
    std::vector<ecs::Entity> ships;
    Tick next = 1, sent = 1;
    std::uint64_t number = 1, packets = 0;
};

TEST(ServerInputs, AreWrittenToWhatTheirPlayerOwns) {
    Bridge bridge;
    const ecs::Entity nobodys = bridge.world.spawn(Wheel{5, {}, {}}, Replicated{});
    ASSERT_TRUE(bridge.send(0, 2, 3));
    bridge.tick();
    EXPECT_EQ(bridge.wheel(0).turn, 3);
    EXPECT_EQ(bridge.wheel(1).turn, 0);
    EXPECT_EQ(bridge.world.get<Wheel>(nobodys).turn, 5);
    EXPECT_EQ(bridge.buffer(0).age(), 0u);
    EXPECT_EQ(bridge.buffer(0).stats().in_time, 1u);
    EXPECT_FALSE(bridge.players.find(bridge.ids[1])->inputs);
    bridge.tick();
    EXPECT_EQ(bridge.buffer(0).age(), 1u);
    EXPECT_EQ(bridge.wheel(0).turn, 3) << "repeated";
    bridge.sender.set_owner(bridge.ships[0], std::nullopt);
    bridge.tick();
    EXPECT_EQ(bridge.wheel(0).turn, 0) << "it has lost its owner";
    bridge.world.set(bridge.ships[0], Wheel{7, {}, {}});
    bridge.tick();
    EXPECT_EQ(bridge.wheel(0).turn, 7) << "once";
}

TEST(ServerInputs, AnEqualInputCallsNoHook) {
    Bridge bridge;
    int changes = 0;
    const ecs::Hook hook =
        bridge.world.on_change<Wheel>([&](ecs::World&, ecs::Entity, const Wheel&) { ++changes; });
    bridge.send(0, 2, 3);
    bridge.send(0, 3, 3);
    bridge.send(0, 4, 4);
    bridge.tick();
    EXPECT_EQ(changes, 1);
    bridge.tick();
    EXPECT_EQ(changes, 1);
    bridge.tick();
    EXPECT_EQ(changes, 2);
}

TEST(ServerInputs, AReferenceNamesWhatThePlayerWasSent) {
    Bridge bridge;
    bridge.tick();
    const NetId known = bridge.sender.net_id(bridge.ships[1]);
    const ecs::Entity secret = bridge.world.spawn(Replicated{});
    bridge.send(0, 3, 1, {}, known);
    bridge.send(1, 3, 1, {}, bridge.sender.assign_net_id(secret));
    bridge.tick();
    EXPECT_EQ(bridge.wheel(0).target, bridge.ships[1]);
    EXPECT_FALSE(bridge.wheel(1).target);
}

TEST(ServerInputs, TheLagIsThatOfTheInputOfTheTick) {
    Bridge bridge;
    bridge.send(0, 2, 1, 48);
    bridge.send(0, 5, 1, 80, 0, 20ms, 2);
    // The packet has the inputs of 3 to 5. After 5 no input comes.
    for (const std::uint32_t lag : {48u, 48u, 64u, 80u, 80u}) {
        bridge.tick();
        EXPECT_EQ(bridge.buffer(0).lag(), lag) << bridge.next;
    }
}

TEST(ServerInputs, LeaveAloneWhatNoPlayerWithInputsOwns) {
    Bridge bridge;
    const Sender::Peer other = bridge.sender.add_peer();
    const ecs::Entity others = bridge.world.spawn(Wheel{5, {}, {}}, Replicated{});
    ASSERT_TRUE(bridge.sender.set_owner(others, other));
    bridge.world.set(bridge.ships[0], Wheel{6, {}, {}});
    bridge.send(1, 2, 3);
    bridge.tick();
    EXPECT_EQ(bridge.world.get<Wheel>(others).turn, 5);
    EXPECT_EQ(bridge.wheel(0).turn, 6) << "before the first input";
    EXPECT_EQ(bridge.wheel(1).turn, 3);
}

TEST(ServerInputs, APlayerThatLeftHasNoInputAndItsPlaceIsFree) {
    Bridge bridge;
    bridge.send(0, 2, 3);
    bridge.players.remove(*bridge.players.find(bridge.ids[0]));
    bridge.tick();
    EXPECT_EQ(bridge.wheel(0).turn, 0);
    const PlayerId newcomer{(2u << 16) | 0};
    bridge.players.add(newcomer, bridge.peers[0]);
    bridge.tick();
    EXPECT_EQ(bridge.wheel(0).turn, 0) << "not the former player's";
    bridge.ids[0] = newcomer;
    bridge.send(0, 4, 7);
    bridge.send(1, 4, 8);
    bridge.tick();
    EXPECT_EQ(bridge.wheel(0).turn, 7);
    EXPECT_EQ(bridge.wheel(1).turn, 8);
}

// Goal: a player learns how early the newest input of its last packet came, and whether an input was late.
TEST(ServerInputs, TheNextStateSaysHowEarlyTheInputsCame) {
    Bridge bridge;
    bridge.tick();
    EXPECT_FALSE(bridge.margins[0] || bridge.margins[1]);
    bridge.send(1, bridge.next + 1, 1, {}, 0, 50ms);
    bridge.tick();
    ASSERT_TRUE(bridge.margins[1]);
    EXPECT_FALSE(bridge.margins[0]) << "only the player itself";
    EXPECT_EQ(bridge.margins[1]->packet, bridge.packets);
    EXPECT_EQ(bridge.margins[1]->eighths, 20) << "2.5 ticks";
    EXPECT_FALSE(bridge.margins[1]->is_late);
    // Of the packet's inputs the first one is late. An input that comes once more is not.
    const Tick late = bridge.next - 1;
    bridge.send(0, late + 1, 1, {}, 0, 30ms, 1);
    bridge.send(0, late + 2, 1, {}, 0, 50ms, 2);
    bridge.tick();
    EXPECT_EQ(bridge.margins[0]->eighths, 20);
    EXPECT_TRUE(bridge.margins[0]->is_late) << "since the last state";
    bridge.send(0, late + 3, 1, {}, 0, 50ms, 2);
    for (int i = 0; i < 3; ++i) bridge.tick();
    EXPECT_FALSE(bridge.margins[0]->is_late);
    bridge.send(0, bridge.next - 1, 1, {}, 0, -10ms);
    bridge.tick();
    EXPECT_EQ(bridge.margins[0]->eighths, -4) << "half a tick too late";
    EXPECT_TRUE(bridge.margins[0]->is_late);
}

// Goal: a reference is translated with what its own player sees. Method: the first player has room for one
// entity only.
TEST(ServerInputs, AReferenceIsNoneIfOnlyAnotherPlayerSeesTheEntity) {
    Bridge bridge(1);
    bridge.tick();
    const std::size_t seen =
        bridge.sender.entity_seen_by(bridge.peers[0], bridge.sender.net_id(bridge.ships[0])) ? 0 : 1;
    const NetId both = bridge.sender.net_id(bridge.ships[seen]),
                second_only = bridge.sender.net_id(bridge.ships[1 - seen]);
    for (std::size_t player = 0; player < 2; ++player) bridge.send(player, 3, 1, {}, second_only);
    bridge.tick();
    EXPECT_FALSE(bridge.wheel(0).target);
    EXPECT_EQ(bridge.wheel(1).target, bridge.ships[1 - seen]);
    for (std::size_t player = 0; player < 2; ++player) bridge.send(player, 4, 1, {}, both);
    bridge.tick();
    EXPECT_EQ(bridge.wheel(0).target, bridge.ships[seen]);
    EXPECT_EQ(bridge.wheel(1).target, bridge.ships[seen]);
}

// Goal: packets that waited while the server hung say nothing about the path.
TEST(ServerInputs, PacketsThatWaitedForAServerThatHungAreNotMeasured) {
    for (const net::Duration hang : {net::Duration(0ms), net::Duration(400ms)}) {
        Bridge bridge;
        bridge.tick();
        bridge.send(0, bridge.next + 1, 1, {}, 0, 20ms - hang);
        bridge.tick();
        EXPECT_EQ(bridge.margins[0].has_value(), hang == 0ms);
    }
}

}  // namespace
}  // namespace shoal::replication::impl::server_inputs_test
