#pragma once
// Which peers see a component.

#include <cassert>
#include <cstdint>

namespace shoal::replication::impl {

/// A set of view classes. For each entity, a peer is either its owner or one of the others; a peer can also
/// be in groups, for example a team, and it may predict the entity. A component is sent to the peers that are
/// in one of its view classes.
struct ViewClasses {
    std::uint16_t bits = 0;

    friend constexpr bool operator==(ViewClasses, ViewClasses) = default;
    friend constexpr ViewClasses operator&(ViewClasses a, ViewClasses b) {
        return {static_cast<std::uint16_t>(a.bits & b.bits)};
    }
    friend constexpr ViewClasses operator|(ViewClasses a, ViewClasses b) {
        return {static_cast<std::uint16_t>(a.bits | b.bits)};
    }
};

inline constexpr unsigned kMaxGroups = 6;

constexpr ViewClasses to_everyone() {
    return {0x1ff};
}
constexpr ViewClasses to_all_groups() {
    return {0xfc};
}
/// The peer that the entity was given to, see Server::give().
constexpr ViewClasses to_owner() {
    return {1};
}
/// All peers but the owner.
constexpr ViewClasses to_others() {
    return {2};
}
/// The peers in this group, see PlayerView::set_groups(). Requires group < kMaxGroups.
constexpr ViewClasses to_group(unsigned group) {
    assert(group < kMaxGroups);
    return {static_cast<std::uint16_t>(4u << group)};
}
/// The peers that predict the entity without owning it, see Server::predict().
constexpr ViewClasses to_predictors() {
    return {0x100};
}

/// Returns whether the sets have a view class in common.
constexpr bool overlap(ViewClasses a, ViewClasses b) {
    return (a & b) != ViewClasses{};
}

}  // namespace shoal::replication::impl
