// Rule 38: messages and events of actions beside the changes of the entities that they name.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/replication/support/play.h"

namespace shoal::replication::impl::events_beside_state_test {
namespace {

struct Spot {
    float x = 0;
};
struct Score {
    std::int32_t points = 0;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};
template <int>
struct Bang {
    ecs::Entity what;
    std::int32_t number = 0;
};
using Boom = Bang<0>;
using Goal = Bang<1>;   // with_state()
using Blast = Bang<2>;  // an action
using Burst = Bang<3>;  // an action with_state()
/// A player's action that destroys its target.
struct Shoot {
    ecs::Entity target;
    void mutate(Act& act) const {
        if (act.world.is_alive(target)) act.destroy(target);
    }
};

Schema describe(bool is_shown) {
    Schema out;
    is_shown ? out.component<Spot>("spot", quantised(-100, 100, 0.01), linear())
             : out.component<Spot>("spot", quantised(-100, 100, 0.01));
    out.component<Score>("score");
    out.pair<PartOf>("part_of");
    out.message<Boom>("boom");
    out.message<Goal>("goal", with_state());
    out.action<Blast>("blast");
    out.action<Burst>("burst", with_state());
    out.action<Shoot>("shoot");
    return out;
}

struct Heard {
    std::int32_t number = 0;
    bool is_found = false, is_late = false;
    std::int32_t points = 0;  // of the entity
    net::Time at{0};
};

/// Players that note what they hear. The first one is asked.
struct Field : Play {
    explicit Field(bool is_shown, net::LinkConfig link = {}, std::uint64_t seed = 1)
        : Play(describe(is_shown), link, seed) {
        server.on_join([this](PlayerId) { return world.spawn(Spot{}, Replicated{}); });
        Guest& guest = join();
        const auto note = [&](const auto& boom, bool is_late) {
            const Score* const score = boom.what ? guest.world.try_get<Score>(boom.what) : nullptr;
            heard.push_back({boom.number, bool(boom.what), is_late, score ? score->points : 0, now});
        };
        guest.client.on<Boom>([=](const Boom& it, const MessageInfo& info) { note(it, info.is_late); });
        guest.client.on<Goal>([=](const Goal& it, const MessageInfo& info) { note(it, info.is_late); });
        guest.client.on<Blast>([=](const Blast& it, const Call& call) { note(it, call.is_late); });
        guest.client.on<Burst>([=](const Burst& it, const Call& call) { note(it, call.is_late); });
        guest.client.on<Shoot>([=](const Shoot& it, const Call& call) {
            note(Boom{it.target, 0}, call.is_late);
        });
        join();
    }
    enum class How { message, unordered, with_state, action, action_with_state, of_player, kCount };
    void tell(How how, ecs::Entity what, std::int32_t number) {
        switch (how) {
            case How::message:
                server.send_all(Boom{what, number});
                break;
            case How::unordered:
                server.send_all(Boom{what, number}, net::unordered());
                break;
            case How::with_state:
                server.send_all(Goal{what, number});
                break;
            case How::action_with_state:
                server.act(Burst{what, number});
                break;
            default:
                server.act(Blast{what, number});
        }
    }
    std::vector<Heard> heard;
};

enum class Change {
    destroy,
    destroy_later,
    spawn_and_destroy,
    spawn,
    stop,
    destroy_target,
    destroy_keyed,
    respawn_keyed,
    spawn_and_destroy_keyed,
    keyed_returns,  // an entity with this key had ended
    kCount
};

TEST(EventsBesideState, AnEventFindsWhatItNamesAndWaitsForNothingThatHasEnded) {
    for (const bool is_shown : {false, true})
        for (const double loss : {0.0, 0.3})
            for (int change_at = 0; change_at < int(Change::kCount); ++change_at)
                for (int how_at = 0; how_at < int(Field::How::kCount); ++how_at) {
                    const auto change = static_cast<Change>(change_at);
                    const auto how = static_cast<Field::How>(how_at);
                    const bool is_gone_at_once =
                        change == Change::spawn_and_destroy || change == Change::spawn_and_destroy_keyed;
                    const bool is_new =
                        is_gone_at_once || change == Change::spawn || change == Change::keyed_returns;
                    if (how == Field::How::of_player && is_new) continue;
                    SCOPED_TRACE(testing::Message() << "shown " << is_shown << " loss " << loss << " change "
                                                    << change_at << " how " << how_at);
                    Field field(is_shown, {.latency = std::chrono::milliseconds(30)},
                                1 + static_cast<std::uint64_t>(how_at));
                    ecs::World& world = field.world;
                    const auto spawn = [&] {
                        return change >= Change::destroy_keyed
                                   ? world.spawn(Spot{1}, Score{5}, StableKey{7}, Replicated{})
                                   : world.spawn(Spot{1}, Score{5}, Replicated{});
                    };
                    ecs::Entity named = is_new ? ecs::Entity{} : spawn(), ship;
                    if (change == Change::destroy_target) {
                        ship = world.spawn(Spot{2}, Replicated{});
                        world.add(named, ecs::to<PartOf>(ship));
                    }
                    if (change == Change::keyed_returns) {
                        const ecs::Entity former = spawn();
                        field.run(60);
                        field.tell(Field::How::message, former, 0);
                        world.destroy(former);
                    }
                    field.run(60);
                    field.heard.clear();
                    field.set_link({.latency = std::chrono::milliseconds(30), .loss = loss});
                    const net::Time sent = field.now;
                    if (how == Field::How::of_player) {
                        Play::Guest& actor = *field.guests[1];
                        actor.client.act(Shoot{field.replica(actor, named)});
                    } else {
                        if (is_new) named = spawn();
                        field.tell(how, named, 0);
                        if (change == Change::destroy_later) field.run(1);
                        if (change == Change::stop) world.remove<Replicated>(named);
                        if (change == Change::destroy_target)
                            world.destroy(ship);
                        else if (change != Change::stop && change != Change::spawn &&
                                 change != Change::keyed_returns)
                            world.destroy(named);
                        if (change == Change::respawn_keyed) spawn();
                    }
                    field.tell(how == Field::How::of_player ? Field::How::action : how, {}, 1);
                    field.run(90);
                    ASSERT_EQ(field.heard.size(), 2u);
                    if (how == Field::How::of_player || how == Field::How::unordered)
                        std::ranges::sort(field.heard, {}, &Heard::number);
                    EXPECT_EQ(field.heard[0].number, 0);
                    if (loss == 0) {
                        EXPECT_EQ(field.heard[0].is_found, !is_gone_at_once);
                        EXPECT_EQ(field.heard[0].points, field.heard[0].is_found ? 5 : 0);
                    }
                    const auto most = std::chrono::milliseconds(120 + (is_shown ? 230 : 0));
                    for (const Heard& one : field.heard) {
                        EXPECT_TRUE(loss > 0 || one.at - sent < most) << "number " << one.number;
                        EXPECT_FALSE(one.is_late) << "it waited for half a second";
                    }
                    ASSERT_TRUE(field.guests[0]->client.receiver().is_consistent());
                    if (change == Change::keyed_returns) {
                        EXPECT_TRUE(field.heard[0].is_found);
                    }
                    if (change == Change::spawn || change == Change::respawn_keyed ||
                        change == Change::keyed_returns)
                        continue;
                    EXPECT_FALSE(field.replica(*field.guests[0], named));
                }
}

TEST(EventsBesideState, AnEventWithStateSeesTheStateOfItsTick) {
    for (const bool is_shown : {false, true})
        for (const auto how : {Field::How::with_state, Field::How::action_with_state}) {
            SCOPED_TRACE(testing::Message() << "shown " << is_shown);
            Field field(is_shown);
            std::vector<ecs::Entity> others;
            for (int i = 0; i < 40; ++i) others.push_back(field.world.spawn(Spot{1}, Score{i}, Replicated{}));
            const ecs::Entity scorer = field.world.spawn(Spot{1}, Score{}, Replicated{});
            field.run(30);
            field.set_link({.latency = std::chrono::milliseconds(20), .loss = 0.2});
            for (std::int32_t i = 1; i <= 300; ++i) {
                for (const ecs::Entity other : others) field.world.set(other, Score{i * 50});
                field.tell(how, scorer, i);
                field.world.set(scorer, Score{i});  // later in the tick
                field.run(1);
                if (i % 7 != 0) continue;
                field.tell(how, scorer, i + 1000);  // the score did not change in this tick
                field.run(3);
            }
            field.run(60);
            std::size_t late = 0;
            for (const Heard& one : field.heard) {
                late += one.is_late;
                EXPECT_TRUE(one.is_late || one.points >= one.number % 1000)
                    << one.number << " " << one.points;
            }
            EXPECT_EQ(field.heard.size(), 342u);
            EXPECT_LT(late, 4u) << "each waits half a second at most";
        }
}

TEST(EventsBesideState, OneStreamHasTheOrderOfSending) {
    for (const bool is_shown : {false, true}) {
        Field field(is_shown);
        const ecs::Entity box = field.world.spawn(Spot{1}, Replicated{});
        field.run(30);
        field.set_link({.latency = std::chrono::milliseconds(20), .loss = 0.2});
        std::int32_t sent = 0;
        for (int i = 0; i < 100; ++i) {
            const ecs::Entity fresh = field.world.spawn(Spot{2}, Replicated{});
            field.tell(Field::How::message, box, ++sent);
            field.tell(Field::How::action, fresh, ++sent);
            field.tell(Field::How::with_state, box, ++sent);
            field.tell(Field::How::action_with_state, i % 3 == 0 ? fresh : box, ++sent);
            field.tell(Field::How::message, fresh, ++sent);
            if (i % 2 == 0) field.world.destroy(fresh);
            field.run(1);
        }
        field.run(90);
        ASSERT_EQ(field.heard.size(), 500u);
        for (std::size_t i = 0; i < field.heard.size(); ++i)
            EXPECT_EQ(field.heard[i].number, static_cast<std::int32_t>(i + 1));
    }
}

}  // namespace
}  // namespace shoal::replication::impl::events_beside_state_test
