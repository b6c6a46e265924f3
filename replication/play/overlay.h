#pragma once
// What a client's actions changed in its world ahead of the server.

#include <cstdint>
#include <vector>

#include "../../ecs/world.h"
#include "../receive/receiver.h"
#include "action_wire.h"

namespace shoal::replication {

/// Values that lie over those of the server, one for each component of a replica that an action wrote, added
/// or removed. The newest one of a component is in the world. Records change only what lies below. Not
/// thread-safe.
class Overlay {
public:
    static constexpr std::size_t kMaxEntries = 1024;

    explicit Overlay(Receiver& receiver) : receiver_(receiver) {}

    bool is_full() const { return entries_.size() >= kMaxEntries; }
    bool empty() const { return entries_.empty(); }

    /// Names an action.
    struct Key {
        ActionStream stream = ActionStream::ordered;
        std::uint32_t sequence = 0;

        bool operator==(const Key&) const = default;
    };

    /// Notes that an action just changed a component of a replica, with the value that it has now. No effect
    /// if the entity is no replica.
    void add(Key action, ecs::Entity entity, ComponentIndex component);

    /// The server did the action at this tick. Its values end when the world has the server's entities of
    /// this tick or a newer one, see end_accepted().
    void accept(Key action, Tick tick);
    /// Undoes an action: the world gets the values that lie below.
    void undo(Key action);
    /// Undoes the actions of the ordered stream from this sequence number on.
    void undo_from(std::uint32_t sequence);
    void end_accepted();

    /// Forgets everything, for a new connection. The world keeps what it has.
    void reset() { entries_.clear(); }

    /// Calls fn(entity) for each entity that the action changed, once.
    template <class Fn>
    void for_each_touched(Key action, Fn&& fn) const {
        for (std::size_t i = 0; i < entries_.size(); ++i)
            if (entries_[i].action == action && is_first(i)) fn(entries_[i].entity);
    }

    bool is_consistent() const;

private:
    struct Entry {
        Key action;
        ecs::Entity entity;
        ComponentIndex component = 0;
        bool is_accepted = false;
        Tick tick = 0;  // if accepted: when the server did it
        Receiver::Value value;
    };

    bool is_first(std::size_t index) const;
    bool is_over(const Entry& entry) const;
    template <class Ends>
    void end(Ends&& ends);

    Receiver& receiver_;
    std::vector<Entry> entries_;  // the oldest first
    std::vector<Entry> ended_;    // of the current call
};

}  // namespace shoal::replication
