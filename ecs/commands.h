#pragma once
// What hooks and iterations asked for and must wait: a queue of operations with their values.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "component.h"
#include "entity.h"

namespace shoal::ecs {

/// First in, first out. Keeps its memory when it runs empty. Values are moved in, and stay where
/// they are until destroyed here.
class CommandQueue {
public:
    enum class Kind : std::uint8_t {
        spawn,  // the entity, taken already, gets its row
        set,    // add or overwrite
        add,    // nothing happens to those that have it by then
        remove,
        destroy,
        destroy_all,  // the entities that are alive by then
        added,        // the entities got a component: hooks are to be told
        changed,      // the entities' values were written: hooks are to be told
        delay_begins,
        delay_ends,
    };

    struct Command {
        Kind kind;
        Entity entity;  // null for destroy_all and what follows it
        std::span<const ComponentId> components;
        std::span<void* const> values;     // one per component; null for tags
        std::span<const Entity> entities;  // of destroy_all, added and changed
        std::uint32_t earlier = 0;         // the one before it for this entity: position + 1; 0 for none
    };

    explicit CommandQueue(const ComponentTable& table) : table_(table) {}
    ~CommandQueue();
    CommandQueue(const CommandQueue&) = delete;
    CommandQueue& operator=(const CommandQueue&) = delete;

    bool empty() const { return size_ == 0; }

    /// Moves from the values; nulls in their place stay nulls.
    void push(Kind kind, Entity entity, std::span<const ComponentId> components,
              std::span<void* const> values);
    void push_entities(Kind kind, std::span<const Entity> entities, ComponentId component);

    /// Counts an operation that does nothing.
    void drop() { ++dropped_; }
    std::uint64_t dropped() const { return dropped_; }

    /// Whether operations on this entity alone wait.
    bool has(Entity entity) const { return entity.index < newest_.size() && newest_[entity.index] != 0; }

    enum class Fate : std::uint8_t { untouched, queued, removed };
    /// What the queue will have done to a component of an entity: nothing, given it the value at
    /// `value` (until then ours), or taken it away. `has_it_now`: before the queue is applied.
    Fate fate(Entity entity, ComponentId id, bool has_it_now, void*& value) const;

    /// Takes the oldest. What it names lives until it is handed to finish().
    Command pop();

    /// Destroys a popped command's values, moved from or not.
    void finish(const Command& command);

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
    std::vector<Chunk> chunks_;          // of all that commands name; never moved
    std::size_t chunk_ = 0;              // being filled
    std::size_t used_ = 0;               // bytes of it
    std::uint64_t dropped_ = 0;
};

}  // namespace shoal::ecs
