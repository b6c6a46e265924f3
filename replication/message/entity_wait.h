#pragma once
// On a client: how long a message or an event waits for the entities that it names.

#include <cstdint>
#include <optional>
#include <span>

#include "../../net/endpoint.h"
#include "../receive/receiver.h"
#include "../schema/lanes.h"

namespace shoal::replication {

/// Returns whether a struct names an entity that is not in the world, but may still appear. `words`: see
/// StructCodec.
inline bool awaits_entity(const Receiver& receiver, const ComponentLayout& layout,
                          std::span<const std::uint32_t> words) {
    if (!layout.has_references()) return false;
    bool awaits = false;
    layout.for_each_reference(words.data(), words.data() + layout.lanes().size(),
                              [&](NetId net_id) { awaits = awaits || receiver.may_appear(net_id); });
    return awaits;
}

/// The time that one message or event has waited.
class EntityWait {
public:
    static constexpr net::Duration kLongest = std::chrono::milliseconds(500);

    /// Begins the wait. Later calls have no effect.
    void begin(net::Time now) {
        if (!since_) since_ = now;
    }
    /// Requires begin().
    bool is_over(net::Time now) const { return now - *since_ >= kLongest; }

private:
    std::optional<net::Time> since_;
};

}  // namespace shoal::replication
