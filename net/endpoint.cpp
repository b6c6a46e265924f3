#include "endpoint.h"

#include "connection.h"

namespace shoal::net::impl {
namespace {

// In the order of the enumerations.
constexpr std::string_view kDisconnectReasons =
    "closed|closed by the other side|the server shut down|kicked|timed out|"
    "replaced by a newer connection of the same client|protocol error|the server does not answer|"
    "refused: different protocol|refused: different schema|refused: the server is full|refused|"
    "refused: the server has another key|refused: sealed and insecure do not mix|"
    "cannot connect like this|all packet numbers are used up|"
    "the server restarted and does not know this connection|refused: no valid connect token";
constexpr std::string_view kDrops =
    "truncated|oversized|unknown kind|wrong direction|bad handshake|bad cookie|too many attempts|"
    "unexpected|unknown connection|wrong address|bad tag|duplicate|stale|early|closed|malformed|"
    "bad reset";
constexpr std::string_view kSendResults =
    "queued|the queue is full|too large|not connected|queued in place of the oldest";
static_assert(std::ranges::count(kDisconnectReasons, '|') == std::ptrdiff_t(kLastDisconnectReason));
static_assert(std::ranges::count(kDrops, '|') + 1 == std::ptrdiff_t(Drop::count_));

}  // namespace

std::string_view describe(DisconnectReason reason) {
    return part_of(kDisconnectReasons, std::size_t(reason));
}

std::string_view describe(Drop reason) {
    return part_of(kDrops, std::size_t(reason));
}

std::string_view describe(SendResult result) {
    return part_of(kSendResults, std::size_t(result));
}

bool Endpoint::is_connected(PeerId peer) const {
    const Connection* const connection = connection_of(peer);
    return connection && connection->is_open();
}

SendResult Endpoint::send_message(PeerId peer, Delivery how, std::span<const std::byte> message) {
    Connection* const connection = connection_of(peer);
    return connection ? connection->send_message(how, message) : SendResult::not_connected;
}

void Endpoint::set_options(PeerId peer, const ConnectionOptions& options) {
    if (is_connected(peer)) connection_of(peer)->set_options(options);
}

void Endpoint::disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now,
                          Duration deliver_for) {
    if (Connection* const connection = connection_of(peer)) connection->leave(reason, text, now, deliver_for);
}

const ConnectionStats& Endpoint::stats(PeerId peer) const {
    static constexpr ConnectionStats kNone;
    const Connection* const connection = connection_of(peer);
    return connection ? connection->stats() : kNone;
}

std::optional<PacketKind> Endpoint::kind_of(std::span<const std::byte> datagram) {
    if (datagram.empty())
        count(Drop::truncated);
    else if (datagram.size() > kMaxDatagramBytes)
        count(Drop::oversized);
    else if (const std::optional<PacketKind> kind = read_kind(datagram[0]))
        return kind;
    else
        count(Drop::unknown_kind);
    return std::nullopt;
}

}  // namespace shoal::net::impl
