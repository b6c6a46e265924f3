#pragma once
// Counters and estimates of one connection, and counters of datagrams that belong to no connection.

#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string_view>

namespace shoal::net::impl {

/// Reasons to drop a datagram.
enum class Drop : std::uint8_t {
    truncated,           // too short for its kind
    oversized,           // longer than kMaxDatagramBytes
    unknown_kind,        // first byte is no known packet kind, or uses reserved bits
    wrong_direction,     // a kind that only the other side receives
    bad_handshake,       // malformed handshake packet
    bad_cookie,          // connect packet with a cookie that is forged, expired, or of another address
    too_many_attempts,   // a handshake beyond the limits of the client's network or of this host
    unexpected,          // a handshake packet that is not expected now, such as a duplicate
    unknown_connection,  // unknown connection id
    wrong_address,       // client: not from its server's address
    bad_tag,             // forged, damaged or sealed with another key; or its number is far from the newest
    duplicate,           // packet number seen before
    stale,               // packet number more than 64 below the newest: too old to be acknowledged
    early,               // overtook too many packets, or followed a large gap: see AckWindow
    closed,              // for a closed connection, or the host is shut down
    malformed,           // authentic but malformed: ends the connection
    bad_reset,           // client: a reset that is forged, or of another connection or address
    count_,
};
std::string_view describe(Drop reason);

struct DropCounters {
    std::array<std::uint64_t, static_cast<std::size_t>(Drop::count_)> counts{};
    std::uint64_t& operator[](Drop reason) { return counts[std::size_t(reason)]; }
    std::uint64_t operator[](Drop reason) const { return counts[std::size_t(reason)]; }
    std::uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), std::uint64_t(0)); }
};

/// The reason why a connection does not send more.
enum class RateLimit : std::uint8_t {
    application,  // the application has no more to send
    network,      // the connection used up its rate (at most ConnectionOptions::max_bytes_per_second)
    host,         // HostConfig::max_bytes_per_second was used up at the last flush
    packets,      // ConnectionConfig::max_open_packets are in flight
    breaker,      // no ack came for long: only pings are sent until an ack comes
};

/// Of one connection. Bytes count whole datagrams, without IP and UDP headers (28 or 48 bytes each).
struct ConnectionStats {
    std::chrono::microseconds rtt{0};         // round-trip time, smoothed; 0: no sample on this path yet
    std::chrono::microseconds jitter{0};      // smoothed deviation of the round-trip time
    std::chrono::microseconds min_rtt{0};     // smallest sample on this path
    std::chrono::microseconds latest_rtt{0};  // newest sample
    double loss = 0;  // lost part of the packets, 0..1; average over about the last 64, at first over all

    double rate = 0;                           // bytes per second that may be sent
    std::chrono::microseconds queue_delay{0};  // estimated delay in the queue of the path (RATE.md)
    RateLimit rate_limit = RateLimit::application;

    std::chrono::microseconds silence{0};  // at the last update(): since the last accepted packet

    std::uint64_t packets_sent = 0, bytes_sent = 0;
    std::uint64_t packets_received = 0, bytes_received = 0;  // packets that AckWindow accepted
    std::uint64_t packets_delivered = 0, bytes_delivered = 0;
    std::uint64_t packets_lost = 0, bytes_lost = 0;
    std::uint64_t bytes_in_flight = 0;  // bytes of packets that want an ack and are not acknowledged or lost
    std::uint64_t late_acks = 0;        // acks of packets that were reported lost
    /// Payloads not acknowledged: the handler refused them, or messages_refused counted their packet.
    std::uint64_t payloads_withheld = 0;
    std::uint64_t payloads_superseded = 0;  // incomplete large payloads dropped for a newer one
    std::uint64_t fragments_outdated = 0;   // fragments of superseded or complete payloads; not acknowledged

    std::uint64_t messages_received = 0;    // messages passed to the handler
    std::uint64_t messages_sent = 0;        // each piece and each repeat counts as one
    std::uint64_t messages_repeated = 0;    // part of messages_sent: repeats and parities
    std::uint64_t messages_duplicated = 0;  // reliable messages or pieces that arrived again
    std::uint64_t messages_outdated = 0;    // sequenced messages that arrived after a newer one: dropped
    std::uint64_t messages_refused = 0;     // reliable; ids too far ahead of the delivered ones: sent again
    /// Never sent: unreliable messages older than max_message_age, and unreliable or sequenced ones that made
    /// room for a newer one (SendResult::replaced_oldest).
    std::uint64_t messages_dropped = 0;
    // At the last flush() or send_message():
    std::uint32_t messages_queued = 0;            // with any Weight; each piece counts as one
    std::uint32_t message_bytes_queued = 0;       // the queued messages, and 4 bytes per message head
    std::chrono::microseconds oldest_message{0};  // wait of the oldest unsent reliable one, Weight::normal
    std::uint32_t messages_in_flight = 0;  // reliable ids from the oldest unacknowledged one to the newest

    DropCounters drops;
};

/// Counters of a whole host or client. Each connection has its own ConnectionStats.
struct EndpointStats {
    DropCounters drops;  // datagrams that belong to no connection
    std::uint64_t handshake_bytes_received = 0, handshake_bytes_sent = 0;
    std::uint64_t cookies_sent = 0, answers_sent = 0, refusals_sent = 0;
    std::uint64_t handshakes_expired = 0;  // host: accepted, but not confirmed by the client in time
    std::uint64_t moves = 0;               // host: changes of a peer's address
    std::uint64_t resets_sent = 0;         // host: answers to packets of unknown connections
};

}  // namespace shoal::net::impl
