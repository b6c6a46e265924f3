#pragma once
// The server's world at each tick, to check the clients against. It is recorded from the components of all
// replicated entities in every tick, whether they changed or not.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/sim/game.h"

namespace shoal::sim {

class History {
public:
    using Tick = replication::Tick;
    using NetId = std::uint32_t;

    explicit History(Tick first) : first_(first) {}

    /// Records a tick. Returns false if a net id is 0, was used before by another entity, or occurs twice.
    bool record(Tick tick, const std::vector<std::pair<NetId, Snapshot>>& entities, std::uint64_t hash) {
        const std::uint32_t now = tick - first_;
        bool changed = hashes_.empty();
        for (const auto& [net_id, snapshot] : entities) {
            if (net_id == 0) return false;
            Life& life = lives_[net_id];
            if (life.seen == now && !life.versions.empty()) return false;
            if (life.closed) return false;
            if (life.versions.empty() || life.versions.back().second != snapshot) {
                life.versions.emplace_back(now, snapshot);
                changed = true;
            }
            life.seen = now;
        }
        alive_.clear();
        for (auto& [net_id, life] : lives_) {
            if (!life.closed && life.seen != now) {
                life.closed = now;
                changed = true;
            }
            if (!life.closed) alive_.push_back(net_id);
        }
        hashes_.resize(now + std::size_t{1});
        hashes_[now] = hash;
        if (changed) last_change_ = tick;
        return true;
    }

    /// Returns an entity at a tick; null if it did not exist.
    const Snapshot* at(NetId net_id, Tick tick) const {
        const auto found = lives_.find(net_id);
        if (found == lives_.end()) return nullptr;
        const std::uint32_t when = tick - first_;
        const Life& life = found->second;
        if (life.closed && when >= *life.closed) return nullptr;
        for (std::size_t i = life.versions.size(); i-- > 0;)
            if (life.versions[i].first <= when) return &life.versions[i].second;
        return nullptr;
    }

    template <class Fn>
    void for_each_at(Tick tick, Fn&& fn) const {
        for (const auto& [net_id, life] : lives_)
            if (const Snapshot* snapshot = at(net_id, tick)) fn(net_id, *snapshot);
    }

    bool knows(Tick tick) const { return tick - first_ < hashes_.size(); }
    std::uint64_t hash(Tick tick) const { return hashes_[tick - first_]; }
    /// At the last tick recorded.
    const std::vector<NetId>& alive() const { return alive_; }
    Tick last_change() const { return last_change_; }

private:
    struct Life {
        std::vector<std::pair<std::uint32_t, Snapshot>> versions;  // with the tick since which each is valid
        std::uint32_t seen = 0;
        std::optional<std::uint32_t> closed;
    };

    Tick first_;
    std::unordered_map<NetId, Life> lives_;
    std::vector<std::uint64_t> hashes_;
    std::vector<NetId> alive_;
    Tick last_change_ = 0;
};

}  // namespace shoal::sim
