// Checks of whole structures, for tests after every step, also those of games. They take time that grows with
// the structure.

#include <algorithm>
#include <bit>
#include <vector>

#include "action/action_queue.h"
#include "action/client_actions.h"
#include "action/overlay.h"
#include "history/history.h"
#include "history/keyed_entities.h"
#include "history/net_ids.h"
#include "history/reference_index.h"
#include "history/replicas.h"
#include "history/shadow.h"
#include "play/owned_writer.h"
#include "receive/completion.h"
#include "receive/decoder.h"
#include "receive/receiver.h"
#include "scope/grid.h"
#include "scope/scope.h"
#include "send/audience.h"
#include "send/cluster_slots.h"
#include "send/flight.h"
#include "send/peer_view.h"
#include "send/sender.h"

namespace shoal::replication::impl {

bool ActionQueue::is_consistent() const {
    return std::all_of(streams_.begin(), streams_.end(), [](const Stream& stream) {
        return stream.waiting.size() <= kMaxWaitingActions &&
               stream.received - stream.first <= stream.waiting.size();
    });
}

bool ClientActions::is_consistent() const {
    return queue_.is_consistent() && overlay_.is_consistent();
}

bool Overlay::is_consistent() const {
    return entries_.size() < kFullEntries + kMaxTouched * kMaxComponents;
}

bool History::is_consistent() const {
    if (count_ > capacity_ || (capacity_ != 0) != (pool_ != nullptr)) return false;
    for (std::uint32_t i = 1; i < count_; ++i)
        if (!is_newer(stored(i).tick, stored(i - 1).tick)) return false;
    return true;
}

bool KeyedEntities::is_consistent() const {
    return ids_.is_consistent();
}

bool NetIds::is_consistent() const {
    std::size_t used = 0, filled = 0;
    for (std::uint32_t index = 0; index < index_count(); ++index) {
        const Row& row = rows_[index];
        if (row.net_id == 0 && row.entity) return false;
        if (row.net_id == 0) continue;
        ++used;
        if (find(row.net_id) != index) return false;
        if (row.entity && row.entity.index >= by_entity_.size()) return false;
    }
    for (std::size_t i = 0; i < by_entity_.size(); ++i)
        if (by_entity_[i] != kNone && rows_[by_entity_[i]].entity.index != i) return false;
    for (const std::uint32_t bucket : buckets_) filled += bucket != kNone;
    std::vector<bool> is_recycled(rows_.size());
    for (const std::uint32_t index : recycled_) {
        if (is_recycled[index] || rows_[index].net_id != 0) return false;
        is_recycled[index] = true;
    }
    return used == size_ && filled == size_ && size_ * 2 <= buckets_.size();
}

bool ReferenceIndex::is_consistent() const {
    std::size_t chained = 0, listed = 0, free = 0;
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
        std::uint32_t previous = kNone;
        for (std::uint32_t i = buckets_[b]; i != kNone; i = links_[i].next_in_bucket) {
            if (bucket(links_[i].target) != b || links_[i].previous_in_bucket != previous) return false;
            previous = i;
            ++chained;
        }
    }
    for (std::size_t referrer = 0; referrer < referrers_.size(); ++referrer)
        for (std::uint32_t i = referrers_[referrer]; i != kNone; i = links_[i].next_of_referrer) {
            if (links_[i].referrer != referrer || ++listed > count_) return false;
        }
    for (std::uint32_t i = free_; i != kNone; i = links_[i].next_of_referrer)
        if (++free > links_.size()) return false;
    return chained == count_ && listed == count_ && count_ + free == links_.size();
}

bool Replicas::is_consistent() const {
    if (!ids_.is_consistent() || !keys_.is_consistent() || rows_.size() != ids_.index_count()) return false;
    std::vector<bool> is_dirty(rows_.size()), is_gone(rows_.size());
    for (const std::uint32_t index : dirty_) {
        if (is_dirty[index]) return false;
        is_dirty[index] = true;
    }
    for (const Gone& gone : gone_) {
        if (is_gone[gone.index] || rows_[gone.index].slot != kNone) return false;
        is_gone[gone.index] = true;
    }
    std::size_t versions = 0, cost = 0;
    for (std::uint32_t index = 0; index < rows_.size(); ++index) {
        const Replica& replica = rows_[index];
        if (replica.cost < replica.newest_cost) return false;
        cost += replica.cost;
        const bool is_open = replica.slot != kNone;
        if (is_open != (ids_[index].net_id != 0) || is_open == replica.versions.empty()) return false;
        if (replica.is_dirty != is_dirty[index] || !replica.versions.is_consistent()) return false;
        if (replica.versions.size() > max_versions_ || (replica.ends && !replica.is_dirty)) return false;
        if (replica.applied && !replica.versions.find(*replica.applied)) return false;
        const ecs::Entity entity = ids_[index].entity;
        if (world_.is_alive(entity) && ids_.find(entity) != index) return false;
        versions += replica.versions.size();
    }
    return versions == pool_.in_use() && cost <= cost_;
}

bool Shadow::is_consistent() const {
    std::uint32_t open = 0;
    std::size_t versions = 0;
    for (std::uint32_t index = 0; index < entries_.size(); ++index) {
        const Entry& entry = entries_[index];
        const bool is_open = static_cast<bool>(entry.entity);
        const NetIds::Row& row = ids_[index];  // released if the entity does not replicate any more
        if (is_open && row.net_id != 0 && (row.net_id != entry.net_id || row.entity != entry.entity))
            return false;
        if (is_open == entry.versions.empty() || !entry.versions.is_consistent()) return false;
        open += is_open;
        versions += entry.versions.size();
    }
    return open == open_count_ && ids_.is_consistent() && versions == pool_.in_use() &&
           references_.is_consistent();
}

bool OwnedWriter::is_consistent() const {
    for (std::size_t i = 1; i < owned_.size(); ++i)
        if (!(owned_[i - 1].entity < owned_[i].entity)) return false;
    for (std::size_t i = 1; i < waiting_.size(); ++i)
        if (!is_newer(waiting_[i].version, waiting_[i - 1].version)) return false;
    return true;
}

bool Completion::is_consistent() const {
    for (std::size_t i = 0; i < kSize; ++i)
        if (packets_[i].number != 0 && (packets_[i].number % kSize != i || !newest_tick_)) return false;
    if (marker_.last == 0) return true;
    const std::uint64_t needed = marker_.last - marker_.first + 1;
    return newest_tick_ && marker_.first != 0 && marker_.first <= marker_.last &&
           needed <= kMaxPacketDistance + 1 && marker_.count >= 1 && marker_.count <= needed;
}

bool Decoder::is_consistent() const {
    std::vector<bool> is_listed(slots_.size());
    for (const std::uint32_t slot : rebases_) {
        if (is_listed[slot]) return false;
        is_listed[slot] = true;
    }
    std::size_t open = 0;
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
        if (slots_[slot].is_listed != is_listed[slot]) return false;
        const std::uint32_t replica = slots_[slot].replica;
        if (replica == Replicas::kNone) continue;
        if (replicas_[replica].slot != slot || !slots_[slot].last_tick) return false;
        if (replicas_[replica].versions.newest()->tick != *slots_[slot].last_tick) return false;
        ++open;
    }
    return open + replicas_.ending_count() == replicas_.ids().size() && completion_.is_consistent();
}

bool Receiver::is_consistent() const {
    if (!replicas_.is_consistent() || !decoder_.is_consistent()) return false;
    if (!references_.is_consistent() || !changed_ids_.empty()) return false;
    ReferenceIndex expected;
    bool all_known = true;
    for (std::uint32_t index = 0; index < replicas_.ids().index_count(); ++index) {
        const Replicas::Replica& replica = replicas_[index];
        if (!replica.applied) continue;
        binding_.for_each_reference(replica.versions.find(*replica.applied)->image, [&](NetId net_id) {
            bool is_known = false;
            references_.for_each_referrer(net_id, [&](std::uint32_t reader) { is_known |= reader == index; });
            all_known = all_known && is_known;
            expected.add(net_id, index);
        });
    }
    // apply() forgets the references of replicas that are gone.
    return all_known && (!replicas_.gone().empty() || references_.size() == expected.size());
}

bool Grid::is_consistent() const {
    std::size_t entries = 0, watchers = 0, placed = 0, watched = 0;
    for (std::uint32_t index = 0; index < cells_.size(); ++index) {
        const Cell& cell = cells_[index];
        const auto found = by_corner_.find(cell.corner);
        if (found == by_corner_.end() || found->second != index) return false;
        if (!std::ranges::is_sorted(cell.watchers, {}, [](const Watcher& one) { return one.peer + 0u; }))
            return false;
        for (std::uint32_t i = 0; i < cell.entries.size(); ++i)
            if (spots_[cell.entries[i]].cell != index || spots_[cell.entries[i]].position != i) return false;
        entries += cell.entries.size();
        watchers += cell.watchers.size();
    }
    for (const Spot& spot : spots_) placed += spot.cell != kNone;
    for (std::uint32_t peer = 0; peer < watches_.size(); ++peer)
        for (const std::uint32_t cell : watches_[peer].cells)
            watched += sight(cells_[cell], peer) != Sight::none;
    return entries == placed && watchers == watched && by_corner_.size() == cells_.size();
}

bool Scope::is_consistent() const {
    return followers_.is_consistent() && (!grid_ || grid_->is_consistent());
}

bool Audience::is_consistent() const {
    const auto is_before = [](const Viewer& a, const Viewer& b) { return a.peer < b.peer; };
    return std::ranges::all_of(viewers_, [&](const std::vector<Viewer>& viewers) {
        return std::ranges::adjacent_find(viewers, std::not_fn(is_before)) == viewers.end();
    });
}

bool ClusterSlots::is_consistent() const {
    std::size_t placed = 0, listed = 0;
    for (const Place& place : places_) placed += place.position != kNowhere;
    for (const auto& [cluster, slots] : clusters_) {
        if (slots.members.empty()) return false;
        listed += slots.members.size();
        for (std::uint32_t i = 0; i < slots.members.size(); ++i) {
            const Place& place = places_[slots.members[i]];
            if (place.cluster != cluster || place.position != i) return false;
        }
    }
    return placed == listed;
}

bool Flight::is_consistent() const {
    std::size_t records = 0;
    for (std::size_t i = 0; i < packets_.size(); ++i) {
        if (packets_[i].newest_count > packets_[i].record_count) return false;
        if (i > 0 && packets_[i].number <= packets_[i - 1].number) return false;
        records += packets_[i].record_count;
    }
    return records == records_.size() && (packets_.empty() || !packets_[0].settled);
}

bool PeerView::is_consistent() const {
    std::uint32_t used = 0, pending = 0, awaited = 0;
    for (const std::uint64_t word : awaited_) awaited += static_cast<std::uint32_t>(std::popcount(word));
    if (awaited != awaited_count_) return false;
    std::size_t queued = 0, in_group = 0, in_queues = 0;
    for (std::uint32_t index = 0; index < slots_.size(); ++index) {
        const Slot& slot = slots_[index];
        in_group += slot.is_in_group();
        if (slot.is_in_group() && !std::binary_search(group_.begin(), group_.end(), index)) return false;
        if (is_free(index) != (slot.entry == kNone)) return false;
        if (is_free(index) && clusters_.cluster_of(index)) return false;
        if (is_free(index) && (slot.is_pending || index / 64 < first_free_word_)) return false;
        if (slot.is_pending && !slot.is_queued) return false;
        if (rests(index) && (slot.is_pending || !slot.has_entity() || slot.is_in_group())) return false;
        if (slot.has_acked && slot.is_fresh) return false;
        used += !is_free(index);
        pending += slot.is_pending;
        queued += slot.is_queued;
    }
    std::vector<bool> is_seen(slots_.size());
    for (const net::impl::Fifo<std::uint32_t>& queue : queues_) {
        in_queues += queue.size();
        for (std::size_t i = 0; i < queue.size(); ++i) {
            if (!slots_[queue[i]].is_queued || is_seen[queue[i]]) return false;
            is_seen[queue[i]] = true;
        }
    }
    if (!clusters_.is_consistent() || in_group != group_.size()) return false;
    return used == used_count_ && pending == pending_count_ && queued == in_queues;
}

bool Sender::is_consistent() const {
    std::size_t pairs = 0;
    for (Peer index = 0; index < peers_.size(); ++index) {
        if (!peers_[index]) continue;
        const PeerState& peer = *peers_[index];
        std::size_t open = 0;
        for (std::uint32_t slot = 0; slot < peer.view.slot_count(); ++slot) {
            const std::uint32_t entry = peer.view[slot].entry;
            if (!peer.view[slot].has_entity()) continue;
            if (!shadow_[entry].entity || !audience_.has(entry, index)) return false;
            if (new_roles_.empty() && peer.view[slot].roles() != roles(index, entry)) return false;
            open += 1;
        }
        if (!peer.is_held && !is_as_seen(index)) return false;
        if (!peer.view.is_consistent() || !peer.flight.is_consistent()) return false;
        pairs += open;
    }
    return pairs == audience_.size() && audience_.is_consistent() && shadow_.is_consistent();
}

}  // namespace shoal::replication::impl
