#include "smoothing.h"

#include <cmath>
#include <cstring>

namespace shoal::replication {
namespace {

double load(const void* value, std::uint32_t offset, bool is_double) {
    const auto* const at = static_cast<const std::byte*>(value) + offset;
    double wide = 0;
    float narrow = 0;
    if (is_double) {
        std::memcpy(&wide, at, sizeof wide);
        return wide;
    }
    std::memcpy(&narrow, at, sizeof narrow);
    return static_cast<double>(narrow);
}

void store(void* value, std::uint32_t offset, bool is_double, double number) {
    auto* const at = static_cast<std::byte*>(value) + offset;
    const float narrow = static_cast<float>(number);
    if (is_double) {
        std::memcpy(at, &number, sizeof number);
    } else {
        std::memcpy(at, &narrow, sizeof narrow);
    }
}

}  // namespace

Smoothing::Smoothing(ecs::World& world, const Schema& schema) : world_(world) {
    for (const SchemaComponent& component : schema.components()) {
        if (component.role != Role::predicted || component.display.kind != Display::Kind::linear) continue;
        Component out{component.type, component.bind(world), count_, {}};
        for (const Leaf& leaf : component.layout.leaves()) {
            const bool is_double = leaf.type == FieldType::f64;
            if (!is_double && leaf.type != FieldType::f32) continue;
            const std::uint32_t size = is_double ? sizeof(double) : sizeof(float);
            for (std::uint32_t i = 0; i < leaf.scalars; ++i)
                out.numbers.push_back({leaf.offset + i * size, is_double, component.display.cut});
        }
        count_ += out.numbers.size();
        components_.push_back(std::move(out));
    }
}

void Smoothing::take_tick(ecs::Entity entity, Entity& shown) const {
    if (shown.current.size() != count_) {
        shown.previous.resize(count_);
        shown.current.resize(count_);
        shown.error.resize(count_);
        shown.before.resize(count_);
    }
    shown.previous = shown.current;
    for (const Component& component : components_) {
        const void* const value = world_.try_get(entity, component.id);
        for (std::size_t i = 0; i < component.numbers.size() && value; ++i)
            shown.current[component.first + i] =
                load(value, component.numbers[i].offset, component.numbers[i].is_double);
    }
    if (shown.is_new) shown.previous = shown.current;
    shown.is_new = false;
}

void Smoothing::begin_jump(Entity& shown, double fraction) const {
    if (shown.is_new) return;
    for (std::size_t i = 0; i < count_; ++i) shown.before[i] = mixed(shown, i, fraction) + shown.error[i];
}

void Smoothing::end_jump(Entity& shown, double fraction) const {
    if (shown.is_new) return;
    for (const Component& component : components_)
        for (std::size_t i = 0; i < component.numbers.size(); ++i) {
            const std::size_t at = component.first + i;
            const double error = shown.before[at] - mixed(shown, at, fraction),
                         cut = component.numbers[i].cut;
            const bool is_shown = std::isfinite(error) && (cut == 0 || std::abs(error) <= cut);
            shown.error[at] = is_shown ? error : 0;
        }
}

void Smoothing::forget(Entity& shown) const {
    shown.is_new = true;
    std::fill(shown.error.begin(), shown.error.end(), 0);
}

void Smoothing::decay(Entity& shown, net::Duration passed) const {
    const double left = std::exp(-static_cast<double>(passed.count()) / static_cast<double>(kDecay.count()));
    for (double& error : shown.error) error *= left;
}

void Smoothing::show(const Entity& shown, double fraction, const void* type, void* value) const {
    if (shown.is_new) return;
    for (const Component& component : components_) {
        if (component.type != type) continue;
        for (std::size_t i = 0; i < component.numbers.size(); ++i)
            store(value, component.numbers[i].offset, component.numbers[i].is_double,
                  mixed(shown, component.first + i, fraction) + shown.error[component.first + i]);
    }
}

}  // namespace shoal::replication
