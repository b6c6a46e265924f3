#pragma once
// The quantised state of an entity: which components it has, their lanes and parts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "schema.h"

namespace shoal::replication::impl {

/// Number of a step of the server's simulation. It wraps around: compare with is_newer().
using Tick = std::uint32_t;

/// Returns whether `a` is after `b`. Correct for ticks less than 2^31 apart: more than a year at 60 Hz.
constexpr bool is_newer(Tick a, Tick b) {
    return static_cast<std::int32_t>(a - b) > 0;
}

/// A tick that will be compared is replaced or forgotten at this age, long before 2^31.
inline constexpr Tick kLongAgo = Tick{1} << 29;

/// Returns whether a component is among others, which are ascending.
inline bool is_in(std::span<const ComponentIndex> components, ComponentIndex component) {
    return !components.empty() && std::binary_search(components.begin(), components.end(), component);
}

/// A set of components, and where their lanes are in an image. A ShapeTable has one Shape per set, so equal
/// sets have the same address.
struct Shape {
    static constexpr std::uint32_t kAbsent = 0xffffffff;

    std::vector<ComponentIndex> components;  // ascending
    std::vector<std::uint32_t> lanes;        // by position: the component's first lane in Image::words
    std::uint32_t lane_words = 0;            // words of all lanes, which come before the parts
    bool has_references = false;
    bool has_pairs = false;
    bool has_parts = false;
    bool has_optional = false;
    bool is_delayed = false;              // a client that interpolates shows it at the render time
    bool has_owned = false;               // the shape has a component with from_owner()
    bool is_restricted = false;           // not everyone gets all components
    std::uint32_t owner_state = kAbsent;  // position of OwnerState in components
    std::uint8_t interval = 0, goal = 0;  // the shortest ones: indices of Schema::intervals() and goals()
    std::size_t cost = 0;                 // see cost_of(); without parts and references
    // Used by a VersionPool: how many versions have this shape, and the number of the shape in the pool, if
    // there are versions.
    mutable std::uint32_t versions = 0;
    mutable std::uint32_t pool_index = 0;

    /// Returns the position of `component` in components, or kAbsent.
    std::uint32_t find(ComponentIndex component) const {
        if (component < components.size() && components[component] == component) return component;
        return search(component);
    }

private:
    std::uint32_t search(ComponentIndex component) const;
};

/// Owns one Shape for each set of components that is in use. The schema must outlive the table.
class ShapeTable {
public:
    explicit ShapeTable(const Schema& schema) : schema_(schema) {}

    /// Returns the shape of `components`, which must ascend and be in the schema. It lives until
    /// drop_unused() finds no version with it, or as long as the table.
    const Shape* shape(std::span<const ComponentIndex> components);

    /// Destroys the shapes that no version has, if there are more than `most`. By default the table keeps at
    /// most 1,024 shapes, or twice as many as are in use.
    void drop_unused() { drop_unused(most_shapes_); }
    void drop_unused(std::size_t most);

    /// Greatest number of shapes.
    static constexpr std::size_t kMaxShapes = 1u << 23;

    std::size_t size() const { return shapes_.size(); }
    /// The memory that the shapes take, roughly, with an archetype of a world for each.
    std::size_t bytes() const { return bytes_; }

    const Schema& schema() const { return schema_; }

private:
    struct Less {
        using is_transparent = void;
        bool operator()(std::span<const ComponentIndex> a, std::span<const ComponentIndex> b) const;
    };

    static constexpr std::size_t kFewShapes = 1024;

    static std::size_t bytes_of(const Shape& shape);

    const Schema& schema_;
    std::size_t most_shapes_ = kFewShapes;  // above it, drop_unused() looks for unused shapes
    std::map<std::span<const ComponentIndex>, std::unique_ptr<Shape>, Less> shapes_;  // by Shape::components
    std::size_t bytes_ = 0;
};

/// Quantised state of an entity: the lanes of all components in the shape's order, then their parts in the
/// same order. Does not own its words.
struct Image {
    const Shape* shape = nullptr;  // null: no state
    std::span<const std::uint32_t> words;

    /// Lanes of the component at `position` in the shape.
    const std::uint32_t* lanes(std::uint32_t position) const { return words.data() + shape->lanes[position]; }
    const std::uint32_t* parts() const { return words.data() + shape->lane_words; }

    friend bool operator==(const Image& a, const Image& b);
};

/// Returns the OwnerState in an image; if it has none, OwnerState{}.
OwnerState owner_state(const Image& image);

/// Returns what an entity with this image costs a client, in bytes: the memory that it takes beside its
/// versions, roughly and at least. A predicted entity counts for kPredictedBytes, and each pair for
/// kPairBytes, because of the time that they take.
std::size_t cost_of(const Schema& schema, const Image& image);
inline constexpr std::uint32_t kPredictedBytes = 256 * 1024;
inline constexpr std::uint32_t kPairBytes = 4 * 1024;

/// Iterates over the components of an image, in the shape's order, with the lanes and parts of each.
class ImageCursor {
public:
    ImageCursor(const Schema& schema, const Image& image) : schema_(schema), words_(image.words.data()) {
        if (!image.shape) return;
        components_ = image.shape->components;
        lanes_ = image.shape->lanes.data();
        parts_ = image.parts();
    }

    bool at_end() const { return position_ == components_.size(); }
    ComponentIndex component() const { return components_[position_]; }
    const ComponentLayout& layout() const { return schema_.components()[component()].layout; }
    const std::uint32_t* lanes() const { return words_ + lanes_[position_]; }
    const std::uint32_t* parts() const { return parts_; }
    std::size_t part_words() const { return static_cast<std::size_t>(layout().parts_end(parts_) - parts_); }

    void next() {
        parts_ = layout().parts_end(parts_);
        ++position_;
    }
    /// Moves forward to the first component that is not below `component`. Returns whether it is `component`.
    bool seek(ComponentIndex component) {
        while (!at_end() && this->component() < component) next();
        return !at_end() && this->component() == component;
    }

private:
    const Schema& schema_;
    const std::uint32_t* words_;
    std::span<const ComponentIndex> components_;
    const std::uint32_t* lanes_ = nullptr;  // Shape::lanes
    const std::uint32_t* parts_ = nullptr;
    std::size_t position_ = 0;
};

/// A hash of an image, to find out whether two sides have the same. Components with from_owner() do not
/// count.
std::uint16_t check_sum(const Schema& schema, const Image& image);

/// Returns whether two cursors at the same component have equal values.
bool same_value(const ImageCursor& a, const ImageCursor& b);

/// Returns who sees that an image was replaced by another one. An owner does not see new values of components
/// with from_owner().
ViewClasses viewers_of_change(const Schema& schema, const Image& before, const Image& now);

/// What a peer gets of an entity.
struct View {
    ViewClasses classes = to_everyone();
    const ComponentNumbers* numbers = nullptr;  // numbers in the peer's schema; null: the same as here

    bool shows(const Schema& schema, ComponentIndex component) const {
        return overlap(schema.components()[component].viewers, classes) &&
               (!numbers || (*numbers)[component] != kUnknownComponent);
    }
    /// Returns whether this is the view of an entity's owner.
    bool is_owner() const { return overlap(classes, to_owner()) && !overlap(classes, to_others()); }
    bool operator==(const View&) const = default;
};

/// Returns the part of an image that `view` shows. Its shape is one of `shapes`, its words are in `words`.
Image visible_part(const Image& image, const View& view, ShapeTable& shapes,
                   std::vector<std::uint32_t>& words);

/// Returns `now`, but components with from_owner() that both images have get the values of `before`. The
/// result refers to `words`, which must not be the words of an argument.
Image keep_owned(const Schema& schema, const Image& before, const Image& now,
                 std::vector<std::uint32_t>& words);

}  // namespace shoal::replication::impl
