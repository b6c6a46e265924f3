#pragma once
// Tickets: a client proves with a ticket that its new connection belongs to a player who has a seat already.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../../net/crypto/entropy.h"
#include "message_kind.h"
#include "player_id.h"

namespace shoal::replication::impl {

/// Secret: whoever has it can take the player's seat.
struct Ticket {
    PlayerId seat;
    std::array<std::byte, 16> secret{};

    bool operator==(const Ticket&) const = default;

    bool is_valid() const { return bool(seat); }

    static constexpr std::size_t kBytes = 20;
    std::vector<std::byte> bytes() const;
    /// Returns nothing if the bytes are not those of a ticket.
    static std::optional<Ticket> from(std::span<const std::byte> bytes);
};

/// The request of a client for the seat of its ticket.
struct Resumption {
    Ticket ticket;
    // SeatKey::state_number of the state that the client has; 0: it has no state.
    std::uint32_t state_number = 0;
    std::array<std::uint32_t, kActionStreams>
        first_actions{};  // by stream: sequence number of the first action without an answer
};

/// The server's answer to a Resumption that it accepts.
struct Resumed {
    static constexpr MessageKind kKind = MessageKind::resumed;
    bool keeps = false;                                        // false: the client must load the world again
    std::array<std::uint32_t, kActionStreams> next_actions{};  // next sequence numbers, if !keeps
    std::uint8_t epoch = 0;                                    // epoch of the ordered stream, if !keeps
};

/// What a server did with the tickets that clients presented. One attempt to connect can be refused more than
/// once.
struct TicketStats {
    std::uint64_t used = 0;  // players that came back
    // Refused:
    std::uint64_t unknown_seats = 0;  // the player left, did not come back in time, or was never here
    std::uint64_t outdated = 0;       // the ticket was valid until the last one was used
    std::uint64_t wrong_secrets = 0;  // the secret was guessed, or the ticket became invalid earlier
    std::uint64_t wrong_players = 0;  // the connect token has another client id than the seat
};

/// The tickets of one seat that are valid: the newest one, and the one that was used last, because the client
/// may not have received the newest. Not thread-safe.
class SeatKey {
public:
    /// Makes the first ticket.
    void issue(net::Entropy& entropy) { newest_ = used_ = outdated_ = new_secret(entropy); }
    /// Takes the same time for each wrong secret.
    bool accepts(const Ticket& ticket) const;
    /// Returns whether the ticket was valid until the last use().
    bool is_outdated(const Ticket& ticket) const {
        return net::impl::equal_in_constant_time(ticket.secret, outdated_);
    }
    /// Call it when a connection took the seat with this ticket. Requires accepts(ticket). Makes a new
    /// ticket.
    void use(const Ticket& ticket, net::Entropy& entropy);
    const std::array<std::byte, 16>& newest() const { return newest_; }

    /// Number of the client's state that the server knows, see Resumption::state_number. If a client names
    /// another number, it must load the world again, and this number rises.
    std::uint32_t state_number = 1;

private:
    static std::array<std::byte, 16> new_secret(net::Entropy& entropy);

    std::array<std::byte, 16> newest_{}, used_{}, outdated_{};
};

}  // namespace shoal::replication::impl
