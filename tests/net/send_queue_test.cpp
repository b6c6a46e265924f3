// Tests of SendQueue, with an Inbox that receives what it writes.

#include "net/message/send_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "net/message/inbox.h"
#include "net/scheduler.h"
#include "tests/net/support/consistency.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

/// A SendQueue and an Inbox, connected by packets.
struct Pipe {
    explicit Pipe(std::uint64_t first_id, std::uint32_t max_bytes = 1 << 18)
        : queue(first_id, max_bytes), inbox(first_id) {}

    struct Datagram {
        std::uint64_t number = 0;
        std::uint32_t carried = SendQueue::kNone;
        std::vector<std::byte> bytes;
    };
    struct Got {
        Channel channel;
        std::string text;
    };

    Datagram send(std::size_t room, const SendQueue::Terms& with) {
        std::array<std::byte, kMaxDatagramBytes> buffer;
        ByteWriter out(buffer);
        write_envelope(out, PacketKind::data, false, std::nullopt, number, 4);
        out.u8(0);
        const std::size_t before = out.size();
        Datagram result;
        result.number = number++;
        scheduler.begin(room, queue.waiting(Weight::urgent), queue.waiting(Weight::normal), false);
        SendQueue::Draft draft(room);
        scheduler.fill(draft, queue, with);
        result.carried = queue.write(out, draft, with, stats);
        EXPECT_LE(out.size() - before, room);
        const bool has_messages = out.size() > before;
        if (with.beside_payload) out.bytes(as_bytes("state"));
        out.patch_u8(5, (has_messages ? kHasMessages : 0u) | (with.beside_payload ? kHasPayload : 0u));
        out.u64(0);  // instead of a tag
        queue.paid(out.size() + 28);
        result.bytes.assign(out.written().begin(), out.written().end());
        return result;
    }
    Datagram send() { return send(1170, terms); }
    /// Returns whether a message that is not a repeat can be sent now.
    bool has_ready(bool with_bulk = true) const {
        return queue.waiting(Weight::urgent) || queue.waiting(Weight::normal) ||
               (with_bulk && queue.waiting(Weight::bulk));
    }

    /// Returns false if the packet is malformed.
    bool receive(const Datagram& datagram) {
        const std::optional<Envelope> envelope = read_envelope(datagram.bytes, false);
        Packet packet;
        packet.number = datagram.number;
        if (!envelope) return false;
        const auto clear = std::span(datagram.bytes).first(datagram.bytes.size() - kInsecureTagBytes);
        if (!read_body(clear, *envelope, inbox.expected_id(datagram.number), packet) ||
            !inbox.plausible(packet))
            return false;
        for (std::size_t i = 0; i < packet.message_count; ++i) {
            const Frame& frame = packet.frames[i];
            const Inbox::Arrival arrival = inbox.arrive(packet, frame);
            if (arrival == Inbox::Arrival::now) got.push_back({frame.channel, as_text(packet.bytes(frame))});
            if (arrival == Inbox::Arrival::whole) got.push_back({frame.channel, as_text(inbox.whole())});
            std::array<std::byte, kMaxMessageBytes> room;
            if (frame.channel != Channel::reliable) continue;
            while (const auto next = inbox.take_ready(room))
                got.push_back({Channel::reliable, as_text(*next)});
        }
        return true;
    }

    SendQueue queue;
    Scheduler scheduler{Shares{}};
    Inbox inbox;
    ConnectionStats stats;
    std::uint64_t number = 1;
    SendQueue::Terms terms;
    std::vector<Got> got;
};

/// Checks messages that arrive: reliable ones once each, in order of their key; sequenced ones at most once,
/// never after a newer one; unreliable ones at most once. The text of a message is "key number" with rising
/// numbers, and padding that follows from both.
struct QueueModel {
    static std::string text(std::uint32_t key, int number, std::size_t padding) {
        std::string result = std::to_string(key) + " " + std::to_string(number) + " ";
        result += std::to_string(padding) + " ";
        for (std::size_t i = 0; i < padding; ++i)
            result += char('a' + (i + i / 1000 + unsigned(number) + key) % 26);
        return result;
    }
    void check(const std::vector<Pipe::Got>& got) {
        for (; checked < got.size(); ++checked) {
            const Pipe::Got& message = got[checked];
            long long key = 0;
            int number = 0;
            std::size_t padding = 0;
            ASSERT_EQ(std::sscanf(message.text.c_str(), "%lld %d %zu", &key, &number, &padding), 3);
            ASSERT_TRUE(message.text == text(std::uint32_t(key), number, padding)) << key << ' ' << number;
            larges += message.text.size() > kMaxMessageBytes;
            if (message.channel == Channel::unreliable) {
                ASSERT_TRUE(once.insert(number).second);
            } else if (message.channel == Channel::sequenced) {
                ASSERT_GT(number, newest.try_emplace(key, -1).first->second);
                newest[key] = number;
            } else if (key == Delivery::kNoKey) {
                ASSERT_TRUE(unordered.insert(number).second);
            } else {
                ASSERT_EQ(number, delivered[key]++) << "key " << key;
            }
        }
    }
    std::size_t checked = 0, larges = 0;
    std::set<int> once, unordered;
    std::map<long long, int> newest, delivered;
};

// Goal: whatever packets are lost or late, each channel keeps its promise, and every reliable message
// arrives.
// Method: packets are lost, late by up to 64 packets or delivered at random; fates are reported as by a
// connection, also "lost" for packets that arrived; ids cross each wraparound; messages have many pieces; the
// queue is checked after every step.
TEST(SendQueue, KeepsThePromiseOfEachChannelWhateverPacketsAreLost) {
    std::size_t larges = 0;
    for (std::uint32_t seed = 1; seed <= 150; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 engine(seed);
        const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
        const std::uint64_t wraps[] = {600, 1ull << 8, 1ull << 16, 1ull << 32, 1ull << 62};
        Pipe pipe(wraps[seed % 5] - random() % 500 % (wraps[seed % 5] - 1));
        QueueModel model;
        std::map<std::uint32_t, int> queued;
        std::vector<Pipe::Datagram> flying;
        int others = 0;
        std::uint64_t newest_received = 0;
        const std::uint32_t keys = 1 + random() % (seed % 2 ? 3 : 200);
        const unsigned burst = seed % 7 == 0 ? 120 : 9;
        const unsigned in_flight = seed % 3 == 0 ? 60 : 12;
        for (int step = 0; step < 1500; ++step) {
            if (random() % 4) pipe.terms.now += 4ms;
            pipe.terms.loss = double(step / 100 % 3) / 20;  // 0, 5 and 10 %: none, one and two repeats
            pipe.terms.beside_payload = random() % 3 == 0;
            pipe.terms.bulk = random() % 4 != 0;
            const bool is_filling = step < 1000;
            for (std::uint64_t n = is_filling ? random() % burst : 0; n > 0; --n) {
                const auto weight = static_cast<Weight>(random() % 3);
                std::size_t pad = random() % 5 == 0 ? random() % 900 : 0;
                std::uint32_t key = random() % keys;
                const unsigned kind = random() % 6;
                if (kind == 0 && random() % 2) key = Delivery::kNoKey;
                const bool is_reliable = kind < 4;
                if (is_reliable && random() % 50 == 0) pad = random() % (random() % 8 ? 3'000 : 40'000);
                const int count = is_reliable ? queued[key] : others;
                const std::string text = QueueModel::text(key, count, pad);
                if (kind == 5) {
                    others += pipe.queue.push(Delivery(Channel::unreliable).with(weight), as_bytes(text));
                } else if (kind == 4) {
                    others += pipe.queue.push(latest_of(std::uint8_t(key)).with(weight), as_bytes(text));
                } else {
                    queued[key] += pipe.queue.push(ordered_by(key).with(weight), as_bytes(text));
                }
            }
            flying.push_back(pipe.send(random() % 3 ? 1170 : random() % 1170, pipe.terms));
            while (!flying.empty() && (flying.size() > random() % in_flight || !is_filling)) {
                const std::size_t pick = is_filling ? random() % flying.size() : 0;
                const Pipe::Datagram chosen = flying[pick];
                flying.erase(flying.begin() + std::ptrdiff_t(pick));
                const unsigned luck = is_filling ? random() % 10 : 5;
                const bool is_stale = chosen.number + 64 < newest_received;
                const bool arrives = luck >= 3 && !is_stale;
                if (arrives) {
                    newest_received = std::max(newest_received, chosen.number);
                    ASSERT_TRUE(pipe.receive(chosen));
                }
                pipe.queue.on_fate(chosen.carried, arrives && luck != 9);  // 9: the ack was lost or too late
                model.check(pipe.got);
                if (HasFatalFailure()) return;
            }
            ASSERT_TRUE(is_consistent(pipe.queue));
            if (step % 16 == 0) {  // it takes time in proportion to the window
                ASSERT_TRUE(is_consistent(pipe.inbox));
            }
        }
        for (int i = 0; i < 20'000 && pipe.has_ready(); ++i) {
            const Pipe::Datagram packet = pipe.send(1170, {.now = pipe.terms.now});
            ASSERT_TRUE(pipe.receive(packet));
            pipe.queue.on_fate(packet.carried, true);
        }
        model.check(pipe.got);
        if (HasFatalFailure()) return;
        for (const auto& [key, count] : queued) {
            ASSERT_EQ(key == Delivery::kNoKey ? int(model.unordered.size()) : model.delivered[key], count)
                << "key " << key;
        }
        ASSERT_EQ(pipe.inbox.waiting_bytes(), 0u);
        ASSERT_TRUE(is_consistent(pipe.queue));
        larges += model.larges;
    }
    EXPECT_GT(larges, 5'000u);
}

TEST(SendQueue, OnlyMessagesWithEqualKeysWaitForEachOther) {
    Pipe pipe(1);
    ASSERT_TRUE(pipe.queue.push(ordered_by(7), as_bytes("seven 1")));
    const auto lost = pipe.send();
    ASSERT_TRUE(pipe.queue.push(ordered_by(7), as_bytes("seven 2")));
    ASSERT_TRUE(pipe.queue.push(ordered_by(8), as_bytes("eight")));
    ASSERT_TRUE(pipe.queue.push(unordered(), as_bytes("free")));
    const auto second = pipe.send();
    ASSERT_TRUE(pipe.receive(second));
    ASSERT_EQ(pipe.got.size(), 2u);
    EXPECT_EQ(pipe.got[0].text, "eight");
    EXPECT_EQ(pipe.got[1].text, "free");
    // The second message of key 7 has arrived, but is not delivered yet: the third must not overtake it.
    pipe.queue.on_fate(second.carried, true);
    ASSERT_TRUE(pipe.queue.push(ordered_by(7), as_bytes("seven 3")));
    ASSERT_TRUE(pipe.receive(pipe.send()));
    EXPECT_EQ(pipe.got.size(), 2u);
    pipe.queue.on_fate(lost.carried, false);
    ASSERT_TRUE(pipe.receive(pipe.send()));
    ASSERT_EQ(pipe.got.size(), 5u);
    EXPECT_EQ(pipe.got[2].text, "seven 1");
    EXPECT_EQ(pipe.got[3].text, "seven 2");
    EXPECT_EQ(pipe.got[4].text, "seven 3");
}

TEST(SendQueue, ASequencedMessageReplacesQueuedOnesAndLateOnesAreDropped) {
    Pipe pipe(1);
    ASSERT_TRUE(pipe.queue.push(latest_of(3), as_bytes("a")));
    ASSERT_TRUE(pipe.queue.push(latest_of(3), as_bytes("bb")));
    ASSERT_TRUE(pipe.queue.push(latest_of(4), as_bytes("cc")));
    const auto first = pipe.send();
    EXPECT_EQ(pipe.stats.messages_sent, 2u);
    ASSERT_TRUE(pipe.queue.push(latest_of(3), as_bytes("d")));
    const auto second = pipe.send();
    ASSERT_TRUE(pipe.receive(second));
    ASSERT_TRUE(pipe.receive(first));  // late: the message of key 3 is old, that of key 4 is not
    ASSERT_EQ(pipe.got.size(), 2u);
    EXPECT_EQ(pipe.got[0].text, "d");
    EXPECT_EQ(pipe.got[1].text, "cc");
    EXPECT_FALSE(pipe.has_ready());
}

// The overhead of one and of ten reliable messages of 32 bytes.
TEST(SendQueue, HeadersAreSmall) {
    Pipe pipe(1000);
    const std::size_t frame = 1 + 4 + 1 + kInsecureTagBytes;  // kind, four bytes of number, flags, tag
    const std::string message(32, 'm');
    for (const std::size_t count : {1u, 10u, 30u}) {
        for (std::size_t i = 0; i < count; ++i)
            ASSERT_TRUE(pipe.queue.push(Channel::reliable, as_bytes(message)));
        const auto packet = pipe.send();
        EXPECT_EQ(packet.bytes.size(), frame + count * 32 + (count == 1 ? 2u : 3u));
        ASSERT_TRUE(pipe.receive(packet));
        // Later messages have earlier ones in flight, and name their predecessor.
    }
    EXPECT_EQ(pipe.got.size(), 41u);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(pipe.queue.push(ordered_by(unsigned(i % 2)), as_bytes(message)));
    const auto packet = pipe.send();
    ASSERT_TRUE(pipe.receive(packet));
    EXPECT_EQ(pipe.got.size(), 46u);
    EXPECT_LE(packet.bytes.size(), frame + 5 * 32 + 12u);
}

TEST(SendQueue, BulkUsesOnlyRoomThatOthersLeave) {
    Pipe pipe(1);
    const std::string big(500, 'b');
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(pipe.queue.push(unordered().with(Weight::bulk), as_bytes(big)));
    EXPECT_FALSE(pipe.has_ready(false));  // state is sent first
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(pipe.queue.push(Channel::reliable, as_bytes(std::string(50, 'n'))));
        ASSERT_TRUE(pipe.queue.push(Channel::unreliable, as_bytes(std::string(50, 'u'))));
    }
    ASSERT_TRUE(pipe.receive(pipe.send()));
    ASSERT_GT(pipe.got.size(), 20u);
    EXPECT_TRUE(
        std::none_of(pipe.got.begin(), pipe.got.end(), [](const auto& m) { return m.text[0] == 'b'; }));
    // However much bulk is in flight, other messages have room in the window.
    while (pipe.has_ready()) pipe.send();
    ASSERT_TRUE(pipe.queue.push(Channel::reliable, as_bytes("n")));
    EXPECT_TRUE(pipe.has_ready(false));
}

TEST(SendQueue, BulkLeavesHalfOfTheWindow) {
    Pipe pipe(1, 1 << 20);
    for (std::uint64_t i = 0; i < kReliableWindow; ++i)
        ASSERT_TRUE(pipe.queue.push(unordered().with(Weight::bulk), as_bytes("b")));
    while (pipe.has_ready()) pipe.send();
    EXPECT_EQ(pipe.stats.messages_sent, kReliableWindow / 2);
    for (std::uint64_t i = 0; i < kReliableWindow; ++i)
        ASSERT_TRUE(pipe.queue.push(Channel::reliable, as_bytes("n")));
    while (pipe.has_ready()) pipe.send();
    EXPECT_EQ(pipe.stats.messages_sent, kReliableWindow);
}

TEST(SendQueue, UrgentMessagesGetThreeTimesTheBytesOfNormalOnes) {
    Pipe pipe(1);
    for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(pipe.queue.push(Delivery(Channel::unreliable), as_bytes(std::string(40, 'n'))));
        ASSERT_TRUE(pipe.queue.push(unordered().with(Weight::urgent), as_bytes(std::string(40, 'u'))));
    }
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(pipe.receive(pipe.send()));
    const auto urgent =
        std::count_if(pipe.got.begin(), pipe.got.end(), [](const auto& m) { return m.text[0] == 'u'; });
    EXPECT_NEAR(double(urgent) / double(pipe.got.size()), 0.75, 0.02);
}

// With unordered messages, which cannot have a parity instead of a repeat.
TEST(SendQueue, RepeatsDependOnLossAndRepeatShare) {
    for (const double loss : {0.005, 0.02, 0.05, 0.1}) {
        Pipe pipe(1);
        pipe.queue.set_repeat_share(1);
        pipe.terms.loss = loss;
        std::uint64_t repeats = 0;
        for (int i = 0; i < 100; ++i) {
            pipe.terms.now += 16ms;
            ASSERT_TRUE(pipe.queue.push(unordered(), as_bytes(std::string(64, 'm'))));
            const auto packet = pipe.send();
            const auto twin = pipe.send();  // in the same tick nothing is repeated
            EXPECT_EQ(twin.carried, SendQueue::kNone);
            ASSERT_TRUE(pipe.receive(packet));
        }
        repeats = pipe.stats.messages_repeated;
        EXPECT_NEAR(double(repeats), loss < 0.01 ? 0 : loss < 0.08 ? 99 : 197, 2);
        EXPECT_EQ(pipe.got.size(), 100u);
    }
    Pipe poor(1);
    poor.queue.set_repeat_share(0.1);
    poor.terms.loss = 0.05;
    for (int i = 0; i < 100; ++i) {
        poor.terms.now += 16ms;
        ASSERT_TRUE(poor.queue.push(unordered(), as_bytes(std::string(64, 'm'))));
        poor.send();
    }
    EXPECT_LT(poor.stats.messages_repeated, 25u);
    EXPECT_GT(poor.stats.messages_repeated, 10u);
}

// A message sent in three packets is delivered with any of them, and is queued again only if all are lost.
TEST(SendQueue, AMessageIsLostWhenAllItsCopiesAreLost) {
    for (unsigned fates = 0; fates < 8; ++fates) {
        SCOPED_TRACE(fates);
        Pipe pipe(1);
        pipe.queue.set_repeat_share(1);
        pipe.terms.loss = 0.1;
        ASSERT_TRUE(pipe.queue.push(Channel::reliable, as_bytes("m")));
        std::vector<Pipe::Datagram> packets;
        for (int i = 0; i < 3; ++i) {
            pipe.terms.now += 16ms;
            packets.push_back(pipe.send());
            ASSERT_NE(packets.back().carried, SendQueue::kNone);
        }
        pipe.terms.now += 16ms;
        EXPECT_EQ(pipe.send().carried, SendQueue::kNone);
        for (unsigned i = 0; i < 3; ++i) {
            EXPECT_FALSE(pipe.has_ready());
            pipe.queue.on_fate(packets[i].carried, fates >> i & 1);
        }
        EXPECT_EQ(pipe.has_ready(), fates == 0);
        EXPECT_TRUE(is_consistent(pipe.queue));
    }
}

TEST(SendQueue, LargeMessagesAreDeliveredComplete) {
    Pipe pipe(1, 1 << 20);
    std::vector<std::string> said;
    for (const std::size_t size : {0u, 999u, 1'000u, 1'001u, 2'000u, 2'001u, 256'000u}) {
        said.push_back(std::string(size, char('a' + said.size())));
        ASSERT_TRUE(pipe.queue.push(Channel::reliable, as_bytes(said.back())));
    }
    while (pipe.has_ready()) {
        const auto packet = pipe.send();
        ASSERT_TRUE(pipe.receive(packet));
        pipe.queue.on_fate(packet.carried, true);
    }
    ASSERT_EQ(pipe.got.size(), said.size());
    for (std::size_t i = 0; i < said.size(); ++i) EXPECT_TRUE(pipe.got[i].text == said[i]) << i;
    EXPECT_EQ(pipe.stats.messages_sent, 1 + 1 + 1 + 2 + 2 + 3 + 256u);
    EXPECT_EQ(pipe.number - 1, 1 + 1 + 2 + 2 + 3 + 256u - 2u) << "small messages share the packets";
    EXPECT_EQ(pipe.inbox.waiting_bytes(), 0u);
}

// The pieces of a large message have consecutive ids, and wait only for each other.
TEST(SendQueue, LargeMessagesBlockOnlyTheirKey) {
    Pipe pipe(1);
    ASSERT_TRUE(pipe.queue.push(ordered_by(1), as_bytes(std::string(3'000, 'x'))));
    const auto lost = pipe.send();
    ASSERT_TRUE(pipe.queue.push(ordered_by(1), as_bytes("behind it")));
    ASSERT_TRUE(pipe.queue.push(ordered_by(2), as_bytes("beside it")));
    ASSERT_TRUE(pipe.queue.push(unordered().with(Weight::urgent), as_bytes(std::string(2'500, 'y'))));
    while (pipe.has_ready()) ASSERT_TRUE(pipe.receive(pipe.send()));
    ASSERT_EQ(pipe.got.size(), 2u);
    EXPECT_EQ(pipe.got[0].text, std::string(2'500, 'y'));
    EXPECT_EQ(pipe.got[1].text, "beside it");
    pipe.queue.on_fate(lost.carried, false);
    ASSERT_TRUE(pipe.receive(pipe.send()));
    ASSERT_EQ(pipe.got.size(), 4u);
    EXPECT_EQ(pipe.got[2].text, std::string(3'000, 'x'));
    EXPECT_EQ(pipe.got[3].text, "behind it");
}

// The message is sent, lost and sent again at the same time, so it is planned to be repeated twice.
TEST(SendQueue, APacketContainsAMessageOnlyOnce) {
    Pipe pipe(1);
    pipe.queue.set_repeat_share(1);
    pipe.terms.loss = 0.05;
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(pipe.queue.push(unordered(), as_bytes("abc")));
    const auto lost = pipe.send();
    pipe.queue.on_fate(lost.carried, false);
    pipe.send();
    EXPECT_EQ(pipe.stats.messages_sent, 80u);
    pipe.terms.now += 16ms;
    pipe.send(150, pipe.terms);
    EXPECT_EQ(pipe.stats.messages_sent, 120u);
    EXPECT_TRUE(is_consistent(pipe.queue));
}

// Repeats that were planned while there was loss are not sent after the loss ended.
TEST(SendQueue, APathWithoutLossGetsNoRepeats) {
    for (const double loss_then : {0.05, 0.0}) {
        Pipe pipe(1);
        SendQueue::Terms terms;
        terms.loss = 0.05;
        ASSERT_TRUE(pipe.queue.push(unordered(), as_bytes("first")));
        pipe.send(1'000, terms);
        terms.loss = loss_then;
        for (int i = 0; i < 5; ++i) {
            terms.now += 50ms;
            ASSERT_TRUE(pipe.queue.push(unordered(), as_bytes("longer than the first")));
            pipe.send(1'000, terms);
        }
        EXPECT_EQ(pipe.stats.messages_repeated > 0, loss_then > 0);
    }
}

}  // namespace
}  // namespace shoal::net::impl
