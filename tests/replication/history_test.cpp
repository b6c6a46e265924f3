#include "replication/history/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "tests/replication/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::replication::impl {
namespace {

using Words = std::vector<std::uint32_t>;

Words words_of(const Image& image) {
    return {image.words.begin(), image.words.end()};
}

TEST(VersionPool, KeepsCopiesOfImagesOfAllSizesAndReusesTheirMemory) {
    std::mt19937 random(1);
    VersionPool pool;
    std::deque<std::pair<History, Words>> live;
    for (int step = 0; step < 30'000; ++step) {
        if (live.size() < 200 && random() % 2 == 0) {
            const std::size_t size = random() % 200 == 0 ? 60'000 + random() % 100'000 : random() % 90;
            Words words(size);
            for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
            History history;
            history.push(7, Image{nullptr, words}, pool);
            live.emplace_back(history, words);
        } else if (!live.empty()) {
            const std::size_t at = random() % live.size();
            ASSERT_EQ(words_of(live[at].first.newest()->image), live[at].second);
            live[at].first.clear();
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
        }
        ASSERT_EQ(pool.in_use(), live.size());
        std::size_t bytes = 0;
        for (const auto& [history, words] : live) bytes += words.size() * sizeof(std::uint32_t);
        ASSERT_GE(pool.bytes_in_use(), bytes);
    }
    for (auto& [history, words] : live) {
        ASSERT_EQ(words_of(history.newest()->image), words);
        history.clear();
    }
    EXPECT_EQ(pool.bytes_in_use(), 0u);
    EXPECT_EQ(pool.in_use(), 0u);
}

// The first megabyte has room for four images of this size, and a larger image does not fit into the rest.
TEST(VersionPool, KeepsAnImageThatIsLargerThanWhatIsLeftOfTheMemory) {
    for (std::size_t first = 1; first <= 4; ++first) {
        VersionPool pool;
        std::vector<std::pair<History, Words>> live;
        const auto push = [&](std::size_t size) {
            Words words(size, static_cast<std::uint32_t>(live.size() + 1));
            History history;
            history.push(1, Image{nullptr, words}, pool);
            live.emplace_back(history, words);
        };
        for (std::size_t i = 0; i < first; ++i) push(60'000);
        push(240'000);
        for (int i = 0; i < 20; ++i) push(60'000);
        for (auto& [history, words] : live) {
            ASSERT_EQ(words_of(history.newest()->image), words);
            history.clear();
        }
    }
}

TEST(VersionPool, UsesTheNumbersOfShapesWithoutVersionsAgain) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    VersionPool pool;
    for (int round = 0; round < 50; ++round) {
        const ComponentIndex one = static_cast<ComponentIndex>(round % 2);
        const Shape* const shape = shapes.shape({&one, 1});
        History history;
        history.push(1, Image{shape, Words(shape->lane_words)}, pool);
        EXPECT_EQ(shape->pool_index, 1u) << "0 is no shape";
        history.clear();
    }
}

TEST(VersionPool, AllocatesNothingOnceItHasGrown) {
    VersionPool pool;
    std::vector<History> histories(100);
    const Words words(33, 5);
    std::size_t before = 0;
    Tick tick = 0;
    for (int round = 0; round < 50; ++round) {
        if (round == 2) before = test::allocations();
        for (History& history : histories)
            for (int i = 0; i < 40; ++i) history.push(++tick, Image{nullptr, words}, pool);
        for (History& history : histories) history.clear();
    }
    EXPECT_EQ(test::allocations(), before);
}

// Beside its words, a version takes 12 bytes. The ring has room for at most twice as many.
TEST(VersionPool, TakesFewBytesBesideTheWords) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    const ComponentIndex all[] = {0, 1};
    const Shape* const shape = shapes.shape(all);
    VersionPool pool;
    History history;
    const Words words(shape->lane_words, 1);
    for (Tick tick = 1; tick <= 64; ++tick) history.push(tick, Image{shape, words}, pool);
    EXPECT_LE(pool.bytes_in_use(), 64 * (12 + words.size() * 4 * 5 / 4 + 4));
    EXPECT_EQ(shape->versions, 64u);
    history.clear();
    EXPECT_EQ(shape->versions, 0u);
}

TEST(VersionPool, TakesTwelveBytesBesideTheWordsAndFourMoreIfThereAreParts) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    const ComponentIndex position = static_cast<ComponentIndex>(schema.find<sim::Position>());
    const Shape* const shape = shapes.shape({&position, 1});
    ASSERT_EQ(shape->lane_words, 3u);
    for (const std::size_t parts : {0u, 2u}) {
        VersionPool pool;
        History history;
        for (Tick tick = 1; tick <= 64; ++tick) history.push(tick, Image{shape, Words(3 + parts, 1)}, pool);
        EXPECT_EQ(pool.bytes_in_use(), 64 * (12 + (3 + parts) * 4 + (parts != 0 ? 4 : 0)));
        history.clear();
    }
}

TEST(VersionPool, FillsItsMemoryBeforeItAllocatesMore) {
    VersionPool pool;
    std::vector<History> histories(8'000);
    histories[0].push(1, Image{nullptr, Words(8, 5)}, pool);
    const Words words(16, 5);
    const std::size_t before = test::allocations();
    for (History& history : histories) history.push(2, Image{nullptr, words}, pool);
    EXPECT_EQ(test::allocations(), before) << "23 words each, of a megabyte";
    for (History& history : histories) history.clear();
}

TEST(VersionPool, GivesTheImagesOfSeveralShapesBack) {
    const Schema schema = game_schema();
    ShapeTable shapes(schema);
    VersionPool pool;
    std::mt19937 random(3);
    const std::size_t known = schema.components().size();
    std::vector<std::pair<History, const Shape*>> live;
    for (int step = 0; step < 2'000; ++step) {
        const ComponentIndex one = static_cast<ComponentIndex>(random() % known);
        const Shape* const shape = shapes.shape({&one, 1});
        const std::size_t part_words = random() % 3;  // the size does not follow from the shape alone
        History history;
        history.push(1, Image{shape, Words(shape->lane_words + part_words, static_cast<std::uint32_t>(step))},
                     pool);
        live.emplace_back(history, shape);
        if (live.size() < 10) continue;
        const std::size_t at = random() % live.size();
        EXPECT_EQ(live[at].first.newest()->image.shape, live[at].second);
        live[at].first.clear();
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
    for (auto& [history, shape] : live) {
        EXPECT_EQ(history.newest()->image.shape, shape);
        history.clear();
    }
}

class List {
public:
    ~List() { list.clear(); }
    void push(Tick tick) {
        const std::uint32_t word = tick;
        list.push(tick, Image{nullptr, {&word, 1}}, pool);
    }
    std::vector<Tick> ticks() const {
        EXPECT_TRUE(list.is_consistent());
        std::vector<Tick> out;
        for (std::uint32_t i = 0; i < list.size(); ++i) {
            EXPECT_EQ(list[i].image.words[0], list[i].tick);
            out.push_back(list[i].tick);
        }
        EXPECT_EQ(pool.in_use(), list.size());
        return out;
    }
    VersionPool pool;
    History list;
};

TEST(History, FindsTheVersionOfATickOrTheOneValidAtATick) {
    List l;
    EXPECT_TRUE(l.list.empty());
    EXPECT_FALSE(l.list.oldest() || l.list.newest() || l.list.find(0) || l.list.at(0));
    EXPECT_EQ(l.list.count_until(0), 0u);
    EXPECT_FALSE(l.list.newest());
    EXPECT_FALSE(l.list.at(5));
    for (const Tick tick : {0xfffffff0u, 0xfffffffeu, 3u, 9u}) l.push(tick);
    EXPECT_EQ(l.list.find(3)->tick, 3u);
    EXPECT_FALSE(l.list.find(4));
    EXPECT_EQ(l.list.at(4)->tick, 3u);
    EXPECT_EQ(l.list.at(1)->tick, 0xfffffffeu);
    EXPECT_EQ(l.list.at(100)->tick, 9u);
    EXPECT_FALSE(l.list.at(0xffffffe0));
    EXPECT_EQ(l.list.newest()->tick, 9u);
}

TEST(History, DropReplacedKeepsTheNamedVersionAndTheOneValidAtTheTick) {
    List l;
    l.list.drop_replaced(6, 3);
    for (Tick tick = 1; tick <= 10; ++tick) l.push(tick);
    l.list.drop_replaced(6, 3);
    EXPECT_EQ(l.ticks(), (std::vector<Tick>{3, 6, 7, 8, 9, 10}));
    l.list.drop_replaced(6, 3);
    EXPECT_EQ(l.list.size(), 6u);
    List gaps;
    for (const Tick tick : {10u, 20u, 30u}) gaps.push(tick);
    gaps.list.drop_replaced(29, 29);
    EXPECT_EQ(gaps.ticks(), (std::vector<Tick>{20, 30})) << "version 20 is valid until 30";
    gaps.list.drop_replaced(99, 99);
    EXPECT_EQ(gaps.ticks(), (std::vector<Tick>{30})) << "the newest stays";
}

TEST(History, DropReplacedDropsWhatAllClassesThatSeeItHaveReplaced) {
    const ViewClasses owner{1}, other{2}, both{3};
    struct Case {
        ViewClasses first, second, third;
        std::vector<Tick> left;  // after drop_replaced() at the third tick
    };
    const Case cases[] = {
        {owner, owner, owner, {3}},       {owner, owner, other, {2, 3}},
        {owner, other, owner, {2, 3}},    {both, owner, other, {2, 3}},
        {both, owner, owner, {1, 3}},     {to_everyone(), owner, other, {1, 2, 3}},
        {both, both, to_everyone(), {3}}, {owner, both, other, {2, 3}},
    };
    for (const Case& one : cases) {
        List l;
        const std::uint32_t words[] = {1, 2, 3};
        l.list.push({1, Image{nullptr, {&words[0], 1}}, one.first}, l.pool);
        l.list.push({2, Image{nullptr, {&words[1], 1}}, one.second}, l.pool);
        l.list.drop_replaced(1, 2);
        EXPECT_EQ(l.ticks(), (std::vector<Tick>{1, 2})) << "not replaced yet";
        const bool replaces = (one.first.bits & ~one.second.bits) == 0;
        l.list.push({3, Image{nullptr, {&words[2], 1}}, one.third}, l.pool);
        l.list.drop_replaced(2, 3);
        EXPECT_EQ(l.ticks(), replaces ? (std::vector<Tick>{2, 3}) : (std::vector<Tick>{1, 2, 3}));
        l.list.drop_replaced(3, 3);
        EXPECT_EQ(l.ticks(), one.left);
    }
    List two;
    const std::uint32_t words[] = {1, 2};
    two.list.push({1, Image{nullptr, {&words[0], 1}}, owner}, two.pool);
    two.list.push({2, Image{nullptr, {&words[1], 1}}, owner}, two.pool);
    two.list.drop_replaced(5, 2);
    EXPECT_EQ(two.ticks(), (std::vector<Tick>{2}));
}

TEST(History, MatchesADequeAcrossTheTickWraparound) {
    std::mt19937 random(1);
    List l;
    std::deque<Tick> model;
    Tick tick = 0xffffff00;
    for (int step = 0; step < 20'000; ++step) {
        if (!model.empty() && random() % 8 == 0) {
            const Tick inside = model.front() - 3 + static_cast<Tick>(random() % 60);
            if (is_newer(inside, model.back())) continue;
            const std::uint32_t word = inside;
            l.list.insert(inside, Image{nullptr, {&word, 1}}, l.pool);
            const auto place =
                std::find_if(model.begin(), model.end(), [&](Tick t) { return !is_newer(inside, t); });
            if (*place != inside) model.insert(place, inside);
        } else if (model.size() < 60 && random() % 5 < 3) {
            tick += 1 + static_cast<Tick>(random() % 3);
            l.push(tick);
            model.push_back(tick);
        } else if (!model.empty()) {
            const Tick from = model[random() % model.size()] + static_cast<Tick>(random() % 2);
            const Tick kept = model[random() % model.size()];
            l.list.drop_replaced(from, kept);
            std::deque<Tick> left;
            for (std::size_t i = 0; i < model.size(); ++i) {
                const bool replaced = i + 1 < model.size() && !is_newer(model[i + 1], from);
                if (!replaced || model[i] == kept) left.push_back(model[i]);
            }
            model = left;
        }
        ASSERT_EQ(l.ticks(), std::vector<Tick>(model.begin(), model.end()));
    }
}

}  // namespace
}  // namespace shoal::replication::impl
