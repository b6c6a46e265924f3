#pragma once
// Structural changes by hand, next to which the ecs bench measures those of a world: find the row, copy its
// values to another table, fill the gap with the last row, and nothing else.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "tests/bench/ecs_values.h"

namespace ecs_bench {

/// Values and ids in arrays that grow together, by doubling. A table without extras has no such array.
class HandWrittenTable {
public:
    explicit HandWrittenTable(bool has_extras) : has_extras_(has_extras) {}

    std::uint32_t size() const { return size_; }
    Entity entity(std::uint32_t row) const { return entities_[row]; }
    void set_extra(std::uint32_t row, Extra extra) { extras_[row] = extra; }

    std::uint32_t append(Entity entity, const Position& position, const Velocity& velocity) {
        if (size_ == capacity_) grow();
        entities_[size_] = entity;
        positions_[size_] = position;
        velocities_[size_] = velocity;
        return size_++;
    }
    std::uint32_t append_copy(const HandWrittenTable& from, std::uint32_t row) {
        return append(from.entities_[row], from.positions_[row], from.velocities_[row]);
    }

    /// Returns whether another row is at `row` now.
    bool remove(std::uint32_t row) {
        const std::uint32_t last = --size_;
        if (row == last) return false;
        entities_[row] = entities_[last];
        positions_[row] = positions_[last];
        velocities_[row] = velocities_[last];
        if (has_extras_) extras_[row] = extras_[last];
        return true;
    }

private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    template <class T>
    using Array = std::unique_ptr<T[], Free>;  // values that nobody set yet cost nothing

    template <class T>
    void grow(Array<T>& values, std::uint32_t capacity) {
        Array<T> wider(static_cast<T*>(std::malloc(capacity * sizeof(T))));
        std::copy_n(values.get(), size_, wider.get());
        values = std::move(wider);
    }
    void grow() {
        const std::uint32_t capacity = std::max(8u, capacity_ * 2);
        grow(entities_, capacity);
        grow(positions_, capacity);
        grow(velocities_, capacity);
        if (has_extras_) grow(extras_, capacity);
        capacity_ = capacity;
    }

    bool has_extras_;
    std::uint32_t size_ = 0;
    std::uint32_t capacity_ = 0;
    Array<Entity> entities_;
    Array<Position> positions_;
    Array<Velocity> velocities_;
    Array<Extra> extras_;
};

/// Entities with a Position and a Velocity, some with an Extra too. Stale handles change nothing.
class HandWrittenRows {
public:
    Entity spawn(const Position& position, const Velocity& velocity) {
        const Entity entity{static_cast<std::uint32_t>(slots_.size()), 1};
        slots_.push_back({kPlain, plain_.append(entity, position, velocity), 1});
        return entity;
    }

    void add(Entity entity, Extra extra) {
        Slot& slot = slots_[entity.index];
        if (slot.generation != entity.generation || slot.table != kPlain) return;
        const std::uint32_t row = extended_.append_copy(plain_, slot.row);
        extended_.set_extra(row, extra);
        remove_row(plain_, slot.row);
        slot = {kExtended, row, entity.generation};
    }

    void remove(Entity entity) {
        Slot& slot = slots_[entity.index];
        if (slot.generation != entity.generation || slot.table != kExtended) return;
        const std::uint32_t row = plain_.append_copy(extended_, slot.row);
        remove_row(extended_, slot.row);
        slot = {kPlain, row, entity.generation};
    }

    void destroy(Entity entity) {
        Slot& slot = slots_[entity.index];
        if (slot.generation != entity.generation) return;
        remove_row(slot.table == kPlain ? plain_ : extended_, slot.row);
        slot = {kFree, first_free_, entity.generation + 1};
        first_free_ = entity.index;
    }

    std::uint32_t plain_count() const { return plain_.size(); }
    std::uint32_t extended_count() const { return extended_.size(); }

private:
    enum : std::uint32_t { kPlain, kExtended, kFree };
    struct Slot {
        std::uint32_t table;
        std::uint32_t row;  // the next free slot in one that is free
        std::uint32_t generation;
    };

    void remove_row(HandWrittenTable& table, std::uint32_t row) {
        if (table.remove(row)) slots_[table.entity(row).index].row = row;
    }

    std::vector<Slot> slots_;
    std::uint32_t first_free_ = 0xFFFF'FFFF;
    HandWrittenTable plain_{false};
    HandWrittenTable extended_{true};
};

inline Entities fill(HandWrittenRows& rows) {
    Entities entities = room(kMany);
    for (std::uint32_t i = 0; i < kMany; ++i) entities.push_back(rows.spawn(position(i), velocity(i)));
    return entities;
}

inline void add_extras(HandWrittenRows& rows, const Entities& entities) {
    for (const Entity entity : entities) rows.add(entity, Extra{1});
    require(rows.extended_count() == entities.size(), "rows moved by hand");
}

inline void remove_extras(HandWrittenRows& rows, const Entities& entities) {
    for (const Entity entity : entities) rows.remove(entity);
    require(rows.plain_count() == entities.size(), "rows moved back by hand");
}

inline double c1_raw() {
    HandWrittenRows rows;
    const Entities entities = fill(rows);
    return timed(kMany, [&] { add_extras(rows, entities); });
}

inline double c2_raw() {
    HandWrittenRows rows;
    const Entities entities = fill(rows);
    add_extras(rows, entities);
    return timed(kMany, [&] { remove_extras(rows, entities); });
}

inline double add_and_remove_raw(HandWrittenRows& rows, const Entities& entities) {
    return timed(kMany, [&] {
        add_extras(rows, entities);
        remove_extras(rows, entities);
    });
}

inline double c6_raw() {
    HandWrittenRows rows;
    return add_and_remove_raw(rows, shuffled(fill(rows)));
}

inline double f6_raw() {
    HandWrittenRows rows;
    return add_and_remove_raw(rows, fill(rows));
}

inline double e2_raw() {
    HandWrittenRows rows;
    const Entities entities = shuffled(fill(rows));
    const double ns = timed(kMany, [&] {
        for (const Entity entity : entities) rows.destroy(entity);
    });
    require(rows.plain_count() == 0, "rows destroyed by hand");
    return ns;
}

}  // namespace ecs_bench
