#include "replication/play/uplink.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "replication/play/players.h"

namespace shoal::replication::impl::uplink_test {
namespace {

/// Sends one number in 12 bits; the greatest value is malformed.
class NumberWriter final : public SectionWriter {
public:
    bool write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) override {
        rooms.push_back(room_bits);
        lacked_room_ = next && room_bits < 12;
        if (!next || lacked_room_) return false;
        out.write(*std::exchange(next, std::nullopt), 12);
        written.push_back(packet);
        return true;
    }
    void on_fate(std::uint64_t packet, bool delivered) override { fates.push_back({packet, delivered}); }

    std::optional<std::uint32_t> next;
    std::vector<std::size_t> rooms;
    std::vector<std::uint64_t> written;
    std::vector<std::pair<std::uint64_t, bool>> fates;
};

class NumberReader final : public SectionReader {
public:
    bool read_section(Player&, std::uint64_t, BitReader& in) override {
        staged = in.read(12);
        return staged != 0xfff;
    }
    void commit_section(Player&, net::Time) override { numbers.push_back(staged); }

    std::uint32_t staged = 0;
    std::vector<std::uint32_t> numbers;
};

struct Uplink {
    Uplink() {
        writer.set(Section::inputs, &inputs);
        writer.set(Section::owned_state, &owned);
        reader.set(Section::inputs, &inputs_read);
        reader.set(Section::owned_state, &owned_read);
    }
    std::vector<std::byte> write() {
        std::vector<std::byte> room(100);
        room.resize(writer.write(7, room));
        return room;
    }
    bool read(std::span<const std::byte> payload) { return reader.read(player, 7, payload, net::Time{0}); }

    Player player;
    NumberWriter inputs, owned;
    NumberReader inputs_read, owned_read;
    UplinkWriter writer;
    UplinkReader reader;
};

TEST(PlayUplink, APayloadHasTheSectionsThatHaveSomethingToSay) {
    Uplink uplink;
    EXPECT_TRUE(uplink.write().empty());
    uplink.owned.next = 5;
    const std::vector<std::byte> payload = uplink.write();
    EXPECT_EQ(payload, (std::vector<std::byte>{std::byte{0b00101'1'0'0}, std::byte{0}}));
    EXPECT_TRUE(uplink.read(payload));
    EXPECT_TRUE(uplink.inputs_read.numbers.empty());
    EXPECT_EQ(uplink.owned_read.numbers, (std::vector<std::uint32_t>{5}));
    EXPECT_TRUE(uplink.write().empty()) << "it was said";
}

TEST(PlayUplink, ASectionMayUseTheRoomThatTheOnesBeforeLeft) {
    Uplink uplink;
    uplink.inputs.next = 5;
    uplink.owned.next = 6;
    EXPECT_EQ(uplink.write().size(), 4u);
    EXPECT_EQ(uplink.inputs.rooms, (std::vector<std::size_t>{797}));
    EXPECT_EQ(uplink.owned.rooms, (std::vector<std::size_t>{785}));
}

/// Has blocks of one size to send.
class BlockWriter final : public SectionWriter {
public:
    explicit BlockWriter(std::size_t bits) : bits_(bits) {}
    bool write_section(std::uint64_t, std::size_t room_bits, BitWriter& out) override {
        lacked_room_ = waiting > 0 && room_bits < bits_;
        if (waiting == 0 || lacked_room_) return false;
        for (std::size_t i = 0; i < bits_; ++i) out.write(0, 1);
        waiting -= 1;
        sent += 1;
        return true;
    }
    void on_fate(std::uint64_t, bool) override {}

    int waiting = 0, sent = 0;

private:
    std::size_t bits_;
};

TEST(PlayUplink, NoSectionWaitsForEver) {
    BlockWriter inputs(6'000), actions(5'000), owned(7'000);  // only one of them fits
    UplinkWriter writer;
    writer.set(Section::inputs, &inputs);
    writer.set(Section::actions, &actions);
    writer.set(Section::owned_state, &owned);
    std::vector<std::byte> room(net::kMaxPayloadBytes);
    actions.waiting = owned.waiting = 100;
    for (std::uint64_t packet = 1; packet <= 30; ++packet) {
        inputs.waiting = 1;
        EXPECT_GT(writer.write(packet, room), 600u);
    }
    EXPECT_EQ(inputs.sent, 10);
    EXPECT_EQ(actions.sent, 10);
    EXPECT_EQ(owned.sent, 10);
    actions.waiting = owned.waiting = 0;
    for (std::uint64_t packet = 31; packet <= 40; ++packet) {
        inputs.waiting = 1;
        EXPECT_GT(writer.write(packet, room), 600u);
    }
    EXPECT_EQ(inputs.sent, 20) << "nobody else lacks room";
}

TEST(PlayUplink, TheInputsComeFirstUnlessAnotherSectionLackedRoom) {
    Uplink uplink;
    for (int i = 0; i < 4; ++i) {
        uplink.inputs.next = 5;
        uplink.owned.next = 6;
        EXPECT_EQ(uplink.write().size(), 4u);
    }
    EXPECT_EQ(uplink.inputs.rooms, std::vector<std::size_t>(4, 797));
    EXPECT_EQ(uplink.owned.rooms, std::vector<std::size_t>(4, 785));
    uplink.inputs.next = 5;
    uplink.owned.next = 6;
    std::byte little[2];
    EXPECT_EQ(uplink.writer.write(7, little), 2u);
    EXPECT_EQ(uplink.inputs.rooms.back(), 13u);
    EXPECT_EQ(uplink.owned.rooms.back(), 1u);
    uplink.write();
    EXPECT_EQ(uplink.owned.rooms.back(), 797u) << "it lacked room";
    uplink.inputs.next = 5;
    uplink.owned.next = 6;
    uplink.write();
    EXPECT_EQ(uplink.inputs.rooms.back(), 797u) << "nobody lacked room";
}

TEST(PlayUplink, EachSectionThatLacksRoomGetsItNext) {
    for (const Section section : {Section::actions, Section::owned_state}) {
        BlockWriter inputs(6'000), other(5'000);
        UplinkWriter writer;
        writer.set(Section::inputs, &inputs);
        writer.set(section, &other);
        std::vector<std::byte> room(net::kMaxPayloadBytes);
        other.waiting = 100;
        for (std::uint64_t packet = 1; packet <= 10; ++packet) {
            inputs.waiting = 1;
            EXPECT_GT(writer.write(packet, room), 600u);
        }
        EXPECT_EQ(inputs.sent, 5);
        EXPECT_EQ(other.sent, 5);
    }
}

TEST(PlayUplink, NothingOfAMalformedPayloadIsUsed) {
    Uplink uplink;
    uplink.inputs.next = 5;
    uplink.owned.next = 6;
    const std::vector<std::byte> good = uplink.write();
    for (std::size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(
            uplink.read(std::vector<std::byte>(good.begin(), good.begin() + static_cast<long>(size))));
    std::vector<std::byte> longer = good, padded = good;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(uplink.read(longer)) << "a byte too many";
    padded.back() |= std::byte{0x80};
    EXPECT_FALSE(uplink.read(padded)) << "a bit in the padding";
    EXPECT_FALSE(uplink.read(std::vector<std::byte>{std::byte{0}})) << "no section";
    EXPECT_FALSE(uplink.read(std::vector<std::byte>{std::byte{0b010}})) << "a section that nobody reads";
    uplink.inputs.next = 5;
    uplink.owned.next = 0xfff;
    EXPECT_FALSE(uplink.read(uplink.write()));
    EXPECT_TRUE(uplink.inputs_read.numbers.empty());
    EXPECT_TRUE(uplink.read(good));
    EXPECT_EQ(uplink.inputs_read.numbers, (std::vector<std::uint32_t>{5}));
}

TEST(PlayUplink, FatesReachEverySection) {
    Uplink uplink;
    uplink.writer.on_fate(7, true);
    const std::vector<std::pair<std::uint64_t, bool>> expected = {{7, true}};
    EXPECT_EQ(uplink.inputs.fates, expected);
    EXPECT_EQ(uplink.owned.fates, expected);
}

}  // namespace
}  // namespace shoal::replication::impl::uplink_test
