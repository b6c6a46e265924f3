#pragma once
// The net ids of entities that ended lately.

#include <cstddef>
#include <vector>

#include "net_ids.h"

namespace shoal::replication::all {

/// Net ids rise, and a net id takes the place of the one that is lower by kSize. So an ended entity is
/// remembered while about kSize newer entities are created.
class EndedIds {
public:
    static constexpr std::size_t kSize = 4'096;

    /// Requires a net id that is not 0.
    void insert(NetId net_id) { ids_[net_id % kSize] = net_id; }
    void erase(NetId net_id) {
        if (contains(net_id)) ids_[net_id % kSize] = 0;
    }
    bool contains(NetId net_id) const { return ids_[net_id % kSize] == net_id; }
    void clear() { ids_.assign(kSize, 0); }

private:
    std::vector<NetId> ids_ = std::vector<NetId>(kSize);  // by net id modulo kSize; 0: none
};

}  // namespace shoal::replication::all
