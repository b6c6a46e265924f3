#include "replication/send/peer_view.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>

namespace shoal::replication::impl {
namespace {

TEST(PeerView, ANewSlotIsPendingAndNothingWasSent) {
    PeerView view(100);
    const std::uint32_t slot = view.open(7);
    EXPECT_EQ(view[slot].entry, 7u);
    EXPECT_TRUE(view[slot].is_pending && view[slot].is_fresh);
    EXPECT_FALSE(view[slot].was_sent || view[slot].has_acked || view[slot].in_flight);
    EXPECT_EQ(view.pending_count(), 1u);
    EXPECT_EQ(view.queue(PeerView::Queue::other)[0], slot);
}

TEST(PeerView, KnowsTheSlotsOfTheGroup) {
    PeerView view(8);
    const std::uint32_t a = view.open(1, {.owns = true}), b = view.open(2),
                        c = view.open(3, {.predicts = true});
    const auto group = [&] { return std::vector<std::uint32_t>(view.group().begin(), view.group().end()); };
    EXPECT_EQ(group(), (std::vector<std::uint32_t>{a, c}));
    view.set_roles(b, {.owns = true});
    view.set_roles(a, {});
    EXPECT_EQ(group(), (std::vector<std::uint32_t>{b, c}));
    view.close(c, Despawn::destroyed);
    EXPECT_EQ(group(), (std::vector<std::uint32_t>{b}));
    EXPECT_TRUE(view.is_consistent());
}

TEST(PeerView, SlotsWhoseRolesChangeKeepTheirOrderInTheirNewQueue) {
    PeerView view(8);
    for (std::uint32_t entry = 0; entry < 5; ++entry) view.open(entry);
    for (const std::uint32_t slot : {3u, 1u}) view.set_roles(slot, {.owns = true});
    view.move_to_their_queues();
    const auto queue = [&](PeerView::Queue which) {
        std::vector<std::uint32_t> slots;
        for (std::size_t i = 0; i < view.queue(which).size(); ++i) slots.push_back(view.queue(which)[i]);
        return slots;
    };
    EXPECT_EQ(queue(PeerView::Queue::group), (std::vector<std::uint32_t>{1, 3}));
    EXPECT_EQ(queue(PeerView::Queue::other), (std::vector<std::uint32_t>{0, 2, 4}));
    EXPECT_TRUE(view.is_consistent());
}

TEST(PeerView, ARoleOfASlotThatIsNotPendingLeavesOthersToBeMoved) {
    PeerView view(8);
    const std::uint32_t sent = view.open(1), waiting = view.open(2);
    view.on_fate(view.send(sent, 1, 10), 1, 10, true);
    view.set_roles(waiting, {.owns = true});
    view.set_roles(sent, {.predicts = true});
    view.move_to_their_queues();
    ASSERT_EQ(view.queue(PeerView::Queue::group).size(), 1u);
    EXPECT_EQ(view.queue(PeerView::Queue::group)[0], waiting);
    EXPECT_TRUE(view.is_consistent());
}

TEST(PeerView, Rule16AForcedSlotIsPendingUntilARecordIsSent) {
    PeerView view(8);
    const std::uint32_t slot = view.open(1);
    view.on_fate(view.send(slot, 1, 10), 1, 10, true);
    EXPECT_FALSE(view[slot].is_forced || view[slot].is_pending);
    view.force(slot);
    EXPECT_TRUE(view[slot].is_forced && view[slot].is_pending);
    const SentRecord record = view.send(slot, 2, 11);
    EXPECT_FALSE(view[slot].is_forced || view[slot].is_pending);
    view.on_fate(record, 2, 11, false);
    EXPECT_TRUE(view[slot].is_pending) << "it was lost";
    view.force(slot);
    view.close(slot, Despawn::destroyed);
    const SentRecord despawn = view.send(slot, 3, 12);
    view.on_fate(despawn, 3, 12, true);
    ASSERT_EQ(view.open(2), slot);
    EXPECT_FALSE(view[slot].is_forced);
    EXPECT_TRUE(view.is_consistent());
}

TEST(PeerView, IsFullAtTheGivenNumberOfSlots) {
    for (const std::uint32_t most : {1u, 63u, 64u, 65u, 200u}) {
        PeerView view(most);
        for (std::uint32_t i = 0; i < most; ++i) {
            ASSERT_FALSE(view.is_full());
            ASSERT_EQ(view.open(i), i);
        }
        EXPECT_TRUE(view.is_full());
        view.close(most / 2, Despawn::destroyed);  // nothing was sent
        EXPECT_FALSE(view.is_full());
        EXPECT_EQ(view.open(1'000), most / 2);
        EXPECT_TRUE(view.is_full());
    }
}

TEST(PeerView, Rule08ASlotIsFreeOnlyAfterItsDespawnRecordArrived) {
    PeerView view(1);
    view.open(7);
    view.send(0, 1, 10);
    view.close(0, Despawn::left);
    EXPECT_EQ(view[0].reason(), Despawn::left);
    EXPECT_TRUE(view.is_full() && view[0].is_pending);
    const SentRecord despawn = view.send(0, 2, 11);
    EXPECT_TRUE(despawn.is_despawn);
    view.on_fate(despawn, 2, 11, false);
    EXPECT_TRUE(view[0].is_pending);
    const SentRecord again = view.send(0, 3, 12);
    EXPECT_TRUE(view.is_full());
    view.on_fate(again, 3, 12, true);
    EXPECT_TRUE(view.is_free(0));
    EXPECT_EQ(view.used_count(), 0u);
}

TEST(PeerView, FatesOfAnEarlierGenerationChangeNothing) {
    PeerView view(1);
    view.open(7);
    const SentRecord old = view.send(0, 1, 10);
    view.rebase(0);
    EXPECT_TRUE(view[0].is_pending && view[0].is_fresh);
    view.on_fate(old, 1, 10, true);
    EXPECT_FALSE(view[0].has_acked);
    view.rebase(0);  // no effect: the next record is a full one
    const SentRecord full = view.send(0, 2, 11);
    EXPECT_NE(full.generation, old.generation);
    view.on_fate(full, 2, 11, true);
    EXPECT_TRUE(view[0].has_acked);
    EXPECT_EQ(view[0].acked, 11u);
}

TEST(PeerView, AckedIsTheNewestTickWhateverTheOrderOfFates) {
    PeerView view(1);
    view.open(7);
    const Tick first = 0xfffffff0;  // ticks wrap in between
    std::vector<SentRecord> records;
    for (std::uint32_t i = 0; i < 32; ++i) records.push_back(view.send(0, i + 1, first + i));
    for (const std::uint32_t i : {5u, 3u, 31u, 30u, 0u}) view.on_fate(records[i], i + 1, first + i, true);
    EXPECT_EQ(view[0].acked, first + 31);
}

// Numbers that are equal in their low 16 bits are never in flight at the same time, but follow each other.
TEST(PeerView, ALossOfAnOlderRecordIsNotThatOfTheNewest) {
    PeerView view(1);
    view.open(7);
    const SentRecord older = view.send(0, 65'535, 10);
    const SentRecord newer = view.send(0, 65'536, 11);
    view.on_fate(older, 65'535, 10, false);
    EXPECT_FALSE(view[0].is_pending);
    EXPECT_TRUE(view[0].in_flight);
    view.on_fate(newer, 65'536, 11, false);
    EXPECT_TRUE(view[0].is_pending);
    EXPECT_FALSE(view[0].in_flight);
}

TEST(PeerView, Rule14ARebaseOfAnySlotNumberIsSafe) {
    PeerView view(10);
    view.rebase(0);
    view.open(1);
    for (const std::uint32_t slot : {0u, 1u, 63u, 64u, PeerView::kMaxSlots, 0xffffffffu}) view.rebase(slot);
    EXPECT_EQ(view.pending_count(), 1u);
    EXPECT_TRUE(view.is_consistent());
}

/// Sends a record of the slot, which arrives.
void deliver(PeerView& view, std::uint32_t slot, Tick tick) {
    view.on_fate(view.send(slot, tick, tick), tick, tick, true);
}

TEST(PeerView, ASlotThatIsUsedAgainHasNoDeliveriesOfTheFormerEntity) {
    PeerView view(8);
    view.keep_deliveries(15);
    const std::uint32_t slot = view.open(1);
    deliver(view, slot, 10);
    view.on_fate(view.send(slot, 11, 11), 11, 11, false);
    EXPECT_EQ(view.deliveries(slot).newest(), 10u) << "the second one was lost";
    view.close(slot, Despawn::destroyed);
    const SentRecord despawn = view.send(slot, 12, 12);
    view.on_fate(despawn, 12, 12, true);
    EXPECT_EQ(view.deliveries(slot).newest(), 10u) << "a despawn record is not a version";
    ASSERT_EQ(view.open(2), slot);
    EXPECT_TRUE(view.deliveries(slot).empty());
    deliver(view, slot, 13);
    EXPECT_EQ(view.deliveries(slot).at(12), std::nullopt);
}

TEST(PeerView, CountsTheEntitiesThatItAwaits) {
    PeerView view(200);
    const std::uint32_t acked = view.open(1), to_close = view.open(2), waiting = view.open(3);
    EXPECT_EQ(view.awaited_count(), 0u);
    deliver(view, acked, 10);
    view.await_all();
    EXPECT_EQ(view.awaited_count(), 2u) << "one is acknowledged";
    const std::uint32_t later = view.open(4);
    std::uint32_t last = later;
    while (last < 150) last = view.open(5);
    for (const std::uint32_t slot : {later, last, acked}) deliver(view, slot, 20);
    EXPECT_EQ(view.awaited_count(), 2u) << "those that came later do not count";
    view.close(to_close, Despawn::destroyed);
    EXPECT_EQ(view.awaited_count(), 1u);
    EXPECT_EQ(view.open(6), to_close);
    deliver(view, to_close, 30);
    EXPECT_EQ(view.awaited_count(), 1u) << "another entity";
    view.rebase(waiting);
    EXPECT_EQ(view.awaited_count(), 1u);
    deliver(view, waiting, 40);
    EXPECT_EQ(view.awaited_count(), 0u);
    deliver(view, waiting, 50);
    EXPECT_EQ(view.awaited_count(), 0u);
    view.await_all();
    EXPECT_EQ(view.awaited_count(), 151u - 5) << "slots 0 to 150, of which five are acknowledged";
    EXPECT_TRUE(view.is_consistent());
}

/// What a slot should know, kept in the simplest way.
struct ModelSlot {
    std::uint32_t entry = 0;
    bool is_closed = false, is_pending = true, is_sent = false;
    int since = 0;  // when it became pending
    bool is_full_next = true;
    std::optional<Tick> acked;
    std::uint64_t newest = 0;  // number of the packet with the newest record
    int life = 0;              // counts entities and rebases
};
struct ModelRecord {
    std::uint32_t slot;
    int life;
    bool is_despawn;
    SentRecord record;
};
struct ModelPacket {
    std::uint64_t number;
    Tick tick;
    std::vector<ModelRecord> records;
};

class ViewRace {
public:
    explicit ViewRace(unsigned seed) : engine_(seed), number_(65'000 + seed), view_(150) {}

    void step() {
        const std::uint32_t what = random() % 11;
        if (what < 2) open();
        if (what == 10) give();
        if (what == 2) change();
        if (what == 3) close();
        if (what == 4) rebase();
        if (what >= 5 && what < 7) send();
        if (what >= 7 && what < 10) settle();
        tick_ += random() % 2;
    }
    void compare() const {
        ASSERT_TRUE(view_.is_consistent());
        ASSERT_EQ(view_.used_count(), slots_.size());
        std::uint32_t pending = 0;
        for (const auto& [index, slot] : slots_) {
            ASSERT_FALSE(view_.is_free(index));
            ASSERT_EQ(view_[index].has_entity(), !slot.is_closed);
            ASSERT_TRUE(slot.is_closed || view_[index].entry == slot.entry);
            ASSERT_EQ(view_[index].is_pending != 0, slot.is_pending);
            ASSERT_EQ(view_[index].has_acked != 0, slot.acked.has_value());
            if (slot.acked) {
                ASSERT_EQ(view_[index].acked, *slot.acked);
            }
            pending += slot.is_pending;
        }
        ASSERT_EQ(view_.pending_count(), pending);
        for (const PeerView::Queue which : {PeerView::Queue::group, PeerView::Queue::other}) {
            int since = 0;
            for (std::size_t i = 0; i < view_.queue(which).size(); ++i) {
                const std::uint32_t index = view_.queue(which)[i];
                if (!view_[index].is_pending) continue;
                ASSERT_GT(slots_.at(index).since, since) << "the longest wait first";
                since = slots_.at(index).since;
                if (view_[index].has_entity()) {
                    ASSERT_EQ(view_[index].is_owner != 0, which == PeerView::Queue::group);
                }
            }
        }
    }

private:
    std::uint32_t random() { return static_cast<std::uint32_t>(engine_()); }
    std::uint32_t any() {
        auto at = slots_.begin();
        std::advance(at, random() % slots_.size());
        return at->first;
    }
    void open() {
        if (view_.is_full()) return;
        const std::uint32_t entry = random() % 1'000;
        const std::uint32_t index = view_.open(entry, {.owns = random() % 4 == 0});
        ASSERT_EQ(slots_.count(index), 0u);
        slots_[index] = {};
        slots_[index].entry = entry;
        slots_[index].life = ++lives_;
        slots_[index].since = ++pended_;
    }
    void pend(ModelSlot& slot) {
        if (!slot.is_pending) slot.since = ++pended_;
        slot.is_pending = true;
    }
    void change() {
        if (slots_.empty()) return;
        const std::uint32_t index = any();
        pend(slots_[index]);
        view_.pend(index);
    }
    void give() {
        if (slots_.empty()) return;
        const std::uint32_t index = any();
        const bool is_owner = random() % 2 == 0;
        if (slots_[index].is_closed || view_[index].is_owner == is_owner) return;
        view_.set_roles(index, {.owns = is_owner});
        view_.move_to_their_queues();
        if (slots_[index].is_pending) slots_[index].since = ++pended_;
    }
    void close() {
        if (slots_.empty()) return;
        const std::uint32_t index = any();
        ModelSlot& slot = slots_[index];
        if (slot.is_closed) return;
        if (view_[index].is_owner && slot.is_pending) slot.since = ++pended_;  // it waits with the others
        view_.close(index, Despawn::destroyed);
        view_.move_to_their_queues();
        slot.is_closed = true;
        pend(slot);
        if (!slot.is_sent) slots_.erase(index);
    }
    void rebase() {
        if (slots_.empty()) return;
        const std::uint32_t index = any();
        ModelSlot& slot = slots_[index];
        view_.rebase(index);
        if (slot.is_closed || slot.is_full_next) return;
        slot.life = ++lives_;
        slot.acked.reset();
        slot.is_full_next = true;
        pend(slot);
    }
    void send() {
        ModelPacket packet{++number_, tick_, {}};
        for (auto& [index, slot] : slots_) {
            if (!slot.is_pending || random() % 3 == 0) continue;
            const SentRecord record = view_.send(index, packet.number, tick_);
            packet.records.push_back({index, slot.life, slot.is_closed, record});
            slot.is_pending = slot.is_full_next = false;
            slot.is_sent = true;
            slot.newest = packet.number;
        }
        flight_.push_back(packet);
        for (const PeerView::Queue which : {PeerView::Queue::group, PeerView::Queue::other})
            while (!view_.queue(which).empty() && !view_[view_.queue(which)[0]].is_pending)
                view_.drop_front(which, 1);
    }
    void settle() {
        if (flight_.empty()) return;
        const std::size_t at = random() % std::min<std::size_t>(flight_.size(), 8);
        const ModelPacket packet = flight_[at];
        flight_.erase(flight_.begin() + static_cast<std::ptrdiff_t>(at));
        const bool delivered = random() % 4 != 0;
        for (const ModelRecord& record : packet.records) {
            view_.on_fate(record.record, packet.number, packet.tick, delivered);
            const auto found = slots_.find(record.slot);
            if (found == slots_.end() || found->second.life != record.life) continue;
            ModelSlot& slot = found->second;
            if (!delivered) {
                if (slot.newest == packet.number) pend(slot);
            } else if (record.is_despawn) {
                slots_.erase(found);
            } else if (!slot.acked || is_newer(packet.tick, *slot.acked)) {
                slot.acked = packet.tick;
            }
        }
    }

    std::mt19937 engine_;
    std::uint64_t number_;
    Tick tick_ = 0xffffff00;
    int lives_ = 0, pended_ = 0;
    PeerView view_;
    std::map<std::uint32_t, ModelSlot> slots_;
    std::deque<ModelPacket> flight_;
};

TEST(PeerView, AgreesWithASimpleModelThroughLossAndReordering) {
    for (unsigned seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(seed);
        ViewRace race(seed);
        for (int step = 0; step < 1'500; ++step) {
            race.step();
            if (step % 16 != 0) continue;
            ASSERT_NO_FATAL_FAILURE(race.compare());
        }
    }
}

}  // namespace
}  // namespace shoal::replication::impl
