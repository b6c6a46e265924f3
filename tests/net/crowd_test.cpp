// Thousands of connections to one host for a long time, with a virtual clock. SHOAL_CROWD=10000:1800 runs ten
// thousand connections for half an hour, which takes minutes of CPU time.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

/// One side of a connection: what it sent, with its fates, and what it received. Counts violations.
class Ledger {
public:
    std::array<std::byte, 40> next_payload() {
        std::array<std::byte, 40> bytes{};
        std::memcpy(bytes.data(), &sent_, sizeof sent_);
        return bytes;
    }
    /// Payloads for the next flush. Those that the rate does not allow are sent by a later one.
    void want_payload() { wants_payload_ = true; }
    std::size_t write_payload(PayloadTurn& turn) {
        if (!std::exchange(wants_payload_, false)) return 0;
        const auto payload = next_payload();
        std::memcpy(turn.room.data(), payload.data(), payload.size());
        Sent& slot = sent_slots_[sent_ % kRemembered];
        violations += sent_ >= kRemembered && !slot.has_fate;
        slot = {.packet = turn.packet_number, .number = sent_++, .has_fate = false};
        return payload.size();
    }
    /// `other` is the other side.
    void on_fate(const PacketFate& fate, const Ledger& other) {
        const auto slot = std::ranges::find(sent_slots_, fate.number, &Sent::packet);
        violations += slot == sent_slots_.end() || slot->has_fate;
        if (slot == sent_slots_.end()) return;
        slot->has_fate = true;
        const bool has_come = other.came_[slot->number % kRemembered] == slot->number + 1;
        violations += fate.delivered && !has_come;
        delivered += fate.delivered;
        lost += !fate.delivered;
        lost_but_came += !fate.delivered && has_come;
    }
    void on_payload(std::span<const std::byte> bytes) {
        std::uint32_t number;
        violations += bytes.size() != 40;
        std::memcpy(&number, bytes.data(), sizeof number);
        std::uint32_t& slot = came_[number % kRemembered];
        violations += slot > number;  // a duplicate, or too old
        slot = number + 1;
    }

    /// Eight streams of numbered messages: reliable with four keys, sequenced with four keys. Every eighth
    /// message of the first stream takes three packets.
    void send_message(Endpoint& endpoint, PeerId peer, std::uint32_t turn) {
        const std::uint32_t stream = turn % 8;
        std::array<std::uint32_t, 650> message;
        message.fill(++said_[stream]);
        message[0] = stream;
        const std::size_t words = stream == 0 && said_[stream] % 8 == 0 ? message.size() : 2;
        const Delivery how = stream < 4 ? ordered_by(stream) : latest_of(static_cast<std::uint8_t>(stream));
        violations += endpoint.send_message(peer, how, std::as_bytes(std::span(message).first(words))) !=
                      SendResult::queued;
    }
    void on_message(std::span<const std::byte> bytes) {
        std::array<std::uint32_t, 650> message{};
        std::memcpy(message.data(), bytes.data(), std::min(bytes.size(), sizeof message));
        const bool is_large = message[0] == 0 && message[1] % 8 == 0;
        if (message[0] >= 8 || bytes.size() != (is_large ? sizeof message : 8)) {
            violations += 1;
            return;
        }
        for (std::size_t i = 2; is_large && i < message.size(); ++i) violations += message[i] != message[1];
        larges += is_large;
        std::uint32_t& heard = heard_[message[0]];
        violations += message[0] < 4 ? message[1] != heard + 1 : message[1] <= heard;
        heard = message[1];
    }
    /// Checks the totals after the last fates and repeats.
    void settle(const Ledger& other) {
        violations += delivered + lost != sent_;
        for (std::size_t stream = 0; stream < 4; ++stream)
            violations += other.heard_[stream] != said_[stream];
    }

    std::uint64_t violations = 0, delivered = 0, lost = 0, lost_but_came = 0, larges = 0;

private:
    static constexpr std::uint32_t kRemembered = 256;
    struct Sent {
        std::uint64_t packet = 0;
        std::uint32_t number = 0;
        bool has_fate = true;
    };
    bool wants_payload_ = false;
    std::uint32_t sent_ = 0;
    std::array<Sent, kRemembered> sent_slots_{};
    std::array<std::uint32_t, kRemembered> came_{};  // number + 1
    std::array<std::uint32_t, 8> said_{}, heard_{};
};

class Crowd {
public:
    Crowd(std::uint32_t count, const LinkConfig& link) : up_(link, 1), down_(link, 2) {
        HostConfig config = host_config();
        config.max_peers = config.max_handshakes_per_s_per_ip = count;
        config.max_handshakes_per_s = 2'000;
        host_ = std::make_unique<Host>(config, host_side_, host_sink_);
        for (std::uint32_t i = 0; i < count; ++i) members_.push_back(std::make_unique<Member>(*this, i));
    }

    void connect_all() {
        for (const auto& member : members_) {
            member->client.connect(server_address_, {}, now_);
            if (member->number % 50 == 49) step(false);
        }
        for (int i = 0; i < 200 && host_->peer_count() < members_.size(); ++i) step(false);
    }
    void run(Duration time, bool talks) {
        for (const Time end = now_ + time; now_ < end;) step(talks);
    }
    void settle() {
        for (const auto& member : members_) {
            member->ledger.settle(member->host_ledger);
            member->host_ledger.settle(member->ledger);
        }
    }
    std::uint64_t sum(std::uint64_t Ledger::*what) const {
        std::uint64_t result = 0;
        for (const auto& member : members_) result += member->ledger.*what + member->host_ledger.*what;
        return result;
    }
    std::uint64_t disconnects() const { return disconnects_; }
    const Host& host() const { return *host_; }

private:
    static constexpr Duration kTick = 50ms;
    static constexpr std::uint32_t kTicksPerPacket = 4;
    const Address server_address_ = Address::ipv4(10, 0, 0, 100, 7777);

    struct Member : Handler, Sink {
        Member(Crowd& in, std::uint32_t index)
            : crowd(in),
              number(index),
              address(address_of(index)),
              client(client_config(1000 + index), *this, *this) {}
        static Address address_of(std::uint32_t index) {
            return Address::ipv4(10, 1, static_cast<std::uint8_t>(index / 250),
                                 static_cast<std::uint8_t>(index % 250), 5000);
        }
        void send(const Address& to, std::span<const std::byte> datagram) override {
            crowd.up_.push(address, to, datagram, crowd.now_);
        }
        bool on_payload(PeerId, std::uint64_t, std::span<const std::byte> bytes, Time) override {
            ledger.on_payload(bytes);
            return true;
        }
        void on_message(PeerId, Channel, std::span<const std::byte> bytes) override {
            ledger.on_message(bytes);
        }
        std::size_t write_payload(PeerId, PayloadTurn& turn) override { return ledger.write_payload(turn); }
        void on_fate(PeerId, const PacketFate& fate) override { ledger.on_fate(fate, host_ledger); }
        void on_disconnected(PeerId, DisconnectReason, std::string_view) override { crowd.disconnects_ += 1; }

        Crowd& crowd;
        std::uint32_t number;
        Address address;
        Client client;
        Ledger ledger, host_ledger;
        PeerId peer;  // its id at the host
    };

    struct HostSide : Handler {
        explicit HostSide(Crowd& in) : crowd(in) {}
        Member& member(PeerId peer) { return *by_peer[peer.index()]; }
        void on_connected(PeerId peer) override {
            const Address& from = crowd.host_->address(peer);
            by_peer.resize(std::max<std::size_t>(by_peer.size(), peer.index() + 1));
            for (const auto& each : crowd.members_) {
                if (each->address == from) by_peer[peer.index()] = each.get();
            }
            member(peer).peer = peer;
        }
        bool on_payload(PeerId peer, std::uint64_t, std::span<const std::byte> bytes, Time) override {
            member(peer).host_ledger.on_payload(bytes);
            return true;
        }
        void on_message(PeerId peer, Channel, std::span<const std::byte> bytes) override {
            member(peer).host_ledger.on_message(bytes);
        }
        std::size_t write_payload(PeerId peer, PayloadTurn& turn) override {
            return member(peer).host_ledger.write_payload(turn);
        }
        void on_fate(PeerId peer, const PacketFate& fate) override {
            member(peer).host_ledger.on_fate(fate, member(peer).ledger);
        }
        void on_disconnected(PeerId, DisconnectReason, std::string_view) override { crowd.disconnects_ += 1; }
        Crowd& crowd;
        std::vector<Member*> by_peer;
    };
    struct Down : Sink {
        explicit Down(Crowd& in) : crowd(in) {}
        void send(const Address& to, std::span<const std::byte> datagram) override {
            crowd.down_.push(crowd.server_address_, to, datagram, crowd.now_);
        }
        Crowd& crowd;
    };

    void step(bool talks) {
        now_ += kTick;
        ++ticks_;
        while (up_.pop(now_, incoming_)) host_->receive(incoming_.from, incoming_.bytes, now_);
        while (down_.pop(now_, incoming_))
            client_at(incoming_.to).receive(incoming_.from, incoming_.bytes, now_);
        host_->update(now_);
        for (const auto& member : members_) member->client.update(now_);
        if (talks) talk();
        host_->flush(now_);
        for (const auto& member : members_) member->client.flush(now_);
    }
    void talk() {
        for (std::size_t i = ticks_ % kTicksPerPacket; i < members_.size(); i += kTicksPerPacket) {
            Member& member = *members_[i];
            say(member.ledger, member.client, member.client.server());
            say(member.host_ledger, *host_, member.peer);
        }
    }
    void say(Ledger& ledger, Endpoint& endpoint, PeerId peer) {
        if (ticks_ / kTicksPerPacket % 5 == 0)
            ledger.send_message(endpoint, peer, ticks_ / kTicksPerPacket / 5);
        ledger.want_payload();
    }
    Client& client_at(const Address& address) {
        const auto& ip = address.ip;
        return members_[ip[2] * 250u + ip[3]]->client;
    }

    Time now_ = 1000s;
    std::uint32_t ticks_ = 0;
    LinkConditioner up_, down_;
    HostSide host_side_{*this};
    Down host_sink_{*this};
    std::unique_ptr<Host> host_;
    std::vector<std::unique_ptr<Member>> members_;
    LinkConditioner::Datagram incoming_;
    std::uint64_t disconnects_ = 0;
};

TEST(Crowd, ThousandsOfLossyConnectionsHaveFatesOnceAndMessagesInOrder) {
    unsigned count = 300, seconds = 30;
    if (const char* const wish = std::getenv("SHOAL_CROWD")) {
        ASSERT_EQ(std::sscanf(wish, "%u:%u", &count, &seconds), 2) << "SHOAL_CROWD is connections:seconds";
    }
    LinkConfig link;
    link.latency = 40ms;
    link.jitter = 20ms;
    link.loss = 0.05;
    link.max_queued = 1 << 20;
    Crowd crowd(count, link);
    crowd.connect_all();
    ASSERT_EQ(crowd.host().peer_count(), count);
    crowd.run(1s * seconds, true);
    crowd.run(5s, false);
    EXPECT_EQ(crowd.disconnects(), 0u);
    crowd.settle();
    EXPECT_EQ(crowd.sum(&Ledger::violations), 0u);
    const double fates = static_cast<double>(crowd.sum(&Ledger::delivered) + crowd.sum(&Ledger::lost));
    EXPECT_GT(fates, 9.9 * count * seconds);
    EXPECT_NEAR(static_cast<double>(crowd.sum(&Ledger::lost)) / fates, 0.05, 0.01);
    // Later acks repeat a lost one.
    EXPECT_LT(static_cast<double>(crowd.sum(&Ledger::lost_but_came)) / fates, 0.002);
}

}  // namespace
}  // namespace shoal::net::impl
