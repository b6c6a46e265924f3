#include "replication/codec/state_packet.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "tests/replication/support/bits.h"

namespace shoal::replication::impl {
namespace {

std::vector<StateHeader> headers() {
    std::vector<StateHeader> all;
    for (const Tick tick : {0u, 1u, 0xffffffffu, 0x80000000u})
        for (const std::uint32_t distance : {0u, 1u, 2u, 255u})
            for (const Tick age : {0u, 1u, 37u, 0xffffffffu})
                for (const std::uint32_t count : {0u, 1u, 300u}) {
                    StateHeader header;
                    header.tick = tick;
                    header.record_count = count;
                    all.push_back(header);
                    header.complete = {distance, distance - distance / 3, age};
                    all.push_back(header);
                    if (distance == 0) continue;
                    header.anchor = {distance, age};
                    all.push_back(header);
                    header.complete.reset();
                    all.push_back(header);
                }
    return all;
}

TEST(StateHeader, OfASchemaThatPredictsHasAGroupMarkerUnlessItIsImplied) {
    for (const StateHeader& plain : headers())
        for (const std::uint32_t distance : {0u, 1u, 255u, 999u}) {
            const std::size_t without = write_state_header(plain, nullptr);
            StateHeader header = plain;
            header.predicts = true;
            header.group.reset();
            if (distance <= kMaxPacketDistance) header.group = StateHeader::Group{distance, distance / 2};
            BitWriter out;
            const std::size_t bits = write_state_header(header, &out);
            const unsigned needed = distance > kMaxPacketDistance ? 0
                                    : distance == 0               ? golomb_bits(0, 2)
                                                    : golomb_bits(distance, 2) + golomb_bits(distance / 2, 0);
            EXPECT_EQ(bits, without + (header.complete ? 0 : 1 + needed));
            const auto bytes = bytes_of(out);
            BitReader in(bytes);
            const StateHeader read = read_state_header(in, true);
            ASSERT_TRUE(in.at_padding());
            EXPECT_EQ(read.record_count, header.record_count);
            ASSERT_EQ(read.group.has_value(), header.complete || header.group);
            if (!read.group) continue;
            EXPECT_EQ(read.group->distance, header.complete ? header.complete->distance : distance);
            EXPECT_EQ(read.group->others, header.complete ? header.complete->others : distance / 2);
        }
}

TEST(StateHeader, OfASchemaWithAnInputHasAMargin) {
    for (const std::int32_t eighths : {0, 1, -1, 300, 0x7fffffff, std::numeric_limits<std::int32_t>::min()})
        for (const bool is_late : {false, true})
            for (StateHeader header : headers()) {
                const std::size_t without = write_state_header(header, nullptr);
                header.has_inputs = true;
                EXPECT_EQ(write_state_header(header, nullptr), without + 1);
                header.margin = StateHeader::Margin{200, eighths, is_late};
                BitWriter out;
                EXPECT_EQ(write_state_header(header, &out),
                          without + 10 + golomb_bits(zigzag(static_cast<std::uint32_t>(eighths)), 4));
                const auto bytes = bytes_of(out);
                BitReader in(bytes);
                const StateHeader read = read_state_header(in, false, true);
                ASSERT_TRUE(in.at_padding() && read.margin);
                EXPECT_EQ(read.margin->packet, 200);
                EXPECT_EQ(read.margin->eighths, eighths);
                EXPECT_EQ(read.margin->is_late, is_late);
                EXPECT_EQ(read.record_count, header.record_count);
            }
}

TEST(StateHeader, IsReadBackAndTakesTheStatedNumberOfBits) {
    for (const StateHeader& header : headers()) {
        BitWriter out;
        const std::size_t bits = write_state_header(header, &out);
        EXPECT_EQ(bits, out.bit_count());
        EXPECT_EQ(write_state_header(header, nullptr), out.bit_count());
        const auto bytes = bytes_of(out);
        BitReader in(bytes);
        const StateHeader read = read_state_header(in);
        ASSERT_TRUE(in.at_padding());
        EXPECT_EQ(read.record_count, header.record_count);
        ASSERT_EQ(read.anchor.has_value(), header.anchor.has_value());
        if (header.anchor) {
            EXPECT_EQ(read.anchor->distance, header.anchor->distance);
            EXPECT_EQ(read.anchor->age, header.anchor->age);
            EXPECT_EQ(read.anchor->older, header.anchor->older);
        } else {
            EXPECT_EQ(read.tick, header.tick);
        }
        ASSERT_EQ(read.complete.has_value(), header.complete.has_value());
        if (header.complete) {
            EXPECT_EQ(read.complete->distance, header.complete->distance);
            EXPECT_EQ(read.complete->others, header.complete->others);
            EXPECT_EQ(read.complete->quiet, header.complete->quiet);
        }
    }
}

TEST(StateHeader, ReturnsItsOwnBitsWhereverItIsWritten) {
    for (const StateHeader& header : headers())
        for (const unsigned before : {0u, 1u, 63u, 64u}) {
            BitWriter out;
            out.write(0, before);
            const std::size_t bits = write_state_header(header, &out);
            EXPECT_EQ(bits, write_state_header(header, nullptr));
            EXPECT_EQ(out.bit_count(), before + bits);
            RecordHeaderCoder writer(header), counter(header);
            for (const std::uint32_t slot : {0u, 3u, 900u}) {
                const RecordHeader record{slot, RecordKind::full, 0, slot + 1};
                const std::size_t start = out.bit_count(), taken = writer.write(record, &out);
                EXPECT_EQ(out.bit_count(), start + taken);
                EXPECT_EQ(counter.write(record, nullptr), taken);
            }
        }
}

TEST(StateHeader, EveryTruncatedPrefixFails) {
    for (const StateHeader& header : headers()) {
        BitWriter out;
        write_state_header(header, &out);
        const auto whole = bytes_of(out);
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const std::unique_ptr<std::byte[]> exact(new std::byte[size]);
            std::copy_n(whole.data(), size, exact.get());
            BitReader in({exact.get(), size});
            read_state_header(in);
            ASSERT_FALSE(in.ok());
        }
    }
}

TEST(StateHeader, DistancesBeyondTheLimitAreRefused) {
    for (const bool anchor : {true, false}) {
        StateHeader header;
        if (anchor) header.anchor = {kMaxPacketDistance + 1, 0};
        if (!anchor) header.complete = {kMaxPacketDistance + 1, 0, 0};
        BitWriter out;
        write_state_header(header, &out);
        const auto bytes = bytes_of(out);
        BitReader in(bytes);
        read_state_header(in);
        EXPECT_FALSE(in.ok());
    }
}

TEST(StateHeader, TheAnchorDistanceOfExtensionsIsRefused) {
    for (const std::uint32_t code : {kMaxPacketDistance - 1, kMaxPacketDistance}) {
        BitWriter out;
        out.write_bool(true);
        out.write_golomb(code, 2);  // the distance minus 1
        out.write_golomb(0, 0);     // the age is equal to the distance
        out.write_golomb(0, 0);     // older
        out.write_bool(false);      // not listed
        out.write_bool(false);
        out.write_golomb(0, 3);
        out.write_bool(false);  // bits
        const auto bytes = bytes_of(out);
        BitReader in(bytes);
        const StateHeader header = read_state_header(in);
        ASSERT_EQ(in.at_padding(), code < kMaxPacketDistance);
        if (in.ok()) {
            EXPECT_EQ(header.anchor->distance, kMaxPacketDistance);
            EXPECT_EQ(header.anchor->age, kMaxPacketDistance);
        }
    }
}

TEST(StateHeader, AnAnchorThatIsThePacketItselfIsRefused) {
    for (const std::uint32_t distance_minus_1 : {0u, 254u, 255u, 0xfffffffeu, 0xffffffffu}) {
        BitWriter out;
        out.write_bool(true);
        out.write_golomb(distance_minus_1, 2);
        out.write(0, 64);
        const auto bytes = bytes_of(out);
        BitReader in(bytes);
        read_state_header(in);
        EXPECT_EQ(in.ok(), distance_minus_1 < kMaxPacketDistance) << distance_minus_1;
    }
}

TEST(StateHeader, AnAnchorAsOldAsItIsFarTakesOneBitForItsAge) {
    for (const std::uint32_t distance : {1u, 4u, kMaxPacketDistance}) {
        StateHeader header;
        header.anchor = {distance, distance};
        header.anchor->older = 2;
        // anchored, distance, age, older, listed, complete, count, coding
        EXPECT_EQ(write_state_header(header, nullptr), 1 + golomb_bits(distance - 1, 2) + 1 + 2 + 1 + 5);
        header.anchor->age = distance - 1;
        EXPECT_EQ(write_state_header(header, nullptr), 1 + golomb_bits(distance - 1, 2) + 3 + 2 + 1 + 5);
    }
}

TEST(StateHeader, MorePacketsWithoutStateThanThereArePacketsAreRefused) {
    for (const std::uint32_t others : {4u, 5u, 0xffffffffu}) {
        StateHeader header;
        header.complete = {4, others, 0};
        BitWriter out;
        write_state_header(header, &out);
        const auto bytes = bytes_of(out);
        BitReader in(bytes);
        read_state_header(in);
        EXPECT_EQ(in.ok(), others == 4) << others;
    }
}

std::vector<RecordHeader> random_records(std::mt19937& random, Tick tick, std::optional<Tick> anchor_tick) {
    std::vector<RecordHeader> records;
    std::uint32_t slot = 0;
    for (std::size_t i = random() % 12; i > 0; --i) {
        RecordHeader record;
        slot += static_cast<std::uint32_t>(random() % (random() % 4 == 0 ? 5'000 : 2));
        record.slot = slot++;
        record.kind = static_cast<RecordKind>(random() % 3);
        if (record.kind == RecordKind::delta)
            record.baseline = anchor_tick && random() % 2 == 0 ? *anchor_tick
                                                               : tick - 1 - static_cast<Tick>(random() % 100);
        if (record.kind == RecordKind::full)
            record.net_id =
                1 + static_cast<std::uint32_t>(random() % (random() % 2 == 0 ? 0xfdfffffeu : 50u));
        if (record.kind == RecordKind::full && random() % 4 == 0)
            record.pending = static_cast<std::uint32_t>(random() % 1'000);
        if (record.kind == RecordKind::despawn) record.reason = static_cast<Despawn>(random() % 3);
        records.push_back(record);
    }
    return records;
}

TEST(RecordHeader, IsReadBackAlsoAcrossTheTickWraparound) {
    std::mt19937 random(1);
    for (int round = 0; round < 20'000; ++round) {
        StateHeader header;
        header.tick = static_cast<Tick>(random() % 40) - 20;
        std::optional<Tick> anchor_tick;
        if (random() % 2 == 0) {
            header.anchor = {1, static_cast<Tick>(random() % 40)};
            anchor_tick = header.tick - header.anchor->age;
        }
        const std::vector<RecordHeader> records = random_records(random, header.tick, anchor_tick);
        BitWriter out;
        RecordHeaderCoder writer(header), counter(header);
        for (const RecordHeader& record : records) {
            const std::size_t before = out.bit_count();
            const std::size_t bits = writer.write(record, &out);
            ASSERT_EQ(bits, out.bit_count() - before);
            ASSERT_EQ(counter.write(record, nullptr), bits);
        }
        const auto bytes = bytes_of(out);
        BitReader in(bytes);
        RecordHeaderCoder reader(header.tick, anchor_tick);
        for (const RecordHeader& record : records) {
            const RecordHeader read = reader.read(in);
            ASSERT_TRUE(in.ok());
            ASSERT_EQ(read.slot, record.slot);
            ASSERT_EQ(read.kind, record.kind);
            ASSERT_EQ(read.baseline, record.baseline);
            ASSERT_EQ(read.net_id, record.net_id);
            ASSERT_EQ(read.pending, record.pending);
            ASSERT_EQ(read.reason, record.reason);
        }
    }
}

/// Writes a record header and reads it back. Returns nothing if it is refused.
std::optional<RecordHeader> written_and_read(const RecordHeader& record) {
    BitWriter out;
    RecordHeaderCoder(StateHeader{}).write(record, &out);
    const auto bytes = bytes_of(out);
    BitReader in(bytes);
    const RecordHeader read = RecordHeaderCoder(0, std::nullopt).read(in);
    return in.at_padding() ? std::optional(read) : std::nullopt;
}

TEST(RecordHeader, ADespawnRecordSaysWhyInTwoBits) {
    for (const Despawn reason : {Despawn::destroyed, Despawn::left, Despawn::out_of_view}) {
        RecordHeader record;
        record.kind = RecordKind::despawn;
        record.reason = reason;
        EXPECT_EQ(RecordHeaderCoder(StateHeader{}).write(record, nullptr), 2u + 3 + 2);  // gap, kind, reason
        const std::optional<RecordHeader> read = written_and_read(record);
        ASSERT_TRUE(read);
        EXPECT_EQ(read->kind, RecordKind::despawn);
        EXPECT_EQ(read->reason, reason);
    }
    RecordHeader reserved;
    reserved.kind = RecordKind::despawn;
    reserved.reason = static_cast<Despawn>(3);
    EXPECT_FALSE(written_and_read(reserved));
}

TEST(RecordHeader, AFullRecordNamesThePendingIdOrTakesOneBit) {
    for (const std::uint32_t pending : {0u, 1u, 255u, 256u, 0xffffffu}) {
        RecordHeader record;
        record.kind = RecordKind::full;
        record.net_id = 9;
        record.pending = pending;
        const std::size_t bits = 2 + 3 + 32 + 1 + (pending == 0 ? 0 : golomb_bits(pending, 8));
        EXPECT_EQ(RecordHeaderCoder(StateHeader{}).write(record, nullptr), bits);
        const std::optional<RecordHeader> read = written_and_read(record);
        ASSERT_TRUE(read) << pending;
        EXPECT_EQ(read->net_id, 9u);
        EXPECT_EQ(read->pending, pending);
    }
    RecordHeader record;
    record.kind = RecordKind::full;
    record.net_id = 9;
    record.pending = 0x1000000;
    EXPECT_FALSE(written_and_read(record)) << "there is no such pending id";
    record.pending = 0;
    for (const std::uint32_t net_id : {0xfe000000u, 0xfeffffffu}) {
        record.net_id = net_id;
        EXPECT_FALSE(written_and_read(record)) << "a pending id is no net id";
    }
    BitWriter none;  // the bit says that there is an id, and the id is 0
    none.write_golomb(0, 1);
    none.write(0b100, 3);
    none.write(9, 32);
    none.write_bool(true);
    none.write_golomb(0, 8);
    const auto bytes = bytes_of(none);
    BitReader in(bytes);
    RecordHeaderCoder(0, std::nullopt).read(in);
    EXPECT_FALSE(in.ok());
}

TEST(RecordHeader, ABaselineLikeTheLastOneWithoutTheAnchorTakesOneBit) {
    StateHeader header;
    header.tick = 100;
    header.anchor = {3, 3};
    const Tick anchor = 97;
    const std::vector<std::pair<Tick, std::size_t>> baselines = {
        {90, 2 + 2 + golomb_bits(9, 5) + 2},      // the first one: the age minus 1, and older
        {anchor, 2 + 1},                          // does not count
        {90, 2 + 2 + 1},                          // like the last one
        {91, 2 + 2 + 1 + golomb_bits(8, 5) + 2},  // another one
        {91, 2 + 2 + 1},
        {90, 2 + 2 + 1 + golomb_bits(9, 5) + 2}};
    BitWriter out;
    RecordHeaderCoder writer(header);
    for (std::uint32_t slot = 0; slot < baselines.size(); ++slot)
        EXPECT_EQ(writer.write({slot, RecordKind::delta, baselines[slot].first, 0}, &out),
                  baselines[slot].second)
            << slot;
    const auto bytes = bytes_of(out);
    BitReader in(bytes);
    RecordHeaderCoder reader(header.tick, anchor);
    for (const auto& [baseline, bits] : baselines) EXPECT_EQ(reader.read(in).baseline, baseline);
    EXPECT_TRUE(in.at_padding());
}

TEST(RecordHeader, NetIdZeroAndMissingAnchorsAreRefused) {
    BitWriter zero;
    RecordHeaderCoder(StateHeader{}).write({0, RecordKind::full, 0, 0}, &zero);
    const auto first = bytes_of(zero);
    BitReader in(first);
    RecordHeaderCoder(5, std::nullopt).read(in);
    EXPECT_FALSE(in.ok());

    StateHeader anchored;
    anchored.tick = 9;
    anchored.anchor = {1, 4};
    BitWriter delta;
    RecordHeaderCoder(anchored).write({0, RecordKind::delta, 5, 0}, &delta);
    const auto second = bytes_of(delta);
    BitReader without(second);
    RecordHeaderCoder(9, std::nullopt).read(without);
    EXPECT_FALSE(without.ok()) << "a delta based on a missing anchor";
}

TEST(RecordHeader, SlotsBeyond32BitsAreRefused) {
    BitWriter out;
    for (int i = 0; i < 2; ++i) {  // two gaps whose sum is larger
        out.write_golomb(0xfffffff0u, 1);
        out.write(0b00000, 5);  // despawn record: destroyed
    }
    const auto bytes = bytes_of(out);
    BitReader in(bytes);
    RecordHeaderCoder reader(5, std::nullopt);
    reader.read(in);
    ASSERT_TRUE(in.ok());
    reader.read(in);
    EXPECT_FALSE(in.ok());
}

TEST(RecordHeader, TheLastNumberOf32BitsIsNoSlot) {
    for (const std::uint32_t slot : {0xfffffffeu, 0xffffffffu}) {
        BitWriter out;
        out.write_golomb(slot, 1);
        out.write(0b00000, 5);  // despawn record: destroyed
        const auto bytes = bytes_of(out);
        BitReader in(bytes);
        RecordHeaderCoder(5, std::nullopt).read(in);
        EXPECT_EQ(in.ok(), slot == 0xfffffffe);
    }
}

}  // namespace
}  // namespace shoal::replication::impl
