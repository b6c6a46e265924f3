// What a peer owns or predicts: since when it has all of it, see StateHeader::Group.

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <vector>

#include "replication/codec/codec.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl::sender_group_test {
namespace {

struct Ball {
    int x = 0, y = 0, z = 0;
};
struct Foot {
    std::int8_t x = 0;
};

Schema ball_schema(bool predicts = true) {
    Schema schema;
    if (predicts) {
        schema.component<Ball>("ball", predicted());
        schema.input<Foot>("foot");
    } else {
        schema.component<Ball>("ball");
    }
    return schema;
}

using Words = std::vector<std::uint32_t>;

/// A sender and a receiver, and the balls of the peer at each tick.
struct Pitch {
    Pitch() {
        for (int i = 0; i < 40; ++i) balls.push_back(pair.spawn(Ball{i, i, i}));
        for (std::size_t i = 0; i < 10; ++i) pair.sender.set_owner(balls[i], pair.peer);
    }
    Ball any() {
        const auto number = [&] { return static_cast<int>(random.below(1'000'000)); };
        return {number(), number(), number()};
    }
    bool is_ours(ecs::Entity ball) const {
        return pair.sender.owner(ball) == pair.peer || pair.sender.is_predictor(pair.peer, ball);
    }
    void update() {
        std::map<NetId, Words>& ours = history[pair.tick()];
        const Shadow& shadow = pair.sender.shadow();
        for (const ecs::Entity ball : balls) {
            if (!is_ours(ball)) continue;
            const Image image = shadow[shadow.index_of(ball)].versions.newest()->image;
            ours[pair.sender.net_id(ball)] = {image.words.begin(), image.words.end()};
        }
    }
    /// Returns whether the receiver has what the group of this tick had.
    bool has_all(Tick tick) const {
        for (const auto& [net_id, words] : history.at(tick)) {
            const std::optional<Version> version = pair.receiver.at(net_id, tick);
            if (!version || !std::ranges::equal(version->image.words, words)) return false;
        }
        return true;
    }

    sim::Random random{7};
    Pair pair{{}, {}, 1, 1, ball_schema()};
    std::vector<ecs::Entity> balls;
    std::map<Tick, std::map<NetId, Words>> history;
};

// Payloads are lost and overtake each other, and a tick gets less room than its changes need.
TEST(SenderGroup, APeerThatHasItsGroupHasTheValuesOfThatTick) {
    Pitch pitch;
    Pair& pair = pitch.pair;
    sim::Random& random = pitch.random;
    std::deque<SentPacket> under_way;
    int complete = 0, before_others = 0;
    for (int tick = 0; tick < 1'000; ++tick) {
        for (const ecs::Entity ball : pitch.balls)
            if (random.chance(0.2)) pair.world.set(ball, pitch.any());
        const ecs::Entity ball = pitch.balls[random.below(40)];
        if (random.chance(0.1)) {
            pair.sender.set_owner(ball, random.chance(0.3) ? std::optional(pair.peer) : std::nullopt);
        } else if (random.chance(0.1)) {
            pair.sender.set_predictor(pair.peer, ball, random.chance(0.3));
        }
        pair.forward_rebases();
        pitch.update();
        for (int i = 0; i < 3; ++i)
            if (std::optional<SentPacket> packet = pair.encode(100)) under_way.push_back(*packet);
        while (under_way.size() > 6) {
            const auto next = under_way.begin() + static_cast<std::ptrdiff_t>(random.below(3));
            const SentPacket packet = *next;
            under_way.erase(next);
            if (random.chance(0.2)) {
                pair.lose(packet);
                continue;
            }
            const std::optional<Tick> former = pair.receiver.decoder().completion().group_complete();
            pair.deliver(packet);
            const std::optional<Tick> now = pair.receiver.decoder().completion().group_complete();
            if (!now || now == former) continue;
            ASSERT_TRUE(pitch.has_all(*now)) << "tick " << *now << ", packet " << packet.number;
            complete += 1;
            BitReader in(packet.bytes);
            before_others += !read_state_header(in, true, true).complete;
            EXPECT_TRUE(in.ok());
        }
        pair.receiver.apply();
    }
    EXPECT_GT(complete, 50);
    EXPECT_GT(before_others, 50) << "the group does not wait for the other entities";
}

TEST(SenderGroup, AMarkerNamesThePacketsInFlightWithTheNewestRecords) {
    Pitch pitch;
    Pair& pair = pitch.pair;
    pair.exchange();
    const auto send = [&](std::size_t ball) {
        pair.world.set(pitch.balls[ball], pitch.any());
        pitch.update();
        return *pair.encode();
    };
    const SentPacket first = send(0), of_others = send(20), second = send(1), third = send(0);
    EXPECT_EQ(header_of(first).group->distance, 0u);
    EXPECT_EQ(header_of(of_others).group->distance, 1u);
    EXPECT_EQ(header_of(second).group->distance, 2u);
    EXPECT_EQ(header_of(third).group->distance, 2u)
        << "that of its completion marker, which also needs of_others";
    ASSERT_EQ(pair.receive(third), Receiver::Verdict::accepted);
    ASSERT_EQ(pair.receive(of_others), Receiver::Verdict::accepted);
    EXPECT_NE(pair.receiver.decoder().completion().group_complete(), third.tick);
    ASSERT_EQ(pair.receive(second), Receiver::Verdict::accepted);
    EXPECT_EQ(pair.receiver.decoder().completion().group_complete(), third.tick);
}

/// Returns the number of payloads in a second without changes.
int payloads_when_idle(bool predicts, bool owns) {
    Pair pair({}, {}, 1, 1, ball_schema(predicts));
    const ecs::Entity ball = pair.spawn(Ball{});
    if (owns) pair.sender.set_owner(ball, pair.peer);
    for (int i = 0; i < 3; ++i) pair.exchange();
    int payloads = 0;
    for (int i = 0; i < 60; ++i) payloads += pair.exchange();
    return payloads;
}

TEST(SenderGroup, APeerThatPredictsSomethingHearsThirtyTimesASecondThatNothingChanged) {
    EXPECT_EQ(payloads_when_idle(true, true), 30);
    EXPECT_EQ(payloads_when_idle(true, false), 1) << "it predicts nothing";
    EXPECT_EQ(payloads_when_idle(false, true), 1);
}

}  // namespace
}  // namespace shoal::replication::impl::sender_group_test
