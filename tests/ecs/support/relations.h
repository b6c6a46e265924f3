#pragma once
// Relations of the tests about pairs.

#include <vector>

#include "tests/ecs/support/types.h"

namespace ecs_relations {

using namespace shoal::ecs::impl;
using ecs_types::Counted;

struct ChildOf {
    static constexpr auto relation = exclusive | destroy_with_target;
};
struct Follows {
    static constexpr auto relation = exclusive;
    int distance = 1;
};
struct Likes {
    static constexpr auto relation = many;
    int much = 5;
};
struct Knows {
    static constexpr auto relation = many;
};
struct PartOf {
    static constexpr auto relation = many | destroy_with_target;
};
/// A relation whose value is counted.
struct Holds {
    static constexpr auto relation = many;
    Counted counted;
};

template <class Range>
std::vector<Entity> list(const Range& range) {
    std::vector<Entity> all;
    for (const Entity entity : range) all.push_back(entity);
    return all;
}

using Entities = std::vector<Entity>;

}  // namespace ecs_relations
