#include "net/bytes.h"

#include <gtest/gtest.h>

#include <array>

#include "net/result.h"

namespace shoal::net::impl {
namespace {

TEST(Bytes, WritesLittleEndianAndReadsBack) {
    std::array<std::byte, 24> buffer;
    ByteWriter out(buffer);
    out.u8(1);
    out.u16(0x0302);
    out.uint(0x060504, 3);
    out.u32(0x0A090807);
    out.u64(0x1211100F0E0D0C0B);
    out.pad_to(20);
    out.patch_u8(0, 0xFF);
    EXPECT_EQ(out.room(), 4u);
    for (std::size_t i = 1; i < 18; ++i) EXPECT_EQ(buffer[i], std::byte(i + 1));
    ByteReader in(out.written());
    EXPECT_EQ(in.u8(), 0xFF);
    EXPECT_EQ(in.u16(), 0x0302);
    EXPECT_EQ(in.uint(3), 0x060504u);
    EXPECT_EQ(in.u32(), 0x0A090807u);
    EXPECT_EQ(in.u64(), 0x1211100F0E0D0C0Bu);
    EXPECT_EQ(in.remaining(), 2u);
    EXPECT_EQ(in.rest().size(), 2u);
    EXPECT_TRUE(in.ok());
}

TEST(Bytes, ReaderFailsForGood) {
    const std::array<std::byte, 3> buffer{std::byte(1), std::byte(2), std::byte(3)};
    ByteReader in(buffer);
    EXPECT_EQ(in.u32(), 0u);
    EXPECT_FALSE(in.ok());
    EXPECT_EQ(in.u8(), 0u);
    EXPECT_TRUE(in.bytes(1).empty());
    EXPECT_FALSE(in.ok());
    ByteReader huge(buffer);
    EXPECT_TRUE(huge.bytes(~std::size_t(0)).empty());
    EXPECT_FALSE(huge.ok());
}

TEST(Result, HoldsValueOrError) {
    Result<int> good = 5;
    Result<int> bad = NetError::not_found;
    EXPECT_TRUE(good);
    EXPECT_EQ(good.value(), 5);
    EXPECT_EQ(good.error(), NetError::none);
    EXPECT_FALSE(bad);
    EXPECT_EQ(bad.error(), NetError::not_found);
    EXPECT_EQ(describe(bad.error()), "name not found");
}

}  // namespace
}  // namespace shoal::net::impl
