#pragma once
// Which slots of one peer are in which cluster.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "../codec/state_packet.h"

namespace shoal::replication::impl {

/// Takes no memory until a slot is put into a cluster. From then on takes 8 bytes for each slot, and 4 more
/// for each slot in a cluster.
class ClusterSlots {
public:
    /// Moves a slot into the cluster with this id. Empty: the slot is in no cluster.
    void put(std::uint32_t slot, std::optional<std::uint32_t> cluster);

    /// Returns the id of the slot's cluster.
    std::optional<std::uint32_t> cluster_of(std::uint32_t slot) const {
        if (slot >= places_.size() || places_[slot].position == kNowhere) return std::nullopt;
        return places_[slot].cluster;
    }

    /// Returns the slots of the cluster with this id; empty if there is none. Valid until the next put().
    std::span<const std::uint32_t> slots_of(std::uint32_t cluster) const;

    /// Begins a new round of visits.
    void start_visits() { round_ += 1; }
    /// Marks the cluster as visited in this round. Returns false if it was marked before. Requires that the
    /// cluster has slots.
    bool visit(std::uint32_t cluster);
    /// Notes that the records of the cluster need more than `bits` bits in a payload of `tick`.
    void note_excess(std::uint32_t cluster, std::size_t bits, Tick tick);
    /// Returns whether note_excess() noted that the cluster needs more than `bits` bits in a payload of this
    /// tick. Requires that the cluster has slots.
    bool exceeds(std::uint32_t cluster, std::size_t bits, Tick tick) const;
    /// Notes that the cluster is too large while a large payload is on its way.
    void note_oversized(std::uint32_t cluster) {
        Slots& of_cluster = clusters_.find(cluster)->second;
        of_cluster.oversized = of_cluster.members.size();
    }
    /// Returns whether note_oversized() noted the cluster, which has not become smaller.
    bool is_oversized(std::uint32_t cluster) const {
        const Slots& of_cluster = clusters_.find(cluster)->second;
        return of_cluster.oversized != 0 && of_cluster.members.size() >= of_cluster.oversized;
    }
    void forget_oversized() {
        for (auto& [cluster, of_cluster] : clusters_) of_cluster.oversized = 0;
    }

    bool is_consistent() const;  // consistency.cpp

private:
    static constexpr std::uint32_t kNowhere = 0xffffffff;

    struct Place {
        std::uint32_t cluster = 0;
        std::uint32_t position = kNowhere;  // position in the slots of the cluster; kNowhere: in no cluster
    };
    struct Slots {
        std::vector<std::uint32_t> members;
        std::uint64_t visited = 0;  // number of the last round that visited the cluster
        std::size_t excess = 0;     // `bits` of the last note_excess()
        Tick excess_tick = 0;       // `tick` of the last note_excess()
        std::size_t oversized = 0;  // number of members at the last note_oversized(); 0: none
    };

    std::vector<Place> places_;  // by slot; shorter if the last slots were never in a cluster
    std::unordered_map<std::uint32_t, Slots> clusters_;
    std::uint64_t round_ = 0;
};

}  // namespace shoal::replication::impl
