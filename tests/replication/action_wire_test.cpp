#include "replication/action/action_wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "replication/action/action.h"
#include "replication/play/message_kind.h"

namespace shoal::replication::impl::action_wire_test {
namespace {

struct Shove {
    std::uint32_t force = 0;
    std::string why;
};

Schema shove_schema() {
    Schema schema;
    schema.action<Shove>("shove", at_most(1000));
    EXPECT_EQ(schema.error(), "");
    return schema;
}

/// The words of Shove{force, "ab"}.
std::vector<std::uint32_t> words_of(std::uint32_t force) {
    return {force, 2, 'a', 'b'};
}

/// Every shorter message is refused, and every longer one.
template <class Read>
void expect_only_whole(const std::vector<std::byte>& message, Read&& read) {
    EXPECT_TRUE(read(message));
    for (std::size_t size = 0; size < message.size(); ++size) {
        const std::unique_ptr<std::byte[]> exact(new std::byte[size]);
        std::copy_n(message.begin(), size, exact.get());
        EXPECT_FALSE(read(std::span(exact.get(), size))) << size << " bytes";
    }
    for (const std::byte more : {std::byte{0}, std::byte{0xff}}) {
        std::vector<std::byte> longer = message;
        longer.push_back(more);
        EXPECT_FALSE(read(longer));
    }
}

TEST(ActionWire, AnEventIsReadBackAndOnlyAsAWhole) {
    const Schema schema = shove_schema();
    std::vector<std::byte> message =
        write_event(schema, {0xfffffffe, net::PeerId{0x10002}, 70'000, 0, words_of(9)});
    message.erase(message.begin());  // its kind
    expect_only_whole(message, [&](std::span<const std::byte> bytes) {
        ActionEvent event;
        if (!read_event(schema, bytes, event)) return false;
        EXPECT_EQ(event.tick, 0xfffffffeu);
        EXPECT_EQ(event.who, net::PeerId{0x10002});
        EXPECT_EQ(event.player, 70'000u);
        EXPECT_EQ(event.words, words_of(9));
        return true;
    });
}

TEST(ActionWire, AnEventOfATypeThatTheSchemaDoesNotHaveIsRefused) {
    const Schema schema = shove_schema();
    for (const std::uint32_t type : {1u, 2u, 255u, 256u}) {
        BitWriter out;
        out.write(5, 32);
        out.write(0, 32);
        out.write_golomb(type, 2);
        out.write(0, 7);
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        ActionEvent event;
        EXPECT_FALSE(read_event(schema, bytes, event)) << type;
    }
}

// The ticks rise by the steps between the calls, and wrap around.
TEST(ActionWire, ARunOfActionsIsReadBack) {
    const Schema schema = shove_schema();
    std::vector<ActionRecord> records;
    for (const Tick tick : {0xfffffff0u, 0xfffffff0u, 5u, 6u, 90u})
        records.push_back({0, tick, 0, 0, {tick, 12}, words_of(tick)});
    records[2].created = 2;
    records[2].first_pending = kFirstPending | 0x10;
    BitWriter out;
    write_actions(schema, {1000, 3, records}, out);
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    BitReader in(bytes);
    std::vector<ActionRecord> read;
    ActionRun run;
    ASSERT_TRUE(read_actions(schema, 998, in, read, run));
    EXPECT_EQ(run.first, 1000u);
    EXPECT_EQ(run.epoch, 3);
    ASSERT_EQ(run.records.size(), records.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
        EXPECT_EQ(run.records[i].tick, records[i].tick) << i;
        EXPECT_EQ(run.records[i].created, records[i].created) << i;
        EXPECT_EQ(run.records[i].first_pending, records[i].first_pending) << i;
        EXPECT_EQ(run.records[i].touched, records[i].touched) << i;
        EXPECT_EQ(run.records[i].words, records[i].words) << i;
    }
}

// WIRE.md: the bits before the first action.
TEST(ActionWire, ARunBeginsWithTheNumberTheEpochAndTheTickOfItsFirstAction) {
    const Schema schema = shove_schema();
    std::vector<ActionRecord> records;
    for (const Tick tick : {0x12345678u, 0x12345679u, 0x12345690u})
        records.push_back({0, tick, 0, 0, {}, words_of(1)});
    BitWriter out;
    write_actions(schema, {0x1abcd, 9, records}, out);
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    BitReader in(bytes);
    EXPECT_EQ(in.read(16), 0xabcdu);
    EXPECT_EQ(in.read(8), 9u);
    EXPECT_EQ(in.read(32), 0x12345678u);
    EXPECT_EQ(in.read_golomb(0), 2u) << "actions, minus 1";
}

/// Reads the bits of a run.
bool reads_run(const Schema& schema, const BitWriter& bits) {
    std::vector<std::byte> bytes(bits.byte_count());
    bits.copy_to(bytes);
    BitReader in(bytes);
    std::vector<ActionRecord> records;
    ActionRun run;
    return read_actions(schema, 0, in, records, run);
}

TEST(ActionWire, ARunHasAtMost256ActionsAndNoUnknownType) {
    struct Nod {};
    Schema schema;
    schema.action<Nod>("nod");
    const auto run_of = [](std::uint32_t count, std::uint32_t type) {
        BitWriter out;
        out.write(0, 16);
        out.write(0, 8);
        out.write(7, 32);
        out.write_golomb(count - 1, 0);
        out.write(0, 16);
        for (std::uint32_t i = 0; i < std::min(count, 300u); ++i) {
            out.write_golomb(type, 2);
            out.write_golomb(0, 2);
            out.write_bool(false);
            for (int zeros = 0; zeros < 3; ++zeros) out.write_golomb(0, 0);
        }
        return out;
    };
    EXPECT_TRUE(reads_run(schema, run_of(1, 0)));
    EXPECT_TRUE(reads_run(schema, run_of(256, 0)));
    EXPECT_FALSE(reads_run(schema, run_of(257, 0)));
    EXPECT_FALSE(reads_run(schema, run_of(1u << 31, 0)));
    EXPECT_FALSE(reads_run(schema, run_of(0, 0))) << "2^32 of them";
    for (const std::uint32_t type : {1u, 255u, 256u, 512u})
        EXPECT_FALSE(reads_run(schema, run_of(1, type))) << type;
}

// Goal: a modified client or server cannot exceed the size that honest ones keep to.
TEST(ActionWire, ArgumentsHaveAtMost512Bytes) {
    struct Tale {
        std::string text;
    };
    Schema schema;
    schema.action<Tale>("tale", max_length(2'000));
    int fitting = 0, refused = 0;
    for (std::uint32_t length = 480; length < 1'100; length += length < 530 ? 1 : 50) {
        SCOPED_TRACE(length);
        std::vector<std::uint32_t> words{length};
        words.resize(1 + length, 'a');
        const bool fits = fits_action(schema.structs(StructKind::action)[0], words);
        (fits ? fitting : refused) += 1;
        const ActionRecord small{0, 1, 0, 0, {}, {1, 'a'}}, record{0, 1, 0, 0, {}, words};
        const std::vector<ActionRecord> both{small, record};
        BitWriter out;
        write_actions(schema, {0, 0, both}, out);
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        std::vector<ActionRecord> read;
        ActionRun run;
        EXPECT_EQ(read_actions(schema, 0, in, read, run), fits);
        ActionEvent event;
        const std::vector<std::byte> message = write_event(schema, {1, {}, 0, 0, words});
        EXPECT_EQ(read_event(schema, std::span(message).subspan(1), event), fits);
    }
    EXPECT_GT(fitting, 10);
    EXPECT_GT(refused, 10);
}

TEST(ActionWire, ATruncatedRunIsRefused) {
    const Schema schema = shove_schema();
    std::vector<ActionRecord> records{{0, 5, kFirstPending | 3, 2, {70, 71}, words_of(8)},
                                      {0, 6, 0, 0, {}, words_of(9)}};
    BitWriter out;
    write_actions(schema, {0, 0, records}, out);
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
        const std::unique_ptr<std::byte[]> exact(new std::byte[size]);
        std::copy_n(bytes.begin(), size, exact.get());
        BitReader in(std::span(exact.get(), size));
        std::vector<ActionRecord> read;
        ActionRun run;
        EXPECT_EQ(read_actions(schema, 0, in, read, run), size == bytes.size()) << size;
    }
}

}  // namespace
}  // namespace shoal::replication::impl::action_wire_test
