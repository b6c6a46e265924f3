#pragma once
// Source or destination of a datagram: an IPv4 or IPv6 address and a port.

#include <array>
#include <compare>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>

#include "../result.h"

namespace shoal::net::impl {

/// IPv4-mapped IPv6 addresses (::ffff:a.b.c.d) are always stored as IPv4, so that an IPv4 sender has the same
/// Address on an IPv4 socket and on a dual-stack socket.
struct Address {
    enum class Family : std::uint8_t { none, ipv4, ipv6 };

    std::array<std::uint8_t, 16> ip{};  // network order; IPv4 uses the first four, the rest are zero
    std::uint32_t scope = 0;            // IPv6 link-local interface index, else 0
    std::uint16_t port = 0;             // host order
    Family family = Family::none;
    // The Socket's number of the local address that a datagram came to, to answer from there; 0: the system
    // chooses. Not compared, hashed or printed.
    std::uint8_t local = 0;

    static Address ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint16_t port) {
        return {.ip = {a, b, c, d}, .port = port, .family = Family::ipv4};
    }
    static Address ipv6(const std::array<std::uint8_t, 16>& ip, std::uint16_t port, std::uint32_t scope = 0);
    static Address any_ipv4(std::uint16_t port) { return ipv4(0, 0, 0, 0, port); }
    /// The IPv6 wildcard; a socket bound to it also serves IPv4.
    static Address any(std::uint16_t port) { return ipv6({}, port); }

    /// Reads "1.2.3.4:5" or "[::1]:5". Without a port: `default_port`. Never resolves names.
    static Result<Address> parse(std::string_view text, std::uint16_t default_port = 0);

    /// Returns a text that parse() reads as the same address; "none" for Family::none.
    std::string to_string() const;
    bool is_loopback() const;
    friend std::strong_ordering operator<=>(const Address& a, const Address& b) {
        return std::tie(a.family, a.ip, a.scope, a.port) <=> std::tie(b.family, b.ip, b.scope, b.port);
    }
    friend bool operator==(const Address& a, const Address& b) {
        // Not a.ip == b.ip: g++ compiles that to a call of memcmp.
        return std::memcmp(a.ip.data(), b.ip.data(), sizeof a.ip) == 0 && a.port == b.port &&
               a.family == b.family && a.scope == b.scope;
    }
};

}  // namespace shoal::net::impl

/// Not keyed: a stranger can choose addresses that share a bucket.
template <>
struct std::hash<shoal::net::impl::Address> {
    std::size_t operator()(const shoal::net::impl::Address& address) const noexcept;
};
