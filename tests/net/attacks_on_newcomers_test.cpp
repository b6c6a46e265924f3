// Attacks on clients that connect. The attacker is on the path, sees every datagram and injects any, but
// cannot drop any and has no key. Goal: no client is kept out, no false reason is reported, and recorded
// datagrams have no effect when they are sent again.

#include <gtest/gtest.h>

#include "net/handshake/networks.h"
#include "tests/net/support/attacks.h"
#include "tests/net/support/disturbance.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl::attacks {
namespace {

using namespace std::chrono_literals;

TEST(Attacks, FloodsFromAFewPrefixesKeepNobodyOut) {
    struct Case {
        Prefix prefix;
        int prefixes;
        Duration round_trip;
    };
    constexpr Case kCases[] = {{Prefix::ipv6_64, 4, 100ms}, {Prefix::ipv6_64, 2, 200ms},
                               {Prefix::ipv6_56, 1, 100ms}, {Prefix::ipv6_48, 1, 200ms},
                               {Prefix::ipv4, 16, 100ms},   {Prefix::ipv6_64, 64, 600ms}};
    for (const Case& each : kCases) {
        SCOPED_TRACE(testing::Message() << each.prefixes << " prefixes of kind " << int(each.prefix)
                                        << ", round trip " << ms(each.round_trip) << " ms");
        HostConfig config = host_config(6);
        config.max_peers = 16;
        Battle battle(6, config);
        Flood::Plan plan;
        plan.prefix = each.prefix;
        plan.prefixes = each.prefixes;
        battle.add<Flood>(plan);
        battle.run(500ms);
        for (int i = 0; i < 12; ++i) battle.enter(each.round_trip);
        battle.run_until([&] { return inside(battle) == 12; }, 1500ms + 3 * each.round_trip);
        EXPECT_EQ(inside(battle), 12);
        for (const auto& player : battle.players) EXPECT_FALSE(player->end()) << describe_end(*player);
    }
}

// Goal: handshakes from the IPv4 address or IPv6 /64 of players neither keep them out nor end their
// connections. Method: one player after the other connects. The attacker is blind: he gets only the replies
// to himself.
TEST(Attacks, AFloodBehindTheSameAddressKeepsNoNeighbourOut) {
    using enum Flood::Depth;
    struct Case {
        Flood::Depth depth;
        double bytes_per_second;
        Duration round_trip;
    };
    constexpr Case kCases[] = {{bad_connects, 65'000, 50ms},  {bad_connects, 240'000, 2ms},
                               {bad_connects, 900'000, 50ms}, {pending, 65'000, 600ms},
                               {pending, 240'000, 50ms},      {pending, 1'000'000, 200ms},
                               {repeated, 240'000, 50ms},     {repeated, 1'000'000, 600ms}};
    const Address homes[] = {Address::ipv4(10, 9, 9, 9, 1), Address::ipv6({0x20, 0x01, 0x0d, 0xb8, 1}, 1)};
    for (const Case& each : kCases) {
        for (const Address& home : homes) {
            SCOPED_TRACE(testing::Message()
                         << "depth " << int(each.depth) << ", " << each.bytes_per_second
                         << " B/s, round trip " << ms(each.round_trip) << " ms, family " << int(home.family));
            Battle battle(7);
            Flood::Plan plan{.bytes_per_second = each.bytes_per_second, .depth = each.depth, .like = home};
            battle.add<Flood>(plan);
            battle.run(500ms);
            for (std::uint16_t i = 0; i < 8; ++i) {
                Address at = home;
                at.port = std::uint16_t(100 + i);
                battle.enter(PlayerPath{each.round_trip, 0}, at);
                battle.run(200ms);
            }
            battle.run(1s + 3 * each.round_trip);
            EXPECT_EQ(inside(battle), 8);
            battle.run(5s);
            for (const auto& player : battle.players)
                expect_undisturbed(*player, 500ms + 2 * each.round_trip);
        }
    }
}

// Goal: the answer to a player's connect is valid when it arrives, however many handshakes others of his IPv4
// address begin meanwhile.
TEST(Attacks, ABurstOfHandshakesOfTheSameAddressReplacesNoPendingOne) {
    for (int seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Battle battle{std::uint64_t(seed)};
        const Address home = Address::ipv4(10, 9, 9, 9, 100);
        Player& player = battle.enter(PlayerPath{100ms, 0}, home);
        battle.run(130ms + seed % 10 * 10ms);
        battle.add<Flood>(Flood::Plan{.bytes_per_second = 96'000 * 50, .like = home, .duration = 20ms});
        battle.run(3s);
        expect_undisturbed(player, 1s);
    }
}

// Goal: the places of pending handshakes become free after a time, whatever is sent again.
TEST(Attacks, RepeatedConnectsFromManyMachinesKeepNobodyOut) {
    Battle battle(43);
    battle.add<Flood>(Flood::Plan{.prefix = Prefix::ipv4,
                                  .prefixes = 170,
                                  .bytes_per_second = 2'400'000,
                                  .depth = Flood::Depth::repeated});
    battle.run(15s);
    for (int i = 0; i < 12; ++i) battle.enter(50ms);
    battle.run(1s);
    EXPECT_EQ(inside(battle), 12);
}

TEST(Attacks, BurstsOfBadHellosFromAFewMachinesKeepNobodyOut) {
    for (const bool is_ipv4 : {true, false}) {
        SCOPED_TRACE(is_ipv4 ? "IPv4" : "IPv6 /64");
        std::vector<Address> machines;
        for (std::uint8_t i = 1; i <= 10; ++i) {
            const Address ipv6 = Address::ipv6({0x20, 0x01, 0x0d, 0xb8, i, 0, 0, 1}, 6000);
            machines.push_back(is_ipv4 ? Address::ipv4(172, 16, i, 1, 6000) : ipv6);
        }
        Battle battle(35);
        battle.add<Bursts>(machines, 16, 100ms);  // 1.9 MB/s
        battle.run(500ms);
        for (int i = 0; i < 12; ++i) battle.enter(50ms);
        battle.run_until([&] { return inside(battle) == 12; }, 10s);
        EXPECT_EQ(inside(battle), 12);
    }
}

TEST(Attacks, BurstsOfBadHellosFromThePlayersIpv4DoNotKeepThePlayerOut) {
    Battle battle(36);
    battle.add<Bursts>(std::vector{Address::ipv4(10, 9, 9, 9, 6000)}, 16, 100ms);
    battle.run(500ms);
    Player& player = battle.enter(PlayerPath{50ms, 0}, Address::ipv4(10, 9, 9, 9, 5000));
    battle.run_until([&] { return player.heard.has_value(); }, 10s);
    expect_undisturbed(player, 1s);
}

TEST(Attacks, OneIpv4AddressDoesNotUseAllPeerSlots) {
    HostConfig config = host_config(8);
    Battle battle(8, config);
    battle.talks = false;
    battle.add<SeatTaker>(100, Address::ipv4(66, 0, 0, 1, 2000));
    battle.run(2s);
    EXPECT_LE(battle.host->peer_count(), 32u);
    Player& player = battle.enter(50ms);
    battle.run(1s);
    EXPECT_TRUE(player.entered) << "ended: " << describe_end(player);
}

TEST(Attacks, ACopiedNonceDoesNotKeepItsOwnerOut) {
    for (const Duration round_trip : {2ms, 50ms, 200ms, 600ms}) {
        SCOPED_TRACE(testing::Message() << "round trip " << ms(round_trip) << " ms");
        Battle battle(9);
        Player& player = battle.enter(round_trip);
        const NonceThief& thief = battle.add<NonceThief>(player);
        battle.run(5s);
        EXPECT_TRUE(thief.has_connected);
        EXPECT_TRUE(player.entered) << "ended: " << describe_end(player);
    }
}

TEST(Attacks, AHandshakeRelayedThroughAnotherAddressDoesNotKeepThePlayerOut) {
    for (const bool is_raced : {false, true}) {
        for (const Duration round_trip : {2ms, 50ms, 600ms}) {
            SCOPED_TRACE(testing::Message()
                         << "round trip " << ms(round_trip) << " ms, then raced " << is_raced);
            Battle battle(42);
            Player& player = battle.enter(round_trip);
            const Relayer& relayer = battle.add<Relayer>(player);
            if (is_raced) battle.add<Racer>(player, Racer::Plan{.relay = Racer::Relay::challenges});
            battle.run(15s);
            EXPECT_TRUE(relayer.has_answer);
            // The server uses the wrong address until a keep-alive arrives from the player's own.
            expect_undisturbed(player, 1500ms + 4 * round_trip);
        }
    }
}

TEST(Attacks, ForgedRefusalsDoNotEndAnAttempt) {
    for (const Duration round_trip : {50ms, 300ms, 600ms}) {
        for (const double loss : {0.0, 0.05}) {
            for (const int cookies : {0, 30}) {
                SCOPED_TRACE(testing::Message() << "round trip " << ms(round_trip) << " ms, loss " << loss
                                                << ", forged cookies " << cookies);
                Battle battle(10);
                battle.add<Forger>(cookies, 1, 0);
                for (int i = 0; i < 12; ++i) battle.enter(PlayerPath{round_trip, loss});
                battle.run_until([&] { return inside(battle) == 12; }, 10s);
                EXPECT_EQ(inside(battle), 12);
                for (const auto& player : battle.players)
                    EXPECT_FALSE(player->end()) << "shown: " << describe_end(*player);
            }
        }
    }
}

TEST(Attacks, ForgedCookiesKeepNobodyOut) {
    for (const Duration round_trip : {2ms, 50ms, 300ms, 600ms}) {
        for (const double loss : {0.0, 0.05}) {
            SCOPED_TRACE(testing::Message() << "round trip " << ms(round_trip) << " ms, loss " << loss);
            Battle battle(37);
            battle.add<Forger>(30, 0, 0);
            for (int i = 0; i < 12; ++i) battle.enter(PlayerPath{round_trip, loss});
            battle.run_until([&] { return inside(battle) == 12; }, 10s);
            EXPECT_EQ(inside(battle), 12);
        }
    }
}

TEST(Attacks, ForgedAnswersDoNotEndAnAttempt) {
    Battle battle(11);
    battle.add<Forger>(5, 0, 30);
    for (int i = 0; i < 3; ++i) battle.enter(100ms);
    battle.run_until([&] { return inside(battle) == 3; }, 10s);
    EXPECT_EQ(inside(battle), 3);
}

TEST(Attacks, AHelloReplayedFromAnotherAddressIsIgnored) {
    Battle battle(12);
    const Address mine = Address::ipv4(66, 0, 0, 1, 6000);
    Player& player = battle.enter(50ms);
    const Replayer& replayer = battle.add<Replayer>(player, mine, 0s);
    battle.run(5s);
    EXPECT_TRUE(player.entered);
    EXPECT_GT(replayer.replays, 0);
    EXPECT_EQ(battle.at_server.hellos["player 0"], 1);
    EXPECT_EQ(battle.at_server.connects, 1u);
}

TEST(Attacks, AHelloReplayedLaterFromItsOwnAddressIsIgnored) {
    Battle battle(13);
    Player& player = battle.enter(50ms);
    const Replayer& replayer = battle.add<Replayer>(player, player.address, 20s);
    battle.run(2s);
    ASSERT_TRUE(player.entered);
    player.client().disconnect(player.client().server(), DisconnectReason::closed, {}, battle.now);
    battle.run(20s);
    EXPECT_GT(replayer.replays, 0);
    EXPECT_EQ(battle.at_server.hellos["player 0"], 1);
    EXPECT_EQ(battle.at_server.connects, 1u);
}

/// Sends what players sent to a first host to a second host with the same config.
void replay_to_second_host() {
    HostConfig config = host_config(14);
    Battle battle(14, config);
    const Time start = battle.now;
    battle.records = true;
    battle.enter_and_wait(PlayerPath{50ms, 0});
    battle.run(2s);
    ASSERT_GT(battle.at_server.messages, 10u);
    battle.players[0]->die();
    const std::uint64_t heard = battle.at_server.messages;
    battle.records = false;
    battle.now = start;
    battle.start_host(config);
    for (const auto& [when, sighting] : battle.record)
        battle.inject(sighting.from, sighting.to, sighting.bytes, when - start);
    battle.run(3s);
    EXPECT_EQ(battle.at_server.messages, heard) << "a recorded session was accepted again";
    EXPECT_EQ(battle.at_server.connects, 1u);
}

TEST(Attacks, ASecondHostOfTheSameConfigAdmitsNobody) {
#ifdef NDEBUG
    replay_to_second_host();
#else
    EXPECT_DEATH(replay_to_second_host(), "seed");
#endif
}

// Goal: a flood from one machine, most of it refused by the limit per machine, takes no handshakes from
// others, also not from those that tried shortly before. The flood gets only what is left of the total.
TEST(Attacks, HandshakesOverTheLimitOfAMachineTakeNoTimeFromOthers) {
    for (const bool is_busy : {false, true}) {
        AttemptLimit limit;
        std::mt19937_64 random(1);
        const SipKey key{1, 2};
        const Networks flood(key, Address::ipv4(66, 0, 0, 1, 1)), player(key, Address::ipv4(10, 0, 0, 1, 1));
        int flood_taken = 0, player_taken = 0, others_taken = 0;
        for (Time now = 1s; now < 11s; now += 1ms) {
            for (int i = 0; i < 3; ++i) flood_taken += limit.take(flood, 40, 1000, random(), now);
            if (now % 100ms == 0ms) player_taken += limit.take(player, 40, 1000, random(), now);
            const auto index = std::uint16_t(now / 1ms % 2048);
            const Networks other(key,
                                 Address::ipv4(10, 1, std::uint8_t(index / 256), std::uint8_t(index), 1));
            if (is_busy) others_taken += limit.take(other, 40, 1000, random(), now);
        }
        EXPECT_LE(flood_taken, is_busy ? 600 : 10'000) << "40 per second, more in the first second";
        EXPECT_EQ(player_taken, 100);
        EXPECT_GE(others_taken, is_busy ? 9000 : 0);
    }
}

}  // namespace
}  // namespace shoal::net::impl::attacks
