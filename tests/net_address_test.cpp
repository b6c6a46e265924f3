#include "net/socket/address.h"

#include <gtest/gtest.h>

#include <random>

namespace shoal::net {
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

TEST(Address, RejectsWhatIsNoAddress) {
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

TEST(Address, SurvivesRandomText) {
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

TEST(Address, Compares) {
    EXPECT_NE(Address::ipv4(1, 2, 3, 4, 5), Address::ipv4(1, 2, 3, 4, 6));
    EXPECT_NE(Address::any_ipv4(5), Address::any(5));
    EXPECT_TRUE(Address::ipv4(127, 0, 0, 9, 1).is_loopback());
    EXPECT_FALSE(Address::any(1).is_loopback());
    EXPECT_EQ(Address().to_string(), "none");
}

}  // namespace
}  // namespace shoal::net
