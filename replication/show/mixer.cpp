#include "mixer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numbers>

namespace shoal::replication {
namespace {

double load_number(const void* object, std::uint32_t offset, bool is_double) {
    const std::byte* const at = static_cast<const std::byte*>(object) + offset;
    if (is_double) {
        double number;
        std::memcpy(&number, at, sizeof number);
        return number;
    }
    float number;
    std::memcpy(&number, at, sizeof number);
    return static_cast<double>(number);
}

void store_number(void* object, std::uint32_t offset, bool is_double, double number) {
    std::byte* const at = static_cast<std::byte*>(object) + offset;
    if (is_double) {
        std::memcpy(at, &number, sizeof number);
    } else {
        const float single = static_cast<float>(number);
        std::memcpy(at, &single, sizeof single);
    }
}

/// Returns the net id of the target of an exclusive relation. Returns 0 if there is none.
std::uint32_t target_of(const Schema& schema, const Image& image, ComponentIndex relation) {
    if (!image.shape->has_pairs) return 0;
    ImageCursor value(schema, image);
    return value.seek(relation) && value.parts()[0] != 0 ? value.parts()[1] : 0;
}

}  // namespace

Mixer::Mixer(const Schema& schema) : schema_(schema) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < schema.components().size(); ++i) {
        const SchemaComponent& component = schema.components()[i];
        const auto index = static_cast<ComponentIndex>(i);
        if (component.type == &detail::type_address<Teleports>) teleports_ = index;
        if (component.pairs.is_exclusive && component.pairs.destroys_source) parents_.push_back(index);
        if (component.display.kind == Display::Kind::step) continue;
        Shown shown{component.type, index, {}, {}};
        for (const Leaf& leaf : component.layout.leaves()) {
            const bool is_double = leaf.type == FieldType::f64;
            if (!is_double && leaf.type != FieldType::f32) continue;
            if (leaf.codec.kind == FieldCodec::Kind::unit_vector)
                shown.directions.push_back(shown.numbers.size());
            for (std::uint32_t n = 0; n < leaf.scalars; ++n)
                shown.numbers.push_back({leaf.offset + n * (is_double ? 8 : 4), is_double});
        }
        shown_.push_back(std::move(shown));
        bytes = std::max<std::size_t>(bytes, component.size);
    }
    from_.resize(bytes);
    to_.resize(bytes);
}

void Mixer::set_tick_us(std::uint32_t tick_us) {
    most_extrapolated_ = static_cast<float>(kMaxExtrapolation.count()) / static_cast<float>(tick_us);
}

bool Mixer::shows(const void* type, ComponentIndex& component) const {
    const auto shown =
        std::find_if(shown_.begin(), shown_.end(), [&](const Shown& known) { return known.type == type; });
    if (shown == shown_.end()) return false;
    component = shown->component;
    return true;
}

void Mixer::mix(ComponentIndex component, const Mix& mix, EntityMap& map, void* value) const {
    const auto shown = std::find_if(shown_.begin(), shown_.end(),
                                    [&](const Shown& known) { return known.component == component; });
    assert(shown != shown_.end());
    const std::uint32_t from = mix.from.shape->find(component), to = mix.to.shape->find(component);
    if (from == Shape::kAbsent || to == Shape::kAbsent || !is_one_journey(mix.from, mix.to)) return;
    const ComponentLayout& layout = schema_.components()[component].layout;
    layout.restore_leaves(mix.from.lanes(from), map, from_.data());
    layout.restore_leaves(mix.to.lanes(to), map, to_.data());
    if (schema_.components()[component].display.kind == Display::Kind::slerp) {
        mix_rotations(*shown, mix.weight, value);
    } else {
        mix_numbers(*shown, mix.weight, value);
    }
}

bool Mixer::find(const Around& around, const RenderTime& time, Mix& mix) const {
    const Version& shown = around.shown;
    const float passed = static_cast<float>(time.tick - shown.tick) + time.fraction;
    const float interval = around.mean_gap == 0 ? 1 : around.mean_gap;
    if (around.next) {
        const float gap = static_cast<float>(around.next->tick - shown.tick);
        const float journey = gap <= 2 * interval ? gap : interval;
        mix = {shown.image, around.next->image, (passed - (gap - journey)) / journey};
        return mix.weight > 0;
    }
    // Otherwise it has stopped.
    const bool is_late = static_cast<float>(around.newest - shown.tick) < std::round(interval);
    if (!around.before || around.is_last || !is_late) return false;
    const float gap = static_cast<float>(shown.tick - around.before->tick);
    if (gap > 2 * interval) return false;
    mix = {around.before->image, shown.image, 1 + std::min({passed, 2 * interval, most_extrapolated_}) / gap};
    return mix.weight > 1;
}

bool Mixer::is_one_journey(const Image& a, const Image& b) const {
    const auto teleports = [this](const Image& image) {
        const std::uint32_t position = image.shape->find(teleports_);
        return position == Shape::kAbsent ? 0 : *image.lanes(position);
    };
    if (teleports(a) != teleports(b)) return false;
    if (!a.shape->has_pairs && !b.shape->has_pairs) return true;
    return std::all_of(parents_.begin(), parents_.end(), [&](ComponentIndex relation) {
        return target_of(schema_, a, relation) == target_of(schema_, b, relation);
    });
}

void Mixer::mix_numbers(const Shown& shown, float weight, void* value) const {
    const Display& display = schema_.components()[shown.component].display;
    const double share = static_cast<double>(weight);
    const auto from = [&](const Number& n) { return load_number(from_.data(), n.offset, n.is_double); };
    const auto to = [&](const Number& n) { return load_number(to_.data(), n.offset, n.is_double); };
    if (display.cut > 0)
        for (const Number& n : shown.numbers)
            if (std::abs(to(n) - from(n)) > display.cut) return;
    for (const Number& n : shown.numbers) {
        if (display.kind == Display::Kind::angular) {
            constexpr double kTurn = 2 * std::numbers::pi;
            const double turn = std::remainder(to(n) - from(n), kTurn);
            store_number(value, n.offset, n.is_double, std::remainder(from(n) + turn * share, kTurn));
        } else {
            store_number(value, n.offset, n.is_double, from(n) + (to(n) - from(n)) * share);
        }
    }
    for (const std::size_t first : shown.directions) {
        double square = 0;
        for (std::size_t i = first; i < first + 3; ++i) {
            const Number& n = shown.numbers[i];
            square += std::pow(load_number(value, n.offset, n.is_double), 2);
        }
        if (!(square > 0)) continue;
        for (std::size_t i = first; i < first + 3; ++i) {
            const Number& n = shown.numbers[i];
            store_number(value, n.offset, n.is_double,
                         load_number(value, n.offset, n.is_double) / std::sqrt(square));
        }
    }
}

/// Source: Shoemake, "Animating rotation with quaternion curves", 1985.
void Mixer::mix_rotations(const Shown& shown, float weight, void* value) const {
    const double share = static_cast<double>(weight);
    for (std::size_t first = 0; first + 4 <= shown.numbers.size(); first += 4) {
        double a[4], b[4], dot = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            const Number& n = shown.numbers[first + i];
            a[i] = load_number(from_.data(), n.offset, n.is_double);
            b[i] = load_number(to_.data(), n.offset, n.is_double);
            dot += a[i] * b[i];
        }
        double of_a = 1 - share, of_b = share;
        const double cosine = std::min(std::abs(dot), 1.0);
        if (cosine < 0.9995) {
            const double angle = std::acos(cosine), sine = std::sin(angle);
            of_a = std::sin(of_a * angle) / sine;
            of_b = std::sin(of_b * angle) / sine;
        }
        if (dot < 0) of_b = -of_b;  // q and -q are the same rotation
        double mixed[4], square = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            mixed[i] = a[i] * of_a + b[i] * of_b;
            square += mixed[i] * mixed[i];
        }
        if (!(square > 0)) continue;
        for (std::size_t i = 0; i < 4; ++i) {
            const Number& n = shown.numbers[first + i];
            store_number(value, n.offset, n.is_double, mixed[i] / std::sqrt(square));
        }
    }
}

}  // namespace shoal::replication
