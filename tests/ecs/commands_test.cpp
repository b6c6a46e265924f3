#include "ecs/commands.h"

#include <gtest/gtest.h>

#include "tests/ecs/support/types.h"

using namespace shoal::ecs::impl;
using namespace ecs_types;
using Kind = CommandQueue::Kind;
using Fate = CommandQueue::Fate;

namespace {

struct CommandQueueTest : testing::Test {
    ComponentTable table;
    ComponentId counted = table.id_of(type_tag<Counted>);
    ComponentId wide = table.id_of(type_tag<Wide>);
    ComponentId frozen = table.id_of(type_tag<Frozen>);
    const Entity entity{3, 1};

    void push(CommandQueue& queue, Kind kind, int value) {
        Counted mine(value);
        void* const pointer = &mine;
        queue.push(kind, entity, {&counted, 1}, {&pointer, 1});
    }
    void TearDown() override { EXPECT_EQ(Counted::alive, 0); }
};

}  // namespace

TEST_F(CommandQueueTest, FirstInFirstOutWithValues) {
    CommandQueue queue(table);
    for (int i = 0; i < 5'000; ++i) push(queue, Kind::set, i);
    EXPECT_EQ(Counted::alive, 5'000);
    for (int i = 0; i < 5'000; ++i) {
        const CommandQueue::Command command = queue.pop();
        ASSERT_EQ(static_cast<Counted*>(command.values[0])->value, i);
        queue.finish(command);
    }
    EXPECT_TRUE(queue.empty());
    EXPECT_FALSE(queue.has(entity));
}

TEST_F(CommandQueueTest, ValuesKeepTheirAlignment) {
    CommandQueue queue(table);
    for (int i = 0; i < 100; ++i) {
        Wide mine;
        void* const values[] = {nullptr, &mine};
        const ComponentId ids[] = {frozen, wide};
        queue.push(Kind::spawn, entity, ids, values);
        push(queue, Kind::set, i);
    }
    while (!queue.empty()) {
        const CommandQueue::Command command = queue.pop();
        if (command.kind == Kind::spawn) {
            EXPECT_EQ(command.values[0], nullptr);
            EXPECT_TRUE(static_cast<Wide*>(command.values[1])->is_aligned());
        }
        queue.finish(command);
    }
}

TEST_F(CommandQueueTest, DestroysTheValuesOfCommandsThatWereNotApplied) {
    CommandQueue queue(table);
    push(queue, Kind::set, 1);
    push(queue, Kind::add, 2);
}

TEST_F(CommandQueueTest, FateIsThatAfterTheLastCommand) {
    CommandQueue queue(table);
    void* value = nullptr;
    EXPECT_EQ(queue.fate(entity, counted, true, value), Fate::untouched);
    push(queue, Kind::set, 1);
    EXPECT_EQ(queue.fate(entity, counted, true, value), Fate::queued);
    EXPECT_EQ(static_cast<Counted*>(value)->value, 1);
    EXPECT_EQ(queue.fate(entity, wide, true, value), Fate::untouched);
    EXPECT_EQ(queue.fate({entity.index, 9}, counted, true, value), Fate::untouched);
    push(queue, Kind::add, 2);
    EXPECT_EQ(queue.fate(entity, counted, true, value), Fate::queued);
    EXPECT_EQ(static_cast<Counted*>(value)->value, 1);
    queue.push(Kind::remove, entity, {&counted, 1}, {});
    EXPECT_EQ(queue.fate(entity, counted, true, value), Fate::removed);
    push(queue, Kind::add, 3);
    push(queue, Kind::add, 4);
    EXPECT_EQ(queue.fate(entity, counted, true, value), Fate::queued);
    EXPECT_EQ(static_cast<Counted*>(value)->value, 3);
    queue.push(Kind::destroy, entity, {}, {});
    EXPECT_EQ(queue.fate(entity, counted, true, value), Fate::removed);
    push(queue, Kind::set, 5);  // after the destroy
    EXPECT_EQ(queue.fate(entity, counted, true, value), Fate::removed);
    while (!queue.empty()) queue.finish(queue.pop());
}

TEST_F(CommandQueueTest, AnAddCountsOnlyIfTheComponentIsMissing) {
    CommandQueue queue(table);
    void* value = nullptr;
    push(queue, Kind::add, 1);
    EXPECT_EQ(queue.fate(entity, counted, true, value), Fate::untouched);
    EXPECT_EQ(queue.fate(entity, counted, false, value), Fate::queued);
    EXPECT_EQ(static_cast<Counted*>(value)->value, 1);
    queue.finish(queue.pop());
}

TEST_F(CommandQueueTest, QueuedChangeEventsDoNotMakeOperationsWait) {
    CommandQueue queue(table);
    queue.push_entities(CommandQueue::Kind::changed, {&entity, 1}, counted);
    EXPECT_FALSE(queue.has(entity));
    const CommandQueue::Command command = queue.pop();
    ASSERT_EQ(command.entities.size(), 1u);
    EXPECT_EQ(command.entities[0], entity);
    EXPECT_EQ(command.components[0], counted);
    queue.finish(command);
}
