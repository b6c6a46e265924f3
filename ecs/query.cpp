#include "query.h"

#include <algorithm>
#include <cassert>

namespace shoal::ecs::impl {
namespace {

bool writes(Use use) {
    return use == Use::write || use == Use::write_some || use == Use::optional_write;
}

bool is_required(Use use) {
    return use != Use::without && use != Use::optional_read && use != Use::optional_write;
}

}  // namespace

QueryCore::QueryCore(World& world, std::span<const Term> terms, bool is_const)
    : world_(world), is_const_(is_const), terms_(terms.begin(), terms.end()) {
    for (std::uint32_t term = 0; term < terms_.size(); ++term)
        if (writes(terms_[term].use)) writes_.push_back(term);
    std::ranges::sort(writes_, {}, [&](std::uint32_t term) { return terms_[term].id; });
}

bool QueryCore::is_changed(const Match& match, std::uint32_t block, std::uint64_t tick) const {
    for (std::size_t term = 0; term < terms_.size(); ++term)
        if (terms_[term].use == Use::changed && match.archetype->stamp(*match.columns[term], block) > tick)
            return true;
    return false;
}

bool QueryCore::any(const WrittenRows& rows) {
    return std::any_of(rows.begin(), rows.end(), [](std::uint64_t word) { return word != 0; });
}

void QueryCore::match_new() {
    const ArchetypeList& all = world_.archetypes_;
    Archetype* archetype = nullptr;  // the oldest that was not yet checked
    for (Archetype* at = all.newest(); at != nullptr && at->serial() > seen_; at = ArchetypeList::older(*at))
        archetype = at;
    seen_ = all.last_serial();
    for (; archetype != nullptr; archetype = ArchetypeList::newer(*archetype)) {
        const auto fits = [&](const Term& term) {
            const bool has_it = archetype->has(term.id) || !archetype->pairs(term.id).empty();
            if (term.use == Use::without) return !has_it;
            return !is_required(term.use) || has_it;
        };
        if (!std::all_of(terms_.begin(), terms_.end(), fits)) continue;
        matches_.push_back({archetype, archetype->serial(), archetype->index()});
        for (const Term& term : terms_) columns_.push_back(archetype->find(term.id));
    }
}

void QueryCore::forget_freed() {
    frees_seen_ = world_.archetypes_.free_count();
    std::size_t kept = 0;
    for (std::size_t m = 0; m < matches_.size(); ++m) {
        const Known known = matches_[m];
        const Archetype* now = world_.archetypes_.at(known.index);
        if (now == nullptr || now->serial() != known.serial) continue;
        matches_[kept] = known;
        std::copy_n(columns_.begin() + static_cast<std::ptrdiff_t>(m * terms_.size()), terms_.size(),
                    columns_.begin() + static_cast<std::ptrdiff_t>(kept * terms_.size()));
        ++kept;
    }
    matches_.resize(kept);
    columns_.resize(kept * terms_.size());
}

std::size_t QueryCore::find(const Archetype& archetype) const {
    const auto at = std::ranges::lower_bound(matches_, archetype.serial(), {}, &Known::serial);
    const bool is_there = at != matches_.end() && at->serial == archetype.serial();
    return is_there ? static_cast<std::size_t>(at - matches_.begin()) : matches_.size();
}

std::span<Archetype* const> QueryCore::archetypes_of(std::size_t term, Entity target) const {
    const PairTable& pairs = world_.components_.pairs();
    const PairTable::Pair* pair = pairs.find(pairs.find(terms_[term].id, target));
    if (pair == nullptr) return {};
    return pair->archetypes;
}

void QueryCore::destroy_all() {
    assert(!is_const_);
    if (is_const_) return;
    std::vector<Entity> doomed;
    for (std::size_t m = 0; m < refresh(); ++m) {
        const auto entities = matches_[m].archetype->entities();
        doomed.insert(doomed.end(), entities.begin(), entities.end());
    }
    world_.destroy_all(doomed);
}

bool QueryCore::has_change_hooks(const Match& match) const {
    return std::any_of(writes_.begin(), writes_.end(), [&](std::uint32_t term) {
        const Column* const column = match.columns[term];
        return column != nullptr && column->type().has_hook(HookKind::change);
    });
}

void QueryCore::mark_all(const Match& match, std::uint32_t rows) {
    for (const std::uint32_t term : writes_) {
        Column* const column = match.columns[term];
        for (std::uint32_t first = 0; column != nullptr && first < rows; first += kBlockRows)
            column->wrote(first, world_.tick_);
    }
    if (!has_change_hooks(match)) return;
    for (std::uint32_t first = 0; first < rows; first += kBlockRows)
        report_block(match, first, std::min(rows - first, kBlockRows), nullptr);
}

void QueryCore::report_block(const Match& match, std::uint32_t first, std::uint32_t count,
                             const WrittenRows* written) {
    const auto entities = match.archetype->entities().subspan(first, count);
    for (const std::uint32_t term : writes_) {
        const Column* const column = match.columns[term];
        if (column == nullptr || !column->type().has_hook(HookKind::change)) continue;
        if (terms_[term].use != Use::write_some) {
            world_.hooks_.fire_changed({world_, entities, column->at(first), column, Removal::component});
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
            if (end != row)
                world_.hooks_.fire_changed({world_, entities.subspan(row, end - row), column->at(first + row),
                                            column, Removal::component});
            row = end + 1;
        }
    }
}

}  // namespace shoal::ecs::impl
