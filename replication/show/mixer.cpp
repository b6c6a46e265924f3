#include "mixer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <numbers>

namespace shoal::replication::impl {
namespace {

/// Returns the net id of the target of an exclusive relation. Returns 0 if there is none.
std::uint32_t target_of(const Schema& schema, const Image& image, ComponentIndex relation) {
    if (!image.shape->has_pairs) return 0;
    ImageCursor value(schema, image);
    return value.seek(relation) && value.parts()[0] != 0 ? value.parts()[1] : 0;
}

}  // namespace

FloatFields::FloatFields(const ComponentLayout& layout) {
    for (const Leaf& leaf : layout.leaves()) {
        if (!is_float(leaf.type)) continue;
        if (leaf.codec.kind == FieldCodec::Kind::unit_vector) directions.push_back(all.size());
        const auto bytes = static_cast<std::uint32_t>(size_of(leaf.type));
        for (std::uint32_t n = 0; n < leaf.scalars; ++n) all.push_back({leaf.offset + n * bytes, leaf.type});
    }
}

bool normalise(double* numbers, std::size_t size) {
    double square = 0;
    for (std::size_t i = 0; i < size; ++i) square += numbers[i] * numbers[i];
    if (!(square > 0)) return false;
    const double length = std::sqrt(square);
    for (std::size_t i = 0; i < size; ++i) numbers[i] /= length;
    return true;
}

Mixer::Mixer(const Schema& schema) : schema_(schema) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < schema.components().size(); ++i) {
        const SchemaComponent& component = schema.components()[i];
        const auto index = static_cast<ComponentIndex>(i);
        if (component.type == &type_address<Teleports>) teleports_ = index;
        if (component.pairs.is_exclusive && component.pairs.destroys_source) parents_.push_back(index);
        if (component.display.kind == Display::Kind::step) continue;
        Shown shown{component.type, index, FloatFields(component.layout), nullptr, nullptr};
        if (component.display.kind == Display::Kind::own) {
            shown.from = std::make_unique<StructValue>(component);
            shown.to = std::make_unique<StructValue>(component);
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
    const auto shown = std::ranges::find(shown_, type, &Shown::type);
    if (shown == shown_.end()) return false;
    component = shown->component;
    return true;
}

void Mixer::mix(ComponentIndex component, const Mix& mix, EntityMap& map, void* value) const {
    const Shown& shown = this->shown(component);
    const std::uint32_t from = mix.from.shape->find(component), to = mix.to.shape->find(component);
    if (from == Shape::kAbsent || to == Shape::kAbsent || continuity(mix.from) != continuity(mix.to)) return;
    const ComponentLayout& layout = schema_.components()[component].layout;
    if (shown.from) {
        const auto restore = [&](const Image& image, StructValue& to_value) {
            ImageCursor cursor(schema_, image);
            cursor.seek(component);
            layout.restore(cursor.lanes(), cursor.parts(), map, to_value.get());
        };
        restore(mix.from, *shown.from);
        restore(mix.to, *shown.to);
        schema_.components()[component].mix(shown.from->get(), shown.to->get(), mix.weight, value);
        return;
    }
    layout.restore_leaves(mix.from.lanes(from), map, from_.data());
    layout.restore_leaves(mix.to.lanes(to), map, to_.data());
    mix_fields(shown, mix.weight, value);
}

void Mixer::blend(ComponentIndex component, std::span<const std::byte> before, float weight,
                  void* value) const {
    const Shown& shown = this->shown(component);
    assert(!shown.from && before.size() == schema_.components()[component].size);
    std::copy(before.begin(), before.end(), from_.begin());
    std::memcpy(to_.data(), value, before.size());
    mix_fields(shown, weight, value);
}

const Mixer::Shown& Mixer::shown(ComponentIndex component) const {
    const auto found = std::ranges::find(shown_, component, &Shown::component);
    assert(found != shown_.end());
    return *found;
}

void Mixer::mix_fields(const Shown& shown, float weight, void* value) const {
    if (schema_.components()[shown.component].display.kind == Display::Kind::slerp) {
        mix_rotations(shown, weight, value);
    } else {
        mix_numbers(shown, weight, value);
    }
}

bool Mixer::find(const Around& around, const RenderTime& time, Mix& mix) const {
    const Version& shown = around.shown;
    const float passed = static_cast<float>(time.tick - shown.tick) + time.fraction;
    const float interval = around.interval();
    if (around.next) {
        const float gap = static_cast<float>(around.next->tick - shown.tick);
        const float travel_ticks = gap <= 2 * interval ? gap : interval;
        mix = {shown.image, around.next->image, (passed - (gap - travel_ticks)) / travel_ticks};
        return mix.weight > 0;
    }
    if (!around.before || !is_missing(around)) return false;
    const float gap = static_cast<float>(shown.tick - around.before->tick);
    if (gap > 2 * interval) return false;
    mix = {around.before->image, shown.image, 1 + std::min({passed, 2 * interval, most_extrapolated_}) / gap};
    return mix.weight > 1;
}

std::uint64_t Mixer::continuity(const Image& image) const {
    const std::uint32_t position = image.shape->find(teleports_);
    std::uint64_t number = position == Shape::kAbsent ? 0 : *image.lanes(position);
    if (!image.shape->has_pairs) return number;
    for (const ComponentIndex relation : parents_)
        number = number * 0x9e3779b97f4a7c15u + target_of(schema_, image, relation);
    return number;
}

void Mixer::mix_numbers(const Shown& shown, float weight, void* value) const {
    const Display& display = schema_.components()[shown.component].display;
    const double share = static_cast<double>(weight);
    const std::vector<FloatField>& numbers = shown.numbers.all;
    const auto from = [&](const FloatField& n) { return n.load(from_.data()); };
    const auto to = [&](const FloatField& n) { return n.load(to_.data()); };
    if (display.cut > 0)
        for (const FloatField& n : numbers)
            if (std::abs(to(n) - from(n)) > display.cut) return;
    for (const FloatField& n : numbers) {
        if (display.kind == Display::Kind::angular) {
            constexpr double kTurn = 2 * std::numbers::pi;
            const double turn = std::remainder(to(n) - from(n), kTurn);
            n.store(value, std::remainder(from(n) + turn * share, kTurn));
        } else {
            n.store(value, from(n) + (to(n) - from(n)) * share);
        }
    }
    for (const std::size_t first : shown.numbers.directions) {
        double direction[3];
        for (std::size_t i = 0; i < 3; ++i) direction[i] = numbers[first + i].load(value);
        if (!normalise(direction, 3)) continue;
        for (std::size_t i = 0; i < 3; ++i) numbers[first + i].store(value, direction[i]);
    }
}

/// Source: Shoemake, "Animating rotation with quaternion curves", 1985.
void Mixer::mix_rotations(const Shown& shown, float weight, void* value) const {
    const double share = static_cast<double>(weight);
    const std::vector<FloatField>& numbers = shown.numbers.all;
    for (std::size_t first = 0; first + 4 <= numbers.size(); first += 4) {
        double a[4], b[4], dot = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            a[i] = numbers[first + i].load(from_.data());
            b[i] = numbers[first + i].load(to_.data());
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
        double mixed[4];
        for (std::size_t i = 0; i < 4; ++i) mixed[i] = a[i] * of_a + b[i] * of_b;
        if (!normalise(mixed, 4)) continue;
        for (std::size_t i = 0; i < 4; ++i) numbers[first + i].store(value, mixed[i]);
    }
}

}  // namespace shoal::replication::impl
