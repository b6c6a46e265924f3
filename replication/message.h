#pragma once
// A client's hello, and the messages between server and client. WIRE.md specifies their bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../net/bytes.h"
#include "../net/endpoint.h"
#include "history/net_ids.h"
#include "play/message_kind.h"
#include "play/ticket.h"

namespace shoal::replication::all {

/// Facts about the server that a client needs, sent once.
struct Welcome {
    std::uint32_t tick_us = 0;      // time between two ticks, in microseconds; >= 1
    std::uint64_t random_seed = 0;  // see ServerOptions
};
std::vector<std::byte> write_welcome(const Welcome& welcome);
/// Returns nothing if the message has another kind, or is malformed.
std::optional<Welcome> read_welcome(std::span<const std::byte> message);

/// Makes `message` a player message; 0: the player has no entity.
void write_player(NetId net_id, std::vector<std::byte>& message);
/// Returns nothing if the message has another kind, or is malformed.
std::optional<NetId> read_player(std::span<const std::byte> message);

constexpr std::size_t kMaxRebases = 64;  // in one message
/// Makes `message` a rebase message for these entity slots, at least one and at most kMaxRebases.
void write_rebase(std::span<const std::uint32_t> slots, std::vector<std::byte>& message);
/// Calls fn(slot) for each slot of a rebase message. Returns false, without a call, if the message has
/// another kind, or is malformed.
template <class Fn>
bool read_rebase(std::span<const std::byte> message, Fn&& fn) {
    if (message.size() <= 1 || message.size() % 4 != 1 || message.size() > 1 + 4 * kMaxRebases) return false;
    if (message[0] != static_cast<std::byte>(MessageKind::rebase)) return false;
    for (std::size_t at = 1; at < message.size(); at += 4)
        fn(net::all::load<std::uint32_t>(message.data() + at));
    return true;
}

/// `state_number`: see SeatKey::state_number.
std::vector<std::byte> write_ticket(const Ticket& ticket, std::uint32_t state_number);
struct TicketMessage {
    Ticket ticket;
    std::uint32_t state_number = 0;
};
/// Returns nothing if the message has another kind, or is malformed.
std::optional<TicketMessage> read_ticket(std::span<const std::byte> message);

std::vector<std::byte> write_resumed(const Resumed& resumed);
/// Returns nothing if the message has another kind, or is malformed.
std::optional<Resumed> read_resumed(std::span<const std::byte> message);

/// The data in a client's connection request.
struct Hello {
    std::uint32_t max_slots = 0;         // >= 1; the number of entity slots that the client can take
    std::span<const std::byte> summary;  // Schema::summary()
    std::optional<Resumption> resumption = {};
};
std::vector<std::byte> write_hello(const Hello& hello);
/// Returns nothing if the bytes are malformed. The result refers to `bytes`.
std::optional<Hello> read_hello(std::span<const std::byte> bytes);

}  // namespace shoal::replication::all
