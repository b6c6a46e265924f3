#pragma once
// A client's hello, and the messages between server and client. WIRE.md specifies their bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "history/net_ids.h"
#include "play/control_codec.h"
#include "play/ticket.h"

namespace shoal::replication::impl {

/// Facts about the server that a client needs, sent once.
struct Welcome {
    static constexpr MessageKind kKind = MessageKind::welcome;
    std::uint32_t tick_us = 0;      // time between two ticks, in microseconds; >= 1
    std::uint64_t random_seed = 0;  // see ServerOptions

    bool is_valid() const { return tick_us != 0; }
};

/// The client plays with this entity; 0: it has none.
struct PlayerEntity {
    static constexpr MessageKind kKind = MessageKind::player;
    NetId net_id = 0;
};

/// The client needs full records of these entity slots.
struct Rebase {
    static constexpr MessageKind kKind = MessageKind::rebase;
    static constexpr std::size_t kMax = 64;
    static constexpr std::uint32_t kDiffers = 1u << 31;  // added to a slot: a self-check found a difference
    std::vector<std::uint32_t> entity_slots;             // 1 to kMax

    bool is_valid() const { return !entity_slots.empty() && entity_slots.size() <= kMax; }
};

/// The client can take the world.
struct CanLoad {
    static constexpr MessageKind kKind = MessageKind::ready;
};

/// A trained model, see codec/model.h.
struct NextModel {
    static constexpr MessageKind kKind = MessageKind::model;
    std::uint8_t number = 0;          // 1 to kMaxModel
    std::vector<std::uint8_t> bytes;  // of write_model()
};

struct HasModel {
    static constexpr MessageKind kKind = MessageKind::has_model;
    std::uint8_t number = 0;
};

/// The ticket for the client's next connection.
struct NextTicket {
    static constexpr MessageKind kKind = MessageKind::ticket;
    Ticket ticket;
    std::uint32_t state_number = 0;  // see SeatKey::state_number
};

/// The data in a client's connection request.
struct Hello {
    std::uint32_t max_slots = 0;         // >= 1; the number of entity slots that the client can take
    std::span<const std::byte> summary;  // Schema::summary()
    std::optional<Resumption> resumption = {};
};
std::vector<std::byte> write_hello(const Hello& hello);
/// Returns nothing if the bytes are malformed. The result refers to `bytes`.
std::optional<Hello> read_hello(std::span<const std::byte> bytes);

}  // namespace shoal::replication::impl
