#pragma once
// A queue of operations with their values, for operations that are called while the world is deferred.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "component.h"
#include "entity.h"

namespace shoal::ecs::impl {

/// First in, first out. Keeps its memory when it becomes empty. push() moves values into the queue; their
/// addresses do not change, and finish() destroys them.
class CommandQueue {
public:
    enum class Kind : std::uint8_t {
        spawn,  // gives a row to an entity that is alive already
        set,    // add or overwrite
        add,    // does nothing if the entity has the component when the command is applied
        remove,
        destroy,
        destroy_all,  // skips entities that are dead when the command is applied
        added,        // calls add hooks for the entities
        changed,      // calls change hooks for the entities
        delay_begins,
        delay_ends,
        thrown,  // a hook threw: see World::throw_kept()
    };

    struct Command {
        Kind kind;
        Entity entity;  // null for destroy_all and the kinds after it
        std::span<const ComponentId> components;
        std::span<void* const> values;     // one per component; null for tags
        std::span<const Entity> entities;  // for destroy_all, added and changed
        std::uint32_t earlier = 0;         // previous command for the entity index: 1 + position; 0: none
    };

    explicit CommandQueue(const ComponentTable& table) : table_(table) {}
    ~CommandQueue();
    CommandQueue(const CommandQueue&) = delete;
    CommandQueue& operator=(const CommandQueue&) = delete;

    bool empty() const { return size_ == 0; }
    std::size_t size() const { return size_; }

    /// Adds a command for one entity. Moves from the values, or copies them; a null value stays null.
    void push(Kind kind, Entity entity, std::span<const ComponentId> components,
              std::span<void* const> values, bool copies = false);
    /// Adds a command for several entities, perhaps none. Copies their handles.
    void push_entities(Kind kind, std::span<const Entity> entities, ComponentId component);

    /// Counts an operation that is ignored.
    void drop() { ++dropped_; }
    std::uint64_t dropped() const { return dropped_; }

    /// Returns whether a command for this entity, or for a dead entity with the same index, is queued.
    /// Commands for several entities are not considered.
    bool has(Entity entity) const { return entity.index < newest_.size() && newest_[entity.index] != 0; }

    enum class Fate : std::uint8_t { untouched, queued, removed };
    /// Returns what the queued commands do to a component of an entity. untouched: nothing. queued: the
    /// commands add or set the component; `value` then points to the last value in the queue. removed: the
    /// commands remove the component or destroy the entity. `has_it_now`: the entity has the component before
    /// the queue is applied.
    Fate fate(Entity entity, ComponentId id, bool has_it_now, void*& value) const;

    /// Takes the oldest command. Requires that there is one. Its spans are valid until finish().
    Command pop();

    /// Destroys the values of a popped command, whether moved from or not.
    void finish(const Command& command);

    /// Frees the memory. Requires that the queue is empty.
    void shrink();

private:
    bool excludes(ComponentId got, ComponentId lost) const;
    void* allocate(std::size_t size, std::size_t align);

    struct Chunk {
        std::byte* data;
        std::size_t size;
    };

    const ComponentTable& table_;
    std::vector<Command> commands_;
    std::size_t next_ = 0;
    std::size_t size_ = 0;
    std::vector<std::uint32_t> newest_;  // by entity index: position + 1 in commands_; 0 for none
    std::vector<Chunk> chunks_;          // memory for ids, values and entities of commands; never moved
    std::size_t chunk_ = 0;              // index of the chunk that is being filled
    std::size_t used_ = 0;               // bytes used in this chunk
    std::uint64_t dropped_ = 0;
};

}  // namespace shoal::ecs::impl
