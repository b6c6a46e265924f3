#include "net/socket/address.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>
#include <unordered_set>

#include "net/endpoint.h"

namespace shoal::net::impl {
namespace {

TEST(Address, ParsesAndPrints) {
    const std::pair<const char*, const char*> cases[] = {
        {"1.2.3.4:5", "1.2.3.4:5"},
        {"255.255.255.255", "255.255.255.255:99"},
        {"[::1]:80", "[::1]:80"},
        {"::1", "[::1]:99"},
        {"::", "[::]:99"},
        {"[::]:1", "[::]:1"},
        {"1::", "[1::]:99"},
        {"[2001:DB8:0:0:1:0:0:1]:65535", "[2001:db8::1:0:0:1]:65535"},
        {"1:2:3:4:5:6:7:8", "[1:2:3:4:5:6:7:8]:99"},
        {"1:0:3:4:5:6:7:8", "[1:0:3:4:5:6:7:8]:99"},
        {"[fe80::1%3]:7", "[fe80::1%3]:7"},
        {"::ffff:1.2.3.4", "1.2.3.4:99"},
        {"[::ffff:102:304]:8", "1.2.3.4:8"},
        {"64:ff9b::1.2.3.4", "[64:ff9b::102:304]:99"},
    };
    for (const auto& [text, expected] : cases) {
        Result<Address> address = Address::parse(text, 99);
        ASSERT_TRUE(address) << text;
        EXPECT_EQ(address.value().to_string(), expected);
        Result<Address> again = Address::parse(expected);
        ASSERT_TRUE(again) << expected;
        EXPECT_EQ(again.value(), address.value());
    }
}

TEST(Address, RejectsInvalidText) {
    for (const char* text : {"",
                             ":",
                             "1.2.3",
                             "1.2.3.4.5",
                             "1.2.3.256",
                             "1.2.3.4:",
                             "1.2.3.4:65536",
                             "1.2.3.4:x",
                             "a.b.c.d",
                             "1..3.4",
                             "[::1",
                             "[::1]x",
                             "[::1]:",
                             "::1::",
                             ":::",
                             "1:2:3:4:5:6:7",
                             "1:2:3:4:5:6:7:8:9",
                             "1:2:3:4:5:6:7:",
                             "12345::",
                             "g::",
                             "[1.2.3.4]:5",
                             "::1.2.3",
                             "1:2:3:4:5:6:7::8",
                             "fe80::1%",
                             "localhost",
                             "+1.2.3.4",
                             "1::2:3:4:5:6:7:8",
                             "1:2:3:4:5:6:7:1.2.3.4"}) {
        Result<Address> address = Address::parse(text);
        EXPECT_FALSE(address) << text;
        EXPECT_EQ(address.error(), NetError::bad_address);
    }
}

TEST(Address, ParsesAnyRandomText) {
    std::mt19937 random(1);
    const std::string_view letters = "0123456789abcdf:.[]%: ";
    for (int round = 0; round < 50'000; ++round) {
        std::string text(random() % 30, ' ');
        for (char& letter : text) letter = letters[random() % letters.size()];
        Result<Address> address = Address::parse(text);
        if (!address) continue;
        Result<Address> again = Address::parse(address.value().to_string());
        ASSERT_TRUE(again) << text;
        ASSERT_EQ(again.value(), address.value()) << text;
    }
}

TEST(Address, DifferentAddressesAreNotEqual) {
    EXPECT_NE(Address::ipv4(1, 2, 3, 4, 5), Address::ipv4(1, 2, 3, 4, 6));
    EXPECT_NE(Address::any_ipv4(5), Address::any(5));
    EXPECT_TRUE(Address::ipv4(127, 0, 0, 9, 1).is_loopback());
    EXPECT_FALSE(Address::any(1).is_loopback());
    EXPECT_EQ(Address().to_string(), "none");
}

TEST(Address, OrderIsByFamilyAddressScopeAndPort) {
    const char* const ascending[] = {"1.2.3.4:5",   "1.2.3.4:6",   "1.2.3.5:4",     "[::1]:5",
                                     "[fe80::1]:5", "[fe80::1]:6", "[fe80::1%1]:5", "[fe80::2]:1"};
    for (std::size_t i = 0; i < std::size(ascending); ++i) {
        for (std::size_t j = 0; j < std::size(ascending); ++j) {
            const Address a = Address::parse(ascending[i]).value(), b = Address::parse(ascending[j]).value();
            EXPECT_EQ(a <=> b, i <=> j) << ascending[i] << " " << ascending[j];
            EXPECT_EQ(a == b, i == j);
        }
    }
    EXPECT_LT(Address(), Address::ipv4(0, 0, 0, 0, 0));
}

TEST(Address, TheLocalNumberIsNotCompared) {
    static_assert(sizeof(Address) == 24);
    const Address asked = Address::ipv4(1, 2, 3, 4, 5);
    Address answered = asked;
    answered.local = 7;
    EXPECT_EQ(answered, asked);
    EXPECT_EQ(answered <=> asked, std::strong_ordering::equal);
    EXPECT_EQ(answered.to_string(), "1.2.3.4:5");
    EXPECT_EQ(std::hash<Address>()(answered), std::hash<Address>()(asked));
}

// Goal: neighbouring addresses have hashes with different low bits, so that they can be keys of hash tables.
// Method: counts how many of 2^16 buckets 2^16 neighbours use; random hashes would use 63 %.
TEST(Address, HashSpreadsNeighbours) {
    std::unordered_map<Address, int> table;
    for (const int family : {4, 6}) {
        std::unordered_set<std::size_t> low_bits, high_bits;
        for (unsigned i = 0; i < 65'536; ++i) {
            std::array<std::uint8_t, 16> ip{0x20, 0x01};
            ip[7] = ip[3] = static_cast<std::uint8_t>(i & 0xFF);
            const auto port = static_cast<std::uint16_t>(40'000 + (i >> 8));
            const Address address =
                family == 4 ? Address::ipv4(10, 0, 0, ip[3], port) : Address::ipv6(ip, port);
            const std::size_t hash = std::hash<Address>()(address);
            low_bits.insert(hash & 0xFFFF);
            high_bits.insert(hash >> (8 * sizeof hash - 16));
            table[address] += 1;
        }
        EXPECT_GT(low_bits.size(), 38'000u);
        EXPECT_GT(high_bits.size(), 38'000u);
    }
    EXPECT_EQ(table.size(), 2 * 65'536u);
}

TEST(PeerId, IsAKeyOfHashTables) {
    std::unordered_map<PeerId, int> table;
    for (std::uint32_t value = 1; value <= 1000; ++value) table[PeerId{value << 16 | value}] = int(value);
    EXPECT_EQ(table.size(), 1000u);
    EXPECT_EQ(table.at(PeerId{5 << 16 | 5}), 5);
}

}  // namespace
}  // namespace shoal::net::impl
