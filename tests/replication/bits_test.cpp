#include "replication/codec/bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

namespace shoal::replication::impl {
namespace {

/// A copy in a buffer of exactly its size, so that a sanitizer reports reads beyond it.
struct Bytes {
    explicit Bytes(const BitWriter& out) : size(out.byte_count()), data(new std::byte[size]) {
        out.copy_to({data.get(), size});
    }
    Bytes(const Bytes& from, std::size_t prefix) : size(prefix), data(new std::byte[prefix]) {
        std::copy_n(from.data.get(), prefix, data.get());
    }
    std::span<const std::byte> span() const { return {data.get(), size}; }

    std::size_t size;
    std::unique_ptr<std::byte[]> data;
};

std::vector<std::uint32_t> boundary_values() {
    std::vector<std::uint32_t> values;
    for (unsigned bit = 0; bit < 32; ++bit)
        for (const std::uint32_t around : {0u, 1u, 2u}) values.push_back((1u << bit) - 1 + around);
    values.push_back(0xffffffff);
    values.push_back(0xfffffffe);
    return values;
}

TEST(BitWriter, EveryWidthReadsBackAtEveryOffset) {
    for (unsigned offset = 0; offset < 64; ++offset)
        for (unsigned bits = 0; bits <= 32; ++bits) {
            const std::uint32_t full = bits == 0 ? 0 : 0xffffffffu >> (32 - bits);
            for (const std::uint32_t value : {full, full / 2, full & 0x55555555u, 0u}) {
                BitWriter out;
                for (unsigned i = 0; i < offset; ++i) out.write_bool(i % 3 == 0);
                out.write(value, bits);
                out.write(5, 3);
                const Bytes bytes(out);
                BitReader in(bytes.span());
                for (unsigned i = 0; i < offset; ++i) ASSERT_EQ(in.read_bool(), i % 3 == 0);
                ASSERT_EQ(in.read(bits), value) << bits << " bits at " << offset;
                ASSERT_EQ(in.read(3), 5u);
                ASSERT_TRUE(in.ok());
                ASSERT_TRUE(in.at_padding());
            }
        }
}

TEST(BitWriter, WritesOf33To64BitsEqualTwoSmallerOnes) {
    const std::uint64_t pattern = 0x9e3779b97f4a7c15u;
    for (unsigned offset = 0; offset < 64; ++offset)
        for (unsigned bits = 33; bits <= 64; ++bits) {
            const std::uint64_t value = low_bits(pattern, bits);
            BitWriter once, twice;
            for (BitWriter* out : {&once, &twice})
                for (unsigned i = 0; i < offset; ++i) out->write_bool(i % 3 == 0);
            once.write(value, bits);
            twice.write(value & 0xffffffff, 32);
            twice.write(value >> 32, bits - 32);
            for (BitWriter* out : {&once, &twice}) out->write(1, 2);
            ASSERT_EQ(once.bit_count(), twice.bit_count());
            const Bytes a(once), b(twice);
            ASSERT_TRUE(std::equal(a.data.get(), a.data.get() + a.size, b.data.get()))
                << bits << " bits at " << offset;
        }
}

TEST(BitWriter, FirstBitIsTheLowestOfTheFirstByte) {
    BitWriter out;
    out.write(1, 1);
    out.write(0b101, 3);
    out.write(0xabc, 12);
    const Bytes bytes(out);
    ASSERT_EQ(bytes.size, 2u);
    EXPECT_EQ(bytes.data[0], std::byte{0xcb});
    EXPECT_EQ(bytes.data[1], std::byte{0xab});
}

TEST(BitWriter, ClearRemovesAllBits) {
    BitWriter out;
    for (int i = 0; i < 100; ++i) out.write(0xffffffff, 32);
    out.clear();
    EXPECT_EQ(out.bit_count(), 0u);
    for (int i = 0; i < 100; ++i) out.write(0, 31);
    const Bytes bytes(out);
    EXPECT_TRUE(std::all_of(bytes.data.get(), bytes.data.get() + bytes.size,
                            [](std::byte b) { return b == std::byte{0}; }));
}

TEST(BitWriter, AppendCopiesAnyRangeOfBits) {
    std::mt19937 random(1);
    BitWriter from;
    for (int i = 0; i < 40; ++i) from.write(static_cast<std::uint32_t>(random()), 32);
    const Bytes source(from);
    for (int round = 0; round < 2'000; ++round) {
        const std::size_t offset = random() % from.bit_count();
        const std::size_t bits = random() % (from.bit_count() - offset + 1);
        const unsigned before = static_cast<unsigned>(random() % 70);
        BitWriter out;
        for (unsigned i = 0; i < before; ++i) out.write_bool(true);
        out.append(from, offset, bits);
        ASSERT_EQ(out.bit_count(), before + bits);
        const Bytes bytes(out);
        BitReader in(bytes.span()), expected(source.span());
        for (unsigned i = 0; i < before; ++i) ASSERT_TRUE(in.read_bool());
        for (std::size_t i = 0; i < offset; ++i) expected.read_bool();
        for (std::size_t i = 0; i < bits; ++i)
            ASSERT_EQ(in.read_bool(), expected.read_bool()) << offset << " + " << i;
    }
}

TEST(BitReader, ReadsPastTheEndReturnZeroAndFailForGood) {
    const std::byte bytes[1] = {std::byte{0xff}};
    BitReader in(bytes);
    EXPECT_EQ(in.read(6), 63u);
    EXPECT_EQ(in.read(3), 0u);
    EXPECT_FALSE(in.ok());
    EXPECT_EQ(in.read(1), 0u);  // although two bits are left
    EXPECT_FALSE(in.at_padding());
}

TEST(BitReader, AfterFailEveryReadReturnsZero) {
    const std::byte bytes[2] = {std::byte{0xff}, std::byte{0xff}};
    for (const unsigned bits : {0u, 3u, 8u, 16u}) {
        BitReader in(bytes);
        in.read(bits);
        in.fail();
        EXPECT_FALSE(in.ok()) << "after " << bits << " bits";
        EXPECT_FALSE(in.at_padding());
        EXPECT_EQ(in.read(1), 0u);
        EXPECT_FALSE(in.read_bool());
        EXPECT_EQ(in.read_golomb(0), 0u);
        EXPECT_FALSE(in.ok());
    }
}

TEST(BitReader, PaddingIsAtMostSevenZeroBits) {
    const std::byte two[2] = {std::byte{0x01}, std::byte{0}};
    BitReader early(two);
    early.read(8);
    EXPECT_FALSE(early.at_padding()) << "a whole byte is left";
    early.read(1);
    EXPECT_TRUE(early.at_padding());
    const std::byte dirty[1] = {std::byte{0x80}};
    BitReader bad(dirty);
    bad.read(3);
    EXPECT_FALSE(bad.at_padding());
    EXPECT_TRUE(BitReader({}).at_padding());
}

TEST(Golomb, BoundaryValuesOfEveryOrderTakeTheStatedNumberOfBits) {
    for (unsigned k = 0; k < 32; ++k)
        for (const std::uint32_t value : boundary_values()) {
            BitWriter out;
            out.write_golomb(value, k);
            ASSERT_EQ(out.bit_count(), golomb_bits(value, k)) << value << " of order " << k;
            ASSERT_LE(out.bit_count(), kMaxGolombBits);
            out.write(9, 4);
            const Bytes bytes(out);
            BitReader in(bytes.span());
            ASSERT_EQ(in.read_golomb(k), value) << "of order " << k;
            ASSERT_EQ(in.read(4), 9u);
            ASSERT_TRUE(in.ok());
        }
}

TEST(Golomb, EscapeBeginsWhereThePrefixWouldBeTooLong) {
    for (unsigned k = 0; k < 20; ++k) {
        const std::uint32_t first = ((1u << kGolombEscape) - 1) << k;
        EXPECT_EQ(golomb_bits(first, k), kGolombEscape + 32) << k;
        EXPECT_EQ(golomb_bits(first - 1, k), 2 * (kGolombEscape - 1) + 1 + k) << k;
    }
}

TEST(Golomb, EveryTruncatedPrefixFails) {
    for (const unsigned k : {0u, 3u, 8u, 20u, 31u})
        for (const std::uint32_t value : boundary_values()) {
            BitWriter out;
            out.write_golomb(value, k);
            const Bytes whole(out);
            for (std::size_t size = 0; size < whole.size; ++size) {
                const Bytes part(whole, size);
                BitReader in(part.span());
                ASSERT_EQ(in.read_golomb(k), 0u);
                ASSERT_FALSE(in.ok());
            }
        }
}

/// Of order k: the smallest value that is escaped, or more than 32 bits if all values have a shorter code.
std::uint64_t first_escaped(unsigned k) {
    return std::uint64_t{(1u << kGolombEscape) - 1} << k;
}

TEST(Golomb, AnEscapeIsReadOnlyIfItIsNecessary) {
    for (unsigned k = 0; k < 32; ++k)
        for (const std::uint64_t value :
             {std::uint64_t{0}, std::uint64_t{7}, first_escaped(k) - 1, first_escaped(k),
              first_escaped(k) + 1, std::uint64_t{0xfffffffe}, std::uint64_t{0xffffffff}}) {
            if (value > 0xffffffff) continue;
            BitWriter out;
            out.write((1u << kGolombEscape) - 1, kGolombEscape);
            out.write(value, 32);
            const Bytes bytes(out);
            BitReader in(bytes.span());
            const bool is_necessary = value >= first_escaped(k);
            ASSERT_EQ(in.read_golomb(k), is_necessary ? value : 0) << value << " of order " << k;
            ASSERT_EQ(in.ok(), is_necessary) << value << " of order " << k;
        }
}

TEST(Golomb, RejectsValuesOfMoreThan32Bits) {
    BitWriter large;
    large.write(0b111, 4);
    large.write(0xffffffff, 32);
    large.write(0b11, 2);
    const Bytes second(large);
    BitReader over(second.span());
    EXPECT_EQ(over.read_golomb(31), 0u);
    EXPECT_FALSE(over.ok());
}

TEST(Zigzag, MapsSmallMagnitudesToSmallNumbersAndBack) {
    EXPECT_EQ(zigzag(0), 0u);
    EXPECT_EQ(zigzag(0u - 1), 1u);
    EXPECT_EQ(zigzag(1), 2u);
    EXPECT_EQ(zigzag(0x80000000u), 0xffffffffu);
    for (const std::uint32_t value : boundary_values()) {
        EXPECT_EQ(unzigzag(zigzag(value)), value);
        EXPECT_EQ(zigzag(unzigzag(value)), value);
    }
}

}  // namespace
}  // namespace shoal::replication::impl
