#include "edits.h"

#include <algorithm>
#include <bit>

#include "group.h"

namespace shoal::replication::impl {
namespace {

// Longer insertions and erasures are not recognised as such. In a part inside the elements of another one, an
// insertion is often a whole string or vector.
constexpr std::uint32_t kReach = 8, kInnerReach = 64;
constexpr std::uint32_t kAhead = 4;  // number of pairs of elements that are compared to judge an alignment
constexpr std::uint32_t kSearches = 2048, kSearchesPerElement = 2;  // alignments that a search may judge
constexpr std::uint32_t kAll = 0xffffffff;
constexpr std::size_t kEditBits = 6;  // more, kept and count of an edit without kept elements

}  // namespace

unsigned source_bits(std::uint32_t count) {
    return static_cast<unsigned>(std::bit_width(count - 1));
}

Splice find_splice(const Part& part, const std::uint32_t* base, const std::uint32_t* value) {
    const std::size_t width = part.lanes.size();
    const std::uint32_t count = value[0], old = base[0], common = std::min(count, old);
    const auto same = [&](std::size_t a, std::size_t b) {
        return std::equal(value + 1 + a * width, value + 1 + (a + 1) * width, base + 1 + b * width);
    };
    Splice splice;
    while (splice.prefix < common && same(splice.prefix, splice.prefix)) ++splice.prefix;
    while (splice.prefix + splice.suffix < common && same(count - 1 - splice.suffix, old - 1 - splice.suffix))
        ++splice.suffix;
    splice.between = count - splice.prefix - splice.suffix;
    return splice;
}

EditFinder::EditFinder(const Part& part, std::uint32_t suffix, const std::uint32_t* base,
                       const std::uint32_t* value)
    : part_(part),
      width_(part.lanes.size()),
      old_(base + 1),
      new_(value + 1),
      old_count_(base[0]),
      new_count_(value[0]),
      old_end_(old_count_ - suffix),
      new_end_(new_count_ - suffix),
      reach_(part.parent == Part::kNone ? kReach : kInnerReach),
      shift_budget_(kSearches + kSearchesPerElement * (old_count_ + new_count_)),
      copy_budget_(shift_budget_) {}

std::optional<Edit> EditFinder::next() {
    const std::uint32_t kept = decided_ ? 0 : keep();
    if (old_at_ == old_end_ && new_at_ == new_end_) return std::nullopt;
    const Edit first = decided_ ? *decided_ : decide();
    decided_.reset();
    take(first);
    last_ = first;
    while (inserts_ != 0 || (old_at_ < old_end_ && new_at_ < new_end_ && !same(old_at_, new_at_))) {
        const Edit edit = decide();
        if (!continues_last(edit)) {
            decided_ = edit;
            break;
        }
        take(edit);
        last_->count += edit.count;
    }
    Edit out = *last_;
    out.kept = kept;
    return out;
}

void EditFinder::take(const Edit& edit) {
    old_at_ += edit.consumed();
    new_at_ += edit.produced();
    if (inserts_ != 0) inserts_ -= edit.produced();
}

bool EditFinder::continues_last(const Edit& edit) const {
    return last_ && last_->kind == edit.kind && last_->in_place == edit.in_place &&
           (edit.kind != Edit::Kind::copy || edit.source == last_->source + last_->count);
}

/// Returns the number of bits of an edit without those of its elements.
std::size_t EditFinder::header_bits(const Edit& edit) const {
    if (continues_last(edit)) return 0;
    if (edit.kind == Edit::Kind::change) return kEditBits + 1;
    return kEditBits + 4 + (edit.kind == Edit::Kind::copy ? source_bits(old_count_) : 0);
}

bool EditFinder::same(std::uint32_t old_index, std::uint32_t new_index) const {
    const std::uint32_t *a = old_element(old_index), *b = new_element(new_index);
    for (std::size_t i = 0; i < width_; ++i)
        if (a[i] != b[i]) return false;
    return true;
}

/// Returns the number of lanes in which two elements differ, or `most` if there are more.
std::uint32_t EditFinder::differences(std::uint32_t old_index, std::uint32_t new_index,
                                      std::uint32_t most) const {
    const std::uint32_t *a = old_element(old_index), *b = new_element(new_index);
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < width_ && count < most; ++i) count += a[i] != b[i];
    return count;
}

/// Returns the number of lanes in which the next few pairs of elements are equal.
std::uint32_t EditFinder::alike_ahead(std::uint32_t old_index, std::uint32_t new_index) const {
    const std::uint32_t pairs = std::min({kAhead, old_count_ - old_index, new_count_ - new_index});
    std::uint32_t equal = pairs * static_cast<std::uint32_t>(width_);
    for (std::uint32_t n = 0; n < pairs; ++n) equal -= differences(old_index + n, new_index + n, kAll);
    return equal;
}

/// Moves past equal elements, and returns their number.
std::uint32_t EditFinder::keep() {
    std::uint32_t kept = old_at_;
    while (old_at_ < old_end_ && new_at_ < new_end_ && same(old_at_, new_at_)) ++old_at_, ++new_at_;
    kept = old_at_ - kept;
    if (kept != 0) last_.reset();
    return kept;
}

/// Returns an edit of one element, or an erasure.
Edit EditFinder::decide() {
    if (inserts_ == 0 && new_at_ == new_end_) return {.kind = Edit::Kind::erase, .count = old_end_ - old_at_};
    if (inserts_ == 0 && old_at_ == old_end_) inserts_ = new_end_ - new_at_;
    if (inserts_ == 0) {
        const std::int32_t shift = find_shift();
        if (shift > 0) return {.kind = Edit::Kind::erase, .count = static_cast<std::uint32_t>(shift)};
        inserts_ = static_cast<std::uint32_t>(-shift);
    }
    return cheapest(inserts_ == 0);
}

/// Returns how many elements of the baseline were probably erased here, or the negative number of insertions;
/// 0 if the next element was changed in place. An alignment is judged by the elements that it pairs: the next
/// pair and the next few pairs together must be more alike than without the shift.
std::int32_t EditFinder::find_shift() {
    if (shift_budget_ < 2 * reach_) return 0;
    shift_budget_ -= 2 * reach_;
    const std::uint32_t next = differences(old_at_, new_at_, kAll);
    std::uint32_t most = alike_ahead(old_at_, new_at_);
    std::int32_t best = 0;
    const auto judge = [&](std::uint32_t old_index, std::uint32_t new_index, std::int32_t shift) {
        if (old_index >= old_end_ || new_index >= new_end_) return;
        if (differences(old_index, new_index, next) >= next) return;
        const std::uint32_t score = alike_ahead(old_index, new_index);
        if (score <= most) return;
        most = score;
        best = shift;
    };
    for (std::uint32_t n = 1; n <= reach_; ++n) {
        judge(old_at_ + n, new_at_, static_cast<std::int32_t>(n));
        judge(old_at_, new_at_ + n, -static_cast<std::int32_t>(n));
    }
    return best;
}

/// Returns the edit that codes the next new element, probably with the fewest bits.
Edit EditFinder::cheapest(bool in_place) {
    const std::uint32_t* element = new_element(new_at_);
    Edit best{.kind = Edit::Kind::fresh, .in_place = in_place};
    BitCounter fresh;
    code_element(fresh, part_, element);
    std::size_t bits = header_bits(best) + fresh.bits();
    if (in_place) {
        const Edit change{.kind = Edit::Kind::change};
        BitCounter changed;
        code_changed_element(changed, part_, old_element(old_at_), element);
        const std::size_t change_bits = header_bits(change) + changed.bits();
        if (change_bits <= bits) best = change;
        bits = std::min(bits, change_bits);
    }
    Edit copy{.kind = Edit::Kind::copy, .in_place = in_place};
    if (last_ && last_->kind == copy.kind) copy.source = last_->source + last_->count;
    const bool is_run = continues_last(copy) && copy.source < old_count_ && same(copy.source, new_at_);
    if (is_run || (header_bits(copy) < bits && find_copy(copy.source))) return copy;
    return best;
}

/// Finds an element of the baseline that is equal to the next new one.
bool EditFinder::find_copy(std::uint32_t& source) {
    if (copy_budget_ < old_count_) return false;
    copy_budget_ -= old_count_;
    for (source = 0; source < old_count_; ++source)
        if (same(source, new_at_)) return true;
    return false;
}

}  // namespace shoal::replication::impl
