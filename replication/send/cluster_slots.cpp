#include "cluster_slots.h"

#include <cassert>

namespace shoal::replication::impl {

void ClusterSlots::put(std::uint32_t slot, std::optional<std::uint32_t> cluster) {
    const std::optional<std::uint32_t> before = cluster_of(slot);
    if (before == cluster) return;
    if (before) {
        const auto found = clusters_.find(*before);
        std::vector<std::uint32_t>& slots = found->second.members;
        const std::uint32_t position = places_[slot].position;
        slots[position] = slots.back();
        places_[slots[position]].position = position;
        slots.pop_back();
        places_[slot].position = kNowhere;
        if (slots.empty()) clusters_.erase(found);
    }
    if (!cluster) return;
    if (slot >= places_.size()) places_.resize(slot + std::size_t{1});
    std::vector<std::uint32_t>& slots = clusters_[*cluster].members;
    places_[slot] = {*cluster, static_cast<std::uint32_t>(slots.size())};
    slots.push_back(slot);
}

std::span<const std::uint32_t> ClusterSlots::slots_of(std::uint32_t cluster) const {
    const auto found = clusters_.find(cluster);
    return found == clusters_.end() ? std::span<const std::uint32_t>{} : found->second.members;
}

bool ClusterSlots::visit(std::uint32_t cluster) {
    const auto found = clusters_.find(cluster);
    assert(found != clusters_.end());
    const bool is_first = found->second.visited != round_;
    found->second.visited = round_;
    return is_first;
}

void ClusterSlots::note_excess(std::uint32_t cluster, std::size_t bits, Tick tick) {
    Slots& slots = clusters_.find(cluster)->second;
    slots.excess = bits;
    slots.excess_tick = tick;
}

bool ClusterSlots::exceeds(std::uint32_t cluster, std::size_t bits, Tick tick) const {
    const Slots& slots = clusters_.find(cluster)->second;
    return slots.excess_tick == tick && bits <= slots.excess;
}

}  // namespace shoal::replication::impl
