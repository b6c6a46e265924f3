#pragma once
// One peer after the handshake: packets in, packets and events out. Host and Client own these.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "ack_window.h"
#include "channel.h"
#include "endpoint.h"
#include "packet.h"
#include "sent_packets.h"
#include "siphash.h"

namespace shoal::net {

struct ConnectionConfig {
    Duration timeout = std::chrono::seconds(10);             // silence before the peer is gone
    Duration keep_alive = std::chrono::seconds(1);           // longest time without a packet that wants an ack; < timeout
    Duration max_ack_delay = std::chrono::milliseconds(20);  // before an ack is due by itself
    std::uint32_t max_open_packets = 256;                    // fates open at once; power of two, 32..32768
    std::uint32_t message_queue_bytes = 64 * 1024;           // for each channel
    std::uint32_t max_packets_per_flush = 8;                 // >= 1
    std::uint64_t first_packet_number = 1;                   // 1..2^62; tests start it next to wraps
};

/// What the handshake agreed on.
struct Session {
    PeerId peer;
    Address address;
    std::uint64_t protocol_id = 0;
    std::optional<std::uint32_t> send_id;  // written into each packet; the client's side only
    bool receive_id = false;               // packets that arrive carry an id: the server's side
    SipKey send_key;
    SipKey receive_key;
    std::uint64_t send_first = 1;  // first packet number; its low 16 bits are the first message id
    std::uint64_t receive_first = 1;
};

class Connection {
public:
    Connection(const ConnectionConfig& config, const Session& session, Handler& handler, Sink& sink,
               Time now);

    /// Authenticates and decodes without changing anything but counters. `packet` is complete if true.
    /// After false the connection may have ended: an authentic packet that makes no sense closes it.
    bool open(std::span<const std::byte> datagram, Packet& packet, Time now);
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
    SendResult send_message(Channel channel, std::span<const std::byte> message);

    /// Ends it: fates, on_disconnected, and a few disconnect packets unless it was the peer's idea.
    void close(DisconnectReason reason, std::string_view text, bool tell_peer, Time now);

    bool is_open() const { return is_open_; }
    bool is_announced() const { return is_announced_; }
    /// Nothing more to say: may be destroyed.
    bool is_finished() const { return !is_open_ && last_words_left_ == 0; }

    const Session& session() const { return session_; }
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
    };

    std::uint64_t send_packet(const Contents& contents, Time now);
    void begin(ByteWriter& out, PacketKind kind) const;
    std::span<const std::byte> seal(ByteWriter& out) const;
    void put(std::span<const std::byte> datagram);
    Acks acks(Time now) const;
    std::uint8_t write_messages(ByteWriter& out, std::size_t room, bool beside_payload, bool& has_reliable);
    bool has_messages() const { return !unreliable_.empty() || reliable_sender_.has_pending(); }
    void report_fates();
    void deliver(const Packet& packet, const Frame& frame);
    void send_last_words(Time now);

    ConnectionConfig config_;
    Session session_;
    Handler& handler_;
    Sink& sink_;
    ConnectionStats stats_;

    SentPackets sent_;
    AckWindow received_;
    MessageQueue unreliable_;
    ReliableSender reliable_sender_;
    ReliableReceiver reliable_receiver_;

    Time created_;
    Time last_received_;
    Time newest_accepted_at_{0};  // arrival of the packet that acks name first
    Time ack_wanted_since_{0};
    std::uint32_t acks_wanted_ = 0;  // packets that want an ack and had none yet

    bool is_open_ = true;
    bool is_announced_ = false;
    DisconnectReason reason_ = DisconnectReason::closed;
    std::array<char, kMaxReasonBytes> text_{};
    std::uint8_t text_bytes_ = 0;
    std::uint8_t last_words_left_ = 0;
    Time next_last_word_{0};
};

}  // namespace shoal::net
