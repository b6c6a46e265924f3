#pragma once
// Maps net ids to small indices: a flat hash table that allocates only while it grows.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal::replication {

class NetIdMap {
public:
    static constexpr std::uint32_t kAbsent = 0xffffffff;

    /// Returns kAbsent if net_id is not in the map. Requires net_id != 0.
    std::uint32_t find(std::uint32_t net_id) const {
        if (entries_.empty()) return kAbsent;
        for (std::size_t i = home(net_id);; i = next(i)) {
            if (entries_[i].net_id == net_id) return entries_[i].index;
            if (entries_[i].net_id == 0) return kAbsent;
        }
    }

    /// Adds an entry for net_id, or overwrites the entry that it has. Requires net_id != 0.
    void set(std::uint32_t net_id, std::uint32_t index);

    /// No effect if net_id is not in the map.
    void erase(std::uint32_t net_id);

    std::size_t size() const { return count_; }

    /// For tests: find() reaches each entry, and no net id has two.
    bool is_consistent() const;

private:
    struct Entry {
        std::uint32_t net_id = 0;  // 0: the entry is not in use
        std::uint32_t index = 0;
    };

    std::size_t home(std::uint32_t net_id) const { return net_id * 2654435761u >> 7 & (entries_.size() - 1); }
    std::size_t next(std::size_t i) const { return (i + 1) & (entries_.size() - 1); }

    std::vector<Entry> entries_;  // the size is a power of two; at most half of the entries are in use
    std::size_t count_ = 0;
};

}  // namespace shoal::replication
