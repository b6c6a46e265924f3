#include "query.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace shoal::ecs {

namespace {

bool writes(QueryCore::Use use) {
    using Use = QueryCore::Use;
    return use == Use::write || use == Use::write_some || use == Use::optional_write;
}

bool is_required(QueryCore::Use use) {
    using Use = QueryCore::Use;
    return use != Use::without && use != Use::optional_read && use != Use::optional_write;
}

}  // namespace

QueryCore::QueryCore(World& world, std::span<const Term> terms)
    : world_(world), terms_(terms.begin(), terms.end()) {
    for (std::uint32_t term = 0; term < terms_.size(); ++term)
        if (writes(terms_[term].use)) writes_.push_back(term);
    std::sort(writes_.begin(), writes_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return terms_[a].id < terms_[b].id; });
}

bool QueryCore::is_changed(const Match& match, std::uint32_t block, std::uint64_t tick) const {
    for (std::size_t term = 0; term < terms_.size(); ++term)
        if (terms_[term].use == Use::changed &&
            match.archetype->column(match.columns[term]).stamp(block) > tick)
            return true;
    return false;
}

bool QueryCore::any(const WrittenRows& rows) {
    return std::any_of(rows.begin(), rows.end(), [](std::uint64_t word) { return word != 0; });
}

void QueryCore::match_new() {
    for (; seen_ < world_.archetypes_.size(); ++seen_) {
        Archetype* archetype = world_.archetypes_[seen_];
        const auto fits = [&](const Term& term) {
            if (term.use == Use::without) return !archetype->has(term.id);
            return !is_required(term.use) || archetype->has(term.id);
        };
        if (!std::all_of(terms_.begin(), terms_.end(), fits)) continue;
        archetypes_.push_back(archetype);
        for (const Term& term : terms_) columns_.push_back(archetype->column_of(term.id));
    }
}

void QueryCore::tell_block(const Match& match, std::uint32_t first, std::uint32_t count,
                           std::span<const WrittenRows> written) {
    for (const std::uint32_t term : writes_) {
        const std::uint32_t column = match.columns[term];
        if (column == Archetype::kNoColumn || !world_.hooks_.has(HookKind::change, terms_[term].id)) continue;
        if (terms_[term].use != Use::write_some) {
            world_.fire_changed(*match.archetype, column, first, count);
            continue;
        }
        const WrittenRows& rows = written[term];
        const auto is_written = [&](std::uint32_t row) { return (rows[row / 64] >> row % 64 & 1) != 0; };
        for (std::uint32_t row = 0; row < count;) {
            if (row % 64 == 0 && rows[row / 64] == 0) {
                row += 64;
                continue;
            }
            std::uint32_t end = row;
            while (end < count && is_written(end)) ++end;
            if (end != row) world_.fire_changed(*match.archetype, column, first + row, end - row);
            row = end + 1;
        }
    }
}

}  // namespace shoal::ecs
