#pragma once
// Addresses of the hosts in tests that build their own network.

#include "net/socket/address.h"

namespace shoal::net::impl {

inline const Address kServer = Address::ipv4(10, 0, 0, 100, 7777);  // as in World
inline const Address kClient = Address::ipv4(10, 0, 0, 1, 1000);
inline const Address kAlice = Address::ipv4(10, 0, 0, 1, 1000);    // of a player
inline const Address kHome = Address::ipv4(10, 0, 0, 1, 5000);     // of a player
inline const Address kMallory = Address::ipv4(10, 0, 0, 66, 666);  // of an attacker

}  // namespace shoal::net::impl
