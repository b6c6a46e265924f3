#include "commands.h"

#include <algorithm>
#include <cassert>
#include <new>

namespace shoal::ecs::impl {

CommandQueue::~CommandQueue() {
    while (!empty()) finish(pop());
    shrink();
}

void CommandQueue::shrink() {
    assert(empty());
    for (const Chunk& chunk : chunks_) ::operator delete(chunk.data);
    std::vector<Chunk>().swap(chunks_);
    std::vector<Command>().swap(commands_);
    std::vector<std::uint32_t>().swap(newest_);
}

void CommandQueue::push(Kind kind, Entity entity, std::span<const ComponentId> components,
                        std::span<void* const> values, bool copies) {
    assert(values.empty() || values.size() == components.size());
    const std::size_t count = components.size();
    auto* ids = static_cast<ComponentId*>(allocate(count * sizeof(ComponentId), alignof(ComponentId)));
    auto** kept = static_cast<void**>(allocate(values.size() * sizeof(void*), alignof(void*)));
    std::copy(components.begin(), components.end(), ids);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const ComponentType& type = table_[components[i]];
        kept[i] = nullptr;
        if (type.is_tag() || values[i] == nullptr) continue;
        kept[i] = allocate(type.size, type.align);
        copies ? type.construct_copy(kept[i], values[i]) : type.construct(kept[i], values[i]);
    }
    if (entity.index >= newest_.size()) newest_.resize(entity.index + std::size_t{1});
    std::uint32_t& newest = newest_[entity.index];
    commands_.push_back({kind, entity, {ids, count}, {kept, values.size()}, {}, newest});
    newest = static_cast<std::uint32_t>(commands_.size());
    ++size_;
}

void CommandQueue::push_entities(Kind kind, std::span<const Entity> entities, ComponentId component) {
    auto* id = static_cast<ComponentId*>(allocate(sizeof(ComponentId), alignof(ComponentId)));
    auto* kept = static_cast<Entity*>(allocate(entities.size_bytes(), alignof(Entity)));
    *id = component;
    std::copy(entities.begin(), entities.end(), kept);
    commands_.push_back({kind, {}, {id, 1}, {}, {kept, entities.size()}});
    ++size_;
}

CommandQueue::Fate CommandQueue::fate(Entity entity, ComponentId id, bool has_it_now, void*& value) const {
    if (!has(entity)) return Fate::untouched;
    void* last = nullptr;   // value of the newest set command
    void* added = nullptr;  // value of the oldest add command after the last remove command
    bool is_removed = false;
    for (std::uint32_t at = newest_[entity.index]; at > next_; at = commands_[at - 1].earlier) {
        const Command& command = commands_[at - 1];
        if (command.entity != entity) continue;
        if (command.kind == Kind::destroy) return Fate::removed;  // commands after it will be dropped
        if (is_removed || last != nullptr) continue;
        for (std::size_t i = 0; i < command.components.size(); ++i) {
            if (command.kind != Kind::remove && excludes(command.components[i], id)) {
                is_removed = true;
                break;
            }
            if (command.components[i] != id) continue;
            (command.kind == Kind::add ? added : last) =
                command.kind == Kind::remove ? nullptr : command.values[i];
            is_removed = command.kind == Kind::remove;
            break;
        }
    }
    if (last == nullptr && !is_removed && has_it_now) return Fate::untouched;
    value = last != nullptr ? last : added;
    if (value != nullptr) return Fate::queued;
    return is_removed ? Fate::removed : Fate::untouched;
}

/// Returns whether adding `got` removes `lost`: true if they are different pairs of the same exclusive
/// relation.
bool CommandQueue::excludes(ComponentId got, ComponentId lost) const {
    return got.is_pair() && got != lost && table_.type_of(got) == table_.type_of(lost) &&
           includes(table_[got].relation, exclusive);
}

CommandQueue::Command CommandQueue::pop() {
    assert(!empty());
    const Command command = commands_[next_++];
    if (command.entity && newest_[command.entity.index] == next_) newest_[command.entity.index] = 0;
    --size_;
    return command;
}

void CommandQueue::finish(const Command& command) {
    for (std::size_t i = 0; i < command.values.size(); ++i) {
        const ComponentType& type = table_[command.components[i]];
        if (command.values[i] != nullptr && type.destroy != nullptr) type.destroy(command.values[i]);
    }
    if (!empty()) return;
    commands_.clear();
    next_ = 0;
    chunk_ = 0;
    used_ = 0;
}

void* CommandQueue::allocate(std::size_t size, std::size_t align) {
    for (;; ++chunk_, used_ = 0) {
        if (chunk_ == chunks_.size()) {
            const std::size_t bytes = std::max(std::size_t{16 * 1024}, size + align);
            chunks_.push_back({static_cast<std::byte*>(::operator new(bytes)), bytes});
        }
        const Chunk& chunk = chunks_[chunk_];
        const auto base = reinterpret_cast<std::uintptr_t>(chunk.data);
        const std::size_t start = ((base + used_ + align - 1) & ~(align - 1)) - base;
        if (start + size > chunk.size) continue;
        used_ = start + size;
        return chunk.data + start;
    }
}

}  // namespace shoal::ecs::impl
