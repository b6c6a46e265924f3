// What a sender knows about its peers, and what stays when their connections come and go.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/replication/support/world.h"

namespace shoal::replication::impl::sender_peers_test {
namespace {

using Entities = std::vector<ecs::Entity>;

Entities owned(const Pair& pair) {
    Entities out;
    pair.sender.for_each_owned(pair.peer, [&](ecs::Entity entity) { out.push_back(entity); });
    return out;
}
Entities predicted(const Pair& pair) {
    Entities out;
    pair.sender.for_each_predicted(pair.peer, [&](ecs::Entity entity) { out.push_back(entity); });
    return out;
}

TEST(SenderPeers, ListWhatTheyOwnAndPredict) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(2)), c = pair.spawn(at(3));
    const Sender::Peer other = pair.sender.add_peer();
    EXPECT_TRUE(pair.sender.set_owner(a, pair.peer) && pair.sender.set_owner(b, other));
    EXPECT_TRUE(pair.sender.set_owner(c, pair.peer)) << "also before the first update";
    EXPECT_EQ(owned(pair), (Entities{a, c}));
    EXPECT_TRUE(pair.sender.set_predictor(pair.peer, b, true));
    EXPECT_TRUE(pair.sender.set_predictor(pair.peer, b, true)) << "twice is once";
    EXPECT_TRUE(pair.sender.set_predictor(other, c, true));
    EXPECT_EQ(predicted(pair), Entities{b});
    EXPECT_TRUE(pair.sender.is_predictor(pair.peer, b));
    EXPECT_FALSE(pair.sender.is_predictor(pair.peer, c));
    EXPECT_TRUE(pair.sender.has_predictors(c));
    EXPECT_FALSE(pair.sender.has_predictors(a));
    pair.exchange();
    EXPECT_TRUE(pair.sender.set_owner(c, std::nullopt));
    EXPECT_EQ(owned(pair), Entities{a});
    pair.world.remove<Replicated>(a);
    pair.world.destroy(b);
    pair.exchange();
    const ecs::Entity next = pair.spawn(at(4));
    pair.exchange();
    EXPECT_EQ(owned(pair), Entities{}) << "it does not replicate any more";
    EXPECT_EQ(predicted(pair), Entities{});
    EXPECT_FALSE(pair.sender.owner(next));
    const ecs::Entity local = pair.world.spawn(at(5));
    EXPECT_FALSE(pair.sender.set_owner(local, pair.peer)) << "it lacks the tag";
    EXPECT_FALSE(pair.sender.set_owner(b, pair.peer)) << "it is dead";
    EXPECT_FALSE(pair.sender.set_predictor(pair.peer, local, true));
    EXPECT_EQ(owned(pair), Entities{});
    EXPECT_EQ(predicted(pair), Entities{});
}

TEST(SenderPeers, DoNotOwnOrPredictWhatTakesThePlaceOfAnEntityThatDiedBeforeItsFirstUpdate) {
    Pair pair;
    const ecs::Entity dead = pair.spawn(at(1)), untagged = pair.spawn(at(1));
    for (const ecs::Entity entity : {dead, untagged}) {
        EXPECT_TRUE(pair.sender.set_owner(entity, pair.peer));
        EXPECT_TRUE(pair.sender.set_predictor(pair.peer, entity, true));
    }
    pair.world.destroy(dead);
    pair.world.remove<Replicated>(untagged);
    for (int tick = 0; tick < 4; ++tick) {
        const ecs::Entity next = pair.spawn(at(2));
        pair.exchange();
        EXPECT_FALSE(pair.sender.owner(next));
        EXPECT_FALSE(pair.sender.is_predictor(pair.peer, next) || pair.sender.has_predictors(next));
        EXPECT_TRUE(pair.sender.view(pair.peer).group().empty());
    }
    EXPECT_TRUE(pair.sender.is_consistent());
}

TEST(SenderPeers, MayLeaveBeforeTheUpdateThatWouldSendThemARecord) {
    Pair pair;
    const ecs::Entity entity = pair.spawn(at(1));
    const Sender::Peer leaver = pair.sender.add_peer();
    pair.exchange();
    pair.sender.send_now(leaver, entity);
    pair.sender.send_now(pair.peer, entity);
    pair.sender.remove_peer(leaver);
    EXPECT_EQ(pair.exchange(), 1) << "the other peer gets its record";
    EXPECT_EQ(pair.sender.stats(pair.peer).empty_records, 1u);
    EXPECT_EQ(pair.exchange(), 0) << "once";
    EXPECT_TRUE(pair.sender.is_consistent());
}

TEST(SenderPeers, HaveAcknowledgedAnEntityWhenARecordOfItArrived) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), local = pair.world.spawn(at(2));
    EXPECT_FALSE(pair.sender.has_acknowledged(pair.peer, a)) << "it has no slot yet";
    const SentPacket lost = pair.tick_and_encode();
    EXPECT_FALSE(pair.sender.has_acknowledged(pair.peer, a)) << "in flight";
    pair.lose(lost);
    EXPECT_FALSE(pair.sender.has_acknowledged(pair.peer, a));
    pair.exchange();
    EXPECT_TRUE(pair.sender.has_acknowledged(pair.peer, a));
    EXPECT_FALSE(pair.sender.has_acknowledged(pair.peer, local));
    const Sender::Peer other = pair.sender.add_peer();
    EXPECT_FALSE(pair.sender.has_acknowledged(other, a));
    pair.world.set(a, at(5));
    pair.tick_and_encode();
    EXPECT_TRUE(pair.sender.has_acknowledged(pair.peer, a)) << "an older version";
    pair.world.remove<Replicated>(a);
    pair.exchange();
    EXPECT_FALSE(pair.sender.has_acknowledged(pair.peer, a));
}

TEST(SenderPeers, SeeOnlyEntitiesForWhichTheyHaveASlot) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(2));
    const NetId of_a = pair.sender.assign_net_id(a), of_b = pair.sender.assign_net_id(b);
    EXPECT_FALSE(pair.sender.entity_seen_by(pair.peer, of_a)) << "no update() found it";
    const Sender::Peer narrow = pair.sender.add_peer({.max_slots = 1});
    pair.exchange();
    EXPECT_EQ(pair.sender.entity_seen_by(pair.peer, of_a), a);
    EXPECT_EQ(pair.sender.entity_seen_by(pair.peer, of_b), b);
    EXPECT_EQ(static_cast<bool>(pair.sender.entity_seen_by(narrow, of_a)) +
                  static_cast<bool>(pair.sender.entity_seen_by(narrow, of_b)),
              1)
        << "the other one waits for a slot";
    for (const NetId none : {NetId{0}, NetId{77}, NetId{0xffff'ffff}, NetIds::reserved_for(StableKey{5})})
        EXPECT_FALSE(pair.sender.entity_seen_by(pair.peer, none)) << none;
    pair.world.destroy(a);
    EXPECT_FALSE(pair.sender.entity_seen_by(pair.peer, of_a)) << "dead, before the update()";
    pair.exchange();
    EXPECT_FALSE(pair.sender.entity_seen_by(pair.peer, of_a));
}

TEST(SenderPeers, GetNothingWhileTheyAreHeld) {
    Pair pair;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 5; ++i) entities.push_back(pair.spawn(at(1)));
    pair.sender.remove_peer(pair.peer);
    pair.peer = pair.sender.add_peer({.is_held = true});
    pair.exchange();
    pair.world.set(entities[0], at(2));
    EXPECT_EQ(pair.exchange(), 0);
    EXPECT_EQ(pair.sender.stats(pair.peer).slots_used, 0u);
    EXPECT_EQ(pair.sender.stats(pair.peer).unjoined, 0u);
    EXPECT_TRUE(pair.sender.is_settled(pair.peer)) << "it is to get nothing";
    pair.sender.start_peer(pair.peer);
    EXPECT_EQ(pair.sender.stats(pair.peer).unjoined, 5u);
    EXPECT_FALSE(pair.sender.is_settled(pair.peer));
    pair.world.destroy(entities[1]);
    pair.spawn(at(3));
    const SentPacket packet = pair.tick_and_encode();
    EXPECT_EQ(pair.sender.stats(pair.peer).unjoined, 4u)
        << "one was destroyed, and the new one does not count";
    pair.sender.start_peer(pair.peer);  // no effect
    EXPECT_EQ(pair.sender.stats(pair.peer).unjoined, 4u);
    pair.deliver(packet);
    EXPECT_EQ(pair.sender.stats(pair.peer).unjoined, 0u);
    pair.receiver.apply();
    EXPECT_TRUE(pair.worlds_are_equal());
}

TEST(SenderPeers, KeepWhatTheyAcknowledgedOnANewConnection) {
    Pair pair;
    std::vector<ecs::Entity> entities;
    for (int i = 0; i < 5; ++i) entities.push_back(pair.spawn(at(static_cast<float>(i))));
    pair.exchange();
    pair.world.set(entities[0], at(9));
    pair.world.set(entities[1], at(9));
    const SentPacket unanswered = pair.tick_and_encode();
    EXPECT_EQ(pair.receive(unanswered), Receiver::Verdict::accepted) << "the peer has it";
    pair.lose(unanswered);
    pair.world.set(entities[2], at(9));
    pair.tick();
    pair.sender.reconnect_peer(pair.peer);
    pair.receiver.reconnect();
    pair.next_number = 1;
    const std::uint64_t records = pair.sender.stats(pair.peer).records_sent,
                        full = pair.sender.stats(pair.peer).full_records;
    EXPECT_EQ(pair.exchange(), 1);
    EXPECT_EQ(pair.sender.stats(pair.peer).records_sent - records, 3u)
        << "what had no answer, and the change";
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, full);
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_TRUE(pair.receiver.complete()) << "the first payload has a completion marker";
    EXPECT_TRUE(pair.sender.is_consistent());
}

TEST(SenderPeers, KeepTheirRolesWhenTheyAreReplaced) {
    Pair pair;
    const ecs::Entity a = pair.spawn(at(1)), b = pair.spawn(at(2));
    pair.spawn(at(3));
    pair.sender.set_owner(a, pair.peer);
    pair.sender.set_predictor(pair.peer, b, true);
    pair.sender.set_groups(pair.peer, to_group(2));
    pair.exchange();
    pair.sender.replace_peer(pair.peer, {.is_held = true});
    pair.receiver.reset();
    pair.next_number = 1;
    EXPECT_EQ(pair.exchange(), 0) << "it is held";
    EXPECT_FALSE(pair.sender.has_acknowledged(pair.peer, a));
    pair.sender.start_peer(pair.peer);
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records, 3u) << "it has no state";
    EXPECT_EQ(owned(pair), Entities{a});
    EXPECT_EQ(predicted(pair), Entities{b});
    EXPECT_EQ(pair.sender.view(pair.peer).groups(), to_group(2));
    EXPECT_EQ(pair.sender.view(pair.peer).group().size(), 2u);
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_TRUE(pair.sender.is_consistent());
}

TEST(SenderPeers, GetEverythingAgainWhenTheyAreRestarted) {
    Pair pair;
    for (int i = 0; i < 5; ++i) pair.spawn(at(1));
    pair.exchange();
    const std::uint64_t full = pair.sender.stats(pair.peer).full_records;
    EXPECT_EQ(pair.sender.stats(pair.peer).unjoined, 0u);
    pair.sender.restart_peer(pair.peer);
    EXPECT_EQ(pair.sender.stats(pair.peer).unjoined, 5u);
    pair.exchange();
    EXPECT_EQ(pair.sender.stats(pair.peer).unjoined, 0u);
    EXPECT_EQ(pair.sender.stats(pair.peer).full_records - full, 5u);
    EXPECT_TRUE(pair.worlds_are_equal());
    EXPECT_EQ(pair.mirror.size(), 5u) << "the same replicas";
}

}  // namespace
}  // namespace shoal::replication::impl::sender_peers_test
