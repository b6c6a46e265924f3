#include "smoothing.h"

#include <cmath>
#include <numbers>

namespace shoal::replication::impl {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr std::size_t kOfRotation = 4;  // numbers of a quaternion

}  // namespace

Smoothing::Smoothing(ecs::World& world, const Schema& schema) : world_(world) {
    for (const SchemaComponent& component : schema.components()) {
        if (component.role != Role::predicted || component.display.kind == Display::Kind::step) continue;
        components_.push_back({component.type, component.bind(world), count_, component.size,
                               component.display, FloatFields(component.layout)});
        count_ += components_.back().numbers.all.size();
    }
}

/// Adds full turns to angles, and changes the signs of quaternions, so that `numbers` are nearest to `to`
/// and mean the same. Changes the same signs in `offsets`.
void Smoothing::align(const Component& component, const std::vector<double>& to, std::vector<double>& numbers,
                      std::vector<double>* offsets) {
    const std::size_t end = component.first + component.numbers.all.size();
    if (component.display.kind == Display::Kind::angular)
        for (std::size_t i = component.first; i < end; ++i)
            numbers[i] = to[i] + std::remainder(numbers[i] - to[i], kTurn);
    if (component.display.kind != Display::Kind::slerp) return;
    for (std::size_t first = component.first; first + kOfRotation <= end; first += kOfRotation) {
        double dot = 0;
        for (std::size_t i = first; i < first + kOfRotation; ++i) dot += to[i] * numbers[i];
        if (!(dot < 0)) continue;  // q and -q are the same rotation
        for (std::size_t i = first; i < first + kOfRotation; ++i) {
            numbers[i] = -numbers[i];
            if (offsets) (*offsets)[i] = -(*offsets)[i];
        }
    }
}

void Smoothing::resize(Shown& shown) const {
    if (shown.is_known.size() == components_.size()) return;
    for (std::vector<double>* const numbers : {&shown.previous, &shown.current, &shown.error, &shown.before})
        numbers->assign(count_, 0);
    shown.is_known.assign(components_.size(), false);
    shown.was_shown.assign(components_.size(), false);
}

void Smoothing::take_tick(ecs::Entity entity, Shown& shown) const {
    resize(shown);
    shown.previous = shown.current;
    for (std::size_t i = 0; i < components_.size(); ++i) {
        const Component& component = components_[i];
        const std::size_t end = component.first + component.numbers.all.size();
        const void* const value = world_.try_get(entity, component.id);
        const bool was_known = shown.is_known[i];
        shown.is_known[i] = value != nullptr;
        if (!value) continue;
        for (std::size_t n = component.first; n < end; ++n)
            shown.current[n] = component.numbers.all[n - component.first].load(value);
        if (was_known) {
            align(component, shown.current, shown.previous, &shown.error);
            continue;
        }
        for (std::size_t n = component.first; n < end; ++n) {
            shown.previous[n] = shown.current[n];
            shown.error[n] = 0;
        }
    }
}

void Smoothing::begin_jump(Shown& shown, double fraction) const {
    resize(shown);
    shown.was_shown = shown.is_known;
    for (std::size_t i = 0; i < count_; ++i) shown.before[i] = mixed(shown, i, fraction) + shown.error[i];
}

void Smoothing::end_jump(Shown& shown, double fraction) const {
    for (std::size_t c = 0; c < shown.is_known.size(); ++c) {
        if (!shown.is_known[c] || !shown.was_shown[c]) continue;
        const Component& component = components_[c];
        const std::size_t end = component.first + component.numbers.all.size();
        for (std::size_t i = component.first; i < end; ++i) shown.error[i] = mixed(shown, i, fraction);
        align(component, shown.error, shown.before);
        for (std::size_t i = component.first; i < end; ++i) {
            const double error = shown.before[i] - shown.error[i], cut = component.display.cut;
            const bool is_shown = std::isfinite(error) && (cut == 0 || std::abs(error) <= cut);
            shown.error[i] = is_shown ? error : 0;
        }
    }
}

void Smoothing::decay(Shown& shown, net::Duration passed) const {
    const double left = std::exp(-static_cast<double>(passed.count()) / static_cast<double>(kDecay.count()));
    for (double& error : shown.error) error *= left;
}

void Smoothing::show(const Shown& shown, double fraction, const void* type, void* value) const {
    for (std::size_t c = 0; c < shown.is_known.size(); ++c) {
        const Component& component = components_[c];
        if (component.type != type || !shown.is_known[c]) continue;
        scratch_.clear();
        for (std::size_t i = 0; i < component.numbers.all.size(); ++i) {
            const std::size_t at = component.first + i;
            const double number = mixed(shown, at, fraction) + shown.error[at];
            const bool is_angle = component.display.kind == Display::Kind::angular;
            scratch_.push_back(is_angle ? std::remainder(number, kTurn) : number);
        }
        for (const std::size_t first : component.numbers.directions) normalise(&scratch_[first], 3);
        if (component.display.kind == Display::Kind::slerp)
            for (std::size_t i = 0; i + kOfRotation <= scratch_.size(); i += kOfRotation)
                normalise(&scratch_[i], kOfRotation);
        for (std::size_t i = 0; i < scratch_.size(); ++i) component.numbers.all[i].store(value, scratch_[i]);
    }
}

}  // namespace shoal::replication::impl
