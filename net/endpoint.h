#pragma once
// The interface of this folder: the layers around it implement Handler and Sink, and call Endpoint. There are
// no sockets, clocks or random sources here: datagrams, time and a seed are arguments. The files that include
// this header rely on the standard headers that it includes, directly or not.

#include <bit>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "socket/address.h"
#include "stats.h"

namespace shoal::net::impl {

using Duration = std::chrono::microseconds;
/// Microseconds since an epoch of the caller's choice; never negative, and never decreases.
using Time = Duration;

constexpr std::size_t kMaxDatagramBytes = 1200;  // fits every common path without fragmentation
constexpr std::size_t kMaxMessageBytes = 1000;   // size of an unreliable or sequenced message
constexpr std::size_t kMaxReliableBytes = 256 * kMaxMessageBytes;  // size of a reliable one, sent in pieces
constexpr std::size_t kMaxPayloadBytes = 1160;            // state payload of a packet without messages
constexpr std::size_t kMinPayloadBytes = 600;             // PayloadTurn::share is at least this much
constexpr std::size_t kMaxLargePayloadBytes = 64 * 1024;  // state payload that is sent in several packets
constexpr std::size_t kMaxHelloBytes = 900;               // application data in a connection request
constexpr std::size_t kMaxTokenHelloBytes = 632;          // the same beside a connect token of any size
constexpr std::size_t kMaxReasonBytes = 200;  // text of a refusal or disconnect; longer text is cut

/// Both sides of a connection must use the same value.
enum class Security : std::uint8_t {
    sealed,    // encrypted, and only the owner of the server's private key can answer
    insecure,  // for debugging: not encrypted; attackers who see packets can forge others
};

/// Names a connection of one endpoint, by the index of its peer slot and one of 65,535 generations, which
/// repeat. A default-constructed id names no connection.
struct PeerId {
    std::uint32_t value = 0;
    /// Below 65,536, for the game's own tables. It can exceed HostConfig::max_peers, because pending
    /// handshakes take indices, too. After on_disconnected a new peer may get the same index.
    constexpr std::uint32_t index() const { return value & 0xFFFF; }
    constexpr explicit operator bool() const { return value != 0; }
    friend constexpr auto operator<=>(const PeerId&, const PeerId&) = default;
};

/// How a message is delivered. The key is Delivery::key.
enum class Channel : std::uint8_t {
    unreliable,  // delivered once or never, in any order
    sequenced,   // delivered once or never, and never after a newer message with the same key
    reliable,    // delivered once; messages with the same key in order, except those with kNoKey
};

/// Which part of the bytes that the rate allows a message gets: see ConnectionOptions::shares. Bulk messages
/// get only the room that nothing else uses, unless lost ones of them hold up the reliable window.
enum class Weight : std::uint8_t { bulk, normal, urgent };

/// How to deliver one message: a Channel, or the result of a function below.
///     send_message(peer, Channel::reliable, bytes);       // one ordered stream
///     send_message(peer, ordered_by(door), bytes);        // reliable, after earlier messages of this door
///     send_message(peer, unordered(), bytes);             // reliable, waits for no other message
///     send_message(peer, latest_of(kAim), bytes);         // sequenced
///     send_message(peer, unordered().with(Weight::bulk), bytes);
struct Delivery {
    static constexpr std::uint32_t kNoKey = 0xFFFF'FFFF;

    constexpr Delivery(Channel on, std::uint32_t of = 0)
        : channel(on), key(on == Channel::sequenced ? of & 0xFF : of) {}
    /// Returns a copy with this weight. A message never overtakes an earlier one with the same key: while the
    /// earlier message is unsent, the new one gets the weight of the earlier one instead.
    constexpr Delivery with(Weight other) const {
        Delivery result = *this;
        result.weight = other;
        return result;
    }

    Channel channel;
    Weight weight = Weight::normal;
    std::uint32_t key;  // sequenced: 0..255; reliable: any; kNoKey: not ordered
};
constexpr Delivery ordered_by(std::uint32_t key) {
    return {Channel::reliable, key};
}
constexpr Delivery unordered() {
    return {Channel::reliable, Delivery::kNoKey};
}
/// Sequenced. A newer message with the same key replaces an older one that is still queued.
constexpr Delivery latest_of(std::uint8_t key) {
    return {Channel::sequenced, key};
}

enum class DisconnectReason : std::uint8_t {
    closed,            // this side called disconnect with this reason
    closed_by_peer,    // the other side called disconnect, or sent a reason that its role does not allow
    shut_down,         // the server called shut_down
    kicked,            // the server's application removed this peer
    timed_out,         // no packet arrived for ConnectionOptions::timeout, here or at the other side
    replaced,          // a newer connection of the same client took its place; does not tell a server
    protocol_error,    // an authentic packet was malformed
    unreachable,       // client: no answer within ClientConfig::connect_timeout
    refused_protocol,  // client: the server has another protocol id or wire version
    refused_schema,    // client: the server has another schema hash
    refused_full,      // client: the server has no free seat
    refused,           // client: the server's application refused
    refused_key,       // client: the server's key differs from the expected one
    refused_security,  // client: one side is sealed and the other is insecure
    misconfigured,  // client: the server's key or the seed is missing, or the hello is too long; see the text
    exhausted,      // one side has sent ConnectionConfig::max_packets packets
    server_restarted,  // client: the server no longer knows this connection
    refused_token,     // client: its connect token is missing or not valid here; see the text
};
constexpr DisconnectReason kLastDisconnectReason = DisconnectReason::refused_token;

std::string_view describe(DisconnectReason reason);

struct PacketFate {
    std::uint64_t number = 0;  // of the payload's packet, or of its first packet
    bool delivered = false;
    Duration rtt{0};  // of the packet that was acknowledged last, without the peer's ack delay; lost: 0
};

/// A packet that has room for a payload; the argument of Handler::write_payload.
struct PayloadTurn {
    std::uint64_t packet_number = 0;  // on_fate will name it
    std::span<std::byte> room;        // where to write; kMaxPayloadBytes bytes
    /// The payload's part of the room, in bytes, at least kMinPayloadBytes; queued messages use the rest. If
    /// a payload is larger, later packets give the messages more room.
    std::size_t share = 0;
    Time now{0};
    bool may_be_large = true;  // false while the fate of a large payload to this peer is not known
    /// If may_be_large, the handler may set this instead of writing to `room`: a payload of more than
    /// room.size() bytes, sent in several packets from this one on (ALONE.md, "What if the state is
    /// larger?"). It is copied when write_payload returns, whose result is then ignored.
    std::span<const std::byte> large{};
};

/// A client that asks to be accepted; its address is proven.
struct Admission {
    PeerId peer;  // the id in on_connected or on_never_connected; empty if the schema differs
    Address address;
    std::uint64_t schema_hash = 0;  // the client's
    bool schema_matches = false;    // false: the client will be refused; the handler may give a text
    /// False: no seat is free. The client will be refused, unless the handler disconnects a peer, such as the
    /// former one of the same client. Replaced peers count as free: see README.md.
    bool has_room = true;
    std::span<const std::byte> hello;   // as given to Client::connect, at most kMaxHelloBytes; untrusted
    bool has_token = false;             // authentic, for this server, and unused if the schema matches
    std::uint64_t client_id = 0;        // with a token: the backend's name for the player
    std::span<const std::byte> claims;  // with a token: other statements of the backend
};

/// The layer above implements this class. flush() calls only write_payload(), the others call the rest. A
/// handler may call send_message, disconnect and the const functions of the Endpoint; in on_disconnected also
/// Client::connect; in write_payload() only the const functions. Spans and texts are valid during the call.
/// For one arrived packet the order is on_fate, on_message, on_payload.
class Handler {
public:
    virtual ~Handler() = default;

    /// The first call about this peer, except on_admit.
    virtual void on_connected(PeerId) {}

    /// The last call about this peer, exactly once. A client that fails to connect gets it without
    /// on_connected. The text may come from the other side: check its bytes before you show it.
    virtual void on_disconnected(PeerId, DisconnectReason, std::string_view /*text*/) {}

    /// A packet can carry state. Write the state that is best to send now into turn.room and return its size.
    /// Called again in the same flush(), as long as the rate allows, until the handler returns 0: no state.
    virtual std::size_t write_payload(PeerId, PayloadTurn& /*turn*/) { return 0; }

    /// A payload arrived, in order of arrival, each at most once; one of several packets with its last
    /// missing packet and the number of its first. Return false to let the sender see it as lost.
    virtual bool on_payload(PeerId, std::uint64_t /*packet_number*/, std::span<const std::byte>, Time) {
        return true;
    }

    /// A message arrived: at most kMaxMessageBytes, or, if reliable, kMaxReliableBytes.
    virtual void on_message(PeerId, Channel, std::span<const std::byte>) {}

    /// Called exactly once for each payload written: ALONE.md, Fates.
    virtual void on_fate(PeerId, const PacketFate&) {}

    /// Host only: a client asks to be accepted. To refuse, return false and set a text for humans. A refusal
    /// uses up the connect token. Without a token, one attempt can cause several calls with different ids.
    virtual bool on_admit(const Admission&, std::string& /*refusal*/) { return true; }

    /// Host only: on_admit returned true, but on_connected will not follow: no seat was free, or the client
    /// sent no packet within HostConfig::handshake_timeout, or left. Not called if the host is destroyed.
    virtual void on_never_connected(PeerId) {}
};

/// Sends datagrams. A Sink may drop some of them.
class Sink {
public:
    virtual ~Sink() = default;
    virtual void send(const Address& to, std::span<const std::byte> datagram) = 0;
    /// Returns why the newest datagrams to this address were not sent or not delivered, if the system said
    /// so. Strangers can forge some of these errors.
    virtual NetError error_to(const Address&) const { return NetError::none; }
};

enum class SendResult : std::uint8_t {
    queued,
    queue_full,  // reliable only: not queued, because the queue has no room
    too_large,
    not_connected,    // also while disconnect() delivers what is queued
    replaced_oldest,  // unreliable or sequenced: queued; the oldest that waited were dropped to make room
};
std::string_view describe(SendResult result);
constexpr bool is_queued(SendResult result) {
    return result == SendResult::queued || result == SendResult::replaced_oldest;
}

/// The addresses of one server, the preferred one first, as from resolve(). A client tries them in turn.
struct Servers {
    Servers(const Address& only) : addresses{only} {}
    Servers(std::vector<Address> all) : addresses(std::move(all)) {}
    std::vector<Address> addresses;  // not empty
};

class Connection;
struct ConnectionOptions;
enum class PacketKind : std::uint8_t;

/// The common part of Host and Client. Only one thread at a time may call it. In each tick call receive() for
/// each datagram, then update(), then flush().
class Endpoint {
public:
    virtual ~Endpoint() = default;

    /// Takes any bytes from anywhere: an invalid datagram changes only counters. May send handshake packets,
    /// resets, challenges, echoes, pings, disconnect packets, and an ack after each 32 packets that want one.
    virtual void receive(const Address& from, std::span<const std::byte> datagram, Time now) = 0;
    /// Declares packets lost, ends silent connections, and adds to what the rate allows. Call it each tick.
    virtual void update(Time now) = 0;
    /// Sends messages, repeats and payloads from the handler, as the rate allows; also acks, keep-alives,
    /// handshake packets and disconnect packets.
    virtual void flush(Time now) = 0;

    /// Returns true from on_connected until the end of the connection.
    bool is_connected(PeerId peer) const;
    /// Queues a copy, in the queue of its channel and weight. A reliable message has at most
    /// kMaxReliableBytes, another one kMaxMessageBytes, and each must fit into an empty queue.
    [[nodiscard]] SendResult send_message(PeerId peer, Delivery how, std::span<const std::byte> message);
    /// Replaces the options of a connection. Queued messages stay, even if they exceed a lower
    /// message_queue_bytes. No effect if the peer is not connected.
    void set_options(PeerId peer, const ConnectionOptions& options);
    /// Ends a connection. Before it returns, it sends disconnect packets, reports payloads with an open fate
    /// as lost, and calls on_disconnected. Later flush() calls repeat the disconnect packets. Queued messages
    /// are discarded. No effect if the peer is not connected. With `deliver_for` update() ends the
    /// connection: as soon as each queued message was sent and each reliable one acknowledged, or after this
    /// time. Until then only send_message() fails: not_connected. A later call can only shorten it.
    virtual void disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now,
                            Duration deliver_for = Duration(0));
    /// Valid also in on_disconnected, if the peer was connected. All zero for an unknown peer.
    const ConnectionStats& stats(PeerId peer) const;
    const EndpointStats& endpoint_stats() const { return stats_; }

protected:
    /// Returns the kind of packet, or counts the datagram as dropped and returns nothing.
    std::optional<PacketKind> kind_of(std::span<const std::byte> datagram);
    void count(Drop reason) { stats_.drops[reason] += 1; }
    /// Null for an unknown peer. Lives at least until the last disconnect packet was sent.
    virtual Connection* connection_of(PeerId peer) const = 0;

    EndpointStats stats_;
};

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::Address, impl::Admission, impl::Channel, impl::ConnectionStats, impl::Delivery, impl::describe,
    impl::DisconnectReason, impl::Drop, impl::DropCounters, impl::Duration, impl::Endpoint,
    impl::EndpointStats, impl::Handler, impl::is_queued, impl::kMaxDatagramBytes, impl::kMaxHelloBytes,
    impl::kMaxLargePayloadBytes, impl::kMaxMessageBytes, impl::kMaxPayloadBytes, impl::kMaxReasonBytes,
    impl::kMaxReliableBytes, impl::kMaxTokenHelloBytes, impl::latest_of, impl::NetError, impl::ordered_by,
    impl::PacketFate, impl::PayloadTurn, impl::PeerId, impl::Result, impl::Security, impl::SendResult,
    impl::Servers, impl::Sink, impl::Time, impl::unordered, impl::Weight;
}  // namespace shoal::net

template <>
struct std::hash<shoal::net::PeerId> {
    std::size_t operator()(shoal::net::PeerId peer) const noexcept {
        return std::hash<std::uint32_t>()(peer.value);
    }
};
