#include "replication/show/interpolator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::interpolator_test {
namespace {

struct Place {
    float x = 0;
};

Schema schema_to_show() {
    Schema schema;
    schema.component<Place>("place", linear());
    return schema;
}

/// Shows each tick half a tick after it, so that the state of the next tick is missing.
struct Shown {
    void step(bool moves) {
        if (moves)
            for (const ecs::Entity ship : ships) pair.world.set(ship, Place{static_cast<float>(++moved)});
        pair.tick();
        while (const std::optional<SentPacket> packet = pair.encode()) pair.deliver(*packet);
        const Tick tick = pair.next_tick - 1;
        interpolator.set_time({tick, 0.5f}, tick);
        pair.receiver.apply(tick);
        for (const ecs::Entity ship : ships) {
            Place place;
            interpolator.mix(pair.receiver.entity(pair.sender.net_id(ship)), &type_address<Place>, &place);
        }
    }
    void steps(int count, bool moves) {
        while (count-- > 0) step(moves);
    }

    Pair pair{{}, {}, 1, 1, schema_to_show()};
    Interpolator interpolator{pair.schema, pair.receiver.replicas()};
    std::vector<ecs::Entity> ships;
    int moved = 0;
};

TEST(Interpolator, ForgetsEntitiesThatAreGone) {
    Shown shown;
    shown.interpolator.set_tick_us(10'000);
    for (int i = 0; i < 10; ++i) shown.ships.push_back(shown.pair.spawn(Place{}));
    shown.steps(5, true);
    EXPECT_EQ(shown.interpolator.blend_count(), 10u);
    while (shown.ships.size() > 4) {
        shown.pair.world.destroy(shown.ships.back());
        shown.ships.pop_back();
    }
    shown.steps(20, false);  // 200 ms
    EXPECT_EQ(shown.interpolator.blend_count(), 10u) << "may be used still";
    shown.steps(10, false);
    EXPECT_EQ(shown.interpolator.blend_count(), 4u);
}

// Goal: an entity that takes the place of another one is not blended with what was shown of that one.
TEST(Interpolator, ANewEntityIsNotBlendedWithOneThatIsGone) {
    Shown shown;
    shown.interpolator.set_tick_us(10'000);
    const auto index = [&](ecs::Entity ship) {
        const Replicas& replicas = shown.pair.receiver.replicas();
        return replicas.ids().find(shown.pair.receiver.entity(shown.pair.sender.net_id(ship)));
    };
    shown.ships.push_back(shown.pair.spawn(Place{}));
    shown.steps(5, true);
    const std::uint32_t former = index(shown.ships[0]);
    shown.pair.world.destroy(shown.ships[0]);
    shown.ships.clear();
    shown.step(false);
    const ecs::Entity ship = shown.pair.spawn(Place{1'000});
    Place place;
    for (int i = 1; i <= 3; ++i) {
        shown.pair.world.set(ship, Place{1'000 + static_cast<float>(i)});
        shown.pair.tick();
        while (const std::optional<SentPacket> packet = shown.pair.encode()) shown.pair.deliver(*packet);
        const Tick tick = shown.pair.next_tick - 1;
        if (i == 3) shown.interpolator.set_time({tick - 1, 0.5f}, tick);
        shown.pair.receiver.apply(tick - 1);
    }
    ASSERT_EQ(index(ship), former);
    shown.interpolator.mix(shown.pair.receiver.entity(shown.pair.sender.net_id(ship)), &type_address<Place>,
                           &place);
    EXPECT_FLOAT_EQ(place.x, 1'002.5f);
}

TEST(Interpolator, AVersionThatArrivesWhileStateIsMissingIsBlended) {
    Shown shown;
    shown.interpolator.set_tick_us(10'000);
    shown.ships.push_back(shown.pair.spawn(Place{}));
    shown.steps(5, true);
    shown.pair.world.set(shown.ships[0], Place{50});
    shown.pair.deliver(shown.pair.tick_and_encode());
    const Tick tick = shown.pair.next_tick - 1;
    shown.interpolator.set_time({tick, 0.5f}, tick);
    const auto mixed = [&] {
        Place place{-1};
        shown.interpolator.mix(shown.pair.receiver.entity(shown.pair.sender.net_id(shown.ships[0])),
                               &type_address<Place>, &place);
        return place.x;
    };
    shown.pair.receiver.apply(tick);
    EXPECT_GT(mixed(), 5) << "goes on from what was shown";
    EXPECT_LT(mixed(), 50);
}

struct Depth {
    int sensor = 0;
    double metres = 0;
};
struct Flag {
    float height = 0;
};

Flag mix_flags(const Flag& a, const Flag& b, float t) {
    return {a.height + (b.height - a.height) * t};
}

/// A ship at `x`, and -x deep. Its state arrives or is lost, and is then shown at any time.
struct Film {
    explicit Film(std::uint32_t tick_us) { interpolator.set_tick_us(tick_us); }
    static Schema declared() {
        Schema out;
        out.component<Place>("place", linear());
        out.component<Depth>("depth", linear());
        out.component<Flag>("flag", shown_by(mix_flags));
        return out;
    }
    void send(float x, bool arrives = true) {
        pair.world.set(ship, Place{x});
        pair.world.set(ship, Depth{7, -static_cast<double>(x)});
        pair.world.set(ship, Flag{x});
        pair.tick();
        if (const std::optional<SentPacket> packet = pair.encode())
            arrives ? pair.deliver(*packet) : pair.lose(*packet);
    }
    /// In each tick one unit further: in tick n the ship is at n.
    void move_until(Tick tick) {
        while (pair.next_tick <= tick) send(static_cast<float>(pair.next_tick));
    }
    /// One unit back in each tick: in tick n the ship is at 10 - n.
    void turn_until(Tick tick) {
        while (pair.next_tick <= tick) send(10 - static_cast<float>(pair.next_tick));
    }
    template <class T>
    T sample() {
        const ecs::Entity replica = pair.replica(ship);
        T value = pair.mirror.get<T>(replica);
        interpolator.mix(replica, &type_address<T>, &value);
        return value;
    }
    /// Returns where the ship is shown. The depth is blended in the same way.
    float show(double time) {
        const double whole = std::floor(time);
        const RenderTime at{static_cast<Tick>(whole), static_cast<float>(time - whole)};
        interpolator.set_time(at, *pair.receiver.newest_tick());
        pair.receiver.apply(at.tick);
        const float x = sample<Place>().x;
        const Depth depth = sample<Depth>();
        EXPECT_NEAR(depth.metres, -static_cast<double>(x), 1e-4) << time;
        EXPECT_EQ(depth.sensor, 7);
        return x;
    }

    Pair pair{{}, {}, 1, 1, declared()};
    Interpolator interpolator{pair.schema, pair.receiver.replicas()};
    const ecs::Entity ship = pair.spawn(Place{}, Depth{}, Flag{}, Teleports{3});
};

TEST(Interpolator, ABlendLeadsFromWhatWasShownToTheRightPlaceInTheTimeThatTheStateWasMissing) {
    Film film(10'000);
    film.move_until(5);
    EXPECT_FLOAT_EQ(film.show(4.25), 4.25f);
    EXPECT_EQ(film.interpolator.blend_count(), 0u);
    EXPECT_FLOAT_EQ(film.show(5.5), 5.5f) << "missing from here";
    EXPECT_FLOAT_EQ(film.show(5.75), 5.75f);
    EXPECT_FLOAT_EQ(film.show(6.25), 6.25f) << "to here";
    film.turn_until(10);
    EXPECT_FLOAT_EQ(film.show(7.25), 6.25f + (2.75f - 6.25f) * 1 / 1.75f);
    EXPECT_FLOAT_EQ(film.show(7.75), 6.25f + (2.25f - 6.25f) * 1.5f / 1.75f);
    EXPECT_FLOAT_EQ(film.show(8), 2);
    EXPECT_FLOAT_EQ(film.show(8.5), 1.5f);
}

TEST(Interpolator, ABlendTakesAtMostATenthOfASecond) {
    Film film(50'000);  // two ticks
    film.move_until(5);
    EXPECT_FLOAT_EQ(film.show(5.5), 5.5f);
    EXPECT_FLOAT_EQ(film.show(7), 7);
    EXPECT_FLOAT_EQ(film.show(8.5), 7);
    film.turn_until(12);
    EXPECT_FLOAT_EQ(film.show(9), 7 + (1 - 7) * 0.5f / 2);
    EXPECT_FLOAT_EQ(film.show(10.25), 7 + (-0.25f - 7) * 1.75f / 2);
    EXPECT_FLOAT_EQ(film.show(10.5), -0.5f);
}

TEST(Interpolator, StateThatIsMissingAgainDuringABlendIsBlendedFromWhatWasShown) {
    Film film(10'000);
    film.move_until(5);
    film.show(5.25);
    EXPECT_FLOAT_EQ(film.show(6.75), 6.75f);
    film.turn_until(8);
    const auto first = [](float right, float passed) { return 6.75f + (right - 6.75f) * passed / 1.75f; };
    EXPECT_FLOAT_EQ(film.show(7), first(3, 0.25f));
    EXPECT_FLOAT_EQ(film.show(8.25), first(1.75f, 1.5f)) << "missing again";
    const float last = film.show(8.375);
    EXPECT_FLOAT_EQ(last, first(1.625f, 1.625f));
    film.turn_until(10);
    EXPECT_FLOAT_EQ(film.show(8.5), last + (1.5f - last) * 0.125f / 0.25f);
    EXPECT_FLOAT_EQ(film.show(8.75), 1.25f);
}

TEST(Interpolator, ABlendAfterAGapLastsUntilTheNextVersion) {
    for (const std::uint32_t tick_us : {10'000u, 100'000u}) {
        Film film(tick_us);
        film.move_until(5);
        EXPECT_FLOAT_EQ(film.show(5.5), 5.5f);
        for (int i = 0; i < 3; ++i) film.send(6, false);
        film.send(20);
        const float ticks = tick_us == 10'000 ? 3.5f : 2.5f;  // at most 250 ms
        EXPECT_FLOAT_EQ(film.show(6), 5.5f + 14.5f * 0.5f / ticks);
        EXPECT_FLOAT_EQ(film.show(7.75), 5.5f + 14.5f * 2.25f / ticks);
        EXPECT_FLOAT_EQ(film.show(9), 20);
    }
}

TEST(Interpolator, AJumpIsNotBlended) {
    Film film(10'000);
    film.move_until(5);
    film.show(5.25);
    film.show(5.75);
    film.pair.world.set(film.ship, Teleports{0});
    film.send(100);
    film.send(101);
    EXPECT_FLOAT_EQ(film.show(6.5), 100.5f) << "while the state was missing";
    Film other(10'000);
    other.move_until(5);
    other.show(5.25);
    EXPECT_FLOAT_EQ(other.show(6.75), 6.75f);
    other.turn_until(7);
    other.pair.world.set(other.ship, Teleports{0});
    other.send(100);
    other.send(101);
    EXPECT_FLOAT_EQ(other.show(7), 6.75f + (3 - 6.75f) * 0.25f / 1.75f);
    EXPECT_FLOAT_EQ(other.show(8), 100) << "during the blend";
    EXPECT_FLOAT_EQ(other.show(8.25), 100.25f);
}

TEST(Interpolator, WhatTheGameMixesItselfIsNotBlended) {
    Film film(10'000);
    film.move_until(5);
    film.show(5.5);
    EXPECT_FLOAT_EQ(film.sample<Flag>().height, 5.5f);
    EXPECT_EQ(film.interpolator.blend_count(), 2u) << "place and depth";
    film.turn_until(8);
    film.show(6.5);
    EXPECT_FLOAT_EQ(film.sample<Flag>().height, 3.5f);
}

TEST(Interpolator, AnEntityThatEndsDoesNotMoveOn) {
    for (const bool ends : {false, true}) {
        Film film(10'000);
        for (const float x : {1.0f, 3.0f, 5.0f}) {
            film.send(x);
            if (x < 5) film.pair.tick();  // a tick without a version of the ship
        }
        EXPECT_FLOAT_EQ(film.show(5), 5);
        const ecs::Entity replica = film.pair.replica(film.ship);
        film.pair.spawn(Place{});
        if (ends) film.pair.world.destroy(film.ship);
        film.pair.tick();
        while (const std::optional<SentPacket> packet = film.pair.encode()) film.pair.deliver(*packet);
        film.interpolator.set_time({5, 0.5f}, *film.pair.receiver.newest_tick());
        film.pair.receiver.apply(5);
        Place place{5};
        film.interpolator.mix(replica, &type_address<Place>, &place);
        EXPECT_FLOAT_EQ(place.x, ends ? 5 : 5.5f);
    }
}

TEST(Interpolator, AfterAResetNothingIsBlended) {
    Film film(10'000);
    film.move_until(5);
    film.show(5.5);
    film.interpolator.reset();
    EXPECT_EQ(film.interpolator.blend_count(), 0u);
    film.turn_until(8);
    EXPECT_FLOAT_EQ(film.show(6.5), 3.5f);
}

TEST(Interpolator, TheFirstTwoVersionsAreMixed) {
    Film film(10'000);
    film.move_until(2);
    EXPECT_FLOAT_EQ(film.show(1.25), 1.25f);
    EXPECT_FLOAT_EQ(film.show(2.5), 2.5f) << "and continued";
}

TEST(Interpolator, MissingStateContinuesTheJourneyBetweenTheTwoNewestVersions) {
    Film film(10'000);
    for (const float x : {0.0f, 1.0f, 5.0f, 7.0f}) film.send(x);
    EXPECT_FLOAT_EQ(film.show(4.5), 8);
}

TEST(Interpolator, OnlyDelayedReplicasWithADisplayAreMixed) {
    Film film(10'000);
    film.move_until(5);
    film.interpolator.set_time({5, 0.5f}, 5);
    film.pair.receiver.apply();
    EXPECT_FLOAT_EQ(film.sample<Place>().x, 5) << "shown as of the newest version";
    Film other(10'000);
    other.move_until(5);
    EXPECT_FLOAT_EQ(other.show(3.5), 3.5f);
    const auto place = static_cast<ComponentIndex>(other.pair.schema.find<Place>());
    const ecs::Entity replica = other.pair.replica(other.ship);
    other.pair.receiver.hold(replica, static_cast<ComponentIndex>(other.pair.schema.find<Depth>()));
    EXPECT_FLOAT_EQ(other.sample<Place>().x, 3.5f);
    EXPECT_DOUBLE_EQ(other.sample<Depth>().metres, -3) << "the client decides it";
    other.pair.receiver.hold(replica, place);
    EXPECT_FLOAT_EQ(other.sample<Place>().x, 3);
    other.pair.receiver.release(replica, place);
    EXPECT_FLOAT_EQ(other.sample<Place>().x, 3.5f);
    const ecs::Entity local = other.pair.mirror.spawn(Place{8});
    Place shown{8};
    other.interpolator.mix(local, &type_address<Place>, &shown);
    EXPECT_FLOAT_EQ(shown.x, 8) << "not a replica";
    other.interpolator.mix(replica, &type_address<Film>, &shown);
    EXPECT_FLOAT_EQ(shown.x, 8) << "not a component";
}

}  // namespace
}  // namespace shoal::replication::impl::interpolator_test
