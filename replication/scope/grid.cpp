#include "grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shoal::replication::all {
namespace {

constexpr double kMaxCorner = 1 << 30;

template <class Watcher>
std::uint32_t peer_of(const Watcher& watcher) {
    return watcher.peer;
}

double square(double number) {
    return number * number;
}

}  // namespace

Grid::Grid(const GridOptions& options)
    : options_(options), slack_(options.cell / 4), margin_(options.cell / 16) {
    near_ = square(options.radius + slack_ + margin_);
    far_ = square(options.leave_radius + slack_ + margin_);
}

std::size_t Grid::Hash::operator()(const Corner& at) const {
    const auto part = [](std::int32_t number) { return std::uint64_t{static_cast<std::uint32_t>(number)}; };
    std::uint64_t hash = (part(at.x) << 32 | part(at.y)) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 32 ^ part(at.z)) * 0xbf58476d1ce4e5b9u;
    return static_cast<std::size_t>(hash ^ hash >> 29);
}

Grid::Corner Grid::corner_of(const GridPlace& at) const {
    const auto corner = [&](double number) {
        const double cell = std::floor(number / options_.cell);
        return static_cast<std::int32_t>(std::clamp(cell, -kMaxCorner, kMaxCorner));
    };
    return {corner(at.x), corner(at.y), options_.has_height ? corner(at.z) : 0};
}

/// Returns whether an entity of this cell stays in it: it may be a little outside, so that one that moves to
/// and fro at an edge does not change cells.
bool Grid::is_in(const GridPlace& at, const Corner& corner) const {
    const auto fits = [&](double number, std::int32_t cell) {
        const double inside = number - cell * options_.cell;
        return inside >= -margin_ && inside <= options_.cell + margin_;
    };
    return fits(at.x, corner.x) && fits(at.y, corner.y) && (!options_.has_height || fits(at.z, corner.z));
}

/// The square of the distance to the nearest point of a cell.
double Grid::distance_squared(const GridPlace& from, const Corner& corner) const {
    const auto gap = [&](double number, std::int32_t cell) {
        const double inside = number - cell * options_.cell;
        return std::max({0.0, -inside, inside - options_.cell});
    };
    const double height = options_.has_height ? gap(from.z, corner.z) : 0;
    return square(gap(from.x, corner.x)) + square(gap(from.y, corner.y)) + square(height);
}

double Grid::distance_squared(std::span<const GridPlace> viewpoints, const Corner& corner) const {
    double least = std::numeric_limits<double>::infinity();
    for (const GridPlace& from : viewpoints) least = std::min(least, distance_squared(from, corner));
    return least;
}

std::uint32_t Grid::find_or_add(const Corner& corner) {
    const auto [found, is_new] = by_corner_.try_emplace(corner, static_cast<std::uint32_t>(cells_.size()));
    if (is_new) cells_.push_back({corner, {}, {}});
    return found->second;
}

bool Grid::put(std::uint32_t entry, const GridPlace& at, std::vector<PeerEntry>& crossed) {
    const bool is_new = !has(entry);
    if (!is_new && is_in(at, cells_[spots_[entry].cell].corner)) return false;
    if (entry >= spots_.size()) spots_.resize(entry + std::size_t{1});
    const std::uint32_t former = spots_[entry].cell, cell = find_or_add(corner_of(at));
    if (!is_new) remove(entry);
    spots_[entry] = {cell, static_cast<std::uint32_t>(cells_[cell].entries.size())};
    cells_[cell].entries.push_back(entry);
    if (is_new) return true;
    const std::vector<Watcher>&before = cells_[former].watchers, &now = cells_[cell].watchers;
    for (std::size_t a = 0, b = 0; a < before.size() || b < now.size();) {
        if (b == now.size() || (a < before.size() && before[a].peer < now[b].peer)) {
            crossed.push_back({before[a++].peer, entry});
        } else if (a == before.size() || now[b].peer < before[a].peer) {
            if (now[b].is_near) crossed.push_back({now[b].peer, entry});
            ++b;
        } else {
            if (now[b].is_near && !before[a].is_near) crossed.push_back({now[b].peer, entry});
            ++a, ++b;
        }
    }
    return false;
}

void Grid::remove(std::uint32_t entry) {
    if (!has(entry)) return;
    const Spot spot = spots_[entry];
    std::vector<std::uint32_t>& entries = cells_[spot.cell].entries;
    entries[spot.position] = entries.back();
    spots_[entries.back()].position = spot.position;
    entries.pop_back();
    spots_[entry] = {};
}

void Grid::look(std::uint32_t peer, std::span<const GridPlace> viewpoints, std::vector<PeerEntry>& crossed) {
    if (peer >= watches_.size()) watches_.resize(peer + std::size_t{1});
    Watch& watch = watches_[peer];
    const bool is_here =
        std::ranges::equal(viewpoints, watch.from,
                           [&](const GridPlace& a, const GridPlace& b) { return distance(a, b) <= slack_; });
    if (is_here) return;
    revise(peer, viewpoints, crossed);
    for (const GridPlace& around : viewpoints) begin_watching(peer, viewpoints, around, crossed);
    watch.from.assign(viewpoints.begin(), viewpoints.end());
    drop_empty();
}

/// Revises the cells that the peer watches.
void Grid::revise(std::uint32_t peer, std::span<const GridPlace> viewpoints,
                  std::vector<PeerEntry>& crossed) {
    std::erase_if(watches_[peer].cells, [&](std::uint32_t index) {
        Cell& cell = cells_[index];
        const double squared = distance_squared(viewpoints, cell.corner);
        const auto place = std::ranges::lower_bound(cell.watchers, peer, {}, &peer_of<Watcher>);
        const bool was_near = place->is_near, is_watched = squared <= far_;
        place->is_near = squared <= near_;
        if (!is_watched || (place->is_near && !was_near))
            for (const std::uint32_t entry : cell.entries) crossed.push_back({peer, entry});
        if (!is_watched) cell.watchers.erase(place);
        return !is_watched;
    });
}

/// Begins to watch the cells around one of the viewpoints.
void Grid::begin_watching(std::uint32_t peer, std::span<const GridPlace> viewpoints, const GridPlace& around,
                          std::vector<PeerEntry>& crossed) {
    Watch& watch = watches_[peer];
    const double reach = std::sqrt(far_);
    const Corner low = corner_of({around.x - reach, around.y - reach, around.z - reach});
    const Corner high = corner_of({around.x + reach, around.y + reach, around.z + reach});
    Corner corner;
    for (corner.z = low.z; corner.z <= high.z; ++corner.z)
        for (corner.y = low.y; corner.y <= high.y; ++corner.y)
            for (corner.x = low.x; corner.x <= high.x; ++corner.x) {
                // What was around a former viewpoint is watched already.
                if (distance_squared(around, corner) > far_ || distance_squared(watch.from, corner) <= far_)
                    continue;
                const std::uint32_t index = find_or_add(corner);
                Cell& cell = cells_[index];
                const auto place = std::ranges::lower_bound(cell.watchers, peer, {}, &peer_of<Watcher>);
                if (place != cell.watchers.end() && place->peer == peer) continue;
                const bool is_near = distance_squared(viewpoints, corner) <= near_;
                cell.watchers.insert(place, {peer & 0x7fff'ffff, is_near});
                watch.cells.push_back(index);
                if (!is_near) continue;
                for (const std::uint32_t entry : cell.entries) crossed.push_back({peer, entry});
            }
}

Grid::Sight Grid::sight(const Cell& cell, std::uint32_t peer) {
    const auto place = std::ranges::lower_bound(cell.watchers, peer, {}, &peer_of<Watcher>);
    if (place == cell.watchers.end() || place->peer != peer) return Sight::none;
    return place->is_near ? Sight::inside : Sight::edge;
}

Grid::Sight Grid::sight(std::uint32_t peer, const GridPlace& at) const {
    const auto found = by_corner_.find(corner_of(at));
    return found == by_corner_.end() ? Sight::none : sight(cells_[found->second], peer);
}

/// Drops the cells that have neither entities nor watchers, if there are many cells.
void Grid::drop_empty() {
    if (cells_.size() <= most_cells_) return;
    std::vector<std::uint32_t> moved(cells_.size(), kNone);
    std::uint32_t count = 0;
    for (std::uint32_t index = 0; index < cells_.size(); ++index) {
        if (cells_[index].entries.empty() && cells_[index].watchers.empty()) continue;
        moved[index] = count;
        if (count != index) std::swap(cells_[count], cells_[index]);
        count += 1;
    }
    cells_.resize(count);
    by_corner_.clear();
    for (std::uint32_t index = 0; index < count; ++index) by_corner_[cells_[index].corner] = index;
    for (Spot& spot : spots_)
        if (spot.cell != kNone) spot.cell = moved[spot.cell];
    for (Watch& watch : watches_)
        for (std::uint32_t& index : watch.cells) index = moved[index];
    most_cells_ = std::max<std::size_t>(4'096, 2 * cells_.size());
}

}  // namespace shoal::replication::all
