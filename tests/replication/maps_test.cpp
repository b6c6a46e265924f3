// Maps: their entries and the order of their keys.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/replication/support/component_images.h"
#include "tests/replication/support/records.h"

namespace shoal::replication::impl::maps_test {
namespace {

struct Stock {
    std::map<std::string, std::int32_t> by_name;
    std::unordered_map<std::uint16_t, std::string> by_number;
};

struct Purse {
    std::map<std::uint8_t, std::int32_t> coins;
};

TEST(Maps, AMapOfNumbersReplicatesWithoutOtherParts) {
    Schema schema;
    schema.component<Purse>("purse");
    Pair pair({}, {}, 1, 1, schema);
    const ecs::Entity entity = pair.spawn(Purse{{{1, 10}, {2, 20}, {5, 50}}});
    pair.exchange();
    EXPECT_EQ(pair.on_client<Purse>(entity).coins, pair.world.get<Purse>(entity).coins);
    const std::int32_t* const kept = &pair.on_client<Purse>(entity).coins.at(5);
    pair.world.set(entity, Purse{{{2, 21}, {5, 50}}});
    pair.exchange();
    EXPECT_EQ(pair.on_client<Purse>(entity).coins, pair.world.get<Purse>(entity).coins);
    EXPECT_EQ(&pair.on_client<Purse>(entity).coins.at(5), kept) << "entries that stay keep their address";
}

// The order of an unordered_map's entries depends on its history. Words must not.
TEST(Maps, EntriesOfMapsAreInTheOrderOfKeys) {
    Schema schema;
    schema.component<Stock>("stock");
    ASSERT_EQ(schema.error(), "");
    ComponentImages images(schema);
    Stock rising, falling;
    for (std::uint16_t key = 0; key < 12; ++key) {
        rising.by_number[key] = std::to_string(key);
        falling.by_number[static_cast<std::uint16_t>(11 - key)] = std::to_string(11 - key);
    }
    EXPECT_EQ(images.words_of(rising), images.words_of(falling));
    falling.by_number.reserve(1'000);
    EXPECT_EQ(images.words_of(rising), images.words_of(falling));
    Stock few;
    few.by_name = {{"b", 2}, {"a", 1}};
    few.by_number = {{7, "seven"}, {3, ""}, {5, "!"}};
    EXPECT_EQ(images.words_of(few), (std::vector<std::uint32_t>{2, 1,   1,   2,   1,   2,   'a', 'b',  //
                                                                3, 3,   0,   5,   1,   7,   5,         //
                                                                6, '!', 's', 'e', 'v', 'e', 'n'}));
}

TEST(Maps, OfEntriesWithOneKeyTheLastOneStays) {
    Schema schema;
    schema.component<Stock>("stock");
    ComponentImages images(schema);
    Stock stock;
    stock.by_name = {{"old", 5}, {"a", 9}};
    stock.by_number = {{3, "old"}, {4, "old"}};
    // Keys "a", "b", "a", which are not in order; then 3, 3.
    images.restore({3, 1, 1, 2, 1, 3, 1, 3, 'a', 'b', 'a', 2, 3, 1, 3, 2, 3, 'x', 'y', 'z'}, stock);
    EXPECT_EQ(stock.by_name, (std::map<std::string, std::int32_t>{{"a", 3}, {"b", 2}}));
    EXPECT_EQ(stock.by_number, (std::unordered_map<std::uint16_t, std::string>{{3, "yz"}}));
    EXPECT_TRUE(images.stack.empty());
}

TEST(Maps, LongOnesAreCutAndCounted) {
    using Named = decltype(Stock::by_name)::value_type;
    Schema schema;
    schema.component<Stock>("stock", element(&Stock::by_number, max_length(2)),
                            element(&Stock::by_name, field(&Named::first, max_length(3))));
    ASSERT_EQ(schema.error(), "");
    ComponentImages images(schema);
    Stock stock{{{"wolf", 1}, {"wolves", 2}, {"elk", 3}}, {{5, "e"}, {9, "i"}, {1, "a"}}};
    const auto stock_words = images.words_of(stock);
    EXPECT_EQ(images.misfits, (ComponentLayout::Misfits{3, 0}));
    images.restore(stock_words, stock);
    EXPECT_EQ(stock.by_name, (std::map<std::string, std::int32_t>{{"elk", 3}, {"wol", 2}}));
    EXPECT_EQ(stock.by_number, (std::unordered_map<std::uint16_t, std::string>{{1, "a"}, {5, "e"}}));
}

/// A key whose order and equality are those of the game.
struct Place {
    std::int16_t x = 0, y = 0;
    auto operator<=>(const Place&) const = default;
};
struct PlaceHash {
    std::size_t operator()(const Place& place) const { return static_cast<std::size_t>(place.x); }
};
struct Board {
    std::map<Place, std::string, std::greater<>> signs;
    std::unordered_map<Place, bool, PlaceHash> open;
    std::map<bool, int> sums;
};

TEST(Maps, KeysCanBeStructsWithAnOrderOfTheGame) {
    Schema schema;
    using Sign = decltype(Board::signs)::value_type;
    schema.component<Board>("board",
                            element(&Board::signs, field(&Sign::first, field(&Place::x, bounded(0, 9)))));
    ASSERT_EQ(schema.error(), "");
    ComponentImages images(schema);
    Board board{{{{1, 2}, "here"}, {{3, 4}, ""}}, {{{5, 6}, true}, {{-5, 6}, false}}, {{true, 8}}}, over;
    EXPECT_EQ(images.layout().parts()[0].lanes[0].max, 9u);
    images.restore(images.words_of(board), over);
    EXPECT_EQ(over.signs, board.signs);
    EXPECT_EQ(over.open, board.open);
    EXPECT_EQ(over.sums, board.sums);
    EXPECT_EQ(images.words_of(over), images.words_of(board));
}

}  // namespace
}  // namespace shoal::replication::impl::maps_test
