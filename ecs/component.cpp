#include "component.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>

namespace shoal::ecs::impl {

void ComponentType::construct(void* to, void* from) const noexcept {
    move == nullptr ? void(std::memcpy(to, from, size)) : move(to, from);
}

void ComponentType::construct_copy(void* to, const void* from) const noexcept {
    copy == nullptr ? void(std::memcpy(to, from, size)) : copy(to, from);
}

void ComponentType::overwrite(void* to, void* from) const noexcept {
    if (to == from) return;
    if (destroy != nullptr) destroy(to);
    construct(to, from);
}

void KnownComponent::set_column(std::uint32_t archetype, Column* column) {
    if (archetype >= columns.size()) {
        columns.resize(archetype + std::size_t{1});
        column_count = static_cast<std::uint32_t>(columns.size());
    }
    columns[archetype] = column;
}

std::uint32_t KeyMap::find(std::uint64_t key) const {
    for (std::uint64_t i = key;; ++i) {
        const Entry& entry = entries_[static_cast<std::size_t>(i & mask_)];
        if (entry.key == key) return entry.number;
        if (entry.key == 0) return kAbsent;
    }
}

void KeyMap::insert(std::uint64_t key, std::uint32_t number) {
    assert(key != 0);
    assert(find(key) == kAbsent);
    if ((count_ + 1) * 2 > entries_.size()) {
        std::vector<Entry> old(entries_.size() * 2);
        old.swap(entries_);
        mask_ = entries_.size() - 1;
        count_ = 0;
        for (const Entry& entry : old)
            if (entry.key != 0) insert(entry.key, entry.number);
    }
    std::uint64_t i = key & mask_;
    while (entries_[static_cast<std::size_t>(i)].key != 0) i = (i + 1) & mask_;
    entries_[static_cast<std::size_t>(i)] = {key, number};
    ++count_;
}

void KeyMap::insert_all(const KeyMap& other) {
    for (const Entry& entry : other.entries_)
        if (entry.key != 0 && find(entry.key) == kAbsent) insert(entry.key, entry.number);
}

/// Owns the string that `name` refers to.
struct ComponentTable::Kept : KnownComponent {
    std::string own_name;
};

ComponentTable::~ComponentTable() {
    for (KnownComponent* type : types_) delete static_cast<Kept*>(type);
}

ComponentId ComponentTable::add(const ComponentType& type) {
    assert(std::has_single_bit(type.align));
    assert(type.size % type.align == 0);
    assert(type.move != nullptr || type.destroy == nullptr);
    auto* owner = new Kept;
    static_cast<ComponentType&>(*owner) = type;
    owner->own_name = type.name;
    owner->name = owner->own_name;
    owner->id = {size()};
    types_.push_back(owner);
    // Without asserts an invalid type is made harmless. Its alignment is lowered to a power of two that
    // divides the size. Without a `move`, its `destroy` is not called, and values may leak.
    ComponentType& kept = *owner;
    kept.align = std::bit_floor(std::max(kept.align, 1u));
    while (kept.size % kept.align != 0) kept.align /= 2;
    if (kept.move == nullptr) kept.destroy = nullptr;
    return owner->id;
}

bool ComponentTable::register_as(const ComponentTable& other) {
    for (std::uint32_t i = 0; i < (std::min)(size(), other.size()); ++i) {
        const ComponentType &ours = *types_[i], &theirs = *other.types_[i];
        // `copy` may differ: see copyable().
        if (ours.name != theirs.name || ours.size != theirs.size || ours.align != theirs.align ||
            ours.relation != theirs.relation || !ours.move != !theirs.move ||
            !ours.destroy != !theirs.destroy)
            return false;
    }
    for (std::uint32_t i = size(); i < other.size(); ++i) add(*other.types_[i]);
    ids_.insert_all(other.ids_);
    return true;
}

void ComponentTable::shrink(std::uint32_t archetypes) {
    for (KnownComponent* type : types_) {
        type->columns.resize((std::min)(type->columns.size(), std::size_t{archetypes}));
        type->columns.shrink_to_fit();
        type->column_count = static_cast<std::uint32_t>(type->columns.size());
    }
}

KnownComponent& ComponentTable::known_slow(const TypeTag& tag) {
    ComponentId id = find_slow(tag).id;
    if (!id) {
        id = add(ComponentType{tag.name, tag.size, tag.align, tag.move, tag.destroy, nullptr, tag.relation});
        ids_.insert(tag.key(), id.value);
    }
    KnownComponent& component = *types_[id.value];
    assert(component.name == tag.name && component.size == tag.size);  // else two types have one hash
    CacheEntry& place = cache_[tag.hash % kCacheSize];
    if (place.component == nullptr) place = {tag.key(), &component};
    return component;
}

const KnownComponent& ComponentTable::find_slow(const TypeTag& tag) const {
    return (*this)[ComponentId{ids_.find(tag.key())}];
}

}  // namespace shoal::ecs::impl
