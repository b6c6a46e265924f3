#include "net_id_map.h"

#include <algorithm>
#include <cassert>

namespace shoal::replication {

void NetIdMap::set(std::uint32_t net_id, std::uint32_t index) {
    assert(net_id != 0);
    if ((count_ + 1) * 2 > entries_.size()) {
        std::vector<Entry> old(std::max<std::size_t>(16, entries_.size() * 2));
        old.swap(entries_);
        count_ = 0;
        for (const Entry& entry : old)
            if (entry.net_id != 0) set(entry.net_id, entry.index);
    }
    std::size_t i = home(net_id);
    while (entries_[i].net_id != 0 && entries_[i].net_id != net_id) i = next(i);
    count_ += entries_[i].net_id == 0;
    entries_[i] = {net_id, index};
}

/// Moves entries behind the erased one into its place where needed, so that find() still reaches them.
void NetIdMap::erase(std::uint32_t net_id) {
    if (entries_.empty()) return;
    std::size_t gap = home(net_id);
    while (entries_[gap].net_id != net_id) {
        if (entries_[gap].net_id == 0) return;
        gap = next(gap);
    }
    const std::size_t mask = entries_.size() - 1;
    for (std::size_t i = next(gap); entries_[i].net_id != 0; i = next(i)) {
        const std::size_t distance = (i - home(entries_[i].net_id)) & mask;
        if (distance < ((i - gap) & mask)) continue;
        entries_[gap] = entries_[i];
        gap = i;
    }
    entries_[gap] = {};
    --count_;
}

bool NetIdMap::is_consistent() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        const std::uint32_t net_id = entries_[i].net_id;
        if (net_id == 0) continue;
        ++count;
        for (std::size_t before = home(net_id); before != i; before = next(before))
            if (entries_[before].net_id == 0 || entries_[before].net_id == net_id) return false;
    }
    return count == count_ && count * 2 <= entries_.size();
}

}  // namespace shoal::replication
