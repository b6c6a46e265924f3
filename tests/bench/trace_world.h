#pragma once
// Traces as worlds: declares the components, applies one frame at a time, and compares replicas with the
// trace.

#include <bit>
#include <cstdint>
#include <vector>

#include "ecs/world.h"
#include "replication/schema/schema.h"
#include "tests/bench/trace_file.h"

namespace trace {

namespace ecs = shoal::ecs::impl;
using shoal::replication::bounded;
using shoal::replication::field;
using shoal::replication::Replicated;
using shoal::replication::Schema;

/// The interface of a workload. Entities have the numbers of the trace.
class Workload {
public:
    virtual ~Workload() = default;
    virtual void describe(Schema& schema) const = 0;
    virtual std::size_t frame_count() const = 0;
    virtual double frames_per_second() const = 0;
    /// Returns whether the frame counts in the means.
    virtual bool is_counted(std::size_t frame) const = 0;
    /// Returns the frame whose ack has arrived when `frame` is encoded; -1: none yet.
    virtual std::ptrdiff_t acked_at(std::size_t frame, std::size_t distance) const = 0;
    virtual void apply(ecs::World& world, std::size_t frame) = 0;
    /// The entities by number, after the last apply(); null: no entity.
    const std::vector<ecs::Entity>& entities() const { return entities_; }
    /// Returns whether `replica`, in another world, equals entity `number` of the last applied frame.
    virtual bool equals(const ecs::World& world, ecs::Entity replica, std::size_t number) const = 0;

protected:
    std::vector<ecs::Entity> entities_;
};

// Cubes

enum class Axis : std::uint8_t {};

struct Orientation {
    Axis largest;
    std::uint16_t others[3];
};
struct Position {
    std::int32_t x, y, z;
};
struct Interacting {
    bool yes;
};

class CubesWorkload final : public Workload {
public:
    explicit CubesWorkload(CubesTrace trace) : trace_(std::move(trace)) {}

    void describe(Schema& schema) const override {
        schema.component<Orientation>("orientation", field(&Orientation::largest, bounded(0, 3)),
                                      field(&Orientation::others, bounded(0, 511)));
        schema.component<Position>("position", field(&Position::x, bounded(-131072, 131071)),
                                   field(&Position::y, bounded(-131072, 131071)),
                                   field(&Position::z, bounded(0, 16383)));
        schema.component<Interacting>("interacting");
    }
    std::size_t frame_count() const override { return trace_.frames.size(); }
    double frames_per_second() const override { return 60; }
    /// Frames 7 (counted from 0) to the last: they have a baseline at distance 6.
    bool is_counted(std::size_t frame) const override { return frame >= 7; }
    std::ptrdiff_t acked_at(std::size_t frame, std::size_t distance) const override {
        return static_cast<std::ptrdiff_t>(frame) - static_cast<std::ptrdiff_t>(distance);
    }

    void apply(ecs::World& world, std::size_t frame) override {
        frame_ = frame;
        if (entities_.empty())
            for (std::size_t i = 0; i < kCubes; ++i)
                entities_.push_back(world.spawn(orientation(i), position(i), interacting(i), Replicated{}));
        for (std::size_t i = 0; i < kCubes && frame > 0; ++i) {  // a cube that did not change is not written
            if (cube(i) == trace_.frames[frame - 1][i]) continue;
            world.set(entities_[i], orientation(i));
            world.set(entities_[i], position(i));
            world.set(entities_[i], interacting(i));
        }
    }

    bool equals(const ecs::World& world, ecs::Entity replica, std::size_t number) const override {
        const Orientation* o = world.try_get<Orientation>(replica);
        const Position* p = world.try_get<Position>(replica);
        const Interacting* i = world.try_get<Interacting>(replica);
        if (!o || !p || !i) return false;
        const CubesTrace::Cube cube{static_cast<std::int32_t>(o->largest),
                                    o->others[0],
                                    o->others[1],
                                    o->others[2],
                                    p->x,
                                    p->y,
                                    p->z,
                                    i->yes};
        return cube == trace_.frames[frame_][number];
    }

private:
    const CubesTrace::Cube& cube(std::size_t i) const { return trace_.frames[frame_][i]; }
    Orientation orientation(std::size_t i) const {
        const CubesTrace::Cube& c = cube(i);
        return {static_cast<Axis>(c[0]),
                {static_cast<std::uint16_t>(c[1]), static_cast<std::uint16_t>(c[2]),
                 static_cast<std::uint16_t>(c[3])}};
    }
    Position position(std::size_t i) const { return {cube(i)[4], cube(i)[5], cube(i)[6]}; }
    Interacting interacting(std::size_t i) const { return {cube(i)[7] != 0}; }

    CubesTrace trace_;
    std::size_t frame_ = 0;
};

// Quake III

enum class Id8 : std::uint8_t {};
enum class Id16 : std::uint16_t {};
enum class Id32 : std::uint32_t {};

template <int>
struct Trajectory {
    std::int32_t time;
    float base[3];
    float delta[3];
    Id8 type;
    std::int32_t duration;
};
struct Event {
    Id16 event;
    Id8 parameter;
};
struct Animation {
    Id8 legs, torso;
    float angles2[3];
};
struct Status {
    Id16 ground;
    Id32 flags;
    Id16 powerups;
};
struct Model {
    Id8 type, weapon, client;
    std::uint32_t solid;
    Id8 model, model2;
};
struct Place {
    float origin[3], origin2[3], angles[3];
};
struct Misc {
    Id16 other, other2;
    Id8 sound, generic;
    std::int32_t time, time2;
    std::uint32_t light;
    Id16 frame;
};

/// All 51 fields of an entity, grouped in components as in a game.
struct QuakeEntity {
    Trajectory<0> position;
    Trajectory<1> angles;
    Event event;
    Animation animation;
    Status status;
    Model model;
    Place place;
    Misc misc;
};

/// References to the fields of an entity, in the order of the trace.
template <class Entity, class Visit>
void for_each_quake_field(Entity& e, Visit&& v) {
    v(e.position.time), v(e.position.base[0]), v(e.position.base[1]), v(e.position.delta[0]);
    v(e.position.delta[1]), v(e.position.base[2]), v(e.angles.base[1]), v(e.position.delta[2]);
    v(e.angles.base[0]), v(e.event.event), v(e.animation.angles2[1]), v(e.model.type);
    v(e.animation.torso), v(e.event.parameter), v(e.animation.legs), v(e.status.ground);
    v(e.position.type), v(e.status.flags), v(e.misc.other), v(e.model.weapon);
    v(e.model.client), v(e.place.angles[1]), v(e.position.duration), v(e.angles.type);
    v(e.place.origin[0]), v(e.place.origin[1]), v(e.place.origin[2]), v(e.model.solid);
    v(e.status.powerups), v(e.model.model), v(e.misc.other2), v(e.misc.sound);
    v(e.misc.generic), v(e.place.origin2[2]), v(e.place.origin2[0]), v(e.place.origin2[1]);
    v(e.model.model2), v(e.place.angles[0]), v(e.misc.time), v(e.angles.time);
    v(e.angles.duration), v(e.angles.base[2]), v(e.angles.delta[0]), v(e.angles.delta[1]);
    v(e.angles.delta[2]), v(e.misc.time2), v(e.place.angles[2]), v(e.animation.angles2[0]);
    v(e.animation.angles2[2]), v(e.misc.light), v(e.misc.frame);
}

class QuakeWorkload final : public Workload {
public:
    explicit QuakeWorkload(QuakeTrace trace) : trace_(std::move(trace)) {
        entities_.resize(kNumbers), states_.resize(kNumbers);
    }

    void describe(Schema& schema) const override {
        schema.component<Trajectory<0>>("position");
        schema.component<Trajectory<1>>("angles");
        schema.component<Event>("event", field(&Event::event, bounded(0, 1023)),
                                field(&Event::parameter, bounded(0, 255)));
        schema.component<Animation>("animation", field(&Animation::legs, bounded(0, 255)),
                                    field(&Animation::torso, bounded(0, 255)));
        schema.component<Status>("status", field(&Status::ground, bounded(0, 1023)));
        schema.component<Model>("model", field(&Model::solid, bounded(0, 0xffffff)));
        schema.component<Place>("place");
        schema.component<Misc>("misc");
    }
    std::size_t frame_count() const override { return trace_.snapshots.size(); }
    double frames_per_second() const override { return 30; }
    bool is_counted(std::size_t frame) const override { return trace_.snapshots[frame].distance != 0; }
    /// The newest earlier frame that is at least the recorded distance back.
    std::ptrdiff_t acked_at(std::size_t frame, std::size_t) const override {
        const QuakeTrace::Snapshot& snapshot = trace_.snapshots[frame];
        if (snapshot.distance == 0) return -1;
        for (std::size_t i = frame; i-- > 0;)
            if (trace_.snapshots[i].message <= snapshot.message - snapshot.distance)
                return static_cast<std::ptrdiff_t>(i);
        return -1;
    }

    void apply(ecs::World& world, std::size_t frame) override {
        const QuakeTrace::Snapshot& snapshot = trace_.snapshots[frame];
        for (const std::uint16_t number : snapshot.removed) {
            world.destroy(entities_[number]);
            entities_[number] = {};
        }
        for (const QuakeTrace::Change& change : snapshot.changed) {
            QuakeEntity& state = states_[change.number];
            if (change.is_new) state = {};
            std::size_t index = 0;
            for_each_quake_field(state, [&](auto& field) {
                if (change.mask >> index & 1) assign(field, change.values[index]);
                ++index;
            });
            ecs::Entity& entity = entities_[change.number];
            if (world.is_alive(entity)) {
                world.set(entity, state.position, state.angles, state.event, state.animation, state.status,
                          state.model, state.place, state.misc);
            } else {
                entity = world.spawn(state.position, state.angles, state.event, state.animation, state.status,
                                     state.model, state.place, state.misc, Replicated{});
            }
        }
    }

    bool equals(const ecs::World& world, ecs::Entity replica, std::size_t number) const override {
        const QuakeEntity& state = states_[number];
        return same(world, replica, state.position) && same(world, replica, state.angles) &&
               same(world, replica, state.event) && same(world, replica, state.animation) &&
               same(world, replica, state.status) && same(world, replica, state.model) &&
               same(world, replica, state.place) && same(world, replica, state.misc);
    }

private:
    static constexpr std::size_t kNumbers = 65536;

    template <class T>
    static void assign(T& field, std::uint32_t bits) {
        if constexpr (std::is_same_v<T, float>) {
            field = std::bit_cast<float>(bits);
        } else {
            field = static_cast<T>(bits);
        }
    }
    /// Compares each field as bits.
    template <class T>
    static bool same(const ecs::World& world, ecs::Entity replica, const T& expected) {
        const T* value = world.try_get<T>(replica);
        if (!value) return false;
        bool equal = true;
        compare(*value, expected, equal);
        return equal;
    }
    template <class T>
    static void compare(const T& a, const T& b, bool& equal) {
        std::array<std::uint32_t, 16> left{}, right{};
        flatten(a, left);
        flatten(b, right);
        equal = left == right;
    }
    template <class T>
    static void flatten(const T& value, std::array<std::uint32_t, 16>& out) {
        std::size_t count = 0;
        shoal::replication::for_each_field(value,
                                           [&](const auto& field) { flatten_field(field, out, count); });
    }
    template <class T>
    static void flatten_field(const T& field, std::array<std::uint32_t, 16>& out, std::size_t& count) {
        if constexpr (std::is_array_v<T>) {
            for (const auto& element : field) flatten_field(element, out, count);
        } else if constexpr (std::is_same_v<T, float>) {
            out[count++] = std::bit_cast<std::uint32_t>(field);
        } else {
            out[count++] = static_cast<std::uint32_t>(field);
        }
    }

    QuakeTrace trace_;
    std::vector<QuakeEntity> states_;
};

}  // namespace trace
