#pragma once
// One connection after the handshake, owned by a Host or Client: takes and sends datagrams, calls the
// Handler.

#include "ack_window.h"
#include "crypto/packet_cipher.h"
#include "message/large_payload.h"
#include "path.h"
#include "rate/rate_controller.h"
#include "scheduler.h"

namespace shoal::net::impl {

/// Options that may change during a connection.
struct ConnectionOptions {
    Duration timeout = std::chrono::seconds(10);    // silence until the connection ends
    Duration keep_alive = std::chrono::seconds(1);  // longest pause of packets that want an ack; < timeout
    Duration max_ack_delay = std::chrono::milliseconds(20);  // longest wait before an ack gets its own packet
    std::uint32_t message_queue_bytes = 512 * 1024;  // limit of each queue: one per channel and weight
    /// Older unreliable messages are dropped, but each may leave in at least one flush.
    Duration max_message_age = std::chrono::milliseconds(250);
    std::uint32_t max_packets_per_flush = 256;        // >= 1; only packets with messages or payloads count
    std::uint64_t max_bytes_per_second = 16'000'000;  // >= 4,000; the path may allow less
    double repeat_share = 0.5;  // part of all bytes for repeats of reliable messages; 0..1
    Shares shares{};            // how messages and payloads share the packets
};

struct ConnectionConfig : ConnectionOptions {
    std::uint32_t max_open_packets = 1024;          // most packets in flight; power of two, 32..32768
    std::uint64_t first_bytes_per_second = 32'000;  // rate until acks show the capacity of the path
    std::uint64_t first_packet_number = 1;          // 1..2^62; tests choose values near a wraparound
    std::uint64_t max_packets = 1ull << 48;  // sent packets after which the connection ends (`exhausted`)
    KeyLife key_life{};
};

/// What a connection gets from its handshake.
struct Session {
    PeerId peer;
    Address address;                         // the peer's first address; proven
    std::optional<std::uint32_t> send_id{};  // connection id, written into each packet; client only
    bool receive_id = false;                 // arriving packets carry a connection id; server only
    std::uint64_t send_first = 1;            // first packet number and first reliable id of this side
    std::uint64_t receive_first = 1;         // first packet number and first reliable id of the other side
    std::uint64_t reset_salt = 0;            // of the connection's Reset; client only
    std::uint64_t salt = 0;                  // secret; decides which packet numbers are skipped; 0: none
};

class Connection {
public:
    Connection(const ConnectionConfig& config, const Session& session, const PacketCipher& cipher,
               Handler& handler, Sink& sink, Time now);

    enum class Arrival : std::uint8_t {
        dropped,  // and counted by reason
        copy,     // authentic, but it arrived before; sets only number, kind, and the challenge of an echo
        fresh,    // call apply()
    };
    /// Authenticates and decodes a datagram. Changes counters, key and the run of early packets. A malformed
    /// authentic packet is dropped and closes the connection.
    Arrival open(std::span<const std::byte> datagram, Packet& packet, Time now);
    /// Returns whether the packet has a higher number than all before it. Call it between open() and apply().
    bool is_newest(const Packet& packet) const { return packet.number > received_.newest_arrived(); }
    /// Applies the packet just opened, and calls the handler.
    void apply(const Packet& packet, Time now);

    /// Sends a challenge with this secret number to this address only.
    void challenge(const Address& to, std::uint64_t number, Time now) {
        send_number(PacketKind::challenge, number, now, &to);
    }
    /// Returns whether packets are in flight, but no ack came for `least` and SentPackets::answer_timeout().
    bool is_ack_overdue(Time now, Duration least = Duration(0)) const {
        const Duration overdue = (std::max)(sent_.answer_timeout(stats_), least);
        return rate_.is_broken() || rate_.silence(now, stats_) >= overdue;
    }
    /// Call it when the path has changed: measures rate and round trip anew.
    void restart(Time now);

    /// Calls on_connected, once. Without this call close() does not call on_disconnected.
    void announce();
    void update(Time now);
    /// Sends the packets that are due. At most `most` of them have messages or payloads, with the `already`
    /// ones of earlier calls at most max_packets_per_flush. Returns whether only `most` prevented more.
    bool flush(Time now, std::uint32_t most = 0xFFFF'FFFF, std::uint32_t already = 0);
    /// Sends an empty packet that wants an ack; a client that misses acks sends a probe.
    void ping(Time now);
    [[nodiscard]] SendResult send_message(const Delivery& how, std::span<const std::byte> message);
    void set_options(const ConnectionOptions& options);
    /// Reports open fates as lost and calls on_disconnected. `tell_peer`: also sends disconnect packets.
    void close(DisconnectReason reason, std::string_view text, bool tell_peer, Time now);
    /// As Endpoint::disconnect().
    void leave(DisconnectReason reason, std::string_view text, Time now, Duration deliver_for);

    bool is_open() const { return is_open_; }
    bool is_announced() const { return is_announced_; }
    /// Returns true if the connection is closed and all disconnect packets were sent: it may be destroyed.
    bool is_finished() const { return !is_open_ && disconnects_left_ == 0; }
    const Session& session() const { return session_; }
    Path& path() { return path_; }
    const Path& path() const { return path_; }
    const ConnectionStats& stats() const { return stats_; }

private:
    friend struct Consistency;  // tests/net/support/consistency.h
    struct Draft;               // a packet that is being written

    /// Sends a packet with messages or a payload, if there are any and the rate allows it. `asks`: whether to
    /// ask the handler for a payload; set to false when the handler has none.
    bool send_contents(bool& asks, Time now);
    /// Asks the handler for a payload, or takes the next fragment of a large one. If both wait, in turns.
    void write_payload(Draft& draft, std::size_t share, bool& asks, Time now);
    void ask_for_payload(Draft& draft, std::size_t share, bool& asks, Time now);
    /// Sends a packet without messages and payload; only packets that are not data have a `body`.
    /// `elsewhere`: where to send it, if not to the proven addresses.
    void send_small(PacketKind kind, std::span<const std::byte> body, Time now, unsigned flags = 0,
                    const Address* elsewhere = nullptr);
    void send_number(PacketKind kind, std::uint64_t number, Time now, const Address* elsewhere = nullptr);
    void send_disconnect(Time now);
    void begin(Draft& draft, PacketKind kind, Time now);
    void finish(Draft& draft, Time now, const Address* elsewhere = nullptr);
    void skip_number();
    void report_fates(Time now);
    void report(const std::optional<PacketFate>& fate);
    void deliver(const Packet& packet, const Frame& frame);
    /// Returns false if the ack must be withheld.
    bool take_payload(const Packet& packet, Time now);
    std::string why_silent(Time now) const;

    ConnectionConfig config_;
    Session session_;
    Path path_;
    PacketCipher cipher_;
    Handler& handler_;
    Sink& sink_;
    ConnectionStats stats_;
    SentPackets sent_;
    RateController rate_;
    AckWindow received_;
    SendQueue queue_;
    Scheduler scheduler_;
    Inbox inbox_;
    OutgoingPayload outgoing_;
    bool is_turn_of_handler_ = false;  // the last payload was a fragment
    IncomingPayload incoming_;

    Time created_;
    Time last_received_;
    Time ack_wanted_since_{0};
    std::uint32_t acks_wanted_ = 0;   // how many packets accepted since the last sent ack want an ack
    std::uint32_t acks_to_send_ = 0;  // how many of the next packets repeat the acks, as some may get lost
    bool is_order_broken_ = false;    // since the last ack a packet came out of order, or after a gap
    Time probed_{0};                  // when the last probe was sent
    std::uint64_t next_skip_ = 0;     // the packet number to skip; 0: not chosen yet

    bool is_open_ = true;
    bool is_announced_ = false;
    std::optional<Time> leaves_at_;  // since leave(): the latest time of the end
    std::string disconnect_;  // since leave() or close(): reason and text, the body of a disconnect packet
    std::uint8_t disconnects_left_ = 0;
    Time next_disconnect_{0};
};

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::ConnectionConfig, impl::ConnectionOptions, impl::Shares;
}  // namespace shoal::net
