// Every header of net/ compiles behind the macros of other systems, and its templates too.

#include <gtest/gtest.h>

#include "tests/support/foreign_macros.h"
// after the macros; all of them, listed by the Makefile
#include "headers/net.cpp"

using namespace shoal::net::impl;

TEST(Macros, OfOtherSystemsDoNotReachTheNetwork) {
    RoundTrips trips{Time(0)};
    trips.sample(Duration(5'000), true);
    EXPECT_EQ(trips.recent(), Duration(5'000));
    Budget budget{Time(0)};
    budget.limit(1'000);
    BadNetwork network(LinkConfig{}, 1);
    const Address address = Address::ipv4(10, 0, 0, 1, 7777);
    EXPECT_EQ(&network.at(address), &network.at(address));
}
