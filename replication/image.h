#pragma once
// An entity as numbers: which components it has, and their lanes. What a sender remembers of the
// past and a receiver builds on.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "schema.h"

namespace shoal::replication {

/// A step of the simulation, counted by the server. Compare with is_newer(): it wraps.
using Tick = std::uint32_t;

/// Holds for ticks less than 2^31 apart: over a year at 60 Hz.
constexpr bool is_newer(Tick a, Tick b) {
    return static_cast<std::int32_t>(a - b) > 0;
}

/// A set of components and where their lanes lie in an image. One object per set and table, so
/// that equal sets have equal addresses.
struct Shape {
    static constexpr std::uint32_t kAbsent = 0xffffffff;

    std::vector<ComponentIndex> components;  // ascending
    std::vector<std::uint32_t> lanes;        // first word of each component's lanes
    std::uint32_t lane_words = 0;            // of all components; the parts follow
    bool has_references = false;

    /// Position of `component` in components, or kAbsent.
    std::uint32_t find(ComponentIndex component) const;
};

class ShapeTable {
public:
    explicit ShapeTable(const Schema& schema, std::size_t max_shapes = SIZE_MAX)
        : schema_(schema), max_shapes_(max_shapes) {}

    /// `components` ascending, each below the schema's size. Lives as long as the table. Null if it
    /// would be one more than max_shapes.
    const Shape* shape(std::span<const ComponentIndex> components);

    const Schema& schema() const { return schema_; }

private:
    struct Less {
        using is_transparent = void;
        bool operator()(std::span<const ComponentIndex> a, std::span<const ComponentIndex> b) const;
    };

    const Schema& schema_;
    std::size_t max_shapes_;
    std::map<std::vector<ComponentIndex>, std::unique_ptr<Shape>, Less> shapes_;
};

/// Quantised state of an entity: its shape's lanes in order, then the parts in the same order.
/// Does not own its words.
struct Image {
    const Shape* shape = nullptr;  // null: no entity, nothing known
    std::span<const std::uint32_t> words;

    const std::uint32_t* lanes(std::uint32_t position) const { return words.data() + shape->lanes[position]; }
    const std::uint32_t* parts() const { return words.data() + shape->lane_words; }

    friend bool operator==(const Image& a, const Image& b);
};

/// Walks an image's components in order, with each one's lanes and parts.
class ImageCursor {
public:
    ImageCursor(const Schema& schema, const Image& image)
        : schema_(schema), image_(image), parts_(image.shape ? image.parts() : nullptr) {}

    bool at_end() const { return !image_.shape || position_ == image_.shape->components.size(); }
    ComponentIndex component() const { return image_.shape->components[position_]; }
    const ComponentLayout& layout() const { return schema_.components()[component()].layout; }
    const std::uint32_t* lanes() const { return image_.lanes(position_); }
    const std::uint32_t* parts() const { return parts_; }
    std::size_t part_words() const { return layout().part_words(parts_); }

    void next() {
        parts_ += part_words();
        ++position_;
    }
    /// Moves to the first component not below `component`; true if it is there.
    bool seek(ComponentIndex component) {
        while (!at_end() && this->component() < component) next();
        return !at_end() && this->component() == component;
    }

private:
    const Schema& schema_;
    Image image_;
    const std::uint32_t* parts_;
    std::uint32_t position_ = 0;
};

/// True if both cursors stand on equal values of one component.
bool same_value(const ImageCursor& a, const ImageCursor& b);

}  // namespace shoal::replication
