#pragma once
// The interface of this folder: what the layers around it implement (Handler, Sink) and what they call
// (Endpoint). No sockets, clocks or random sources here: datagrams, time and a seed come in as arguments.

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "socket/address.h"
#include "stats.h"

namespace shoal::net {

using Duration = std::chrono::microseconds;
/// Since an epoch of the caller's choice; never negative, and never goes backwards.
using Time = Duration;

constexpr std::size_t kMaxDatagramBytes = 1200;                    // what every path on the internet carries
constexpr std::size_t kMaxMessageBytes = 1000;                     // unreliable, sequenced
constexpr std::size_t kMaxReliableBytes = 256 * kMaxMessageBytes;  // reliable; travels in pieces of 1,000
constexpr std::size_t kMaxPayloadBytes = 1160;  // state payload of a packet without messages
constexpr std::size_t kMinPayloadBytes = 600;   // write_payload is always offered at least this much
/// State payload in as many packets as it takes. All must arrive: at 1 % loss 32 kB do in three of four
/// cases, at 5 % in less than one of four.
constexpr std::size_t kMaxLargePayloadBytes = 32 * 1024;
constexpr std::size_t kMaxHelloBytes = 900;   // application data in a connection request
constexpr std::size_t kMaxReasonBytes = 200;  // text of a refusal or disconnect; longer text is cut
/// What a connect token leaves of a hello, however long it is.
constexpr std::size_t kMaxTokenHelloBytes = 632;

/// Whether packets are encrypted. Both sides of a connection must say the same.
enum class Security : std::uint8_t {
    sealed,    // encrypted, and only the owner of the server's key can answer
    insecure,  // in the clear, tagged against damage and blind forgery: for debugging, and to compare costs
};

/// Names a connection of one endpoint. Slot and generation: an id comes back only after its slot was used
/// 65,535 times more. A default-constructed id names nobody.
struct PeerId {
    std::uint32_t value = 0;
    /// For tables, which grow with it: below 65,536, and below the most peers and handshakes there were at
    /// once plus a few. Used again after on_disconnected.
    constexpr std::uint32_t index() const { return value & 0xFFFF; }
    constexpr explicit operator bool() const { return value != 0; }
    friend constexpr auto operator<=>(const PeerId&, const PeerId&) = default;
};

/// What becomes of a message on its way.
enum class Channel : std::uint8_t {
    unreliable,  // once or never, in any order
    sequenced,   // the latest of its key: once or never, and never an older one after a newer one
    reliable,    // once, in order among those with the same key
};

/// What goes first when not all fits. While both wait, urgent messages get three bytes for each one of normal
/// ones. Bulk takes the room that the others and the state leave.
enum class Weight : std::uint8_t { bulk, normal, urgent };

/// How to deliver one message: a Channel, or what the functions below make.
///     send_message(peer, Channel::reliable, bytes);       // one ordered stream
///     send_message(peer, ordered_by(door), bytes);        // reliable, behind earlier ones of this door only
///     send_message(peer, unordered(), bytes);             // reliable, behind nothing
///     send_message(peer, latest_of(kAim), bytes);         // sequenced
///     send_message(peer, unordered().with(Weight::bulk), bytes);
struct Delivery {
    static constexpr std::uint32_t kNoKey = 0xFFFF'FFFF;

    constexpr Delivery(Channel on, std::uint32_t of = 0)
        : channel(on), key(on == Channel::sequenced ? of & 0xFF : of) {}
    /// A message never overtakes one of the same key: behind one that was not begun it gets its weight.
    constexpr Delivery with(Weight other) const {
        Delivery result = *this;
        result.weight = other;
        return result;
    }

    Channel channel;
    Weight weight = Weight::normal;
    std::uint32_t key;  // sequenced: 0..255; reliable: any, kNoKey is ordered with nothing
};
constexpr Delivery ordered_by(std::uint32_t key) {
    return {Channel::reliable, key};
}
constexpr Delivery unordered() {
    return {Channel::reliable, Delivery::kNoKey};
}
/// A newer message of the key replaces one that still waits.
constexpr Delivery latest_of(std::uint8_t key) {
    return {Channel::sequenced, key};
}

enum class DisconnectReason : std::uint8_t {
    closed,            // this side called disconnect without a better reason
    closed_by_peer,    // the other side did
    shut_down,         // the server ends
    kicked,            // the server's application does not want this peer any more
    timed_out,         // silence for ConnectionConfig::timeout
    replaced,          // the same address connected anew
    protocol_error,    // an authentic packet that makes no sense
    unreachable,       // client: no answer within ClientConfig::connect_timeout
    refused_protocol,  // client: the server has another protocol id or wire version
    refused_schema,    // client: the server has another schema hash
    refused_full,      // client: the server has no free slot
    refused,           // client: the server's application said no
    refused_key,       // client: the server has another key than the one we expect
    refused_security,  // client: one side is sealed and the other is insecure
    misconfigured,     // client: no key of the server, no seed, or too long a hello; the text says which
    exhausted,         // ConnectionConfig::max_packets were sent
    server_restarted,  // client: the server does not know this connection any more
    refused_token,     // client: its connect token is no good here, or it has none; the text says which
};
constexpr DisconnectReason kLastDisconnectReason = DisconnectReason::refused_token;

std::string_view describe(DisconnectReason reason);

/// What became of one payload.
struct PacketFate {
    std::uint64_t number = 0;  // of its packet, or of the first one
    bool delivered = false;
    /// Delivered: from sending to this news, less the peer's ack delay; of several packets, of the one whose
    /// news came last. Lost: 0.
    Duration rtt{0};
};

/// A packet that has room for a payload: what Handler::write_payload is given.
struct PayloadTurn {
    std::uint64_t packet_number = 0;  // on_fate will name it
    std::span<std::byte> room;        // where to write; kMinPayloadBytes to kMaxPayloadBytes
    /// How much of the room is the payload's share, kMinPayloadBytes at least. Messages wait for the rest.
    /// More may be used: the messages get it back in the packets after this one.
    std::size_t share = 0;
    Time now{0};
    /// Set by the handler, in place of anything in `room`: a payload of more than room.size() bytes and at
    /// most kMaxLargePayloadBytes. It is copied when write_payload returns, and takes several packets, of
    /// which this is the first one. No other payload is asked for until all of them have left.
    std::span<const std::byte> large{};
};

/// A client that asks to be accepted; its address is proven.
struct Admission {
    PeerId peer;  // its name in on_connected, if it gets that far; else its index() is used again
    Address address;
    std::uint64_t schema_hash = 0;      // the client's
    bool schema_matches = false;        // if not, it will be refused; the handler may still say why
    std::span<const std::byte> hello;   // as given to Client::connect, at most kMaxHelloBytes; untrusted
    bool has_token = false;             // authentic, for this server and used for the first time; then:
    std::uint64_t client_id = 0;        // the backend's name for the player
    std::span<const std::byte> claims;  // what else the backend says of him
};

/// What the layer above implements. Called from receive(), update(), disconnect() and shut_down(), and
/// write_payload() from flush(). Within a call it may use send_message, disconnect and the const functions of
/// the Endpoint; within on_disconnected also Client::connect; within write_payload() only the const
/// functions. Spans and text are valid during the call. For one packet the order is: fates, messages,
/// payload.
class Handler {
public:
    virtual ~Handler() = default;

    /// The first authentic packet of this peer has arrived. Before any other call about it.
    virtual void on_connected(PeerId) {}

    /// The last call about this peer, exactly once, after the fates of all its packets. A client that fails
    /// to connect gets this call without on_connected. After closed_by_peer and the like the text is the
    /// other side's, any bytes: check it before it is shown.
    virtual void on_disconnected(PeerId, DisconnectReason, std::string_view /*text*/) {}

    /// A packet can carry state: write what is best to send now into turn.room, and return its size; 0 if
    /// there is nothing to send. After 0 it is not asked again in this flush(), otherwise as long as the rate
    /// allows. Each payload has one fate. Called for one peer, it must not depend on calls for others.
    virtual std::size_t write_payload(PeerId, PayloadTurn& /*turn*/) { return 0; }

    /// A payload; each packet number at most once, in order of arrival. One that took several packets comes
    /// whole, with the last of them to arrive, under the number of the first one.
    /// Return false to withhold the acknowledgement of the packet that came: the sender will see the payload
    /// as lost.
    virtual bool on_payload(PeerId, std::uint64_t /*packet_number*/, std::span<const std::byte>, Time) {
        return true;
    }

    /// At most kMaxMessageBytes; reliable: kMaxReliableBytes.
    virtual void on_message(PeerId, Channel, std::span<const std::byte>) {}

    /// Exactly once for each payload written: delivered as soon as it is known; lost when three packets later
    /// than one of its own were delivered, when a timer says so, or at the end of the connection.
    virtual void on_fate(PeerId, const PacketFate&) {}

    /// Host only. Return false, with a reason for humans, to refuse. A token is used up by this call, unless
    /// the schema differs.
    virtual bool on_admit(const Admission&, std::string& /*refusal*/) { return true; }
};

/// Where datagrams go. Losing them is allowed.
class Sink {
public:
    virtual ~Sink() = default;
    virtual void send(const Address& to, std::span<const std::byte> datagram) = 0;
};

enum class [[nodiscard]] SendResult : std::uint8_t{queued, queue_full, too_large, not_connected};
std::string_view describe(SendResult result);

class Connection;
struct ConnectionOptions;
enum class PacketKind : std::uint8_t;

/// What Host and Client have in common. One thread at a time.
/// A tick: receive() for each datagram, update(), flush().
class Endpoint {
public:
    virtual ~Endpoint() = default;

    /// Any bytes from anywhere: what is not valid changes nothing but a counter. May send answers to
    /// handshakes, challenges and unknown packets, an ack after each 32 packets that want one, and disconnect
    /// packets.
    virtual void receive(const Address& from, std::span<const std::byte> datagram, Time now) = 0;
    /// Timers: fates of unanswered packets, timeouts, the budget. Once per tick.
    virtual void update(Time now) = 0;
    /// Sends what is due, as the rate allows: messages, repeats, and payloads, for which it asks the handler;
    /// acks (at the latest after two packets or 20 ms), keep-alives, handshake requests, disconnect packets.
    virtual void flush(Time now) = 0;

    /// Connected and not disconnecting. Every other function takes only such peers, unless it says so.
    bool is_connected(PeerId peer) const;
    /// Queues a copy. Each channel and weight has its own bound. Also for peers that are gone: not_connected.
    /// Reliable messages may have kMaxReliableBytes, others kMaxMessageBytes; too_large also says that it
    /// would not fit into its queue if that were empty (ConnectionOptions::message_queue_bytes).
    SendResult send_message(PeerId peer, Delivery how, std::span<const std::byte> message);
    /// Changes how the connection works from now on. Messages that wait stay, also over a lowered bound.
    /// Also for peers that are gone: no effect.
    void set_options(PeerId peer, const ConnectionOptions& options);
    /// Reports open fates as lost and the peer as disconnected, before it returns; tells the other side.
    /// Later flushes repeat the news. Messages that still wait, or get lost on their way, are not sent any
    /// more: wait for an answer to the last one first, if it matters. No effect on peers that are gone.
    virtual void disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now);
    /// Also in on_disconnected, for a peer that was connected. All zero for a peer that is not there.
    const ConnectionStats& stats(PeerId peer) const;
    const EndpointStats& endpoint_stats() const { return stats_; }

protected:
    /// The kind of a datagram that may be a packet. Others are counted.
    std::optional<PacketKind> kind_of(std::span<const std::byte> datagram);
    void count(Drop reason) { stats_.drops[reason] += 1; }
    /// From on_connected until it may be destroyed; null for others.
    virtual Connection* connection_of(PeerId peer) const = 0;

    EndpointStats stats_;
};

}  // namespace shoal::net

template <>
struct std::hash<shoal::net::PeerId> {
    std::size_t operator()(shoal::net::PeerId peer) const noexcept {
        return std::hash<std::uint32_t>()(peer.value);
    }
};
