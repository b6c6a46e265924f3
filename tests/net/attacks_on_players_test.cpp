// Attacks on connected players. The attacker is on the path, sees every datagram and injects any, but cannot
// drop any and has no key. To race a packet is to send a copy that arrives before the original. To relay is
// to pass on the answers. Goal: no player is cut off.

#include <gtest/gtest.h>

#include "tests/net/support/attacks.h"
#include "tests/net/support/disturbance.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl::attacks {
namespace {

using namespace std::chrono_literals;

TEST(Attacks, ConnectingFromThePlayersAddressDoesNotEndThePlayer) {
    for (const Duration round_trip : {2ms, 50ms, 200ms, 600ms}) {
        SCOPED_TRACE(testing::Message() << "round trip " << ms(round_trip) << " ms");
        Battle battle(1);
        Player& player = battle.enter_and_wait(round_trip);
        const Usurper& usurper = battle.add<Usurper>(player, 2s);
        battle.run(1500ms);
        EXPECT_TRUE(usurper.has_connected());
        battle.run(5s);
        expect_undisturbed(player, 1s + round_trip);
    }
}

// A player whose process ended connects again from the same address and port: no attack.
TEST(Attacks, APlayerWhoseProcessEndedReplacesItsOldPeer) {
    Battle battle(2);
    Player& old = battle.enter_and_wait(50ms);
    old.die();
    battle.run(3s);
    Player& player = battle.enter_and_wait(PlayerPath{50ms, 0}, old.address);
    battle.run(1s);
    expect_undisturbed(player, 1s);
    ASSERT_EQ(battle.at_server.ends.size(), 1u);
    EXPECT_EQ(battle.at_server.ends[0].first, DisconnectReason::replaced);
}

/// After a player's process ended, sends its last packet again and again, from the player's address.
class Repeater : public Attack {
public:
    explicit Repeater(const Player& victim) : victim_(victim) {}
    void see(Battle& battle, const Sighting& sighting) override {
        if (victim_.is_alive() && sighting.from == victim_.address && sighting.to == battle.server)
            last_ = sighting.bytes;
    }
    void step(Battle& battle) override {
        if (!victim_.is_alive()) battle.inject(victim_.address, battle.server, last_, kOwnLatency);
    }

private:
    const Player& victim_;
    Bytes last_;
};

TEST(Attacks, CopiesOfOldPacketsDoNotKeepThePeerOfAnEndedProcess) {
    Battle battle(2);
    Player& old = battle.enter_and_wait(50ms);
    battle.add<Repeater>(old);
    battle.run(500ms);
    old.die();
    battle.run(3s);
    Player& player = battle.enter_and_wait(PlayerPath{50ms, 0}, old.address);
    battle.run(1s);
    expect_undisturbed(player, 1s);
    ASSERT_EQ(battle.at_server.ends.size(), 1u);
    EXPECT_EQ(battle.at_server.ends[0].first, DisconnectReason::replaced);
}

TEST(Attacks, RacingEveryPacketDoesNotCutThePlayerOff) {
    for (const Duration round_trip : {2ms, 20ms, 100ms, 600ms}) {
        for (const Racer::Relay relay : Racer::kRelays) {
            SCOPED_TRACE(testing::Message()
                         << "round trip " << ms(round_trip) << " ms, relay " << int(relay));
            Battle battle(3);
            Player& player = battle.enter_and_wait(round_trip);
            battle.add<Racer>(player, Racer::Plan{.relay = relay});
            battle.run(15s);
            expect_undisturbed(player, 1s + 2 * round_trip);
        }
    }
}

TEST(Attacks, RacingAShareOfThePacketsDoesNotCutThePlayerOff) {
    for (const double share : {0.1, 0.3, 0.5, 0.8}) {
        for (const Racer::Relay relay : Racer::kRelays) {
            SCOPED_TRACE(testing::Message() << "share " << share << ", relay " << int(relay));
            Battle battle(4);
            Player& player = battle.enter_and_wait(50ms);
            battle.add<Racer>(player, Racer::Plan{.share = share, .relay = relay});
            battle.run(15s);
            expect_undisturbed(player, 1s);
        }
    }
}

TEST(Attacks, RacingFromOneAddressAfterTheOtherDoesNotCutThePlayerOff) {
    for (const double share : {0.5, 1.0}) {
        for (const Duration interval : {20ms, 200ms, 1000ms}) {
            for (const Racer::Relay relay : Racer::kRelays) {
                SCOPED_TRACE(testing::Message() << "share " << share << ", interval " << ms(interval)
                                                << " ms, relay " << int(relay));
                Battle battle(5);
                Player& player = battle.enter_and_wait(50ms);
                battle.add<Racer>(player, Racer::Plan{.share = share, .relay = relay, .interval = interval});
                battle.run(15s);
                expect_undisturbed(player, 1s);
            }
        }
    }
}

TEST(Attacks, RacingFromSeveralAddressesAtOnceDoesNotCutThePlayerOff) {
    for (const int addresses : {2, 3, 6, 30}) {
        for (const Racer::Relay relay : Racer::kRelays) {
            SCOPED_TRACE(testing::Message() << addresses << " addresses, relay " << int(relay));
            Battle battle(39);
            Player& player = battle.enter_and_wait(50ms);
            battle.add<Racer>(player, Racer::Plan{.relay = relay, .addresses = addresses});
            battle.run(15s);
            expect_undisturbed(player, 1s);
        }
    }
}

TEST(Attacks, APlayerThatMovesWhileItsPacketsAreRacedIsNotCutOff) {
    for (const double share : {0.0, 0.5, 1.0}) {  // 0: without an attack
        for (const Racer::Relay relay : Racer::kRelays) {
            SCOPED_TRACE(testing::Message() << "share " << share << ", relay " << int(relay));
            Battle battle(40);
            Player& player = battle.enter_and_wait(50ms);
            battle.add<Racer>(player, Racer::Plan{.share = share, .relay = relay});
            battle.run(3s);
            player.move(Address::ipv4(10, 2, 0, 1, 5000));
            battle.run(15s);
            expect_undisturbed(player, 2s);
        }
    }
}

// The server must challenge the player's address among those of all the copies. While the player waits, it
// sends one packet in a second.
TEST(Attacks, APlayerThatMovesWhileItsPacketsAreRacedFromManyAddressesIsNotCutOff) {
    for (const int addresses : {20, 30}) {
        for (const Duration round_trip : {2ms, 50ms, 200ms}) {
            for (const Racer::Relay relay : Racer::kRelays) {
                for (const std::uint64_t seed : {1u, 3u, 4u}) {
                    SCOPED_TRACE(testing::Message()
                                 << addresses << " addresses, round trip " << ms(round_trip) << " ms, relay "
                                 << int(relay) << ", seed " << seed);
                    Battle battle(seed);
                    Player& player = battle.enter_and_wait(round_trip);
                    battle.add<Racer>(player, Racer::Plan{.relay = relay, .addresses = addresses});
                    battle.run(3s);
                    player.move(Address::ipv4(10, 2, 0, 1, 5000));
                    battle.run(10s);
                    expect_undisturbed(player, 5s);
                }
            }
        }
    }
}

TEST(Attacks, RacingSinceTheFirstPacketDoesNotKeepTheNewcomerOut) {
    for (const Duration round_trip : {2ms, 50ms, 600ms}) {
        for (const Racer::Relay relay : Racer::kRelays) {
            SCOPED_TRACE(testing::Message()
                         << "round trip " << ms(round_trip) << " ms, relay " << int(relay));
            Battle battle(15);
            Player& player = battle.enter(round_trip);
            battle.add<Racer>(player, Racer::Plan{.relay = relay});
            battle.run(15s);
            expect_undisturbed(player, 1s + 2 * round_trip);
        }
    }
}

// The server believes that the player is at the attacker's address, and gets packets from other addresses
// before the player's own. When the attack ends, its effects must end.
TEST(Attacks, RacingARelayedHandshakeDoesNotCutTheNewcomerOff) {
    for (const Duration round_trip : {2ms, 50ms, 200ms}) {
        for (const Racer::Relay relay : Racer::kRelays) {
            for (const int addresses : {1, 3, 6, 20, 30}) {
                SCOPED_TRACE(testing::Message() << "round trip " << ms(round_trip) << " ms, relay "
                                                << int(relay) << ", " << addresses << " addresses");
                Battle battle(15);
                Player& player = battle.enter(round_trip);
                Relayer& relayer = battle.add<Relayer>(player);
                Racer::Plan plan;
                plan.relay = relay;
                plan.addresses = addresses;
                battle.add<Racer>(player, plan);
                battle.run(addresses > 6 ? 12s : 8s);
                EXPECT_TRUE(relayer.has_answer);
                expect_undisturbed(player, addresses > 6 ? 5s : 1500ms + 4 * round_trip);
            }
        }
    }
}

// The attacker asks a server for resets of a connection that the server does not have yet, from its own
// address and from the player's; and it sends what it saw to the server that has the connection.
TEST(Attacks, ResetsCannotBeCollectedInAdvance) {
    Battle battle(50);
    Player& player = battle.enter_and_wait(PlayerPath{50ms, 0.3});
    battle.records = true;
    battle.run(8s);
    battle.records = false;
    Wire wire;
    Witness witness;
    Host earlier(host_config(51), witness, wire);
    const Address mine = Address::ipv4(66, 0, 0, 1, 6000);
    int probes = 0;
    for (const auto& [when, sighting] : battle.record) {
        const bool is_probe = kind_of(sighting.bytes) == PacketKind::probe;
        probes += is_probe;
        for (const Address& from : {sighting.from, mine}) {
            Bytes bytes = sighting.bytes;
            battle.inject(from, battle.server, bytes, 1ms);
            if (is_probe) bytes[6 + std::to_integer<unsigned>(bytes[0] & std::byte(3))] ^= std::byte(1);
            earlier.receive(from, bytes, battle.now);  // the attacker had to guess the salt
        }
    }
    EXPECT_GT(probes, 3);
    for (const auto& [to, bytes] : wire.sent) battle.inject(battle.server, player.address, bytes, 1ms);
    battle.run(2s);
    EXPECT_TRUE(wire.sent.empty());
    EXPECT_EQ(battle.host->endpoint_stats().resets_sent, 0u);
    EXPECT_FALSE(player.end()) << describe_end(player);
}

TEST(Attacks, AfterARaceTheServerSendsToThePlayerAtOnce) {
    for (const Racer::Relay relay : Racer::kRelays) {
        SCOPED_TRACE(testing::Message() << "relay " << int(relay));
        Battle battle(16);
        Player& player = battle.enter_and_wait(50ms);
        battle.add<Racer>(player, Racer::Plan{.relay = relay, .duration = 5s});
        battle.run(5500ms);
        const std::uint64_t before = player.witness.messages;
        battle.run(1s);
        EXPECT_GE(player.witness.messages, before + 8);
    }
}

}  // namespace
}  // namespace shoal::net::impl::attacks
