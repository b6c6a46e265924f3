#pragma once
// The net ids of entities that the server destroyed lately.

#include <cstddef>
#include <vector>

#include "net_ids.h"

namespace shoal::replication {

/// Net ids rise, and a net id takes the place of the one that is lower by kSize. So a destroyed entity is
/// remembered while about kSize newer entities are created. Nothing is allocated before enable().
class DestroyedIds {
public:
    static constexpr std::size_t kSize = 65'536;

    /// Takes 256 kB. Before this call, insert() has no effect.
    void enable() { ids_.resize(kSize); }
    /// Requires an ordinary net id, not 0. A reserved net id may get another entity.
    void insert(NetId net_id) {
        if (!ids_.empty()) ids_[net_id % kSize] = net_id;
    }
    bool contains(NetId net_id) const { return !ids_.empty() && ids_[net_id % kSize] == net_id; }
    void clear() { ids_.assign(ids_.size(), 0); }

private:
    std::vector<NetId> ids_;  // by net id modulo kSize; 0: none
};

}  // namespace shoal::replication
