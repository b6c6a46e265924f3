#pragma once
// Loops over all entities with certain components. Includes world.h.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "world.h"

namespace shoal::ecs::impl {

/// The terms of a Query. These terms need no declaration here: `const T` reads; `T` counts every visited row
/// as written; Mut<T> (mut.h) counts only the rows that are accessed as non-const.
template <class T>
struct Optional;  // passes a T*, null if the entity lacks T; counts rows as written like the term T
template <Storable T>
struct With;  // requires T; if T is a relation, a pair of T with any target
template <Storable T>
struct Without;  // excludes T; if T is a relation, all entities with a pair of T
template <Relation R>
struct Pair;  // requires R with any target; passes a const Targets<R>&
template <Component T>
struct Changed;  // requires T, in a block that was written to: see Query::each_since

/// The part of a query that does not depend on its types.
class QueryCore {
public:
    enum class Use { read, write, write_some, optional_read, optional_write, with, pair, without, changed };

    struct Term {
        ComponentId id;
        Use use;
    };

    /// An archetype, and one column for each term; null if the archetype has no column of the term's id.
    struct Match {
        Archetype* archetype;
        Column* const* columns;
    };

    /// One bit per row of a block: whether the row was written.
    using WrittenRows = std::array<std::uint64_t, kBlockRows / 64>;

    /// `is_const`: destroy_all() is not allowed.
    QueryCore(World& world, std::span<const Term> terms, bool is_const = false);

    World& world() const { return world_; }

    /// Removes the matches of freed archetypes and checks new archetypes. Returns the number of matches.
    std::size_t refresh() { return refresh(world_.archetypes_.free_count() != frees_seen_); }
    /// As refresh(), but keeps some matches of freed archetypes: the cost of a free does not grow with their
    /// number. Only for find().
    std::size_t refresh_some() {
        return refresh(world_.archetypes_.free_count() - frees_seen_ > matches_.size());
    }

    Match match(std::size_t index) const {
        return {matches_[index].archetype, columns_.data() + index * terms_.size()};
    }

    /// Index of the archetype's match; the number of matches if it has none.
    std::size_t find(const Archetype& archetype) const;

    /// Archetypes whose entities have the pair of the term's relation and `target`; some may be null.
    std::span<Archetype* const> archetypes_of(std::size_t term, Entity target) const;

    std::span<const Archetype::Pair> pairs(const Match& match, std::size_t term) const {
        return match.archetype->pairs(terms_[term].id);
    }

    void destroy_all();

    /// Returns whether the block's stamp of any Changed term is later than `tick`.
    bool is_changed(const Match& match, std::uint32_t block, std::uint64_t tick) const;

    /// Stamps the term's column in the block that starts at row `first`. Returns whether the column's
    /// component has change hooks.
    bool mark(const Match& match, std::size_t term, std::uint32_t first) const {
        Column* const column = match.columns[term];
        if (column == nullptr) return false;
        column->wrote(first, world_.tick_);
        return column->type().has_hook(HookKind::change);
    }
    /// Returns whether any component that the query writes in this archetype has change hooks.
    bool has_change_hooks(const Match& match) const;
    /// Stamps the blocks of the first `rows` rows for the terms that write, and calls the change hooks.
    /// Requires that the query has no write_some term.
    void mark_all(const Match& match, std::uint32_t rows);
    static bool any(const WrittenRows& rows);

    /// Calls the change hooks for the rows of a block that were written, component by component. `written`
    /// has one entry per term; it is used only for write_some terms.
    void report_block(const Match& match, std::uint32_t first, std::uint32_t count,
                      const WrittenRows* written);

private:
    std::size_t refresh(bool must_forget) {
        if (must_forget) forget_freed();
        if (seen_ != world_.archetypes_.last_serial()) match_new();
        return matches_.size();
    }
    void match_new();
    void forget_freed();

    World& world_;
    bool is_const_;
    std::vector<Term> terms_;
    std::vector<std::uint32_t> writes_;  // indices of the terms that write, sorted by component id

    struct Known {
        Archetype* archetype;  // dangling if it was freed after the last refresh()
        std::uint64_t serial;
        std::uint32_t index;
    };
    std::vector<Known> matches_;    // sorted by serial
    std::vector<Column*> columns_;  // for each match, one per term
    std::uint64_t seen_ = 0;        // serial of the newest archetype that was checked
    std::uint64_t frees_seen_ = 0;  // ArchetypeList::free_count() at the last refresh()
};

using Use = QueryCore::Use;

/// What a term reads in one visit of consecutive rows; at() makes the function's argument for one row.
template <class T>
struct Fetch {  // T and const T
    static_assert(!std::is_reference_v<T>, "T or const T, without &");
    static_assert(!Relation<std::remove_const_t<T>>, "a relation: use Pair, With or Without");
    static_assert(!Storable<std::remove_const_t<T>> || !std::is_empty_v<T>,
                  "tags have no values: use With or Without");
    using Type = std::remove_const_t<T>;
    static constexpr Use kUse = std::is_const_v<T> ? Use::read : Use::write;
    static constexpr bool kHasArgument = true;
    std::remove_reference_t<T>* values;
    std::remove_reference_t<T>& at(std::uint32_t row) const { return values[row]; }
};

template <class T>
struct Fetch<Mut<T>> {
    static_assert(Value<T>, "tags have no values: use With or Without");
    using Type = T;
    static constexpr Use kUse = Use::write_some;
    static constexpr bool kHasArgument = true;
    T* values;
    std::uint64_t* written;
    Mut<T> at(std::uint32_t row) const {
        return {values + row, written[row / 64], std::uint64_t{1} << row % 64};
    }
};

template <class T>
struct Fetch<Optional<T>> {
    static_assert(Value<std::remove_const_t<T>>, "Optional<const T> or Optional<T>; not a tag, not Mut");
    using Type = std::remove_const_t<T>;
    static constexpr Use kUse = std::is_const_v<T> ? Use::optional_read : Use::optional_write;
    static constexpr bool kHasArgument = true;
    T* values;
    T* at(std::uint32_t row) const { return values == nullptr ? nullptr : values + row; }
};

template <class R>
struct Fetch<Pair<R>> {
    using Type = R;
    static constexpr Use kUse = Use::pair;
    static constexpr bool kHasArgument = true;
    std::span<const Archetype::Pair> pairs;
    const Archetype* archetype;
    std::uint32_t first;
    Targets<R> at(std::uint32_t row) const { return {pairs, *archetype, first + row}; }
};

template <class T, Use use>
struct Filter {
    using Type = T;
    static constexpr Use kUse = use;
    static constexpr bool kHasArgument = false;
};
template <class T>
struct Fetch<With<T>> : Filter<T, Use::with> {};
template <class T>
struct Fetch<Without<T>> : Filter<T, Use::without> {};
template <class T>
struct Fetch<Changed<T>> : Filter<T, Use::changed> {};

template <class... Terms>
struct List {};

/// The terms for which the function has a parameter, as a List.
template <class Chosen, class... Terms>
struct Arguments {
    using Type = Chosen;
};
template <class... Chosen, class Term, class... Rest>
struct Arguments<List<Chosen...>, Term, Rest...>
    : Arguments<std::conditional_t<Fetch<Term>::kHasArgument, List<Chosen..., Term>, List<Chosen...>>,
                Rest...> {};

/// A query checks each archetype once, when the archetype appears. It must not outlive its world. Iterations
/// may be nested, also iterations of the same query.
///
///     Query<Position, const Velocity, Optional<const Wind>, Without<Frozen>> moving{world};
///     moving.each([](Position& p, const Velocity& v, const Wind* w) { ... });
///
/// The function takes one argument per term, in order: T&, const T&, Mut<T>, const T*, T* or const
/// Targets<R>&. It may take the Entity before these. With, Without and Changed have no argument. Rows are
/// visited in blocks of kBlockRows; change hooks are called after the last row of each block. If the function
/// connects a change hook, this hook may also be called for rows that were visited before.
template <class... Terms>
class Query {
    template <class Term>
    using Type = typename Fetch<Term>::Type;
    static constexpr std::size_t kTerms = sizeof...(Terms);
    static constexpr std::size_t kArguments = (std::size_t{0} + ... + Fetch<Terms>::kHasArgument);
    static constexpr auto kArgumentTerms = [] {
        std::array<std::size_t, kTerms> terms{};  // only the first kArguments are used
        std::size_t term = 0, found = 0;
        ((Fetch<Terms>::kHasArgument ? void(terms[found++] = term++) : void(term++)), ...);
        return terms;
    }();
    static constexpr bool kUses(QueryCore::Use use) { return ((Fetch<Terms>::kUse == use) || ...); }
    static constexpr bool kWrites = kUses(QueryCore::Use::write) || kUses(QueryCore::Use::write_some) ||
                                    kUses(QueryCore::Use::optional_write);

public:
    explicit Query(World& world) : Query(world, false) {}
    /// For a query that only reads. It registers its component types, and each() defers the world; a reader
    /// cannot observe either.
    explicit Query(const World& world) requires(!kWrites) : Query(const_cast<World&>(world), true) {}

    /// Calls fn for each entity that matches. If fn returns a bool, false ends the loop. Structural changes
    /// are queued meanwhile.
    template <class Fn>
    void each(Fn&& fn) {
        static_assert(!kUses(QueryCore::Use::changed), "changed since when? use each_since");
        visit_all(fn, 0);
    }

    /// Visits only entities that have R with this target; Pair<R> must be a term. The Targets<R> argument
    /// lists all targets of the entity. The cost does not depend on how many other entities are targets of R.
    template <Relation R, class Fn>
    void each_to(Entity target, Fn&& fn) {
        static_assert((std::is_same_v<Terms, Pair<R>> || ...), "needs a Pair<R> term");
        static_assert(!kUses(QueryCore::Use::changed), "changed since when? use each_since");
        const World::Deferral deferral(core_.world());
        core_.refresh_some();
        Visit visit(*this);
        constexpr std::size_t term = [] {
            const bool is_it[] = {std::is_same_v<Terms, Pair<R>>...};
            std::size_t at = 0;
            while (!is_it[at]) ++at;
            return at;
        }();
        for (const Archetype* archetype : core_.archetypes_of(term, target)) {
            if (archetype == nullptr) continue;
            const std::size_t m = core_.find(*archetype);
            if (m < core_.refresh_some() && !visit_match(fn, visit, core_.match(m), 0)) return;
        }
    }

    /// Destroys all entities that match. For Changed<T>, an entity matches if it has T. Requires that the
    /// query was made with a World that is not const.
    void destroy_all() { core_.destroy_all(); }

    /// Visits all rows of each block whose stamp for any Changed term is later than `tick`: every row that
    /// was written or came into its archetype after this tick of the world, and some unchanged rows. Call
    /// World::advance_tick() just before each call. Pass 0 in the first call; in a later call, pass what
    /// advance_tick() returned before the previous one.
    template <class Fn>
    void each_since(std::uint64_t tick, Fn&& fn) {
        static_assert(kUses(QueryCore::Use::changed), "needs a Changed term");
        visit_all(fn, tick);
    }

    /// Number of entities that match. For Changed<T>, an entity matches if it has T.
    std::uint32_t count() {
        std::uint32_t entities = 0;
        for (std::size_t m = 0; m < core_.refresh(); ++m) entities += core_.match(m).archetype->size();
        return entities;
    }

private:
    Query(World& world, bool is_const)
        : core_(world,
                std::array<QueryCore::Term, kTerms>{
                    QueryCore::Term{world.component<Type<Terms>>(), Fetch<Terms>::kUse}...},
                is_const) {}

    template <class Term>
    Fetch<Term> fetch(const QueryCore::Match& match, std::size_t term, std::uint32_t first,
                      QueryCore::WrittenRows& written) const {
        Fetch<Term> result{};
        if constexpr (Fetch<Term>::kUse == QueryCore::Use::pair) {
            result.pairs = core_.pairs(match, term);
            result.archetype = match.archetype;
            result.first = first;
            return result;
        } else {
            Column* const column = match.columns[term];
            if (column != nullptr) result.values = static_cast<Type<Term>*>(column->at(first));
            if constexpr (Fetch<Term>::kUse == QueryCore::Use::write_some) result.written = written.data();
            return result;
        }
    }

    /// Returns the number of rows visited, and sets `is_ended` if `fn` returned false for the last one.
    /// `fetches` are passed by value to rule out aliasing with what `fn` writes.
    template <class Fn, class... Fetches>
    static std::uint32_t visit_rows(Fn& fn, bool& is_ended, const Entity* entities, std::uint32_t count,
                                    Fetches... fetches) {
        for (std::uint32_t row = 0; row < count; ++row) {
            const auto call = [&](auto&... entity) { return fn(entity..., fetches.at(row)...); };
            if constexpr (requires { fn(entities[row], fetches.at(row)...); }) {
                is_ended = !goes_on(call, entities[row]);
            } else if constexpr (requires { fn(fetches.at(row)...); }) {
                is_ended = !goes_on(call);
            } else {
                static_assert(kArguments > kTerms,
                              "one argument per term, filters left out; may take Entity first");
            }
            if (is_ended) return row + 1;
        }
        return count;
    }

    /// The rows that are being visited: one block, or all rows of a match; reported if the function throws.
    /// One for each block instead of one for each loop is 30 % slower if archetypes have a few rows.
    struct Visit {
        explicit Visit(Query& its_query) : query(its_query) {}
        ~Visit() {
            if (match.archetype != nullptr) query.report_rows(match, first, count, written);
        }

        Query& query;
        QueryCore::Match match{};  // no archetype: no rows to report
        std::uint32_t first = 0, count = 0;
        QueryCore::WrittenRows written[kTerms];  // set by Mut terms
    };

    template <class Fn, class... Arguments, std::size_t... I>
    bool visit_blocks(Fn& fn, Visit& visit, const QueryCore::Match& match, std::uint32_t first,
                      std::uint32_t count, List<Arguments...>, std::index_sequence<I...>) {
        auto& written = visit.written;
        if constexpr (kUses(QueryCore::Use::write_some))
            for (auto& rows : written) rows.fill(0);
        visit.match = match, visit.first = first, visit.count = count;
        bool is_ended = false;
        count = visit_rows(fn, is_ended, match.archetype->entities().data() + first, count,
                           fetch<Arguments>(match, kArgumentTerms[I], first, written[kArgumentTerms[I]])...);
        visit.match.archetype = nullptr;
        report_rows(match, first, count, written);
        return !is_ended;
    }

    void report_rows(const QueryCore::Match& match, std::uint32_t first, std::uint32_t count,
                     const QueryCore::WrittenRows* written) {
        if (count > kBlockRows) return core_.mark_all(match, count);
        std::size_t term = 0;
        bool is_hooked = false;
        ((is_hooked |= mark<Fetch<Terms>::kUse>(match, term, first, written[term]), ++term), ...);
        if (is_hooked) core_.report_block(match, first, count, written);
    }

    template <QueryCore::Use use>
    bool mark(const QueryCore::Match& match, std::size_t term, std::uint32_t first,
              const QueryCore::WrittenRows& written) const {
        if constexpr (use == Use::write || use == Use::optional_write) {
            return core_.mark(match, term, first);
        } else if constexpr (use == Use::write_some) {
            return QueryCore::any(written) && core_.mark(match, term, first);
        } else {
            return false;
        }
    }

    template <class Fn>
    void visit_all(Fn& fn, std::uint64_t since) {
        const World::Deferral deferral(core_.world());
        const std::size_t matches = core_.refresh();
        Visit visit(*this);
        for (std::size_t m = 0; m < matches; ++m)
            if (!visit_match(fn, visit, core_.match(m), since)) return;
    }

    template <class Fn>
    bool visit_match(Fn& fn, Visit& visit, const QueryCore::Match& match, std::uint64_t since) {
        using Arguments = typename Arguments<List<>, Terms...>::Type;
        const std::uint32_t rows = match.archetype->size();
        std::uint32_t step = kBlockRows;
        if constexpr (!kUses(QueryCore::Use::changed) && !kUses(QueryCore::Use::write_some)) {
            // One loop over all rows is 20 % faster than a loop per block if values are a few bytes.
            if (rows > kBlockRows && !core_.has_change_hooks(match)) step = rows;
        }
        for (std::uint32_t first = 0; first < rows; first += step) {
            if constexpr (kUses(QueryCore::Use::changed))
                if (!core_.is_changed(match, first / kBlockRows, since)) continue;
            if (!visit_blocks(fn, visit, match, first, rows - first < step ? rows - first : step, Arguments{},
                              std::make_index_sequence<kArguments>{}))
                return false;
        }
        return true;
    }

    QueryCore core_;
};

}  // namespace shoal::ecs::impl

namespace shoal::ecs {
using impl::Changed, impl::Optional, impl::Pair, impl::Query, impl::With, impl::Without;
}  // namespace shoal::ecs
