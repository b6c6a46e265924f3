#pragma once
// The targets that one entity has in the pairs of a relation.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

#include "archetype.h"

namespace shoal::ecs::impl {

/// Goes through a small range that has an operator[].
template <class Range>
class IndexIterator {
public:
    using value_type = std::remove_cvref_t<decltype(std::declval<const Range&>()[0])>;
    using reference = value_type;
    using pointer = void;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;

    IndexIterator() = default;
    IndexIterator(const Range& range, std::size_t at) : range_(range), at_(at) {}
    value_type operator*() const { return range_[at_]; }
    IndexIterator& operator++() {
        ++at_;
        return *this;
    }
    IndexIterator operator++(int) { return {range_, at_++}; }
    bool operator==(const IndexIterator& other) const { return at_ == other.at_; }

private:
    Range range_;
    std::size_t at_ = 0;
};

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

    using Iterator = IndexIterator<Targets>;
    Iterator begin() const { return {*this, 0}; }
    Iterator end() const { return {*this, size()}; }

private:
    Pairs pairs_;
    const Archetype* archetype_ = nullptr;
    std::uint32_t row_ = 0;
};

}  // namespace shoal::ecs::impl
