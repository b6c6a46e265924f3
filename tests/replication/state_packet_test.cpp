#include "replication/codec/state_packet.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "tests/replication/support/bits.h"

namespace shoal::replication {
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
        if (record.kind == RecordKind::whole)
            record.net_id =
                1 + static_cast<std::uint32_t>(random() % (random() % 2 == 0 ? 0xfffffffeu : 50u));
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
        RecordHeaderWriter writer(header, &out), counter(header, nullptr);
        for (const RecordHeader& record : records) {
            const std::size_t before = out.bit_count();
            const std::size_t bits = writer.write(record);
            ASSERT_EQ(bits, out.bit_count() - before);
            ASSERT_EQ(counter.write(record), bits);
        }
        const auto bytes = bytes_of(out);
        BitReader in(bytes);
        RecordHeaderReader reader(header.tick, anchor_tick, in);
        for (const RecordHeader& record : records) {
            const RecordHeader read = reader.read();
            ASSERT_TRUE(in.ok());
            ASSERT_EQ(read.slot, record.slot);
            ASSERT_EQ(read.kind, record.kind);
            ASSERT_EQ(read.baseline, record.baseline);
            ASSERT_EQ(read.net_id, record.net_id);
        }
    }
}

TEST(RecordHeader, NetIdZeroAndMissingAnchorsAreRefused) {
    BitWriter zero;
    RecordHeaderWriter(StateHeader{}, &zero).write({0, RecordKind::whole, 0, 0});
    const auto first = bytes_of(zero);
    BitReader in(first);
    RecordHeaderReader(5, std::nullopt, in).read();
    EXPECT_FALSE(in.ok());

    StateHeader anchored;
    anchored.tick = 9;
    anchored.anchor = {1, 4};
    BitWriter delta;
    RecordHeaderWriter(anchored, &delta).write({0, RecordKind::delta, 5, 0});
    const auto second = bytes_of(delta);
    BitReader without(second);
    RecordHeaderReader(9, std::nullopt, without).read();
    EXPECT_FALSE(without.ok()) << "a delta based on a missing anchor";
}

TEST(RecordHeader, SlotsBeyond32BitsAreRefused) {
    BitWriter out;
    for (int i = 0; i < 2; ++i) {  // two gaps whose sum is larger
        out.write_golomb(0xfffffff0u, 1);
        out.write(0b000, 3);  // despawn record
    }
    const auto bytes = bytes_of(out);
    BitReader in(bytes);
    RecordHeaderReader reader(5, std::nullopt, in);
    reader.read();
    ASSERT_TRUE(in.ok());
    reader.read();
    EXPECT_FALSE(in.ok());
}

}  // namespace
}  // namespace shoal::replication
