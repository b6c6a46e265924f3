// The table of a server's players, by ids and by connections.

#include "replication/play/players.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace shoal::replication::impl::players_test {
namespace {

using namespace std::chrono_literals;

/// Connections with equal `index` have equal indices.
net::PeerId connection(std::uint32_t index, std::uint32_t number = 1) {
    return {index | number << 16};
}

/// Adds a player that plays, and loses its connection at a time.
Player& add_away(Players& players, std::uint32_t index, net::Time since) {
    Player& player = players.add(connection(index), index);
    player.seat.connect(0s);
    player.seat.set_ready();
    player.seat.load(0s);
    static_cast<void>(player.seat.advance({}, 0, 0s));
    player.seat.go_away(since);
    players.disconnect(player);
    return player;
}

}  // namespace

TEST(Players, AreFoundByTheirIdsAndByTheirPresentConnections) {
    for (std::uint32_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 generator(seed);
        const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
        Players players;
        std::map<PlayerId, net::PeerId> model;          // connection; none: away
        std::map<PlayerId, const Player*> where;        // an object does not move
        std::map<std::uint32_t, std::uint32_t> number;  // of the last connection of an index
        for (int step = 0; step < 400; ++step) {
            const std::uint32_t index = random() % 12;
            const bool is_free = std::ranges::none_of(
                model, [&](const auto& entry) { return entry.second && entry.second.index() == index; });
            const auto any = model.empty() ? model.end() : std::next(model.begin(), random() % model.size());
            Player* const player = any == model.end() ? nullptr : players.find(any->first);
            switch (random() % 4) {
                case 0:
                    if (!is_free) break;
                    {
                        const net::PeerId id = connection(index, ++number[index]);
                        where[id] = &players.add(id, index);
                        model[id] = id;
                    }
                    break;
                case 1:
                    if (!player || !any->second) break;
                    players.disconnect(*player);
                    any->second = {};
                    break;
                case 2:
                    if (!player || any->second || !is_free) break;
                    any->second = connection(index, ++number[index]);
                    players.connect(*player, any->second);
                    break;
                case 3:
                    if (!player || random() % 2) break;
                    players.remove(*player);
                    where.erase(any->first);
                    model.erase(any);
            }
            std::map<PlayerId, net::PeerId> found;
            players.for_each([&](const Player& each) { found[each.id] = each.connection; });
            ASSERT_EQ(found, model) << "step " << step;
            for (const auto& [id, present] : model) {
                ASSERT_EQ(players.find(id), where[id]) << "step " << step;
                ASSERT_EQ(players.find_connected(present), present ? where[id] : nullptr) << "step " << step;
            }
            for (const auto& newest : number) {
                const net::PeerId last = connection(newest.first, newest.second);
                if (std::ranges::none_of(model, [&](const auto& entry) { return entry.second == last; })) {
                    ASSERT_EQ(players.find_connected(last), nullptr) << "step " << step;
                }
            }
        }
    }
}

TEST(Players, AnEarlierConnectionWithTheSameIndexIsNotFound) {
    Players players;
    Player& player = players.add(connection(3, 1), 3);
    EXPECT_EQ(players.find_connected(connection(3, 1)), &player);
    EXPECT_EQ(players.find_connected(connection(3, 2)), nullptr);
    EXPECT_EQ(players.find_connected(connection(2, 1)), nullptr);
    for (const std::uint32_t index : {4u, 7u, 9u, 0xffffu})
        EXPECT_EQ(players.find_connected(connection(index)), nullptr) << index;
    players.disconnect(player);
    EXPECT_EQ(players.find_connected(connection(3, 1)), nullptr);
    EXPECT_EQ(players.find_connected({}), nullptr);
    players.connect(player, connection(3, 2));
    EXPECT_EQ(players.find_connected(connection(3, 1)), nullptr);
    EXPECT_EQ(players.find_connected(connection(3, 2)), &player);
    EXPECT_EQ(players.find(connection(3, 1)), &player);
    EXPECT_EQ(players.find(connection(3, 2)), nullptr);
    players.add(connection(6), 6);
    EXPECT_EQ(players.find_connected(connection(7)), nullptr);
}

TEST(Players, ThePlaceOfAPlayerThatLeftIsUsedAgainByAFreshOne) {
    Players players;
    players.add(connection(0), 0);
    Player& former = players.add(connection(1), 1);
    former.client_id = 7;
    former.seat.connect(0s);
    former.key.state_number = 5;
    players.remove(former);
    EXPECT_EQ(players.find(connection(1)), nullptr);
    EXPECT_EQ(players.find_connected(connection(1)), nullptr);
    Player& next = players.add(connection(2), 2);
    EXPECT_EQ(&next, &former);
    EXPECT_EQ(next.client_id, 0u);
    EXPECT_EQ(next.seat.phase(), Phase::disconnected);
    EXPECT_EQ(next.key.state_number, 1u);
    EXPECT_EQ(players.find_connected(connection(1)), nullptr);
    EXPECT_EQ(players.find_connected(connection(2)), &next);
}

net::impl::Networks home(std::uint8_t machine) {
    return net::impl::Networks(net::impl::SipKey{}, net::Address::ipv4(10, 0, 0, machine, 1));
}

TEST(Players, TheOneThatIsAwayLongestMakesRoom) {
    Players players;
    EXPECT_EQ(players.must_leave(home(1), 8, 1), nullptr);
    add_away(players, 1, 5s);
    const Player& longest = add_away(players, 2, 3s);
    add_away(players, 3, 4s);
    players.add(connection(4), 4).seat.connect(0s);
    EXPECT_EQ(players.must_leave(home(1), 8, 3), &longest);
    EXPECT_EQ(players.must_leave(home(1), 8, 4), nullptr);
}

// Goal: players of one address do not take the places of the others, whoever comes last.
TEST(Players, TheAddressWithMostPlayersAwayMakesRoom) {
    Players players;
    std::uint32_t index = 0;
    const auto add = [&](std::uint8_t machine, net::Time since) -> Player& {
        Player& player = add_away(players, ++index, since);
        player.networks = home(machine);
        return player;
    };
    add(1, 1s);
    const Player& first_of_two = add(2, 2s);
    for (int i = 0; i < 3; ++i) add(2, 3s);
    EXPECT_EQ(players.must_leave(home(2), 4, 8), &first_of_two) << "no room for this address";
    EXPECT_EQ(players.must_leave(home(3), 4, 8), nullptr);
    EXPECT_EQ(players.must_leave(home(3), 4, 5), &first_of_two) << "no room for anybody";
    EXPECT_EQ(players.must_leave(home(1), 4, 5), &first_of_two);
    EXPECT_EQ(players.must_leave(home(2), 5, 8), nullptr);
}

TEST(Players, ATicketThatIsRefusedIsCountedByItsReason) {
    net::impl::Entropy entropy(net::Seed{});
    Players players;
    TicketStats stats;
    Player& player = add_away(players, 1, 1s);
    player.client_id = 7;
    player.key.issue(entropy);
    const Ticket first{player.id, player.key.newest()};
    EXPECT_EQ(players.find_by_ticket({connection(2), first.secret}, 7, stats), nullptr);
    EXPECT_EQ(stats.unknown_seats, 1u);
    EXPECT_EQ(players.find_by_ticket(first, 8, stats), nullptr);
    EXPECT_EQ(stats.wrong_players, 1u);
    EXPECT_EQ(players.find_by_ticket(first, 7, stats), &player);
    player.key.use(first, entropy);
    const Ticket second{player.id, player.key.newest()};
    player.key.use(second, entropy);
    EXPECT_EQ(players.find_by_ticket(first, 7, stats), nullptr);
    EXPECT_EQ(stats.outdated, 1u);
    EXPECT_EQ(players.find_by_ticket({player.id, {}}, 7, stats), nullptr);
    EXPECT_EQ(stats.wrong_secrets, 1u);
    Player& loading = players.add(connection(3), 3);
    loading.seat.connect(0s);
    loading.key.issue(entropy);
    EXPECT_EQ(players.find_by_ticket({loading.id, loading.key.newest()}, 0, stats), nullptr);
    EXPECT_EQ(stats.unknown_seats, 2u);
}

}  // namespace shoal::replication::impl::players_test
