#include "replication/message/typed_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/replication/support/sayings.h"
#include "tests/sim/session.h"
#include "tests/support/allocations.h"

namespace shoal::replication::impl::typed_messages_test {
namespace {

using sayings::Beep;
using sayings::Blob;
using sayings::Saying;
using sayings::saying_schema;
using sayings::Spot;

/// A session whose clients have joined.
struct Drawn {
    float x = 0;
};

struct Meeting {
    explicit Meeting(std::size_t guests, const ServerOptions& options = {},
                     const Schema& of = saying_schema())
        : schema(of), session(schema, {}, guests, 1, {}, options) {
        for (int i = 0; i < 50; ++i) session.step();
        session.server().for_each_peer([&](PlayerId id) { players.push_back(id); });
        EXPECT_EQ(players.size(), guests);
    }
    void run(int ticks) {
        while (ticks-- > 0) session.step();
    }
    Server& server() { return session.server(); }
    Client& client(std::size_t i = 0) { return session.guests()[i]->client; }
    ecs::World& mirror(std::size_t i = 0) { return session.guests()[i]->world; }
    ecs::Entity replica(ecs::Entity entity, std::size_t i = 0) {
        return client(i).receiver().entity(server().assign_net_id(entity));
    }

    Schema schema;
    sim::Session session;
    std::vector<PlayerId> players;
};

TEST(Message, ArrivesInBothDirectionsWithItsEntities) {
    Meeting meeting(2);
    const ecs::Entity ship = meeting.session.world().spawn(Spot{1}, Replicated{});
    const ecs::Entity rock = meeting.session.world().spawn(Spot{2}, Replicated{});
    meeting.run(30);
    std::vector<std::string> heard;
    for (std::size_t i = 0; i < 2; ++i)
        meeting.client(i).on<Saying>([&, i](const Saying& said, const MessageInfo& info) {
            EXPECT_FALSE(info.is_late);
            EXPECT_EQ(info.channel, net::Channel::reliable);
            EXPECT_EQ(said.about, meeting.replica(ship, i));
            ASSERT_EQ(said.others.size(), 3u);
            EXPECT_EQ(said.others[0], meeting.replica(rock, i));
            EXPECT_FALSE(said.others[1]) << "null";
            EXPECT_EQ(said.others[2], meeting.replica(ship, i));
            heard.push_back(said.text + " to " + std::to_string(i));
        });
    meeting.server().on<Saying>([&](PlayerId from, const Saying& said) {
        EXPECT_EQ(from, meeting.players[1]);
        EXPECT_EQ(said.about, rock);
        heard.push_back(said.text);
    });
    EXPECT_EQ(meeting.server().send_all(Saying{"all", ship, {rock, {}, ship}}), 2u);
    EXPECT_EQ(meeting.server().send(meeting.players[0], Saying{"one", ship, {rock, {}, ship}}),
              net::SendResult::queued);
    EXPECT_EQ(meeting.server().send(meeting.players, Saying{"some", ship, {rock, {}, ship}}), 2u);
    const bool is_second =
        meeting.server().host().address(meeting.players[1]) == meeting.session.guests()[1]->address;
    const std::size_t speaker = is_second ? 1 : 0;
    EXPECT_EQ(meeting.client(speaker).send(Saying{"up", meeting.replica(rock, speaker), {}}),
              net::SendResult::queued);
    meeting.run(20);
    std::sort(heard.begin(), heard.end());
    const std::string first = is_second ? "0" : "1";
    EXPECT_EQ(heard, (std::vector<std::string>{"all to 0", "all to 1", "one to " + first, "some to 0",
                                               "some to 1", "up"}));
    EXPECT_EQ(meeting.server().stats().messages.delivered, 1u);
}

TEST(Message, GoesToTheGroupsOfItsReceivers) {
    Meeting meeting(4);
    std::vector<std::string> heard(4);
    for (std::size_t i = 0; i < 4; ++i)
        meeting.client(i).on<Saying>(
            [&, i](const Saying& said, const MessageInfo&) { heard[i] += said.text; });
    std::vector<PlayerId> of_guest(4);
    for (std::size_t i = 0; i < 4; ++i)
        for (const PlayerId player : meeting.players)
            if (meeting.server().host().address(player) == meeting.session.guests()[i]->address)
                of_guest[i] = player;
    meeting.server().view(of_guest[0]).set_groups(to_group(0));
    meeting.server().view(of_guest[1]).set_groups(to_group(1));
    meeting.server().view(of_guest[2]).set_groups(to_group(0) | to_group(5));
    EXPECT_EQ(meeting.server().send(to_group(0), Saying{"0", {}, {}}), 2u);
    EXPECT_EQ(meeting.server().send(to_group(1) | to_group(5), Saying{"1", {}, {}}), 2u);
    EXPECT_EQ(meeting.server().send(to_group(3), Saying{"3", {}, {}}), 0u);
    meeting.server().view(of_guest[0]).set_groups({});
    EXPECT_EQ(meeting.server().send(to_all_groups(), Saying{"a", {}, {}}), 2u);
    EXPECT_EQ(meeting.server().send_all(Saying{"e", {}, {}}), 4u);
    meeting.run(30);
    EXPECT_EQ(heard, (std::vector<std::string>{"0e", "1ae", "01ae", "e"}));
}

TEST(Message, ThatFindsNoRoomIsCountedOnBothSides) {
    Meeting meeting(1);
    std::uint64_t refused = 0;
    const Saying saying{"all", {}, {}};
    while (meeting.client().send(saying) == net::SendResult::queued) ASSERT_LT(++refused, 1'000'000u);
    meeting.client().send(saying);  // no warning: a chat line may be ignored
    EXPECT_EQ(meeting.client().message_stats().not_queued, 2u);
    while (meeting.server().send_all(saying) == 1) ASSERT_LT(++refused, 1'000'000u);
    EXPECT_EQ(meeting.server().stats().messages.not_queued, 1u);
    EXPECT_EQ(meeting.server().send(PlayerId{}, saying), net::SendResult::not_connected);
    EXPECT_EQ(meeting.server().stats().messages.not_queued, 2u);
}

TEST(Message, AHandlerOfTheServerCanHaveTheArgumentsOfAClients) {
    Meeting meeting(1);
    int heard = 0;
    const auto on_beep = [&](const Beep& beep, const MessageInfo&) { heard += beep.pitch; };
    meeting.server().on<Beep>(on_beep);
    meeting.client().on<Beep>(on_beep);
    meeting.client().send(Beep{1});
    meeting.server().send_all(Beep{20});
    meeting.run(20);
    EXPECT_EQ(heard, 21);
}

TEST(Message, NamesAnEntityThatWasNeverSentBefore) {
    Meeting meeting(1);
    std::vector<int> spots;
    meeting.client().on<Saying>([&](const Saying& said, const MessageInfo& info) {
        EXPECT_FALSE(info.is_late);
        spots.push_back(meeting.mirror().get<Spot>(said.about).x);
    });
    const ecs::Entity ship = meeting.session.world().spawn(Spot{7}, Replicated{});
    EXPECT_EQ(meeting.server().send(meeting.players[0], Saying{"new", ship, {}}), net::SendResult::queued);
    meeting.run(10);
    EXPECT_EQ(spots, std::vector<int>{7}) << "the entity has its values when the message is handled";
}

TEST(Message, AReferenceThatTheServerDoesNotKnowIsNull) {
    Meeting meeting(1);
    const ecs::Entity ship = meeting.session.world().spawn(Spot{1}, Replicated{});
    const ecs::Entity secret = meeting.session.world().spawn(Spot{1});
    meeting.run(20);
    std::vector<Saying> heard;
    meeting.server().on<Saying>([&](PlayerId, const Saying& said) { heard.push_back(said); });
    const ecs::Entity own = meeting.mirror().spawn(Spot{3});
    EXPECT_EQ(meeting.client().send(Saying{"own", own, {meeting.replica(ship)}}), net::SendResult::queued);
    meeting.run(10);
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_FALSE(heard[0].about);
    EXPECT_EQ(heard[0].others[0], ship);
    // Net ids that the client guesses, also one that was assigned and not sent.
    meeting.session.world().add<Replicated>(secret);
    const NetId assigned = meeting.server().assign_net_id(secret);
    for (const NetId net_id : {assigned, 77u, 0xffffffffu, 0xff000003u}) {
        struct Guess final : EntityMap {
            explicit Guess(NetId id) : net_id(id) {}
            std::uint32_t to_net(ecs::Entity) override { return net_id; }
            ecs::Entity to_entity(std::uint32_t) override { return {}; }
            NetId net_id;
        } guess(net_id);
        TypedMessages writer(meeting.schema, guess);
        std::vector<std::byte> bytes{std::byte{3}, std::byte{2}};
        writer.write(Saying{"guess", {1, 1}, {}}, bytes);
        EXPECT_EQ(meeting.client().endpoint().send_message(meeting.client().endpoint().server(),
                                                           net::Channel::reliable, bytes),
                  net::SendResult::queued);
    }
    // They arrive before the tick that sends the secret entity.
    meeting.session.world().remove<Replicated>(secret);
    meeting.run(10);
    ASSERT_EQ(heard.size(), 5u);
    for (std::size_t i = 1; i < 5; ++i) EXPECT_FALSE(heard[i].about) << i;
    // A dead entity is null on a client.
    meeting.client().on<Saying>([&](const Saying& said, const MessageInfo& info) {
        EXPECT_FALSE(said.about || info.is_late);
        heard.clear();
    });
    meeting.session.world().destroy(ship);
    EXPECT_EQ(meeting.server().send_all(Saying{"dead", ship, {}}), 1u);
    meeting.run(10);
    EXPECT_TRUE(heard.empty());
}

TEST(Message, ReferencesAreThoseOfThePlayerThatSentTheMessage) {
    ServerOptions options;
    options.join.waits_for_admit = true;
    Meeting meeting(2, options);
    const PlayerId admitted = meeting.players[1];  // the other one sees no entity
    const bool is_second = meeting.server().host().address(admitted) == meeting.session.guests()[1]->address;
    const std::size_t guest = is_second ? 1 : 0;
    meeting.server().admit(admitted);
    const ecs::Entity ship = meeting.session.world().spawn(Spot{1}, Replicated{});
    meeting.run(20);
    std::vector<ecs::Entity> named;
    meeting.server().on<Saying>([&](PlayerId, const Saying& said) { named.push_back(said.about); });
    const ecs::Entity replica = meeting.replica(ship, guest);
    EXPECT_EQ(meeting.client(guest).send(Saying{"ship", replica, {}}), net::SendResult::queued);
    meeting.run(10);
    EXPECT_EQ(named, std::vector{ship});
}

// Goal: messages allocate nothing in steady state. The texts fit into their strings.
TEST(Message, AllocatesNothingInSteadyState) {
    Meeting meeting(1);
    std::uint64_t heard = 0;
    meeting.client().on<Saying>([&](const Saying&, const MessageInfo&) { heard += 1; });
    meeting.server().on<Beep>([&](PlayerId, const Beep&) { heard += 1; });
    const ecs::Entity ship = meeting.session.world().spawn(Spot{1}, Replicated{});
    const Saying saying{"hello", ship, {ship}};
    const auto talk = [&](int ticks) {
        for (int i = 0; i < ticks; ++i) {
            EXPECT_EQ(meeting.server().send_all(saying), 1u);
            if (i % 2 == 0) {
                EXPECT_EQ(meeting.client().send(Beep{3}), net::SendResult::queued);
            }
            meeting.run(1);
        }
    };
    talk(1'200);
    const std::size_t before = test::allocations();
    talk(200);
    EXPECT_EQ(test::allocations() - before, 0u);
    EXPECT_GT(heard, 2'000u);
}

TEST(Message, WithoutAHandlerIsCounted) {
    Meeting meeting(1);
    EXPECT_EQ(meeting.server().send_all(Beep{1}), 1u);
    EXPECT_EQ(meeting.client().send(Beep{2}), net::SendResult::queued);
    meeting.run(10);
    EXPECT_EQ(meeting.server().stats().messages.unhandled, 1u);
    EXPECT_EQ(meeting.client().message_stats().unhandled, 1u);
}

TEST(Message, OverTheSizeLimitOfItsChannelIsTooLarge) {
    Meeting meeting(1);
    std::vector<std::size_t> sizes;
    meeting.client().on<Blob>(
        [&](const Blob& blob, const MessageInfo&) { sizes.push_back(blob.bytes.size()); });
    const Blob small{std::vector<std::uint8_t>(900, 255)}, large{std::vector<std::uint8_t>(50'000, 255)};
    const Blob giant{std::vector<std::uint8_t>(300'000, 255)};
    EXPECT_EQ(meeting.server().send(meeting.players[0], small, net::Channel::unreliable),
              net::SendResult::queued);
    EXPECT_EQ(meeting.server().send(meeting.players[0], large, net::Channel::unreliable),
              net::SendResult::too_large);
    EXPECT_EQ(meeting.server().send(meeting.players[0], large), net::SendResult::queued);
    EXPECT_EQ(meeting.server().send(meeting.players[0], giant), net::SendResult::too_large);
    meeting.run(200);
    std::sort(sizes.begin(), sizes.end());
    EXPECT_EQ(sizes, (std::vector<std::size_t>{900, 50'000}));
}

/// Malformed messages without the kind: unknown type numbers, and truncated ones.
std::vector<std::vector<std::byte>> malformed_messages(const Schema& schema) {
    struct Nothing final : EntityMap {
        std::uint32_t to_net(ecs::Entity) override { return 0; }
        ecs::Entity to_entity(std::uint32_t) override { return {}; }
    } nothing;
    TypedMessages writer(schema, nothing);
    std::vector<std::vector<std::byte>> out{{std::byte{3}}};
    std::vector<std::byte> bytes;
    writer.write(Saying{"hello", {}, {{}, {}}}, bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size)
        out.emplace_back(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    bytes.push_back(std::byte{0});
    out.push_back(bytes);
    return out;
}

TEST(Message, MalformedEndsTheConnectionOfTheClient) {
    const Schema schema = saying_schema();
    std::vector<std::vector<std::byte>> all = malformed_messages(schema);
    for (std::vector<std::byte>& bytes : all) bytes.insert(bytes.begin(), std::byte{2});
    all.push_back({});                                          // no order
    all.push_back({std::byte{3}, std::byte{0}});                // an unknown one
    all.emplace_back(std::vector<std::byte>(6, std::byte{1}));  // earlier actions without an end
    for (const std::vector<std::byte>& bytes : all) {
        Meeting meeting(1);
        std::vector<std::byte> message{std::byte{3}};
        message.insert(message.end(), bytes.begin(), bytes.end());
        EXPECT_EQ(meeting.client().endpoint().send_message(meeting.client().endpoint().server(),
                                                           net::Channel::reliable, message),
                  net::SendResult::queued);
        meeting.run(10);
        EXPECT_FALSE(meeting.client().is_connected()) << bytes.size() << " bytes";
        EXPECT_EQ(meeting.server().stats().messages.malformed, 1u) << bytes.size() << " bytes";
        EXPECT_NE(meeting.client().failure().find("malformed message"), std::string::npos);
    }
}

TEST(Message, MalformedEndsTheConnectionToTheServer) {
    const Schema schema = saying_schema();
    std::vector<std::vector<std::byte>> all = malformed_messages(schema);
    for (std::vector<std::byte>& bytes : all) bytes.insert(bytes.begin(), std::byte{1});
    all.push_back({});  // no stream
    for (const std::vector<std::byte>& bytes : all) {
        Meeting meeting(1);
        std::vector<std::byte> message{std::byte{3}};
        message.insert(message.end(), bytes.begin(), bytes.end());
        EXPECT_EQ(meeting.server().host().send_message(meeting.players[0], net::Channel::reliable, message),
                  net::SendResult::queued);
        meeting.run(10);
        EXPECT_FALSE(meeting.client().is_connected()) << bytes.size() << " bytes";
        EXPECT_EQ(meeting.client().message_stats().malformed, 1u) << bytes.size() << " bytes";
        EXPECT_NE(meeting.client().failure().find("malformed"), std::string::npos);
    }
}

TEST(Message, AHandlerMayDisconnectThePlayer) {
    Meeting meeting(1);
    int heard = 0;
    meeting.server().on<Beep>([&](PlayerId from, const Beep&) {
        heard += 1;
        meeting.server().disconnect(from, "no beeping", meeting.session.now());
    });
    for (int i = 0; i < 300; ++i) EXPECT_EQ(meeting.client().send(Beep{1}), net::SendResult::queued);
    meeting.run(10);
    EXPECT_EQ(heard, 1);
    EXPECT_FALSE(meeting.client().is_connected());
}

// A11: a client that floods the server is dropped with a reason; warnings and gauges show it before that.
TEST(Message, A11OverTheRateMessagesWaitInOrderAndTheGameIsWarned) {
    Meeting meeting(2);
    std::vector<int> heard;
    std::vector<PlayerId> warned;
    meeting.server().on<Beep>([&](PlayerId, const Beep& beep) { heard.push_back(beep.pitch); });
    meeting.server().on_warning([&](PlayerId player, Warning warning) {
        EXPECT_EQ(warning, Warning::messages_deferred);
        warned.push_back(player);
    });
    for (int i = 0; i < 200; ++i)
        EXPECT_EQ(meeting.client().send(Beep{static_cast<std::uint8_t>(i % 101)}), net::SendResult::queued);
    meeting.run(6);
    EXPECT_GE(heard.size(), 100u);
    EXPECT_LE(heard.size(), 110u) << "a burst of 100, then 50 a second";
    ASSERT_EQ(warned.size(), 1u);
    EXPECT_EQ(meeting.server().stats(warned[0]).messages_waiting, 200 - heard.size());
    meeting.run(120);
    ASSERT_EQ(heard.size(), 200u);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(heard[static_cast<std::size_t>(i)], i % 101);
    EXPECT_EQ(warned.size(), 1u);
    EXPECT_EQ(meeting.server().stats().messages.deferred, 100u);
    EXPECT_TRUE(meeting.client().is_connected());
}

TEST(Message, A11APlayerThatFloodsIsDroppedWithAReason) {
    const auto flood = [](int messages, std::size_t bytes, int ticks, bool goes_on) {
        Meeting meeting(1);
        meeting.server().on<Blob>([](PlayerId, const Blob&) {});
        int sent = 0;
        for (int tick = 0; tick < ticks && meeting.client().is_connected(); ++tick) {
            for (int i = 0; (tick == 0 || goes_on) && i < messages; ++i)
                sent += meeting.client().send(Blob{std::vector<std::uint8_t>(bytes, 250)}) ==
                        net::SendResult::queued;
            meeting.run(1);
        }
        if (!meeting.client().is_connected()) {
            EXPECT_NE(meeting.client().failure().find("too many messages"), std::string::npos);
        }
        EXPECT_EQ(meeting.server().stats().messages.floods, meeting.client().is_connected() ? 0u : 1u);
        return std::pair(meeting.client().is_connected(), sent);
    };
    EXPECT_TRUE(flood(350, 1, 100, false).first) << "a burst of 100, and 256 wait";
    EXPECT_FALSE(flood(400, 1, 100, false).first) << "more than 256 wait";
    EXPECT_TRUE(flood(30, 2'000, 100, false).first) << "a burst of 32 kB, and 28 kB wait";
    EXPECT_FALSE(flood(10, 2'000, 30, true).first) << "more than 64 kB wait";
    EXPECT_TRUE(flood(1, 1, 1'200, false).first);
    const auto [is_connected, sent] = flood(1, 1, 1'200, true);
    EXPECT_FALSE(is_connected) << "60 a second, more than 50 for 3 seconds";
    EXPECT_GT(sent, 600) << "but not before the burst is used up";
}

TEST(MessageStream, DependsOnTheChannelAndTheKey) {
    EXPECT_EQ(stream_of(net::unordered()), 0);
    EXPECT_EQ(stream_of(net::Channel::unreliable), 0);
    EXPECT_EQ(stream_of(net::ordered_by(0)), 1);
    EXPECT_EQ(stream_of(net::ordered_by(254)), 255);
    EXPECT_EQ(stream_of(net::ordered_by(255)), 1);
    EXPECT_EQ(stream_of(net::latest_of(0)), 0);
    EXPECT_EQ(stream_of(net::latest_of(2)), 2);
}

/// A client shows a new entity later than a message that names it arrives.
Schema shown_schema() {
    Schema schema = saying_schema();
    schema.component<Drawn>("drawn", linear());
    return schema;
}

TEST(Message, ThatWaitsIsDeliveredWhenTheConnectionEnds) {
    Meeting meeting(1, {}, shown_schema());
    int heard = 0;
    meeting.client().on<Saying>([&](const Saying&, const MessageInfo& info) {
        EXPECT_TRUE(info.is_late);
        heard += 1;
        meeting.client().disconnect(meeting.session.now());
    });
    for (int i = 0; i < 3; ++i) {
        const ecs::Entity ship = meeting.session.world().spawn(Drawn{7}, Replicated{});
        EXPECT_EQ(meeting.server().send_all(Saying{"?", ship, {}}), 1u);
    }
    meeting.run(2);
    EXPECT_EQ(heard, 0);
    meeting.client().disconnect(meeting.session.now());
    EXPECT_EQ(heard, 3);
}

TEST(Message, ThatWaitsIsDeliveredWhenAHandlerDisconnects) {
    Meeting meeting(1, {}, shown_schema());
    std::vector<std::string> heard;
    meeting.client().on<Saying>([&](const Saying& said, const MessageInfo&) {
        heard.push_back(said.text);
        if (said.text == "end") meeting.client().disconnect(meeting.session.now());
    });
    const ecs::Entity ship = meeting.session.world().spawn(Drawn{7}, Replicated{});
    EXPECT_EQ(meeting.server().send_all(Saying{"ship", ship, {}}), 1u);
    EXPECT_EQ(meeting.server().send_all(Saying{"behind", {}, {}}), 1u);
    meeting.run(1);
    EXPECT_EQ(meeting.server().send_all(Saying{"end", {}, {}}, net::unordered()), 1u);
    EXPECT_EQ(meeting.server().send_all(Saying{"last", {}, {}}, net::unordered()), 1u);
    meeting.run(1);
    EXPECT_FALSE(meeting.client().is_connected());
    EXPECT_EQ(heard, (std::vector<std::string>{"end", "last", "ship", "behind"}));
}

// Goal: a disconnect in a handler ends what waits of this player, and of nobody else.
TEST(Message, ADisconnectInAHandlerDropsTheMessagesOfThisPlayerOnly) {
    ServerOptions options;
    options.messages.messages_per_s = 10;
    options.messages.burst_s = 0.1;
    Meeting meeting(3, options);
    std::vector<std::pair<PlayerId, int>> heard;
    const auto count = [&](PlayerId player) {
        return std::count_if(heard.begin(), heard.end(),
                             [&](const auto& one) { return one.first == player; });
    };
    meeting.server().on<Beep>([&](PlayerId from, const Beep& beep) {
        heard.push_back({from, beep.pitch});
        if (from != meeting.players[1] || beep.pitch != 2) return;
        // Itself, and a player whose messages are handled before its own in a tick.
        meeting.server().disconnect(from, "two beeps are enough", meeting.session.now());
        meeting.server().disconnect(meeting.players[0], "you, too", meeting.session.now());
    });
    for (std::uint8_t i = 0; i < 10; ++i)
        for (std::size_t client = 0; client < 3; ++client)
            EXPECT_EQ(meeting.client(client).send(Beep{i}), net::SendResult::queued);
    meeting.run(120);
    EXPECT_EQ(count(meeting.players[1]), 3);
    EXPECT_LE(count(meeting.players[0]), 3);
    EXPECT_EQ(count(meeting.players[2]), 10) << "each message of the others, once";
    EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; }));
    EXPECT_EQ(meeting.server().stats().messages.delivered, heard.size());
}

}  // namespace
}  // namespace shoal::replication::impl::typed_messages_test
