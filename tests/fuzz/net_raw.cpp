// Passes bytes of strangers and changed genuine packets to a host and a client, in every state of a
// connection. A dropped datagram must change nothing: a second run without it must give the same results. The
// first byte of an input chooses the state; then follow operations with their arguments.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "net/bytes.h"
#include "tests/fuzz/net_parts.h"

using namespace shoal::net::impl;
using namespace shoal::net::impl::fuzz;
using namespace std::chrono_literals;

namespace {

const Address kClient = Address::ipv4(10, 0, 0, 1, 1000);
const Address kServer = Address::ipv4(10, 0, 0, 2, 7777);
const Address kStranger = Address::ipv4(10, 9, 9, 9, 9);
constexpr unsigned kStages = 9;

/// One run of an input. `skip` says which injected datagrams are omitted, by their order.
class Reading {
public:
    Reading(std::span<const std::byte> input, const std::vector<bool>* skip)
        : in_(input),
          skip_(skip),
          kind_(in_.u8()),
          host_(host_config(kind_ & 1), at_host_, from_host_),
          client_(fuzz_config<ClientConfig>(kind_ & 1, 2), at_client_, from_client_) {
        reach(kind_ / 2 % kStages);
        while (in_.ok() && in_.remaining() > 0) step();
        for (int i = 0; i < 8; ++i) {
            tick(50ms);
            deliver();
        }
    }

    std::vector<bool> dropped;
    /// All datagrams and events, in order.
    const std::vector<std::pair<Address, Datagram>>& sent_by_host() const { return from_host_.sent; }
    const std::vector<std::pair<Address, Datagram>>& sent_by_client() const { return from_client_.sent; }
    const Log& at_host() const { return at_host_; }
    const Log& at_client() const { return at_client_; }
    /// Returns whether the host tried a key, or used a place of a limit, for a dropped datagram.
    bool has_attempts() const {
        const DropCounters& drops = host_.endpoint_stats().drops;
        return drops[Drop::bad_tag] + drops[Drop::bad_handshake] + drops[Drop::too_many_attempts] > 0;
    }

private:
    static HostConfig host_config(bool is_sealed) {
        HostConfig config = fuzz_config<HostConfig>(is_sealed, 1);
        config.max_peers = 1;
        return config;
    }

    /// Goes to a state: 0 nothing, 1 request sent, 2 cookie sent, 3 connect sent, 4 pending, 5 client
    /// connected, 6 both connected, 7 the client disconnects, 8 the server disconnects.
    void reach(unsigned stage) {
        if (stage == 0) return;
        client_.connect(kServer, {}, now_);
        client_.flush(now_);
        for (unsigned i = 1; i < std::min(stage, 6u); ++i) deliver();
        if (stage >= 6) talk(false);
        if (stage == 7) client_.disconnect(client_.server(), DisconnectReason::closed, "bye", now_);
        if (stage == 8) host_.disconnect(at_host_.newest, DisconnectReason::kicked, "out", now_);
    }

    void talk(bool with_large) {
        constexpr std::byte kText[3] = {std::byte('s'), std::byte('t'), std::byte('w')};
        (void)client_.send_message(client_.server(), Channel::reliable, kText);
        (void)client_.send_message(client_.server(), latest_of(3), kText);
        at_client_.to_send = {Datagram(kText, kText + 3)};
        (void)host_.send_message(at_host_.newest, Channel::reliable, kText);
        (void)host_.send_message(at_host_.newest, Channel::unreliable, kText);
        at_host_.to_send = {Datagram(kText + 2, kText + 3)};
        if (!with_large) return flush();
        static const Datagram large(2'500, std::byte('l'));
        (void)client_.send_message(client_.server(), unordered(), large);
        at_client_.to_send.push_back(large);
        (void)host_.send_message(at_host_.newest, unordered(), large);
        at_host_.to_send.push_back(large);
        flush();
    }
    void flush() {
        host_.flush(now_);
        client_.flush(now_);
    }

    /// Delivers all datagrams in flight.
    void deliver() {
        const std::size_t by_client = from_client_.sent.size();
        const std::size_t by_host = from_host_.sent.size();
        for (; arrived_at_host_ < by_client; ++arrived_at_host_)
            host_.receive(kClient, Datagram(from_client_.sent[arrived_at_host_].second), now_);
        for (; arrived_at_client_ < by_host; ++arrived_at_client_) {
            if (from_host_.sent[arrived_at_client_].first == kClient)
                client_.receive(kServer, Datagram(from_host_.sent[arrived_at_client_].second), now_);
        }
    }

    void tick(Duration time) {
        now_ += time;
        host_.update(now_);
        client_.update(now_);
        host_.flush(now_);
        client_.flush(now_);
    }

    void step() {
        const unsigned op = in_.u8();
        const bool to_host = op & 8;
        const Address from = op & 16 ? kStranger : to_host ? kClient : kServer;
        switch (op % 8) {
            case 0: {
                const std::size_t size = in_.u8();
                const std::span<const std::byte> raw = in_.bytes(std::min(size, in_.remaining()));
                return inject(to_host, from, padded({raw.begin(), raw.end()}, op));
            }
            case 1:
            case 2:
            case 3:
                return inject(to_host, from, mutated(op));
            case 4:
                return inject(to_host, from, genuine());
            case 5:
                return tick((op & 32 ? 100 : 1) * std::chrono::milliseconds(in_.u8()));
            case 6:
                return talk(op & 32);
            default:
                return deliver();
        }
    }

    /// Returns a packet that one of the sides sent.
    Datagram genuine() {
        const std::size_t count = from_client_.sent.size() + from_host_.sent.size();
        if (count == 0) return {};
        const std::size_t index = in_.u8() % count;
        const std::size_t by_client = from_client_.sent.size();
        return index < by_client ? from_client_.sent[index].second
                                 : from_host_.sent[index - by_client].second;
    }

    Datagram mutated(unsigned op) {
        Datagram bytes = genuine();
        for (unsigned edits = op % 8; edits > 0; --edits) {
            const std::size_t at = in_.u16() % (bytes.size() + 1);
            const std::byte mask{in_.u8()};
            if (at < bytes.size())
                bytes[at] ^= mask;
            else if (mask < std::byte(128))
                bytes.push_back(mask);
            else
                bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), unsigned(mask) - 127));
        }
        return padded(std::move(bytes), op);
    }

    /// Returns bytes of the length of a request.
    static Datagram padded(Datagram bytes, unsigned op) {
        if ((op & 128) && (op & 64) && bytes.size() < kMaxDatagramBytes) bytes.resize(kMaxDatagramBytes);
        return bytes;
    }

    /// Everything that a dropped packet must not change.
    struct Snapshot {
        std::size_t sent, events;
        std::uint64_t drops, malformed, hints, copies;
        std::vector<std::uint64_t> state;
    };
    static void note(Snapshot& shot, const ConnectionStats& stats) {
        shot.copies += stats.drops[Drop::duplicate] + stats.drops[Drop::early];
        shot.drops += stats.drops.total();
        shot.malformed += stats.drops[Drop::malformed];
        for (const std::uint64_t value :
             {stats.packets_sent, stats.bytes_sent, stats.packets_received, stats.bytes_received,
              stats.packets_delivered, stats.packets_lost, stats.bytes_in_flight, stats.late_acks,
              stats.messages_sent, stats.messages_received, stats.payloads_withheld,
              stats.payloads_superseded, stats.fragments_outdated, std::uint64_t(stats.rtt.count()),
              std::uint64_t(stats.rate)})
            shot.state.push_back(value);
    }
    static void note(Snapshot& shot, const EndpointStats& stats) {
        shot.drops += stats.drops.total();
        shot.hints = stats.refusals_sent + stats.resets_sent;
        for (const std::uint64_t value : {stats.cookies_sent, stats.answers_sent, stats.handshakes_expired})
            shot.state.push_back(value);
    }
    Snapshot look(bool at_host) const {
        Snapshot shot{};
        if (!at_host) {
            shot = {from_client_.sent.size(), at_client_.events.size(), 0, 0, 0, 0, {}};
            note(shot, client_.stats(client_.server()));
            note(shot, client_.endpoint_stats());
            shot.state.push_back(static_cast<std::uint64_t>(client_.state()));
            return shot;
        }
        shot = {from_host_.sent.size(), at_host_.events.size(), 0, 0, 0, 0, {}};
        for (std::uint32_t slot = 0; slot < 4; ++slot) note(shot, host_.stats(PeerId{0x10000 | slot}));
        note(shot, host_.endpoint_stats());
        shot.state.insert(shot.state.end(), {host_.is_idle(), host_.peer_count()});
        return shot;
    }

    void inject(bool to_host, const Address& from, const Datagram& bytes) {
        const std::size_t order = dropped.size();
        dropped.push_back(false);
        if (skip_ && (*skip_)[order]) return;
        const Datagram exact(bytes);
        const Snapshot before = look(to_host);
        if (to_host)
            host_.receive(from, exact, now_);
        else
            client_.receive(from, exact, now_);
        const Snapshot after = look(to_host);
        CHECK(after.malformed == before.malformed);
        CHECK(after.drops - before.drops <= 1);
        if (after.drops > before.drops) {
            const std::uint64_t hints = after.hints - before.hints;  // valid cookie, unknown connection
            CHECK(after.events == before.events);
            // A copy of an authentic packet from another address may cause a challenge.
            const bool is_copy = after.copies > before.copies;
            CHECK(is_copy || after.state == before.state);
            CHECK(is_copy || (hints <= 1 && after.sent - before.sent == hints));
            dropped[order] = hints == 0 && !is_copy;
        }
        if (to_host) check_amplification(before, from, exact);
    }

    void check_amplification(const Snapshot& before, const Address& from, const Datagram& bytes) {
        std::size_t answer = 0;
        for (std::size_t i = before.sent; i < from_host_.sent.size(); ++i) {
            // The echo of a relayed challenge causes a ping, also to the client.
            const Address& to = from_host_.sent[i].first;
            CHECK(from != kStranger || to == kStranger || to == kClient);
            if (to == from) answer += from_host_.sent[i].second.size();
        }
        const auto kind = bytes.empty() ? std::nullopt : read_kind(bytes[0]);
        const bool is_handshake = !kind || *kind < PacketKind::data;
        if (is_handshake) CHECK(answer <= bytes.size());
        if (from != kStranger) return;
        from_stranger_ += bytes.size();
        to_stranger_ += answer;
        CHECK(to_stranger_ <= from_stranger_);  // several short packets allow one challenge
    }

    ByteReader in_;
    std::size_t from_stranger_ = 0, to_stranger_ = 0;  // bytes
    const std::vector<bool>* skip_;
    unsigned kind_;
    Time now_ = 100s;
    Log at_host_, at_client_;
    Caught from_host_, from_client_;
    Host host_;
    Client client_;
    std::size_t arrived_at_host_ = 0, arrived_at_client_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2 || size > 4096) return 0;
    const auto input = std::as_bytes(std::span(data, size));
    const Reading first(input, nullptr);
    const bool has_drops = std::find(first.dropped.begin(), first.dropped.end(), true) != first.dropped.end();
    if (!has_drops || first.has_attempts()) return 0;
    const Reading second(input, &first.dropped);
    CHECK(first.sent_by_host() == second.sent_by_host());
    CHECK(first.sent_by_client() == second.sent_by_client());
    CHECK(first.at_host().events == second.at_host().events);
    CHECK(first.at_client().events == second.at_client().events);
    return 0;
}
