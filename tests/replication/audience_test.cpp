#include "replication/send/audience.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace shoal::replication::impl {
namespace {

using Model = std::map<std::uint32_t, std::map<std::uint32_t, std::uint32_t>>;  // entry -> peer -> slot

void expect_equal(const Audience& audience, const Model& model, std::uint32_t entries) {
    std::size_t pairs = 0;
    for (std::uint32_t entry = 0; entry < entries; ++entry) {
        const auto found = model.find(entry);
        const std::size_t expected = found == model.end() ? 0 : found->second.size();
        ASSERT_EQ(audience.of(entry).size(), expected);
        for (const Audience::Viewer viewer : audience.of(entry))
            ASSERT_EQ(found->second.at(viewer.peer), viewer.slot);
        pairs += expected;
    }
    ASSERT_EQ(audience.size(), pairs);
    ASSERT_TRUE(audience.is_consistent());
}

TEST(Audience, AgreesWithAMapOfMaps) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 engine(seed);
        const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
        Audience audience;
        Model model;
        std::uint32_t entries = 1;
        audience.resize(entries);
        for (int step = 0; step < 2'000; ++step) {
            const std::uint32_t entry = random() % entries, peer = random() % 40;
            const bool is_viewer = model[entry].count(peer) != 0;
            ASSERT_EQ(audience.has(entry, peer), is_viewer);
            if (random() % 50 == 0) {
                audience.clear(entry);
                model.erase(entry);
            } else if (random() % 100 == 0) {
                audience.resize(entries += 3);
            } else if (is_viewer) {
                audience.remove(entry, peer);
                model[entry].erase(peer);
            } else {
                const std::uint32_t slot = random();
                audience.add(entry, {peer, slot});
                model[entry][peer] = slot;
            }
        }
        expect_equal(audience, model, entries);
    }
}

TEST(Audience, AClearedEntityKeepsItsMemoryForTheNext) {
    Audience audience;
    audience.resize(1);
    for (std::uint32_t peer = 0; peer < 100; ++peer) audience.add(0, {peer, peer});
    const Audience::Viewer* const memory = audience.of(0).data();
    audience.clear(0);
    EXPECT_EQ(audience.size(), 0u);
    for (std::uint32_t peer = 0; peer < 100; ++peer) audience.add(0, {peer, peer});
    EXPECT_EQ(audience.of(0).data(), memory);
}

}  // namespace
}  // namespace shoal::replication::impl
