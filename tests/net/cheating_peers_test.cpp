// Clients that break the protocol. Goal: memory and work stay bounded, and other clients are not affected.

#include <gtest/gtest.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "tests/net/support/attacks.h"
#include "tests/net/support/disturbance.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl::attacks {
namespace {

using namespace std::chrono_literals;

/// The server always has more state to send.
void pour(Battle& battle) {
    const Bytes bytes(kMaxMessageBytes);
    for (const PeerId peer : battle.at_server.connected)
        while (battle.host->send_message(peer, Channel::unreliable, bytes) == SendResult::queued) {
        }
}

// The attacker directs the traffic at its own link, or at an address that it had once and forges now: the
// server cannot distinguish the two.
TEST(Attacks, GuessedAcksMakeTheServerSendLittleMoreThanTheLinkCarries) {
    constexpr std::uint64_t kLink = 50'000;
    constexpr int kSeconds = 10;
    Battle battle(17);
    battle.talks = false;
    battle.tick = 5ms;
    battle.server_tick = [&] { pour(battle); };
    const AckLiar& liar = battle.add<AckLiar>(Address::ipv4(66, 0, 0, 1, 6000));
    battle.run(std::chrono::seconds(kSeconds));
    EXPECT_TRUE(liar.is_in());
    EXPECT_LE(liar.bytes_drawn, 2 * kLink * kSeconds + 1'000'000);
    ASSERT_EQ(battle.at_server.ends.size(), 1u) << "the client with false acks is still connected";
    EXPECT_EQ(battle.at_server.ends[0].first, DisconnectReason::protocol_error);
}

// A packet more than 64 numbers behind the newest is dropped: a copy that overtakes more of them must not
// count as the newest. Every second copy overtakes only half as many. In ten seconds 6,000 to 7,000 messages
// arrive without the attack; before copies that come too early were dropped, it were 350 at 600 ms and one
// of 70.
TEST(Attacks, FasterCopiesOfTheServersPacketsDoNotStarveTheClient) {
    for (const Duration round_trip : {50ms, 200ms, 400ms, 600ms}) {
        for (const auto& [every, in_a_row] : {std::pair{1, 1},
                                              {2, 1},
                                              {4, 1},
                                              {10, 1},
                                              {30, 1},
                                              {70, 1},
                                              {200, 1},
                                              {70, 3},
                                              {96, 3},
                                              {132, 8}}) {
            SCOPED_TRACE(testing::Message()
                         << "round trip " << ms(round_trip) << " ms, " << in_a_row << " of " << every);
            HostConfig config = host_config(41);
            config.connection.max_bytes_per_second = 700'000;
            Battle battle(41, config);
            battle.talks = false;
            Player& player = battle.enter_and_wait(round_trip);
            battle.server_tick = [&] { pour(battle); };
            battle.run(5s);
            const std::uint64_t before = player.witness.messages;
            battle.add<DownRacer>(player, every, in_a_row);
            battle.run(10s);
            EXPECT_FALSE(player.end()) << describe_end(player);
            EXPECT_GE(player.witness.messages - before, 3'400u);
        }
    }
}

TEST(Attacks, AForgedAddressGetsNoMoreBytesThanCameFromThere) {
    Battle battle(38);
    battle.talks = false;
    battle.server_tick = [&] { pour(battle); };
    Intruder& intruder = battle.add<Intruder>(Address::ipv4(66, 0, 0, 1, 6000));
    ASSERT_TRUE(battle.run_until([&] { return intruder.is_in(); }, 1s));
    for (int i = 0; i < 100; ++i) {
        if (i % 10 == 0) intruder.forge_address(Address::ipv4(10, 7, 7, std::uint8_t(i), 5000));
        intruder.send(battle, {.ping = true});
        battle.run(50ms);
    }
    EXPECT_EQ(battle.amplified_bytes(), 0u);
}

TEST(Attacks, AClientWithManyPortsDrawsNoMoreThanItsLimit) {
    for (const int ports : {1, 2, 8}) {
        SCOPED_TRACE(testing::Message() << ports << " ports");
        HostConfig config = host_config(42);
        config.connection.max_bytes_per_second = 100'000;
        Battle battle(42, config);
        battle.talks = false;
        battle.server_tick = [&] { pour(battle); };
        const ManyPorts& cheat = battle.add<ManyPorts>(Address::ipv4(66, 0, 0, 1, 6000), ports);
        battle.run(10s);
        EXPECT_LE(cheat.bytes_drawn, 1'100'000u);
        EXPECT_GE(cheat.bytes_drawn, 700'000u);
    }
}

// The attacker had other addresses once, and sends from them now and then. It still gets the packets at one
// address, and acknowledges them.
TEST(Attacks, AnAddressThatOnlySendsGetsNothingAfterSomeSeconds) {
    for (const Duration interval : {10ms, 1000ms}) {
        for (const int ports : {2, 8}) {
            SCOPED_TRACE(testing::Message() << ports << " ports, every " << ms(interval) << " ms");
            Battle battle(43);
            battle.talks = false;
            battle.server_tick = [&] { pour(battle); };
            ManyPorts& cheat = battle.add<ManyPorts>(Address::ipv4(66, 0, 0, 1, 6000), ports);
            battle.run(3s);
            cheat.forge(battle.now, interval);
            battle.run(20s);
            EXPECT_EQ(cheat.excess(), 0u);
            EXPECT_TRUE(battle.at_server.ends.empty());
        }
    }
}

TEST(Attacks, AClientWithManyPortsDoesNotTakeTheHostsLimitFromOthers) {
    std::uint64_t messages[2] = {};
    for (const bool is_attacked : {false, true}) {
        HostConfig config = host_config(44);
        config.max_bytes_per_second = 150'000;
        Battle battle(44, config);
        battle.talks = false;
        Player& player = battle.enter_and_wait(50ms);
        battle.enter_and_wait(50ms);
        battle.add<ManyPorts>(Address::ipv4(66, 0, 0, 1, 6000), is_attacked ? 8 : 1);
        battle.server_tick = [&] { pour(battle); };
        battle.run(10s);
        messages[is_attacked] = player.witness.messages;
    }
    EXPECT_GE(messages[1] * 10, messages[0] * 7) << messages[0] << " without the attack";
}

TEST(Attacks, ADatagramCausesFewerCallsThanItHasBytes) {
    Battle battle(19);
    battle.talks = false;
    Intruder& intruder = battle.add<Intruder>(Address::ipv4(66, 0, 0, 1, 6000));
    ASSERT_TRUE(battle.run_until([&] { return battle.at_server.connects == 1; }, 1s));
    const Bytes runs = Guest::empty_messages(255);
    const std::uint64_t bytes_before = intruder.bytes_sent;
    for (int i = 0; i < 100; ++i) intruder.send(battle, {.runs = runs});
    battle.run(100ms);
    EXPECT_LE(battle.at_server.messages, intruder.bytes_sent - bytes_before);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
std::size_t allocated_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

TEST(Attacks, MemoryGrowsWithBytesReceivedAndNotWithAnId) {
    for (const std::uint16_t distance : {std::uint16_t(0), std::uint16_t(2)}) {
        SCOPED_TRACE(testing::Message() << "distance " << distance);
        Battle battle(20);
        battle.talks = false;
        Intruder& intruder = battle.add<Intruder>(Address::ipv4(66, 0, 0, 1, 6000));
        ASSERT_TRUE(battle.run_until([&] { return battle.at_server.connects == 1; }, 1s));
        battle.run(1s);
        const std::size_t before = allocated_bytes();
        const Bytes run = Guest::reliable_message(4000, distance, 1);
        intruder.send(battle, {.runs = run});
        battle.run(20ms);
        EXPECT_TRUE(battle.at_server.ends.empty());
        EXPECT_LE(allocated_bytes() - before, 8'000u) << "for one packet of " << run.size() + 26 << " bytes";
    }
}
#endif

TEST(Attacks, AClientWithAnotherServerKeyIsRefusedWithThatReason) {
    for (const Duration round_trip : {2ms, 200ms, 600ms}) {
        SCOPED_TRACE(testing::Message() << "round trip " << ms(round_trip) << " ms");
        HostConfig config = host_config(26);
        config.key = SecretKey(seed_of(27));
        Battle battle(26, config);
        const Player& player = battle.enter(round_trip);
        EXPECT_TRUE(battle.run_until([&] { return player.end().has_value(); }, 12s));
        EXPECT_EQ(player.end(), DisconnectReason::refused_key) << describe_end(player);
    }
}

// An attacker passes a player's packets on to another server of the same owner. The answers of that server
// must have no effect.
TEST(Attacks, ASecondServerWithTheSameKeyAndAnotherIdDoesNotEndTheConnection) {
    Battle battle(28);
    Player& player = battle.enter_and_wait(PlayerPath{50ms, 0.3});  // with probes
    Wire second_wire;
    Witness second_witness;
    HostConfig config = host_config(29);
    config.server_id = 2;
    Host second(config, second_witness, second_wire);
    battle.records = true;
    battle.run(5s);
    battle.records = false;
    for (const auto& [when, sighting] : battle.record)
        second.receive(sighting.from, sighting.bytes, battle.now);
    EXPECT_TRUE(second_wire.sent.empty());
    EXPECT_GT(second.endpoint_stats().drops[Drop::unknown_connection], 0u);
    expect_undisturbed(player, 2s);
}

}  // namespace
}  // namespace shoal::net::impl::attacks
