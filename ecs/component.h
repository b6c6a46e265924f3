#pragma once
// What a component is: a name, a size, and how to move and destroy values. Ids belong to one world.

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

namespace shoal::ecs {

class Column;

/// What a relation does. A type is one if it says so, and may be empty or have a value per pair:
///
///     struct ChildOf { static constexpr auto relation = exclusive | destroy_with_target; };
enum class RelationTraits : std::uint8_t {
    none = 0,                 // not a relation
    many = 1,                 // a source has any number of targets
    exclusive = 3,            // a new target replaces the old one
    destroy_with_target = 5,  // sources die with their target, before it; else only the pair goes
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

/// How a world stores a component. Fill one in to have a component without a C++ type.
struct ComponentType {
    std::string_view name;    // for people and for a replication schema; need not be unique; copied
    std::uint32_t size = 0;   // bytes; 0 is a tag, which has no values and no column
    std::uint32_t align = 1;  // bytes; any power of two that divides the size
    /// Constructs at `to` from `from`, which stays to be destroyed. Null: memcpy.
    void (*move)(void* to, void* from) = nullptr;
    /// Null: nothing to do. Needs a `move`, which leaves something to destroy.
    void (*destroy)(void* value) = nullptr;
    /// Other than none: entities have it with targets only, see World::pair_id().
    RelationTraits relation = RelationTraits::none;

    /// Moves a value, not a tag, into empty memory.
    void construct(void* to, void* from) const;

    /// Replaces a value, not a tag. Nothing happens if both are the same.
    void overwrite(void* to, void* from) const;

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

/// A type of your own that a world can keep: a class, union or enum that can be moved. Its move
/// constructor and destructor may ask the world for commands (destroy, spawn and so on), but must not
/// read or write values in it, nor iterate.
template <class T>
concept Storable =
    ClassOrEnum<T> && std::same_as<T, std::remove_cvref_t<T>> && std::is_move_constructible_v<T> &&
    std::is_destructible_v<T> && !std::same_as<T, ComponentId> &&
    !is_pair_key<T> && !std::convertible_to<const T&, std::span<const ComponentId>>;

/// Comes in pairs with a target.
template <class T>
concept Relation = Storable<T> && requires {
    { T::relation } -> std::convertible_to<RelationTraits>;
};

/// A source has one target at most.
template <class R>
concept ExclusiveRelation = Relation<R> && includes(R::relation, exclusive);

template <class T>
concept Component = Storable<T> && !Relation<T>;

/// Empty types are tags: an entity has them or not, there is nothing to read.
template <class T>
concept Tag = Component<T> && std::is_empty_v<T>;

template <class T>
concept Value = Component<T> && !std::is_empty_v<T>;

/// What is passed as a value of a component.
template <class T>
concept ComponentValue = Component<std::remove_cvref_t<T>>;

template <class T>
concept CopyableComponent = Component<T> && std::is_copy_constructible_v<T>;

/// A pair, where a world's function takes the key of a component: world.has(escort, to<Follows>(ship)).
template <class R>
struct PairKey {
    using Value = R;
    Entity target;
};
template <Relation R>
constexpr PairKey<R> to(Entity target) {
    return {target};
}

/// The key of a component that has a type; world.has<Health>(ship) makes it.
template <Component T>
struct TypeKey {
    using Value = T;
};
template <class T>
inline constexpr bool is_type_key = false;
template <class T>
inline constexpr bool is_type_key<TypeKey<T>> = true;

/// Names what an entity can have: a component by its type, or by its id, or a pair.
template <class T>
concept Key = std::is_same_v<T, ComponentId> || is_pair_key<T> || is_type_key<T>;

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

/// Its value can be read: it is neither a tag nor a relation without fields. Whether an id has a value only
/// the world knows.
template <class K>
concept ValueKey = Key<K> && !std::is_empty_v<ValueOf<K>>;

/// What World::set() takes for a key.
template <Key K>
using SetValue = std::conditional_t<std::is_void_v<ValueOf<K>>, void*, ValueOf<K>>;

/// The key of what has a default value.
template <class K>
concept DefaultKey = Key<K> && std::is_default_constructible_v<ValueOf<K>>;

/// The key of a value whose type the compiler knows.
template <class K>
concept TypedValueKey = ValueKey<K> && !std::is_void_v<ValueOf<K>>;

/// Its address differs between the shared libraries of a program, and only there.
#if defined(__GNUC__) && !defined(_WIN32)  // Windows shares nothing unless told to
[[gnu::visibility("hidden")]]
#endif
inline constexpr char library_mark = 0;

/// What a type is known by before a world gives it an id.
struct TypeTag {
    std::string_view name;
    std::uint32_t hash;   // of the name
    const char* library;  // &library_mark where the tag was made
    bool is_shared;       // the name means the same type in every shared library of the program
    std::uint32_t size;
    std::uint32_t align;
    void (*move)(void* to, void* from);
    void (*destroy)(void* value);
    RelationTraits relation;
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
constexpr std::uint32_t hash_name(std::string_view name, std::uint32_t hash = 0x811C'9DC5) {
    for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x0100'0193;
    return hash;
}

template <class T>
constexpr TypeTag make_type_tag() {
    constexpr std::string_view name = type_name<T>();
    TypeTag tag{};
    tag.name = name;
    tag.hash = hash_name(name);
    tag.library = &library_mark;
    // Local and anonymous types of the same name can be different types.
    tag.is_shared = name.find_first_of("({'`") == name.npos && name.find("<lambda") == name.npos &&
                    name.find("<unnamed") == name.npos;
    tag.size = std::is_empty_v<T> ? 0 : static_cast<std::uint32_t>(sizeof(T));
    tag.align = static_cast<std::uint32_t>(alignof(T));
    if (!std::is_trivially_copyable_v<T>)
        tag.move = [](void* to, void* from) { ::new (to) T(std::move(*static_cast<T*>(from))); };
    if (!std::is_trivially_destructible_v<T>) tag.destroy = [](void* value) { static_cast<T*>(value)->~T(); };
    if constexpr (Relation<T>) tag.relation = T::relation;
    return tag;
}

/// Its address identifies T, within one shared library.
template <class T>
inline constexpr TypeTag type_tag = make_type_tag<T>();

enum class HookKind : std::uint8_t { add, change, remove };
struct HookCall;

/// A function of the user's with its state; `destroy` may be null. `is_disconnected` turns true if the
/// function is disconnected while it is called.
struct HookFunction {
    void (*call)(void* state, const HookCall&, const bool& is_disconnected) = nullptr;
    void (*destroy)(void* state) = nullptr;
    void* state = nullptr;
};

/// The functions connected to one kind of event, in the order of connection. Kept by the table of hooks.
struct Subscriber {
    HookFunction function;  // call is null: disconnected while running
    std::uint64_t serial;
};
using SubscriberList = std::vector<Subscriber>;

/// A component as one world knows it: what an operation on a value needs, one load from its type. Stays
/// where it is.
struct KnownComponent : ComponentType {
    ComponentId id;

    /// Its column in the archetype with this index; null if that has none, or is none.
    Column* column(std::uint32_t archetype) const {
        return archetype < column_count ? columns[archetype] : nullptr;
    }
    /// Kept by the list of archetypes.
    void set_column(std::uint32_t archetype, Column* column);

    /// Whether hooks of this kind are connected.
    bool has_hook(HookKind kind) const { return !hooks[static_cast<std::size_t>(kind)].empty(); }

    std::array<SubscriberList, 3> hooks;  // by kind
    std::uint32_t column_count = 0;       // of columns
    std::vector<Column*> columns;         // by archetype, as far as any has it
};

/// A small hash map from the addresses of static objects to numbers. Hashes come from outside: the
/// compiler knows those of types.
class AddressMap {
public:
    static constexpr std::uint32_t kAbsent = 0xFFFF'FFFF;

    AddressMap();

    std::uint32_t find(const void* address, std::uint32_t hash) const;

    /// Requires that it is absent.
    void insert(const void* address, std::uint32_t hash, std::uint32_t number);

private:
    struct Entry {
        const void* address = nullptr;
        std::uint32_t hash = 0;
        std::uint32_t number = kAbsent;
    };

    std::vector<Entry> entries_;  // a power of two, at most half full
    std::uint32_t mask_;
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

    /// The type's component, made on first sight. A type seen through another shared library is found by
    /// name, and is the same one.
    KnownComponent& known(const TypeTag& tag) {
        const Near& place = near_[tag.hash % kNear];
        return place.tag == &tag ? *place.component : known_far(tag);
    }
    /// The same if it is quickly found; else null.
    KnownComponent* near(const TypeTag& tag) const {
        const Near& place = near_[tag.hash % kNear];
        return place.tag == &tag ? place.component : nullptr;
    }
    ComponentId id_of(const TypeTag& tag) { return known(tag).id; }

    /// Without an id, and had by none, if this world has never seen the type.
    const KnownComponent& find_known(const TypeTag& tag) const {
        const Near& near = near_[tag.hash % kNear];
        return near.tag == &tag ? *near.component : find_far(tag);
    }
    ComponentId find(const TypeTag& tag) const { return find_known(tag).id; }

    /// A pair's is that of its relation. The reference lives as long as the world. An id that means
    /// nothing here, or no longer, has a tag without a name.
    const KnownComponent& operator[](ComponentId id) const {
        const std::uint32_t type = type_of(id).value;
        return type < types_.size() ? *types_[type] : unknown_;
    }
    KnownComponent& operator[](ComponentId id) {
        return const_cast<KnownComponent&>(std::as_const(*this)[id]);
    }

    /// A pair's relation, or the id itself.
    ComponentId type_of(ComponentId id) const {
        if (!id.is_pair()) return id;
        const PairTable::Pair* pair = pairs_.find(id);
        return pair != nullptr ? pair->relation : ComponentId{};
    }

    /// Whether entities can have it now: it is no bare relation, and its target lives if it is a pair.
    bool can_be_had(ComponentId id) const {
        if (id.is_pair()) return pairs_.is_current(id);
        return id.value < types_.size() && !types_[id.value]->is_relation();
    }

    std::uint32_t size() const { return static_cast<std::uint32_t>(types_.size()); }

    PairTable& pairs() { return pairs_; }
    const PairTable& pairs() const { return pairs_; }

private:
    static constexpr std::uint32_t kNear = 128;

    struct Kept;
    struct Near {
        const TypeTag* tag = nullptr;
        KnownComponent* component = nullptr;
    };
    struct Named {
        const TypeTag* tag;
        ComponentId id;
    };

    KnownComponent& known_far(const TypeTag& tag);
    const KnownComponent& find_far(const TypeTag& tag) const;
    ComponentId find_by_name(const TypeTag& tag) const;

    Near near_[kNear];  // by hash, at a place that the compiler knows: the first of those that share one
    AddressMap ids_;    // all types
    std::vector<KnownComponent*> types_;  // all of them Kept
    std::vector<Named> named_;            // the first tag seen of each shared name
    KnownComponent unknown_;
    PairTable pairs_;
};

}  // namespace shoal::ecs
