#pragma once
// Counters and estimates of one connection, and counters of datagrams that belong to no connection.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

namespace shoal::net {

/// Reasons to drop a datagram.
enum class Drop : std::uint8_t {
    truncated,           // too short for its kind
    oversized,           // longer than kMaxDatagramBytes
    unknown_kind,        // first byte is no known packet kind, or uses reserved bits
    wrong_direction,     // a kind that only the other side receives
    bad_handshake,       // malformed handshake packet
    bad_cookie,          // forged, expired, or for another address
    too_many_attempts,   // handshakes beyond the limits per machine or of this host
    unexpected,          // a handshake packet that was not, or no longer, expected
    unknown_connection,  // unknown connection id
    wrong_address,       // client: not from its server's address
    bad_tag,             // forged or damaged, or the number is too far away to expand; also of an answer
    duplicate,           // packet number seen before
    stale,               // too old to be acknowledged
    closed,              // for a closed connection, or the host is shut down
    malformed,           // authentic but malformed: ends the connection
    bad_reset,           // client: forged, or for another connection or address
    count_,
};
std::string_view describe(Drop reason);

struct DropCounters {
    std::array<std::uint64_t, static_cast<std::size_t>(Drop::count_)> counts{};
    std::uint64_t& operator[](Drop reason) { return counts[static_cast<std::size_t>(reason)]; }
    std::uint64_t operator[](Drop reason) const { return counts[static_cast<std::size_t>(reason)]; }
    std::uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), std::uint64_t(0)); }
};

/// The reason why a connection does not send more.
enum class RateLimit : std::uint8_t {
    application,  // it has no more to send
    network,      // it used up its rate (at most ConnectionOptions::max_bytes_per_second) lately
    host,         // HostConfig::max_bytes_per_second was used up at the last flush
    packets,      // ConnectionConfig::max_open_packets are in flight
    breaker,      // no ack for three timeouts: sends only pings until an ack comes
};

/// One connection. Bytes are those of whole datagrams, without IP and UDP headers (28 or 48 bytes each).
struct ConnectionStats {
    std::chrono::microseconds rtt{0};         // smoothed; 0 until the first sample
    std::chrono::microseconds jitter{0};      // smoothed deviation of the round-trip time
    std::chrono::microseconds min_rtt{0};     // smallest sample
    std::chrono::microseconds latest_rtt{0};  // newest sample
    double loss = 0;  // 0..1, of packets sent; average over about 64 packet fates, at first over all

    double rate = 0;                           // bytes per second that may be sent
    std::chrono::microseconds queue_delay{0};  // smallest rtt of the last round, less that of 10 to 20 s
    RateLimit rate_limit = RateLimit::application;

    std::uint64_t packets_sent = 0, bytes_sent = 0;
    std::uint64_t packets_received = 0, bytes_received = 0;  // authentic; without duplicates and stale ones
    std::uint64_t packets_delivered = 0, bytes_delivered = 0;
    std::uint64_t packets_lost = 0, bytes_lost = 0;
    std::uint64_t bytes_in_flight = 0;      // sent, and the fate is open
    std::uint64_t late_acks = 0;            // acks of packets that were reported lost
    std::uint64_t payloads_withheld = 0;    // refused by the handler, or the messages had no room
    std::uint64_t payloads_superseded = 0;  // incomplete large payloads dropped for a newer one
    std::uint64_t fragments_outdated = 0;   // of superseded or complete payloads; not acknowledged

    std::uint64_t messages_received = 0;     // and passed to the handler
    std::uint64_t messages_sent = 0;         // each piece and each repeat counts as one
    std::uint64_t messages_repeated = 0;     // of these: repeats after a loss or in case of one
    std::uint64_t messages_duplicated = 0;   // reliable messages or pieces that arrived again
    std::uint64_t messages_outdated = 0;     // sequenced messages dropped after a newer one
    std::uint64_t messages_refused = 0;      // ids too far ahead; the sender repeats them
    std::uint32_t messages_queued = 0;       // at present, of all weights; each piece counts as one
    std::uint32_t message_bytes_queued = 0;  // at present: their bytes, with heads
    std::uint32_t messages_in_flight = 0;    // at present: reliable ids, oldest unacknowledged to newest

    DropCounters drops;
};

/// Counters of a host or client that belong to no connection.
struct EndpointStats {
    DropCounters drops;  // datagrams that belong to no connection
    std::uint64_t handshake_bytes_received = 0, handshake_bytes_sent = 0;
    std::uint64_t cookies_sent = 0, answers_sent = 0, refusals_sent = 0;
    std::uint64_t handshakes_expired = 0;  // accepted, but not confirmed by the client
    std::uint64_t moves = 0;               // host: changes of a peer's address
    std::uint64_t resets_sent = 0;         // host: answers to packets of unknown connections
};

}  // namespace shoal::net
