// complete() of a receiver that shows some entities late.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::receiver_complete_test {
namespace {

struct Spot {  // shown late
    float x = 0;
};
struct Score {  // shown at once
    int points = 0;
};

Schema board_schema() {
    Schema schema;
    schema.component<Spot>("spot", linear());
    schema.component<Score>("score");
    return schema;
}

using Board = std::vector<float>;

struct Game {
    explicit Game(bool has_scores, const ReceiverOptions& options = {}, Tick first_tick = 1)
        : pair({}, options, first_tick, 1, board_schema()) {
        for (int i = 0; i < 3; ++i) entities.push_back(pair.spawn(Spot{}));
        for (int i = 0; i < 3 && has_scores; ++i) entities.push_back(pair.spawn(Score{}));
    }
    static float value_of(const ecs::World& world, ecs::Entity entity) {
        if (const Spot* spot = world.try_get<Spot>(entity)) return spot->x;
        const Score* const score = world.try_get<Score>(entity);
        return score ? static_cast<float>(score->points) : -1;
    }
    void change(ecs::Entity entity, int value) {
        if (pair.world.has<Spot>(entity)) {
            pair.world.set(entity, Spot{static_cast<float>(value)});
        } else {
            pair.world.set(entity, Score{value});
        }
    }
    Board on_server() const {
        Board board;
        for (const ecs::Entity entity : entities) board.push_back(value_of(pair.world, entity));
        return board;
    }
    Board on_client() {
        Board board;
        for (const ecs::Entity entity : entities)
            board.push_back(value_of(pair.mirror, pair.replica(entity)));
        return board;
    }

    Pair pair;
    std::vector<ecs::Entity> entities;
};

// Goal: at the ticks that complete() names, the server's world was what the client's world is now.
TEST(ReceiverComplete, NamesTicksAtWhichTheServerHadWhatTheWorldShows) {
    for (const bool has_scores : {false, true}) {
        for (const double changes : {0.05, 0.6}) {
            SCOPED_TRACE(testing::Message() << (has_scores ? "with" : "without") << " scores, " << changes);
            Game game(has_scores);
            Pair& pair = game.pair;
            sim::Random random(3);
            std::map<Tick, Board> history;
            int complete = 0, late = 0;
            for (int i = 1; i <= 600; ++i) {
                for (const ecs::Entity entity : game.entities)
                    if (random.chance(changes / 3)) game.change(entity, i);
                history[pair.tick()] = game.on_server();
                while (const std::optional<SentPacket> packet = pair.encode())
                    random.chance(0.1) ? pair.lose(*packet) : pair.deliver(*packet);
                pair.receiver.apply(pair.sender.tick() - 5);
                const std::optional<Receiver::Complete> now = pair.receiver.complete();
                if (!now) continue;
                complete += 1;
                late += now->tick != pair.receiver.newest_tick();
                ASSERT_FALSE(is_newer(now->since, now->tick));
                for (Tick tick = now->since; !is_newer(tick, now->tick); ++tick)
                    ASSERT_EQ(game.on_client(), history.at(tick)) << "tick " << tick << " at " << i;
            }
            // Scores that change in most ticks are ahead of the spots.
            EXPECT_GT(complete, has_scores && changes > 0.5 ? 0 : 200);
            EXPECT_GT(late, has_scores ? 0 : 100) << "as of the render tick";
        }
    }
}

// The end of an entity is shown at once, other entities late.
TEST(ReceiverComplete, NamesNoTickAtWhichAnEntityWasThatHasEnded) {
    for (const bool is_destroyed : {true, false}) {
        Game game(true);
        Pair& pair = game.pair;
        const auto step = [&](int value) {
            game.change(game.entities[0], value);  // shown late
            pair.deliver(pair.tick_and_encode());
            pair.receiver.apply(pair.sender.tick() - 5);
            return pair.receiver.complete();
        };
        for (int i = 1; i <= 20; ++i) step(i);
        ASSERT_TRUE(pair.receiver.complete());
        const ecs::Entity score = game.entities.back();
        if (is_destroyed) {
            pair.world.destroy(score);
        } else {
            pair.world.remove<Replicated>(score);
        }
        const Tick end = pair.next_tick;
        for (int i = 1; i <= 12; ++i) {
            const std::optional<Receiver::Complete> complete = step(100 + i);
            EXPECT_EQ(complete.has_value(), !is_newer(end, pair.sender.tick() - 5)) << i;
            EXPECT_FALSE(complete && is_newer(end, complete->since));
        }
    }
}

// With few versions, those between the shown tick and the newest one are dropped.
TEST(ReceiverComplete, NamesNoTickWhoseVersionsWereDropped) {
    for (const double late : {0.0, 0.3}) {
        SCOPED_TRACE(late);
        Game game(false, {.max_versions = 4});
        Pair& pair = game.pair;
        std::map<Tick, Board> history;
        sim::Random random(4);
        std::vector<SentPacket> under_way;
        int complete = 0, wrong = 0;
        for (int i = 1; i <= 600; ++i) {
            const bool is_busy = i / 30 % 3 == 0;
            for (const ecs::Entity entity : game.entities)
                if (is_busy || random.chance(0.02)) game.change(entity, i);
            pair.forward_rebases();
            history[pair.tick()] = game.on_server();
            while (const std::optional<SentPacket> packet = pair.encode()) under_way.push_back(*packet);
            // Some packets arrive after the next ones.
            while (!under_way.empty() && !random.chance(late)) {
                const std::size_t which = random.chance(late) ? under_way.size() - 1 : 0;
                pair.deliver(under_way[which]);
                under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
            }
            pair.receiver.apply(pair.sender.tick() - 8);
            const Tick shown = pair.sender.tick() - 8;
            if (i > 10 && game.on_client() != history.at(shown)) wrong += 1;
            const std::optional<Receiver::Complete> now = pair.receiver.complete();
            if (!now) continue;
            complete += 1;
            for (Tick tick = now->since; !is_newer(tick, now->tick); ++tick)
                ASSERT_EQ(game.on_client(), history.at(tick)) << "tick " << tick << " at " << i;
        }
        EXPECT_GT(wrong, 100) << "in busy times";
        EXPECT_GT(complete, 20) << "in quiet times";
    }
}

TEST(ReceiverComplete, KnowsTheFirstTickWhateverItsNumber) {
    for (const Tick first : {0u, 1u, 0x80000000u, 0xffffffffu}) {
        Game game(false, {}, first);
        game.pair.deliver(game.pair.tick_and_encode());
        game.pair.receiver.apply(first);
        EXPECT_EQ(game.pair.receiver.complete(), (Receiver::Complete{first, first}));
    }
}

TEST(ReceiverComplete, ForgetsTheTicksOfTheConnectionBefore) {
    Game game(true);
    Pair& pair = game.pair;
    for (int i = 1; i <= 5; ++i) {
        pair.deliver(pair.tick_and_encode());
        pair.receiver.apply(pair.sender.tick());
        ASSERT_TRUE(pair.receiver.complete());
        game.change(game.entities[0], i);
    }
    pair.receiver.reset();
    EXPECT_FALSE(pair.receiver.complete());
    for (Tick tick = 1; tick < 10; ++tick) {
        pair.receiver.apply(tick);
        EXPECT_FALSE(pair.receiver.complete()) << tick;
    }
    pair.receiver.apply();
    EXPECT_FALSE(pair.receiver.complete());
}

// The ticks of the next server are older than those of the one before.
TEST(ReceiverComplete, KnowsTheTicksOfTheNextConnection) {
    Game before(false, {}, 1'000), next(false, {}, 10);
    before.pair.exchange();
    before.pair.receiver.apply(1'000);
    ASSERT_TRUE(before.pair.receiver.complete());
    Receiver& receiver = before.pair.receiver;
    receiver.reset();
    for (int i = 1; i <= 10; ++i) {
        for (const ecs::Entity entity : next.entities) next.change(entity, i);
        const SentPacket packet = next.pair.tick_and_encode();
        EXPECT_EQ(receiver.receive(packet.number, packet.bytes), Receiver::Verdict::accepted);
        next.pair.tell(packet, true);
        receiver.apply(packet.tick - 2);
    }
    ASSERT_TRUE(receiver.complete());
    EXPECT_EQ(receiver.complete()->tick, next.pair.sender.tick() - 2);
}

// A client may draw many frames between two ticks.
TEST(ReceiverComplete, IsTheSameHoweverOftenATickIsApplied) {
    Game game(false);
    Pair& pair = game.pair;
    for (int i = 1; i <= 20; ++i) {
        for (const ecs::Entity entity : game.entities) game.change(entity, i);
        pair.deliver(pair.tick_and_encode());
        pair.receiver.apply(pair.sender.tick() - 5);
    }
    const std::optional<Receiver::Complete> complete = pair.receiver.complete();
    ASSERT_TRUE(complete);
    EXPECT_EQ(complete->tick, pair.sender.tick() - 5);
    for (int frame = 0; frame < 300; ++frame) {
        pair.receiver.apply(pair.sender.tick() - 5);
        ASSERT_EQ(pair.receiver.complete(), complete) << "frame " << frame;
    }
    for (Tick delay = 4; delay > 0; --delay) {
        pair.receiver.apply(pair.sender.tick() - delay);
        ASSERT_TRUE(pair.receiver.complete()) << "delay " << delay;
        EXPECT_EQ(pair.receiver.complete()->tick, pair.sender.tick() - delay);
    }
}

}  // namespace
}  // namespace shoal::replication::impl::receiver_complete_test
