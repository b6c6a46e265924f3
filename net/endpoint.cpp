#include "endpoint.h"

#include <array>

#include "connection.h"

namespace shoal::net {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, std::size_t(kLastDisconnectReason) + 1> kDisconnectReasons = {
    "closed",
    "closed by the other side",
    "the server shut down",
    "kicked",
    "timed out",
    "replaced by a newer connection from the same address",
    "protocol error",
    "the server does not answer",
    "refused: different protocol",
    "refused: different schema",
    "refused: the server is full",
    "refused",
    "refused: the server has another key",
    "refused: sealed and insecure do not mix",
    "cannot connect like this",
    "all packet numbers are used up",
    "the server restarted and does not know this connection",
    "refused: no valid connect token",
};
constexpr std::array<std::string_view, std::size_t(Drop::count_)> kDrops = {
    "truncated",
    "oversized",
    "unknown kind",
    "wrong direction",
    "bad handshake",
    "bad cookie",
    "too many attempts",
    "unexpected",
    "unknown connection",
    "wrong address",
    "bad tag",
    "duplicate",
    "stale",
    "closed",
    "malformed",
    "bad reset",
};
constexpr std::array<std::string_view, 4> kSendResults = {"queued", "the queue is full", "too large",
                                                          "not connected"};
static_assert(!kDisconnectReasons.back().empty() && !kDrops.back().empty());

template <std::size_t count>
std::string_view name_in(const std::array<std::string_view, count>& names, std::size_t index) {
    return index < count ? names[index] : "unknown";
}

}  // namespace

std::string_view describe(DisconnectReason reason) {
    return name_in(kDisconnectReasons, std::size_t(reason));
}

std::string_view describe(Drop reason) {
    return name_in(kDrops, std::size_t(reason));
}

std::string_view describe(SendResult result) {
    return name_in(kSendResults, std::size_t(result));
}

bool Endpoint::is_connected(PeerId peer) const {
    const Connection* const connection = connection_of(peer);
    return connection && connection->is_open();
}

SendResult Endpoint::send_message(PeerId peer, Delivery how, std::span<const std::byte> message) {
    return is_connected(peer) ? connection_of(peer)->send_message(how, message) : SendResult::not_connected;
}

void Endpoint::set_options(PeerId peer, const ConnectionOptions& options) {
    if (is_connected(peer)) connection_of(peer)->set_options(options);
}

void Endpoint::disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) {
    if (is_connected(peer)) connection_of(peer)->close(reason, text, true, now);
}

const ConnectionStats& Endpoint::stats(PeerId peer) const {
    static constexpr ConnectionStats kNone;
    const Connection* const connection = connection_of(peer);
    return connection ? connection->stats() : kNone;
}

}  // namespace shoal::net
