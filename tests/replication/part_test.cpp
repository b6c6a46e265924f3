#include "replication/codec/part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replication/codec/codec.h"
#include "tests/replication/support/bits.h"
#include "tests/sim/game.h"
#include "tests/support/allocations.h"

namespace shoal::replication::impl {
namespace {

struct PartItem {
    std::uint16_t kind = 0;
    std::uint8_t count = 0;
};
struct PartItems {
    std::vector<PartItem> list;
};
struct PartText {
    std::string text;
};
struct PartBytes {
    std::vector<std::uint8_t> list;
};
struct PartFlag {
    bool flag = false;
};
struct PartFlags {
    std::vector<PartFlag> list;
};
enum class PartKind : std::uint8_t {};
struct PartWide {
    std::uint64_t id = 0;
    float x = 0, y = 0;
    ecs::Entity target;
    PartKind kind{};
    bool flag = false;
};
struct PartWides {
    std::vector<PartWide> list;
};
struct PartChoice {
    std::optional<PartItem> item;
};

using Element = std::vector<std::uint32_t>;  // lanes
using Elements = std::vector<Element>;

/// Components with one part each, and the bits of their images.
class PartCoder {
public:
    PartCoder() {
        schema.component<PartItems>("items", field(&PartItems::list, max_length(64)));
        schema.component<PartText>("text");
        schema.component<PartBytes>("bytes", field(&PartBytes::list, max_length(5'000)));
        schema.component<PartFlags>("flags", field(&PartFlags::list, max_length(40)));
        schema.component<PartWides>("wides", element(&PartWides::list, field(&PartWide::kind, bounded(0, 5)),
                                                     field(&PartWide::x, quantised(0, 100, 0.01))));
        schema.component<PartChoice>("choice");
        EXPECT_EQ(schema.error(), "");
    }

    std::size_t find(std::string_view name) const {
        std::size_t index = 0;
        while (schema.components()[index].name != name) ++index;
        return index;
    }
    const Part& part(std::size_t component) const { return schema.components()[component].layout.parts()[0]; }
    const Shape* shape(std::size_t component) {
        return shapes.shape(std::vector{static_cast<ComponentIndex>(component)});
    }
    static std::vector<std::uint32_t> words_of(const Elements& elements) {
        std::vector<std::uint32_t> words{static_cast<std::uint32_t>(elements.size())};
        for (const Element& one : elements) words.insert(words.end(), one.begin(), one.end());
        return words;
    }

    std::vector<std::byte> write(std::size_t component, const Elements& from, const Elements& to) {
        const std::vector<std::uint32_t> old = words_of(from), now = words_of(to);
        BitWriter out;
        write_image(schema, {shape(component), old}, {shape(component), now}, out);
        EXPECT_EQ(bits(component, from, to), out.bit_count() - kImageBits);
        return bytes_of(out);
    }
    /// Returns nothing if the bits are refused.
    std::optional<std::vector<std::uint32_t>> read(std::size_t component, const Elements& from,
                                                   std::span<const std::byte> bytes) {
        const std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
        std::copy(bytes.begin(), bytes.end(), exact.get());
        const std::vector<std::uint32_t> old = words_of(from);
        BitReader in({exact.get(), bytes.size()});
        std::vector<std::uint32_t> now;
        if (!read_image(shapes, {shape(component), old}, in, now)) return std::nullopt;
        return now;
    }

    /// Returns the bits of a part that differs from its baseline.
    std::size_t bits(std::size_t component, const Elements& from, const Elements& to) {
        const std::vector<std::uint32_t> old = words_of(from), now = words_of(to);
        return measure_image(schema, {shape(component), old}, {shape(component), now}) - kImageBits;
    }
    std::size_t full_bits(std::size_t component, const Elements& to) {
        const std::vector<std::uint32_t> none{0}, now = words_of(to);
        return measure_image(schema, {}, {shape(component), now}) -
               measure_image(schema, {}, {shape(component), none});
    }
    /// Returns the bits of a part as a splice, without the bit that says so.
    std::size_t splice_bits(std::size_t component, const Elements& from, const Elements& to) {
        const std::size_t common = std::min(from.size(), to.size());
        std::size_t prefix = 0, suffix = 0;
        while (prefix < common && from[prefix] == to[prefix]) ++prefix;
        while (prefix + suffix < common && from[from.size() - 1 - suffix] == to[to.size() - 1 - suffix])
            ++suffix;
        const Elements between(to.begin() + static_cast<std::ptrdiff_t>(prefix),
                               to.end() - static_cast<std::ptrdiff_t>(suffix));
        // An empty part is equal to none, so full_bits() does not contain its count.
        return golomb_bits(static_cast<std::uint32_t>(prefix), 3) +
               golomb_bits(static_cast<std::uint32_t>(suffix), 1) +
               (between.empty() ? golomb_bits(0, 3) : full_bits(component, between));
    }

    static constexpr std::size_t kImageBits = 2;  // the same components; the component changed

    Schema schema;
    ShapeTable shapes{schema};
};

/// Makes random parts, and changes them.
class PartScript {
public:
    PartScript(const Part& part, std::uint64_t seed) : part_(part), random_(seed) {}

    Element element() {
        Element out;
        for (const Lane& lane : part_.lanes) out.push_back(lane_of(lane));
        return out;
    }
    Elements elements() {
        Elements out(below(random_.chance(0.1) ? part_.max_count + 1 : std::min(part_.max_count, 40u) + 1));
        for (Element& one : out) one = element();
        return out;
    }
    void change(Elements& elements) {
        const std::size_t at = below(elements.size());
        switch (elements.empty() ? 1 : below(8)) {
            case 0:
            case 1:
                for (std::size_t n = 1 + below(3); n > 0; --n)
                    elements.insert(iterator(elements, at), element());
                break;
            case 2:
                elements.erase(iterator(elements, at),
                               iterator(elements, std::min(elements.size(), at + 1 + below(3))));
                break;
            case 3:
                elements[at] = element();
                break;
            case 4:
                std::swap(elements[at], elements[below(elements.size())]);
                break;
            case 5:
                std::rotate(iterator(elements, at), iterator(elements, elements.size() - 1), elements.end());
                break;
            case 6:
                for (Element& one : elements) change_lane(one);
                break;
            default:
                change_lane(elements[at]);
        }
        elements.resize(std::min<std::size_t>(elements.size(), part_.max_count));
    }
    std::uint32_t below(std::size_t limit) {
        return limit == 0 ? 0 : random_.below(static_cast<std::uint32_t>(limit));
    }
    bool chance(double probability) { return random_.chance(probability); }

private:
    static Elements::iterator iterator(Elements& elements, std::size_t at) {
        return elements.begin() + static_cast<std::ptrdiff_t>(at);
    }
    std::uint32_t lane_of(const Lane& lane) {
        const std::uint32_t wild = static_cast<std::uint32_t>(random_.next() >> random_.below(64));
        return legal(lane, lane.max == 0xffffffff ? wild : wild % (lane.max + 1));
    }
    static std::uint32_t legal(const Lane& lane, std::uint32_t value) {
        return lane.is_legal(value) ? value : 0;
    }
    void change_lane(Element& one) {
        const std::size_t i = below(one.size());
        const std::uint32_t value = chance(0.7) ? one[i] + 1 : lane_of(part_.lanes[i]);
        one[i] = legal(part_.lanes[i], std::min(value, part_.lanes[i].max));
    }

    const Part& part_;
    sim::Random random_;
};

// Goal: any change of any part is read back, and takes at most one bit more than the elements between the
// common start and the common end.
// Method: random parts and changes, of elements of all kinds.
TEST(Part, AnyChangeIsReadBackAndNotLargerThanASplice) {
    PartCoder coder;
    for (std::uint64_t seed = 1; seed <= 1'200; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const std::size_t component = seed % coder.schema.components().size();
        PartScript script(coder.part(component), seed);
        Elements from = script.elements();
        for (int step = 0; step < 20; ++step) {
            Elements to = script.chance(0.03) ? script.elements() : from;
            for (std::uint32_t changes = 1 + script.below(4); changes > 0; --changes) script.change(to);
            if (to == from) continue;
            ASSERT_EQ(coder.read(component, from, coder.write(component, from, to)), PartCoder::words_of(to));
            if (from.empty()) {
                ASSERT_EQ(coder.bits(component, from, to), coder.full_bits(component, to));
            } else {
                ASSERT_LE(coder.bits(component, from, to), 1 + coder.splice_bits(component, from, to));
            }
            from = to;
        }
    }
}

TEST(Part, AnyBitsGiveAValidPartOrNone) {
    PartCoder coder;
    int accepted = 0, refused = 0;
    for (std::uint64_t seed = 1; seed <= 6'000; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const std::size_t component = seed % coder.schema.components().size();
        const Part& part = coder.part(component);
        PartScript script(part, seed);
        const Elements from = script.elements();
        Elements to = from;
        for (int changes = 0; changes < 4; ++changes) script.change(to);
        std::vector<std::byte> bytes = coder.write(component, from, to);
        bytes.resize(bytes.size() + script.below(8));
        for (std::uint32_t flips = 1 + script.below(3); flips > 0; --flips)
            bytes[script.below(bytes.size())] ^= static_cast<std::byte>(1u << script.below(8));
        if (script.chance(0.3))
            for (std::byte& byte : bytes) byte = static_cast<std::byte>(script.below(256));
        bytes[0] = (bytes[0] & std::byte{0xfc}) | std::byte{2};  // the same components; changed
        const auto words = coder.read(component, from, bytes);
        (words ? accepted : refused) += 1;
        if (!words) continue;
        ASSERT_LE(words->at(0), part.max_count);
        ASSERT_EQ(words->size(), 1 + words->at(0) * part.lanes.size());
        for (std::size_t i = 1; i < words->size(); ++i)
            ASSERT_LE(words->at(i), part.lanes[(i - 1) % part.lanes.size()].max);
    }
    EXPECT_GT(accepted, 1'000);
    EXPECT_GT(refused, 1'000);
}

TEST(Part, EveryTruncatedPrefixIsRefused) {
    PartCoder coder;
    for (std::uint64_t seed = 1; seed <= 120; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        const std::size_t component = seed % coder.schema.components().size();
        PartScript script(coder.part(component), seed);
        const Elements from = script.elements();
        Elements to = from;
        for (int changes = 0; changes < 4; ++changes) script.change(to);
        if (to == from) continue;
        const std::vector<std::byte> whole = coder.write(component, from, to);
        for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 200)
            ASSERT_EQ(coder.read(component, from, {whole.data(), size}), std::nullopt);
    }
}

/// An inventory of 40 items; item n is {kind 25 n, count n + 1}.
Elements forty_items() {
    Elements out;
    for (std::uint32_t n = 0; n < 40; ++n) out.push_back({25 * n, n + 1});
    return out;
}

TEST(Part, AChangeCostsAboutWhatItChanges) {
    PartCoder coder;
    const std::size_t items = coder.find("items");
    const Elements from = forty_items();
    const Element fresh{777, 50};
    const std::size_t fresh_bits = coder.full_bits(items, {fresh}) - golomb_bits(1, 3);
    const auto bits_after = [&](auto&& change) {
        Elements to = from;
        change(to);
        return coder.bits(items, from, to);
    };
    EXPECT_LE(bits_after([](Elements& e) { e[20][1] += 1; }), 18u);
    EXPECT_LE(bits_after([](Elements& e) { e[1][1] += 1, e[38][1] -= 1; }), 33u);
    EXPECT_LE(bits_after([&](Elements& e) { e[1] = e[38] = fresh; }), 2 * (fresh_bits + 12));
    EXPECT_LE(bits_after([](Elements& e) { std::swap(e[3], e[36]); }), 2 * fresh_bits);
    EXPECT_LE(bits_after([](Elements& e) { std::rotate(e.begin() + 5, e.begin() + 6, e.end()); }), 40u);
    EXPECT_LE(bits_after([&](Elements& e) { e.insert(e.begin() + 20, fresh); }), fresh_bits + 15);
    EXPECT_LE(bits_after([](Elements& e) { e.erase(e.begin() + 20); }), 11u);
    EXPECT_LE(bits_after([&](Elements& e) { e[5][1] += 1, e.push_back(fresh); }), fresh_bits + 36);
    EXPECT_LE(bits_after([](Elements& e) { e.erase(e.begin()), e.back()[1] += 1; }), 27u);
    EXPECT_LE(bits_after([&](Elements& e) {
                  for (const int at : {35, 20, 5}) e.insert(e.begin() + at, fresh);
              }),
              3 * (fresh_bits + 14));
    EXPECT_LE(bits_after([](Elements& e) {
                  e.erase(e.begin() + 10, e.begin() + 13);
                  for (Element& one : e) one[1] += 1;
              }),
              37 * 7 + 40u);
}

// The edits are in the middle, so a splice would contain nearly all elements.
TEST(Part, UpToEightElementsInsertedOrErasedAreRecognised) {
    PartCoder coder;
    const std::size_t items = coder.find("items");
    const Elements from = forty_items();
    const std::size_t fresh_bits = coder.full_bits(items, {{777, 50}}) - golomb_bits(1, 3);
    for (std::size_t count = 1; count <= 8; ++count) {
        Elements longer = from, shorter = from;
        for (Elements* to : {&longer, &shorter}) to->at(1)[1] += 1, to->at(38)[1] -= 1;
        longer.insert(longer.begin() + 20, count, {777, 50});
        shorter.erase(shorter.begin() + 20, shorter.begin() + 20 + static_cast<std::ptrdiff_t>(count));
        EXPECT_LE(coder.bits(items, from, longer), 33 + 20 + count * fresh_bits) << count;
        EXPECT_LE(coder.bits(items, from, shorter), 33 + 25u) << count;
    }
}

// An element becomes equal to another one of the baseline, from which it differs by little.
TEST(Part, AChangeInPlaceIsPreferredToACopyThatCostsMore) {
    PartCoder coder;
    const std::size_t items = coder.find("items");
    Elements from = forty_items();
    from[20] = {from[19][0], from[19][1] + 1};
    Elements to = from;
    to[20] = from[19];
    Elements other = from;  // no element of the baseline is equal to the new one
    other[20][1] += 1;
    EXPECT_EQ(coder.bits(items, from, to), coder.bits(items, from, other));
}

// Only the first element of the run has no equal before it.
TEST(Part, ARunOfCopiesIsOneEditThoughItsElementsOccurBefore) {
    PartCoder coder;
    const std::size_t items = coder.find("items");
    Elements from = forty_items();
    for (std::size_t n = 0; n < 9; ++n) from[n] = from[29 - n];
    Elements to = from;
    to.insert(to.end(), from.begin() + 20, from.begin() + 30);
    const auto words = coder.read(items, from, coder.write(items, from, to));
    EXPECT_EQ(words, PartCoder::words_of(to));
    // Edited; kept; kind; count; source; no other edit.
    EXPECT_EQ(coder.bits(items, from, to), 1 + golomb_bits(40, 3) + 4 + golomb_bits(9, 0) + 6 + 1);
}

// The difference to the old element has a longer code than the new element.
TEST(Part, AnElementThatCostsLessInFullIsSentInFull) {
    PartCoder coder;
    const std::size_t items = coder.find("items");
    Elements from = forty_items(), to;
    from[3] = from[36] = {60'000, 200};
    to = from;
    to[3] = to[36] = {1, 200};
    const std::size_t fresh_bits = coder.full_bits(items, {{1, 200}}) - golomb_bits(1, 3);
    EXPECT_LE(coder.bits(items, from, to), 2 * (fresh_bits + 16));
}

TEST(Part, TextsOfUsualChangesTakeAtMostOneBitMore) {
    PartCoder coder;
    const std::size_t text = coder.find("text");
    const auto letters = [](std::string_view words) {
        Elements out;
        for (const char letter : words) out.push_back({static_cast<std::uint8_t>(letter)});
        return out;
    };
    const std::string_view texts[] = {"wolf", "wolves", "a grey wolf", "00:12:59", "00:13:00", "bear"};
    for (const std::string_view from : texts)
        for (const std::string_view to : texts)
            if (from != to) {
                EXPECT_LE(coder.bits(text, letters(from), letters(to)),
                          1 + coder.splice_bits(text, letters(from), letters(to)));
            }
    EXPECT_LT(coder.bits(text, letters("a:1 b:2 c:3 d:4 e:5"), letters("a:7 b:2 c:3 d:4 e:9")), 48u);
}

/// Writes the bits of an image whose only part is a list of edits.
class PartLies {
public:
    PartLies() {
        out_.write(0, 1);  // the same components
        out_.write(1, 1);  // changed
        out_.write(1, 1);  // edited
    }
    PartLies& edit(std::uint32_t kept, std::initializer_list<bool> kind, std::uint32_t count_minus_1) {
        if (has_edit_) out_.write(1, 1);
        has_edit_ = true;
        out_.write_golomb(kept, 3);
        for (const bool bit : kind) out_.write_bool(bit);
        out_.write_golomb(count_minus_1, 0);
        return *this;
    }
    PartLies& bits(std::uint64_t value, unsigned count) {
        out_.write(value, count);
        return *this;
    }
    std::vector<std::byte> end() {
        out_.write(0, 64);
        return bytes_of(out_);
    }

private:
    BitWriter out_;
    bool has_edit_ = false;
};

TEST(Part, EditsThatDoNotFitAreRefused) {
    PartCoder coder;
    const std::size_t items = coder.find("items");
    const std::initializer_list<bool> change{false}, erase{true, true}, fresh{true, false, false, false},
        replace{true, false, false, true}, copy{true, false, true, false};
    const auto is_read = [&](std::size_t old, PartLies lies) {
        Elements from = forty_items();
        from.resize(old, {1, 1});
        return coder.read(items, from, lies.end()).has_value();
    };
    EXPECT_TRUE(is_read(5, PartLies().edit(4, erase, 0)));
    EXPECT_FALSE(is_read(5, PartLies().edit(5, erase, 0)));
    EXPECT_FALSE(is_read(5, PartLies().edit(4, erase, 1)));
    EXPECT_FALSE(is_read(5, PartLies().edit(0, erase, 0xffffffff)));
    EXPECT_FALSE(is_read(5, PartLies().edit(0xffffffff, erase, 0)));
    EXPECT_FALSE(is_read(5, PartLies().edit(0, erase, 2).edit(0, erase, 2)));
    EXPECT_TRUE(is_read(5, PartLies().edit(4, change, 0).bits(0, 2)));
    EXPECT_FALSE(is_read(5, PartLies().edit(4, change, 1).bits(0, 4)));
    EXPECT_FALSE(is_read(5, PartLies().edit(0, change, 0xffffffff)));
    EXPECT_TRUE(is_read(5, PartLies().edit(4, replace, 0)));
    EXPECT_FALSE(is_read(5, PartLies().edit(5, replace, 0)));
    EXPECT_TRUE(is_read(5, PartLies().edit(0, copy, 0).bits(4, 3)));
    EXPECT_FALSE(is_read(5, PartLies().edit(0, copy, 0).bits(5, 3)));
    EXPECT_FALSE(is_read(5, PartLies().edit(0, copy, 1).bits(4, 3)));
    EXPECT_FALSE(is_read(5, PartLies().edit(0, copy, 0xffffffff).bits(1, 3)));
    EXPECT_TRUE(is_read(63, PartLies().edit(0, fresh, 0).bits(0, 13)));
    EXPECT_FALSE(is_read(64, PartLies().edit(0, fresh, 0).bits(0, 13)));
    EXPECT_FALSE(is_read(64, PartLies().edit(64, fresh, 0).bits(0, 13)));
    EXPECT_FALSE(is_read(5, PartLies().edit(0, fresh, 64)));
    EXPECT_FALSE(is_read(5, PartLies().edit(0, fresh, 0xffffffff)));
    // One fresh element, then one erased: never more than 64 at the end.
    EXPECT_TRUE(is_read(64, PartLies().edit(0, fresh, 0).bits(0, 13).edit(0, erase, 0)));
}

TEST(Part, LengthsThatDoNotFitTakeNoMemory) {
    PartCoder coder;
    const std::size_t items = coder.find("items");
    const std::vector<std::uint32_t> old = PartCoder::words_of({{1, 1}, {2, 2}});
    const std::initializer_list<bool> fresh{true, false, false, false}, copy{true, false, true, false};
    BitWriter splice;
    splice.write(0b10, 2);  // the same components; changed
    splice.write_bool(false);
    splice.write_golomb(0, 3);
    splice.write_golomb(0, 1);
    splice.write_golomb(1'000'000, 3);
    splice.write(0, 64);
    for (const std::vector<std::byte>& bytes : {PartLies().edit(0, fresh, 999'999).end(),
                                                PartLies().edit(0, copy, 999'999).end(), bytes_of(splice)}) {
        BitReader in(bytes);
        std::vector<std::uint32_t> words;
        EXPECT_EQ(read_image(coder.shapes, {coder.shape(items), old}, in, words), nullptr);
        EXPECT_LT(words.capacity(), 1'000u);
    }
}

TEST(Part, CopiesAreOfTheBaselineAsItWas) {
    PartCoder coder;
    const std::size_t bytes = coder.find("bytes");
    const std::initializer_list<bool> change{false}, erase{true, true}, copy{true, false, true, false};
    PartLies lies;
    lies.edit(0, change, 0).bits(0, 1).bits(2, 4);  // + 1
    lies.edit(0, erase, 1);
    lies.edit(0, copy, 2).bits(0, 2);
    EXPECT_EQ(coder.read(bytes, {{10}, {20}, {30}, {40}}, lies.end()),
              (std::vector<std::uint32_t>{5, 11, 10, 20, 30, 40}));
}

TEST(Part, WritingEditsAllocatesNothing) {
    PartCoder coder;
    const std::size_t items = coder.find("items");
    Elements to = forty_items();
    std::swap(to[3], to[30]);
    to.erase(to.begin() + 12);
    to[20][1] += 1;
    const std::vector<std::uint32_t> old = PartCoder::words_of(forty_items()), now = PartCoder::words_of(to);
    const Image from{coder.shape(items), old}, image{coder.shape(items), now};
    BitWriter out;
    write_image(coder.schema, from, image, out);
    const std::vector<std::byte> bytes = bytes_of(out);
    std::vector<std::uint32_t> words;
    const auto exchange = [&] {
        out.clear();
        write_image(coder.schema, from, image, out);
        BitReader in(bytes);
        return read_image(coder.shapes, from, in, words) != nullptr;
    };
    ASSERT_TRUE(exchange());
    const std::size_t before = test::allocations();
    ASSERT_TRUE(exchange());
    EXPECT_EQ(test::allocations(), before);
}

TEST(Part, TheExampleOfWireMdHasTheseBits) {
    PartCoder coder;
    const Elements from = {{700, 3}, {20, 41}, {300, 7}, {20, 9}}, to = {{20, 42}, {300, 7}, {20, 9}};
    std::string bits = "01";  // the same components; changed
    for (const char* field : {"1", "0000", "11", "0", "1", "0000", "0", "0", "0", "1", "00100", "0"})
        bits += field;
    BitWriter expected;
    for (const char bit : bits) expected.write_bool(bit == '1');
    EXPECT_EQ(coder.write(coder.find("items"), from, to), bytes_of(expected));
}

}  // namespace
}  // namespace shoal::replication::impl
