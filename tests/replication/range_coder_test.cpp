// Strings of the range coder: round trips in the middle of other bits, and garbage.

#include "replication/codec/range_coder.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace shoal::replication::impl {
namespace {

struct RangeDecision {
    int kind;
    std::uint32_t value;
    unsigned slot, width;
    Residual residual;
};

template <Coder C>
std::uint32_t code_decision(C& coder, const RangeDecision& d) {
    switch (d.kind) {
        case 0:
            return coder.flag(d.value != 0, d.slot);
        case 1:
            return coder.fixed(d.value, d.width);
        case 2:
            return coder.golomb(d.value, d.width % 21);
        case 3: {
            const Lane lane = bounded_lane(LaneKind::symbol, d.value | 2);
            const std::optional<std::uint32_t> base =
                d.slot % 2 != 0 ? std::optional(d.value ^ 1) : std::nullopt;
            return coder.symbol(d.value, base, lane, 1);
        }
        default:
            return coder.residual(d.value, 0, d.residual);
    }
}

std::vector<RangeDecision> random_decisions(std::mt19937& random, const CodecModel& model) {
    std::vector<RangeDecision> out(random() % 60);
    for (RangeDecision& d : out) {
        d.kind = static_cast<int>(random() % 5);
        d.slot = static_cast<unsigned>(random() % kModelSlots);
        d.width = static_cast<unsigned>(random() % 33);
        d.value = d.width == 0 ? 0 : static_cast<std::uint32_t>(random()) >> (32 - d.width);
        if (d.kind == 0) d.value = random() % 256 < model[d.slot];
        d.residual = {static_cast<unsigned>(random() % kResidualTables),
                      static_cast<unsigned>(random() % (kLastClass + 1)),
                      static_cast<unsigned>(random() % 3)};
    }
    return out;
}

// The models with extreme probabilities make words of ones, and carries through them.
TEST(RangeCoder, AStringIsReadBackAndEndsWhereItWasWritten) {
    std::mt19937 random(1);
    for (int run = 0; run < 20'000; ++run) {
        CodecModel model(kBuiltInModel.begin(), kBuiltInModel.end());
        model.resize(4'000, 100);
        if (run % 3 == 1) std::fill(model.begin(), model.end(), std::uint8_t{255});
        if (run % 3 == 2)
            for (auto& p : model) p = random() % 2 != 0 ? 255 : 1;
        const std::vector<RangeDecision> decisions = random_decisions(random, model);
        BitWriter out;
        const unsigned before = static_cast<unsigned>(random() % 40);
        out.write(0, before);
        RangeEncoder encoder(out, model);
        for (const RangeDecision& d : decisions) code_decision(encoder, d);
        encoder.finish();
        const std::size_t end = out.bit_count();
        out.write(random() & 0xffffffffu, 32);
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        in.skip(before);
        RangeDecoder decoder(in, model);
        for (const RangeDecision& d : decisions) ASSERT_EQ(code_decision(decoder, d), d.value);
        decoder.finish();
        ASSERT_TRUE(in.ok());
        ASSERT_EQ(in.bits_read(), end);
    }
}

TEST(RangeCoder, GarbageEndsWithTheBytes) {
    std::mt19937 random(2);
    for (int run = 0; run < 2'000; ++run) {
        std::vector<std::byte> bytes(random() % 30);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
        BitReader in(bytes);
        RangeDecoder decoder(in, kBuiltInModel);
        for (int i = 0; i < 2'000 && decoder.ok(); ++i) decoder.fixed(0, 1);
        EXPECT_FALSE(decoder.ok());
        EXPECT_FALSE(decoder.flag(true, 0));
        EXPECT_EQ(decoder.fixed(1, 32), 0u);
        EXPECT_EQ(decoder.golomb(1, 3), 0u);
        decoder.finish();
        EXPECT_FALSE(in.ok());
    }
}

// A writer's interval never begins with 64 ones, and its class is never under 0.
TEST(RangeCoder, StringsThatNoWriterMakesAreRefused) {
    const std::vector<std::byte> ones(40, std::byte{0xff});
    for (int decisions = 0; decisions < 3; ++decisions) {
        BitReader in(ones);
        RangeDecoder decoder(in, kBuiltInModel);
        for (int i = 0; i < decisions; ++i) decoder.fixed(0, 30);
        decoder.finish();
        EXPECT_FALSE(in.ok()) << decisions;
    }
    const ModelView model = kBuiltInModel;
    for (unsigned table = 0; table < kResidualTables; ++table) {
        BitWriter out;
        RangeEncoder encoder(out, model);
        encoder.decide(false, table * kResidualSlots + 3);
        encoder.finish();
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        RangeDecoder decoder(in, model);
        decoder.residual(0, 0, {table, 0, 0});
        EXPECT_FALSE(decoder.ok()) << table;
    }
}

}  // namespace
}  // namespace shoal::replication::impl
