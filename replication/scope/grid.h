#pragma once
// Which entities are near which peers. The world is divided into cells; a cell knows its entities, and the
// peers that watch it.

#include <cmath>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "../schema/grid_rule.h"

namespace shoal::replication::all {

/// A peer and the index of an entity in the shadow.
struct PeerEntry {
    std::uint32_t peer, entry;
    bool operator==(const PeerEntry&) const = default;
};

inline double distance(const GridPlace& a, const GridPlace& b) {
    return std::hypot(a.x - b.x, a.y - b.y, a.z - b.z);
}

/// A peer watches the cells that touch a circle (or sphere) around one of its viewpoints. Every entity within
/// `radius` is near; none beyond `leave_radius` and 2.1 cells (2.4 with has_height) is watched. The time that
/// an entity or a viewpoint takes grows with the cells that it enters and leaves.
class Grid {
public:
    explicit Grid(const GridOptions& options);

    enum class Sight : std::uint8_t {
        none,
        edge,  // whom the peer saw before, the peer still sees
        inside,
    };

    /// Puts an entity at a place, whose numbers must be finite. Appends to `crossed` the peers that may see
    /// it now and did not before, or the reverse. Returns whether it was in no cell before.
    bool put(std::uint32_t entry, const GridPlace& at, std::vector<PeerEntry>& crossed);
    void remove(std::uint32_t entry);
    bool has(std::uint32_t entry) const { return entry < spots_.size() && spots_[entry].cell != kNone; }

    /// Makes the peer watch what is around its viewpoints. Appends to `crossed` the entities that it may see
    /// now and did not before, or the reverse.
    void look(std::uint32_t peer, std::span<const GridPlace> viewpoints, std::vector<PeerEntry>& crossed);

    /// Requires has(entry).
    Sight sight(std::uint32_t peer, std::uint32_t entry) const {
        return sight(cells_[spots_[entry].cell], peer);
    }
    Sight sight(std::uint32_t peer, const GridPlace& at) const;
    /// Calls fn(peer) for each peer that watches the cell of an entity. Requires has(entry).
    template <class Fn>
    void for_each_watcher(std::uint32_t entry, Fn&& fn) const {
        for (const Watcher& watcher : cells_[spots_[entry].cell].watchers) fn(watcher.peer);
    }
    const GridOptions& options() const { return options_; }

    bool is_consistent() const;  // consistency.cpp

private:
    static constexpr std::uint32_t kNone = 0xffffffff;

    struct Corner {
        std::int32_t x = 0, y = 0, z = 0;  // times the side of a cell
        bool operator==(const Corner&) const = default;
    };
    struct Hash {
        std::size_t operator()(const Corner& at) const;
    };
    struct Watcher {
        std::uint32_t peer : 31;
        std::uint32_t is_near : 1;
    };
    struct Cell {
        Corner corner;
        std::vector<std::uint32_t> entries;
        std::vector<Watcher> watchers;  // peers ascend
    };
    /// Where an entity is.
    struct Spot {
        std::uint32_t cell = kNone;
        std::uint32_t position = 0;  // in Cell::entries
    };
    struct Watch {
        std::vector<std::uint32_t> cells;
        std::vector<GridPlace> from;  // viewpoints of the last look()
    };

    Corner corner_of(const GridPlace& at) const;
    bool is_in(const GridPlace& at, const Corner& corner) const;
    double distance_squared(const GridPlace& from, const Corner& corner) const;
    double distance_squared(std::span<const GridPlace> viewpoints, const Corner& corner) const;
    std::uint32_t find_or_add(const Corner& corner);
    static Sight sight(const Cell& cell, std::uint32_t peer);
    void revise(std::uint32_t peer, std::span<const GridPlace> viewpoints, std::vector<PeerEntry>& crossed);
    void begin_watching(std::uint32_t peer, std::span<const GridPlace> viewpoints, const GridPlace& around,
                        std::vector<PeerEntry>& crossed);
    void drop_empty();

    GridOptions options_;
    double slack_, margin_;  // how far a viewpoint moves before it looks, and an entity outside of its cell
    double near_, far_;      // squares of the distances to the cells that are near, or watched
    std::vector<Cell> cells_;
    std::unordered_map<Corner, std::uint32_t, Hash> by_corner_;
    std::size_t most_cells_ = 4'096;  // above it, drop_empty() drops the cells that nothing needs
    std::vector<Spot> spots_;         // by entry
    std::vector<Watch> watches_;      // by peer
};

}  // namespace shoal::replication::all
