// Strings, vectors, optionals and maps in one another: elements of a part that are of variable length.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "replication/codec/codec.h"
#include "replication/schema/schema.h"
#include "tests/replication/support/bits.h"
#include "tests/replication/support/component_images.h"
#include "tests/replication/support/records.h"
#include "tests/replication/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::replication::impl::nested_test {
namespace {

enum class Rune : std::uint8_t { none, fire, ice, wind };

struct Trinket {
    std::string name;
    std::int32_t count = 0;
    std::optional<std::uint16_t> price;
    std::vector<std::uint8_t> marks;
    ecs::Entity owner;
    bool operator==(const Trinket&) const = default;
};
using Notes = std::unordered_map<std::uint16_t, std::vector<std::string>>;
using Shelf = std::map<std::int8_t, Trinket>;
using Shelves = std::map<Rune, Shelf>;
using Lines = std::vector<std::string>;
using Pages = std::vector<Lines>;

/// All kinds of nesting, beside fields that are not nested.
struct Chest {
    std::int32_t gold = 0;
    std::vector<std::string> names;
    std::vector<std::vector<std::int32_t>> grid;
    std::vector<Trinket> trinkets;
    std::map<std::string, std::int32_t> stock;
    Notes notes;
    std::optional<std::string> title;
    Shelves shelves;
    std::vector<std::optional<float>> odds;
    std::vector<Pages> books;
    std::string motto;
    bool operator==(const Chest&) const = default;
};

void describe_chest(Schema& schema) {
    schema.component<Chest>(
        "chest",
        element(&Chest::notes, max_length(6),
                element(&Notes::value_type::second, max_length(3), inner<std::string>(max_length(20)))),
        element(&Chest::shelves, max_length(3),
                element(&Shelves::value_type::second, max_length(4),
                        field(&Shelf::value_type::second, field(&Trinket::count, bounded(-100, 100))))),
        element(&Chest::books, max_length(3),
                inner<Pages>(max_length(3), inner<Lines>(max_length(2), inner<std::string>(max_length(5))))));
}

Schema chest_schema() {
    Schema schema;
    describe_chest(schema);
    EXPECT_EQ(schema.error(), "");
    return schema;
}

/// Makes random chests, and changes them. All values are within the limits of the schema.
class ChestScript {
public:
    ChestScript(std::uint64_t seed, std::vector<ecs::Entity> owners)
        : random_(seed), owners_(std::move(owners)) {}

    void change(Chest& chest) {
        switch (random_.below(11)) {
            case 0:
                chest.gold = number();
                return;
            case 1:
                return change_vector(chest.names, 16, [&](std::string& name) { change_text(name, 64); });
            case 2:
                return change_vector(chest.grid, 16, [&](std::vector<std::int32_t>& row) {
                    change_vector(row, 16, [&](std::int32_t& cell) { cell = number(); });
                });
            case 3:
                return change_vector(chest.trinkets, 16, [&](Trinket& trinket) { change_trinket(trinket); });
            case 4:
                return change_map(
                    chest.stock, 16, [&] { return text(random_.below(30)); },
                    [&](std::int32_t& count) { count = number(); });
            case 5:
                return change_map(
                    chest.notes, 6, [&] { return static_cast<std::uint16_t>(random_.below(10)); },
                    [&](Lines& lines) { change_lines(lines, 3, 20); });
            case 6:
                if (random_.chance(0.3))
                    chest.title.reset();
                else
                    change_text(chest.title ? *chest.title : chest.title.emplace(), 64);
                return;
            case 7:
                return change_map(
                    chest.shelves, 3, [&] { return static_cast<Rune>(random_.below(4)); },
                    [&](Shelf& shelf) {
                        change_map(
                            shelf, 4, [&] { return static_cast<std::int8_t>(random_.below(6)); },
                            [&](Trinket& trinket) { change_trinket(trinket); });
                    });
            case 8:
                return change_vector(chest.odds, 16, [&](std::optional<float>& odd) {
                    if (random_.chance(0.5))
                        odd.reset();
                    else
                        odd = static_cast<float>(number()) / 8;
                });
            case 9:
                return change_vector(chest.books, 3, [&](Pages& pages) {
                    change_vector(pages, 3, [&](Lines& lines) { change_lines(lines, 2, 5); });
                });
            default:
                return change_text(chest.motto, 64);
        }
    }
    Chest chest() {
        Chest out;
        for (std::uint32_t changes = random_.below(60); changes > 0; --changes) change(out);
        return out;
    }

    sim::Random& random() { return random_; }
    std::vector<ecs::Entity>& owners() { return owners_; }

private:
    std::int32_t number() { return static_cast<std::int32_t>(random_.below(200)) - 100; }
    std::string text(std::size_t length) {
        std::string out(length, ' ');
        for (char& letter : out) letter = static_cast<char>('a' + random_.below(26));
        return out;
    }
    void change_text(std::string& to, std::uint32_t most) {
        if (to.empty() || random_.chance(0.3))
            to = text(random_.below(most + 1));
        else
            to[random_.below(static_cast<std::uint32_t>(to.size()))] = '!';
    }
    void change_lines(Lines& lines, std::size_t most, std::uint32_t most_letters) {
        change_vector(lines, most, [&](std::string& line) { change_text(line, most_letters); });
    }
    template <class T, class Change>
    void change_vector(std::vector<T>& to, std::size_t most, const Change& change_element) {
        const std::size_t at = random_.below(static_cast<std::uint32_t>(to.size() + 1));
        const auto place = to.begin() + static_cast<std::ptrdiff_t>(at);
        switch (random_.below(5)) {
            case 0:
            case 1:
                if (to.size() < most) change_element(*to.emplace(place));
                return;
            case 2:
                if (at < to.size()) to.erase(place);
                return;
            case 3:
                std::rotate(to.begin(), place, to.end());
                return;
            default:
                if (at < to.size()) change_element(to[at]);
        }
    }
    template <class Map, class MakeKey, class Change>
    void change_map(Map& map, std::size_t most, const MakeKey& make_key, const Change& change_value) {
        if (map.size() == most || (!map.empty() && random_.chance(0.2))) {
            map.erase(map.begin());
        } else {
            change_value(map.empty() || random_.chance(0.5) ? map[make_key()] : map.begin()->second);
        }
    }
    void change_trinket(Trinket& trinket) {
        switch (random_.below(5)) {
            case 0:
                return change_text(trinket.name, 64);
            case 1:
                trinket.count = number();
                return;
            case 2:
                if (random_.chance(0.5))
                    trinket.price.reset();
                else
                    trinket.price = static_cast<std::uint16_t>(random_.below(5'000));
                return;
            case 3:
                return change_vector(trinket.marks, 16, [&](std::uint8_t& mark) {
                    mark = static_cast<std::uint8_t>(random_.below(256));
                });
            default:
                if (!owners_.empty())
                    trinket.owner = owners_[random_.below(static_cast<std::uint32_t>(owners_.size()))];
        }
    }

    sim::Random random_;
    std::vector<ecs::Entity> owners_;
};

template <class Change>
void each_owner(Chest& chest, const Change& change) {
    for (Trinket& trinket : chest.trinkets) change(trinket.owner);
    for (auto& [rune, shelf] : chest.shelves)
        for (auto& [place, trinket] : shelf) change(trinket.owner);
}

// Goal: a complete client has exactly the server's values, whatever was nested, changed and lost.
// Method: random changes of plain chests, copied to the server's world; packets are lost or late; the client
// is compared with the plain chests. Some chests refer to entities that are destroyed and replaced.
TEST(Nested, ACompleteClientHasTheServersValues) {
    int compared = 0, deltas = 0;
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Pair pair({}, {}, 1, 1, chest_schema());
        std::vector<ecs::Entity> owners;
        for (int i = 0; i < 4; ++i) owners.push_back(pair.spawn());
        ChestScript script(seed, owners);
        std::vector<std::pair<ecs::Entity, Chest>> chests;
        for (int i = 0; i < 3; ++i) {
            const Chest chest = script.chest();
            chests.emplace_back(pair.spawn(chest), chest);
        }
        std::vector<SentPacket> late;
        for (int step = 0; step < 120; ++step) {
            for (auto& [entity, chest] : chests) {
                if (!script.random().chance(0.5)) continue;
                if (script.random().chance(0.02)) chest = script.chest();
                for (std::uint32_t changes = script.random().below(4); changes > 0; --changes)
                    script.change(chest);
                pair.world.set(entity, chest);
                ++deltas;
            }
            if (step == 60) {
                pair.world.destroy(script.owners()[0]);
                script.owners()[0] = pair.spawn();
            }
            pair.forward_rebases();
            pair.tick();
            while (const std::optional<SentPacket> packet = pair.encode()) {
                if (script.random().chance(0.2))
                    pair.lose(*packet);
                else if (script.random().chance(0.2))
                    late.push_back(*packet);
                else
                    pair.deliver(*packet);
            }
            if (late.size() > 3) {
                for (const SentPacket& packet : late) pair.deliver(packet);
                late.clear();
            }
            pair.receiver.apply();
            const auto complete = pair.receiver.complete();
            if (!complete || complete->tick != pair.sender.tick()) continue;
            ++compared;
            ASSERT_TRUE(pair.worlds_are_equal());
            for (auto& [entity, chest] : chests) {
                Chest expected = chest;
                each_owner(expected, [&](ecs::Entity& owner) {
                    owner = pair.world.is_alive(owner) ? pair.replica(owner) : ecs::Entity{};
                });
                ASSERT_EQ(pair.on_client<Chest>(entity), expected) << "step " << step;
            }
        }
        ASSERT_EQ(pair.sender.shadow().misfits(), ComponentLayout::Misfits{});
    }
    EXPECT_GT(compared, 500);
    EXPECT_GT(deltas, 3'000);
}

TEST(Nested, RestoredValuesAreQuantisedToTheSameWords) {
    const Schema schema = chest_schema();
    ComponentImages images(schema);
    Chest over;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const Chest chest = ChestScript(seed, {}).chest();
        const auto words = images.words_of(chest);
        ASSERT_TRUE(images.layout().lengths_match(words.data() + images.layout().lanes().size()));
        images.restore(words, over);  // what another chest left is overwritten
        ASSERT_EQ(over, chest);
        ASSERT_EQ(images.words_of(over), words);
        ASSERT_EQ(images.read({}, images.write({}, words)), words);
    }
    EXPECT_TRUE(images.stack.empty());
    EXPECT_EQ(images.misfits, ComponentLayout::Misfits{});
}

TEST(Nested, TheStackOfTheCallerIsOptionalAndStaysAsItWas) {
    const Schema schema = chest_schema();
    ComponentImages images(schema);
    const int mark = 0;
    images.stack.push_back(&mark);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const Chest chest = ChestScript(seed, {}).chest();
        const auto words = images.words_of(chest);
        Chest with, without;
        images.restore(words, with);
        EXPECT_EQ(with, chest);
        EXPECT_EQ(images.stack, PointerStack{&mark});
        std::vector<std::uint32_t> lanes(images.layout().lanes().size()), parts;
        images.layout().quantise(&chest, images.map, lanes.data(), parts, images.misfits);
        lanes.insert(lanes.end(), parts.begin(), parts.end());
        EXPECT_EQ(lanes, words);
        images.layout().restore(words.data(), words.data() + images.layout().lanes().size(), images.map,
                                &without);
        EXPECT_EQ(without, chest);
    }
}

/// Whether all lengths are within the limits of chest_schema().
bool is_within_limits(const Chest& chest) {
    bool ok = chest.names.size() <= 16 && chest.grid.size() <= 16 && chest.trinkets.size() <= 16 &&
              chest.stock.size() <= 16 && chest.notes.size() <= 6 && chest.shelves.size() <= 3 &&
              chest.odds.size() <= 16 && chest.books.size() <= 3 && chest.motto.size() <= 64;
    for (const std::string& name : chest.names) ok = ok && name.size() <= 64;
    for (const auto& row : chest.grid) ok = ok && row.size() <= 16;
    for (const Trinket& trinket : chest.trinkets)
        ok = ok && trinket.name.size() <= 64 && trinket.marks.size() <= 16;
    for (const auto& [name, count] : chest.stock) ok = ok && name.size() <= 64;
    for (const auto& [number, lines] : chest.notes) {
        ok = ok && lines.size() <= 3;
        for (const std::string& line : lines) ok = ok && line.size() <= 20;
    }
    for (const auto& [rune, shelf] : chest.shelves) {
        ok = ok && shelf.size() <= 4;
        for (const auto& [place, trinket] : shelf) ok = ok && trinket.count >= -100 && trinket.count <= 100;
    }
    for (const Pages& pages : chest.books) {
        ok = ok && pages.size() <= 3;
        for (const Lines& lines : pages) ok = ok && lines.size() <= 2;
    }
    return ok;
}

// Goal: any bits give a value within all limits, or are refused as a whole.
// Method: flipped bits in deltas and full images; what is accepted is restored over another value.
TEST(Nested, AnyBitsGiveAValueWithinTheLimitsOrNone) {
    const Schema schema = chest_schema();
    ComponentImages images(schema);
    int accepted = 0, refused = 0;
    Chest over;
    for (std::uint64_t seed = 1; seed <= 4'000; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        ChestScript script(seed, {});
        const Chest before = script.chest();
        Chest now = before;
        for (int changes = 0; changes < 6; ++changes) script.change(now);
        const auto from = seed % 4 == 0 ? std::vector<std::uint32_t>() : images.words_of(before);
        std::vector<std::byte> bytes = images.write(from, images.words_of(now));
        for (std::uint32_t flips = 1 + script.random().below(2); flips > 0; --flips) {
            const std::uint32_t at = script.random().below(static_cast<std::uint32_t>(bytes.size()));
            bytes[at] ^= static_cast<std::byte>(1u << script.random().below(8));
        }
        const auto words = images.read(from, bytes);
        // A reader may find that the image has no component any more.
        if (!words || words->empty()) {
            ++refused;
            continue;
        }
        ++accepted;
        ASSERT_TRUE(images.layout().lengths_match(words->data() + images.layout().lanes().size()));
        images.restore(*words, over);
        ASSERT_TRUE(is_within_limits(over));
    }
    EXPECT_GT(accepted, 300);
    EXPECT_GT(refused, 300);
}

TEST(Nested, EveryTruncatedPrefixIsRefused) {
    const Schema schema = chest_schema();
    ComponentImages images(schema);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        ChestScript script(seed, {});
        const Chest before = script.chest();
        Chest now = before;
        for (int changes = 0; changes < 5; ++changes) script.change(now);
        const auto from = images.words_of(before);
        const std::vector<std::byte> whole = images.write(from, images.words_of(now));
        for (std::size_t size = 0; size < whole.size(); ++size)
            ASSERT_EQ(images.read(from, {whole.data(), size}), std::nullopt) << "seed " << seed;
    }
}

struct Names {
    std::vector<std::string> list;
};

Schema names_schema() {
    Schema schema;
    schema.component<Names>("names",
                            element(&Names::list, max_length(60), inner<std::string>(max_length(40))));
    EXPECT_EQ(schema.error(), "");
    return schema;
}

Names forty_names() {
    Names names;
    for (int i = 0; i < 40; ++i) names.list.push_back("player number " + std::to_string(100 + i));
    return names;
}

// The lengths are one part, the bytes of all strings the other.
TEST(Nested, WordsThatDoNotMatchAreRefusedAsAWhole) {
    const Schema schema = names_schema();
    ComponentImages images(schema);
    using Words = std::vector<std::uint32_t>;
    const Words from = images.words_of(Names{{"ab", "c"}});
    ASSERT_EQ(from, (Words{2, 2, 1, 3, 'a', 'b', 'c'}));
    const Words good[] = {{2, 1, 2, 3, 'a', 'b', 'c'}, {0, 0}, {2, 0, 0, 0}, {1, 2, 2, 'x', 'y'}};
    const Words bad[] = {{2, 2, 2, 3, 'a', 'b', 'c'},
                         {2, 2, 1, 2, 'a', 'b'},
                         {0, 1, 'a'},
                         {1, 2, 0},
                         {3, 2, 1, 1, 3, 'a', 'b', 'c'},
                         {1,  24, 25, 1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                          12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25}};
    for (const Words& baseline : {Words{}, from}) {
        for (const Words& words : good) {
            const bool is_empty = words == Words{0, 0};
            EXPECT_EQ(images.read(baseline, images.write(baseline, words)), words) << is_empty;
        }
        for (const Words& words : bad) {
            EXPECT_EQ(images.read(baseline, images.write(baseline, words)), std::nullopt) << words.size();
        }
    }
}

TEST(Nested, AReceiverRefusesAPayloadWhoseLengthsDoNotMatch) {
    Pair pair({}, {}, 1, 1, names_schema());
    const ecs::Entity entity = pair.spawn(Names{{"ab", "c"}});
    pair.exchange();
    ASSERT_EQ(pair.on_client<Names>(entity).list, (std::vector<std::string>{"ab", "c"}));
    const Shape* const shape = image_of(pair, entity).shape;
    const std::vector<std::uint32_t> good{2, 2, 1, 3, 'a', 'b', 'c'}, bad{2, 2, 2, 3, 'x', 'y', 'z'};
    const std::string before = state_of(pair.receiver, pair.schema);
    const RecordHeader delta{.slot = 0, .kind = RecordKind::delta, .baseline = pair.sender.tick()};
    const auto payload =
        payload_of(pair.schema, pair.sender.tick() + 1, {{delta, {shape, good}, {shape, bad}}});
    EXPECT_EQ(pair.receiver.receive(77, payload), Receiver::Verdict::malformed);
    EXPECT_EQ(state_of(pair.receiver, pair.schema), before);
    pair.receiver.apply();
    EXPECT_EQ(pair.on_client<Names>(entity).list, (std::vector<std::string>{"ab", "c"}));
}

TEST(Nested, AChangeOfAStringCostsAboutWhatItChanges) {
    const Schema schema = names_schema();
    ComponentImages images(schema);
    const Names from = forty_names();
    const auto bits_after = [&](auto&& change) {
        Names to = from;
        change(to.list);
        return images.bits(from, to);
    };
    EXPECT_EQ(bits_after([](auto&) {}), 2u);
    EXPECT_LE(bits_after([](auto& list) { list[20].back() = 'x'; }), 8 + 24u) << "one letter";
    EXPECT_LE(bits_after([](auto& list) { list[20] = "another wolf here"; }), 17 * 8 + 32u) << "all letters";
    EXPECT_LE(bits_after([](auto& list) { list[20] += " jr"; }), 3 * 8 + 44u) << "three letters more";
    EXPECT_LE(bits_after([](auto& list) { list[20] = "wolf"; }), 4 * 8 + 60u) << "shorter";
    EXPECT_LE(bits_after([](auto& list) { list.insert(list.begin() + 20, "wolf"); }), 4 * 8 + 50u);
    EXPECT_LE(bits_after([](auto& list) { list.erase(list.begin() + 20); }), 46u);
    EXPECT_LE(bits_after([](auto& list) { list.push_back("wolf"); }), 4 * 8 + 50u);
    EXPECT_LE(bits_after([](auto& list) { list[3].back() = 'x', list[36].back() = 'y'; }), 2 * (8 + 20u));
    // An insertion or erasure of up to 64 bytes is recognised although other strings changed, too.
    EXPECT_LE(bits_after([](auto& list) { list.erase(list.begin() + 3), list[36].back() = 'y'; }), 70u);
    EXPECT_LE(bits_after([](auto& list) { list[3] += " and his friends", list[36].back() = 'y'; }),
              16 * 8 + 80u);
    EXPECT_LE(bits_after([](auto& list) {
                  list.insert(list.begin() + 3, "a wolf with a long name");
                  list[36].back() = 'y';
              }),
              23 * 8 + 80u);
}

TEST(Nested, LongOnesAreCutAndCounted) {
    Schema schema;
    schema.component<Names>("names", element(&Names::list, max_length(2), inner<std::string>(max_length(3))));
    ComponentImages images(schema);
    Names names{{"long", "ab", "cut"}};
    const auto words = images.words_of(names);
    EXPECT_EQ(images.misfits, (ComponentLayout::Misfits{2, 0}));
    images.restore(words, names);
    EXPECT_EQ(names.list, (std::vector<std::string>{"lon", "ab"}));
}

TEST(Nested, AReferenceIsFilledInWhenItsEntityArrives) {
    Pair pair({}, {}, 1, 1, chest_schema());
    const ecs::Entity owner = pair.world.spawn();
    Chest chest;
    chest.trinkets = {{"ring", 1, {}, {7}, owner}};
    chest.shelves[Rune::ice][3].owner = owner;
    const ecs::Entity entity = pair.spawn(chest);
    pair.exchange();
    ASSERT_EQ(pair.on_client<Chest>(entity).trinkets[0].name, "ring");
    EXPECT_FALSE(pair.on_client<Chest>(entity).trinkets[0].owner);
    pair.world.add<Replicated>(owner);
    pair.exchange();
    ASSERT_TRUE(pair.replica(owner));
    EXPECT_EQ(pair.on_client<Chest>(entity).trinkets[0].owner, pair.replica(owner));
    EXPECT_EQ(pair.on_client<Chest>(entity).shelves.at(Rune::ice).at(3).owner, pair.replica(owner));
    pair.world.remove<Replicated>(owner);
    pair.exchange();
    EXPECT_FALSE(pair.on_client<Chest>(entity).trinkets[0].owner);
    EXPECT_FALSE(pair.on_client<Chest>(entity).shelves.at(Rune::ice).at(3).owner);
    EXPECT_TRUE(pair.worlds_are_equal());
}

// Without long keys of maps: each time that such a map is written, a client allocates memory for a key.
TEST(Nested, ValuesThatDoNotGrowNeedNoMemory) {
    const Schema schema = chest_schema();
    ComponentImages images(schema);
    Chest chests[2];
    for (std::uint64_t i = 0; i < 2; ++i) {
        chests[i].names = {"a name that needs memory of its own", "wolf"};
        chests[i].grid = {{1, 2, static_cast<int>(i)}, {4}};
        chests[i].stock = {{"wood", 4}, {"stone", static_cast<int>(i)}};
        chests[i].notes = {{1, {"first", i ? "another text of it" : "a text that is long"}}, {4, {}}};
        chests[i].shelves[Rune::fire][1] = {"ring", 3, {}, {1, 2, 3}, {}};
        chests[i].title = "the title of this chest, which is long";
        chests[i].books = {{{"one", "two"}}};
    }
    Chest restored;
    std::vector<std::uint32_t> lanes(images.layout().lanes().size()), parts;
    std::size_t before = 0;
    for (std::size_t round = 0; round < 12; ++round) {
        if (round == 4) before = test::allocations();
        parts.clear();
        images.layout().quantise(&chests[round % 2], images.map, lanes.data(), parts, images.misfits,
                                 &images.stack);
        images.layout().restore(lanes.data(), parts.data(), images.map, &restored, &images.stack);
    }
    EXPECT_EQ(test::allocations(), before);
    EXPECT_EQ(restored, chests[1]);
}

TEST(Nested, CodecsReachFieldsInsideElementsOfElements) {
    const Schema schema = chest_schema();
    const std::vector<Part>& parts = schema.components()[0].layout.parts();
    const auto trinket = std::find_if(parts.begin(), parts.end(), [](const Part& part) {
        return std::any_of(part.lanes.begin(), part.lanes.end(), [](const Lane& l) { return l.max == 200; });
    });
    ASSERT_NE(trinket, parts.end()) << "count of a trinket in a shelf";
    EXPECT_EQ(trinket->max_length, 4u);
    EXPECT_EQ(trinket->max_count, 12u) << "3 shelves of 4";
    ASSERT_EQ(trinket->children.size(), 3u);
    EXPECT_EQ(parts[trinket->children[0]].max_count, 12u * kDefaultMaxString);
    EXPECT_EQ(trinket->lanes.back().max, kDefaultMaxVector) << "length of the marks";
    EXPECT_EQ(trinket->lanes[trinket->lanes.size() - 2].kind, LaneKind::symbol) << "whether there is a price";
}

}  // namespace
}  // namespace shoal::replication::impl::nested_test
