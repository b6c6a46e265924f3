#include "replication/schema/fields.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ecs/entity.h"

namespace shoal::replication::impl {
namespace {

enum class Colour : std::uint8_t { red };
struct Empty {};
struct One {
    int a;
};
struct Pair2 {
    float x, y;
};
struct Nested {
    Pair2 a;
    int b;
    Pair2 c;
};
struct Arrays {
    int a[3];
    char b;
    Pair2 c[2];
    std::array<short, 4> d;
};
struct ArrayFirstAndLast {
    std::uint8_t first[5];
    std::uint8_t last[2];
};
struct ArrayOfArrays {
    std::int32_t grid[2][3];
    bool flag;
};
struct Deep {
    Nested nested;
    Arrays arrays;
    ArrayFirstAndLast bytes[2];
    One one;
};
struct Rich {
    std::string name;
    std::vector<int> list;
    ecs::Entity target;
    Colour colour;
    double d;
};
struct Defaults {
    int a = 4;
    std::string b = "b";
    float c[2] = {1, 2};
};
struct Twenty4 {
    int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x;
};
struct Twenty5 {
    int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y;
};
struct TwoEntities {
    ecs::Entity a, b;
};

static_assert(field_count<Empty>() == 0);
static_assert(field_count<One>() == 1);
static_assert(field_count<Pair2>() == 2);
static_assert(field_count<Nested>() == 3);
static_assert(field_count<Arrays>() == 4);
static_assert(field_count<ArrayFirstAndLast>() == 2);
static_assert(field_count<ArrayOfArrays>() == 2);
static_assert(field_count<Deep>() == 4);
static_assert(field_count<Rich>() == 5);
static_assert(field_count<Defaults>() == 3);
static_assert(field_count<Twenty4>() == 24);
static_assert(field_count<Twenty5>() == 25);
static_assert(field_count<TwoEntities>() == 2);

template <class T>
std::vector<std::size_t> offsets_of(const T& object) {
    std::vector<std::size_t> offsets;
    for_each_field(object, [&](const auto& field) {
        offsets.push_back(static_cast<std::size_t>(reinterpret_cast<const char*>(&field) -
                                                   reinterpret_cast<const char*>(&object)));
    });
    return offsets;
}

TEST(Fields, AreVisitedInOrderAndInPlace) {
    EXPECT_EQ(offsets_of(Nested{}),
              (std::vector<std::size_t>{offsetof(Nested, a), offsetof(Nested, b), offsetof(Nested, c)}));
    EXPECT_EQ(offsets_of(Arrays{}), (std::vector<std::size_t>{offsetof(Arrays, a), offsetof(Arrays, b),
                                                              offsetof(Arrays, c), offsetof(Arrays, d)}));
    EXPECT_EQ(offsets_of(Deep{}), (std::vector<std::size_t>{offsetof(Deep, nested), offsetof(Deep, arrays),
                                                            offsetof(Deep, bytes), offsetof(Deep, one)}));
    EXPECT_TRUE(offsets_of(Empty{}).empty());
}

TEST(Fields, AllTwentyFourAreVisited) {
    Twenty4 object{};
    int next = 0;
    for_each_field(object, [&](int& field) { field = next++; });
    EXPECT_EQ(next, 24);
    EXPECT_EQ(object.a, 0);
    EXPECT_EQ(object.x, 23);
}

template <class T>
void expect_all_visited(int count) {
    T object{};
    int next = 0;
    for_each_field(object, [&](std::int32_t& field) { field = ++next; });
    EXPECT_EQ(next, count);
    std::array<std::int32_t, sizeof(T) / sizeof(std::int32_t)> numbers;
    ASSERT_EQ(numbers.size(), static_cast<std::size_t>(count));
    std::memcpy(numbers.data(), &object, sizeof object);
    for (int i = 0; i < count; ++i) EXPECT_EQ(numbers[static_cast<std::size_t>(i)], i + 1);
}

TEST(Fields, OfEveryNumberAreVisitedInOrder) {
    using I = std::int32_t;
    // clang-format off
    struct F1 { I a; };
    struct F2 { I a, b; };
    struct F3 { I a, b, c; };
    struct F4 { I a, b, c, d; };
    struct F5 { I a, b, c, d, e; };
    struct F6 { I a, b, c, d, e, f; };
    struct F7 { I a, b, c, d, e, f, g; };
    struct F8 { I a, b, c, d, e, f, g, h; };
    struct F9 { I a, b, c, d, e, f, g, h, i; };
    struct F10 { I a, b, c, d, e, f, g, h, i, j; };
    struct F11 { I a, b, c, d, e, f, g, h, i, j, k; };
    struct F12 { I a, b, c, d, e, f, g, h, i, j, k, l; };
    struct F13 { I a, b, c, d, e, f, g, h, i, j, k, l, m; };
    struct F14 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n; };
    struct F15 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n, o; };
    struct F16 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p; };
    struct F17 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q; };
    struct F18 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r; };
    struct F19 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s; };
    struct F20 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t; };
    struct F21 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u; };
    struct F22 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v; };
    struct F23 { I a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w; };
    // clang-format on
    expect_all_visited<F1>(1);
    expect_all_visited<F2>(2);
    expect_all_visited<F3>(3);
    expect_all_visited<F4>(4);
    expect_all_visited<F5>(5);
    expect_all_visited<F6>(6);
    expect_all_visited<F7>(7);
    expect_all_visited<F8>(8);
    expect_all_visited<F9>(9);
    expect_all_visited<F10>(10);
    expect_all_visited<F11>(11);
    expect_all_visited<F12>(12);
    expect_all_visited<F13>(13);
    expect_all_visited<F14>(14);
    expect_all_visited<F15>(15);
    expect_all_visited<F16>(16);
    expect_all_visited<F17>(17);
    expect_all_visited<F18>(18);
    expect_all_visited<F19>(19);
    expect_all_visited<F20>(20);
    expect_all_visited<F21>(21);
    expect_all_visited<F22>(22);
    expect_all_visited<F23>(23);
    expect_all_visited<Twenty4>(24);
}

TEST(Fields, AreWritableAndKeepTheirTypes) {
    Rich object{};
    int strings = 0, lists = 0, entities = 0, others = 0;
    for_each_field(object, [&]<class T>(T& field) {
        if constexpr (std::is_same_v<T, std::string>) {
            field = "found";
            ++strings;
        } else if constexpr (std::is_same_v<T, std::vector<int>>) {
            ++lists;
        } else if constexpr (std::is_same_v<T, ecs::Entity>) {
            ++entities;
        } else {
            ++others;
        }
    });
    EXPECT_EQ(object.name, "found");
    EXPECT_EQ(strings + lists + entities, 3);
    EXPECT_EQ(others, 2);
}

}  // namespace
}  // namespace shoal::replication::impl
