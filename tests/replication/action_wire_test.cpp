#include "replication/action/action_wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "replication/action/action.h"
#include "replication/play/message_kind.h"

namespace shoal::replication::action_wire_test {
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
    const std::vector<std::byte> message =
        write_event(schema, {0xfffffffe, net::PeerId{0x10002}, 70'000, 0, words_of(9)});
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
        out.write(static_cast<std::uint64_t>(MessageKind::action_event), 8);
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

TEST(ActionWire, ResultsAreReadBackAndOnlyAsAWhole) {
    const std::vector<ActionResult> results{{ActionStream::ordered, 0x1ffff, true, {7, 0, 9}, ""},
                                            {ActionStream::independent, 3, false, {}, "no"}};
    expect_only_whole(write_results(results, 44), [&](std::span<const std::byte> bytes) {
        const std::optional<ActionResults> read = read_results(bytes);
        if (!read) return false;
        EXPECT_EQ(read->tick, 44u);
        EXPECT_EQ(read->results.size(), 2u);
        EXPECT_EQ(read->results[0].sequence, 0xffffu);
        EXPECT_EQ(read->results[0].created, results[0].created);
        EXPECT_EQ(read->results[1].stream, ActionStream::independent);
        EXPECT_FALSE(read->results[1].is_accepted);
        EXPECT_EQ(read->results[1].why_not, "no");
        return true;
    });
}

TEST(ActionWire, PendingIdsThatAreGoneAreReadBack) {
    const std::vector<PendingId> ids{0xff000001, 0xff000002};
    const std::vector<std::byte> message = write_gone(ids);
    EXPECT_EQ(read_gone(message), ids);
    EXPECT_FALSE(read_gone(std::span(message).first(message.size() - 1)));
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

}  // namespace
}  // namespace shoal::replication::action_wire_test
