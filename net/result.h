#pragma once
// NetError: errors of sockets, addresses and names. Result: a value, or such an error.

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

namespace shoal::net::impl {

enum class [[nodiscard]] NetError : std::uint8_t{
    none,
    would_block,     // nothing to read, or no room to write: try again later
    bad_address,     // text that is not an address
    wrong_family,    // an IPv6 address for an IPv4 socket, or an IPv4 address for an IPv6 socket
    not_here,        // not an address of this machine
    not_found,       // the name does not resolve
    address_in_use,  // another socket uses the port
    permission,      // the system does not allow it
    unreachable,     // no route, no network
    port_closed,     // no socket is bound to the other side's port (ICMP)
    too_large,       // too many bytes for a datagram, or for the path
    unsupported,     // the system lacks the protocol (often: no IPv6)
    system,          // anything else
};

/// Returns part number `index` of a text whose parts are separated by '|'; "unknown" if there are fewer.
constexpr std::string_view part_of(std::string_view parts, std::size_t index) {
    for (; index > 0 && !parts.empty(); --index)
        parts.remove_prefix((std::min)(parts.find('|'), parts.size() - 1) + 1);
    return parts.empty() ? "unknown" : parts.substr(0, parts.find('|'));
}

/// A short English phrase, for logs. The phrases have the order of the enumeration.
constexpr std::string_view describe(NetError error) {
    constexpr std::string_view kTexts =
        "no error|would block|not a valid address|the socket is of another address family|"
        "no address of this machine|name not found|address already in use|not permitted|"
        "no route to this address|nothing listens on this port|"
        "the path carries no datagrams of this size|not supported by this system|system error";
    return part_of(kTexts, static_cast<std::size_t>(error));
}

/// A T, or the error that explains why there is none.
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(NetError error) : state_(std::in_place_index<1>, error) { assert(error != NetError::none); }

    explicit operator bool() const { return state_.index() == 0; }
    T& value() { return const_cast<T&>(std::as_const(*this).value()); }
    const T& value() const {
        assert(*this);
        return *std::get_if<0>(&state_);
    }
    NetError error() const { return *this ? NetError::none : *std::get_if<1>(&state_); }

private:
    std::variant<T, NetError> state_;
};

}  // namespace shoal::net::impl
