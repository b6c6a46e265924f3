#include "delta_cache.h"

#include <cassert>

#include "../codec/codec.h"
#include "../codec/state_packet.h"

namespace shoal::replication {

DeltaCache::DeltaCache(const Shadow& shadow) : shadow_(shadow) {
    items_.reserve(kExpectedRecords);
}

void DeltaCache::clear() {
    bits_.clear();
    items_.clear();
    first_.resize(shadow_.index_count(), kNone);
}

DeltaCache::Delta DeltaCache::get(std::uint32_t entry, const std::optional<Version>& baseline) {
    assert(entry < first_.size() && !shadow_[entry].versions.empty());
    std::uint32_t& first = first_[entry];
    if (first >= items_.size() || items_[first].entry != entry) first = kNone;
    for (std::uint32_t i = first; i != kNone; i = items_[i].next)
        if (items_[i].is_full == !baseline && (!baseline || items_[i].baseline == baseline->tick))
            return items_[i].delta;
    const Version newest = *shadow_[entry].versions.newest();
    Delta delta;
    delta.is_empty = baseline && (baseline->tick == newest.tick || baseline->image == newest.image);
    delta.offset = bits_.bit_count();
    write_image(shadow_.schema(), baseline ? baseline->image : Image{}, newest.image, bits_);
    delta.bits = bits_.bit_count() - delta.offset;
    items_.push_back({entry, !baseline, baseline ? baseline->tick : 0, delta, first});
    first = static_cast<std::uint32_t>(items_.size() - 1);
    return delta;
}

}  // namespace shoal::replication
