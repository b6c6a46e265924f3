#include "address.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <tuple>

namespace shoal::net {
namespace {

template <class Int>
std::optional<Int> parse_int(std::string_view text, int base, std::size_t max_digits) {
    Int value = 0;
    if (text.empty() || text.size() > max_digits) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// Four decimal numbers into ip[0..3].
bool parse_ipv4(std::string_view text, std::uint8_t* ip) {
    for (int part = 0; part < 4; ++part) {
        const std::size_t dot = text.find('.');
        if ((dot == text.npos) != (part == 3)) return false;
        const auto value = parse_int<std::uint8_t>(text.substr(0, dot), 10, 3);
        if (!value) return false;
        ip[part] = *value;
        if (part < 3) text.remove_prefix(dot + 1);
    }
    return true;
}

/// Groups of hexadecimal digits, at most one "::", the last two groups perhaps as IPv4.
bool parse_ipv6(std::string_view text, std::array<std::uint8_t, 16>& ip) {
    std::size_t size = 0;            // bytes parsed
    std::optional<std::size_t> gap;  // where "::" stands
    if (text.starts_with("::")) {
        gap = 0;
        text.remove_prefix(2);
    }
    while (!text.empty()) {
        const std::size_t colon = text.find(':');
        const std::string_view group = text.substr(0, colon);
        if (group.find('.') != group.npos) {
            if (size > 12 || colon != text.npos || !parse_ipv4(group, ip.data() + size)) return false;
            size += 4;
            break;
        }
        const auto value = parse_int<std::uint16_t>(group, 16, 4);
        if (!value || size > 14) return false;
        ip[size] = static_cast<std::uint8_t>(*value >> 8);
        ip[size + 1] = static_cast<std::uint8_t>(*value & 0xFF);
        size += 2;
        if (colon == text.npos) break;
        text.remove_prefix(colon + 1);
        if (text.starts_with(':')) {
            if (gap) return false;
            gap = size;
            text.remove_prefix(1);
        } else if (text.empty()) {
            return false;  // ends in a single colon
        }
    }
    if (!gap) return size == 16;
    if (size > 14) return false;
    for (std::size_t tail = size - *gap, i = 1; i <= tail; ++i) {
        ip[16 - i] = ip[size - i];
        ip[size - i] = 0;
    }
    return true;
}

}  // namespace

Address Address::ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint16_t port) {
    Address address;
    address.ip = {a, b, c, d};
    address.port = port;
    address.family = Family::ipv4;
    return address;
}

Address Address::ipv6(const std::array<std::uint8_t, 16>& ip, std::uint16_t port, std::uint32_t scope) {
    static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    if (std::equal(kMapped, kMapped + 12, ip.begin())) return ipv4(ip[12], ip[13], ip[14], ip[15], port);
    Address address;
    address.ip = ip;
    address.scope = scope;
    address.port = port;
    address.family = Family::ipv6;
    return address;
}

Result<Address> Address::parse(std::string_view text, std::uint16_t default_port) {
    std::string_view host = text;
    std::string_view port;
    bool has_port = false;
    bool is_ipv6 = false;
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == text.npos) return NetError::bad_address;
        host = text.substr(1, close - 1);
        is_ipv6 = true;
        const std::string_view tail = text.substr(close + 1);
        if (!tail.empty() && tail[0] != ':') return NetError::bad_address;
        has_port = !tail.empty();
        if (has_port) port = tail.substr(1);
    } else if (const std::size_t colon = text.find(':'); colon != text.npos) {
        is_ipv6 = text.find(':', colon + 1) != text.npos;  // two colons and no bracket: no port
        has_port = !is_ipv6;
        if (has_port) {
            host = text.substr(0, colon);
            port = text.substr(colon + 1);
        }
    }
    std::uint16_t port_number = default_port;
    if (has_port) {
        const auto value = parse_int<std::uint16_t>(port, 10, 5);
        if (!value) return NetError::bad_address;
        port_number = *value;
    }
    std::array<std::uint8_t, 16> ip{};
    if (!is_ipv6) {
        if (!parse_ipv4(host, ip.data())) return NetError::bad_address;
        return ipv4(ip[0], ip[1], ip[2], ip[3], port_number);
    }
    std::uint32_t scope = 0;
    if (const std::size_t percent = host.find('%'); percent != host.npos) {
        const auto value = parse_int<std::uint32_t>(host.substr(percent + 1), 10, 10);
        if (!value) return NetError::bad_address;
        scope = *value;
        host = host.substr(0, percent);
    }
    if (!parse_ipv6(host, ip)) return NetError::bad_address;
    return ipv6(ip, port_number, scope);
}

std::string Address::to_string() const {
    char text[80];
    int size = 0;
    if (family == Family::none) return "none";
    if (family == Family::ipv4) {
        size = std::snprintf(text, sizeof text, "%u.%u.%u.%u:%u", ip[0], ip[1], ip[2], ip[3], port);
        return std::string(text, static_cast<std::size_t>(size));
    }
    // The longest run of at least two zero groups becomes "::" (RFC 5952).
    const auto group = [this](int index) {
        return ip[std::size_t(index) * 2] * 256 + ip[std::size_t(index) * 2 + 1];
    };
    int best = -1;
    int best_length = 1;
    for (int start = 0; start < 8; ++start) {
        int length = 0;
        while (start + length < 8 && group(start + length) == 0) ++length;
        if (length > best_length) {
            best = start;
            best_length = length;
        }
    }
    std::string result = "[";
    for (int index = 0; index < 8; ++index) {
        if (index == best) {
            result += "::";
            index += best_length - 1;
            continue;
        }
        if (index > 0 && result.back() != ':') result += ':';
        size = std::snprintf(text, sizeof text, "%x", static_cast<unsigned>(group(index)));
        result.append(text, static_cast<std::size_t>(size));
    }
    if (scope != 0) result += '%' + std::to_string(scope);
    return result + "]:" + std::to_string(port);
}

bool Address::is_loopback() const {
    if (family == Family::ipv4) return ip[0] == 127;
    const bool is_small = std::all_of(ip.begin(), ip.end() - 1, [](std::uint8_t byte) { return byte == 0; });
    return family == Family::ipv6 && is_small && ip.back() == 1;
}

std::strong_ordering operator<=>(const Address& a, const Address& b) {
    return std::tie(a.family, a.ip, a.scope, a.port) <=> std::tie(b.family, b.ip, b.scope, b.port);
}

}  // namespace shoal::net

std::size_t std::hash<shoal::net::Address>::operator()(const shoal::net::Address& a) const noexcept {
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
