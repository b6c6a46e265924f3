#include "tests/sim/game.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <sstream>
#include <utility>

namespace shoal::sim {
namespace {

using replication::any_float;
using replication::bounded;
using replication::field;
using replication::max_length;
using replication::quantised;
using replication::Replicated;

constexpr double kSpaceStep = 0.01, kSpeedStep = 1.0 / 64, kRangeStep = 0.5, kBodyStep = 0.125;

// Snapshots

/// Returns the nearest step from `min` on; a simple second implementation of the quantisation.
std::int64_t steps(double value, double min, double max, double step) {
    const double last = std::floor((max - min) / step + 0.5);
    const double nearest = std::floor((value - min) / step + 0.5);
    return static_cast<std::int64_t>(nearest > 0 ? std::min(nearest, last) : 0);
}

class Taker {
public:
    Taker(const NameOf& name_of, Snapshot& out) : name_of_(name_of), out_(out) {}
    void number(std::int64_t value) { out_.values.push_back(value); }
    void bits(std::uint64_t value) { number(std::bit_cast<std::int64_t>(value)); }
    void reference(ecs::Entity entity) { out_.references.push_back(entity ? name_of_(entity) : 0); }
    void text(const std::string& text, std::size_t most) {
        const std::size_t size = std::min(text.size(), most);
        number(static_cast<std::int64_t>(size));
        for (std::size_t i = 0; i < size; ++i) number(text[i]);
    }

private:
    const NameOf& name_of_;
    Snapshot& out_;
};

void take(const Position& p, Taker& out) {
    for (const float f : {p.x, p.y, p.z}) out.number(steps(f, -64, 64, kSpaceStep));
}
void take(const Velocity& v, Taker& out) {
    for (const double d : {v.dx, v.dy}) out.number(steps(d, -20, 20, kSpeedStep));
}
void take(const Health& h, Taker& out) {
    out.number(std::clamp(h.points, -5, 200));
    out.number(h.armour);
}
void take(const Counters& c, Taker& out) {
    out.number(c.nanoseconds);
    out.bits(c.bits);
    for (const std::int64_t n : {std::int64_t{c.score}, std::int64_t{c.small}, std::int64_t{c.tiny},
                                 std::int64_t{c.port}, std::int64_t{c.big}})
        out.number(n);
}
void take(const Mood& m, Taker& out) {
    out.number(static_cast<std::int64_t>(m.stance));
    out.number(static_cast<std::int64_t>(m.weather));
    out.number(m.is_alert);
    out.number(m.is_hidden);
}
void take(const Body& b, Taker& out) {
    for (const Limb& limb : b.limbs) {
        for (const float f : {limb.at.x, limb.at.y}) out.bits(std::bit_cast<std::uint32_t>(f));
        for (const std::uint8_t joint : limb.joints) out.number(joint);
    }
    for (const float f : {b.centre.x, b.centre.y}) out.number(steps(f, -8, 8, kBodyStep));
    for (const std::int16_t angle : b.angles) out.number(angle);
}
void take(const Raw& r, Taker& out) {
    for (const float f : {r.f, r.v.x, r.v.y}) out.bits(std::bit_cast<std::uint32_t>(f));
    out.bits(std::bit_cast<std::uint64_t>(r.d));
}
void take(const Name& n, Taker& out) {
    out.text(n.text, kMaxName);
}
void take(const Bag& b, Taker& out) {
    const std::size_t count = std::min<std::size_t>(b.items.size(), kMaxItems);
    out.number(static_cast<std::int64_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
        out.number(b.items[i].kind);
        out.number(b.items[i].count);
        out.number(b.items[i].is_equipped);
    }
    out.number(b.gold);
}
void take(const Aim& a, Taker& out) {
    out.reference(a.target);
    out.number(steps(a.range, 0, 100, kRangeStep));
}
void take(const Squad& s, Taker& out) {
    const std::size_t count = std::min<std::size_t>(s.members.size(), kMaxMembers);
    out.number(static_cast<std::int64_t>(count));
    for (std::size_t i = 0; i < count; ++i) out.reference(s.members[i]);
    out.text(s.motto, kMaxMotto);
}

void take(const Hold& h, Taker& out) {
    std::uint64_t hash = 14695981039346656037u;
    for (const std::uint8_t byte : h.bytes) hash = (hash ^ byte) * 1099511628211u;
    out.number(static_cast<std::int64_t>(h.bytes.size()));
    out.bits(hash);
}

// Random values: scramble() changes a value slightly or completely

float real(Random& random) {
    static constexpr float kOdd[] = {0.f,
                                     -0.f,
                                     1.f,
                                     -1.f,
                                     1e30f,
                                     -1e-30f,
                                     16777216.f,
                                     0.1f,
                                     std::numeric_limits<float>::infinity(),
                                     -std::numeric_limits<float>::infinity(),
                                     std::numeric_limits<float>::quiet_NaN(),
                                     std::numeric_limits<float>::denorm_min()};
    if (random.chance(0.3)) return random.pick(kOdd);
    if (random.chance(0.3)) return static_cast<float>(random.below(1000)) - 500;
    return static_cast<float>(random.between(-100, 100));
}

std::uint64_t integer(Random& random) {
    static constexpr std::uint64_t kOdd[] = {0,          1,          ~0ull, 1ull << 63, (1ull << 63) - 1,
                                             1ull << 32, 0xffffffff, 255,   32768};
    return random.chance(0.3) ? random.pick(kOdd) : random.next() >> random.below(64);
}

/// Changes the value by some steps, by less than one, to a tie, or to any value, also outside the range.
template <class T>
void nudge(T& value, double min, double max, double step, Random& random) {
    switch (random.below(5)) {
        case 0:
            value = static_cast<T>(random.between(min * 1.2 - 1, max * 1.2 + 1));
            break;
        case 1:
            value += static_cast<T>(step * 0.1);
            break;
        case 2:
            value = static_cast<T>(min + (random.below(50) + 0.5) * step);
            break;
        default:
            value += static_cast<T>(random.between(-20 * step, 20 * step));
            break;
    }
}

std::string letters(Random& random, std::uint32_t most) {
    std::string text(random.below(most + 1), ' ');
    for (char& c : text)
        c = static_cast<char>(random.chance(0.9) ? 'a' + random.below(26) : random.below(256));
    return text;
}

void scramble_text(std::string& text, std::uint32_t most, Random& random) {
    if (!text.empty() && random.chance(0.5)) {
        text[random.below(static_cast<std::uint32_t>(text.size()))] = 'x';
    } else if (random.chance(0.3)) {
        text += 'y';
    } else {
        text = letters(random, most + 3);  // sometimes too long
    }
}

template <class T, class Make>
void scramble_list(std::vector<T>& list, std::uint32_t most, Random& random, Make make) {
    switch (random.below(5)) {
        case 0:
            list.clear();
            break;
        case 1:
            if (!list.empty())
                list.erase(list.begin() + random.below(static_cast<std::uint32_t>(list.size())));
            break;
        case 2:
            if (!list.empty()) list[random.below(static_cast<std::uint32_t>(list.size()))] = make();
            break;
        default:
            if (list.size() < most + 1)
                list.insert(list.begin() + random.below(static_cast<std::uint32_t>(list.size() + 1)), make());
    }
}

void scramble(Position& p, Random& random, const PickEntity&) {
    for (float* f : {&p.x, &p.y, &p.z})
        if (random.chance(0.7)) nudge(*f, -64, 64, kSpaceStep, random);
}
void scramble(Velocity& v, Random& random, const PickEntity&) {
    nudge(random.chance(0.5) ? v.dx : v.dy, -20, 20, kSpeedStep, random);
    if (random.chance(0.02)) v.dx = std::numeric_limits<double>::quiet_NaN();
}
void scramble(Health& h, Random& random, const PickEntity&) {
    h.points += static_cast<std::int32_t>(random.below(60)) - 30;
    h.points = std::clamp(h.points, -50, 250);
    if (random.chance(0.3)) h.armour = static_cast<std::uint8_t>(random.next());
}
void scramble(Counters& c, Random& random, const PickEntity&) {
    switch (random.below(7)) {
        case 0:
            c.nanoseconds = std::bit_cast<std::int64_t>(integer(random));
            break;
        case 1:
            c.bits = integer(random);
            break;
        case 2:
            c.score = static_cast<std::int32_t>(integer(random));
            break;
        case 3:
            c.small = static_cast<std::int16_t>(integer(random));
            break;
        case 4:
            c.tiny = static_cast<std::int8_t>(integer(random));
            break;
        case 5:
            c.port = static_cast<std::uint16_t>(integer(random));
            break;
        default:
            c.big = static_cast<std::uint32_t>(integer(random));
            break;
    }
    c.nanoseconds =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(c.nanoseconds) + random.below(1'000'000));
}
void scramble(Mood& m, Random& random, const PickEntity&) {
    static constexpr Weather kWeathers[] = {Weather::clear, Weather::rain, Weather::storm};
    if (random.chance(0.4)) m.stance = static_cast<Stance>(random.below(4));
    if (random.chance(0.4)) m.weather = random.pick(kWeathers);
    if (random.chance(0.5)) m.is_alert = !m.is_alert;
    if (random.chance(0.2)) m.is_hidden = !m.is_hidden;
}
void scramble(Body& b, Random& random, const PickEntity&) {
    Limb& limb = b.limbs[random.below(2)];
    if (random.chance(0.5)) limb.at.y = real(random);
    nudge(random.chance(0.5) ? b.centre.x : b.centre.y, -8, 8, kBodyStep, random);
    limb.joints[random.below(3)] = static_cast<std::uint8_t>(random.next());
    b.angles[random.below(3)] = static_cast<std::int16_t>(integer(random));
}
void scramble(Raw& r, Random& random, const PickEntity&) {
    if (random.chance(0.5)) r.f = real(random);
    if (random.chance(0.3)) r.d = real(random) * 1.1;
    if (random.chance(0.5)) r.v.x += static_cast<float>(random.below(3)) - 1;
    if (random.chance(0.2)) r.v.y = real(random);
}
void scramble(Name& n, Random& random, const PickEntity&) {
    scramble_text(n.text, kMaxName, random);
}
void scramble(Bag& b, Random& random, const PickEntity&) {
    scramble_list(b.items, kMaxItems, random, [&] {
        return Item{static_cast<std::uint16_t>(random.below(300)), static_cast<std::int32_t>(integer(random)),
                    random.chance(0.5)};
    });
    if (random.chance(0.3)) b.gold += static_cast<std::int32_t>(random.below(100));
}
void scramble(Aim& a, Random& random, const PickEntity& pick) {
    if (random.chance(0.7)) a.target = pick(random);
    if (random.chance(0.4)) nudge(a.range, 0, 100, kRangeStep, random);
}
void scramble(Squad& s, Random& random, const PickEntity& pick) {
    scramble_list(s.members, kMaxMembers, random, [&] { return pick(random); });
    if (random.chance(0.2)) scramble_text(s.motto, kMaxMotto, random);
}

void scramble(Hold& h, Random& random, const PickEntity&) {
    if (h.bytes.empty() || random.chance(0.1)) h.bytes.resize(random.below(20));
    if (h.bytes.empty()) return;
    const std::uint32_t at = random.below(static_cast<std::uint32_t>(h.bytes.size()));
    h.bytes[at] = static_cast<std::uint8_t>(random.next());
}

template <class T>
GameComponent value_component(std::string_view name) {
    GameComponent out{};
    out.name = name;
    out.bind = [](ecs::World& world) { return world.component<T>(); };
    out.take = [](const void* value, const NameOf& name_of, Snapshot& snapshot) {
        Taker taker(name_of, snapshot);
        take(*static_cast<const T*>(value), taker);
    };
    out.add = [](ecs::World& world, ecs::Entity entity, Random& random, const PickEntity& pick) {
        T value{};
        for (std::uint32_t i = random.below(6); i > 0; --i) scramble(value, random, pick);
        world.set(entity, std::move(value));
    };
    out.change = [](ecs::World& world, ecs::Entity entity, Random& random, const PickEntity& pick) -> Undo {
        T old = world.get<T>(entity);
        T value = old;
        if (!random.chance(0.15)) scramble(value, random, pick);  // else writes the same value again
        if (random.chance(0.5)) {
            world.set(entity, std::move(value));
        } else {
            world.patch<T>(entity, [&](T& at) { at = std::move(value); });
        }
        return [entity, old = std::move(old)](ecs::World& in) {
            if (in.is_alive(entity) && in.has<T>(entity)) in.set(entity, T(old));
        };
    };
    return out;
}

template <class T>
GameComponent tag_component(std::string_view name) {
    GameComponent out{};
    out.name = name;
    out.bind = [](ecs::World& world) { return world.component<T>(); };
    out.add = [](ecs::World& world, ecs::Entity entity, Random&, const PickEntity&) { world.add<T>(entity); };
    out.change = [](ecs::World& world, ecs::Entity entity, Random&, const PickEntity&) -> Undo {
        world.remove<T>(entity);
        return [entity](ecs::World& in) {
            if (in.is_alive(entity)) in.add<T>(entity);
        };
    };
    return out;
}

constexpr std::int64_t kMarker = 0x5ca1ab1e'0000'0000;  // begins each component in a snapshot

/// Maps net id n to an entity with index n, and back.
class PlainMap final : public replication::impl::EntityMap {
public:
    std::uint32_t to_net(ecs::Entity entity) override { return entity.index; }
    ecs::Entity to_entity(std::uint32_t net_id) override {
        return net_id == 0 ? ecs::Entity{} : ecs::Entity{net_id, 1};
    }
};

}  // namespace

void describe(replication::Schema& schema, const replication::Display& display) {
    schema.component<Position>("position", quantised(-64, 64, kSpaceStep), display);
    schema.component<Velocity>("velocity", field(&Velocity::dx, quantised(-20, 20, kSpeedStep)),
                               field(&Velocity::dy, quantised(-20, 20, kSpeedStep)));
    schema.component<Health>("health", field(&Health::points, bounded(-5, 200)));
    schema.component<Counters>("counters");
    schema.component<Mood>("mood", field(&Mood::stance, bounded(0, 3)));
    schema.component<Body>("body", field(&Body::limbs, field(&Limb::at, any_float())),
                           field(&Body::centre, quantised(-8, 8, kBodyStep)));
    schema.component<Raw>("raw", any_float());
    schema.component<Name>("name", field(&Name::text, max_length(kMaxName)));
    schema.component<Bag>("bag", field(&Bag::items, max_length(kMaxItems)));
    schema.component<Aim>("aim", field(&Aim::range, quantised(0, 100, kRangeStep)));
    schema.component<Squad>("squad", field(&Squad::members, max_length(kMaxMembers)),
                            field(&Squad::motto, max_length(kMaxMotto)));
    schema.component<Hold>("hold", field(&Hold::bytes, max_length(kMaxHold)));
    schema.tag<Wolf>("wolf");
    schema.tag<Frozen>("frozen");
}

std::span<const GameComponent> game_components() {
    static const GameComponent kComponents[] = {
        value_component<Position>("position"), value_component<Velocity>("velocity"),
        value_component<Health>("health"),     value_component<Counters>("counters"),
        value_component<Mood>("mood"),         value_component<Body>("body"),
        value_component<Raw>("raw"),           value_component<Name>("name"),
        value_component<Bag>("bag"),           value_component<Aim>("aim"),
        value_component<Squad>("squad"),       value_component<Hold>("hold"),
        tag_component<Wolf>("wolf"),           tag_component<Frozen>("frozen"),
    };
    return kComponents;
}

std::vector<ecs::ComponentId> bind_game(ecs::World& world) {
    std::vector<ecs::ComponentId> ids;
    for (const GameComponent& component : game_components()) ids.push_back(component.bind(world));
    return ids;
}

std::string Snapshot::to_string() const {
    std::ostringstream out;
    for (const std::int64_t value : values) {
        const std::uint64_t component = static_cast<std::uint64_t>(value) - std::uint64_t{kMarker};
        if (component < game_components().size()) {
            out << ' ' << game_components()[component].name << ':';
        } else {
            out << ' ' << value;
        }
    }
    out << " | references";
    for (const std::uint64_t name : references) out << ' ' << name;
    return out.str();
}

Snapshot snapshot_of(const ecs::World& world, std::span<const ecs::ComponentId> ids, ecs::Entity entity,
                     const NameOf& name_of, std::uint64_t which) {
    Snapshot out;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if ((which >> i & 1) == 0 || !world.has(entity, ids[i])) continue;
        out.components |= std::uint64_t{1} << i;
        out.values.push_back(kMarker + static_cast<std::int64_t>(i));
        if (const auto take = game_components()[i].take) take(world.try_get(entity, ids[i]), name_of, out);
    }
    return out;
}

Snapshot snapshot_of(const replication::Schema& schema, const replication::impl::Image& image) {
    PlainMap map;
    const NameOf name_of = [](ecs::Entity entity) { return entity.index; };
    Snapshot out;
    for (std::size_t i = 0; i < game_components().size(); ++i) {
        const GameComponent& component = game_components()[i];
        for (replication::impl::ImageCursor at(schema, image); !at.at_end(); at.next()) {
            const replication::impl::SchemaComponent& described = schema.components()[at.component()];
            if (described.name != component.name) continue;
            out.components |= std::uint64_t{1} << i;
            out.values.push_back(kMarker + static_cast<std::int64_t>(i));
            if (!component.take) continue;
            alignas(16) std::byte room[256];
            if (described.size > sizeof room || described.align > 16) std::abort();
            described.construct(room);
            described.layout.restore(at.lanes(), at.parts(), map, room);
            component.take(room, name_of, out);
            described.destroy(room);
        }
    }
    return out;
}

Director::Director(ecs::World& world, std::uint64_t seed, const Style& style)
    : world_(world), random_(seed), style_(style), ids_(bind_game(world)) {
    const std::uint32_t first = random_.below(style_.max_entities + 1);
    for (std::uint32_t i = 0; i < first; ++i) create();
}

void Director::step() {
    if (pause_ticks_ > 0) {
        pause_ticks_ -= 1;
        return;
    }
    if (random_.chance(style_.idle)) pause_ticks_ = 1 + random_.below(40);
    double operations = random_.between(0, 2 * style_.operations);
    if (random_.chance(style_.cluster)) operations *= 10;
    for (int i = 0; i < static_cast<int>(operations); ++i) operate();
    if (!entities_.empty() && random_.chance(style_.large))
        load_hold(entities_[random_.below(static_cast<std::uint32_t>(entities_.size()))]);
    if (style_.turnover > 0 && random_.chance(style_.turnover)) turn_over();
}

void Director::operate() {
    if (!undo_.empty() && random_.chance(0.15)) {
        const std::size_t at = random_.below(static_cast<std::uint32_t>(undo_.size()));
        undo_[at](world_);
        undo_[at] = std::move(undo_.back());
        undo_.pop_back();
        return;
    }
    if (entities_.empty() || (random_.chance(style_.churn * 0.4) && entities_.size() < style_.max_entities)) {
        create();
        return;
    }
    const std::size_t at = random_.below(static_cast<std::uint32_t>(entities_.size()));
    const ecs::Entity entity = entities_[at];
    if (random_.chance(style_.churn)) {
        switch (style_.is_stable ? 2 + random_.below(4) : random_.below(6)) {
            case 0:
                world_.destroy(entity);
                dead_.push_back(entity);
                entities_[at] = entities_.back();
                entities_.pop_back();
                return;
            case 1: {
                if (world_.has<Replicated>(entity)) {
                    world_.remove<Replicated>(entity);
                } else {
                    world_.add<Replicated>(entity);
                }
                if (random_.chance(0.2)) world_.add<Replicated>(entity);
                return;
            }
            case 2:
                world_.set(entity, Secret{static_cast<int>(random_.below(100))});
                return;
            case 3:
                world_.remove(entity, ids_[random_.below(static_cast<std::uint32_t>(ids_.size()))]);
                return;
            default:
                add_something(entity);
                return;
        }
    }
    const std::size_t start = random_.below(static_cast<std::uint32_t>(ids_.size()));
    for (std::size_t i = 0; i < ids_.size(); ++i) {
        const std::size_t component = (start + i) % ids_.size();
        if (!world_.has(entity, ids_[component])) continue;
        undo_.push_back(game_components()[component].change(world_, entity, random_,
                                                            [this](Random&) { return pick_target(); }));
        if (undo_.size() > 30) undo_.erase(undo_.begin());
        return;
    }
}

void Director::shrink_to(std::size_t count) {
    while (entities_.size() > count) {
        world_.destroy(entities_.back());
        dead_.push_back(entities_.back());
        entities_.pop_back();
    }
}

void Director::turn_over() {
    turnovers_ += 1;
    const std::size_t count = entities_.size();
    shrink_to(0);
    while (entities_.size() < count) create();
}

void Director::create() {
    const ecs::Entity entity = world_.spawn();
    entities_.push_back(entity);
    const bool early = random_.chance(0.5);
    if (early && random_.chance(0.85)) world_.add<Replicated>(entity);
    for (std::uint32_t i = random_.below(8); i > 0; --i) add_something(entity);
    if (!early && random_.chance(0.85)) world_.add<Replicated>(entity);
}

void Director::add_something(ecs::Entity entity) {
    const GameComponent& component =
        game_components()[random_.below(static_cast<std::uint32_t>(ids_.size()))];
    component.add(world_, entity, random_, [this](Random&) { return pick_target(); });
}

void Director::load_hold(ecs::Entity entity) {
    Hold hold;
    hold.bytes.resize(1'000 + random_.below(kMaxHold - 1'000));
    for (std::uint8_t& byte : hold.bytes) byte = static_cast<std::uint8_t>(random_.next());
    world_.set(entity, std::move(hold));
}

/// Returns an entity that may be replicated or not, dead or null.
ecs::Entity Director::pick_target() {
    if (random_.chance(0.1)) return {};
    const std::vector<ecs::Entity>& from = !dead_.empty() && random_.chance(0.15) ? dead_ : entities_;
    return from.empty() ? ecs::Entity{} : from[random_.below(static_cast<std::uint32_t>(from.size()))];
}

}  // namespace shoal::sim
