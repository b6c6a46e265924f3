#pragma once
// For each entity, the peers that have a slot for it. A change of the entity is passed on to these peers
// only.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shoal::replication::impl {

/// Takes 8 bytes for each pair of entity and peer, and nothing for entities that a peer does not see.
class Audience {
public:
    struct Viewer {
        std::uint32_t peer;
        std::uint32_t slot;  // slot of the entity in the view of this peer
    };

    /// Makes room for entities below `entry_count`. Entities are named by their index in the shadow.
    void resize(std::size_t entry_count) {
        if (entry_count > viewers_.size()) viewers_.resize(entry_count);
    }

    std::size_t entry_count() const { return viewers_.size(); }
    /// Viewers of an entity, ordered by peer. Valid until the next change of the audience.
    std::span<const Viewer> of(std::uint32_t entry) const { return viewers_[entry]; }

    /// Requires that the peer is not a viewer of the entity yet.
    void add(std::uint32_t entry, Viewer viewer);
    /// Requires that the peer is a viewer of the entity.
    void remove(std::uint32_t entry, std::uint32_t peer);
    /// Removes all viewers of an entity. Keeps their memory for the next entity of this index.
    void clear(std::uint32_t entry) { viewers_[entry].clear(); }
    bool has(std::uint32_t entry, std::uint32_t peer) const { return slot(entry, peer).has_value(); }
    /// Returns the slot that a peer has for an entity, if it has one.
    std::optional<std::uint32_t> slot(std::uint32_t entry, std::uint32_t peer) const;

    /// Number of pairs.
    std::size_t size() const;
    bool is_consistent() const;  // consistency.cpp

private:
    std::vector<std::vector<Viewer>> viewers_;  // by entity
};

}  // namespace shoal::replication::impl
