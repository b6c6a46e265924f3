#pragma once
// Rooms: levels, matches or parties. Players enter them, and entities are in them.

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "../../ecs/world.h"

namespace shoal::replication::impl {

/// A component of a replicated entity: players who did not enter this room (PlayerView::enter()) do not see
/// it, unless an earlier line of the rule in scope.h applies. Only the server reads it; it is not in the
/// schema.
struct Room {
    std::uint32_t number = 0;
    friend auto operator<=>(const Room&, const Room&) = default;
};
/// As Room, for an entity in several rooms. An entity may have both. If it has Rooms without any room, and no
/// Room, nobody sees it.
struct Rooms {
    std::vector<Room> all;
};

/// The rooms of an entity.
struct RoomSpan {
    const Room* room = nullptr;
    const Rooms* rooms = nullptr;

    RoomSpan(const ecs::World& world, ecs::Entity entity)
        : room(world.try_get<Room>(entity)), rooms(world.try_get<Rooms>(entity)) {}
    bool is_anywhere() const { return !room && !rooms; }
    template <class Fn>
    bool any_of(Fn&& fn) const {
        if (room && fn(*room)) return true;
        if (!rooms) return false;
        for (const Room& one : rooms->all)
            if (fn(one)) return true;
        return false;
    }
};

/// Who is in which room. Peers and entries are small numbers; an entry is the index of an entity in the
/// shadow.
class RoomTable {
public:
    /// Return false if the peer was in the room already, or not in it.
    bool enter(std::uint32_t peer, Room room);
    bool leave(std::uint32_t peer, Room room);
    void remove_peer(std::uint32_t peer);
    bool is_in(std::uint32_t peer, Room room) const {
        return peer < of_peer_.size() && of_peer_[peer].contains(room.number);
    }

    /// Sets the rooms of an entity.
    void put(std::uint32_t entry, const RoomSpan& rooms);
    void remove(std::uint32_t entry);
    /// Calls fn(entry) for each entity in a room.
    template <class Fn>
    void for_each_entry(Room room, Fn&& fn) const {
        const auto found = entries_.find(room.number);
        if (found == entries_.end()) return;
        for (const std::uint32_t entry : found->second) fn(entry);
    }

private:
    std::vector<std::unordered_set<std::uint32_t>> of_peer_;
    std::unordered_map<std::uint32_t, std::unordered_set<std::uint32_t>> entries_;  // by room
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> of_entry_;        // rooms by entry
};

}  // namespace shoal::replication::impl
