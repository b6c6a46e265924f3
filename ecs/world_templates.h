#pragma once
// The ranges and the write access that functions of the world return, and the bodies of its templates.
// Included by world.h.

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "world.h"

namespace shoal::ecs::impl {

/// Result of World::targets().
template <Relation R>
class [[nodiscard]] TargetRange : public Targets<R> {
private:
    friend class World;

    TargetRange(const World& world, Targets<R> targets) : Targets<R>(targets), deferral_(world) {}

    World::Deferral deferral_;
};

/// The entities that have a pair: rows of one or several archetypes.
class [[nodiscard]] Sources {
public:
    class Iterator {
    public:
        using value_type = Entity;
        using difference_type = std::ptrdiff_t;

        Entity operator*() const { return (*at_)->entities()[row_]; }
        Iterator& operator++() {
            ++row_;
            skip();
            return *this;
        }
        Iterator operator++(int) {
            const Iterator before = *this;
            ++*this;
            return before;
        }
        bool operator==(const Iterator& other) const { return at_ == other.at_ && row_ == other.row_; }

    private:
        friend class Sources;

        using Archetypes = std::span<Archetype* const>;
        Iterator(Archetypes::iterator at, Archetypes::iterator end) : at_(at), end_(end) { skip(); }
        void skip() {
            for (; at_ != end_ && (*at_ == nullptr || row_ == (*at_)->size()); ++at_) row_ = 0;
        }

        Archetypes::iterator at_, end_;
        std::uint32_t row_ = 0;
    };

    Iterator begin() const { return {archetypes_.begin(), archetypes_.end()}; }
    Iterator end() const { return {archetypes_.end(), archetypes_.end()}; }
    bool empty() const { return begin() == end(); }

    std::uint32_t size() const {
        std::uint32_t count = 0;
        for (const Archetype* archetype : archetypes_) count += archetype != nullptr ? archetype->size() : 0;
        return count;
    }

private:
    friend class World;

    Sources(const World& world, Iterator::Archetypes archetypes)
        : deferral_(world), archetypes_(archetypes) {}

    World::Deferral deferral_;
    Iterator::Archetypes archetypes_;
};

/// Result of World::mut().
template <class T>
class WorldMut : public Mut<T> {
public:
    using Mut<T>::operator=;

    /// Returns whether there is a value; false only for a result of try_mut().
    explicit operator bool() const { return Mut<T>::has_value(); }

    ~WorldMut() {
        if (written_ != 0 && column_ != nullptr)
            deferral_.world().wrote(entity_, *column_, row_, column_->at(row_));
    }

private:
    friend class World;

    WorldMut(World& world, T* value, Entity entity, Column* column, std::uint32_t row)
        : Mut<T>(value, written_, 1), deferral_(world), entity_(entity), column_(column), row_(row) {}

    std::uint64_t written_ = 0;
    World::Deferral deferral_;  // destroyed after ~WorldMut() has called the hooks
    Entity entity_;
    Column* column_;  // null if the value is queued, or is going to be removed
    std::uint32_t row_;
};

/// Calls `fn` at the end of the scope, also if a function of the game throws in the scope.
template <class Fn>
struct AtEnd {
    Fn fn;
    ~AtEnd() { fn(); }
};
template <class Fn>
AtEnd(Fn) -> AtEnd<Fn>;

template <class T, class... Rest>
constexpr bool are_distinct() {
    if constexpr (sizeof...(Rest) == 0) {
        return true;
    } else {
        return !(std::is_same_v<T, Rest> || ...) && are_distinct<Rest...>();
    }
}

template <ComponentValue... Ts>
Entity World::spawn(Ts&&... values) {
    if constexpr (sizeof...(Ts) == 0) {
        return spawn_bare();
    } else {
        static_assert(are_distinct<std::remove_cvref_t<Ts>...>(), "one value per component");
        // Copies the arguments first: one may be a component in the world, which moves when its column grows.
        return spawn_owned(std::remove_cvref_t<Ts>(std::forward<Ts>(values))...);
    }
}

template <class... Ts>
Archetype& World::archetype_of() {
    std::uint64_t key = 0;
    ((key = hash_step(key, type_tag<Ts>.key())), ...);
    if (Archetype* const known = archetypes_.find_pack(key)) return *known;
    const TypeTag* const tags[] = {&type_tag<Ts>...};
    return archetypes_.of(tags, key);
}

template <class... Ts>
Entity World::spawn_owned(Ts&&... values) {
    const Entity entity = entities_.take();
    if (locks_ != 0) {
        const ComponentId ids[] = {component<Ts>()...};
        void* const pointers[] = {&values...};
        commands_.push(CommandQueue::Kind::spawn, entity, ids, pointers);
        return entity;
    }
    const Deferral deferral(*this);
    Archetype& archetype = archetype_of<Ts...>();
    const std::uint32_t row = append_row(entity, archetype, std::move(values)...);
    mutator_.complete_spawn(archetype, row, 1);
    return entity;
}

template <class... Ts>
std::uint32_t World::append_row(Entity entity, Archetype& archetype, Ts&&... values) {
    const std::uint32_t row = mutator_.append(entity, archetype, tick_);
    const auto construct = [&]<class T>(T& value) noexcept {
        if constexpr (Value<T>) {
            Column* const column = components_.known(type_tag<T>).column(archetype.index());
            ::new (&column->template value<T>(row)) T(std::move(value));
        }
    };
    (construct(values), ...);
    return row;
}

/// For each entity, calls make(index, place). `make` must call place(values...) once, with the entity's
/// values.
template <class... Ts, class Make>
std::vector<Entity> World::spawn_many(std::uint32_t count, Make make) {
    std::vector<Entity> entities;
    entities.reserve(count);
    if (locks_ != 0) {
        for (std::uint32_t i = 0; i < count; ++i)
            make(i, [&](Ts&&... values) { entities.push_back(spawn_owned(std::move(values)...)); });
        return entities;
    }
    const Deferral deferral(*this);
    Archetype& archetype = archetype_of<Ts...>();
    const std::uint32_t first = archetype.size();
    archetype.reserve(first + count);
    entities_.reserve(count);
    Column* const columns[] = {archetype.find(component<Ts>())...};
    const auto construct = []<class T>(void* at, T& value) noexcept {
        if constexpr (Value<T>) ::new (at) T(std::move(value));
    };
    const AtEnd complete{[&] { mutator_.complete_spawn(archetype, first, archetype.size() - first); }};
    for (std::uint32_t i = 0; i < count; ++i)
        make(i, [&](Ts&&... values) {
            entities.push_back(entities_.take());
            const std::uint32_t row = mutator_.append(entities.back(), archetype, tick_);
            std::size_t column = 0;
            (construct(columns[column++]->at(row), values), ...);
        });
    return entities;
}

template <CopyableComponent... Ts>
std::vector<Entity> World::spawn_n(std::uint32_t count, const Ts&... values) {
    if constexpr (sizeof...(Ts) == 0) {
        std::vector<Entity> entities(count);
        for (Entity& entity : entities) entity = spawn_bare();
        return entities;
    } else {
        static_assert(are_distinct<Ts...>(), "one value per component");
        // Copies the values first, as spawn() does.
        return spawn_many<Ts...>(
            count, [... copies = Ts(values)](std::uint32_t, auto&& place) { place(Ts(copies)...); });
    }
}

template <Component... Ts, std::invocable<std::uint32_t, Ts&...> Fn>
std::vector<Entity> World::spawn_n(std::uint32_t count, Fn fn) {
    static_assert(are_distinct<Ts...>(), "one value per component");
    return spawn_many<Ts...>(count, [&](std::uint32_t i, auto&& place) {
        [&](Ts&&... values) {
            fn(i, values...);
            place(std::move(values)...);
        }(Ts{}...);
    });
}

template <Relation R>
TargetRange<R> World::targets(Entity source) const {
    const auto pairs = pairs_of(source, components_.find(type_tag<R>));
    if (pairs.empty()) return {*this, {}};
    const EntityTable::Place place = *entities_.find(source);
    return {*this, Targets<R>{pairs, archetypes_[place.archetype], place.row}};
}

template <ComponentValue... Ts>
void World::set(Entity entity, Ts&&... values) {
    static_assert(sizeof...(Ts) > 0, "values to set");
    static_assert(are_distinct<std::remove_cvref_t<Ts>...>(), "one value per component");
    if constexpr (sizeof...(Ts) == 1) {
        (set_one(entity, std::remove_cvref_t<Ts>(std::forward<Ts>(values))), ...);
    } else {
        const auto set_several = [&](auto&&... owned) {
            const ComponentId ids[] = {component<std::remove_cvref_t<Ts>>()...};
            void* const pointers[] = {&owned...};
            set(entity, std::span<const ComponentId>(ids), std::span<void* const>(pointers));
        };
        set_several(std::remove_cvref_t<Ts>(std::forward<Ts>(values))...);
    }
}

/// All calls are tail calls: set_one() then needs no stack frame, which saves a quarter of its instructions.
template <class T>
void World::set_one(Entity entity, T&& value) {
    if constexpr (Value<T> && std::is_trivially_copyable_v<T> && std::is_move_assignable_v<T>) {
        const KnownComponent* const component = components_.cached(type_tag<T>);
        if (component == nullptr) return set_slow(entity, type_tag<T>, &value);
        const EntityTable::Place* const place = entities_.find(entity);
        Column* const column = place != nullptr ? component->column(place->archetype) : nullptr;
        if (column == nullptr || locks_ != 0) return set_slow(entity, place, *component, &value);
        const std::uint32_t row = place->row;
        T& target = column->template value<T>(row);
        target = std::move(value);
        column->wrote(row, tick_);
        if (component->has_hook(HookKind::change)) report_write(*column, &target, entity);
    } else {
        set_slow(entity, type_tag<T>, &value);
    }
}

template <Key K>
Sources World::sources(K pair) const {
    return sources_of(find(pair));
}

template <Key K>
void World::set(Entity entity, K key, SetValue<K> value) {
    if constexpr (is_pair_key<K>) {
        if (const ComponentId id = require_pair(entity, key)) set_id(entity, id, &value);
    } else {
        set_id(entity, key, value);
    }
}

template <class T, DefaultKey K>
void World::add(Entity entity, K key) {
    static_assert(is_named_once<T, K>);
    ValueOf<K> value{};
    void* const pointer = std::is_empty_v<ValueOf<K>> ? nullptr : &value;
    if constexpr (is_pair_key<K>) {
        if (const ComponentId id = require_pair(entity, key)) add(entity, id, pointer);
    } else {
        add(entity, components_.known(type_tag<ValueOf<K>>), pointer);
    }
}

template <Component... Ts, Key... Keys>
void World::remove(Entity entity, Keys... keys) {
    static_assert(sizeof...(Ts) + sizeof...(Keys) > 0, "components to remove");
    if constexpr (sizeof...(Ts) == 1 && sizeof...(Keys) == 0) {
        (remove(entity, components_.find_known(type_tag<Ts>)), ...);
    } else {
        const ComponentId ids[] = {find(TypeKey<Ts>{})..., find(keys)...};
        remove(entity, std::span<const ComponentId>(ids));
    }
}

template <Value T, class Fn>
bool World::patch(Entity entity, Fn&& fn) {
    const auto call = [&fn](void* value) { return fn(*static_cast<T*>(value)); };
    const KnownComponent* const component = components_.cached(type_tag<T>);
    const EntityTable::Place* const place = entities_.find(entity);
    Column* const column = component && place ? component->column(place->archetype) : nullptr;
    if (column == nullptr || locks_ != 0) return patch(entity, writable<T>(entity, "patch"), call);
    return patch(entity, Writable{&column->template value<T>(place->row), column, place->row}, call);
}

template <ValueKey K, class Fn>
bool World::patch(Entity entity, K key, Fn&& fn) {
    if constexpr (is_pair_key<K>) {
        using R = typename K::Value;
        return patch(entity, writable(entity, find(key)),
                     [&fn](void* value) { return fn(*static_cast<R*>(value)); });
    } else {
        return patch(entity, writable(entity, key), std::forward<Fn>(fn));
    }
}

template <class Fn>
inline bool World::patch(Entity entity, const Writable& found, Fn&& fn) {
    if (found.value == nullptr) return false;
    const Deferral deferral(*this);
    bool is_changed = true;  // also if `fn` throws
    {
        const AtEnd report{[&] {
            if (is_changed && found.column != nullptr) wrote(entity, *found.column, found.row, found.value);
        }};
        if constexpr (std::is_same_v<std::invoke_result_t<Fn&, void*>, bool>) {
            is_changed = fn(found.value);
        } else {
            fn(found.value);
        }
    }
    return is_changed;
}

template <Value T>
WorldMut<T> World::mut(Entity entity) {
    const Writable found = writable_or_going<T>(entity);
    if (found.value == nullptr) stop("mut", type_tag<T>.name, entity);
    return WorldMut<T>(*this, static_cast<T*>(found.value), entity, found.column, found.row);
}

template <Value T>
WorldMut<T> World::try_mut(Entity entity) {
    const Writable found = is_alive(entity) ? writable_or_going<T>(entity) : Writable{};
    return WorldMut<T>(*this, static_cast<T*>(found.value), entity, found.column, found.row);
}

/// As writable(), but finds also a value that is going to be removed. A write to it is not reported.
template <Value T>
World::Writable World::writable_or_going(Entity entity) {
    const Writable found = writable<T>(entity, "mut");
    if (found.value != nullptr) return found;
    const Cell going = cell(entity, TypeKey<T>{});
    return going ? Writable{going.at()} : Writable{};
}

}  // namespace shoal::ecs::impl
