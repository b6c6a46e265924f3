#pragma once
// The pairs of one relation as one component: a vector with one row for each target.

#include <algorithm>
#include <type_traits>
#include <vector>

#include "../../ecs/world.h"
#include "lanes.h"

namespace shoal::replication::impl {

/// A pair of one source.
template <class R>
struct PairRow {
    ecs::Entity target;
    R value{};
};
template <class R>
requires std::is_empty_v<R>
struct PairRow<R> {
    ecs::Entity target;
};

/// What replication needs of a relation without its C++ type. For other components all members are null, 0 or
/// false.
struct PairOps {
    /// Sets `rows`, a std::vector<PairRow<R>>, to the pairs of `source` whose targets have net ids, in the
    /// order of these net ids. Appends the other targets to `unknown`.
    void (*gather)(ecs::World& world, ecs::Entity source, EntityMap& map, std::vector<ecs::Entity>& unknown,
                   void* rows) = nullptr;
    std::size_t value_offset = 0;  // offset in a row, in bytes; 0: the relation has no value
    bool is_exclusive = false;
    bool destroys_source = false;  // the source is destroyed with the target

    explicit operator bool() const { return gather != nullptr; }
};

template <ecs::impl::Relation R>
void gather_pairs(ecs::World& world, ecs::Entity source, EntityMap& map, std::vector<ecs::Entity>& unknown,
                  void* to) {
    std::vector<PairRow<R>>& rows = *static_cast<std::vector<PairRow<R>>*>(to);
    rows.clear();
    const auto targets = world.targets<R>(source);
    for (std::size_t i = 0; i < targets.size(); ++i) {
        if (map.to_net(targets[i]) == 0) {
            unknown.push_back(targets[i]);
        } else if constexpr (std::is_empty_v<R>) {
            rows.push_back({targets[i]});
        } else {
            rows.push_back({targets[i], targets.value(i)});
        }
    }
    std::sort(rows.begin(), rows.end(), [&](const PairRow<R>& a, const PairRow<R>& b) {
        return map.to_net(a.target) < map.to_net(b.target);
    });
}

template <ecs::impl::Relation R>
PairOps pair_ops() {
    PairOps ops;
    ops.gather = gather_pairs<R>;
    ops.is_exclusive = includes(R::relation, ecs::exclusive);
    ops.destroys_source = includes(R::relation, ecs::destroy_with_target);
    if constexpr (!std::is_empty_v<R>) {
        const PairRow<R> row{};
        ops.value_offset = offset_in(row, row.value);
    }
    return ops;
}

}  // namespace shoal::replication::impl
