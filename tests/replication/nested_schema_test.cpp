// What a schema says about strings, vectors, optionals and maps in one another: errors and signatures.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/replication/support/schema_errors.h"

namespace shoal::replication::impl::nested_schema_test {
namespace {

using schema_errors::error_of;
using schema_errors::expect_words;

struct Names {
    std::vector<std::string> list;
};

struct Branch {
    int leaf = 0;
    std::vector<Branch> branches;
};
struct NoDefault {
    explicit NoDefault(int of) : number(of) {}
    auto operator<=>(const NoDefault&) const = default;
    int number;
};
struct Unsorted {
    int number = 0;
    bool operator==(const Unsorted&) const = default;
};
struct UnsortedHash {
    std::size_t operator()(const Unsorted& key) const { return static_cast<std::size_t>(key.number); }
};
struct Linked {
    static constexpr auto relation = ecs::many;
    std::map<int, int> counts;
};

TEST(NestedSchema, MistakesAreErrorsThatNameComponentFieldAndType) {
    struct ByEntity {
        int a = 0;
        std::map<ecs::Entity, int> ages;
    };
    struct ByFloat {
        std::unordered_map<float, int> counts;
    };
    struct ByDouble {
        std::map<double, int> counts;
    };
    struct ByStructOfFloat {
        std::vector<std::map<std::pair<int, int>, int>> counts;
    };
    struct Deep {
        std::vector<std::vector<std::vector<std::vector<std::string>>>> books;
    };
    struct ToNoDefault {
        std::map<int, NoDefault> numbers;
    };
    struct ByUnsorted {
        std::unordered_map<Unsorted, int, UnsortedHash> counts;
    };
    struct Pointers {
        std::map<int, std::vector<int*>> pointers;
    };
    struct BehindOthers {
        std::map<int, int> counts;
        std::vector<std::string> names;
        std::optional<int> rank;
        int* pointer = nullptr;
    };
    expect_words(error_of<ByEntity>(), {"component 'culprit' has a field of type ",
                                        "Entity, which cannot replicate: the key of a map "
                                        "can hold neither floats nor entities (field 2 of ",
                                        "ByEntity, field 1 of std::pair<"});
    expect_words(error_of<ByFloat>(),
                 {"type float, ", "the key of a map", "(field 1 of ", "ByFloat, field 1"});
    expect_words(error_of<ByDouble>(), {"type double, ", "the key of a map can hold neither floats"});
    expect_words(error_of<ByStructOfFloat>(), {"'culprit'", "type std::pair<int, int>", "neither a number"});
    expect_words(error_of<Deep>(), {"type std::", "string", "at most 4 deep (field 1 of ", "Deep)"});
    expect_words(error_of<Branch>(),
                 {"type std::vector<", "Branch", "at most 4 deep", "Branch, field 2 of "});
    expect_words(error_of<ToNoDefault>(), {"type std::map<int, ", "need a default constructor"});
    expect_words(error_of<ByUnsorted>(), {"type std::unordered_map<", "an operator <", "(field 1 of "});
    expect_words(error_of<Pointers>(),
                 {"type int", "*, ", "pointer", "Pointers, field 2 of std::pair<const int"});
    expect_words(error_of<BehindOthers>(),
                 {"pointer means nothing on another machine (field 4 of ", "BehindOthers)"});
    Schema pairs, unused, codec, large;
    pairs.pair<Linked>("linked");
    expect_words(pairs.error(), {"component 'linked' has a field of type std::map<int, int",
                                 "the value of a relation can hold neither"});
    unused.component<Names>(
        "names", element(&Names::list, inner<std::string>(max_length(2)), inner<std::string>(max_length(3))));
    expect_words(unused.error(),
                 {"component 'names' has a codec that is not used, for a field of type std::"});
    codec.component<Names>("names", element(&Names::list, inner<std::string>(quantised(0, 1, 0.1))));
    expect_words(codec.error(), {"component 'names' has a codec that does not fit type std::",
                                 "quantised() is", "(field 1 of ", "Names)"});
    large.component<Names>("names",
                           element(&Names::list, max_length(1'000), inner<std::string>(max_length(40))));
    expect_words(large.error(), {"component 'names' can take ", "make it smaller, with max_length()"});
    for (const std::uint32_t length : {65'535u, 65'536u, 65'537u, 0x8000'0000u}) {
        Schema huge;  // the product of the lengths exceeds 32 bits
        huge.component<Names>(
            "names", element(&Names::list, max_length(length), inner<std::string>(max_length(length))));
        expect_words(huge.error(), {"component 'names' can take "});
    }
}

// The wire format of a map is that of a vector of structs with its keys and values.
TEST(NestedSchema, AMapAndAVectorOfItsEntriesHaveOneSignature) {
    struct Entry {
        std::string name;
        std::int32_t count = 0;
    };
    struct AsVector {
        std::vector<Entry> stock;
    };
    struct AsMap {
        std::map<std::string, std::int32_t> stock;
    };
    struct Flat {
        std::vector<std::int32_t> counts;
        std::string names;
    };
    Schema map, vector, flat;
    map.component<AsMap>("stock");
    vector.component<AsVector>("stock");
    flat.component<Flat>("stock");
    EXPECT_EQ(map.hash(), vector.hash());
    EXPECT_NE(map.hash(), flat.hash());
}

}  // namespace
}  // namespace shoal::replication::impl::nested_schema_test
