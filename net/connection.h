#pragma once
// One peer after the handshake: packets in, packets and events out. Host and Client own these.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ack_window.h"
#include "endpoint.h"
#include "message/inbox.h"
#include "message/large_payload.h"
#include "message/outbox.h"
#include "packet.h"
#include "crypto/packet_cipher.h"
#include "path.h"
#include "rate/rate_controller.h"
#include "sent_packets.h"

namespace shoal::net {

struct ConnectionConfig {
    Duration timeout = std::chrono::seconds(10);  // silence before the peer is gone
    Duration keep_alive =
        std::chrono::seconds(1);  // longest time without a packet that wants an ack; < timeout
    Duration max_ack_delay = std::chrono::milliseconds(20);  // before an ack is due by itself
    std::uint32_t max_open_packets = 1024;                   // fates open at once; power of two, 32..32768
    std::uint32_t message_queue_bytes = 64 * 1024;           // waiting, for each channel and weight
    std::uint32_t max_packets_per_flush = 8;                 // >= 1
    std::uint64_t first_bytes_per_second = 32'000;           // until acks show what the path carries
    std::uint64_t max_bytes_per_second = 16'000'000;         // >= 4,000; the path may allow less
    double repeat_share = 0.5;               // of all bytes, for repeats of reliable messages; 0..1
    std::uint64_t first_packet_number = 1;   // 1..2^62; tests start it next to wraps
    std::uint64_t max_packets = 1ull << 48;  // sent; then the connection ends, as exhausted
    KeyLife key_life{};
};

/// What the handshake agreed on.
struct Session {
    PeerId peer;
    Address address;                       // at first
    std::optional<std::uint32_t> send_id;  // written into each packet; the client's side only
    bool receive_id = false;               // packets that arrive carry an id: the server's side
    std::uint64_t send_first = 1;          // first packet number; also the first id of a reliable message
    std::uint64_t receive_first = 1;
};

class Connection {
public:
    Connection(const ConnectionConfig& config, const Session& session, const PacketCipher& cipher,
               Handler& handler, Sink& sink, Time now);

    /// Authenticates and decodes without changing anything but counters. `packet` is complete if true.
    /// After false the connection may have ended: an authentic packet that makes no sense closes it.
    bool open(std::span<const std::byte> datagram, Packet& packet, Time now);
    /// Whether a packet just opened shows the other side elsewhere: it is newer than all before.
    bool moves(const Address& from, const Packet& packet) const;
    /// `challenge`: a number that nobody can guess.
    void move(const Address& to, std::uint64_t challenge, const ResetToken& token) {
        path_.move(to, challenge, token);
    }
    /// What it means for the path that a packet just opened came from there. Before apply().
    void follow(const Address& from, const Packet& packet, Time now);
    /// Takes a packet just opened. Events follow.
    void apply(const Packet& packet, Time now);

    /// Reports on_connected, once; from then on the handler hears of it.
    void announce();
    void update(Time now);
    void flush(Time now);
    /// Sends a packet that carries nothing and wants an ack.
    void ping(Time now) { send_packet({.ping = true}, now); }

    std::size_t payload_capacity() const;
    std::uint64_t next_packet_number() const { return sent_.next_number(); }
    std::uint64_t send_payload(std::span<const std::byte> payload, std::uint64_t cookie, Time now);
    SendResult send_message(const Delivery& how, std::span<const std::byte> message);

    /// Ends it: fates, on_disconnected, and a few disconnect packets unless it was the peer's idea.
    void close(DisconnectReason reason, std::string_view text, bool tell_peer, Time now);

    bool is_open() const { return is_open_; }
    bool is_announced() const { return is_announced_; }
    /// Nothing more to say: may be destroyed.
    bool is_finished() const { return !is_open_ && last_words_left_ == 0; }

    const Session& session() const { return session_; }
    const Path& path() const { return path_; }
    const ConnectionStats& stats() const { return stats_; }
    void count(Drop reason) { stats_.drops[reason] += 1; }
    Time created() const { return created_; }

private:
    struct Contents {
        bool ping = false;
        bool messages = false;
        bool has_payload = false;
        std::span<const std::byte> payload{};
        std::uint64_t cookie = 0;
        const Fragment* fragment = nullptr;  // of a large payload, whose number is the cookie
    };

    /// Bytes of payload for the next packet, also of a large one.
    std::size_t packet_capacity() const;
    /// Sends of the large payload what may go now.
    void send_fragments(Time now);
    /// Returns its number; 0, and sends nothing, when it was meant for messages and none can go.
    std::uint64_t send_packet(const Contents& contents, Time now);
    /// Writes the envelope; returns its size.
    std::size_t begin(ByteWriter& out, PacketKind kind, Time now);
    void note_lead(std::size_t payload_bytes);
    std::span<const std::byte> seal(ByteWriter& out, std::size_t header_bytes) const;
    void put(std::span<const std::byte> datagram);
    Acks acks(Time now) const;
    Outbox::Terms message_terms(bool beside_payload, Time now) const;
    void report_fates(Time now);
    void report(const std::optional<PacketFate>& fate);
    /// Tells the handler what came. False to withhold the ack.
    bool take_payload(const Packet& packet, Time now);
    bool take_payload(std::uint64_t number, std::span<const std::byte> payload, Time now);
    bool take_fragment(const Packet& packet, Time now);
    void deliver(const Packet& packet, const Frame& frame);
    void hand_over(Channel channel, std::span<const std::byte> message);
    void send_last_words(Time now);
    void prove_path(Time now);
    /// A packet of one of the kinds beside data.
    void send_bare(PacketKind kind, std::span<const std::byte> body, Time now);

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
    Outbox outbox_;
    Inbox inbox_;
    OutgoingPayload outgoing_;
    IncomingPayload incoming_;

    Time created_;
    Time last_received_;
    Time newest_accepted_at_{0};  // arrival of the packet that acks name first
    Time ack_wanted_since_{0};
    std::uint32_t acks_wanted_ = 0;   // packets that want an ack and had none yet
    bool is_order_broken_ = false;    // since the last ack: some came too late, or are missing
    std::size_t state_lead_ = 0;      // bytes of payload sent while messages wait that cannot go beside one
    std::uint32_t acks_to_send_ = 0;  // packets that should still carry the news, should some be lost

    std::optional<std::uint64_t> echo_;  // of a challenge, to be sent

    bool is_open_ = true;
    bool is_announced_ = false;
    DisconnectReason reason_ = DisconnectReason::closed;
    std::string text_;  // of the good-bye
    std::uint8_t last_words_left_ = 0;
    Time next_last_word_{0};
};

}  // namespace shoal::net
