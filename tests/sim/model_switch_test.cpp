// A server that learns a model of its traffic, and gives it to its players over a bad network.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/session.h"

namespace shoal::sim::model_switch_test {
namespace {

enum class Stance : std::uint8_t { stands, walks, ducks, jumps };
enum class Effects : std::uint16_t {};
struct Place {
    float x = 0, y = 0, z = 0;
};
struct View {
    std::uint16_t yaw = 0;
};
struct State {
    Stance stance{};
    Effects effects{};
    std::uint8_t ammunition = 100;
    std::int32_t health = 100;
};

replication::Schema schema_of_bots() {
    replication::Schema schema;
    schema.component<Place>("place", replication::quantised(-500, 500, 0.02));
    schema.component<View>("view");
    schema.component<State>("state");
    return schema;
}

/// Bots that walk around, look around and shoot.
class Bots {
public:
    Bots(ecs::World& world, int count) : world_(world) {
        for (int i = 0; i < count; ++i)
            bots_.push_back({world.spawn(replication::Replicated{}, Place{}, View{}, State{}), 0, 0});
    }
    void step() {
        for (Bot& bot : bots_) {
            State state = world_.get<State>(bot.entity);
            if (random_.chance(0.02)) {
                state.stance = random_.chance(0.7) ? Stance::walks : Stance::stands;
                bot.speed = state.stance == Stance::walks ? 0.08f : 0;
            }
            if (random_.chance(0.1)) bot.turn = static_cast<int>(random_.below(400)) - 200;
            if (random_.chance(0.06)) {
                state.effects = static_cast<Effects>(static_cast<unsigned>(state.effects) ^ 0x40u);
                state.ammunition = state.ammunition == 0 ? 100 : std::uint8_t(state.ammunition - 1);
            }
            if (random_.chance(0.01)) state.health = state.health < 20 ? 100 : state.health - 12;
            world_.set(bot.entity, state);
            View view = world_.get<View>(bot.entity);
            view.yaw = static_cast<std::uint16_t>(view.yaw + bot.turn);
            world_.set(bot.entity, view);
            Place place = world_.get<Place>(bot.entity);
            const float angle = static_cast<float>(view.yaw) / 10'430.f;
            place.x = std::clamp(place.x + bot.speed * std::cos(angle), -500.f, 500.f);
            place.y = std::clamp(place.y + bot.speed * std::sin(angle), -500.f, 500.f);
            world_.set(bot.entity, place);
        }
    }

private:
    struct Bot {
        ecs::Entity entity;
        float speed;
        int turn;
    };
    ecs::World& world_;
    std::vector<Bot> bots_;
    Random random_{7};
};

struct Period {
    double bytes_per_tick = 0;
    replication::Tick oldest = 0;  // greatest age of the newest tick that a playing client had
};

Period run(Session& session, Bots& bots, int ticks) {
    const auto bytes = [&] {
        std::uint64_t sum = 0;
        session.server().for_each_peer(
            [&](net::PeerId id) { sum += session.server().stats(id).state.state_bytes; });
        return sum;
    };
    Period out;
    const std::uint64_t before = bytes();
    for (int i = 0; i < ticks; ++i) {
        bots.step();
        session.step();
        for (const auto& guest : session.guests())
            if (guest->client.phase() == replication::Phase::playing)
                out.oldest = std::max(
                    out.oldest, session.server().current_tick() - *guest->client.receiver().newest_tick());
    }
    out.bytes_per_tick = static_cast<double>(bytes() - before) / ticks;
    return out;
}

// Goal: a model of a game's own traffic saves at least 10 % of the bytes, and players do not notice the
// switch. Method: bots at 10 % loss; the server learns for two minutes. A client joins while the model is on
// its way.
TEST(ModelSwitch, SavesATenthWithoutAHitchWhileAClientJoins) {
    const replication::Schema schema = schema_of_bots();
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(40);
    link.jitter = std::chrono::milliseconds(10);
    link.loss = 0.1;
    replication::ServerOptions options;
    options.renew_model_s = 120;
    Session session(schema, link, 3, 1, {}, options);
    Bots bots(session.world(), 16);
    Session::Visitor& late = *session.guests()[2];
    late.client.disconnect(session.now());
    const auto model_of = [&](std::uint8_t number) {
        int count = 0;
        session.server().for_each_peer(
            [&](net::PeerId id) { count += session.server().stats(id).state.model == number; });
        return count;
    };
    run(session, bots, 110 * 60);
    const Period before = run(session, bots, 540);
    while (session.server().save_model().empty()) {
        ASSERT_LT(session.server().current_tick(), 120u * 60 + 1);
        run(session, bots, 1);
        if (session.server().current_tick() == 120u * 60 - 20) late.client.connect(session.at_server());
    }
    EXPECT_EQ(model_of(0), 3) << "nobody has it yet";
    const Period meanwhile = run(session, bots, 120);
    EXPECT_EQ(model_of(1), 3);
    EXPECT_EQ(late.client.phase(), replication::Phase::playing);
    const Period after = run(session, bots, 540);
    const double of_two = after.bytes_per_tick * 2 / 3;
    std::printf("model.bytes=%zu built_in.bytes_per_tick=%.1f model.bytes_per_tick=%.1f\n",
                session.server().save_model().size(), before.bytes_per_tick, of_two);
    EXPECT_LT(of_two, 0.9 * before.bytes_per_tick);
    EXPECT_LE(meanwhile.oldest, before.oldest + 2);
    EXPECT_LE(after.oldest, before.oldest + 2);
    session.set_link({});
    session.converge(600);
    session.expect_agreement(16);
}

}  // namespace
}  // namespace shoal::sim::model_switch_test
