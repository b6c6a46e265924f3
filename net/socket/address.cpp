#include "address.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#ifdef _WIN32
#include <winsock2.h>
#include <ws2tcpip.h>
#else
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#endif

namespace shoal::net::impl {
namespace {

template <class Int>
std::optional<Int> parse_decimal(std::string_view text) {
    Int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

bool parse_ip(bool is_ipv6, std::string_view text, std::array<std::uint8_t, 16>& ip) {
    char terminated[INET6_ADDRSTRLEN] = {};
    if (text.size() >= sizeof terminated || text.find('\0') != text.npos) return false;
    std::copy(text.begin(), text.end(), terminated);
    return inet_pton(is_ipv6 ? AF_INET6 : AF_INET, terminated, ip.data()) == 1;
}

}  // namespace

Address Address::ipv6(const std::array<std::uint8_t, 16>& ip, std::uint16_t port, std::uint32_t scope) {
    static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    if (std::equal(kMapped, kMapped + 12, ip.begin())) return ipv4(ip[12], ip[13], ip[14], ip[15], port);
    return {.ip = ip, .scope = scope, .port = port, .family = Family::ipv6};
}

Result<Address> Address::parse(std::string_view text, std::uint16_t default_port) {
    std::string_view host = text, port;  // `port` includes the colon
    const bool has_bracket = text.starts_with('[');
    // Text with two colons and no bracket is an IPv6 address without a port.
    const bool is_ipv6 = has_bracket || text.find(':') != text.rfind(':');
    if (has_bracket) {
        const std::size_t close = text.find(']');
        if (close == text.npos) return NetError::bad_address;
        host = text.substr(1, close - 1);
        port = text.substr(close + 1);
    } else if (!is_ipv6) {
        host = text.substr(0, text.find(':'));
        port = text.substr(host.size());
    }
    if (!port.empty() && port[0] != ':') return NetError::bad_address;
    const auto number = port.empty() ? default_port : parse_decimal<std::uint16_t>(port.substr(1));
    const std::size_t percent = is_ipv6 ? host.find('%') : host.npos;
    const auto scope = percent == host.npos ? 0 : parse_decimal<std::uint32_t>(host.substr(percent + 1));
    Address address;
    if (!number || !scope || !parse_ip(is_ipv6, host.substr(0, percent), address.ip))
        return NetError::bad_address;
    if (is_ipv6) return ipv6(address.ip, *number, *scope);
    return Address{.ip = address.ip, .port = *number, .family = Family::ipv4};
}

std::string Address::to_string() const {
    if (family == Family::none) return "none";
    char text[INET6_ADDRSTRLEN];
    inet_ntop(family == Family::ipv4 ? AF_INET : AF_INET6, ip.data(), text, sizeof text);
    const std::string tail = ':' + std::to_string(port);
    if (family == Family::ipv4) return text + tail;
    return '[' + std::string(text) + (scope != 0 ? '%' + std::to_string(scope) : "") + ']' + tail;
}

bool Address::is_loopback() const {
    return family == Family::ipv4
               ? ip[0] == 127
               : *this == ipv6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, port, scope);
}

}  // namespace shoal::net::impl

std::size_t std::hash<shoal::net::impl::Address>::operator()(
    const shoal::net::impl::Address& a) const noexcept {
    std::uint64_t words[3] = {};
    std::memcpy(words, a.ip.data(), a.ip.size());
    words[2] = std::uint64_t(a.scope) << 32 | std::uint64_t(a.port) << 8 | std::uint64_t(a.family);
    std::uint64_t mixed = 0;
    for (const std::uint64_t word : words) {
        mixed = (mixed ^ word) * 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
        mixed ^= mixed >> 32;
    }
    return static_cast<std::size_t>(mixed);
}
