#include "audience.h"

#include <algorithm>
#include <cassert>

namespace shoal::replication::impl {
namespace {

/// The position of the first viewer whose peer is not below `peer`.
template <class Viewers>
auto position(Viewers& viewers, std::uint32_t peer) {
    return std::lower_bound(viewers.begin(), viewers.end(), peer,
                            [](const Audience::Viewer& viewer, std::uint32_t p) { return viewer.peer < p; });
}

}  // namespace

void Audience::add(std::uint32_t entry, Viewer viewer) {
    std::vector<Viewer>& viewers = viewers_[entry];
    // Grows by an eighth: a vector that doubles leaves half of its memory unused.
    if (viewers.size() == viewers.capacity()) viewers.reserve(viewers.size() + viewers.size() / 8 + 1);
    const auto at = position(viewers, viewer.peer);
    assert(at == viewers.end() || at->peer != viewer.peer);
    viewers.insert(at, viewer);
}

void Audience::remove(std::uint32_t entry, std::uint32_t peer) {
    std::vector<Viewer>& viewers = viewers_[entry];
    const auto at = position(viewers, peer);
    assert(at != viewers.end() && at->peer == peer);
    viewers.erase(at);
}

std::optional<std::uint32_t> Audience::slot(std::uint32_t entry, std::uint32_t peer) const {
    const auto at = position(viewers_[entry], peer);
    return at != viewers_[entry].end() && at->peer == peer ? std::optional(at->slot) : std::nullopt;
}

std::size_t Audience::size() const {
    std::size_t size = 0;
    for (const std::vector<Viewer>& viewers : viewers_) size += viewers.size();
    return size;
}

}  // namespace shoal::replication::impl
