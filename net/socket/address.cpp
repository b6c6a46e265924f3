#include "address.h"

#include <algorithm>
#include <charconv>
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

/// Groups of hexadecimal digits, the last two perhaps as IPv4, into `ip`. Returns the bytes that they take.
std::optional<std::size_t> parse_groups(std::string_view text, std::uint8_t (&ip)[16]) {
    std::size_t size = 0;
    while (!text.empty()) {
        const std::size_t colon = text.find(':');
        if (text.find('.') < colon) {
            const bool is_last = colon == text.npos && size <= 12;
            return is_last && parse_ipv4(text, ip + size) ? std::optional(size + 4) : std::nullopt;
        }
        const auto value = parse_int<std::uint16_t>(text.substr(0, colon), 16, 4);
        if (!value || size > 14) return std::nullopt;
        ip[size++] = static_cast<std::uint8_t>(*value >> 8);
        ip[size++] = static_cast<std::uint8_t>(*value & 0xFF);
        if (colon == text.npos) break;
        text.remove_prefix(colon + 1);
        if (text.empty()) return std::nullopt;  // ends in a single colon
    }
    return size;
}

/// Groups, with at most one "::" for those that are zero.
bool parse_ipv6(std::string_view text, std::array<std::uint8_t, 16>& ip) {
    std::uint8_t head[16] = {}, tail[16] = {};
    const std::size_t gap = text.find("::");
    const auto before = parse_groups(text.substr(0, gap), head);
    const bool has_gap = gap != text.npos;
    const auto after = parse_groups(has_gap ? text.substr(gap + 2) : std::string_view(), tail);
    if (!before || !after || (has_gap ? *before + *after > 14 : *before != 16)) return false;
    if (has_gap && text.find('.') < gap) return false;  // IPv4 comes last
    std::copy_n(head, *before, ip.begin());
    std::copy_n(tail, *after, ip.end() - static_cast<std::ptrdiff_t>(*after));
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
    std::string_view host = text, port;
    const std::size_t colon = text.find(':');
    bool has_port = false, is_ipv6 = false;
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == text.npos) return NetError::bad_address;
        host = text.substr(1, close - 1);
        port = text.substr(close + 1);
        is_ipv6 = true;
        has_port = !port.empty();
        if (has_port && port[0] != ':') return NetError::bad_address;
        if (has_port) port.remove_prefix(1);
    } else if (colon != text.npos) {
        is_ipv6 = text.find(':', colon + 1) != text.npos;  // two colons and no bracket: no port
        has_port = !is_ipv6;
        if (has_port) host = text.substr(0, colon);
        if (has_port) port = text.substr(colon + 1);
    }
    const auto number = has_port ? parse_int<std::uint16_t>(port, 10, 5) : default_port;
    if (!number) return NetError::bad_address;
    Address address;
    if (!is_ipv6) {
        address = ipv4(0, 0, 0, 0, *number);
        return parse_ipv4(host, address.ip.data()) ? Result(address) : NetError::bad_address;
    }
    const std::size_t percent = host.find('%');
    const auto scope = percent == host.npos ? 0 : parse_int<std::uint32_t>(host.substr(percent + 1), 10, 10);
    if (!scope || !parse_ipv6(host.substr(0, percent), address.ip)) return NetError::bad_address;
    return ipv6(address.ip, *number, *scope);
}

std::string Address::to_string() const {
    if (family == Family::none) return "none";
    std::string text;
    if (family == Family::ipv4) {
        for (std::size_t i = 0; i < 4; ++i) text += std::to_string(ip[i]) + (i < 3 ? '.' : ':');
        return text + std::to_string(port);
    }
    // The longest run of at least two zero groups becomes "::" (RFC 5952).
    const auto group = [this](std::size_t index) { return ip[index * 2] * 256 + ip[index * 2 + 1]; };
    std::size_t best = 8, best_length = 1;
    for (std::size_t start = 0; start < 8; ++start) {
        std::size_t length = 0;
        while (start + length < 8 && group(start + length) == 0) ++length;
        if (length > best_length) best = start, best_length = length;
    }
    text = "[";
    for (std::size_t index = 0; index < 8; ++index) {
        if (index == best) {
            text += "::";
            index += best_length - 1;
            continue;
        }
        if (index > 0 && text.back() != ':') text += ':';
        char digits[4];
        text.append(digits, std::to_chars(digits, digits + 4, group(index), 16).ptr);
    }
    if (scope != 0) text += '%' + std::to_string(scope);
    return text + "]:" + std::to_string(port);
}

bool Address::is_loopback() const {
    return family == Family::ipv4
               ? ip[0] == 127
               : *this == ipv6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, port, scope);
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
