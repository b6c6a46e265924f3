#include "predicted_values.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

namespace shoal::replication::impl {
namespace {

constexpr std::uint32_t kWordBits = 32;

bool is_nan(const Leaf& leaf, const void* value) {
    if (leaf.type != FieldType::f32 && leaf.type != FieldType::f64) return false;
    for (std::uint32_t i = 0; i < leaf.scalars; ++i)
        if (std::isnan(load_scalar(leaf, value, i))) return true;
    return false;
}

/// Returns the greatest difference between the numbers of a leaf; infinity if only one of two is NaN.
double distance(const Leaf& leaf, const std::byte* a, const std::byte* b) {
    double greatest = 0, greatest_sum = 0;
    for (std::uint32_t i = 0; i < leaf.scalars; ++i) {
        const double x = load_scalar(leaf, a, i), y = load_scalar(leaf, b, i);
        if (std::isnan(x) && std::isnan(y)) continue;
        double difference = std::abs(x - y);
        if (x == y) difference = 0;  // both may be infinite
        if (leaf.codec.kind == FieldCodec::Kind::angle)
            difference = std::abs(std::remainder(difference, 2 * std::numbers::pi));
        if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
        greatest = std::max(greatest, difference);
        greatest_sum = std::max(greatest_sum, std::abs(x + y));
    }
    // q and -q are the same rotation.
    const bool has_two_signs = leaf.codec.kind == FieldCodec::Kind::smallest_three;
    return has_two_signs ? std::min(greatest, greatest_sum) : greatest;
}

bool is_nan_lane(std::uint32_t lane) {
    return (lane & 0x7fff'ffff) > 0x7f80'0000;
}

}  // namespace

PredictedValues::PredictedValues(ecs::World& world, const Schema& schema, EntityMap& map)
    : world_(world), schema_(schema), map_(map) {
    for (std::size_t i = 0; i < schema.components().size(); ++i) {
        const SchemaComponent& component = schema.components()[i];
        if (component.role != Role::predicted) continue;
        const auto lanes = static_cast<std::uint32_t>(component.layout.lanes().size());
        components_.push_back({static_cast<ComponentIndex>(i), component.bind(world), 0, lanes});
    }
    row_words_ = (components_.size() + kWordBits - 1) / kWordBits;
    for (Component& component : components_) {
        component.first_lane = static_cast<std::uint32_t>(row_words_);
        row_words_ += component.lane_count;
        const SchemaComponent& described = schema.components()[component.index];
        if (described.tolerance)
            for (std::vector<std::byte>& value : values_)
                value.resize(std::max<std::size_t>(value.size(), described.size));
    }
}

/// Returns how many fields have a NaN.
std::uint32_t PredictedValues::capture(const Component& component, void* value, std::uint32_t* lanes) {
    std::uint32_t nan_fields = 0;
    for (const Leaf& leaf : layout(component).leaves()) nan_fields += is_nan(leaf, value);
    layout(component).quantise(value, map_, lanes, parts_, misfits_);
    if (nan_fields != 0 || schema_.is_authority_quantised())
        layout(component).restore(lanes, nullptr, map_, value);
    return nan_fields;
}

std::uint32_t PredictedValues::capture(ecs::Entity entity, std::span<std::uint32_t> row) {
    assert(row.size() == row_words_);
    std::uint32_t nan_fields = 0;
    std::fill(row.begin(), row.end(), 0);
    for (std::size_t i = 0; i < components_.size(); ++i) {
        // No change hook: it was called when the step changed the value.
        void* const value = const_cast<void*>(world_.try_get(entity, components_[i].id));
        if (!value) continue;
        row[i / kWordBits] |= 1u << i % kWordBits;
        nan_fields += capture(components_[i], value, row.data() + components_[i].first_lane);
    }
    return nan_fields;
}

void PredictedValues::capture(const Image& image, std::span<std::uint32_t> row) const {
    assert(row.size() == row_words_);
    std::fill(row.begin(), row.end(), 0);
    if (!image.shape) return;
    for (std::size_t i = 0; i < components_.size(); ++i) {
        const std::uint32_t position = image.shape->find(components_[i].index);
        if (position == Shape::kAbsent) continue;
        row[i / kWordBits] |= 1u << i % kWordBits;
        std::copy_n(image.lanes(position), components_[i].lane_count, row.data() + components_[i].first_lane);
    }
}

std::uint32_t PredictedValues::difference(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b,
                                          ComponentIndex* first) const {
    assert(a.size() == row_words_ && b.size() == row_words_);
    if (std::equal(a.begin(), a.end(), b.begin())) return 0;
    std::uint32_t greatest = 0;
    for (std::size_t i = 0; i < components_.size() && greatest != kOther; ++i) {
        const bool is_in_both = ((a[i / kWordBits] ^ b[i / kWordBits]) >> i % kWordBits & 1) == 0;
        const std::uint32_t found = is_in_both ? lane_difference(components_[i], a, b) : kOther;
        if (first && found != 0 && greatest == 0) *first = components_[i].index;
        greatest = std::max(greatest, found);
    }
    return greatest;
}

std::uint32_t PredictedValues::lane_difference(const Component& component, std::span<const std::uint32_t> a,
                                               std::span<const std::uint32_t> b) const {
    const ComponentLayout& layout = this->layout(component);
    const std::uint32_t *const of_a = a.data() + component.first_lane, *const of_b =
                                                                           b.data() + component.first_lane;
    const bool has_tolerance = schema_.components()[component.index].tolerance.has_value();
    if (has_tolerance && is_tolerated(component, of_a, of_b)) return 0;
    const std::uint32_t tolerance = has_tolerance || schema_.is_authority_quantised() ? 0 : 1;
    std::uint32_t greatest = 0;
    for (std::uint32_t n = 0; n < component.lane_count; ++n) {
        const std::uint32_t x = of_a[n], y = of_b[n];
        if (x == y) continue;
        if (layout.lanes()[n].kind == LaneKind::real && is_nan_lane(x) && is_nan_lane(y)) continue;
        if (!layout.is_rounded(n)) return kOther;
        const std::uint32_t steps = x < y ? y - x : x - y;
        if (steps > tolerance) greatest = std::max(greatest, steps);
    }
    return greatest;
}

/// Compares the lanes of a component that has a tolerance.
bool PredictedValues::is_tolerated(const Component& component, const std::uint32_t* a,
                                   const std::uint32_t* b) const {
    if (std::equal(a, a + component.lane_count, b)) return true;
    layout(component).restore_leaves(a, map_, values_[0].data());
    layout(component).restore_leaves(b, map_, values_[1].data());
    const double tolerance = *schema_.components()[component.index].tolerance;
    const std::vector<Leaf>& leaves = layout(component).leaves();
    return std::all_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) {
        return distance(leaf, values_[0].data(), values_[1].data()) <= (is_number(leaf) ? tolerance : 0);
    });
}

void PredictedValues::watch(ecs::ChangeCollector& changes) const {
    for (const Component& component : components_) changes.watch(component.id);
}

void PredictedValues::round_changes(ecs::ChangeCollector& changes, ecs::ComponentId tag) {
    for (const ecs::ChangeCollector::Change change : changes.changes()) {
        if (!world_.has(change.entity, tag)) continue;
        change.for_each([&](std::uint32_t watch) {
            const Component& component = components_[watch];
            void* const value = const_cast<void*>(world_.try_get(change.entity, component.id));
            if (!value) return;
            lanes_.resize(component.lane_count);
            capture(component, value, lanes_.data());
        });
    }
    changes.clear();
}

}  // namespace shoal::replication::impl
