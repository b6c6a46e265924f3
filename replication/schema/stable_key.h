#pragma once
// The component that names entities which server and clients load by themselves.

#include <cstdint>

namespace shoal::replication::all {

/// Greatest legal value of a StableKey.
inline constexpr std::uint32_t kMaxStableKey = 0x00ff'ffff;

/// Names an entity that exists on both sides without being sent: an object of a level, or a thing with a
/// name. Server and client give it the same key, and the client's entity becomes the replica of the server's.
/// `value` is 0 to kMaxStableKey. Two living entities of a world must not have the same key. If two
/// replicated entities have it, only the first keeps the key, and a debug build aborts.
struct StableKey {
    std::uint32_t value = 0;
};

}  // namespace shoal::replication::all
