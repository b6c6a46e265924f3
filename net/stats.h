#pragma once
// What was counted and estimated: per connection, and for datagrams that reached none.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>

namespace shoal::net {

/// Each reason to drop a datagram. Whatever arrives is either used or counted under exactly one of these.
enum class Drop : std::uint8_t {
    truncated,           // shorter than its kind can be
    oversized,           // longer than kMaxDatagramBytes
    unknown_kind,        // first byte names no packet kind we know, or uses reserved bits
    wrong_direction,     // a kind that only the other role receives
    bad_handshake,       // handshake packet of the wrong form
    bad_cookie,          // forged, expired, or for another address
    too_many_attempts,   // more handshakes than one machine may open, or than this host takes at once
    unexpected,          // a handshake packet that this client does not wait for
    unknown_connection,  // no such connection id
    wrong_address,       // client: not from its server
    bad_tag,             // forged, damaged, or a number too far away to reconstruct; also of an answer
    duplicate,           // packet number seen before
    stale,               // so old that it could no longer be acknowledged
    closed,              // for a connection that is being closed
    malformed,           // authentic but impossible: ends the connection
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

/// What keeps a connection from sending more.
enum class RateLimit : std::uint8_t {
    application,  // nothing: it has no more to send
    network,      // its rate: the budget was used up in this round trip or the one before
    host,         // HostConfig::max_bytes_per_second: others had their turn at the last flush
    packets,      // ConnectionConfig::max_open_packets: no ack came for the oldest of so many
    breaker,      // no ack for three timeouts: only probes, soon one per second, until one comes
};

/// One connection. Bytes are whole datagrams, without IP and UDP headers (28 or 48 bytes each).
struct ConnectionStats {
    std::chrono::microseconds rtt{0};         // smoothed; 0 until the first sample
    std::chrono::microseconds jitter{0};      // smoothed deviation of the round-trip time
    std::chrono::microseconds min_rtt{0};     // smallest sample
    std::chrono::microseconds latest_rtt{0};  // newest sample
    double loss = 0;  // 0..1, of what this side sends; average over about 64 packet fates, at first over all

    double rate = 0;                           // bytes per second that may be sent
    std::chrono::microseconds queue_delay{0};  // smallest rtt of the last round over that of 10 to 20 s
    RateLimit rate_limit = RateLimit::application;

    std::uint64_t packets_sent = 0, bytes_sent = 0;
    std::uint64_t packets_received = 0, bytes_received = 0;  // authentic and fresh ones
    std::uint64_t packets_delivered = 0, bytes_delivered = 0;
    std::uint64_t packets_lost = 0, bytes_lost = 0;
    std::uint64_t bytes_in_flight = 0;      // sent, fate not known yet
    std::uint64_t late_acks = 0;            // acknowledged after having been reported lost
    std::uint64_t payloads_withheld = 0;    // refused by the handler
    std::uint64_t payloads_superseded = 0;  // large ones dropped incomplete, as a newer large one began
    std::uint64_t fragments_outdated = 0;   // of those, and therefore not acknowledged

    std::uint64_t messages_received = 0;     // and handed over
    std::uint64_t messages_sent = 0;         // each piece of a large one counts, and each repeat
    std::uint64_t messages_repeated = 0;     // of these, sent again after a loss or to forestall one
    std::uint64_t messages_duplicated = 0;   // reliable ones, or pieces, received again and ignored
    std::uint64_t messages_outdated = 0;     // sequenced ones that came after a newer one, and were ignored
    std::uint64_t messages_refused = 0;      // far ahead of all that came before; they come again
    std::uint32_t messages_queued = 0;       // now: they wait, of all weights; pieces count one each
    std::uint32_t message_bytes_queued = 0;  // now: their bytes, with heads
    std::uint32_t messages_in_flight = 0;  // now: reliable, from the oldest unacknowledged to the newest sent

    DropCounters drops;
};

/// A host or client, beside its connections.
struct EndpointStats {
    DropCounters drops;  // datagrams that reached no connection
    std::uint64_t handshake_bytes_received = 0, handshake_bytes_sent = 0;
    std::uint64_t cookies_sent = 0, answers_sent = 0, refusals_sent = 0;
    std::uint64_t handshakes_expired = 0;  // accepted, but the client never went on
    std::uint64_t moves = 0;               // host: peers that went on from another address
    std::uint64_t resets_sent = 0;         // host: packets of unknown connections that were answered
};

}  // namespace shoal::net
