// The bytes of the messages between server and client.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "replication/message.h"
#include "replication/play/owned_wire.h"

namespace shoal::replication::impl::message_bytes_test {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<int> numbers) {
    Bytes out;
    for (const int number : numbers) out.push_back(static_cast<std::byte>(number));
    return out;
}

/// Writes a control message, and reads it from the bytes after the first one.
template <ControlMessage T>
std::optional<T> round_trip(const T& message) {
    const Bytes bytes = write_control(message);
    return read_control<T>(std::span(bytes).subspan(1));
}

/// Every other length is malformed.
template <ControlMessage T>
void expect_bytes(const T& message, const Bytes& expected) {
    EXPECT_EQ(write_control(message), expected);
    for (std::size_t size = 1; size < expected.size(); ++size)
        EXPECT_FALSE(read_control<T>(std::span(expected).subspan(1, size - 1))) << size;
    EXPECT_TRUE(read_control<T>(std::span(expected).subspan(1)));
    Bytes longer = expected;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(read_control<T>(std::span(longer).subspan(1)));
}

TEST(MessageBytes, OfControlMessages) {
    expect_bytes(Welcome{0x030201, 0x0807060504030201}, bytes({2, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
    expect_bytes(PlayerEntity{0x0a0b0c0d}, bytes({8, 13, 12, 11, 10}));
    expect_bytes(CanLoad{}, bytes({7}));
    // The length 2 is 1 0 1, then follow the slots.
    expect_bytes(Rebase{{1, 0}}, bytes({1, 0b1101, 0, 0, 0, 0, 0, 0, 0, 0}));
    expect_bytes(Gone{{0xff000001}}, bytes({6, 0b1001, 0, 0, 0xf8, 0b111}));
    Ticket ticket{PlayerId{0x04030201}, {}};
    ticket.secret[15] = std::byte{9};
    expect_bytes(NextTicket{ticket, 0x0807},
                 bytes({24, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 7, 8, 0, 0}));
    expect_bytes(NextModel{3, {9}}, bytes({13, 3, 0b1001001, 0}));
    expect_bytes(HasModel{2}, bytes({14, 2}));
    expect_bytes(Resumed{true, {1, 2}, 3}, bytes({25, 0b11, 0, 0, 0, 0b100, 0, 0, 0, 0b110, 0}));
    expect_bytes(OwnedRefusal{1, 2, 3, 4, ""}, bytes({12, 1, 0, 0, 0, 2, 0, 3, 0, 0, 0, 4, 0, 0}));
    expect_bytes(ActionResults{5, {{ActionStream::independent, 3, true, {}, ""}}},
                 bytes({4, 5, 0, 0, 0, 0b111001, 0, 0b10000}));
}

TEST(MessageBytes, OfControlMessagesAreReadBack) {
    const ActionResults results{44,
                                {{ActionStream::ordered, 0xffff, true, {7, 0, 9}, ""},
                                 {ActionStream::independent, 3, false, {}, "no"}}};
    const std::optional<ActionResults> read = round_trip(results);
    ASSERT_TRUE(read && read->results.size() == 2);
    EXPECT_EQ(read->tick, 44u);
    EXPECT_EQ(read->results[0].stream, ActionStream::ordered);
    EXPECT_EQ(read->results[0].sequence, 0xffff);
    EXPECT_EQ(read->results[0].created, results.results[0].created);
    EXPECT_EQ(read->results[1].stream, ActionStream::independent);
    EXPECT_FALSE(read->results[1].is_accepted);
    EXPECT_EQ(read->results[1].why_not, "no");
    const OwnedRefusal refusal{0x12345678, 0xfedc, 7, 3, "\xfe\xff no"};
    ASSERT_TRUE(round_trip(refusal));
    EXPECT_EQ(round_trip(refusal)->version, refusal.version);
    EXPECT_EQ(round_trip(refusal)->epoch, refusal.epoch);
    EXPECT_EQ(round_trip(refusal)->why, refusal.why);
    EXPECT_EQ(round_trip(Welcome{1, 0xfedcba9876543210})->random_seed, 0xfedcba9876543210);
    EXPECT_EQ(round_trip(Resumed{false, {1, 0xffffffff}, 255})->next_actions[1], 0xffffffff);
}

TEST(MessageBytes, AValueOutOfItsRangeIsMalformed) {
    EXPECT_TRUE(round_trip(Welcome{1, 0}));
    EXPECT_FALSE(round_trip(Welcome{0, 1}));
    EXPECT_FALSE(round_trip(Rebase{}));
    EXPECT_TRUE(round_trip(Rebase{std::vector<std::uint32_t>(Rebase::kMax)}));
    EXPECT_FALSE(round_trip(Rebase{std::vector<std::uint32_t>(Rebase::kMax + 1)}));
    EXPECT_TRUE(round_trip(NextTicket{{PlayerId{1}, {}}, 0}));
    EXPECT_FALSE(round_trip(NextTicket{})) << "of nobody";
    EXPECT_TRUE(round_trip(OwnedRefusal{0, 0, 0, 0, std::string(64, 'a')}));
    EXPECT_FALSE(round_trip(OwnedRefusal{0, 0, 0, 0, std::string(65, 'a')}));
    const auto is_read = [](std::size_t results, std::size_t created, std::size_t reason) {
        const ActionResult one{ActionStream::ordered, 1, true, std::vector<NetId>(created, 9),
                               std::string(reason, 'a')};
        return round_trip(ActionResults{44, std::vector<ActionResult>(results, one)}).has_value();
    };
    EXPECT_TRUE(is_read(kActionStreams * kMaxWaitingActions, 0, 0));
    EXPECT_FALSE(is_read(kActionStreams * kMaxWaitingActions + 1, 0, 0));
    EXPECT_TRUE(is_read(2, kMaxCreated, 64));
    EXPECT_FALSE(is_read(2, kMaxCreated + 1, 0));
    EXPECT_FALSE(is_read(2, 0, 65));
}

// Goal: a list is no longer than the bits that follow allow.
TEST(MessageBytes, ALongListNeedsBytes) {
    BitWriter out;
    out.write_golomb(0xffff'fffe, 0);
    out.write(0, 64);
    Bytes message(out.byte_count());
    out.copy_to(message);
    EXPECT_FALSE(read_control<Gone>(message));
    std::mt19937 random(1);
    for (int i = 0; i < 20'000; ++i) {
        Bytes any(random() % 40);
        for (std::byte& byte : any) byte = static_cast<std::byte>(random());
        const auto results = read_control<ActionResults>(any);
        EXPECT_LE(results ? results->results.size() : 0, 20u);
        static_cast<void>(read_control<OwnedRefusal>(any));
        static_cast<void>(read_control<NextTicket>(any));
    }
}

TEST(MessageBytes, OfAHello) {
    const Bytes summary = bytes({99, 98, 97});
    const Bytes hello = write_hello({0x0201, summary});
    EXPECT_EQ(hello, bytes({1, 2, 0, 0, 0, 99, 98, 97}));
    const std::optional<Hello> read = read_hello(hello);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->max_slots, 0x0201u);
    EXPECT_TRUE(std::ranges::equal(read->summary, summary));
    EXPECT_FALSE(read->resumption);
    EXPECT_TRUE(read_hello(std::span(hello).first(5)));
    EXPECT_FALSE(read_hello(std::span(hello).first(4)));
    EXPECT_FALSE(read_hello(write_hello({0, summary})));
    EXPECT_FALSE(read_hello(write_hello({1, summary, Resumption{}}))) << "a ticket of nobody";
}

TEST(Resume, HellosHaveTheseBytes) {
    Ticket ticket{PlayerId{0x04030201}, {}};
    for (std::size_t i = 0; i < ticket.secret.size(); ++i) ticket.secret[i] = std::byte(16 + i);
    const std::byte summary[] = {std::byte{99}, std::byte{98}};
    const std::vector<std::byte> hello = write_hello({8, summary, Resumption{ticket, 6, {11, 12}}});
    EXPECT_EQ(hello.size(), 5u + 32u + 2u);
    const std::optional<Hello> read = read_hello(hello);
    ASSERT_TRUE(read && read->resumption);
    EXPECT_EQ(read->max_slots, 8u);
    EXPECT_EQ(read->resumption->ticket, ticket);
    EXPECT_EQ(read->resumption->state_number, 6u);
    EXPECT_EQ(read->resumption->first_actions[1], 12u);
    EXPECT_EQ(read->summary.size(), 2u);
    for (std::size_t size = 0; size < hello.size(); ++size) {
        const std::vector<std::byte> part(hello.begin(), hello.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_EQ(read_hello(part).has_value(), size >= 37) << size;
    }
    std::vector<std::byte> bad = hello;
    bad[4] = std::byte{2};
    EXPECT_FALSE(read_hello(bad));
}

TEST(Resume, TheLargestHelloFitsBesideAConnectToken) {
    const std::vector<std::byte> summary(585);
    EXPECT_LE(write_hello({8, summary, Resumption{}}).size(), net::kMaxTokenHelloBytes);
}

}  // namespace
}  // namespace shoal::replication::impl::message_bytes_test
