#pragma once
// The predicted components of entities, as lanes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../../ecs/change_collector.h"
#include "../../ecs/world.h"
#include "../schema/image.h"
#include "../schema/schema.h"

namespace shoal::replication::impl {

/// Reads and compares the predicted components of entities in one world. A row describes one entity at one
/// tick: which predicted components it has, and their lanes. Not thread-safe.
class PredictedValues {
public:
    struct Component {
        ComponentIndex index;
        ecs::ComponentId id;
        std::uint32_t first_lane;  // index of the component's first lane in a row
        std::uint32_t lane_count;
    };

    /// The arguments must outlive this object. `map` translates references.
    PredictedValues(ecs::World& world, const Schema& schema, EntityMap& map);

    std::span<const Component> components() const { return components_; }
    /// Size of a row, in 32-bit words.
    std::size_t row_words() const { return row_words_; }

    /// Fills a row with the quantised values of a living entity. With Schema::quantise_authority() also
    /// rounds the entity's values to those in the row, without change hooks. Returns how many fields have a
    /// NaN.
    std::uint32_t capture(ecs::Entity entity, std::span<std::uint32_t> row);
    /// Fills a row with the values of an image.
    void capture(const Image& image, std::span<std::uint32_t> row) const;

    /// Compares two rows. Returns 0 if they are equal within the tolerances of the components, see
    /// predicted(). Otherwise returns the greatest difference of a number, in steps of its codec, or kOther
    /// if a difference cannot be counted in steps. Then `first` becomes the first component that differs.
    std::uint32_t difference(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
                             ComponentIndex* first = nullptr) const;
    static constexpr std::uint32_t kOther = 0xffffffff;

    /// For entities with this tag, rounds the predicted components that changed since the last call.
    void round_changes(ecs::ChangeCollector& changes, ecs::ComponentId tag);
    /// Makes `changes` watch the components that round_changes() needs.
    void watch(ecs::ChangeCollector& changes) const;

private:
    std::uint32_t capture(const Component& component, void* value, std::uint32_t* lanes);
    std::uint32_t lane_difference(const Component& component, std::span<const std::uint32_t> a,
                                  std::span<const std::uint32_t> b) const;
    bool is_tolerated(const Component& component, const std::uint32_t* a, const std::uint32_t* b) const;
    const ComponentLayout& layout(const Component& component) const {
        return schema_.components()[component.index].layout;
    }

    ecs::World& world_;
    const Schema& schema_;
    EntityMap& map_;
    std::vector<Component> components_;
    std::size_t row_words_ = 0;
    std::vector<std::uint32_t> lanes_, parts_;
    mutable std::vector<std::byte> values_[2];  // the fields of two components that are compared
    ComponentLayout::Misfits misfits_;
};

}  // namespace shoal::replication::impl
