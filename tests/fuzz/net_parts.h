#pragma once
// Shared by the fuzzers of net/: checks, a handler that records events, a sink that stores datagrams.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "net/client.h"
#include "net/host.h"
#include "tests/net/support/server_key.h"

namespace shoal::net::impl::fuzz {

inline void check(bool is_true, const char* claim) {
    if (is_true) return;
    std::fprintf(stderr, "not true: %s\n", claim);
    std::abort();
}
#define CHECK(claim) check(claim, #claim)

using Datagram = std::vector<std::byte>;

/// Records every event as text.
struct Log : Handler {
    void on_connected(PeerId peer) override {
        newest = peer;
        add("connected", {});
    }
    void on_disconnected(PeerId, DisconnectReason reason, std::string_view text) override {
        last_reason = reason;
        add("disconnected", std::as_bytes(std::span(text)));
    }
    bool on_payload(PeerId, std::uint64_t, std::span<const std::byte> bytes, Time) override {
        add("payload", bytes);
        return bytes.empty() || bytes[0] != std::byte('w');  // some are refused
    }
    void on_message(PeerId, Channel channel, std::span<const std::byte> bytes) override {
        add(channel == Channel::reliable    ? "reliable"
            : channel == Channel::sequenced ? "sequenced"
                                            : "unreliable",
            bytes);
    }
    std::size_t write_payload(PeerId, PayloadTurn& turn) override {
        if (to_send.empty()) return 0;
        if (!turn.may_be_large && to_send.front().size() > turn.room.size()) return 0;
        sending = std::move(to_send.front());
        to_send.pop_front();
        if (sending.size() > turn.room.size())
            turn.large = sending;
        else
            std::copy(sending.begin(), sending.end(), turn.room.begin());
        return sending.size();
    }
    void on_fate(PeerId, const PacketFate& fate) override { add(fate.delivered ? "delivered" : "lost", {}); }
    bool on_admit(const Admission& admission, std::string&) override {
        add("admit", admission.hello);
        return true;
    }
    void add(const char* what, std::span<const std::byte> bytes) {
        events.emplace_back(what, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }

    std::vector<std::pair<std::string, std::string>> events;
    std::deque<Datagram> to_send;  // payloads
    Datagram sending;
    PeerId newest;
    DisconnectReason last_reason = DisconnectReason::closed;
};

/// Stores datagrams with their destinations.
struct Caught : Sink {
    void send(const Address& to, std::span<const std::byte> datagram) override {
        sent.emplace_back(to, Datagram(datagram.begin(), datagram.end()));
    }
    std::vector<std::pair<Address, Datagram>> sent;
};

template <class Config>
Config fuzz_config(bool is_sealed, std::uint8_t seed) {
    Config config;
    config.protocol_id = 0xC0FFEE;
    config.schema_hash = 0x5C4E;
    config.seed[0] = std::byte(seed);
    config.security = is_sealed ? Security::sealed : Security::insecure;
    give_key(config);
    return config;
}

}  // namespace shoal::net::impl::fuzz
