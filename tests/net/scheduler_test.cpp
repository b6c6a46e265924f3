#include "net/scheduler.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "net/bytes.h"
#include "tests/net/support/consistency.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

constexpr std::size_t kRoom = 1150;  // bytes of a packet for messages and payload

/// A queue of messages that is never empty, and a payload of any size.
struct Load {
    explicit Load(const Shares& shares = {}, std::uint64_t seed = 1) : scheduler(shares), random(seed) {}

    struct Outcome {
        std::size_t share = 0, payload = 0, urgent = 0, normal = 0;
        std::uint32_t carried = SendQueue::kNone;
    };
    std::size_t size() { return 1 + random() % max_message; }
    /// Adds unreliable messages of a weight.
    void push(Weight weight, std::size_t bytes) {
        const std::string text(bytes, 'm');
        ASSERT_TRUE(queue.push(Delivery(Channel::unreliable).with(weight), as_bytes(text)));
    }
    void top_up(Weight weight) {
        while (queue.waiting(weight).bytes < 3000) push(weight, size());
    }
    /// Makes a packet. `wants`: bytes of payload that the handler has; 0: none.
    Outcome packet(std::size_t wants, std::size_t room = kRoom) {
        Outcome result;
        const SendQueue::Waiting urgent = queue.waiting(Weight::urgent),
                                 normal = queue.waiting(Weight::normal);
        result.share = scheduler.begin(room, urgent, normal, wants > 0);
        EXPECT_TRUE(result.share == 0 || result.share >= kMinPayloadBytes) << result.share;
        EXPECT_LE(result.share, std::min(room, kMaxPayloadBytes));
        EXPECT_TRUE(wants > 0 || result.share == 0);
        if (result.share > 0) {
            result.payload = overdraws ? std::min(wants, room) : std::min(wants, result.share);
            scheduler.payload_took(result.payload);
        }
        SendQueue::Terms terms;
        terms.beside_payload = result.payload > 0;
        std::array<std::byte, kMaxDatagramBytes> buffer;
        ByteWriter out(buffer);
        SendQueue::Draft draft(room - result.payload);
        scheduler.fill(draft, queue, terms);
        result.carried = queue.write(out, draft, terms, stats);
        EXPECT_LE(out.size(), room - result.payload);
        EXPECT_TRUE(is_consistent(queue));
        result.urgent = urgent.bytes - queue.waiting(Weight::urgent).bytes;
        result.normal = normal.bytes - queue.waiting(Weight::normal).bytes;
        return result;
    }

    SendQueue queue{1, 1 << 20};
    Scheduler scheduler;
    ConnectionStats stats;
    std::mt19937_64 random;
    std::size_t max_message = 200;
    bool overdraws = false;  // the handler uses all of the room
};

/// Bytes that each kind got.
struct Sum {
    double urgent = 0, payload = 0, normal = 0;
    void add(const Load::Outcome& packet) {
        urgent += double(packet.urgent);
        payload += double(packet.payload);
        normal += double(packet.normal);
    }
    double all() const { return urgent + payload + normal; }
};

// A handler that has no payload when it is asked gets no credit and no debt for this packet.
TEST(Scheduler, AMissingPayloadChangesNoShare) {
    Load load;
    for (int i = 0; i < 50; ++i) {
        load.top_up(Weight::normal);
        const std::size_t share = load.scheduler.begin(kRoom, {}, load.queue.waiting(Weight::normal), true);
        EXPECT_NEAR(double(share), kRoom * 2 / 3.0, 1) << "packet " << i;
        load.scheduler.payload_took(0);
        std::array<std::byte, kMaxDatagramBytes> buffer;
        ByteWriter out(buffer);
        SendQueue::Draft draft(kRoom);
        load.scheduler.fill(draft, load.queue, {});
        load.queue.write(out, draft, {}, load.stats);
    }
}

// Goal: while all three kinds wait, they share the bytes as configured, whatever the sizes; a payload has at
// least 600 bytes. Method: seeded shares, sizes of messages, rooms, and payloads larger than their share.
TEST(Scheduler, SharesHoldOverAnyMixOfSizes) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        std::mt19937_64 random(seed);
        const Shares shares{std::uint8_t(1 + random() % 6), std::uint8_t(1 + random() % 6),
                            std::uint8_t(1 + random() % 6)};
        Load load(shares, seed);
        constexpr std::size_t kLargest[] = {8, 60, 300, 1000};
        load.max_message = kLargest[random() % 4];
        load.overdraws = random() % 3 == 0;
        Sum sum;
        for (int i = 0; i < 600; ++i) {
            load.top_up(Weight::urgent);
            load.top_up(Weight::normal);
            const std::size_t wants = kMinPayloadBytes + random() % (kMaxPayloadBytes - kMinPayloadBytes);
            sum.add(load.packet(load.overdraws ? kRoom : wants, kRoom - random() % 30));
        }
        const double all = shares.urgent + shares.payload + shares.normal;
        SCOPED_TRACE(testing::Message()
                     << "seed " << seed << ", shares " << int(shares.urgent) << ' ' << int(shares.payload)
                     << ' ' << int(shares.normal) << ", messages up to " << load.max_message
                     << (load.overdraws ? ", overdrawing" : ""));
        // A packet has at most 255 messages, so tiny ones do not fill it.
        const double tolerance = load.max_message == 8 ? 0.1 : 0.04;
        EXPECT_NEAR(sum.urgent / sum.all(), shares.urgent / all, tolerance);
        EXPECT_NEAR(sum.payload / sum.all(), shares.payload / all, tolerance);
        EXPECT_NEAR(sum.normal / sum.all(), shares.normal / all, tolerance);
        if (HasFailure()) return;
    }
}

// Goal: each kind that waits is sent within a bounded number of packets, also with a share of 1 in 511.
TEST(Scheduler, NoKindStarves) {
    for (const Shares& shares :
         {Shares{255, 255, 1}, Shares{255, 1, 255}, Shares{1, 255, 255}, Shares{3, 2, 1}}) {
        for (const std::size_t largest : {10u, 1000u}) {
            Load load(shares);
            load.max_message = largest;
            const int all = shares.urgent + shares.payload + shares.normal;
            std::array<int, 3> waits{};
            for (int i = 0; i < 3000; ++i) {
                load.top_up(Weight::urgent);
                load.top_up(Weight::normal);
                const Load::Outcome packet = load.packet(kMaxPayloadBytes);
                const std::size_t got[] = {packet.urgent, packet.payload, packet.normal};
                const int share_of[] = {shares.urgent, shares.payload, shares.normal};
                for (std::size_t kind = 0; kind < 3; ++kind) {
                    waits[kind] = got[kind] > 0 ? 0 : waits[kind] + 1;
                    // Credit for a message of 1,000 bytes or a payload of 600, after a debt of the same size.
                    ASSERT_LE(waits[kind], 6 + 4 * 1200 * all / (share_of[kind] * int(kRoom)))
                        << "kind " << kind << " at packet " << i;
                }
            }
        }
    }
}

TEST(Scheduler, UnusedSharesAreFreeForOthers) {
    Load load;
    EXPECT_EQ(load.packet(kMaxPayloadBytes).payload, kRoom) << "only state waits";
    for (int i = 0; i < 100; ++i) {
        load.top_up(Weight::normal);
        const Load::Outcome packet = load.packet(0);
        EXPECT_EQ(packet.payload, 0u);
        EXPECT_GT(packet.normal, kRoom - 2 * load.max_message);
    }
}

// Goal: a kind that did not wait saves no credit. Method: such a kind gets no more than its share afterwards,
// and a kind that was alone has no debt.
TEST(Scheduler, CreditIsLostWhenNothingWaits) {
    for (const bool was_alone : {false, true}) {
        Load load;
        for (int i = 0; i < 500; ++i) {
            if (was_alone) load.top_up(Weight::normal);
            if (!was_alone) load.top_up(Weight::urgent);
            load.packet(was_alone ? 0 : kMaxPayloadBytes);
        }
        Sum sum;
        for (int i = 0; i < 12; ++i) {
            load.top_up(Weight::urgent);
            load.top_up(Weight::normal);
            sum.add(load.packet(kMaxPayloadBytes));
        }
        EXPECT_NEAR(sum.normal / sum.all(), 1.0 / 6, 0.1) << "a sixth, measured over twelve packets";
        EXPECT_NEAR(sum.urgent / sum.all(), 3.0 / 6, 0.15);
    }
}

// Goal: a message that fits in no packet for a long time does not get unlimited credit.
// Each packet carries all that waits, so nobody owes anything to the next message.
TEST(Scheduler, AFewMessagesInEachPacketDoNotReduceThePayloads) {
    Load load;
    for (int i = 0; i < 200; ++i) {
        load.push(Weight::normal, 50);
        EXPECT_GE(load.packet(1000).payload, 1000u) << i;
    }
}

TEST(Scheduler, CreditIsBounded) {
    Load load;
    load.push(Weight::urgent, 1000);
    for (int i = 0; i < 200; ++i) {
        load.top_up(Weight::normal);
        const Load::Outcome packet = load.packet(0, 700);
        ASSERT_EQ(packet.urgent, 0u);
        ASSERT_GT(packet.normal, 400u) << "the other kinds use the room meanwhile";
    }
    Sum sum;
    for (int i = 0; i < 40; ++i) {
        load.top_up(Weight::urgent);
        load.top_up(Weight::normal);
        sum.add(load.packet(0));
    }
    EXPECT_LE(sum.urgent / sum.all(), 0.95);
    EXPECT_GE(sum.normal, 40 * kRoom / 4.0 - 4 * kMaxDatagramBytes);
}

// Goal: a payload that uses the whole room of a packet gets less in later packets.
TEST(Scheduler, OverdraftsArePaidBack) {
    Load load;
    load.overdraws = true;
    load.top_up(Weight::urgent);
    load.top_up(Weight::normal);
    Load::Outcome packet;
    int before = 0;
    for (; packet.payload == 0 && before < 10; ++before) packet = load.packet(kRoom);
    ASSERT_EQ(packet.payload, kRoom) << "more than its share";
    EXPECT_LT(packet.share, kRoom);
    int without = 0;
    for (packet.payload = 0; packet.payload == 0 && without < 10; ++without) {
        load.top_up(Weight::urgent);
        load.top_up(Weight::normal);
        packet = load.packet(kRoom);
        EXPECT_TRUE(packet.payload > 0 || packet.urgent + packet.normal > kRoom - 400);
    }
    EXPECT_GE(without, 2) << "messages get a third of the bytes: one packet of three";
    EXPECT_LE(without, 4);
    // A handler that has no payload when it is asked has no debt afterwards.
    load.scheduler.payload_took(0);
    Load fresh;
    fresh.top_up(Weight::normal);
    const std::size_t share = fresh.scheduler.begin(kRoom, {}, fresh.queue.waiting(Weight::normal), true);
    EXPECT_GE(share, kMinPayloadBytes);
}

// Goal: a message that was lost twice is not sent beside a payload again.
TEST(Scheduler, AMessageLostTwiceGetsAPacketWithoutPayload) {
    Load load;
    const std::string text(300, 'm');
    ASSERT_TRUE(load.queue.push(Channel::reliable, as_bytes(text)));
    for (int loss = 0; loss < 2; ++loss) {
        std::uint32_t carried = SendQueue::kNone;
        for (int i = 0; i < 5 && carried == SendQueue::kNone; ++i) {
            const Load::Outcome packet = load.packet(kMinPayloadBytes);
            carried = packet.carried;
            EXPECT_TRUE(carried == SendQueue::kNone || packet.payload > 0) << "the packet has room for both";
        }
        ASSERT_NE(carried, SendQueue::kNone);
        load.queue.on_fate(carried, false);
    }
    EXPECT_TRUE(load.queue.waiting(Weight::normal).needs_own_packet);
    int with = 0, without = 0;
    for (int i = 0; i < 5 && without == 0; ++i) {
        const Load::Outcome packet = load.packet(kMinPayloadBytes);
        with += packet.payload > 0;
        without += packet.payload == 0;
        EXPECT_EQ(packet.carried != SendQueue::kNone, packet.payload == 0);
    }
    EXPECT_EQ(without, 1);
    EXPECT_LE(with, 3);
    EXPECT_GT(load.packet(kMinPayloadBytes).payload, 0u) << "state continues";
}

// Goal: many such messages share the bytes as others do.
TEST(Scheduler, MessagesThatNeedPacketsOfTheirOwnShareWithState) {
    Load load;
    const std::string text(400, 'm');
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(load.queue.push(unordered(), as_bytes(text)));
    for (int loss = 0; loss < 2; ++loss) {
        std::vector<std::uint32_t> carried;
        while (load.queue.waiting(Weight::normal)) carried.push_back(load.packet(0).carried);
        for (const std::uint32_t lost : carried) load.queue.on_fate(lost, false);
    }
    Sum sum;
    for (int i = 0; i < 120; ++i) {
        ASSERT_TRUE(load.queue.waiting(Weight::normal).needs_own_packet);
        const Load::Outcome packet = load.packet(kMaxPayloadBytes);
        EXPECT_TRUE(packet.payload == 0 || packet.normal == 0);
        sum.add(packet);
    }
    EXPECT_NEAR(sum.payload / sum.all(), 2.0 / 3, 0.08);
}

}  // namespace
}  // namespace shoal::net::impl
