#include "archetype.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace shoal::ecs::impl {
namespace {

constexpr std::uint32_t kFirstCapacity = 8;

/// By which the pairs of an archetype are sorted.
constexpr auto key_of = [](const Archetype::Pair& pair) { return std::pair(pair.relation, pair.target); };

std::uint64_t hash_of(std::span<const ComponentId> components) {
    std::uint64_t hash = components.size();
    for (const ComponentId id : components) {
        hash = (hash ^ id.value) * 0x9E37'79B9'7F4A'7C15;
        hash ^= hash >> 32;
    }
    return hash;
}

std::size_t block_count(std::uint32_t rows) {
    return std::size_t{rows / kBlockRows} + (rows % kBlockRows != 0);
}

// Plain values up to this size are small: they are copied without a function call.
constexpr std::uint32_t kSmallBytes = 64;

template <std::size_t size>
inline void copy(std::byte* to, const std::byte* from) {
    struct {
        std::byte bytes[size];
    } value;
    std::memcpy(&value, from, size);
    std::memcpy(to, &value, size);
}

inline void copy_pieces(std::byte* to, const std::byte* from, std::size_t size) {
    for (; size >= 16; size -= 16, to += 16, from += 16) copy<16>(to, from);
    for (; size >= 4; size -= 4, to += 4, from += 4) copy<4>(to, from);
    for (; size != 0; --size) *to++ = *from++;
}

template <std::size_t size>
inline void shift(std::byte* to, std::byte* gap, const std::byte* filler) {
    copy<size>(to, gap);
    copy<size>(gap, filler);
}

/// Copies a small value from `gap` to `to`, and another one from `filler` to `gap`. No byte is copied twice:
/// to load bytes that overlapping stores have just written is slow.
inline void shift_value(std::byte* to, std::byte* gap, const std::byte* filler, std::size_t size) {
    switch (size) {
        case 4:
            return shift<4>(to, gap, filler);
        case 8:
            return shift<8>(to, gap, filler);
        case 12:
            shift<8>(to, gap, filler);
            return shift<4>(to + 8, gap + 8, filler + 8);
        case 16:
            return shift<16>(to, gap, filler);
        default:
            copy_pieces(to, gap, size);
            copy_pieces(gap, filler, size);
    }
}

inline void copy_small(std::byte* to, const std::byte* from, std::size_t size) {
    switch (size) {
        case 4:
            return copy<4>(to, from);
        case 8:
            return copy<8>(to, from);
        case 12:
            copy<8>(to, from);
            return copy<4>(to + 8, from + 8);
        case 16:
            return copy<16>(to, from);
        default:
            copy_pieces(to, from, size);
    }
}

}  // namespace

/// Move-constructs a value at `to`, and destroys the one at `from`.
inline void Column::relocate_value(std::byte* from, std::byte* to) const {
    if (!is_plain_) return relocate_by_type(from, to);
    if (size_ <= kSmallBytes) return copy_small(to, from, size_);
    std::memcpy(to, from, size_);
}

void Column::relocate_by_type(std::byte* from, std::byte* to) const noexcept {
    type_->move(to, from);
    if (type_->destroy != nullptr) type_->destroy(from);
}

/// For a row that gets the last row's value: raises its block's stamp to at least the last block's stamp.
inline void Column::raise_stamp(std::uint32_t last, std::uint32_t row) {
    const std::uint64_t stamp = stamps_[last / kBlockRows];
    if (stamp > stamps_[row / kBlockRows]) stamps_[row / kBlockRows] = stamp;
}

/// Moves the last value to an empty row.
inline void Column::close_gap(std::uint32_t last, std::uint32_t row) {
    raise_stamp(last, row);
    relocate_value(data_ + offset(last), data_ + offset(row));
}

/// Copies a small value from `row` to `to`, and the last value to `row`.
inline void Column::shift_small(std::uint32_t row, std::uint32_t last, std::byte* to) {
    raise_stamp(last, row);
    std::byte* const gap = data_ + offset(row);
    shift_value(to, gap, data_ + offset(last), size_);
}

/// As close_gap(), for a small value.
inline void Column::close_gap_small(std::uint32_t last, std::uint32_t row) {
    raise_stamp(last, row);
    copy_small(data_ + offset(row), data_ + offset(last), size_);
}

inline void Column::destroy(std::uint32_t row) {
    if (!is_plain_ && type_->destroy != nullptr) type_->destroy(at(row));
}

void Column::reallocate(std::uint32_t rows, std::uint32_t old_capacity, std::uint32_t capacity) {
    constexpr std::size_t kStamp = sizeof(std::uint64_t);
    const std::size_t stamps_at = (offset(capacity) + kStamp - 1) / kStamp * kStamp;
    const std::align_val_t align{std::max<std::size_t>(type_->align, kStamp)};
    auto* memory = static_cast<std::byte*>(::operator new(stamps_at + block_count(capacity) * kStamp, align));
    if (is_plain_ && rows != 0 && size_ != 0) std::memcpy(memory, data_, offset(rows));
    for (std::uint32_t row = 0; !is_plain_ && row < rows; ++row)
        relocate_value(data_ + offset(row), memory + offset(row));
    auto* stamps = reinterpret_cast<std::uint64_t*>(memory + stamps_at);
    const std::size_t kept = block_count(std::min(old_capacity, capacity));
    std::uninitialized_fill_n(std::uninitialized_copy_n(stamps_, kept, stamps), block_count(capacity) - kept,
                              std::uint64_t{0});
    free();
    data_ = size_ != 0 ? memory : nullptr;
    stamps_ = stamps;
}

void Column::free() {
    void* const memory = data_ != nullptr ? static_cast<void*>(data_) : stamps_;
    const std::align_val_t align{std::max<std::size_t>(type_->align, sizeof(std::uint64_t))};
    if (memory != nullptr) ::operator delete(memory, align);
}

Archetype::Archetype(std::uint32_t index, std::span<const ComponentId> components, ComponentTable& table)
    : index_(index), components_(components.begin(), components.end()) {
    assert(std::is_sorted(components_.begin(), components_.end()));
    columns_.resize(components_.size());
    for (std::uint32_t i = 0; i < columns_.size(); ++i) {
        const ComponentId id = components_[i];
        columns_[i].id_ = id;
        columns_[i].type_ = &table[id];
        columns_[i].size_ = columns_[i].type_->size;
        columns_[i].is_plain_ = columns_[i].type_->move == nullptr || columns_[i].size_ == 0;
        is_small_ &= columns_[i].is_plain_ && columns_[i].size_ <= kSmallBytes;
        if (const PairTable::Pair* pair = table.pairs().find(id)) {
            columns_[i].target_ = pair->target;
            pairs_.push_back({pair->relation, pair->target, i});
        }
    }
    std::ranges::sort(pairs_, {}, key_of);
}

Archetype::~Archetype() {
    for (Column& column : columns_) {
        for (std::uint32_t row = 0; !column.is_plain_ && row < size(); ++row) column.destroy(row);
        column.free();
    }
    ::operator delete(entities_);
}

/// Removes the last entity from entities(). If `row` is another row, stores this entity there and returns it;
/// else returns null. The caller moves the values.
inline Entity Archetype::close_gap(std::uint32_t row) {
    const std::uint32_t last = --size_;
    if (row == last) return {};
    const std::uint64_t arrival = arrivals_[last / kBlockRows];
    if (arrival > arrivals_[row / kBlockRows]) arrivals_[row / kBlockRows] = arrival;
    return entities_[row] = entities_[last];
}

Entity Archetype::remove(std::uint32_t row) {
    assert(row < size());
    if (is_small_) {
        const Entity moved = close_gap(row);
        if (moved)
            for (Column& column : columns_) column.close_gap_small(size_, row);
        return moved;
    }
    const std::uint32_t last = size_ - 1;
    for (Column& column : columns_) {
        column.destroy(row);
        if (row != last) column.close_gap(last, row);
    }
    return close_gap(row);
}

Entity Archetype::move(Entity entity, std::uint32_t row, Archetype& to, std::uint64_t tick) {
    assert(row < size() && entities_[row] == entity);
    assert(this != &to);
    const std::uint32_t to_row = to.append(entity, tick);
    const std::uint32_t last = size_ - 1;
    Column* there = to.columns_.data();
    const Column* const end = there + to.columns_.size();
    for (Column& column : columns_) {  // the columns of both archetypes are sorted: one pass
        while (there != end && there->id_ < column.id_) ++there;
        if (there != end && there->id_ == column.id_) {
            column.relocate_value(column.data_ + column.offset(row), there->data_ + column.offset(to_row));
            ++there;
        } else {
            column.destroy(row);
        }
        if (row != last) column.close_gap(last, row);
    }
    return close_gap(row);
}

/// Moves the row from step.without to step.with or back. One pass over the columns that both archetypes have
/// moves the row and, if it was not the last one, fills the gap.
template <bool is_added>
inline void Archetype::move_small(const ArchetypeStep& step, Entity entity, std::uint32_t row,
                                  const void* value, std::uint64_t tick, EntityTable& places) {
    Archetype& from = is_added ? *step.without : *step.with;
    Archetype& to = is_added ? *step.with : *step.without;
    assert(row < from.size() && from.entities_[row] == entity);
    assert(step.with->is_small_ && step.without->is_small_);
    const std::uint32_t to_row = to.append(entity, tick);
    places.move_to(entity, {to.index_, to_row});
    Column* const single = step.column;
    if (is_added)
        copy_small(single->data_ + single->offset(to_row), static_cast<const std::byte*>(value),
                   single->size_);
    const auto for_each_shared = [&](auto move_value) {
        Column* with = step.with->columns_.data();
        for (Column& without : step.without->columns_) {
            if (with == single) ++with;
            assert(with->id_ == without.id_);
            Column& source = is_added ? without : *with;
            Column& target = is_added ? *with : without;
            move_value(source, target.data_ + source.offset(to_row));
            ++with;
        }
    };
    const std::uint32_t last = from.size_ - 1;
    if (const Entity moved = from.close_gap(row)) {
        places.move_to(moved, row);
        if (!is_added) single->close_gap_small(last, row);
        for_each_shared(
            [&](Column& source, std::byte* to_value) { source.shift_small(row, last, to_value); });
    } else {
        for_each_shared([&](Column& source, std::byte* to_value) {
            copy_small(to_value, source.data_ + source.offset(row), source.size_);
        });
    }
}

void Archetype::add_small(const ArchetypeStep& step, Entity entity, std::uint32_t row, const void* value,
                          std::uint64_t tick, EntityTable& places) {
    move_small<true>(step, entity, row, value, tick, places);
}

void Archetype::remove_small(const ArchetypeStep& step, Entity entity, std::uint32_t row, std::uint64_t tick,
                             EntityTable& places) {
    move_small<false>(step, entity, row, nullptr, tick, places);
}

Archetype::Edge& Archetype::find_edge(ComponentId id) {
    const auto at = std::ranges::lower_bound(edges_, id, {}, &Edge::id);
    last_edge_ = static_cast<std::size_t>(at - edges_.begin());
    if (at == edges_.end() || at->id != id) edges_.insert(at, Edge{id});
    return edges_[last_edge_];
}

void Archetype::cut_edges() {
    const auto forget = [](Archetype& other, ComponentId id, Archetype* Edge::*end) {
        const auto at = std::ranges::lower_bound(other.edges_, id, {}, &Edge::id);
        (*at).*end = nullptr;
        if (at->with == nullptr && at->without == nullptr) other.edges_.erase(at);
    };
    for (const Edge& edge : edges_) {
        if (edge.with != nullptr) forget(*edge.with, edge.id, &Edge::without);
        if (edge.without != nullptr) forget(*edge.without, edge.id, &Edge::with);
    }
    edges_.clear();
}

std::span<const Archetype::Pair> Archetype::pairs(ComponentId relation) const {
    if (pairs_.empty()) return {};
    return {std::ranges::lower_bound(pairs_, relation, {}, &Pair::relation),
            std::ranges::upper_bound(pairs_, relation, {}, &Pair::relation)};
}

Archetype::Pair& Archetype::pair(ComponentId relation, Entity target) {
    const auto at = std::ranges::lower_bound(pairs_, std::pair(relation, target), {}, key_of);
    assert(at != pairs_.end() && at->relation == relation && at->target == target);
    return *at;
}

const Column* Archetype::find(ComponentId id) const {
    const auto at = std::lower_bound(components_.begin(), components_.end(), id);
    if (at == components_.end() || *at != id) return nullptr;
    return &columns_[static_cast<std::size_t>(at - components_.begin())];
}

/// Grows to at least `rows` rows, and to at least twice the capacity.
void Archetype::grow(std::uint32_t rows) {
    reallocate(std::max({rows, capacity_ * 2, kFirstCapacity}));
}

void Archetype::shrink() {
    const std::uint32_t capacity = std::max(size_, kFirstCapacity);
    if (capacity < capacity_) reallocate(capacity);
}

void Archetype::reallocate(std::uint32_t capacity) {
    for (Column& column : columns_) column.reallocate(size(), capacity_, capacity);
    const std::size_t blocks = block_count(capacity);
    auto* entities =
        static_cast<Entity*>(::operator new(capacity * sizeof(Entity) + blocks * sizeof(std::uint64_t)));
    auto* arrivals = reinterpret_cast<std::uint64_t*>(entities + capacity);
    std::uninitialized_copy_n(entities_, size_, entities);
    std::uninitialized_fill(
        std::uninitialized_copy_n(arrivals_, block_count(std::min(capacity_, capacity)), arrivals),
        arrivals + blocks, std::uint64_t{0});
    ::operator delete(std::exchange(entities_, entities));
    arrivals_ = arrivals;
    capacity_ = capacity;
}

Archetype* ArchetypeList::find(std::span<const ComponentId> components) const {
    if (buckets_.empty()) return nullptr;
    const std::uint64_t hash = hash_of(components);
    for (Archetype* at = buckets_[bucket_of(hash)]; at != nullptr; at = at->next_)
        if (at->hash_ == hash &&
            std::equal(components.begin(), components.end(), at->components_.begin(), at->components_.end()))
            return at;
    return nullptr;
}

Archetype& ArchetypeList::add(std::span<const ComponentId> components, ComponentTable& table) {
    assert(find(components) == nullptr);
    if (size_ >= buckets_.size()) rehash(std::max<std::size_t>(16, buckets_.size() * 2));
    auto index = static_cast<std::uint32_t>(slots_.size());
    if (free_slots_.empty()) {
        slots_.push_back(nullptr);
    } else {
        index = free_slots_.back();
        free_slots_.pop_back();
    }
    auto* archetype = new Archetype(index, components, table);
    slots_[index] = archetype;
    for (Column& column : archetype->columns_)
        if (!column.id_.is_pair()) column.type_->set_column(index, &column);
    archetype->serial_ = ++last_serial_;
    archetype->hash_ = hash_of(components);
    Archetype*& bucket = buckets_[bucket_of(archetype->hash_)];
    archetype->next_ = std::exchange(bucket, archetype);
    archetype->older_ = newest_;
    if (newest_ != nullptr) newest_->newer_ = archetype;
    newest_ = archetype;
    ++size_;
    return *archetype;
}

void ArchetypeList::forget_columns(Archetype& archetype) {
    for (Column& column : archetype.columns_)
        if (!column.id_.is_pair()) column.type_->set_column(archetype.index(), nullptr);
}

void ArchetypeList::free(Archetype& archetype) {
    assert(archetype.size() == 0);
    archetype.cut_edges();
    forget_columns(archetype);
    Archetype** link = &buckets_[bucket_of(archetype.hash_)];
    while (*link != &archetype) link = &(*link)->next_;
    *link = archetype.next_;
    if (archetype.older_ != nullptr) archetype.older_->newer_ = archetype.newer_;
    (archetype.newer_ != nullptr ? archetype.newer_->older_ : newest_) = archetype.older_;
    slots_[archetype.index()] = nullptr;
    free_slots_.push_back(archetype.index());
    --size_;
    ++free_count_;
    delete &archetype;
}

void ArchetypeList::clear() {
    std::vector<Archetype*> doomed;
    doomed.swap(slots_);
    free_slots_.clear();
    buckets_.clear();
    size_ = 0;
    newest_ = nullptr;
    ++free_count_;
    for (Archetype* archetype : doomed)
        if (archetype != nullptr) forget_columns(*archetype);
    for (Archetype* archetype : doomed) delete archetype;
}

void ArchetypeList::shrink() {
    while (slots_.back() == nullptr) slots_.pop_back();
    slots_.shrink_to_fit();
    std::erase_if(free_slots_, [&](std::uint32_t slot) { return slot >= slots_.size(); });
    free_slots_.shrink_to_fit();
    rehash(std::bit_ceil(std::max(16u, size_ + 1)));
    for (Archetype* archetype : slots_)
        if (archetype != nullptr) archetype->shrink();
}

void ArchetypeList::rehash(std::size_t buckets) {
    std::vector<Archetype*>(buckets).swap(buckets_);
    for (Archetype* archetype : slots_) {
        if (archetype == nullptr) continue;
        Archetype*& bucket = buckets_[bucket_of(archetype->hash_)];
        archetype->next_ = std::exchange(bucket, archetype);
    }
}

}  // namespace shoal::ecs::impl
