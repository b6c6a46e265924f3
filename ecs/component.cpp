#include "component.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>

namespace shoal::ecs::all {

void ComponentType::construct(void* to, void* from) const {
    if (move == nullptr) {
        std::memcpy(to, from, size);
    } else {
        move(to, from);
    }
}

void ComponentType::construct_copy(void* to, const void* from) const {
    if (copy == nullptr) {
        std::memcpy(to, from, size);
    } else {
        copy(to, from);
    }
}

void ComponentType::overwrite(void* to, void* from) const {
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

AddressMap::AddressMap() : entries_(16), mask_(15) {}

std::uint32_t AddressMap::find(const void* address, std::uint32_t hash) const {
    for (std::uint32_t i = hash;; ++i) {
        const Entry& entry = entries_[i & mask_];
        if (entry.address == address) return entry.number;
        if (entry.address == nullptr) return kAbsent;
    }
}

void AddressMap::insert(const void* address, std::uint32_t hash, std::uint32_t number) {
    assert(address != nullptr);
    assert(find(address, hash) == kAbsent);
    if ((count_ + 1) * 2 > entries_.size()) {
        std::vector<Entry> old(entries_.size() * 2);
        old.swap(entries_);
        mask_ = static_cast<std::uint32_t>(entries_.size() - 1);
        count_ = 0;
        for (const Entry& entry : old)
            if (entry.address != nullptr) insert(entry.address, entry.hash, entry.number);
    }
    std::uint32_t i = hash & mask_;
    while (entries_[i].address != nullptr) i = (i + 1) & mask_;
    entries_[i] = {address, hash, number};
    ++count_;
}

void AddressMap::insert_all(const AddressMap& other) {
    for (const Entry& entry : other.entries_)
        if (entry.address != nullptr && find(entry.address, entry.hash) == kAbsent)
            insert(entry.address, entry.hash, entry.number);
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
        if (ours.name != theirs.name || ours.size != theirs.size || ours.align != theirs.align ||
            ours.relation != theirs.relation)
            return false;
    }
    const std::uint32_t known = size();
    for (std::uint32_t i = known; i < other.size(); ++i) add(*other.types_[i]);
    for (const Named& named : other.named_)
        if (named.id.value >= known) named_.push_back(named);
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
        if (tag.is_shared) named_.push_back({&tag, id});
    }
    KnownComponent& component = *types_[id.value];
    if (ids_.find(&tag, tag.hash) != AddressMap::kAbsent) return component;
    ids_.insert(&tag, tag.hash, id.value);
    CacheEntry& place = cache_[tag.hash % kCacheSize];
    if (place.tag == nullptr) place = {&tag, &component};
    return component;
}

const KnownComponent& ComponentTable::find_slow(const TypeTag& tag) const {
    const ComponentId id{ids_.find(&tag, tag.hash)};
    return (*this)[id ? id : find_by_name(tag)];
}

ComponentId ComponentTable::find_by_name(const TypeTag& tag) const {
    if (!tag.is_shared) return {};
    for (const Named& named : named_) {
        // A library has only one tag of each type, so a second tag of the same name in the same library
        // belongs to another type.
        if (named.tag->name != tag.name || named.tag->library == tag.library) continue;
        // If two libraries define a type differently, each definition gets a component of its own.
        if (named.tag->size == tag.size && named.tag->align == tag.align) return named.id;
    }
    return {};
}

}  // namespace shoal::ecs::all
