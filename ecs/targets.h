#pragma once
// The targets that one entity has in the pairs of a relation.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "archetype.h"

namespace shoal::ecs::all {

/// The targets that one source has of relation R, sorted, with the values of their pairs. Valid until the
/// next structural change.
template <Relation R>
class Targets {
public:
    using Pairs = std::span<const Archetype::Pair>;

    Targets() = default;
    Targets(Pairs pairs, const Archetype& archetype, std::uint32_t row)
        : pairs_(pairs), archetype_(&archetype), row_(row) {}

    std::size_t size() const { return pairs_.size(); }
    bool empty() const { return pairs_.empty(); }
    Entity operator[](std::size_t at) const {
        assert(at < size());
        return pairs_[at].target;
    }
    const R& value(std::size_t at) const requires(!std::is_empty_v<R>) {
        assert(at < size());
        return *static_cast<const R*>(archetype_->column(pairs_[at].column).at(row_));
    }

    /// The target of an exclusive relation; null if there is none.
    Entity target() const requires(includes(R::relation, exclusive)) {
        return empty() ? Entity{} : pairs_[0].target;
    }
    const R& value() const requires(includes(R::relation, exclusive) && !std::is_empty_v<R>) {
        return value(0);
    }

    class Iterator {
    public:
        using value_type = Entity;
        using difference_type = std::ptrdiff_t;

        Iterator() = default;
        explicit Iterator(Pairs::iterator at) : at_(at) {}
        Entity operator*() const { return at_->target; }
        Iterator& operator++() {
            ++at_;
            return *this;
        }
        Iterator operator++(int) { return Iterator(at_++); }
        bool operator==(const Iterator& other) const { return at_ == other.at_; }

    private:
        Pairs::iterator at_;
    };
    Iterator begin() const { return Iterator(pairs_.begin()); }
    Iterator end() const { return Iterator(pairs_.end()); }

private:
    Pairs pairs_;
    const Archetype* archetype_ = nullptr;
    std::uint32_t row_ = 0;
};

}  // namespace shoal::ecs::all

namespace shoal::ecs {
using all::Targets;
}  // namespace shoal::ecs
