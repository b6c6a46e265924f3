#include "net/message/large_payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "net/connection.h"
#include "tests/net/support/consistency.h"
#include "tests/net/support/payload_side.h"

namespace shoal::net::impl {
namespace {

/// Two sides.
struct PayloadTable {
    explicit PayloadTable(std::uint64_t first_number = 1, const ConnectionConfig& config = {})
        : sender(true, first_number, 1, config), receiver(false, 1, first_number) {}

    /// Returns 0 if the payload must wait: the rate is used up, or another payload is still being sent.
    std::uint64_t send(std::size_t bytes, std::uint64_t seed = 7) {
        sent = noise(bytes, seed);
        return shoal::net::impl::send(sender, sender.connection, as_bytes(sent), now);
    }
    /// A tick in which all datagrams arrive.
    void tick(Duration time = 20ms) {
        now += time;
        for (const auto& bytes : sender.take()) receiver.feed(bytes, now);
        for (const auto& bytes : receiver.take()) sender.feed(bytes, now);
        for (PayloadSide* side : {&sender, &receiver}) {
            side->connection.update(now);
            side->connection.flush(now);
        }
    }
    void run(int ticks) {
        for (int i = 0; i < ticks; ++i) tick();
    }

    Time now = 1000s;
    PayloadSide sender, receiver;
    std::string sent;
};

/// A packet with a fragment.
struct Written {
    Written(std::uint64_t number, std::uint64_t payload_number, unsigned index, bool is_last,
            std::size_t size)
        : bytes(noise(size, number)) {
        packet.number = number;
        packet.is_fragment = packet.has_payload = true;
        packet.fragment = {static_cast<std::uint16_t>(number - payload_number),
                           static_cast<std::uint8_t>(index), is_last};
        packet.payload = as_bytes(bytes);
    }
    std::string bytes;
    Packet packet;
};

TEST(LargePayload, ArrivesCompleteUnderOneNumberWithOneFate) {
    for (const std::uint64_t start : kPayloadStarts) {
        for (const std::size_t size : {kMaxPayloadBytes + 1, std::size_t(5'000), kMaxLargePayloadBytes}) {
            SCOPED_TRACE(testing::Message() << "start " << start << " size " << size);
            PayloadTable table(start);
            const std::uint64_t number = table.send(size);
            EXPECT_EQ(number, start);
            table.run(200);
            ASSERT_EQ(table.receiver.payloads.size(), 1u);
            EXPECT_EQ(table.receiver.payloads[0], std::pair(number, table.sent));
            ASSERT_EQ(table.sender.fates.size(), 1u);
            const PacketFate& fate = table.sender.fates[0];
            EXPECT_EQ(fate.number, number);
            EXPECT_TRUE(fate.delivered);
            EXPECT_GT(fate.rtt, 0ms);
            EXPECT_LE(fate.rtt, 60ms);
        }
    }
}

TEST(LargePayload, UsesSeveralPacketsOnlyIfOneIsTooSmall) {
    PayloadTable table;
    table.send(kMaxPayloadBytes);
    const auto one = table.sender.take();
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(one[0].size(), 2 + 1 + kMaxPayloadBytes + kInsecureTagBytes)
        << "the feature costs no byte if it is not used";
    EXPECT_NE(table.send(kMaxPayloadBytes + 1), 0u);
    EXPECT_EQ(table.sender.take().size(), 2u);
    EXPECT_NE(table.send(10), 0u) << "a small one may be sent";
    EXPECT_EQ(table.send(kMaxPayloadBytes + 1), 0u) << "the fate of the large one is not known";
}

TEST(LargePayload, IsSentAsTheRateAllowsAndOthersTakeTurnsWithItsFragments) {
    ConnectionConfig config;
    config.max_bytes_per_second = 200'000;
    PayloadTable table(1, config);
    ASSERT_NE(table.send(kMaxLargePayloadBytes), 0u);
    const std::string large = table.sent;
    EXPECT_LE(table.sender.wire.bytes, 11 * kMaxDatagramBytes) << "the first burst";
    std::size_t before = table.sender.wire.bytes, small = 0;
    for (int ticks = 0; ticks < 200; ++ticks) {
        auto& waiting = table.sender.to_send[PeerId{0x10000}];
        if (waiting.empty()) waiting.push_back(noise(300, 1));
        table.tick();
        small += waiting.empty();
        const double allowed = table.sender.connection.stats().rate * 0.05 + 3 * kMaxDatagramBytes;
        ASSERT_LE(double(table.sender.wire.bytes - before), allowed);
        before = table.sender.wire.bytes;
        if (std::ranges::find(table.receiver.payloads, large,
                              &std::pair<std::uint64_t, std::string>::second) !=
            table.receiver.payloads.end())
            break;
    }
    EXPECT_GE(small, 8u);
    EXPECT_GE(table.receiver.payloads.size(), small);
    table.sender.to_send.clear();
    table.run(20);
    EXPECT_EQ(table.receiver.payloads.size(), small + 1);
    EXPECT_EQ(table.sender.fates.size(), small + 1);
    for (const PacketFate& fate : table.sender.fates) EXPECT_TRUE(fate.delivered);
}

TEST(LargePayload, MessagesAreSentBesideItsFragments) {
    PayloadTable table;
    table.send(kMaxLargePayloadBytes);
    const std::size_t sent_at_once = table.sender.wire.bytes;
    ASSERT_EQ(table.sender.connection.send_message(Channel::reliable, as_bytes(std::string(300, 'm'))),
              SendResult::queued);
    (void)table.sender.connection.send_message(unordered(), as_bytes("small"));
    for (int i = 0; i < 20 && table.receiver.messages.size() < 2; ++i) table.tick();
    EXPECT_EQ(table.receiver.messages.size(), 2u);
    EXPECT_GT(table.sender.wire.bytes, sent_at_once);
    table.run(100);
    ASSERT_EQ(table.receiver.payloads.size(), 1u);
    EXPECT_EQ(table.receiver.payloads[0].second.size(), kMaxLargePayloadBytes);
}

TEST(LargePayload, LostFragmentsAreSentAgain) {
    PayloadTable table;
    const std::uint64_t number = table.send(kMaxLargePayloadBytes);
    const std::string sent = table.sent;
    auto burst = table.sender.take();
    ASSERT_GT(burst.size(), 5u);
    burst.erase(burst.begin());  // the first fragment, which gave the payload its number
    burst.erase(burst.begin() + 2);
    for (const auto& bytes : burst) table.receiver.feed(bytes, table.now);
    for (int i = 0; i < 100 && table.sender.fates.empty(); ++i) table.tick();
    ASSERT_EQ(table.sender.fates.size(), 1u);
    EXPECT_TRUE(table.sender.fates[0].delivered);
    EXPECT_EQ(table.sender.fates[0].number, number);
    ASSERT_EQ(table.receiver.payloads.size(), 1u);
    EXPECT_EQ(table.receiver.payloads[0], std::pair(number, sent));
    EXPECT_LT(table.sender.wire.bytes, kMaxLargePayloadBytes + 10'000) << "the others are sent once";
    EXPECT_NE(table.send(5'000), 0u) << "another large one can be sent";
}

// Goal: a payload ends after one fragment was lost kMaxFragmentSends times.
// Method: the test says the fates; other fragments are acknowledged.
TEST(LargePayload, IsLostIfOneFragmentIsLostEachTime) {
    OutgoingPayload outgoing;
    const std::string text = noise(3'000, 1);
    outgoing.start(as_bytes(text), 100);
    std::uint64_t packet = 100;
    for (unsigned index = 0; index < 3; ++index) EXPECT_EQ(outgoing.take(packet++).fragment.index, index);
    EXPECT_FALSE(outgoing.is_leaving());
    EXPECT_FALSE(outgoing.on_fate(100, 0, true, 1ms));
    for (int lost = 1; lost < int(kMaxFragmentSends); ++lost) {
        ASSERT_FALSE(outgoing.on_fate(100, 1, false, 0ms));
        ASSERT_TRUE(is_consistent(outgoing));
        const auto piece = outgoing.take(packet++);
        EXPECT_EQ(piece.fragment.index, 1);
        EXPECT_EQ(piece.fragment.distance, packet - 1 - 100);
        EXPECT_EQ(as_text(piece.bytes), text.substr(kFragmentBytes, kFragmentBytes));
    }
    const std::optional<PacketFate> fate = outgoing.on_fate(100, 1, false, 0ms);
    ASSERT_TRUE(fate);
    EXPECT_FALSE(fate->delivered);
    EXPECT_EQ(fate->number, 100u);
    EXPECT_FALSE(outgoing.is_open());
    EXPECT_FALSE(outgoing.on_fate(100, 2, true, 1ms)) << "it has one fate";
    outgoing.start(as_bytes(text), 200);
    EXPECT_FALSE(outgoing.on_fate(100, 2, true, 1ms)) << "of a fragment of the former payload";
    EXPECT_TRUE(is_consistent(outgoing));
}

/// Delivers the fragments in the positions of `order`; after that the path has no faults.
void arrive_in(PayloadTable& table, const std::vector<std::vector<std::byte>>& packets,
               const std::vector<std::size_t>& order) {
    for (const std::size_t at : order) table.receiver.feed(packets[at], table.now);
    table.run(200);
}

// Goal: delivered if and only if the handler got the complete payload and accepted it; reported exactly once.
// Method: a payload of four fragments; each order, each subset lost at first, each verdict; all packets
// arrive twice.
TEST(LargePayload, HasTheRightFateOnceInEachOrderOfArrivalLossAndVerdict) {
    std::vector<std::size_t> order = {0, 1, 2, 3};
    do {
        for (unsigned lost = 0; lost < 16; ++lost) {
            for (const bool is_refused : {false, true}) {
                PayloadTable table(65'534);
                if (is_refused) table.receiver.withhold = [](std::uint64_t) { return true; };
                const std::uint64_t number = table.send(3 * kFragmentBytes + 1);
                const auto packets = table.sender.take();
                ASSERT_EQ(packets.size(), 4u);
                std::vector<std::size_t> arriving;
                for (const std::size_t at : order)
                    if (!(lost >> at & 1)) arriving.insert(arriving.end(), {at, at});
                arrive_in(table, packets, arriving);
                ASSERT_EQ(table.receiver.payloads.size(), 1u);
                ASSERT_EQ(table.sender.fates.size(), 1u);
                ASSERT_EQ(table.sender.fates[0].number, number);
                ASSERT_EQ(table.sender.fates[0].delivered, !is_refused);
                ASSERT_EQ(table.receiver.payloads[0], std::pair(number, table.sent));
                ASSERT_EQ(table.receiver.connection.stats().payloads_withheld, is_refused);
                if (is_refused) {
                    ASSERT_GE(table.receiver.connection.stats().fragments_outdated, kMaxFragmentSends - 2u);
                }
                ASSERT_TRUE(table.sender.connection.is_open() && table.receiver.connection.is_open());
            }
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

// Goal: a newer large payload ends an incomplete older one; nothing of the older one is acknowledged any
// more. Method: two payloads of two fragments in each order of arrival; expected results are listed by hand.
TEST(LargePayload, IsReplacedByANewerOneInEachOrderOfArrival) {
    std::vector<std::size_t> order = {0, 1, 2, 3};
    int superseded = 0;
    do {
        const Written older_first(100, 100, 0, false, kFragmentBytes), older_last(101, 100, 1, true, 50);
        const Written newer_first(200, 200, 0, false, kFragmentBytes), newer_last(201, 200, 1, true, 60);
        const Written* const packets[] = {&older_first, &older_last, &newer_first, &newer_last};
        IncomingPayload incoming;
        ConnectionStats stats;
        std::vector<std::uint64_t> complete;
        std::size_t kept = 0;
        for (const std::size_t at : order) {
            ASSERT_TRUE(incoming.plausible(packets[at]->packet, 1));
            const IncomingPayload::Arrival arrival = incoming.arrive(packets[at]->packet, stats);
            kept += arrival != IncomingPayload::Arrival::outdated;
            if (arrival != IncomingPayload::Arrival::complete) continue;
            complete.push_back(incoming.number());
            EXPECT_EQ(incoming.whole().size(), kFragmentBytes + (incoming.number() == 100 ? 50 : 60));
            incoming.finish(true);
        }
        const auto at = [&](std::size_t packet) {
            return std::find(order.begin(), order.end(), packet) - order.begin();
        };
        const bool older_is_whole = std::max(at(0), at(1)) < std::min(at(2), at(3));
        const bool older_has_begun = std::min(at(0), at(1)) < std::min(at(2), at(3));
        ASSERT_EQ(complete.size(), older_is_whole ? 2u : 1u);
        EXPECT_EQ(complete.back(), 200u);
        EXPECT_EQ(kept, older_is_whole ? 4u : older_has_begun ? 3u : 2u);
        EXPECT_EQ(stats.payloads_superseded, older_has_begun && !older_is_whole ? 1u : 0u);
        EXPECT_EQ(stats.fragments_outdated, 4 - kept);
        superseded += older_has_begun && !older_is_whole;
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_GT(superseded, 3);
}

TEST(LargePayload, AFragmentThatArrivesAgainIsAcknowledgedUnlessThePayloadWasRefused) {
    for (const bool is_accepted : {true, false}) {
        IncomingPayload incoming;
        ConnectionStats stats;
        const Written first(100, 100, 0, false, kFragmentBytes), again(105, 100, 0, false, kFragmentBytes);
        const Written last(101, 100, 1, true, 50), last_again(106, 100, 1, true, 50);
        EXPECT_EQ(incoming.arrive(first.packet, stats), IncomingPayload::Arrival::kept);
        ASSERT_TRUE(incoming.plausible(again.packet, 1));
        EXPECT_EQ(incoming.arrive(again.packet, stats), IncomingPayload::Arrival::kept);
        EXPECT_EQ(incoming.whole().size(), kFragmentBytes);
        EXPECT_EQ(incoming.arrive(last.packet, stats), IncomingPayload::Arrival::complete);
        EXPECT_EQ(incoming.whole().size(), kFragmentBytes + 50);
        incoming.finish(is_accepted);
        for (const Written* late : {&again, &last_again}) {
            ASSERT_TRUE(incoming.plausible(late->packet, 1));
            EXPECT_EQ(incoming.arrive(late->packet, stats),
                      is_accepted ? IncomingPayload::Arrival::kept : IncomingPayload::Arrival::outdated);
        }
        EXPECT_EQ(stats.fragments_outdated, is_accepted ? 0u : 2u);
        EXPECT_TRUE(is_consistent(incoming));
    }
}

TEST(LargePayload, IsLostAtTheEndOfTheConnectionIfNotAllOfItWasSent) {
    PayloadTable table;
    table.send(kMaxLargePayloadBytes, 9);
    for (const auto& bytes : table.sender.take()) table.receiver.feed(bytes, table.now);
    table.receiver.connection.flush(table.now);
    for (const auto& bytes : table.receiver.take()) table.sender.feed(bytes, table.now + 1ms);
    EXPECT_EQ(table.sender.connection.stats().bytes_in_flight, 0u);
    EXPECT_TRUE(table.sender.fates.empty());
    table.sender.connection.close(DisconnectReason::kicked, "bye", true, table.now);
    ASSERT_EQ(table.sender.fates.size(), 1u);
    EXPECT_FALSE(table.sender.fates[0].delivered);
    EXPECT_EQ(table.sender.disconnects.size(), 1u);
    table.run(20);
    EXPECT_EQ(table.sender.fates.size(), 1u);
    EXPECT_TRUE(table.receiver.payloads.empty());
    EXPECT_EQ(table.receiver.disconnects.size(), 1u);
}

TEST(LargePayload, HandlerMayDisconnectInItsCallbacks) {
    struct Quitter : Recorder {
        bool on_payload(PeerId peer, std::uint64_t number, std::span<const std::byte> bytes,
                        Time now) override {
            connection->close(DisconnectReason::kicked, "enough", true, now);
            payloads.push_back({number, as_text(bytes)});  // still valid
            EXPECT_EQ(peer, PeerId{0x10000});
            return true;
        }
        void on_fate(PeerId peer, const PacketFate& fate) override {
            Recorder::on_fate(peer, fate);
            connection->close(DisconnectReason::kicked, "enough", true, 1001s);
        }
        Connection* connection = nullptr;
    };
    PayloadTable table;
    Quitter quitter;
    Connection receiver({}, PayloadSide::session(1, 1), PayloadSide::cipher(false), quitter,
                        table.receiver.wire, 1000s);
    quitter.connection = &receiver;
    receiver.announce();
    table.send(3'000);
    for (const auto& bytes : table.sender.take()) {
        Packet packet;
        if (receiver.open(bytes, packet, 1000s) == Connection::Arrival::fresh) receiver.apply(packet, 1000s);
    }
    EXPECT_FALSE(receiver.is_open());
    ASSERT_EQ(quitter.payloads.size(), 1u);
    EXPECT_EQ(quitter.payloads[0].second, table.sent);

    // The handler disconnects in the fate of one payload; the other fate is reported, too, once.
    Quitter sender_ear;
    Connection sender({}, PayloadSide::session(1, 1), PayloadSide::cipher(true), sender_ear,
                      table.sender.wire, 1000s);
    sender_ear.connection = &sender;
    sender.announce();
    const std::string text(3'000, 'x');
    ASSERT_NE(send(sender_ear, sender, as_bytes(text), 1000s), 0u);
    ASSERT_NE(send(sender_ear, sender, as_bytes("small"), 1000s), 0u);
    sender.update(1002s);
    EXPECT_FALSE(sender.is_open());
    EXPECT_EQ(sender_ear.fates.size(), 2u);
    EXPECT_EQ(sender_ear.disconnects.size(), 1u);
}

// The peer sends packets but acknowledges nothing, and the acks for it use up the packet numbers.
TEST(LargePayload, IsLostIfItCannotContinue) {
    OutgoingPayload outgoing;
    const std::string text = noise(kMaxLargePayloadBytes, 1);
    outgoing.start(as_bytes(text), 100);
    (void)outgoing.take(100);
    EXPECT_FALSE(outgoing.on_fate(100, 0, true, 1ms)) << "not all of it was sent";
    EXPECT_TRUE(outgoing.can_continue(100 + kMaxFragmentDistance));
    EXPECT_FALSE(outgoing.update(100 + kMaxFragmentDistance));
    EXPECT_FALSE(outgoing.can_continue(101 + kMaxFragmentDistance));
    const std::optional<PacketFate> fate = outgoing.update(101 + kMaxFragmentDistance);
    ASSERT_TRUE(fate);
    EXPECT_EQ(fate->number, 100u);
    EXPECT_FALSE(fate->delivered);
    EXPECT_FALSE(outgoing.is_leaving());
    EXPECT_FALSE(outgoing.lose()) << "it is reported once";

    PayloadTable table;
    const std::uint64_t number = table.send(kMaxLargePayloadBytes);
    const auto& stats = table.sender.connection.stats();
    while (1 + stats.packets_sent <= number + kMaxFragmentDistance) {
        for (const auto& bytes : table.sender.take()) table.receiver.feed(bytes, table.now);
        for (int i = 0; i < 2; ++i) table.receiver.connection.ping(table.now);
        for (const auto& bytes : table.receiver.take()) table.sender.feed(bytes, table.now);
        table.sender.connection.flush(table.now);
    }
    EXPECT_EQ(table.sender.connection.stats().bytes_in_flight, 0u);
    EXPECT_TRUE(table.sender.fates.empty());
    table.run(20);
    ASSERT_EQ(table.sender.fates.size(), 1u);
    EXPECT_FALSE(table.sender.fates[0].delivered);
    EXPECT_NE(table.send(10), 0u);
}

TEST(LargePayload, LastFragmentMayBeAsFarAsTheFormatAllows) {
    for (const bool is_too_far : {false, true}) {
        SCOPED_TRACE(is_too_far);
        PayloadTable longer;
        const std::uint64_t number = longer.send(kMaxLargePayloadBytes);
        const std::size_t fragments = longer.sender.connection.stats().packets_sent;  // in the first burst
        PayloadTable table;
        const auto& stats = table.sender.connection.stats();
        ASSERT_EQ(table.send(fragments * kFragmentBytes + 1), number);
        ASSERT_EQ(stats.packets_sent, fragments) << "one fragment must be left";
        const std::uint64_t last = number + kMaxFragmentDistance + is_too_far;
        while (1 + stats.packets_sent < last) {  // packets with acks use up the numbers
            for (const auto& bytes : table.sender.take()) table.receiver.feed(bytes, table.now);
            for (int i = 0; i < 2; ++i) table.receiver.connection.ping(table.now);
            for (const auto& bytes : table.receiver.take()) table.sender.feed(bytes, table.now);
            table.sender.connection.flush(table.now);
        }
        ASSERT_EQ(1 + stats.packets_sent, last);
        EXPECT_TRUE(table.sender.fates.empty());
        table.run(20);
        ASSERT_EQ(table.sender.fates.size(), 1u);
        EXPECT_EQ(table.sender.fates[0].number, number);
        EXPECT_EQ(table.sender.fates[0].delivered, !is_too_far);
        ASSERT_EQ(table.receiver.payloads.size(), is_too_far ? 0u : 1u);
        for (const auto& payload : table.receiver.payloads) EXPECT_EQ(payload, std::pair(number, table.sent));
    }
}

// Goal: memory grows with the bytes received, not with the size that a fragment states; nothing accumulates.
// Method: all fragments, the last first, with one byte; then thousands of payloads that never become
// complete.
TEST(LargePayload, MemoryGrowsWithBytesReceived) {
    IncomingPayload incoming;
    ConnectionStats stats;
    std::size_t received = 0;
    for (unsigned index = kMaxFragments; index-- > 1;) {
        const bool is_last = index + 1 == kMaxFragments;
        const Written written(1'000 + index, 1'000, index, is_last, is_last ? 1 : kFragmentBytes);
        ASSERT_TRUE(incoming.plausible(written.packet, 1));
        ASSERT_EQ(incoming.arrive(written.packet, stats), IncomingPayload::Arrival::kept);
        received += written.bytes.size();
        ASSERT_LE(Consistency::capacity_bytes(incoming), 2 * received);
    }
    std::uint64_t number = 2'000;
    for (int payload = 0; payload < 5'000; ++payload, number += 100) {
        for (unsigned index = 0; index < 20; ++index) {
            const Written written(number + index, number, index, false, kFragmentBytes);
            ASSERT_TRUE(incoming.plausible(written.packet, 1));
            ASSERT_EQ(incoming.arrive(written.packet, stats), IncomingPayload::Arrival::kept);
            ASSERT_LE(Consistency::capacity_bytes(incoming), 2 * kMaxLargePayloadBytes);
        }
    }
    EXPECT_EQ(stats.payloads_superseded, 5'000u);
    EXPECT_EQ(stats.fragments_outdated, 0u);
}

TEST(LargePayload, FragmentsThatContradictEachOtherAreRefused) {
    constexpr std::size_t kFull = kFragmentBytes;
    struct Step {
        unsigned index;
        bool is_last;
        std::size_t size;
    };
    struct Case {
        std::vector<Step> good;
        Step bad;
    };
    const std::vector<Case> cases = {
        {{{3, true, 9}}, {3, true, 8}},                         // the same with another size
        {{{3, true, kFull}, {0, false, kFull}}, {3, true, 9}},  // the same with another size
        {{{3, true, kFull}}, {3, false, kFull}},                // the same, but not the last one any more
        {{{3, false, kFull}}, {3, true, kFull}},                // the same, but now the last one
        {{{3, true, 9}}, {4, false, kFull}},                    // one after the last
        {{{3, true, 9}}, {5, true, 9}},                         // a second last
        {{{3, true, 9}, {1, false, kFull}}, {2, true, 9}},      // a second last, before the first
        {{{5, false, kFull}}, {3, true, 9}},                    // a last one before one that arrived
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
        SCOPED_TRACE(i);
        const Case& now = cases[i];
        IncomingPayload incoming;
        ConnectionStats stats;
        std::uint64_t number = 500;
        for (const Step& step : now.good) {
            const Written written(number++, 490, step.index, step.is_last, step.size);
            ASSERT_TRUE(incoming.plausible(written.packet, 1));
            ASSERT_EQ(incoming.arrive(written.packet, stats), IncomingPayload::Arrival::kept);
        }
        const Written written(number, 490, now.bad.index, now.bad.is_last, now.bad.size);
        EXPECT_FALSE(incoming.plausible(written.packet, 1));
        const Written newer(number + 200, number + 100, now.bad.index, now.bad.is_last, now.bad.size);
        EXPECT_TRUE(incoming.plausible(newer.packet, 1)) << "it is valid for another payload";
    }
    const Written early(500, 499, 1, false, kFull);
    EXPECT_TRUE(IncomingPayload().plausible(early.packet, 499));
    EXPECT_FALSE(IncomingPayload().plausible(early.packet, 500)) << "it begins before the first packet";
}

// Goal: whatever fragments arrive, no payload is delivered twice or incomplete.
// Method: random fragments of few payloads, some with other sizes and indices; the model stores all of them.
TEST(LargePayload, SurvivesRandomAuthenticFragments) {
    std::mt19937_64 random(11);
    int whole = 0, ended = 0;
    for (int round = 0; round < 3'000; ++round) {
        PayloadSide side(false, 1, 1);
        std::set<std::uint64_t> heard;
        for (std::uint64_t number = 1; number <= 40 && side.connection.is_open(); ++number) {
            std::array<std::byte, kMaxDatagramBytes> buffer;
            ByteWriter out(buffer);
            write_envelope(out, PacketKind::data, false, std::nullopt, number, 1);
            const std::size_t header_bytes = out.size();
            const unsigned index = random() % 16 == 0 ? unsigned(random() % 64) : unsigned(number - 1) % 3;
            const bool is_last = (index == 2) != (random() % 16 == 0);
            out.u8(10);
            out.u8(index | (is_last ? 128u : 0u));
            out.u8(index + (random() % 16 == 0 ? 1u : 0u));
            const bool is_any_size = is_last || random() % 128 == 0;
            const std::string bytes = noise(is_any_size ? random() % 1'100 : kFragmentBytes, number);
            out.bytes(as_bytes(bytes));
            PayloadSide::cipher(true).seal(number, out.append(kInsecureTagBytes), header_bytes);
            side.feed({out.written().begin(), out.written().end()}, 1000s);
        }
        for (const auto& payload : side.payloads) {
            ASSERT_TRUE(heard.insert(payload.first).second) << "delivered twice";
            ASSERT_LE(payload.second.size(), kMaxLargePayloadBytes);
            whole += 1;
        }
        ended += !side.connection.is_open();
        if (!side.connection.is_open()) {
            ASSERT_EQ(side.last_reason, DisconnectReason::protocol_error);
        }
    }
    EXPECT_GT(whole, 500);
    EXPECT_GT(ended, 500);
}

}  // namespace
}  // namespace shoal::net::impl
