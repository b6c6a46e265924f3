#pragma once
// A component as numbers: a fixed row of integer lanes and optional variable-length parts.
// Everything behind the schema works on these, not on C++ types.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../ecs/entity.h"

namespace shoal::replication {

/// What a lane's number means to the codec.
enum class LaneKind : std::uint8_t {
    quantity,   // ordered: small differences are likely
    symbol,     // unordered: an enum, a flag, a character, half of a double
    real,       // the bits of a float
    reference,  // the net id of an entity, 0 for none
};

struct Lane {
    LaneKind kind = LaneKind::quantity;
    std::uint8_t bits = 32;  // 1..32: width of `max`
    bool bounded = false;    // range declared or one byte: written plainly when there is no baseline
    std::uint32_t max = std::numeric_limits<std::uint32_t>::max();  // greatest legal value

    bool operator==(const Lane&) const = default;
};

/// Entities to net ids and back, as the world at hand knows them.
class EntityMap {
public:
    /// 0 when `entity` is null, dead or not replicated.
    virtual std::uint32_t to_net(ecs::Entity entity) = 0;
    /// Null when nothing here has that net id.
    virtual ecs::Entity to_entity(std::uint32_t net_id) = 0;

protected:
    ~EntityMap() = default;
};

/// How one field travels, where the default does not fit. Made by the functions below.
struct FieldCodec {
    enum class Kind : std::uint8_t { automatic, quantised, bounded } kind = Kind::automatic;
    double min = 0, max = 0, step = 0;
    std::uint32_t max_length = 0;  // of the string or vector; 0: the default

    /// The same codec for the elements of a vector of at most `length`.
    constexpr FieldCodec up_to(std::uint32_t length) const {
        FieldCodec out = *this;
        out.max_length = length;
        return out;
    }
};

/// A float or double as a whole number of steps above `min`; values outside are clamped, NaN
/// becomes `min`. min < max, step > 0, less than 2^32 steps, and steps that the type can tell apart. If
/// the step does not divide the range, the last whole step is the greatest value.
constexpr FieldCodec quantised(double min, double max, double step) {
    return {FieldCodec::Kind::quantised, min, max, step, 0};
}
/// An integer or enum within [min, max], both within +-2^53; values outside are clamped.
constexpr FieldCodec bounded(double min, double max) {
    return {FieldCodec::Kind::bounded, min, max, 1, 0};
}
/// Greatest length of a string (bytes) or vector (elements); what is longer is cut and counted.
constexpr FieldCodec max_length(std::uint32_t length) {
    return {FieldCodec::Kind::automatic, 0, 0, 0, length};
}

inline constexpr std::uint32_t kDefaultMaxString = 64;  // bytes
inline constexpr std::uint32_t kDefaultMaxVector = 16;  // elements

/// C++ type of a field that fits in one or two lanes.
enum class FieldType : std::uint8_t { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, entity };

/// One scalar inside a component.
struct Leaf {
    FieldType type = FieldType::u32;
    bool is_enum = false;
    std::uint32_t offset = 0;  // bytes from the start of the component or element
    FieldCodec codec;
};

/// How a string or vector is reached without its type.
struct SequenceOps {
    std::size_t (*size)(const void* sequence);
    const void* (*data)(const void* sequence);
    void* (*resize)(void* sequence, std::size_t count);  // returns the new data
};

/// A string or vector inside a component.
struct Part {
    std::uint32_t offset = 0;  // bytes from the start of the component
    std::uint32_t max_count = 0;
    std::uint32_t stride = 1;  // bytes an element
    SequenceOps ops{};
    std::vector<Leaf> leaves;  // of one element
    std::vector<Lane> lanes;   // of one element
};

/// Up to four neighbouring lanes with equal descriptors, which change together; a symbol stands alone.
struct LaneGroup {
    std::uint32_t first = 0;
    std::uint32_t count = 1;
};

/// The lanes and parts of one component type.
/// A value becomes lanes().size() words, and for each part a count and its elements' lanes.
class ComponentLayout {
public:
    void add_leaf(const Leaf& leaf) { leaves_.push_back(leaf); }
    void add_part(Part part) { parts_.push_back(std::move(part)); }

    /// Derives lanes and groups. Returns what is wrong with a codec, empty if nothing is.
    std::string finish();

    const std::vector<Lane>& lanes() const { return lanes_; }
    const std::vector<LaneGroup>& groups() const { return groups_; }
    const std::vector<Part>& parts() const { return parts_; }
    bool has_references() const { return has_references_; }
    bool empty() const { return lanes_.empty() && parts_.empty(); }
    std::size_t max_words() const;

    /// Writes lanes().size() words to `lanes` and appends the parts to `parts`. Returns how many
    /// strings or vectors were longer than declared, and cut.
    unsigned quantise(const void* value, EntityMap& map, std::uint32_t* lanes,
                      std::vector<std::uint32_t>& parts) const;

    /// Writes every field of an existing value. Lanes must be within their maxima.
    void restore(const std::uint32_t* lanes, const std::uint32_t* parts, EntityMap& map, void* value) const;

    /// Words that one component's parts take, beginning at `parts`.
    std::size_t part_words(const std::uint32_t* parts) const;

    /// Calls visit(net_id) for each reference that is not null.
    template <class Visit>
    void for_each_reference(const std::uint32_t* lanes, const std::uint32_t* parts, Visit&& visit) const {
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

    /// Feeds everything that both sides must agree on to `mix(number)`.
    template <class Mix>
    void describe(Mix&& mix) const;

private:
    std::vector<Leaf> leaves_;
    std::vector<Lane> lanes_;
    std::vector<LaneGroup> groups_;
    std::vector<Part> parts_;
    bool has_references_ = false;
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
        mix(part.max_count);
        mix_row(part.leaves, part.lanes);
    }
}

}  // namespace shoal::replication
