#include <gtest/gtest.h>

#include <algorithm>
#include <numbers>
#include <string>
#include <vector>

#include "replication/world_hash.h"
#include "tests/sim/play_session.h"
#include "tests/sim/show.h"
#include "tests/support/allocations.h"

namespace shoal::sim::interpolation_test {
namespace {

using replication::Replicated;
using replication::Tick;

/// A curve: at most 20 units a second, and 8 units per second squared.
Place curve(double seconds) {
    return {static_cast<float>(50 * std::sin(0.4 * seconds)),
            static_cast<float>(50 * std::cos(0.4 * seconds))};
}

double distance(const Place& a, const Place& b) {
    return std::hypot(static_cast<double>(a.x - b.x), static_cast<double>(a.y - b.y));
}

double quantile(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

TEST(Interpolation, ShowsCurvesWithinAStepAndNoLaterThanThePathNeeds) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(seed);
        Show show({75, 30, 0.05}, seed);
        const ecs::Entity ship = show.world.spawn(Place{}, Replicated{});
        const double tick_s = static_cast<double>(show.tick_us) / 1e6;
        show.on_tick = [&](Tick tick) { show.world.set(ship, curve((tick - 1) * tick_s)); };
        show.run(3000);
        std::vector<double> errors, delays, needs;
        int frames = 0, on_time = 0;
        double last = 0;
        net::Time late_at{0};
        show.on_frame = [&] {
            const ecs::Entity replica = show.replica(ship);
            const auto place = show.client.sample<Place>(replica);
            ASSERT_TRUE(place);
            ASSERT_GE(show.shown(), last);
            last = show.shown();
            frames += 1;
            delays.push_back(show.delay_ms());
            needs.push_back(show.newest_delay_ms());
            // On time: both ticks around the render time have arrived.
            const Tick tick = show.client.render_time()->tick;
            const replication::NetId id = show.server.sender().net_id(ship);
            const auto before = show.client.receiver().at(id, tick),
                       after = show.client.receiver().at(id, tick + 1);
            const bool is_late = !before || !after || before->tick != tick || after->tick != tick + 1;
            if (is_late) late_at = show.now;
            on_time += !is_late;
            // What is shown after missing state is blended.
            if (show.now - late_at <= replication::impl::Mixer::kMaxExtrapolation) return;
            errors.push_back(distance(*place, curve(show.shown() * tick_s)));
        };
        show.run(20'000);
        EXPECT_GT(on_time, frames * 85 / 100);
        EXPECT_GT(errors.size(), static_cast<std::size_t>(frames) / 4);
        // Rounding in two dimensions, and the curvature within a tick.
        EXPECT_LE(*std::max_element(errors.begin(), errors.end()),
                  kPlaceStep * 0.71 + 8 * tick_s * tick_s / 8);
        EXPECT_LT(quantile(delays, 0.5), quantile(needs, 0.98) + 20);
        EXPECT_GT(quantile(delays, 0.5), quantile(needs, 0.9));
    }
}

// The world of a client shows each replica as it was at the render tick, and all of them as of the same tick.
TEST(Interpolation, TheWorldIsThatOfTheRenderTick) {
    Show show({40, 20, 0.05}, 7);
    std::map<Tick, std::vector<std::pair<replication::NetId, Place>>> truth;
    std::vector<ecs::Entity> alive;
    std::uint32_t births = 0;
    show.on_tick = [&](Tick tick) {
        if (tick % 7 == 0) alive.push_back(show.world.spawn(Place{}, Replicated{}));
        if (tick % 7 == 3 && alive.size() > 10) {
            show.world.destroy(alive[tick % alive.size()]);
            alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(tick % alive.size()));
        }
        births += tick % 7 == 0;
        for (std::size_t i = 0; i < alive.size(); ++i)
            show.world.set(alive[i], Place{static_cast<float>(tick % 400), static_cast<float>(i)});
    };
    int whole = 0, checked = 0;
    show.on_frame = [&] {
        if (!show.client.render_time()) return;
        const Tick tick = show.client.render_time()->tick;
        int newest = 0, all = 0;
        show.client.receiver().for_each_entity([&](replication::NetId id, ecs::Entity entity) {
            const auto version = show.client.receiver().at(id, tick);
            ASSERT_TRUE(version) << "net id " << id << " is shown before it exists";
            const float x = show.mirror.get<Place>(entity).x;
            EXPECT_NEAR(static_cast<double>(x), version->tick % 400, 0.01) << "net id " << id;
            newest += version->tick == tick;
            all += 1;
        });
        checked += all > 0;
        whole += all > 0 && newest == all;
    };
    show.run(10'000);
    EXPECT_GT(checked, 1000);
    EXPECT_GT(whole, checked * 80 / 100);
    EXPECT_TRUE(show.client.receiver().is_consistent());
}

TEST(Interpolation, WithoutTheOptionTheNewestStateIsShown) {
    Show show({40, 0, 0}, 7, 60, false);
    const ecs::Entity ship = show.world.spawn(Place{}, Replicated{});
    show.on_tick = [&](Tick tick) { show.world.set(ship, Place{static_cast<float>(tick % 400), 0}); };
    show.run(1000);
    EXPECT_FALSE(show.client.render_time());
    const ecs::Entity replica = show.replica(ship);
    EXPECT_NEAR(static_cast<double>(show.mirror.get<Place>(replica).x),
                *show.client.receiver().newest_tick() % 400, 0.01);
    EXPECT_EQ(show.client.sample<Place>(replica)->x, show.mirror.get<Place>(replica).x);
}

TEST(Interpolation, AuthoritativeIsTheNewestVersion) {
    Show show({40, 0, 0});
    const ecs::Entity ship = show.world.spawn(Place{}, Points{}, Replicated{});
    show.on_tick = [&](Tick tick) {
        show.world.set(ship, Place{static_cast<float>(tick % 400), 0});
        show.world.set(ship, Points{static_cast<std::int32_t>(tick)});
    };
    show.run(1000);
    const ecs::Entity replica = show.replica(ship);
    const Tick newest = *show.client.receiver().newest_tick();
    EXPECT_EQ(show.client.authoritative<Points>(replica)->value, static_cast<std::int32_t>(newest));
    EXPECT_EQ(show.mirror.get<Points>(replica).value,
              static_cast<std::int32_t>(show.client.render_time()->tick));
    EXPECT_EQ(show.client.sample<Points>(replica)->value, show.mirror.get<Points>(replica).value);
    EXPECT_FALSE(show.client.authoritative<Heading>(replica));
    EXPECT_FALSE(show.client.sample<Heading>(replica));
    EXPECT_FALSE(show.client.authoritative<Points>(show.mirror.spawn(Points{})));
}

TEST(Interpolation, EachShownVisitsEveryEntityWithSampledValues) {
    Show show({40, 0, 0});
    const ecs::Entity ship = show.world.spawn(Place{}, Replicated{});
    const ecs::Entity own = show.mirror.spawn(Place{7, 7});
    show.on_tick = [&](Tick tick) { show.world.set(ship, Place{static_cast<float>(tick % 400), 0}); };
    show.run(1000);
    std::map<ecs::Entity, float> seen;
    show.client.each_shown<Place>([&](ecs::Entity entity, const Place& place) { seen[entity] = place.x; });
    EXPECT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[own], 7);
    EXPECT_NEAR(static_cast<double>(seen[show.replica(ship)]), show.shown() + 1, 0.02);
}

// Still since 10, moves at 101: no slow motion in between.
TEST(Interpolation, Trap39AfterStandingStillNothingMovesInSlowMotion) {
    Show show({75, 30, 0});
    const ecs::Entity ship = show.world.spawn(Place{}, Replicated{}),
                      other = show.world.spawn(Place{}, Replicated{});
    constexpr Tick kMoves = 301, kStops = 200;
    show.on_tick = [&](Tick tick) {
        show.world.set(other, Place{static_cast<float>(tick % 400), 0});
        const Tick travelled = tick < kStops ? tick : tick < kMoves ? kStops : tick - (kMoves - 1 - kStops);
        show.world.set(ship, Place{static_cast<float>(travelled) * 0.5f, 0});
    };
    int frames = 0;
    show.on_frame = [&] {
        const auto place = show.client.sample<Place>(show.replica(ship));
        const double tick = show.shown() + 1;
        if (!place || tick < kStops + 1 || tick > kMoves + 20) return;
        frames += 1;
        const double travelled = tick < kMoves - 1 ? kStops : tick - (kMoves - 1 - kStops);
        EXPECT_NEAR(static_cast<double>(place->x), travelled * 0.5, 0.1) << tick;
    };
    show.run(8000);
    EXPECT_GT(frames, 100);
}

TEST(Interpolation, Trap40AnglesAndRotationsTakeTheShorterWay) {
    Show show({40, 10, 0.02});
    const ecs::Entity ship = show.world.spawn(Heading{}, Rotation{}, Replicated{});
    // 17 degrees a tick, so that some tick steps over half a turn. The sign of the quaternion alternates.
    const double step = 0.3;
    show.on_tick = [&](Tick tick) {
        show.world.set(ship, Heading{static_cast<float>(std::remainder(tick * step, 2 * std::numbers::pi))});
        const double half = tick * step / 2, sign = tick % 2 == 0 ? 1 : -1;
        show.world.set(ship, Rotation{0, 0, static_cast<float>(sign * std::sin(half)),
                                      static_cast<float>(sign * std::cos(half))});
    };
    int frames = 0, good = 0;
    show.on_frame = [&] {
        const ecs::Entity replica = show.replica(ship);
        const auto heading = show.client.sample<Heading>(replica);
        const auto rotation = show.client.sample<Rotation>(replica);
        if (!heading || show.now < net::Time(103'000'000)) return;
        const double expected = (show.shown() + 1) * step;
        const double turn =
            2 * std::atan2(static_cast<double>(rotation->z), static_cast<double>(rotation->w));
        frames += 1;
        good += std::abs(std::remainder(static_cast<double>(heading->radians) - expected,
                                        2 * std::numbers::pi)) < 0.01 &&
                std::abs(std::remainder(turn - expected, 2 * std::numbers::pi)) < 0.02;
        EXPECT_LT(std::abs(static_cast<double>(heading->radians)), 3.1416);
    };
    show.run(10'000);
    EXPECT_GT(good, frames * 97 / 100);
}

TEST(Interpolation, Trap41ATeleportIsNoJourneyEvenIfItsPacketIsLost) {
    for (const Tick lost : {0u, 1u, 3u}) {
        SCOPED_TRACE(lost);
        Show show({40, 10, 0});
        const ecs::Entity ship = show.world.spawn(Place{-400, 0}, Replicated{});
        constexpr Tick kJump = 300;
        show.on_tick = [&](Tick tick) {
            const float side = tick < kJump ? -400.0f : 400.0f;
            show.world.set(ship, Place{side + static_cast<float>(tick % 50) * 0.1f, 0});
            if (tick == kJump) show.server.teleport(ship);
            show.is_cut = tick >= kJump && tick < kJump + lost;
        };
        int before = 0, after = 0;
        show.on_frame = [&] {
            const auto place = show.client.sample<Place>(show.replica(ship));
            if (!place) return;
            EXPECT_GT(std::abs(place->x), 390) << "on the way";
            before += place->x < 0;
            after += place->x > 0;
        };
        show.run(8000);
        EXPECT_GT(before, 300);
        EXPECT_GT(after, 300);
    }
}

TEST(Interpolation, Trap42AShotAppearsWhereItsShipIsAndEndsWhereItHits) {
    Show show({75, 30, 0.05}, 3);
    const ecs::Entity ship = show.world.spawn(Place{}, Replicated{});
    ecs::Entity shot;
    show.on_tick = [&](Tick tick) {
        const Place at{static_cast<float>(tick % 300), 0};
        show.world.set(ship, at);
        if (tick % 60 == 0) shot = show.world.spawn(at, Points{1}, Replicated{});
        if (shot && tick % 60 != 0) show.world.patch<Place>(shot, [](Place& place) { place.y += 1; });
        if (shot && tick % 60 == 20) show.world.destroy(std::exchange(shot, {}));
    };
    int appeared = 0, ended = 0;
    const ecs::Hook added = show.mirror.on_add<replication::Replica>(
        [&](ecs::World& mirror, ecs::Entity entity, const replication::Replica&) {
            const ecs::Entity shown_ship = show.replica(ship);
            const Place* const muzzle = mirror.try_get<Place>(shown_ship);
            if (entity == shown_ship || !muzzle) return;
            appeared += 1;
            // A lost first record shows the shot a few ticks later, on its way.
            EXPECT_NEAR(static_cast<double>(muzzle->x - mirror.get<Place>(entity).y),
                        static_cast<double>(mirror.get<Place>(entity).x), 2);
        });
    const ecs::Hook removed = show.mirror.on_remove<replication::Replica>(
        [&](ecs::World& mirror, ecs::Entity entity, const replication::Replica&) {
            ended += 1;
            EXPECT_GE(mirror.get<Place>(entity).y, 17) << "it has reached its goal";
        });
    show.run(20'000);
    EXPECT_GE(appeared, 15);
    EXPECT_GE(ended, 15);
}

// A client predicts its own ship. The correction after a teleport is not shown over some time.
TEST(Interpolation, Trap17ATeleportOfTheOwnShipIsShownAsAJump) {
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(40);
    PlaySession session(play_schema(), link, 1);
    PlaySession::Player& player = *session.players[0];
    player.on_frame = [](PlaySession::Player& of) { of.client.input(Helm{}); };
    session.run(std::chrono::seconds(4));
    ASSERT_TRUE(player.client.is_predicting());
    for (const float goal : {10.0f, -10.0f, 10.0f}) {
        session.world.set(session.ship(player), Spot{goal, 0});
        session.server.teleport(session.ship(player));
        for (int i = 0; i < 100; ++i) {
            session.run(std::chrono::milliseconds(8));
            const float x = player.client.sample<Spot>(session.replica(player))->x;
            EXPECT_TRUE(std::abs(x) < 0.1f || std::abs(std::abs(x) - 10) < 0.1f) << x;
        }
        EXPECT_NEAR(static_cast<double>(player.client.sample<Spot>(session.replica(player))->x),
                    static_cast<double>(goal), 0.1);
    }
}

TEST(Interpolation, AnotherVehicleIsATeleport) {
    Show show({40, 10, 0});
    const ecs::Entity near = show.world.spawn(Place{0, 0}, Replicated{}),
                      far = show.world.spawn(Place{300, 0}, Replicated{}),
                      rider = show.world.spawn(Place{0, 1}, Replicated{});
    show.world.add(rider, ecs::to<Rides>(near));
    show.on_tick = [&](Tick tick) {
        if (tick == 250) show.world.add(rider, ecs::to<Rides>(far));
        show.world.set(rider, Place{tick < 250 ? -100.0f : 100.0f, static_cast<float>(tick % 50)});
    };
    show.on_frame = [&] {
        const auto place = show.client.sample<Place>(show.replica(rider));
        if (!place) return;
        EXPECT_NEAR(std::abs(static_cast<double>(place->x)), 100, 0.01) << "between two vehicles";
    };
    show.run(6000);
    EXPECT_EQ(show.mirror.target<Rides>(show.replica(rider)), show.replica(far));
}

TEST(Interpolation, WhileStateIsMissingTheLastChangeGoesOnForATenthOfASecondAtMost) {
    Show show({40, 5, 0});
    const ecs::Entity ship = show.world.spawn(Place{}, Replicated{});
    show.on_tick = [&](Tick tick) { show.world.set(ship, Place{static_cast<float>(tick % 400), 0}); };
    show.run(3000);
    show.is_cut = true;
    show.run(1000);
    const float newest = show.client.authoritative<Place>(show.replica(ship))->x;
    const float shown = show.client.sample<Place>(show.replica(ship))->x;
    EXPECT_GT(shown, newest + 1.9f);
    EXPECT_LT(shown, newest + 2.1f) << "two intervals";
    show.is_cut = false;
    show.run(1000);
    EXPECT_NEAR(static_cast<double>(show.client.sample<Place>(show.replica(ship))->x), show.shown() + 1,
                0.02);
}

// Goal: a game mixes a component in its own way, which may hold anything. Method: a crane moves along an arc,
// and its text says where it is going.
TEST(Interpolation, AComponentIsMixedByTheFunctionOfTheGame) {
    Show show({30, 0, 0});
    const ecs::Entity crane = show.world.spawn(Crane{}, Replicated{});
    show.on_tick = [&](Tick tick) {
        const float angle = static_cast<float>(tick) / 50;
        show.world.set(crane, Crane{angle, 10, "to " + std::to_string(tick)});
    };
    show.run(2000);
    std::size_t mixed = 0;
    show.on_frame = [&] {
        const Crane shown = *show.client.sample<Crane>(show.replica(crane));
        EXPECT_NEAR(static_cast<double>(shown.angle), (show.shown() + 1) / 50, 0.002);
        mixed += shown.text.starts_with("from ");
        EXPECT_EQ(show.mirror.get<Crane>(show.replica(crane)).text.substr(0, 3), "to ");
    };
    show.run(1000);
    EXPECT_GT(mixed, 50u);
}

// Goal: when the state comes after it was missing, what is shown moves to the right place, and does not jump;
// it jumps after a teleport, or over more than the cut. Method: the ship turns back while all packets are
// lost.
TEST(Interpolation, AfterMissingStateWhatIsShownIsBlended) {
    enum class Case { far, teleport, beyond_cut };
    for (const Case which : {Case::far, Case::teleport, Case::beyond_cut}) {
        SCOPED_TRACE(static_cast<int>(which));
        Show show({20, 0, 0});
        const ecs::Entity ship = show.world.spawn(Place{}, Fenced{}, Replicated{});
        float direction = 1, place = 0;
        show.on_tick = [&](Tick) {
            place += direction * 0.2f;
            show.world.set(ship, Place{place, 0});
            show.world.set(ship, Fenced{place});
        };
        show.run(3000);
        float last = 0, greatest = 0, error = 0;
        int jumps = 0;
        show.on_frame = [&] {
            const bool is_fenced = which == Case::beyond_cut;
            const float now = is_fenced ? show.client.sample<Fenced>(show.replica(ship))->x
                                        : show.client.sample<Place>(show.replica(ship))->x;
            if (last != 0) greatest = std::max(greatest, std::abs(now - last));
            jumps += last != 0 && std::abs(now - last) > 4;
            last = now;
            error = std::abs(now - (is_fenced ? show.mirror.get<Fenced>(show.replica(ship)).x
                                              : show.mirror.get<Place>(show.replica(ship)).x));
        };
        show.run(200);
        EXPECT_LT(greatest, 0.2f) << "without losses";
        show.is_cut = true;
        direction = -1;
        if (which == Case::teleport) show.server.teleport(ship);
        show.run(400);
        show.is_cut = false;
        greatest = 0;
        show.run(300);
        if (which == Case::far) {
            EXPECT_EQ(jumps, 0);
            EXPECT_GT(greatest, 0.3f) << "there was something to blend";
            EXPECT_LT(greatest, 1.5f);
        } else {
            EXPECT_EQ(jumps, 1);
        }
        EXPECT_LT(error, 0.25f) << "blended for a tenth of a second at most";
    }
}

// Method: the rest of the world moves on, or stands still as well: then without loss, since the packet that
// says so is alone. The ship starts anew every 100 ticks.
TEST(Interpolation, AnEntityThatStopsIsNotShownBeyondItsGoal) {
    for (const bool is_quiet : {false, true}) {
        SCOPED_TRACE(is_quiet ? "nothing else moves" : "another entity moves");
        Show show({40, 10, is_quiet ? 0 : 0.05}, 5);
        const ecs::Entity ship = show.world.spawn(Place{}, Replicated{}),
                          other = show.world.spawn(Place{}, Replicated{});
        show.on_tick = [&](Tick tick) {
            const float x = static_cast<float>(std::min(tick % 100, 50u));
            if (x != show.world.get<Place>(ship).x) show.world.set(ship, Place{x, 0});
            if (!is_quiet) show.world.set(other, Place{static_cast<float>(tick % 400), 0});
        };
        int frames = 0;
        show.on_frame = [&] {
            const ecs::Entity replica = show.replica(ship);
            const auto place = show.client.sample<Place>(replica);
            const auto newest = show.client.authoritative<Place>(replica);
            // With state of a later tick, the client knows that the ship has stopped.
            if (!place || newest->x < 49.9f || *show.client.receiver().newest_tick() % 100 == 50) return;
            frames += 1;
            EXPECT_LE(place->x, 50.01f);
        };
        show.run(10'000);
        EXPECT_GT(frames, 100);
    }
}

// Goal: complete() speaks of the world as it is shown. Method: compare its hash with the server's.
TEST(Interpolation, ACompleteTickIsThatOfTheServer) {
    Show show({40, 10, 0.05}, 9);
    const ecs::Entity ship = show.world.spawn(Place{}, Points{}, Replicated{});
    std::map<Tick, std::uint64_t> hashes;
    replication::WorldHash ours(show.world, show.schema), theirs(show.mirror, show.schema);
    ecs::Entity shot;
    show.on_tick = [&](Tick tick) {
        if (tick > 1) hashes[tick - 1] = ours.of_server(show.server.sender().shadow()).hash;
        show.world.set(ship, Place{static_cast<float>(tick % 300), 0});
        if (tick % 30 == 0) shot = show.world.spawn(Place{}, Replicated{});
        if (shot && tick % 30 == 20) show.world.destroy(std::exchange(shot, {}));
    };
    int complete = 0;
    Tick last = 0;
    show.on_frame = [&] {
        const auto ticks = show.client.receiver().complete();
        if (!ticks || ticks->tick == last) return;
        last = ticks->tick;
        complete += 1;
        ASSERT_TRUE(hashes.contains(last));
        EXPECT_EQ(theirs.of_client(show.client.receiver()).hash, hashes[last]) << last;
        EXPECT_LE(last, show.client.render_time()->tick);
    };
    show.run(20'000);
    EXPECT_GT(complete, 500);
}

TEST(Interpolation, AllocatesNothingPerTick) {
    Show show({40, 10, 0.05}, 6);
    std::vector<ecs::Entity> ships;
    for (int i = 0; i < 50; ++i)
        ships.push_back(show.world.spawn(Place{}, Heading{}, Rotation{}, Replicated{}));
    show.on_tick = [&](Tick tick) {
        for (const ecs::Entity ship : ships) show.world.set(ship, Place{static_cast<float>(tick % 400), 0});
    };
    double sum = 0;
    std::uint64_t of_client = 0;
    show.on_frame = [&] {
        const std::uint64_t before = test::allocations();
        show.client.update(show.now);
        show.client.each_shown<Place>(
            [&](ecs::Entity, const Place& at) { sum += static_cast<double>(at.x); });
        of_client += test::allocations() - before;
    };
    show.run(20'000);
    of_client = 0;
    show.run(5000);
    EXPECT_EQ(of_client, 0u);
    EXPECT_NE(sum, 0);
}

TEST(Interpolation, ANewConnectionStartsAnew) {
    Show show({40, 10, 0});
    const ecs::Entity ship = show.world.spawn(Place{}, Replicated{});
    show.on_tick = [&](Tick tick) { show.world.set(ship, Place{static_cast<float>(tick % 400), 0}); };
    show.run(2000);
    const ecs::Entity first = show.replica(ship);
    EXPECT_TRUE(first);
    show.client.connect(Show::kServer);
    show.run(2000);
    EXPECT_FALSE(show.mirror.is_alive(first));
    EXPECT_NEAR(static_cast<double>(show.client.sample<Place>(show.replica(ship))->x), show.shown() + 1,
                0.02);
}

TEST(Interpolation, TicksWrapAround) {
    Show show({40, 10, 0.02}, 4, 60, true, 0u - 200);
    const ecs::Entity ship = show.world.spawn(Place{}, Replicated{});
    int n = 0;
    show.on_tick = [&](Tick) { show.world.set(ship, Place{static_cast<float>(n++ % 450), 0}); };
    show.run(7000);
    EXPECT_LT(show.client.render_time()->tick, 1000u);
    EXPECT_NEAR(static_cast<double>(show.client.sample<Place>(show.replica(ship))->x), show.shown(), 0.02);
}

}  // namespace
}  // namespace shoal::sim::interpolation_test
