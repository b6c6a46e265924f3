#include "replication/message/message_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "replication/message/typed_messages.h"
#include "replication/receive/receiver.h"
#include "replication/send/sender.h"
#include "tests/replication/support/sayings.h"

namespace shoal::replication::impl::message_queue_test {
namespace {

using namespace std::chrono_literals;
using sayings::Beep;
using sayings::Blob;
using sayings::Saying;
using sayings::saying_schema;
using sayings::Spot;

/// A client's queue, and a server's world whose payloads arrive when the test wants it.
struct Waiting {
    Waiting() : schema(saying_schema()), sender(world, schema), receiver(mirror, schema) {
        peer = sender.add_peer();
        messages.set_handler<Saying>([this](const Saying& said, const MessageInfo& info) {
            heard.push_back(said.text + (said.about ? " known" : " null") + (info.is_late ? " late" : ""));
        });
    }
    struct OfServer final : EntityMap {
        explicit OfServer(Sender& of) : sender(of) {}
        std::uint32_t to_net(ecs::Entity entity) override {
            return entity ? sender.assign_net_id(entity) : 0;
        }
        ecs::Entity to_entity(std::uint32_t) override { return {}; }
        Sender& sender;
    };
    struct OfClient final : EntityMap {
        explicit OfClient(Receiver& of) : receiver(of) {}
        std::uint32_t to_net(ecs::Entity) override { return 0; }
        ecs::Entity to_entity(std::uint32_t net_id) override { return receiver.entity(net_id); }
        Receiver& receiver;
    };
    void say(const std::string& text, ecs::Entity about, const net::Delivery& how) {
        std::vector<std::byte> bytes{std::byte{stream_of(how)}};
        writer.write(Saying{text, about, {}}, bytes);
        EXPECT_TRUE(queue.add(bytes, how.channel));
    }
    void send_state() {
        sender.update(++tick);
        std::byte room[1'160];
        const auto payload = sender.encode(peer, ++number, 1'000, room);
        EXPECT_EQ(receiver.receive(number, payload), Receiver::Verdict::accepted);
        sender.on_fate(peer, number, true);
        receiver.apply();
    }
    std::vector<std::string> after(net::Duration time) {
        now += time;
        queue.deliver(now);
        return std::exchange(heard, {});
    }

    Schema schema;
    ecs::World world, mirror;
    Sender sender;
    Receiver receiver;
    Sender::Peer peer = 0;
    Tick tick = 0;
    std::uint64_t number = 0;
    net::Time now{7s};
    OfServer of_server{sender};
    OfClient of_client{receiver};
    TypedMessages writer{schema, of_server};
    TypedMessages messages{schema, of_client};
    MessageQueue queue{messages, receiver};
    std::vector<std::string> heard;
};

using Heard = std::vector<std::string>;

TEST(MessageQueue, Rule10AMessageAndThoseBehindItWaitForItsEntity) {
    Waiting test;
    const ecs::Entity ship = test.world.spawn(Spot{1}, Replicated{});
    test.say("a1", {}, net::ordered_by(1));
    test.say("a2", ship, net::ordered_by(1));
    test.say("a3", {}, net::ordered_by(1));
    test.say("b1", {}, net::ordered_by(2));
    test.say("free", {}, net::unordered());
    test.say("free", ship, net::unordered());
    test.say("gone", {}, net::Channel::unreliable);
    test.say("seq", ship, net::latest_of(0));
    EXPECT_EQ(test.after(0ms), (Heard{"a1 null", "b1 null", "free null", "gone null"}));
    EXPECT_EQ(test.after(499ms), Heard{});
    test.send_state();
    EXPECT_EQ(test.after(0ms), (Heard{"a2 known", "a3 null", "free known", "seq known"}));
    EXPECT_EQ(test.queue.size(), 0u);
    EXPECT_EQ(test.messages.stats().late, 0u);
}

TEST(MessageQueue, Rule10AMessageWaitsForEachOfItsEntities) {
    Waiting test;
    const ecs::Entity known = test.world.spawn(Spot{1}, Replicated{});
    test.send_state();
    const ecs::Entity ship = test.world.spawn(Spot{2}, Replicated{});
    std::vector<std::byte> bytes{std::byte{stream_of(net::unordered())}};
    test.writer.write(Saying{"both", ship, {known}}, bytes);
    EXPECT_TRUE(test.queue.add(bytes, net::unordered().channel));
    EXPECT_EQ(test.after(0ms), Heard{});
    test.send_state();
    EXPECT_EQ(test.after(0ms), Heard{"both known"});
}

TEST(MessageQueue, AHandlerGetsAllMessagesAlsoIfItCallsDeliverAfterDeliverAll) {
    Waiting test;
    test.messages.set_handler<Beep>([&](const Beep&, const MessageInfo&) {
        test.queue.deliver_all();
        test.queue.deliver(test.now);  // has no effect
    });
    test.say("ship", test.world.spawn(Spot{1}, Replicated{}), net::unordered());
    EXPECT_EQ(test.after(0ms), Heard{});
    std::vector<std::byte> bytes{std::byte{stream_of(net::unordered())}};
    test.writer.write(Beep{}, bytes);
    EXPECT_TRUE(test.queue.add(bytes, net::unordered().channel));
    EXPECT_EQ(test.after(0ms), Heard{"ship null late"});
}

TEST(MessageQueue, Rule10AMessageIsLateAfterHalfASecondAndNotLost) {
    Waiting test;
    const ecs::Entity ship = test.world.spawn(Spot{1}, Replicated{});
    test.say("a", ship, net::ordered_by(1));
    test.say("b", {}, net::ordered_by(1));
    EXPECT_EQ(test.after(3s), Heard{})
        << "the time counts from the first update that could have delivered it";
    test.say("c", ship, net::ordered_by(1));
    EXPECT_EQ(test.after(499ms), Heard{});
    EXPECT_EQ(test.after(1ms), (Heard{"a null late", "b null"}));
    EXPECT_EQ(test.after(498ms), Heard{});
    EXPECT_EQ(test.after(1ms), (Heard{"c null late"}));
    EXPECT_EQ(test.messages.stats().late, 2u);
}

TEST(MessageQueue, ANewerSequencedMessageReplacesTheOneThatWaits) {
    Waiting test;
    const ecs::Entity ship = test.world.spawn(Spot{1}, Replicated{});
    test.say("old", ship, net::latest_of(200));
    test.say("other", ship, net::latest_of(201));
    EXPECT_EQ(test.after(10ms), Heard{});
    test.say("new", {}, net::latest_of(200));
    EXPECT_EQ(test.after(10ms), Heard{"new null"});
    test.send_state();
    EXPECT_EQ(test.after(10ms), Heard{"other known"});
    EXPECT_EQ(test.messages.stats().superseded, 1u);
}

TEST(MessageQueue, UnreliableMessagesDoNotReplaceEachOther) {
    Waiting test;
    const ecs::Entity ship = test.world.spawn(Spot{1}, Replicated{});
    for (const char* const text : {"one", "two", "three"}) test.say(text, ship, net::Channel::unreliable);
    EXPECT_EQ(test.after(10ms), Heard{});
    test.send_state();
    EXPECT_EQ(test.after(10ms), (Heard{"one known", "two known", "three known"}));
    EXPECT_EQ(test.messages.stats().superseded, 0u);
}

TEST(MessageQueue, AReplicaThatTheGameDestroyedIsNotWaitedFor) {
    Waiting test;
    const ecs::Entity ship = test.world.spawn(Spot{1}, Replicated{});
    test.send_state();
    test.mirror.destroy(test.receiver.entity(test.sender.net_id(ship)));
    test.say("a", ship, net::Channel::reliable);
    EXPECT_EQ(test.after(0ms), Heard{"a null"});
}

TEST(MessageQueue, AFullQueueDeliversEverythingAtOnce) {
    Waiting test;
    const ecs::Entity ship = test.world.spawn(Spot{1}, Replicated{});
    for (std::size_t i = 0; i < MessageQueue::kMaxMessages; ++i) test.say("a", ship, net::Channel::reliable);
    EXPECT_EQ(test.heard.size(), 0u);
    test.say("b", ship, net::Channel::reliable);
    EXPECT_EQ(std::exchange(test.heard, {}).size(), MessageQueue::kMaxMessages);
    EXPECT_EQ(test.queue.size(), 1u);
    EXPECT_EQ(test.after(0ms), Heard{});
    EXPECT_EQ(test.after(500ms), Heard{"b null late"});
}

TEST(MessageQueue, AFullQueueCountsTheWordsOfItsMessages) {
    Waiting test;
    std::vector<std::size_t> sizes;
    test.messages.set_handler<Blob>(
        [&](const Blob& blob, const MessageInfo&) { sizes.push_back(blob.bytes.size()); });
    const auto add = [&](std::size_t size) {
        std::vector<std::byte> bytes{std::byte{0}};
        test.writer.write(Blob{std::vector<std::uint8_t>(size, 1)}, bytes);
        EXPECT_TRUE(test.queue.add(bytes, net::Channel::reliable));
    };
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 3; ++i) add(75'000);
        EXPECT_EQ(sizes.size(), 0u) << "225,003 words";
        add(50'000);
        EXPECT_EQ(sizes.size(), 3u) << "would be more than 2^18";
        EXPECT_EQ(test.queue.size(), 1u);
        test.queue.clear();
        EXPECT_EQ(test.queue.size(), 0u);
        sizes.clear();
    }
    add(75'000);
    test.queue.deliver(test.now);
    EXPECT_EQ(sizes.size(), 1u);
    for (int i = 0; i < 3; ++i) add(75'000);
    EXPECT_EQ(sizes.size(), 1u) << "what was delivered does not count";
}

TEST(MessageQueue, AHandlerThatDeliversChangesNoOrder) {
    Waiting test;
    const ecs::Entity ship = test.world.spawn(Spot{1}, Replicated{});
    test.messages.set_handler<Beep>([&](const Beep& beep, const MessageInfo& info) {
        EXPECT_EQ(info.channel, net::Channel::reliable);
        test.heard.push_back("beep " + std::to_string(beep.pitch));
        test.queue.deliver(test.now);
        if (beep.pitch == 2) test.queue.deliver_all();
    });
    const auto beep = [&](std::uint8_t pitch) {
        std::vector<std::byte> bytes{std::byte{0}};
        test.writer.write(Beep{pitch}, bytes);
        EXPECT_TRUE(test.queue.add(bytes, net::Channel::reliable));
    };
    test.say("a", ship, net::unordered());
    beep(1);
    test.say("b", {}, net::unordered());
    EXPECT_EQ(test.after(0ms), (Heard{"beep 1", "b null"}));
    beep(2);
    test.say("c", {}, net::unordered());
    EXPECT_EQ(test.after(0ms), (Heard{"beep 2", "c null", "a null late"}));
    EXPECT_EQ(test.messages.stats().delivered, 5u);
    EXPECT_EQ(test.messages.stats().late, 1u);
}

TEST(MessageQueue, AMessageWithoutBytesIsMalformed) {
    Waiting test;
    EXPECT_FALSE(test.queue.add({}, net::Channel::reliable));
    EXPECT_EQ(test.messages.stats().malformed, 1u);
    const std::byte stream_alone[] = {std::byte{0}};
    EXPECT_FALSE(test.queue.add(stream_alone, net::Channel::reliable));
    EXPECT_EQ(test.messages.stats().malformed, 2u);
    EXPECT_EQ(test.queue.size(), 0u);
}

TEST(MessageQueue, AMessageInTheMemoryOfALateOneWaitsForItself) {
    Waiting test;
    test.say("a", test.world.spawn(Spot{1}, Replicated{}), net::unordered());
    EXPECT_EQ(test.after(0ms), Heard{});
    EXPECT_EQ(test.after(500ms), Heard{"a null late"});
    test.say("b", test.world.spawn(Spot{2}, Replicated{}), net::unordered());
    EXPECT_EQ(test.after(0ms), Heard{});
    EXPECT_EQ(test.after(499ms), Heard{});
    EXPECT_EQ(test.after(1ms), Heard{"b null late"});
}

// The key of a sequenced message and the stream of a reliable one may be the same number.
TEST(MessageQueue, AReliableAndASequencedMessageWithTheSameStreamDoNotWaitForEachOther) {
    Waiting test;
    ASSERT_EQ(stream_of(net::latest_of(2)), stream_of(net::ordered_by(1)));
    const ecs::Entity ship = test.world.spawn(Spot{1}, Replicated{});
    test.say("a", ship, net::ordered_by(1));
    test.say("seq", {}, net::latest_of(2));
    EXPECT_EQ(test.after(0ms), Heard{"seq null"});
    test.send_state();
    EXPECT_EQ(test.after(0ms), Heard{"a known"});
    const ecs::Entity rock = test.world.spawn(Spot{1}, Replicated{});
    test.say("seq", rock, net::latest_of(2));
    test.say("a", {}, net::ordered_by(1));
    EXPECT_EQ(test.after(0ms), Heard{"a null"});
    EXPECT_EQ(test.messages.stats().superseded, 0u) << "of another channel";
    test.send_state();
    EXPECT_EQ(test.after(0ms), Heard{"seq known"});
}

TEST(MessageQueue, TheWordsOfAReplacedMessageDoNotCount) {
    Waiting test;
    std::size_t blobs = 0;
    test.messages.set_handler<Blob>([&](const Blob&, const MessageInfo&) { blobs += 1; });
    test.say("a", test.world.spawn(Spot{1}, Replicated{}), net::unordered());
    for (int i = 0; i < 4; ++i) {
        std::vector<std::byte> bytes{std::byte{stream_of(net::latest_of(7))}};
        test.writer.write(Blob{std::vector<std::uint8_t>(75'000, 1)}, bytes);
        EXPECT_TRUE(test.queue.add(bytes, net::Channel::sequenced));
    }
    EXPECT_EQ(test.heard, Heard{}) << "the queue is not full";
    EXPECT_EQ(test.queue.size(), 2u);
    EXPECT_EQ(test.after(0ms), Heard{});
    EXPECT_EQ(blobs, 1u);
    EXPECT_EQ(test.messages.stats().superseded, 3u);
}

TEST(MessageQueue, HoldsExactly2To18Words) {
    Waiting test;
    std::size_t heard = 0;
    test.messages.set_handler<Blob>([&](const Blob&, const MessageInfo&) { heard += 1; });
    const auto add = [&](std::size_t words) {  // one is the length
        std::vector<std::byte> bytes{std::byte{0}};
        test.writer.write(Blob{std::vector<std::uint8_t>(words - 1, 1)}, bytes);
        EXPECT_TRUE(test.queue.add(bytes, net::Channel::reliable));
    };
    for (int round = 0; round < 2; ++round) {
        SCOPED_TRACE(round);
        heard = 0;
        for (int i = 0; i < 3; ++i) add(75'000);
        add(MessageQueue::kMaxWords - 225'001);
        add(1);
        EXPECT_EQ(heard, 0u);
        add(1);
        EXPECT_EQ(heard, 5u);
        EXPECT_EQ(test.queue.size(), 1u);
        test.queue.clear();
    }
}

TEST(MessageQueue, ASchemaWithoutMessagesRefusesEach) {
    Schema schema;
    schema.component<Spot>("spot");
    ecs::World world;
    Receiver receiver(world, schema);
    TypedMessages messages(schema, receiver);
    MessageQueue queue(messages, receiver);
    for (const std::size_t size : {1u, 2u, 9u, 17u})
        EXPECT_FALSE(queue.add(std::vector<std::byte>(size), net::Channel::reliable)) << size;
    EXPECT_EQ(messages.stats().malformed, 4u);
}

TEST(MessageQueue, AMessageOfTheOnlyTypeHasNoBitsForIt) {
    Schema schema;
    schema.message<Beep>("beep");
    ecs::World world;
    Receiver receiver(world, schema);
    TypedMessages messages(schema, receiver);
    std::vector<int> pitches;
    messages.set_handler<Beep>([&](const Beep& beep, const MessageInfo&) { pitches.push_back(beep.pitch); });
    MessageQueue queue(messages, receiver);
    std::vector<std::byte> bytes{std::byte{0}};
    messages.write(Beep{200}, bytes);
    EXPECT_EQ(bytes[1] & std::byte{1}, std::byte{1}) << "the bit `changed` comes first";
    EXPECT_TRUE(queue.add(bytes, net::Channel::reliable));
    queue.deliver_all();
    EXPECT_EQ(pitches, std::vector<int>{200});
}

}  // namespace
}  // namespace shoal::replication::impl::message_queue_test
