#pragma once
// The changes that a client's actions made in its world ahead of the server.

#include <cstdint>
#include <vector>

#include "../../ecs/world.h"
#include "../receive/receiver.h"
#include "action_wire.h"

namespace shoal::replication::impl {

/// Values that the client's actions wrote, which the world shows instead of the server's values. There is an
/// entry for each action and each component of a replica that the action wrote, added or removed. If a
/// component has several entries, the world shows the newest. Records do not change what the world shows for
/// a component with an entry. Not thread-safe.
class Overlay {
public:
    static constexpr std::size_t kFullEntries = 1024;  // with so many, no further action begins

    explicit Overlay(Receiver& receiver) : receiver_(receiver) {}

    bool is_full() const { return entries_.size() >= kFullEntries; }
    bool empty() const { return entries_.empty(); }

    /// Names an action.
    struct Key {
        ActionStream stream = ActionStream::ordered;
        std::uint32_t sequence = 0;

        bool operator==(const Key&) const = default;
    };

    /// Adds an entry for a component that an action has just changed, with the component's present value. No
    /// effect if the entity is no replica.
    void add(Key action, ecs::Entity entity, ComponentIndex component);

    /// Notes that the server did the action at this tick. end_accepted() removes the action's entries once
    /// the world has the server's values of this tick or a newer one.
    void accept(Key action, Tick tick);
    /// Removes the entries of an action. For each of their components the world then shows the newest entry
    /// that is left, or else the server's value.
    void undo(Key action);
    /// Undoes the actions of the ordered stream from this sequence number on.
    void undo_from(std::uint32_t sequence);
    /// Removes the entries of accepted actions that the world no longer needs, see accept().
    void end_accepted();

    /// Forgets everything, for a new connection. The world keeps what it has.
    void reset() { entries_.clear(); }

    bool is_consistent() const;  // consistency.cpp

private:
    struct Entry {
        Key action;
        ecs::Entity entity;
        ComponentIndex component = 0;
        bool is_accepted = false;
        Tick tick = 0;  // if accepted: the tick at which the server did the action
        Receiver::Value value;
    };

    bool is_over(const Entry& entry) const;
    template <class Ends>
    void end(Ends&& ends);

    Receiver& receiver_;
    std::vector<Entry> entries_;  // the oldest first
    std::vector<Entry> ended_;    // entries that the current call removed
};

}  // namespace shoal::replication::impl
