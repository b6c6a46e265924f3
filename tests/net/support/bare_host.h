#pragma once
// A host without connections of its own: the test writes the packets of its clients.

#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <vector>

#include "net/host.h"
#include "tests/net/support/consistency.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {

/// A host whose packets are stored, and clients whose packets the test writes.
struct Bare {
    explicit Bare(const HostConfig& config = host_config())
        : security(config.security), host(config, recorder, wire) {}

    /// Passes bytes to the host, in a buffer of exact size, and checks that it sends no more bytes than
    /// these.
    void feed(const Address& from, std::span<const std::byte> bytes) {
        const std::vector<std::byte> exact(bytes.begin(), bytes.end());
        const std::size_t before = wire.bytes;
        host.receive(from, exact, now);
        EXPECT_LE(wire.bytes - before, bytes.size()) << "amplification";
        EXPECT_TRUE(is_consistent(host));
    }
    template <class Kind>
    void feed_packet(const Address& from, const Kind& packet) {
        std::array<std::byte, kMaxDatagramBytes> buffer;
        feed(from, write(packet, buffer));
    }
    /// Returns the last packet sent, if it is of this kind.
    template <class Kind>
    std::optional<Kind> last() {
        Kind packet;
        if (wire.sent.empty() || read(wire.sent.back().second, packet)) return std::nullopt;
        return packet;
    }
    std::uint64_t cookie_for(const Address& from, std::uint64_t nonce) {
        feed_packet(from, Request{kWireVersion, nonce, 0xC0FFEE, security});
        const auto reply = last<CookieReply>();
        return reply ? reply->cookie : 0;
    }
    Connect connect_for(const Address& from, std::uint64_t nonce) {
        visitor.emplace(nonce, ClientHello{0x5C4E, 1, {}, {}}, security);
        return visitor->connect(cookie_for(from, nonce));
    }
    /// Returns the verdict in the last packet, for the last visitor.
    std::optional<Verdict> verdict() {
        return wire.sent.empty() || !visitor ? std::nullopt : visitor->open(wire.sent.back().second);
    }
    std::uint64_t dropped(Drop reason) { return host.endpoint_stats().drops[reason]; }

    Time now = 100s;
    Security security;
    std::optional<Visitor> visitor;
    Wire wire;
    Recorder recorder;
    Host host;
};

}  // namespace shoal::net::impl
