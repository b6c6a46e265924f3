#include "endpoint.h"

#include "connection.h"

namespace shoal::net {

bool Endpoint::is_connected(PeerId peer) const {
    const Connection* const connection = connection_of(peer);
    return connection && connection->is_open() && connection->is_announced();
}

std::size_t Endpoint::payload_capacity(PeerId peer) const {
    return is_connected(peer) ? connection_of(peer)->payload_capacity() : 0;
}

std::uint64_t Endpoint::next_packet_number(PeerId peer) const {
    return is_connected(peer) ? connection_of(peer)->next_packet_number() : 0;
}

std::uint64_t Endpoint::send_payload(PeerId peer, std::span<const std::byte> payload, std::uint64_t cookie,
                                     Time now) {
    return is_connected(peer) ? connection_of(peer)->send_payload(payload, cookie, now) : 0;
}

SendResult Endpoint::send_message(PeerId peer, Delivery how, std::span<const std::byte> message) {
    return is_connected(peer) ? connection_of(peer)->send_message(how, message) : SendResult::not_connected;
}

void Endpoint::disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) {
    if (is_connected(peer)) connection_of(peer)->close(reason, text, true, now);
}

const ConnectionStats& Endpoint::stats(PeerId peer) const {
    static constexpr ConnectionStats kNone;
    const Connection* const connection = connection_of(peer);
    return connection ? connection->stats() : kNone;
}

std::string_view describe(DisconnectReason reason) {
    switch (reason) {
        case DisconnectReason::closed:
            return "closed";
        case DisconnectReason::closed_by_peer:
            return "closed by the other side";
        case DisconnectReason::shut_down:
            return "the server shut down";
        case DisconnectReason::kicked:
            return "kicked";
        case DisconnectReason::timed_out:
            return "timed out";
        case DisconnectReason::replaced:
            return "replaced by a newer connection from the same address";
        case DisconnectReason::protocol_error:
            return "protocol error";
        case DisconnectReason::unreachable:
            return "the server does not answer";
        case DisconnectReason::refused_protocol:
            return "refused: different protocol";
        case DisconnectReason::refused_schema:
            return "refused: different schema";
        case DisconnectReason::refused_full:
            return "refused: the server is full";
        case DisconnectReason::refused:
            return "refused";
        case DisconnectReason::refused_key:
            return "refused: the server has another key";
        case DisconnectReason::refused_security:
            return "refused: sealed and insecure do not mix";
        case DisconnectReason::misconfigured:
            return "cannot connect like this";
        case DisconnectReason::exhausted:
            return "all packet numbers are used up";
        case DisconnectReason::server_restarted:
            return "the server restarted and does not know this connection";
        case DisconnectReason::refused_token:
            return "refused: no valid connect token";
    }
    return "unknown reason";
}

std::string_view describe(Drop reason) {
    switch (reason) {
        case Drop::truncated:
            return "truncated";
        case Drop::oversized:
            return "oversized";
        case Drop::unknown_kind:
            return "unknown kind";
        case Drop::wrong_direction:
            return "wrong direction";
        case Drop::bad_handshake:
            return "bad handshake";
        case Drop::bad_cookie:
            return "bad cookie";
        case Drop::too_many_attempts:
            return "too many attempts";
        case Drop::unexpected:
            return "unexpected";
        case Drop::unknown_connection:
            return "unknown connection";
        case Drop::wrong_address:
            return "wrong address";
        case Drop::bad_tag:
            return "bad tag";
        case Drop::duplicate:
            return "duplicate";
        case Drop::stale:
            return "stale";
        case Drop::closed:
            return "closed";
        case Drop::malformed:
            return "malformed";
        case Drop::bad_reset:
            return "bad reset";
        case Drop::count_:
            break;
    }
    return "unknown";
}

std::string_view describe(SendResult result) {
    switch (result) {
        case SendResult::queued:
            return "queued";
        case SendResult::queue_full:
            return "the queue is full";
        case SendResult::too_large:
            return "too large";
        case SendResult::not_connected:
            return "not connected";
    }
    return "unknown";
}

}  // namespace shoal::net
