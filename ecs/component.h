#pragma once
// Component types: a name, a size, and functions that move and destroy values. Ids belong to one world.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "pair.h"

namespace shoal::ecs::impl {

class Archetype;
class Column;

/// Options of a relation. A type with a static member `relation` of this type is a relation. Its pairs have a
/// value if the type has fields:
///
///     struct ChildOf { static constexpr auto relation = exclusive | destroy_with_target; };
enum class RelationTraits : std::uint8_t {
    none = 0,                 // not a relation
    many = 1,                 // a source has any number of targets
    exclusive = 3,            // a source has at most one target: a new one replaces the old one
    destroy_with_target = 5,  // sources are destroyed before their target; otherwise only the pair is removed
};
inline constexpr RelationTraits many = RelationTraits::many;
inline constexpr RelationTraits exclusive = RelationTraits::exclusive;
inline constexpr RelationTraits destroy_with_target = RelationTraits::destroy_with_target;

constexpr RelationTraits operator|(RelationTraits a, RelationTraits b) {
    return static_cast<RelationTraits>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool includes(RelationTraits all, RelationTraits some) {
    return (all | some) == all;
}

/// How a world stores a component. For a component without a C++ type, pass it to register_component().
struct ComponentType {
    std::string_view name;    // shown in dumps, error messages and WriteAudit; need not be unique; copied
    std::uint32_t size = 0;   // bytes; 0: a tag, which has no values
    std::uint32_t align = 1;  // bytes; a power of two that divides the size
    /// Constructs a value at `to` from the value at `from`, which is destroyed later. Null means memcpy.
    void (*move)(void* to, void* from) = nullptr;
    /// Destroys a value. Null: values need no destruction. If `destroy` is set, `move` must be set too.
    void (*destroy)(void* value) = nullptr;
    /// Constructs a copy at `to` of the value at `from`. Null: memcpy if `move` is null too; else values
    /// cannot be copied. See World::copyable().
    void (*copy)(void* to, const void* from) = nullptr;
    /// If not none, the component is a relation: entities have it only in pairs, see World::pair_id().
    RelationTraits relation = RelationTraits::none;

    /// Constructs a value in uninitialised memory by moving from `from`. Not for tags.
    void construct(void* to, void* from) const noexcept;

    /// As construct(), but copies. Requires is_copyable().
    void construct_copy(void* to, const void* from) const noexcept;
    bool is_copyable() const { return is_tag() || move == nullptr || copy != nullptr; }

    /// Replaces the value at `to` by moving from `from`. Does nothing if `to` == `from`. Not for tags.
    void overwrite(void* to, void* from) const noexcept;

    bool is_tag() const { return size == 0; }
    bool is_relation() const { return relation != RelationTraits::none; }
};

template <class R>
struct PairKey;
template <class T>
inline constexpr bool is_pair_key = false;
template <class R>
inline constexpr bool is_pair_key<PairKey<R>> = true;

template <class T>
concept ClassOrEnum = std::is_class_v<T> || std::is_union_v<T> || std::is_enum_v<T>;

/// A type that a world can store: a class, union or enum that can be moved. Its move constructor and
/// destructor may call structural operations (spawn, destroy and so on) of the world, but must not read or
/// write values in the world, nor iterate.
template <class T>
concept Storable =
    ClassOrEnum<T> && std::same_as<T, std::remove_cvref_t<T>> && std::is_move_constructible_v<T> &&
    std::is_destructible_v<T> && !std::same_as<T, ComponentId> &&
    !is_pair_key<T> && !std::convertible_to<const T&, std::span<const ComponentId>>;

/// A type that entities have only in pairs with a target.
template <class T>
concept Relation = Storable<T> && requires {
    { T::relation } -> std::convertible_to<RelationTraits>;
};

/// A type with a static data member of the name `relation`, whatever its type.
template <class T>
concept NamesRelation = requires {
    requires std::is_object_v<std::remove_pointer_t<decltype(&T::relation)>>;
    requires !std::is_member_pointer_v<decltype(&T::relation)>;
};

/// A relation of which a source has at most one target.
template <class R>
concept ExclusiveRelation = Relation<R> && includes(R::relation, exclusive);

template <class T>
concept Component = Storable<T> && !Relation<T>;

/// A component without a value: an empty type.
template <class T>
concept Tag = Component<T> && std::is_empty_v<T>;

template <class T>
concept Value = Component<T> && !std::is_empty_v<T>;

/// The type of an argument, possibly const or a reference, whose value is a component.
template <class T>
concept ComponentValue = Component<std::remove_cvref_t<T>>;

template <class T>
concept CopyableComponent = Component<T> && std::is_copy_constructible_v<T>;

/// The key of a pair: world.has(escort, to<Follows>(ship)).
template <class R>
struct PairKey {
    using Value = R;
    Entity target;
};
template <Relation R>
constexpr PairKey<R> to(Entity target) {
    return {target};
}

/// The key of a component type. world.has<Health>(ship) makes one.
template <Component T>
struct TypeKey {
    using Value = T;
};
template <class T>
inline constexpr bool is_type_key = false;
template <class T>
inline constexpr bool is_type_key<TypeKey<T>> = true;

/// Names a component by its type or its id, or names a pair.
template <class T>
concept Key = std::is_same_v<T, ComponentId> || is_pair_key<T> || is_type_key<T>;

/// True if a call names its component only once: by the template argument T or by a key, not by both.
template <class T, class K>
inline constexpr bool is_named_once = std::is_void_v<T> || is_type_key<K>;

/// The type of a key's value; void for an id.
template <class K>
struct ValueOfKey {
    using Type = typename K::Value;
};
template <>
struct ValueOfKey<ComponentId> {
    using Type = void;
};
template <Key K>
using ValueOf = typename ValueOfKey<K>::Type;

/// The key of a component or pair with a value: not a tag, not a relation without fields. Includes every id,
/// as only the world knows which ids have values.
template <class K>
concept ValueKey = Key<K> && !std::is_empty_v<ValueOf<K>>;

/// The type of World::set()'s value argument for a key.
template <Key K>
using SetValue = std::conditional_t<std::is_void_v<ValueOf<K>>, void*, ValueOf<K>>;

/// The key of a type with a default constructor.
template <class K>
concept DefaultKey = Key<K> && std::is_default_constructible_v<ValueOf<K>>;

/// The key of a component or pair whose type is known at compile time: not an id.
template <class K>
concept TypedKey = Key<K> && !std::is_void_v<ValueOf<K>>;

/// Describes a C++ type, the same for all worlds. Each world gives the type an id of its own.
struct TypeTag {
    std::string_view name;
    std::uint64_t hash;  // of the name and the layout; other layouts of the same name have other hashes
    bool is_shared;      // the name means the same type in every shared library of the program
    std::uint32_t size;
    std::uint32_t align;
    void (*move)(void* to, void* from);
    void (*destroy)(void* value);
    RelationTraits relation;

    /// Names the type in a world. No address of a library that may be unloaded is looked at.
    std::uint64_t key() const { return is_shared ? hash : hash + reinterpret_cast<std::uintptr_t>(this); }
};

template <class T>
constexpr std::string_view type_name() {
#if defined(_MSC_VER) && !defined(__clang__)
    std::string_view text = __FUNCSIG__;  // "... type_name<struct game::Position>(void)"
    text.remove_prefix(text.find("type_name<") + 10);
    text.remove_suffix(text.size() - text.rfind(">("));
    for (const std::string_view word : {"struct ", "class ", "union ", "enum "})
        if (text.substr(0, word.size()) == word) text.remove_prefix(word.size());
#else
    std::string_view text = __PRETTY_FUNCTION__;  // "... [with T = game::Position; ...]"
    text.remove_prefix(text.find("T = ") + 4);
    const std::size_t semicolon = text.find("; std::string_view");
    text = text.substr(0, semicolon == text.npos ? text.rfind(']') : semicolon);
#endif
    return text;
}

/// Source: FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv.
constexpr std::uint64_t hash_step(std::uint64_t hash, std::uint64_t value) {
    return (hash ^ value) * 0x100'0000'01B3;
}
constexpr std::uint64_t hash_name(std::string_view name) {
    std::uint64_t hash = 0xCBF2'9CE4'8422'2325;
    for (const char letter : name) hash = hash_step(hash, static_cast<unsigned char>(letter));
    return hash;
}

// Each shared library has its own tags and functions: another library may define the type differently.
template <class T>
#if defined(__GNUC__) && !defined(_WIN32)  // on Windows symbols are hidden by default
[[gnu::visibility("hidden")]]
#endif
constexpr TypeTag
make_type_tag() {
    constexpr std::string_view name = type_name<T>();
    TypeTag tag{};
    tag.name = name;
    // Local and anonymous types of the same name can be different types.
    tag.is_shared = name.find_first_of("({'`") == name.npos && name.find("<lambda") == name.npos &&
                    name.find("<unnamed") == name.npos;
    tag.size = std::is_empty_v<T> ? 0 : static_cast<std::uint32_t>(sizeof(T));
    tag.align = static_cast<std::uint32_t>(alignof(T));
    constexpr bool is_plain = std::is_trivially_copyable_v<T> && std::is_copy_constructible_v<T>;
    if (!is_plain) tag.move = [](void* to, void* from) { ::new (to) T(std::move(*static_cast<T*>(from))); };
    if (!std::is_trivially_destructible_v<T>) tag.destroy = [](void* value) { static_cast<T*>(value)->~T(); };
    static_assert(Relation<T> || !NamesRelation<T>,
                  "the static member `relation` must be of the type RelationTraits");
    if constexpr (Relation<T>) tag.relation = T::relation;
    constexpr unsigned operations = (is_plain ? 0 : 1) | (std::is_trivially_destructible_v<T> ? 0 : 2);
    tag.hash = hash_step(hash_name(name), std::uint64_t{tag.size} << 32 | std::uint64_t{tag.align} << 8 |
                                              static_cast<unsigned>(tag.relation) << 2 | operations);
    return tag;
}

template <class T>
#if defined(__GNUC__) && !defined(_WIN32)
[[gnu::visibility("hidden")]]
#endif
inline constexpr TypeTag type_tag = make_type_tag<T>();

/// What get() of a tag refers to: tags have no values in the world.
template <class T>
alignas(T) inline constexpr std::byte tag_value[sizeof(T)] = {};

enum class HookKind : std::uint8_t { add, change, remove };
struct HookCall;

/// A user's function with its state; `destroy` may be null. `is_disconnected` becomes true if the function is
/// disconnected while it runs.
struct HookFunction {
    void (*call)(void* state, const HookCall&, const bool& is_disconnected) = nullptr;
    void (*destroy)(void* state) = nullptr;
    void* state = nullptr;
};

/// A function that is connected to one kind of event. HookTable keeps subscribers in lists, in the order of
/// connection.
struct Subscriber {
    HookFunction function;  // function.call is null if the function was disconnected while a hook ran
    std::uint64_t serial;
};
using SubscriberList = std::vector<Subscriber>;

/// Two archetypes that differ in one component.
struct ArchetypeStep {
    static constexpr std::uint32_t kNone = 0xFFFF'FFFD;  // no archetype has this index

    std::uint32_t index_without = kNone;
    std::uint32_t index_with = kNone;
    Archetype* without = nullptr;
    Archetype* with = nullptr;
    Column* column = nullptr;  // the component's column in `with`
    bool is_small = false;     // both archetypes are small, see Archetype::is_small()
};

/// A component that is registered in one world, with its hooks and columns. Its address does not change.
struct KnownComponent : ComponentType {
    ComponentId id;

    /// The component's column in the archetype with this index; null if there is none. Always null for a
    /// relation.
    Column* column(std::uint32_t archetype) const {
        return archetype < column_count ? columns[archetype] : nullptr;
    }
    /// For ArchetypeList, which maintains `columns`.
    void set_column(std::uint32_t archetype, Column* column);

    /// Returns whether hooks of this kind are connected.
    bool has_hook(HookKind kind) const { return !hooks[static_cast<std::size_t>(kind)].empty(); }

    /// For ArchetypeGraph: the step of the last entity that got or lost the component. The next entity often
    /// takes the same step, so the processor predicts the branch and uses the step before it has read which
    /// archetype the entity is in.
    ArchetypeStep last_step;

    std::array<SubscriberList, 3> hooks;  // by kind
    std::uint32_t column_count = 0;       // columns.size()
    std::vector<Column*> columns;         // by archetype index; null if the archetype lacks the component
};

/// A small hash map from keys, which are hashes, to numbers.
class KeyMap {
public:
    static constexpr std::uint32_t kAbsent = 0xFFFF'FFFF;

    KeyMap() : entries_(16), mask_(15) {}

    std::uint32_t find(std::uint64_t key) const;

    /// Requires that the key is absent and not 0.
    void insert(std::uint64_t key, std::uint32_t number);

    /// Inserts the keys of `other` that are absent here.
    void insert_all(const KeyMap& other);

private:
    struct Entry {
        std::uint64_t key = 0;
        std::uint32_t number = kAbsent;
    };

    std::vector<Entry> entries_;  // the size is a power of two; at most half of the entries are used
    std::uint64_t mask_;
    std::uint32_t count_ = 0;
};

/// The components of one world.
class ComponentTable {
public:
    ComponentTable() = default;
    ~ComponentTable();
    ComponentTable(const ComponentTable&) = delete;
    ComponentTable& operator=(const ComponentTable&) = delete;

    ComponentId add(const ComponentType& type);

    /// Registers the types that only `other` has, under the same ids. Returns false and does nothing if an id
    /// names types that differ in name, layout, relation, or in having a move or destroy function.
    bool register_as(const ComponentTable& other);

    /// Frees memory for archetypes whose index is not less than `archetypes`.
    void shrink(std::uint32_t archetypes);

    /// The type's component; registers the type on the first call. A type that another shared library
    /// registered is found by its name and layout.
    KnownComponent& known(const TypeTag& tag) {
        const CacheEntry& place = cache_[tag.hash % kCacheSize];
        return place.key == tag.key() ? *place.component : known_slow(tag);
    }
    /// The type's component if it is in cache_; else null.
    KnownComponent* cached(const TypeTag& tag) const {
        const CacheEntry& place = cache_[tag.hash % kCacheSize];
        return place.key == tag.key() ? place.component : nullptr;
    }
    ComponentId id_of(const TypeTag& tag) { return known(tag).id; }

    /// The type's component. If the type is not registered: a component without an id, which no entity has.
    const KnownComponent& find_known(const TypeTag& tag) const {
        const CacheEntry& place = cache_[tag.hash % kCacheSize];
        return place.key == tag.key() ? *place.component : find_slow(tag);
    }
    ComponentId find(const TypeTag& tag) const { return find_known(tag).id; }

    /// The component of an id, for a pair its relation. For an invalid id: a tag without a name. The
    /// reference is valid as long as the world.
    const KnownComponent& operator[](ComponentId id) const {
        const std::uint32_t type = type_of(id).value;
        return type < types_.size() ? *types_[type] : unknown_;
    }
    KnownComponent& operator[](ComponentId id) {
        return const_cast<KnownComponent&>(std::as_const(*this)[id]);
    }

    /// The pair's relation; for other ids the id itself; none for the id of a pair that no longer exists.
    ComponentId type_of(ComponentId id) const {
        if (!id.is_pair()) return id;
        const PairTable::Pair* pair = pairs_.find(id);
        return pair != nullptr ? pair->relation : ComponentId{};
    }

    /// Returns whether an entity can have the id now: a component that is not a relation, or a pair with a
    /// living target.
    bool is_addable(ComponentId id) const {
        if (id.is_pair()) return pairs_.is_current(id);
        return id.value < types_.size() && !types_[id.value]->is_relation();
    }

    std::uint32_t size() const { return static_cast<std::uint32_t>(types_.size()); }

    PairTable& pairs() { return pairs_; }
    const PairTable& pairs() const { return pairs_; }

private:
    static constexpr std::uint32_t kCacheSize = 128;

    struct Kept;
    struct CacheEntry {
        std::uint64_t key = 0;
        KnownComponent* component = nullptr;
    };

    KnownComponent& known_slow(const TypeTag& tag);
    const KnownComponent& find_slow(const TypeTag& tag) const;

    CacheEntry cache_[kCacheSize];        // by hash modulo kCacheSize; an entry keeps its first type
    KeyMap ids_;                          // from the key of a TypeTag to the id, for all registered types
    std::vector<KnownComponent*> types_;  // by id; owned; each is a Kept, which has a copy of its name
    KnownComponent unknown_;
    PairTable pairs_;
};

}  // namespace shoal::ecs::impl
