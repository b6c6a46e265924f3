#include "net/message/message_store.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "net/fifo.h"
#include "tests/net/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::net::impl {
namespace {

TEST(Fifo, MatchesDeque) {
    std::mt19937 random(1);
    Fifo<int> fifo;
    std::deque<int> model;
    for (int step = 0; step < 20'000; ++step) {
        if (random() % 2 || model.empty()) {
            fifo.push(step);
            model.push_back(step);
        } else if (random() % 2) {
            fifo.push_front(step);
            model.push_front(step);
        } else {
            const std::size_t count = 1 + random() % model.size();
            fifo.pop(count);
            model.erase(model.begin(), model.begin() + std::ptrdiff_t(count));
        }
        ASSERT_EQ(fifo.size(), model.size());
        for (std::size_t i = 0; i < model.size(); ++i) ASSERT_EQ(fifo[i], model[i]);
    }
}

// Goal: messages of any size are returned unchanged, and released memory is used again.
// Method: seeded puts and releases, compared with a map of strings; at most 50 messages at a time.
TEST(MessageStore, MatchesMapAndReusesRoom) {
    std::mt19937 random(2);
    MessageStore store;
    std::vector<std::pair<std::uint32_t, std::string>> model;
    for (int step = 0; step < 20'000; ++step) {
        if (model.size() < 50 && random() % 2) {
            const std::string text(random() % 3 ? random() % 70 : random() % 1000, char('a' + step % 26));
            const std::size_t before = test::allocations();
            const std::uint32_t handle = store.put(as_bytes(text));
            if (step >= 10'000) {
                ASSERT_EQ(test::allocations(), before);
            }
            model.push_back({handle, text});
        } else if (!model.empty()) {
            const std::size_t pick = random() % model.size();
            std::string text(model[pick].second.size(), '?');
            store.read(model[pick].first, std::as_writable_bytes(std::span(text)));
            ASSERT_EQ(text, model[pick].second);
            store.release(model[pick].first);
            model.erase(model.begin() + std::ptrdiff_t(pick));
        }
    }
}

}  // namespace
}  // namespace shoal::net::impl
