// The bytes of the messages between server and client.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "replication/message.h"

namespace shoal::replication::all::message_bytes_test {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<int> numbers) {
    Bytes out;
    for (const int number : numbers) out.push_back(static_cast<std::byte>(number));
    return out;
}

/// Every other length is malformed, and so is another kind.
template <class Read>
void expect_only(Bytes message, Read&& read) {
    EXPECT_TRUE(read(message));
    for (std::size_t size = 0; size < message.size(); ++size)
        EXPECT_FALSE(read(std::span(message).first(size))) << size;
    message[0] ^= std::byte{0x40};
    EXPECT_FALSE(read(message)) << "another kind";
    message[0] ^= std::byte{0x40};
    message.push_back(std::byte{0});
    EXPECT_FALSE(read(message)) << "longer";
}

TEST(MessageBytes, OfAWelcome) {
    const Bytes message = write_welcome({0x030201, 0x0807060504030201});
    EXPECT_EQ(message, bytes({2, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
    expect_only(message, [](std::span<const std::byte> in) { return read_welcome(in).has_value(); });
    EXPECT_EQ(read_welcome(message)->tick_us, 0x030201u);
    EXPECT_EQ(read_welcome(message)->random_seed, 0x0807060504030201u);
    EXPECT_FALSE(read_welcome(write_welcome({0, 1}))) << "a tick has a length";
    EXPECT_TRUE(read_welcome(write_welcome({1, 0})));
}

TEST(MessageBytes, OfAPlayer) {
    Bytes message(40);
    write_player(0x0a0b0c0d, message);
    EXPECT_EQ(message, bytes({8, 13, 12, 11, 10}));
    expect_only(message, [](std::span<const std::byte> in) { return read_player(in).has_value(); });
    EXPECT_EQ(read_player(message), 0x0a0b0c0du);
}

TEST(MessageBytes, OfARebase) {
    const std::uint32_t slots[] = {0x0201, 7};
    Bytes message;
    write_rebase(slots, message);
    EXPECT_EQ(message, bytes({1, 1, 2, 0, 0, 7, 0, 0, 0}));
    std::vector<std::uint32_t> read;
    EXPECT_TRUE(read_rebase(message, [&](std::uint32_t slot) { read.push_back(slot); }));
    EXPECT_TRUE(std::ranges::equal(read, slots));
    const auto nobody = [](std::uint32_t slot) { ADD_FAILURE() << slot; };
    for (const std::size_t size : {0u, 1u, 2u, 4u, 6u, 8u})
        EXPECT_FALSE(read_rebase(std::span(message).first(size), nobody)) << size;
    message[0] = std::byte{2};
    EXPECT_FALSE(read_rebase(message, nobody));
}

TEST(MessageBytes, OfATicketOfNobody) {
    EXPECT_FALSE(read_ticket(write_ticket({}, 1)));
    Bytes message = write_ticket({PlayerId{5}, {}}, 1);
    EXPECT_TRUE(read_ticket(message));
    message.push_back(std::byte{0});
    EXPECT_FALSE(read_ticket(message));
    message.pop_back();
    message[0] = std::byte{25};
    EXPECT_FALSE(read_ticket(message));
    Bytes resumed = write_resumed({});
    EXPECT_FALSE(read_resumed(resumed)->keeps);
    resumed[0] = std::byte{24};
    EXPECT_FALSE(read_resumed(resumed));
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

TEST(Resume, MessagesAndHellosHaveTheseBytes) {
    Ticket ticket{PlayerId{0x04030201}, {}};
    for (std::size_t i = 0; i < ticket.secret.size(); ++i) ticket.secret[i] = std::byte(16 + i);
    const std::vector<std::byte> message = write_ticket(ticket, 0x0807);
    EXPECT_EQ(message.size(), 25u);
    EXPECT_EQ(message[0], std::byte{24});
    EXPECT_EQ(message[1], std::byte{1});
    EXPECT_EQ(message[5], std::byte{16});
    EXPECT_EQ(message[21], std::byte{7});
    ASSERT_TRUE(read_ticket(message));
    EXPECT_EQ(read_ticket(message)->ticket, ticket);
    EXPECT_EQ(read_ticket(message)->state_number, 0x0807u);
    const std::vector<std::byte> resumed = write_resumed({true, {0x0201, 0x0403}, 5});
    const std::vector<std::byte> expected = {std::byte{25}, std::byte{1}, std::byte{1}, std::byte{2},
                                             std::byte{0},  std::byte{0}, std::byte{3}, std::byte{4},
                                             std::byte{0},  std::byte{0}, std::byte{5}};
    EXPECT_EQ(resumed, expected);
    ASSERT_TRUE(read_resumed(resumed));
    EXPECT_EQ(read_resumed(resumed)->epoch, 5);
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
        EXPECT_FALSE(read_ticket(std::span(message).first(std::min(size, message.size() - 1))));
        EXPECT_FALSE(read_resumed(std::span(resumed).first(std::min(size, resumed.size() - 1))));
    }
    std::vector<std::byte> bad = hello;
    bad[4] = std::byte{2};
    EXPECT_FALSE(read_hello(bad));
    bad = resumed;
    bad[1] = std::byte{2};
    EXPECT_FALSE(read_resumed(bad));
}

TEST(Resume, TheLargestHelloFitsBesideAConnectToken) {
    const std::vector<std::byte> summary(585);
    EXPECT_LE(write_hello({8, summary, Resumption{}}).size(), net::kMaxTokenHelloBytes);
}

}  // namespace
}  // namespace shoal::replication::all::message_bytes_test
