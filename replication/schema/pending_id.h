#pragma once
// Names of entities that a client spawned ahead of the server.

#include <cstdint>

namespace shoal::replication::impl {

/// Name of an entity that a client spawned ahead of the server, in the client's actions and in full records
/// for this client. It is not a net id, but takes the place of one in references. 0: none.
using PendingId = std::uint32_t;
inline constexpr PendingId kFirstPending = 0xfe00'0000;  // 2^24 ids; the reserved net ids follow
constexpr bool is_pending(std::uint32_t id) {
    return id >= kFirstPending && id < 0xff00'0000;
}
/// The n-th pending id after this one. The id kFirstPending itself is not used.
constexpr PendingId pending_after(PendingId id, std::uint32_t n = 1) {
    return kFirstPending | ((id - kFirstPending - 1 + n) % 0xff'ffff + 1);
}

}  // namespace shoal::replication::impl
