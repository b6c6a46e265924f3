#include "replication/history/version.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <utility>
#include <vector>

namespace shoal::replication {
namespace {

TEST(VersionPool, KeepsCopiesAndReusesReleasedMemory) {
    std::mt19937 random(1);
    VersionPool pool;
    std::deque<std::pair<Version*, std::vector<std::uint32_t>>> live;
    for (int step = 0; step < 20'000; ++step) {
        if (live.size() < 200 && random() % 2 == 0) {
            std::vector<std::uint32_t> words(random() % (random() % 50 == 0 ? 40'000 : 60));
            for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
            live.emplace_back(pool.make(7, Image{nullptr, words}), words);
        } else if (!live.empty()) {
            const auto& [version, words] = live.front();
            ASSERT_EQ(version->tick, 7u);
            const auto held = version->image.words;
            ASSERT_TRUE(std::equal(held.begin(), held.end(), words.begin(), words.end()));
            pool.release(version);
            live.pop_front();
        }
        ASSERT_EQ(pool.in_use(), live.size());
    }
}

class List {
public:
    ~List() { list.clear(pool); }
    void push(Tick tick) {
        const std::uint32_t word = tick;
        list.push(tick, Image{nullptr, {&word, 1}}, pool);
    }
    std::vector<Tick> ticks() const {
        EXPECT_TRUE(list.is_consistent());
        std::vector<Tick> out;
        for (const Version* at = list.oldest(); at; at = at->newer) {
            EXPECT_EQ(at->image.words[0], at->tick);
            out.push_back(at->tick);
        }
        EXPECT_EQ(out.size(), list.size());
        EXPECT_EQ(pool.in_use(), list.size());
        return out;
    }
    VersionPool pool;
    VersionList list;
};

TEST(VersionList, FindsTheVersionOfATickOrTheOneValidAtATick) {
    List l;
    EXPECT_TRUE(l.list.empty());
    EXPECT_EQ(l.list.newest(), nullptr);
    EXPECT_EQ(l.list.at(5), nullptr);
    for (const Tick tick : {0xfffffff0u, 0xfffffffeu, 3u, 9u}) l.push(tick);
    EXPECT_EQ(l.list.find(3)->tick, 3u);
    EXPECT_EQ(l.list.find(4), nullptr);
    EXPECT_EQ(l.list.at(4)->tick, 3u);
    EXPECT_EQ(l.list.at(1)->tick, 0xfffffffeu);
    EXPECT_EQ(l.list.at(100)->tick, 9u);
    EXPECT_EQ(l.list.at(0xffffffe0), nullptr);
    EXPECT_EQ(l.list.newest()->tick, 9u);
}

TEST(VersionList, DropReplacedKeepsTheNamedVersionAndTheOneValidAtTheTick) {
    List l;
    l.list.drop_replaced(6, 3, l.pool);
    for (Tick tick = 1; tick <= 10; ++tick) l.push(tick);
    l.list.drop_replaced(6, 3, l.pool);
    EXPECT_EQ(l.ticks(), (std::vector<Tick>{3, 6, 7, 8, 9, 10}));
    l.list.drop_replaced(6, 3, l.pool);
    EXPECT_EQ(l.list.size(), 6u);
    List gaps;
    for (const Tick tick : {10u, 20u, 30u}) gaps.push(tick);
    gaps.list.drop_replaced(29, 29, gaps.pool);
    EXPECT_EQ(gaps.ticks(), (std::vector<Tick>{20, 30})) << "version 20 is valid until 30";
    gaps.list.drop_replaced(99, 99, gaps.pool);
    EXPECT_EQ(gaps.ticks(), (std::vector<Tick>{30})) << "the newest stays";
    l.list.drop(l.list.oldest(), l.pool);
    l.list.drop(l.list.newest(), l.pool);
    l.list.drop(l.list.find(8), l.pool);
    EXPECT_EQ(l.ticks(), (std::vector<Tick>{6, 7, 9}));
}

TEST(VersionList, MatchesADequeAcrossTheTickWraparound) {
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
        } else if (!model.empty() && random() % 2 == 0) {
            const std::size_t at = random() % model.size();
            l.list.drop(l.list.find(model[at]), l.pool);
            model.erase(model.begin() + static_cast<std::ptrdiff_t>(at));
        } else if (!model.empty()) {
            const Tick from = model[random() % model.size()] + static_cast<Tick>(random() % 2);
            const Tick kept = model[random() % model.size()];
            l.list.drop_replaced(from, kept, l.pool);
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
}  // namespace shoal::replication
