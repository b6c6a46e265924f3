#pragma once
// Who sees an entity. For a player and an entity, the first line that applies decides:
//
//  1. The player owns or predicts the entity: seen.
//  2. PlayerView::hide(): not seen. PlayerView::show(): seen.
//  3. The entity has a component that is everywhere(), or is a singleton: seen.
//  4. It has a pair of a relation with follows(): as the target of the pair is seen.
//  5. Seen if these tests pass; a test that does not apply passes:
//     - rooms: the player is in a room of the entity. Applies to entities with Room or Rooms.
//     - grid: the entity is near a viewpoint of the player. Applies to entities with Schema::grid()'s
//       component.
//     - filters: each Server::filter() of a component that the entity has returns true.
//
// If nothing of this is used, everybody sees everything.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../ecs/change_collector.h"
#include "../history/reference_index.h"
#include "../history/shadow.h"
#include "../send/audience.h"
#include "grid.h"
#include "rooms.h"
#include "why.h"

namespace shoal::replication::impl {

/// Not thread-safe. A peer is a small number. Entities are named by their index in the shadow, an `entry`.
class Scope {
public:
    /// An entity that follows itself, in a circle, or others over more steps than this, is seen as if it
    /// followed nothing.
    static constexpr int kMaxSteps = 16;

    /// Returns whether a peer owns or predicts an entity.
    using HasRole = std::function<bool(std::uint32_t peer, ecs::Entity entity)>;
    /// Returns whether a peer may see an entity, which has the component at `value`.
    using Filter = std::function<bool(std::uint32_t peer, ecs::Entity entity, const void* value)>;

    /// All references must outlive the scope.
    Scope(ecs::World& world, const Schema& schema, const Shadow& shadow, const Audience& audience,
          HasRole has_role);

    /// Returns whether something was declared or set that hides an entity. Until then everybody sees
    /// everything, and update() touches nothing.
    bool is_used() const { return is_used_; }

    // What the functions below set has an effect from the next update() on.

    void remove_peer(std::uint32_t peer);
    void enter(std::uint32_t peer, Room room);
    void leave(std::uint32_t peer, Room room);
    /// Shows or hides an entity; empty: undoes both. Ends when the entity is destroyed.
    void set_shown(std::uint32_t peer, ecs::Entity entity, std::optional<bool> is_shown);
    /// Sets the viewpoints of a peer. The viewpoint of an entity that is destroyed, or that loses its place,
    /// stays where it was.
    void view_from(std::uint32_t peer, ecs::Entity entity);
    void view_from(std::uint32_t peer, std::span<const GridPlace> places);
    /// As view_from(), but without effect after view_from().
    void view_by_default(std::uint32_t peer, ecs::Entity entity);
    /// Replaces an earlier filter of the component. `name` is for humans.
    void set_filter(ecs::ComponentId component, std::string_view name, Filter filter);
    /// Applies the rule anew to an entity and all peers, or to a peer and all entities.
    void recheck(ecs::Entity entity) { to_recheck_.push_back(entity); }
    void recheck(std::uint32_t peer) { peers_to_recheck_.push_back(peer); }

    /// Takes the changes of the world since the last call. Call it after Shadow::update(). All peers are
    /// below `peers`.
    void update(std::uint32_t peers);
    /// Replaces `pairs` by the pairs for which sees() may have another result since the last call. Some are
    /// there more than once, and the entry of some has been closed.
    void take_touched(std::vector<PeerEntry>& pairs) {
        pairs.clear();
        std::swap(pairs, touched_);
    }
    /// Updates the viewpoints of one peer.
    void look(std::uint32_t peer);

    /// Applies the rule to a replicated entity. The shadow need not have it yet.
    bool sees(std::uint32_t peer, ecs::Entity entity) const {
        return verdict(peer, entity).reason == Reason::has_it;
    }
    /// The same, with the reason; has_it: the peer sees the entity.
    Why why(std::uint32_t peer, ecs::Entity entity) const;
    /// Returns the distance of an entity, or of what it follows, from the nearest viewpoint of a peer: 0 if
    /// it has no place, infinity if there is no viewpoint.
    double distance(std::uint32_t peer, ecs::Entity entity) const;
    /// Returns the entry that an entity follows; Shadow::kNone if it follows nothing that replicates.
    std::uint32_t followed_by(ecs::Entity entity) const {
        const ecs::Entity target = target_of(entity);
        return target ? open_entry(target) : Shadow::kNone;
    }
    /// Calls fn(entry) for each entity that follows this one.
    template <class Fn>
    void for_each_follower(ecs::Entity entity, Fn&& fn) const {
        if (followers_.size() != 0) followers_.for_each_referrer(entity.index, fn);
    }

    bool is_consistent() const;  // consistency.cpp

private:
    struct Viewpoints {
        ecs::Entity entity;  // null: only places
        bool is_default = true;
        std::vector<GridPlace> places;  // of the entity: its last place
    };
    struct ComponentFilter {
        ecs::ComponentId component;
        std::string name;
        Filter fn;
    };
    struct Shown {
        std::uint32_t peer;
        bool is_shown;
    };
    /// What a watched component is for the scope; several with |.
    static constexpr std::uint8_t kPlace = 1, kRoom = 2, kFollows = 4, kEverywhere = 8, kFilter = 16,
                                  kTag = 32;

    void watch(ecs::ComponentId component, std::uint8_t parts);
    void open(std::uint32_t entry);
    void close(std::uint32_t entry);
    void take(ecs::Entity entity, std::uint8_t parts);
    void take_place(std::uint32_t entry);
    void take_rooms(std::uint32_t entry);
    void take_target(std::uint32_t entry);
    void touch(std::uint32_t entry);
    void touch_all(std::uint32_t entry);
    void touch_followers(ecs::Entity entity, int steps);
    std::uint32_t open_entry(ecs::Entity entity) const;
    ecs::Entity target_of(ecs::Entity entity) const;
    std::optional<GridPlace> place_of(ecs::Entity entity) const;
    std::optional<bool> shown(std::uint32_t peer, ecs::Entity entity) const;
    bool is_everywhere(ecs::Entity entity) const;
    struct Verdict {
        Reason reason;
        ecs::Entity decided_by;
    };
    Verdict verdict(std::uint32_t peer, ecs::Entity entity) const;
    bool is_in_circle(ecs::Entity entity) const;
    ecs::Entity leader(ecs::Entity entity) const;
    Reason test(std::uint32_t peer, ecs::Entity entity) const;
    bool passes_rooms(std::uint32_t peer, ecs::Entity entity) const;
    bool passes_grid(std::uint32_t peer, ecs::Entity entity) const;
    const ComponentFilter* failed_filter(std::uint32_t peer, ecs::Entity entity) const;

    ecs::World& world_;
    const Shadow& shadow_;
    const Audience& audience_;  // who sees an entity already
    HasRole has_role_;
    ecs::ChangeCollector changes_;
    std::vector<std::uint8_t> parts_;  // by watch index
    const GridRule* rule_;
    ecs::ComponentId place_;  // none: there is no grid
    std::optional<Grid> grid_;
    std::vector<ecs::ComponentId> everywhere_, follows_;
    RoomTable rooms_;
    bool has_rooms_ = false;  // a peer entered a room, or an entity has one
    std::vector<ComponentFilter> filters_;
    std::unordered_map<ecs::Entity, std::vector<Shown>> shown_;
    std::vector<Viewpoints> viewpoints_;  // by peer
    ReferenceIndex followers_;            // index of a target -> entries that follow it
    std::vector<PeerEntry> touched_;
    std::vector<ecs::Entity> to_recheck_;
    std::vector<std::uint32_t> peers_to_recheck_;
    std::uint32_t peers_ = 0;  // argument of update()
    bool is_used_ = false;
};

}  // namespace shoal::replication::impl
