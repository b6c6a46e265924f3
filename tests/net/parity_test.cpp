// Parities: one message restores either of two. Tests a SendQueue with an Inbox, without a connection.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>

#include "net/message/inbox.h"
#include "net/message/send_queue.h"
#include "tests/net/support/consistency.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

constexpr std::byte kMessagesFlag{4};  // the flags of a data packet

/// The messages of one direction of a connection. A packet consists of the flags and the runs.
struct ParityPair {
    explicit ParityPair(double loss) : loss_seen(loss) { queue.set_repeat_share(1); }

    void say(const std::string& text, const Delivery& how = Channel::reliable) {
        ASSERT_TRUE(queue.push(how, as_bytes(text)));
    }
    /// Returns the next packet. settle() reports its fate.
    std::vector<std::byte> packet(std::size_t room = 1000) {
        std::array<std::byte, 1200> buffer;
        ByteWriter out(buffer);
        out.u8(0);
        const SendQueue::Terms terms{now, loss_seen, false, true};
        SendQueue::Draft draft(room);
        for (const Weight weight : {Weight::urgent, Weight::normal, Weight::bulk})
            while (queue.take(draft, weight, terms)) {
            }
        queue.take_repeats(draft, terms);
        if (!draft.empty()) out.patch_u8(0, std::to_integer<std::uint8_t>(kMessagesFlag));
        carried.push_back(queue.write(out, draft, terms, stats));
        queue.paid(out.size() + 60);
        return {out.written().begin(), out.written().end()};
    }
    void settle(bool delivered) {
        queue.on_fate(carried.front(), delivered);
        carried.pop_front();
    }
    /// Returns false if the packet is malformed.
    bool arrive(std::span<const std::byte> datagram) { return arrive(datagram, number + 1); }
    bool arrive(std::span<const std::byte> datagram, std::uint64_t packet_number) {
        number = std::max(number, packet_number);
        Packet packet;
        packet.number = packet_number;
        const Envelope envelope{.body_offset = 0};
        if (!read_body(datagram, envelope, inbox.expected_id(packet_number), packet)) return false;
        EXPECT_TRUE(inbox.plausible(packet));
        for (std::size_t i = 0; i < packet.message_count; ++i) {
            const Frame& frame = packet.frames[i];
            parities += frame.is_parity;
            const Inbox::Arrival arrival = inbox.arrive(packet, frame);
            if (arrival == Inbox::Arrival::now) heard.push_back(as_text(packet.bytes(frame)));
            if (arrival == Inbox::Arrival::known) continue;
            std::array<std::byte, kMaxMessageBytes> bytes;
            while (const auto next = inbox.take_ready(bytes)) heard.push_back(as_text(*next));
        }
        return true;
    }

    SendQueue queue{1, 64 * 1024};
    Inbox inbox{1};
    ConnectionStats stats;
    Time now{1'000'000};
    double loss_seen;
    std::uint64_t number = 0;
    std::deque<std::uint32_t> carried;
    std::vector<std::string> heard;
    int parities = 0;
};

// Returns packets with a new message each, and from the third on with the parity of the two before.
std::vector<std::vector<std::byte>> stream(ParityPair& pair, int count) {
    std::vector<std::vector<std::byte>> packets;
    for (int i = 0; i < count; ++i) {
        pair.say("message " + std::to_string(100 + i));
        packets.push_back(pair.packet());
        pair.now += 16ms;
    }
    return packets;
}

std::vector<std::string> numbered(int count) {
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) texts.push_back("message " + std::to_string(100 + i));
    return texts;
}

TEST(Parity, ALostMessageIsRestoredByTheNextPacket) {
    ParityPair pair(0.05);
    const auto packets = stream(pair, 8);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(pair.arrive(packets[std::size_t(i)]));
    EXPECT_EQ(pair.heard, numbered(5));
    EXPECT_GT(pair.parities, 1) << "the stream has parities from its third packet on";
    ASSERT_TRUE(pair.arrive(packets[6]));  // packet 5 is lost, packet 6 has the parity of 5 and 4
    EXPECT_EQ(pair.heard, numbered(7));
}

TEST(Parity, TwoLostPacketsInARowAreRestoredThreePacketsLater) {
    ParityPair pair(0.05);
    const auto packets = stream(pair, 9);
    for (const std::size_t i : {0u, 1u, 2u, 3u, 6u}) ASSERT_TRUE(pair.arrive(packets[i]));
    EXPECT_EQ(pair.heard, numbered(4)) << "4 cannot be restored yet";
    ASSERT_TRUE(pair.arrive(packets[7]));
    EXPECT_EQ(pair.heard, numbered(8)) << "7 has the parity of 6 and 5; that of 5 and 4 came with 6";
}

TEST(Parity, AParityOfTwoKnownMessagesIsIgnored) {
    ParityPair pair(0.05);
    const auto packets = stream(pair, 6);
    for (const auto& packet : packets) ASSERT_TRUE(pair.arrive(packet));
    for (const auto& packet : packets) ASSERT_TRUE(pair.arrive(packet));
    EXPECT_EQ(pair.heard, numbered(6));
}

// Goal: while the sender still expects losses, but there are none, parities repeat no message.
TEST(Parity, OfKnownMessagesDoesNotCountAsADuplicate) {
    ConnectedWorld world({.latency = 50ms, .loss = 0.1});
    const auto say = [&](int steps) {
        for (int i = 0; i < steps; ++i) {
            ASSERT_EQ(world.host->send_message(world.peer(), ordered_by(1), as_bytes("message")),
                      SendResult::queued);
            world.step(16ms);
        }
    };
    say(200);
    world.down.set_config({.latency = 50ms});
    world.up.set_config({.latency = 50ms});
    say(40);
    const ConnectionStats &sender = world.host->stats(world.peer()),
                          &receiver = world.client().stats(world.client().server());
    ASSERT_GT(sender.loss, 0.02);
    const std::uint64_t repeated = sender.messages_repeated, duplicated = receiver.messages_duplicated;
    say(30);
    EXPECT_GE(sender.messages_repeated, repeated + 20);
    EXPECT_EQ(receiver.messages_duplicated, duplicated);
}

// Only a peer that breaks the rules sends this.
TEST(Parity, AParityOfAnotherSizeThanTheKnownMessageRestoresNothing) {
    ParityPair pair(0.05);
    const auto send_one = [&](std::uint64_t id, bool is_parity, std::string_view text) {
        std::array<std::byte, 100> buffer;
        ByteWriter out(buffer);
        out.u8(std::to_integer<std::uint8_t>(kMessagesFlag));
        impl::Run run;
        run.channel = Channel::reliable;
        run.is_parity = is_parity;
        run.is_last = run.fills_packet = true;
        run.id_bytes = 1;
        run.distance = is_parity ? 0 : 1;
        run.size = static_cast<std::uint16_t>(text.size());
        run.first_id = id;
        write_run(out, run);
        out.bytes(as_bytes(text));
        ASSERT_TRUE(pair.arrive(out.written()));
    };
    send_one(2, true, "12345");
    send_one(1, false, "abc");
    EXPECT_EQ(pair.heard, std::vector<std::string>{"abc"});
    send_one(2, false, "def");
    EXPECT_EQ(pair.heard, (std::vector<std::string>{"abc", "def"}));
}

TEST(Parity, MessagesWithoutAPossibleParityAreRepeated) {
    ParityPair pair(0.05);
    for (int i = 0; i < 6; ++i) {
        pair.say(std::string(std::size_t(10 + i), 'x'));                    // all sizes differ
        pair.say("unordered " + std::to_string(i), Delivery(unordered()));  // no predecessor
        ASSERT_TRUE(pair.arrive(pair.packet()));
        pair.now += 16ms;
    }
    EXPECT_EQ(pair.parities, 0);
    EXPECT_GT(pair.stats.messages_repeated, 4u);
    EXPECT_EQ(pair.heard.size(), 12u);
}

// A packet has at most 255 messages, parities included.
TEST(Parity, CountsAmongTheMessagesOfAPacket) {
    ParityPair pair(0.05);
    for (int i = 0; i < 40; ++i) pair.say(std::string(2, static_cast<char>('a' + i)));
    ASSERT_TRUE(pair.arrive(pair.packet()));  // all 40; the next packet may have their parities
    pair.now += 16ms;
    for (int i = 0; i < 245; ++i) pair.say("u", Channel::unreliable);
    const int before = pair.parities;
    const std::size_t heard_before = pair.heard.size();
    EXPECT_TRUE(pair.arrive(pair.packet()));
    EXPECT_EQ(pair.heard.size() - heard_before, 245u);
    EXPECT_EQ(pair.parities - before, 9) << "and a repeat of the first message, which has no predecessor";
}

TEST(Parity, ImpossibleParitiesAreMalformed) {
    const auto is_good = [](std::vector<unsigned> run, std::size_t bytes) {
        std::vector<std::byte> packet{kMessagesFlag};
        for (const unsigned byte : run) packet.push_back(std::byte(byte));
        packet.resize(packet.size() + bytes);
        Packet decoded;
        return read_body(packet, Envelope{.body_offset = 0}, 100, decoded);
    };
    constexpr unsigned kParity = 2 | 4 | 1 << 4 | 3 << 6;  // reliable, last, one byte of id
    EXPECT_TRUE(is_good({kParity, 90}, 64));
    EXPECT_TRUE(is_good({kParity, 90}, 128));
    EXPECT_FALSE(is_good({kParity, 90}, 129));
    EXPECT_FALSE(is_good({kParity | 8, 2, 90}, 64)) << "two messages in a parity";
    EXPECT_FALSE(is_good({kParity | 1, 90}, 1000)) << "a parity with a next piece";
    EXPECT_FALSE(is_good({kParity & ~2u, 90}, 64)) << "an unreliable parity";
    EXPECT_TRUE(is_good({kParity, 2}, 64));
    EXPECT_FALSE(is_good({kParity, 1}, 64)) << "there is no message 0";
}

// Goal: whatever packets are lost, late or duplicated, each message is delivered once, in order and
// unchanged.
// Method: random sizes, losses of up to 40 %, reordered packets; the model is the list of texts.
TEST(Parity, MatchesTheListOfSentMessages) {
    for (std::uint32_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        const unsigned loss = unsigned(random() % 41);
        ParityPair pair(0.02 + loss / 100.0);
        std::vector<std::string> said;
        struct Flying {
            std::vector<std::byte> bytes;
            int sent, arrives;  // ticks; never: -1
        };
        std::deque<Flying> flying;
        for (int tick = 0; tick < 600 || pair.heard.size() < said.size(); ++tick) {
            ASSERT_LT(tick, 6000);
            if (tick < 600 && random() % 8 != 0) {
                const std::size_t size = random() % 4 == 0 ? random() % 140 : 24;
                std::string text = std::to_string(said.size());
                text.resize(std::max(size, text.size()), char('a' + random() % 26));
                said.push_back(text);
                pair.say(text);
            }
            const int delay = 3 + int(random() % 2);
            flying.push_back({pair.packet(300), tick, random() % 100 < loss ? -1 : tick + delay});
            for (const Flying& packet : flying)
                if (packet.arrives == tick) {
                    ASSERT_TRUE(pair.arrive(packet.bytes, std::uint64_t(packet.sent + 1)));
                }
            while (!flying.empty() && flying.front().sent + 6 <= tick) {
                pair.settle(flying.front().arrives >= 0);
                flying.pop_front();
            }
            pair.now += 16ms;
            ASSERT_TRUE(is_consistent(pair.queue));
            ASSERT_LE(pair.heard.size(), said.size());
            ASSERT_TRUE(std::equal(pair.heard.begin(), pair.heard.end(), said.begin()));
        }
        EXPECT_EQ(pair.heard, said);
    }
}

}  // namespace
}  // namespace shoal::net::impl
