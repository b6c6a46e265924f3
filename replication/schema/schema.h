#pragma once
// Names the components and tags that replicate. One function, used by server and clients, declares them:
//
//     void describe(Schema& schema) {
//         schema.component<Position>("position", field(&Position::x, quantised(-64, 64, 0.01)),
//                                    field(&Position::y, quantised(-64, 64, 0.01)));
//         schema.component<Inventory>("inventory", element(&Inventory::items, max_length(40),
//                                                          field(&Item::kind, bounded(0, 500))));
//         schema.component<Name>("name");
//         schema.component<Ammo>("ammo", to_owner());  // see view_class.h
//         schema.tag<Wolf>("wolf");
//         schema.pair<Follows>("follows");  // a relation
//         schema.singleton<Round>("round");
//     }
//
// Fields may be integers, floats, bools, enums, durations, strings, vectors, optionals, maps, arrays,
// entities and structs of these. Other types (with constructors, base classes or private members) replicate
// if Replicate names their parts (walk.h). Fields without a codec keep their exact value, but strings,
// vectors and maps are cut to a default length.

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../ecs/world.h"
#include "declared.h"
#include "lanes.h"
#include "options.h"
#include "own_components.h"
#include "pairs.h"
#include "view_class.h"
#include "walk.h"

namespace shoal::replication::impl {

/// Its address identifies a C++ type in this program.
template <class T>
inline constexpr char type_address = 0;

/// Greatest size of a full record without its header: what one entity can hold. A payload of several packets
/// has room for one record of this size and all headers.
inline constexpr std::size_t kMaxEntityBytes = 32'000;
/// Greatest size of a component with from_owner(), in bits: a packet of a client must have room for it.
inline constexpr std::size_t kMaxOwnedBits = 7200;
inline constexpr std::size_t kMaxComponents = 4096;  // in a schema

inline constexpr std::size_t kMaxOptionalComponents = 64;

/// Index of a component in Schema::components(). Optional components come after all other components; each
/// of the two groups is in the order of name_id().
using ComponentIndex = std::uint16_t;

/// By ComponentIndex: the component's index in the schema of a peer, or kUnknownComponent. Empty if the peer
/// has the same schema.
using ComponentNumbers = std::vector<ComponentIndex>;
inline constexpr ComponentIndex kUnknownComponent = 0xffff;

/// Returns the hash of a component's name (FNV-1a, 32 bits).
constexpr std::uint32_t name_id(std::string_view name) {
    std::uint32_t hash = 2166136261u;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return hash;
}

/// A C++ type that the schema names.
struct SchemaType {
    std::string name;
    std::uint32_t id = 0;               // name_id(name)
    std::uint32_t signature = 0;        // hash of the layout; equal if both sides encode the type alike
    ComponentLayout layout{};           // empty for a tag, and for a struct without fields
    std::uint32_t max_bits = 0;         // greatest number of bits that a value takes without a baseline
    std::uint32_t size = 0, align = 1;  // size and alignment of the C++ type, in bytes
    const void* type = nullptr;         // identifies the C++ type in this program
    void (*construct)(void* at) = nullptr;
    void (*destroy)(void* value) = nullptr;
};

/// One component or tag of the schema.
struct SchemaComponent : SchemaType, ComponentTraits {
    bool is_tag = false;  // only its presence replicates
    bool is_optional = false;
    std::uint32_t first_slot = 0;  // its first slot in a trained model, less kModelSlots
    PairOps pairs{};               // only for a relation, whose value is a vector of PairRow
    // For a singleton: finds its entity in a world, and makes another entity the singleton's entity. Null for
    // other components.
    ecs::Entity (*singleton)(const ecs::World& world) = nullptr;
    void (*adopt)(ecs::World& world, ecs::Entity entity) = nullptr;
    ecs::ComponentId (*bind)(ecs::World& world) = nullptr;  // returns the component's id in a world
};

/// The purpose of a struct that is sent by itself, not as a component of an entity.
enum class StructKind : std::uint8_t { message, input, action };
inline constexpr std::size_t kStructKinds = 3;
constexpr std::string_view kind_name(StructKind kind) {
    constexpr std::string_view kNames[kStructKinds] = {"message", "input", "action"};
    return kNames[static_cast<std::size_t>(kind)];
}
inline constexpr std::size_t kMaxStructs = 256;  // most structs of one kind in a schema
/// Greatest size of an input, in bits. Each packet of a client has the inputs of several ticks.
inline constexpr std::size_t kMaxInputBits = 1024;

class Act;

/// Does an action without its C++ type; see action/action.h.
struct ActionOps {
    std::string (*validate)(const void* action, const Act& act) = nullptr;  // null: always allowed
    void (*mutate)(const void* action, Act& act) = nullptr;                 // null: changes nothing
};

/// A message, input or action of the schema.
struct SchemaStruct : SchemaType, StructTraits {
    ActionOps ops;  // only of an action
};

class Schema {
public:
    /// Declares T. The name must be the same on both sides. Options, in any order: codecs for some of its
    /// fields (field(), element()), for all other fields one max_length() and one codec for numbers, view
    /// classes (who gets it), a Display and a Role. An empty T is a tag, and takes only view classes.
    template <std::default_initializable T, ComponentOption<T>... Options>
    void component(std::string_view name, const Options&... options);

    /// Declares an empty component: only its presence replicates. Options: view classes, everywhere(),
    /// every() and fresh_within().
    template <ecs::impl::Tag T, TagOption... Options>
    void tag(std::string_view name, const Options&... options) {
        add_tag<T>(name, Declared<T>(options...));
    }

    /// Declares a relation. All pairs of a source replicate together, as one component. A pair replicates if
    /// its target replicates. Options as for a component; max_length(), as the codec for the component, is
    /// the greatest number of targets of one source. If a source has more targets, those with the lowest net
    /// ids replicate.
    template <ecs::impl::Relation R, PairOption<R>... Options>
    void pair(std::string_view name, const Options&... options);

    /// Makes players see entities with a T only while they are near one of the player's viewpoints, see
    /// PlayerView::from(). T has fields x and y, and z if the world has three dimensions. It need not be
    /// declared as a component. A schema has at most one grid. It has no effect on clients.
    template <ecs::impl::Value T>
    void grid(const GridOptions& options) {
        static_assert(
            HasPlace<T>,
            "a component for grid() has numbers x and y, and perhaps z; for others pass a function: "
            "grid<T>(options, [](const T&) { return GridPlace{...}; })");
        GridOptions all = options;
        all.has_height = HasHeight<T>;
        if constexpr (HasPlace<T>) add_grid<T>({all, {}, {}}, place_of<T>);
    }
    /// As grid(options), but place(const T&) returns the GridPlace.
    template <ecs::impl::Value T, std::invocable<const T&> Fn>
    void grid(const GridOptions& options, Fn place) {
        add_grid<T>({options, {}, {}}, std::move(place));
    }
    const GridRule& grid() const { return grid_; }

    /// The different every() and fresh_within() of the components, in seconds; they rise. The first one is 0
    /// and stands for none.
    const std::vector<double>& intervals() const { return intervals_; }
    const std::vector<double>& goals() const { return goals_; }

    /// Declares a component whose singleton replicates, with options as for a component. The server's
    /// singleton gets the tag Replicated; its replica is the client's singleton.
    template <ecs::impl::Value T, ComponentOption<T>... Options>
    void singleton(std::string_view name, const Options&... options);

    /// Declares a struct that is sent by itself, see Server::send(). Its fields may have the same types
    /// as fields of a component. Options: codecs and with_state(). The struct may have the same name as a
    /// component, an input or an action.
    template <std::default_initializable T, MessageOption<T>... Options>
    void message(std::string_view name, const Options&... options);

    /// Declares an action, see action/action.h, which must be included. Options: codecs, at_most(),
    /// independent() and with_state().
    template <std::default_initializable T, ActionOption<T>... Options>
    void action(std::string_view name, const Options&... options);

    /// Declares what a player holds and presses in one tick, see Client::input(). A schema has at most one
    /// input. Also declares a component of the same name and type. Only the owner of an entity gets this
    /// component, without its value: the library sets the value on both sides. If T was declared as a
    /// component before, that declaration is used instead. The tag Mine is declared, too.
    template <std::default_initializable T, CodecOption<T>... Options>
    void input(std::string_view name, const Options&... options);

    /// After each step of the game, rounds the predicted components that changed to the steps of their
    /// codecs, on the server and on clients. So both compute the next step from the same numbers, and a
    /// client's prediction is wrong only if something other than its player's inputs changed an entity.
    void quantise_authority();
    bool is_authority_quantised() const { return is_authority_quantised_; }

    /// Makes a declared component, tag, relation or singleton optional: a peer whose schema lacks it, or has
    /// it in another form, can play on without it. Schemas have at most kMaxOptionalComponents.
    template <class T>
    void optional();

    /// The first mistake in the declarations, with the component's name; empty if there is none. A sender or
    /// receiver that gets a schema with an error prints the error and stops the program. A declaration after
    /// the schema was given to a sender or receiver also stops the program.
    const std::string& error() const { return error_; }

    /// Hash of the schema. Equal on both sides if they have the same components and encode them alike.
    /// Optional components do not count.
    std::uint64_t hash() const;

    /// Describes the schema for difference() and numbers_in(): the number of optional components, and 8 bytes
    /// for each of the first 73 components and structs. Unlike in components(), the optional components come
    /// first.
    std::vector<std::byte> summary() const;

    /// For the server: returns the numbers that the components have in the schema of a client with an equal
    /// hash(), whose summary() is given. Any bytes are safe: returns nothing if they are malformed.
    std::optional<ComponentNumbers> numbers_in(std::span<const std::byte> peer_summary) const;

    /// For the server: returns a text that names a component, message, input or action in which this schema
    /// differs from the client's, whose summary() is given; empty if none is found. If only the client has
    /// the component, message, input or action, the text has the hash of its name, see explain(). Any bytes
    /// are safe.
    std::string difference(std::span<const std::byte> peer_summary) const;

    /// For the client. `text` is the result of the server's difference(). Returns `text`, with the name
    /// instead of the hash if this schema has the name.
    std::string explain(std::string_view text) const;

    /// Returns a schema with these optional components in place of this one's, and all else of this one; for
    /// a Replay. They must be in the order of their ids.
    Schema with_optional(std::vector<SchemaComponent> components) const;

    /// The components, by ComponentIndex.
    const std::vector<SchemaComponent>& components() const { return components_; }
    /// Returns the index of T in components(), or kMaxComponents if T is not declared.
    template <class T>
    std::size_t find() const {
        return find(&type_address<T>);
    }
    /// As find<T>(), with `type` = &type_address<T>.
    std::size_t find(const void* type) const;

    /// The component that holds the input on the entities of players. Requires that the schema has an input.
    std::size_t input_component() const { return find(structs(StructKind::input)[0].type); }

    /// Returns whether clients write some components, see from_owner().
    bool has_owned() const { return find<OwnerState>() != kMaxComponents; }
    /// Returns whether clients compute some components ahead of the server.
    bool predicts() const {
        return std::any_of(components_.begin(), components_.end(),
                           [](const SchemaComponent& one) { return one.role == Role::predicted; });
    }

    /// The messages, inputs or actions, in the order of their ids. The index of one is its number in packets.
    const std::vector<SchemaStruct>& structs(StructKind kind) const {
        return structs_[static_cast<std::size_t>(kind)];
    }
    /// Returns the number of T among the structs of a kind; their count if T is not declared.
    template <class T>
    std::size_t find_struct(StructKind kind) const {
        return find_struct(kind, &type_address<T>);
    }
    /// As find_struct(), but stops the program if T is not declared.
    template <class T>
    std::size_t require_struct(StructKind kind) const {
        return require_struct(kind, &type_address<T>, ecs::impl::type_name<T>());
    }
    /// As find(), but stops the program if T is not a component with from_owner().
    template <class T>
    ComponentIndex require_owned() const {
        return require_owned(find<T>(), ecs::impl::type_name<T>());
    }

private:
    template <class T>
    static SchemaComponent make_component(std::string_view name, const ComponentTraits& traits);
    template <class T>
    static void set_value_type(SchemaType& out);
    template <class T>
    void describe(SchemaType& out, std::string_view kind, Declared<T>& options,
                  std::size_t max_nesting = kMaxNesting);
    template <class T, class... Options>
    void add_struct(StructKind kind, std::string_view name, const ActionOps& ops, const Options&... options);
    template <class T>
    void add_tag(std::string_view name, const ComponentTraits& traits);
    template <class T, class Fn>
    void add_grid(GridRule rule, Fn place);
    void add(GridRule rule);
    void add(SchemaComponent component);
    void add_times(const SchemaComponent& component);
    void add_implied(const ComponentTraits& traits);
    void check_unused(std::string_view name, std::string_view kind);
    void add(StructKind kind, SchemaStruct added);
    std::size_t find_struct(StructKind kind, const void* type) const;
    /// A component, message, input or action, as summaries and errors name it.
    struct Named {
        std::string name;  // with its kind
        std::uint32_t id;  // in a summary
        const SchemaType& type;
        bool is_optional, is_seen = false;
    };
    /// All of them, in the order of summary().
    std::vector<Named> declared() const;
    std::size_t require_struct(StructKind kind, const void* type, std::string_view type_name) const;
    ComponentIndex require_owned(std::size_t index, std::string_view type_name) const;
    void finish(SchemaType& type, std::string_view kind);
    void insert(SchemaComponent component);
    void number_slots();
    void make_optional(const void* type, std::string_view type_name);
    std::size_t required_count() const;
    static constexpr std::string_view kComponent = "component";
    /// `kind`: kComponent or a kind_name().
    void fail(std::string_view name, std::string_view why, std::string_view kind = kComponent);

    friend class Binding;
    /// Stops the program if there is an error. Later declarations are errors.
    void use() const;

    std::vector<SchemaComponent> components_;
    std::array<std::vector<SchemaStruct>, kStructKinds> structs_;  // by StructKind
    std::string error_;
    GridRule grid_;
    std::vector<double> intervals_{0}, goals_{0};
    bool is_authority_quantised_ = false;
    bool implies_mine_ = false;  // input() declared the tag Mine
    mutable bool is_used_ = false;
};

template <class T>
SchemaComponent Schema::make_component(std::string_view name, const ComponentTraits& traits) {
    SchemaComponent out{{std::string(name), name_id(name)}, traits};
    out.type = &type_address<T>;
    out.bind = [](ecs::World& world) { return world.component<T>(); };
    return out;
}

template <class T>
void Schema::set_value_type(SchemaType& out) {
    out.size = sizeof(T);
    out.align = alignof(T);
    out.construct = [](void* at) { ::new (at) T{}; };
    out.destroy = [](void* value) { static_cast<T*>(value)->~T(); };
}

template <class T>
void Schema::describe(SchemaType& out, std::string_view kind, Declared<T>& options, std::size_t max_nesting) {
    set_value_type<T>(out);
    if (has_ambiguous_codec(options.ranges, options.all)) {
        fail(out.name, "has two codecs for the same fields", kind);
        return;
    }
    if constexpr (!std::is_empty_v<T>) {
        T object{};
        LayoutSink sink(options.ranges, options.all, max_nesting);
        if (!walk(object, reinterpret_cast<const std::byte*>(&object), sink))
            fail(out.name, sink.problem(), kind);
        for (const Leaf& leaf : sink.leaves) out.layout.add_leaf(leaf);
        for (Part& part : sink.parts) out.layout.add_part(std::move(part));
    }
    if (const std::string problem = unused_codec(options.ranges); !problem.empty())
        fail(out.name, problem, kind);
}

template <std::default_initializable T, ComponentOption<T>... Options>
void Schema::component(std::string_view name, const Options&... options) {
    Declared<T> all(options...);
    if (all.has_two_roles) fail(name, "has two roles: it can be predicted() or from_owner(), not both");
    if (all.has_two_displays) fail(name, "is shown in two ways, of which shown_by() is one");
    if constexpr (ecs::impl::Relation<T>) {
        fail(name, "is a relation: declare it with pair()");
    } else if constexpr (std::is_empty_v<T>) {
        if (!all.fits_tag())
            fail(name, "is empty: of the options it takes only view classes and everywhere()");
        add_tag<T>(name, all);
    } else {
        SchemaComponent out = make_component<T>(name, all);
        describe(out, kComponent, all);
        add(std::move(out));
        add_implied(all);
    }
}

template <ecs::impl::Relation R, PairOption<R>... Options>
void Schema::pair(std::string_view name, const Options&... options) {
    static_assert(std::is_copy_constructible_v<R> && std::default_initializable<R>);
    using Rows = std::vector<PairRow<R>>;
    const Declared<R> of_relation(options...);
    const PairOps ops = pair_ops<R>();
    FieldCodec targets = of_relation.all;
    if (ops.is_exclusive && targets.max_length != 0) fail(name, "is exclusive: max_length() is 1");
    if (ops.is_exclusive) targets.max_length = 1;
    Declared<Rows> rows;
    rows.ranges.push_back({0, sizeof(Rows), ecs::impl::type_name<Rows>(), targets, {}});
    append_ranges(rows.ranges[0].elements, of_relation.ranges, ops.value_offset);
    SchemaComponent out = make_component<R>(name, of_relation);
    describe(out, kComponent, rows, 1);
    out.pairs = ops;
    if (out.role != Role::server) fail(name, "is a relation: only the server can decide it");
    add(std::move(out));
}

template <class T>
void Schema::optional() {
    make_optional(&type_address<T>, ecs::impl::type_name<T>());
}

template <ecs::impl::Value T, ComponentOption<T>... Options>
void Schema::singleton(std::string_view name, const Options&... options) {
    component<T>(name, options...);
    SchemaComponent& out = components_[find<T>()];
    out.singleton = [](const ecs::World& world) { return world.singleton_entity<T>(); };
    out.adopt = [](ecs::World& world, ecs::Entity entity) { world.adopt_singleton<T>(entity); };
}

template <class T, class... Options>
void Schema::add_struct(StructKind kind, std::string_view name, const ActionOps& ops,
                        const Options&... options) {
    Declared<T> all(options...);
    SchemaStruct out{{std::string(name), name_id(name)}, all, ops};
    out.type = &type_address<T>;
    describe(out, kind_name(kind), all);
    add(kind, std::move(out));
}

template <std::default_initializable T, MessageOption<T>... Options>
void Schema::message(std::string_view name, const Options&... options) {
    add_struct<T>(StructKind::message, name, {}, options...);
}

template <std::default_initializable T, CodecOption<T>... Options>
void Schema::input(std::string_view name, const Options&... options) {
    static_assert(ecs::impl::Value<T> && std::is_copy_assignable_v<T>,
                  "an input is a copyable struct with fields");
    if (find<Mine>() == kMaxComponents) {
        tag<Mine>("mine", to_owner());
        implies_mine_ = true;
    }
    if (find<T>() == kMaxComponents) {
        SchemaComponent component = make_component<T>(name, {to_owner()});
        set_value_type<T>(component);
        component.is_tag = true;
        add(std::move(component));
    }
    add_struct<T>(StructKind::input, name, {}, options...);
}

template <class T>
void Schema::add_tag(std::string_view name, const ComponentTraits& traits) {
    SchemaComponent out = make_component<T>(name, traits);
    out.is_tag = true;
    add(std::move(out));
}

template <class T, class Fn>
void Schema::add_grid(GridRule rule, Fn place) {
    rule.place = [place](const void* at) { return place(*static_cast<const T*>(at)); };
    rule.bind = [](ecs::World& world) { return world.component<T>(); };
    add(std::move(rule));
}

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::angle, impl::angular, impl::any_float, impl::at_most, impl::bounded, impl::Despawn, impl::Display,
    impl::element, impl::every, impl::everywhere, impl::field, impl::fixed_point, impl::follows,
    impl::for_each_field, impl::fresh_within, impl::from_owner, impl::GridOptions, impl::GridPlace,
    impl::half_float, impl::independent, impl::inner, impl::kMaxEntityBytes, impl::kMaxStableKey,
    impl::linear, impl::max_length, impl::Mine, impl::predicted, impl::Press, impl::quantised,
    impl::quantised_bits, impl::Replica, impl::Replicated, impl::Schema, impl::shown_by, impl::slerp,
    impl::smallest_three, impl::StableKey, impl::to_all_groups, impl::to_everyone, impl::to_group,
    impl::to_others, impl::to_owner, impl::to_predictors, impl::ToPredict, impl::unit_vector,
    impl::ViewClasses, impl::with_state;
}  // namespace shoal::replication
