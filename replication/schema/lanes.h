#pragma once
// A component as numbers: a fixed number of lanes (integers), and parts (strings, vectors, optionals and
// maps) of variable length. Only the schema knows the C++ types; all other code works with lanes and parts.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "../../ecs/entity.h"
#include "field_codec.h"

namespace shoal::replication::impl {

/// Returns the offset of an object in the one around it, in bytes.
template <class Outer, class Inner>
std::size_t offset_in(const Outer& outer, const Inner& inner) {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&inner) -
                                    reinterpret_cast<const std::byte*>(&outer));
}

/// What a lane contains; decides how it is coded.
enum class LaneKind : std::uint8_t {
    quantity,   // a number; a change is probably small
    symbol,     // a value without order: an enum, a bool, a character of a string, half of a double
    real,       // the bits of a float
    reference,  // the net id of an entity; 0: null
};

struct Lane {
    LaneKind kind = LaneKind::quantity;
    std::uint8_t bits = 32;  // 1..32; enough for `max`
    bool bounded = false;    // true: a symbol takes `bits` bits, and so does a quantity without a baseline
    bool is_finite = false;  // a float, or the high half of a double, that is neither NaN nor infinite
    std::uint32_t max = (std::numeric_limits<std::uint32_t>::max)();  // greatest legal value

    bool is_legal(std::uint32_t value) const {
        const std::uint32_t exponent = kind == LaneKind::real ? 0x7f80'0000 : 0x7ff0'0000;
        return value <= max && !(is_finite && (value & exponent) == exponent);
    }
    bool operator==(const Lane&) const = default;
};

constexpr Lane bounded_lane(LaneKind kind, std::uint32_t max) {
    const auto bits = static_cast<std::uint8_t>(std::bit_width(max | 1));
    return {.kind = kind, .bits = bits, .bounded = true, .max = max};
}

/// Slots in a CodecModel of each component, and of each group and part; see codec/model.h.
inline constexpr std::uint32_t kChangedSlots = 4, kDiffersSlots = 16;
inline constexpr unsigned kTreeBits = 10;  // symbols of so many bits, or fewer, have a slot for each prefix

/// The slots of a group beside kDiffersSlots.
constexpr std::uint32_t lane_slots(const Lane& lane) {
    if (lane.kind == LaneKind::real) return 4;
    if (lane.kind != LaneKind::symbol || lane.max == 1) return 0;
    return lane.bits <= kTreeBits ? 3 * ((1u << lane.bits) - 1) : 2u * lane.bits;
}

/// Translates the entities of one world to net ids and back.
class EntityMap {
public:
    /// Returns 0 if `entity` is null or dead, or neither replicates nor has a StableKey.
    virtual std::uint32_t to_net(ecs::Entity entity) = 0;
    /// Returns null if no entity has this net id.
    virtual ecs::Entity to_entity(std::uint32_t net_id) = 0;

protected:
    ~EntityMap() = default;
};

/// C++ type of a scalar field, which takes one or two lanes. For an enum: its underlying type.
enum class FieldType : std::uint8_t { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, entity };

/// One scalar field of a component or of a vector's element, or several with one codec (scalars_of()).
struct Leaf {
    FieldType type = FieldType::u32;
    bool is_enum = false;
    std::uint32_t offset = 0;  // bytes from the start of the component or element
    FieldCodec codec;
    std::int64_t low = 0, high = 0;  // range of bounded()
    double steps = 0;                // greatest lane of quantised()
    std::uint32_t scalars = 1;       // number of neighbouring scalars of this type that the leaf stands for
    std::uint32_t lane_count = 1;    // only for a leaf of a part
    bool is_press = false;           // the field is a Press
};

constexpr bool is_float(FieldType type) {
    return type == FieldType::f32 || type == FieldType::f64;
}

/// Returns whether the values of the leaf can be subtracted: bools, enums and entities cannot.
inline bool is_number(const Leaf& leaf) {
    return leaf.type != FieldType::boolean && leaf.type != FieldType::entity && !leaf.is_enum;
}

/// Size of one scalar of a component, in bytes.
std::size_t size_of(FieldType type);
/// Returns scalar `index` of a leaf as a double. `value` is the component or element. Integers of more than
/// 53 bits are rounded. Requires that the leaf is no entity.
double load_scalar(const Leaf& leaf, const void* value, std::uint32_t index);
/// Read and write a float or double `offset` bytes after `value`.
double load_float(FieldType type, const void* value, std::size_t offset);
void store_float(FieldType type, void* value, std::size_t offset, double number);

/// Returns why the leaf's codec does not fit its type, or an empty text if it fits. Does not check `scalars`.
std::string misfit_of(Leaf leaf);

/// Memory that quantise() and restore() of nested parts and maps use as a stack: they leave it as it was. A
/// caller keeps it, so that later calls need not allocate.
using PointerStack = std::vector<const void*>;

/// Access to a string, vector, optional or map without its C++ type.
struct SequenceOps {
    std::size_t (*size)(const void* sequence);
    /// Appends the addresses of the first `count` elements to `out`; of a map in the order of the keys.
    void (*read)(const void* sequence, std::size_t count, PointerStack& out);
    /// Returns the first element. Null for a map.
    void* (*resize)(void* sequence, std::size_t count) = nullptr;
    /// For a map, else null. Writes `count` entries, and removes all others. Calls restore(key, true) and
    /// then restore(entry, false) for each; the key in the entry is already set. Of several values with one
    /// key the last one stays.
    void (*write)(void* map, std::size_t count, PointerStack& stack,
                  const std::function<void(void* at, bool is_key)>& restore) = nullptr;
};

/// Greatest depth of strings, vectors, optionals and maps that contain one another.
inline constexpr std::size_t kMaxNesting = 4;

/// A string, vector, optional or map inside a component. If it is inside the elements of another part, the
/// Part stands for the strings, vectors, optionals or maps of all these elements, one after the other. An
/// optional has at most one element. An element of a map is a std::pair of key and value.
struct Part {
    static constexpr std::uint32_t kNone = 0xffffffff;

    std::uint32_t offset = 0;        // bytes from the start of the component, or of the element around it
    std::uint32_t max_length = 0;    // the most elements of one string, vector, optional or map
    std::uint32_t max_count = 0;     // the most elements of the part
    std::uint32_t stride = 1;        // bytes per element; of a map, per entry
    std::uint32_t value_offset = 0;  // of a map: offset of the value in the entry; the key is before it
    std::uint32_t parent = kNone;    // index of the part around this one, always lower; kNone: there is none
    SequenceOps ops{};
    std::vector<Leaf> leaves;             // the scalar fields of one element
    std::vector<std::uint32_t> children;  // indices of the parts inside an element
    std::vector<Lane> lanes;  // the lanes of one element: first of its leaves, then one for the length of
                              // each child
    std::uint32_t slot = 0;   // see ComponentLayout::slot_count()

    /// Returns the end of the words of this part that begin at `words`.
    const std::uint32_t* end(const std::uint32_t* words) const {
        return words + 1 + std::size_t{words[0]} * lanes.size();
    }
};

/// Up to four neighbouring lanes with equal Lane descriptions, which have one bit in a delta that says
/// whether they changed. A symbol is always alone.
struct LaneGroup {
    std::uint32_t first = 0;
    std::uint32_t count = 1;
    // The lanes are probably the three smallest numbers of a rotation: there are three equal quantities, and
    // the lane before them is a symbol of 0 to 3, the index of the greatest number.
    bool is_rotation = false;
    std::uint32_t slot = 0;  // see ComponentLayout::slot_count()
};

/// The lanes and parts of one component type. A value becomes lanes().size() words, and for each part a count
/// and the lanes of its elements.
class ComponentLayout {
public:
    void add_leaf(const Leaf& leaf) { leaves_.push_back(leaf); }
    /// For a component of a recording that has no C++ type: adds a lane instead of a leaf.
    void add_lane(const Lane& lane) {
        lanes_.push_back(lane);
        is_rounded_.push_back(false);
    }
    /// A part that has a parent comes after it.
    void add_part(Part part) { parts_.push_back(std::move(part)); }

    /// Computes lanes and groups from all leaves and parts, once. Returns what is wrong with a codec, or an
    /// empty text.
    std::string finish();

    const std::vector<Lane>& lanes() const { return lanes_; }
    const std::vector<LaneGroup>& groups() const { return groups_; }
    const std::vector<Part>& parts() const { return parts_; }
    /// The scalar fields outside of parts.
    const std::vector<Leaf>& leaves() const { return leaves_; }
    /// Returns whether a lane is a float that was rounded: two machines may compute neighbouring values of
    /// it.
    bool is_rounded(std::size_t lane) const { return is_rounded_[lane]; }
    /// Indices of the lanes that are fields of type Press.
    const std::vector<std::uint32_t>& presses() const { return presses_; }
    bool has_references() const { return has_references_; }
    /// Returns whether it has lanes, but no parts and no references.
    bool has_only_lanes() const { return has_only_lanes_; }
    /// Number of groups and parts together.
    std::uint32_t piece_count() const { return piece_count_; }
    bool empty() const { return piece_count_ == 0; }
    /// Number of slots that a component has in a CodecModel; see codec/model.h. Those of a group or part
    /// begin at its `slot`.
    std::uint32_t slot_count() const { return empty() ? 0 : slot_count_; }

    /// Counts the values that do not fit the codecs of a component.
    struct Misfits {
        std::uint64_t cut = 0;      // strings, vectors and maps longer than their max_length()
        std::uint64_t clamped = 0;  // numbers outside the range of their codec, NaN and infinities

        bool operator==(const Misfits&) const = default;
    };
    /// Writes lanes().size() words to `lanes`, and appends the words of the parts to `parts`. Adds to the
    /// counters of `misfits`.
    void quantise(const void* value, EntityMap& map, std::uint32_t* lanes, std::vector<std::uint32_t>& parts,
                  Misfits& misfits, PointerStack* stack = nullptr) const;

    /// Writes every field of the existing object `value`. All lanes must be legal, and the lengths must
    /// match.
    void restore(const std::uint32_t* lanes, const std::uint32_t* parts, EntityMap& map, void* value,
                 PointerStack* stack = nullptr) const;

    /// Writes the value of a pair in place. `row` has the lanes of one element of the first part: a struct
    /// with the target first, and the value `value_offset` bytes after the start.
    void restore_pair(const std::uint32_t* row, std::size_t value_offset, EntityMap& map, void* value) const;
    /// As restore(), but writes only the fields outside of parts. `value` may be plain memory.
    void restore_leaves(const std::uint32_t* lanes, EntityMap& map, void* value) const;

    /// Returns whether each part has as many elements as the lengths in the elements of its parent say.
    bool lengths_match(const std::uint32_t* parts) const { return !has_children_ || sums_match(parts); }

    /// Returns the end of the words of the parts of one value, which begin at `parts`.
    const std::uint32_t* parts_end(const std::uint32_t* parts) const {
        for (const Part& part : parts_) parts = part.end(parts);
        return parts;
    }

    /// Calls visit(net_id) for each reference that is not null. If Word is not const, visit can write it.
    template <class Word, class Visit>
    void for_each_reference(Word* lanes, Word* parts, Visit&& visit) const {
        for (std::size_t i = 0; i < lanes_.size(); ++i)
            if (lanes_[i].kind == LaneKind::reference && lanes[i] != 0) visit(lanes[i]);
        for (const Part& part : parts_) {
            const std::uint32_t count = *parts++;
            for (std::uint32_t n = 0; n < count; ++n)
                for (const Lane& lane : part.lanes) {
                    if (lane.kind == LaneKind::reference && *parts != 0) visit(*parts);
                    ++parts;
                }
        }
    }

    /// Calls mix(number) for each number of the layout that must be equal on server and client.
    template <class Mix>
    void describe(Mix&& mix) const;

private:
    void quantise_parts(const void* value, EntityMap& map, std::vector<std::uint32_t>& parts,
                        Misfits& misfits, PointerStack* shared_stack) const;
    bool sums_match(const std::uint32_t* parts) const;

    std::vector<Leaf> leaves_;
    std::vector<Lane> lanes_;
    std::vector<LaneGroup> groups_;
    std::vector<Part> parts_;
    std::vector<std::uint32_t> presses_;
    std::vector<bool> is_rounded_;  // by lane
    std::uint32_t piece_count_ = 0;
    std::uint32_t slot_count_ = 0;
    bool has_references_ = false;
    bool has_only_lanes_ = false;
    bool has_children_ = false;  // a part has a parent
    bool has_maps_ = false;
};

template <class Mix>
void ComponentLayout::describe(Mix&& mix) const {
    const auto mix_row = [&](const std::vector<Leaf>& leaves, const std::vector<Lane>& lanes) {
        mix(leaves.size());
        for (const Leaf& leaf : leaves) {
            mix(static_cast<std::uint64_t>(leaf.type));
            mix(static_cast<std::uint64_t>(leaf.codec.kind));
            for (const double number : {leaf.codec.min, leaf.codec.max, leaf.codec.step})
                mix(std::bit_cast<std::uint64_t>(number));
        }
        for (const Lane& lane : lanes) {
            mix(static_cast<std::uint64_t>(lane.kind));
            mix(lane.bits);
            mix(lane.bounded);
            mix(lane.max);
        }
    };
    mix_row(leaves_, lanes_);
    for (const Part& part : parts_) {
        mix(part.max_length);
        mix_row(part.leaves, part.lanes);
    }
}

}  // namespace shoal::replication::impl
