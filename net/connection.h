#pragma once
// One peer after the handshake: packets in, packets and events out. Host and Client own these.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ack_window.h"
#include "crypto/packet_cipher.h"
#include "endpoint.h"
#include "message/inbox.h"
#include "message/large_payload.h"
#include "message/send_queue.h"
#include "packet.h"
#include "path.h"
#include "rate/rate_controller.h"
#include "scheduler.h"
#include "sent_packets.h"

namespace shoal::net {

/// What a game may change while a connection lives.
struct ConnectionOptions {
    Duration timeout = std::chrono::seconds(10);  // silence before the peer is gone
    Duration keep_alive =
        std::chrono::seconds(1);  // longest time between packets that want an ack; < timeout
    Duration max_ack_delay = std::chrono::milliseconds(20);  // before an ack is due by itself
    std::uint32_t message_queue_bytes = 64 * 1024;           // waiting, for each channel and weight
    std::uint32_t max_packets_per_flush = 256;               // >= 1; acks and the like do not count
    std::uint64_t max_bytes_per_second = 16'000'000;         // >= 4,000; the path may allow less
    double repeat_share = 0.5;  // of all bytes, for repeats of reliable messages; 0..1
    Shares shares{};            // of messages and payloads
};

struct ConnectionConfig : ConnectionOptions {
    std::uint32_t max_open_packets = 1024;          // fates open at once; power of two, 32..32768
    std::uint64_t first_bytes_per_second = 32'000;  // until acks show what the path carries
    std::uint64_t first_packet_number = 1;          // 1..2^62; tests start it next to wraps
    std::uint64_t max_packets = 1ull << 48;         // sent; then the connection ends, as exhausted
    KeyLife key_life{};
};

/// What the handshake agreed on.
struct Session {
    PeerId peer;
    Address address;                       // the first one, which is proven
    std::optional<std::uint32_t> send_id;  // written into each packet; the client's side only
    bool receive_id = false;               // packets that arrive carry an id: the server's side
    std::uint64_t send_first = 1;          // first packet number; also the first id of a reliable message
    std::uint64_t receive_first = 1;
    std::uint64_t salt = 0;  // secret; decides which packet numbers are left out; 0: none
};

class Connection {
public:
    Connection(const ConnectionConfig& config, const Session& session, const PacketCipher& cipher,
               Handler& handler, Sink& sink, Time now);

    enum class Arrival : std::uint8_t {
        dropped,  // and counted
        copy,     // authentic, but its number came before; of `packet` only kind and challenge are read
        fresh,    // to be applied
    };
    /// Authenticates and decodes without changing anything but counters. After `dropped` the connection may
    /// have ended: an authentic packet that makes no sense closes it.
    Arrival open(std::span<const std::byte> datagram, Packet& packet, Time now);
    /// Whether a packet just opened is newer than all before.
    bool is_newest(const Packet& packet) const { return packet.number > received_.newest_arrived(); }
    /// Takes a packet just opened. Events follow.
    void apply(const Packet& packet, Time now);

    /// Sends a challenge to an address that is not proven. Takes at most `room` bytes, as
    /// Path::wants_challenge says; the reset token is left out where they do not suffice.
    void challenge(const Address& to, const Challenge& challenge, std::size_t room, Time now);
    bool is_ack_overdue(Time now) const { return rate_.silence(now, stats_) >= sent_.answer_timeout(stats_); }
    /// The path is another one: rate and round trip are measured anew.
    void restart(Time now);

    /// Reports on_connected, once. Before this call the handler gets no on_disconnected.
    void announce();
    void update(Time now);
    /// Sends what is due. Without contents: acks and the like, but no messages and no payload.
    void flush(Time now, bool with_contents = true);
    /// Sends a packet that carries nothing and wants an ack.
    void ping(Time now);

    SendResult send_message(const Delivery& how, std::span<const std::byte> message);
    void set_options(const ConnectionOptions& options);
    /// Ends it: reports fates and on_disconnected. Unless `tell_peer` is false, disconnect packets follow.
    void close(DisconnectReason reason, std::string_view text, bool tell_peer, Time now);

    bool is_open() const { return is_open_; }
    bool is_announced() const { return is_announced_; }
    /// Closed, and all disconnect packets were sent: may be destroyed.
    bool is_finished() const { return !is_open_ && disconnects_left_ == 0; }

    const Session& session() const { return session_; }
    Path& path() { return path_; }
    const Path& path() const { return path_; }
    const ConnectionStats& stats() const { return stats_; }

private:
    /// A packet being written.
    struct Draft;

    /// Sends a packet with messages and payload; false if there is nothing for one. Sets `asks` to false if
    /// the handler has no payload to send.
    bool send_contents(bool& asks, Time now);
    /// Starts the payload of a packet, or the next part of a large one.
    void write_payload(Draft& draft, std::size_t share, bool& asks, Time now);
    /// Sends a packet without messages and payload: data with acks, or `body` in a packet of another kind.
    /// It goes to `elsewhere`, if there is one, and not to the proven addresses.
    void send_small(PacketKind kind, std::span<const std::byte> body, Time now, unsigned flags = 0,
                    const Address* elsewhere = nullptr);
    void send_echo(std::uint64_t number, Time now);
    void send_disconnect(Time now);
    void begin(Draft& draft, PacketKind kind, Time now);
    void finish(Draft& draft, Time now, const Address* elsewhere = nullptr);
    void skip_number();
    void report_fates(Time now);
    void report(const std::optional<PacketFate>& fate);
    void deliver(const Packet& packet, const Frame& frame);
    /// Gives a payload to the handler. False to withhold the ack.
    bool take_payload(const Packet& packet, Time now);
    void note_queued();

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
    IncomingPayload incoming_;

    Time created_;
    Time last_received_;
    Time ack_wanted_since_{0};
    std::uint32_t acks_wanted_ = 0;   // packets that want an ack and had none yet
    std::uint32_t acks_to_send_ = 0;  // packets that should still carry the acks, as some may be lost
    bool is_order_broken_ = false;    // since the last ack a packet came late, or one before it is missing

    std::uint64_t next_skip_ = 0;  // the packet number to leave out; 0: none

    bool is_open_ = true;
    bool is_announced_ = false;
    std::string disconnect_;  // once closed: the body of a disconnect packet, reason and text
    std::uint8_t disconnects_left_ = 0;
    Time next_disconnect_{0};
};

}  // namespace shoal::net
