#include "replication/action/action_inbox.h"

#include <gtest/gtest.h>

#include "tests/replication/support/action_desk.h"

namespace shoal::replication::impl::action_inbox_test {
namespace {

using action_desk::Chat;
using action_desk::Desk;
using action_desk::Row;
using action_desk::SentRun;
using action_desk::Words;

TEST(ActionInbox, TakesEachActionOnceInTheOrderOfItsStream) {
    Desk desk;
    EXPECT_TRUE(desk.take(desk.run(0, 2), desk.run<Chat>(0, 1)));
    EXPECT_TRUE(desk.take(desk.run(0, 3)));
    EXPECT_EQ(desk.waiting(), (Words{0, 1, 2}));
    EXPECT_EQ(desk.waiting(ActionStream::independent), Words{0});
    EXPECT_EQ(desk.inbox.ignored(), 2u);
    EXPECT_EQ(desk.inbox.next(ActionStream::ordered), 3u);
    desk.inbox.pop(ActionStream::ordered);
    EXPECT_EQ(desk.inbox.sequence(ActionStream::ordered), 1u);
    EXPECT_TRUE(desk.take(desk.run(2, 2)));
    EXPECT_EQ(desk.waiting(), (Words{1, 2, 3}));
    EXPECT_TRUE(desk.read(desk.run(4, 1)));
    EXPECT_EQ(desk.waiting().size(), 3u) << "read() alone has no effect";
}

TEST(ActionInbox, RefusesWhatNoClientSends) {
    Desk desk;
    EXPECT_FALSE(desk.read({}, {})) << "nothing";
    EXPECT_FALSE(desk.read(desk.run(1, 1))) << "a gap";
    EXPECT_TRUE(desk.read(desk.run(0, 1)));
    EXPECT_FALSE(desk.read(desk.run(0, 1, 1))) << "a rejection that did not happen";
    EXPECT_FALSE(desk.read(desk.run<Chat>(0, 1)));
    EXPECT_FALSE(desk.read({}, desk.run<Row>(0, 1)));
    SentRun spawns = desk.run<Chat>(0, 1);
    spawns.records[0].created = 1;
    EXPECT_FALSE(desk.read({}, spawns)) << "an independent action creates nothing";
    spawns = desk.run(0, 1);
    spawns.records[0].created = kMaxCreated;
    spawns.records[0].touched.assign(kMaxTouched, 5);
    EXPECT_TRUE(desk.read(spawns));
    spawns.records[0].created = kMaxCreated + 1;
    EXPECT_FALSE(desk.read(spawns));
    spawns.records[0].created = 0;
    spawns.records[0].touched.push_back(5);
    EXPECT_FALSE(desk.read(spawns));
}

TEST(ActionInbox, ARejectionDropsWhatTheClientCalledWithoutKnowingOfIt) {
    Desk desk;
    EXPECT_TRUE(desk.take(desk.run(0, 3), desk.run<Chat>(0, 2)));
    EXPECT_EQ(desk.inbox.reject(), 2u);
    EXPECT_EQ(desk.inbox.epoch(), 1);
    EXPECT_EQ(desk.inbox.next(ActionStream::ordered), 1u);
    EXPECT_EQ(desk.waiting(), Words{});
    EXPECT_EQ(desk.waiting(ActionStream::independent), (Words{0, 1})) << "the other stream goes on";
    // The client does not know of the rejection yet: the numbers go on after those that were dropped.
    EXPECT_TRUE(desk.take(desk.run(3, 2)));
    EXPECT_EQ(desk.waiting(), Words{});
    EXPECT_EQ(desk.inbox.ignored(), 2u);
    EXPECT_TRUE(desk.take(desk.run(1, 2, 1)));
    EXPECT_EQ(desk.waiting(), (Words{1, 2}));
}

TEST(ActionInbox, TooManyWaitingActionsAreReported) {
    Desk desk;
    EXPECT_TRUE(desk.take(desk.run(0, kMaxWaitingActions)));
    EXPECT_EQ(desk.waiting().size(), kMaxWaitingActions);
    EXPECT_FALSE(desk.take(desk.run(kMaxWaitingActions, 1)));
    EXPECT_EQ(desk.waiting().size(), kMaxWaitingActions);
    desk.inbox.forget_waiting();
    EXPECT_EQ(desk.inbox.next(ActionStream::ordered), kMaxWaitingActions);
    EXPECT_TRUE(desk.take(desk.run(kMaxWaitingActions, 1)));
    EXPECT_EQ(desk.waiting(), Words{kMaxWaitingActions});
}

TEST(ActionInbox, ForgetsTheWaitingActionsOfBothStreams) {
    Desk desk;
    EXPECT_TRUE(desk.take(desk.run(0, 2), desk.run<Chat>(0, 3)));
    desk.inbox.forget_waiting();
    EXPECT_EQ(desk.waiting(), Words{});
    EXPECT_EQ(desk.waiting(ActionStream::independent), Words{});
    EXPECT_EQ(desk.inbox.next(ActionStream::ordered), 2u);
    EXPECT_EQ(desk.inbox.next(ActionStream::independent), 3u);
}

}  // namespace
}  // namespace shoal::replication::impl::action_inbox_test
