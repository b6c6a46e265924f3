#pragma once
// Codes strings, vectors, optionals and maps. The format is specified in ../WIRE.md.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "edits.h"
#include "group.h"

namespace shoal::replication::impl {

inline constexpr unsigned kPrefixOrder = 3, kSuffixOrder = 1, kBetweenOrder = 3;
inline constexpr unsigned kKeptOrder = 3, kEditedOrder = 0;

/// Where a coder reads or writes parts. Parts that are read are appended to the words of the image.
template <Coder C>
using Parts = std::conditional_t<C::kReads, std::vector<std::uint32_t>&, const std::uint32_t*>;

inline const std::uint32_t* next_part(const Part& part, const std::uint32_t* words) {
    return words ? part.end(words) : nullptr;
}

inline bool part_differs(const Part& part, const std::uint32_t* base, const std::uint32_t* value) {
    if (!base) return value[0] != 0;
    return value[0] != base[0] || !std::equal(value, part.end(value), base);
}

/// A part that is being read: it grows by elements of its baseline and new ones.
class PartBuilder {
public:
    /// Appends to `words`. `base` is the baseline's part, or null.
    PartBuilder(const Part& part, const std::uint32_t* base, std::vector<std::uint32_t>& words)
        : part_(part), base_(base), old_count_(base ? base[0] : 0), words_(words), start_(words.size()) {
        words_.push_back(0);
    }

    /// Applies a splice if it is valid. Returns the elements between, which are zero; null if it is not
    /// valid.
    std::uint32_t* apply(const Splice& splice) {
        const std::uint64_t kept = std::uint64_t{splice.prefix} + splice.suffix;
        if (kept > old_count_ || kept + splice.between > part_.max_count) return nullptr;
        copy(0, splice.prefix);
        add(splice.between);
        copy(old_count_ - splice.suffix, splice.suffix);
        return element(splice.prefix);
    }

    /// Applies the next edit if it is valid. Returns the elements that it changes or adds: added elements
    /// are zero, changed ones still have the values of the baseline. Returns null if the edit is not valid.
    std::uint32_t* apply(const Edit& edit) {
        const std::uint64_t used = std::uint64_t{used_} + edit.kept + edit.consumed();
        const std::uint64_t count = std::uint64_t{words_[start_]} + edit.kept + edit.produced();
        const bool is_copy = edit.kind == Edit::Kind::copy;
        if (edit.count == 0 || used > old_count_ || count > part_.max_count) return nullptr;
        if (is_copy && std::uint64_t{edit.source} + edit.count > old_count_) return nullptr;
        copy(used_, edit.kept);
        if (is_copy) copy(edit.source, edit.count);
        if (edit.kind == Edit::Kind::change) copy(used_ + edit.kept, edit.count);
        if (edit.kind == Edit::Kind::fresh) add(edit.count);
        used_ = static_cast<std::uint32_t>(used);
        return element(words_[start_] - edit.produced());
    }

    /// Keeps all elements of the baseline after the last edit. Returns false if the part then has too many.
    bool finish() {
        copy(used_, old_count_ - used_);
        return words_[start_] <= part_.max_count;
    }

private:
    std::uint32_t* element(std::uint32_t index) {
        return words_.data() + start_ + 1 + index * part_.lanes.size();
    }
    void copy(std::uint32_t index, std::uint32_t count) {
        if (count == 0) return;
        const std::uint32_t* first = base_ + 1 + index * part_.lanes.size();
        words_.insert(words_.end(), first, first + count * part_.lanes.size());
        words_[start_] += count;
    }
    void add(std::uint32_t count) {
        words_.resize(words_.size() + count * part_.lanes.size());
        words_[start_] += count;
    }

    const Part& part_;
    const std::uint32_t* base_;
    const std::uint32_t old_count_;
    std::vector<std::uint32_t>& words_;
    const std::size_t start_;  // the word that contains the count
    std::uint32_t used_ = 0;   // elements of the baseline that edits kept, changed, left out or replaced
};

/// Codes a part as elements kept from the start and the end of the baseline's part, and new elements between
/// them.
template <Coder C>
void code_splice(C& coder, const Part& part, Splice splice, const std::uint32_t* base, Parts<C> parts) {
    if (base) {
        splice.prefix = coder.golomb(splice.prefix, kPrefixOrder);
        splice.suffix = coder.golomb(splice.suffix, kSuffixOrder);
    }
    splice.between = coder.golomb(splice.between, kBetweenOrder);
    Word<C>* element;
    if constexpr (C::kReads) {
        element = PartBuilder(part, base, parts).apply(splice);
        if (!element) return coder.fail();
    } else {
        element = parts + 1 + splice.prefix * part.lanes.size();
    }
    for (std::uint32_t n = 0; n < splice.between && coder.ok(); ++n, element += part.lanes.size())
        code_element(coder, part, element);
}

/// Codes an edit without its elements. `old` is the number of elements of the baseline.
template <Coder C>
Edit code_edit_header(C& coder, Edit edit, std::uint32_t old) {
    using Kind = Edit::Kind;
    edit.kept = coder.golomb(edit.kept, kKeptOrder);
    if (!coder.flag(edit.kind != Kind::change)) {
        edit.kind = Kind::change;
    } else if (coder.flag(edit.kind == Kind::erase)) {
        edit.kind = Kind::erase;
    } else {
        edit.kind = coder.flag(edit.kind == Kind::copy) ? Kind::copy : Kind::fresh;
        edit.in_place = coder.flag(edit.in_place);
    }
    edit.count = 1 + coder.golomb(edit.count - 1, kEditedOrder);  // 0 if a reader gets 2^32 - 1
    if (edit.kind == Kind::copy) edit.source = coder.fixed(edit.source, source_bits(old));
    return edit;
}

/// Codes the elements of an edit that are not copied. `old` is the baseline's element at the edit.
template <Coder C>
void code_edit_elements(C& coder, const Part& part, const Edit& edit, const std::uint32_t* old,
                        Word<C>* element) {
    const std::size_t width = part.lanes.size();
    if (edit.kind == Edit::Kind::change)
        for (std::uint32_t n = 0; n < edit.count && coder.ok(); ++n)
            code_changed_element(coder, part, old + n * width, element + n * width);
    if (edit.kind == Edit::Kind::fresh)
        for (std::uint32_t n = 0; n < edit.count && coder.ok(); ++n)
            code_element(coder, part, element + n * width);
}

/// Codes a part as edits of the baseline's part. Both have the same `suffix` last elements.
template <Coder C>
void code_edits(C& coder, const Part& part, std::uint32_t suffix, const std::uint32_t* base, Parts<C> parts) {
    auto edits = [&] {
        if constexpr (C::kReads) {
            return PartBuilder(part, base, parts);
        } else {
            return EditFinder(part, suffix, base, parts);
        }
    }();
    const std::uint32_t *old = base + 1, *value = nullptr;
    std::optional<Edit> next;
    if constexpr (!C::kReads) {
        value = parts + 1;
        next = edits.next();
    }
    do {
        const Edit edit = code_edit_header(coder, next.value_or(Edit{}), base[0]);
        Word<C>* elements;
        if constexpr (C::kReads) {
            elements = edits.apply(edit);
            if (!elements) return coder.fail();
        } else {
            elements = value + edit.kept * part.lanes.size();
            value = elements + edit.produced() * part.lanes.size();
            next = edits.next();
        }
        old += edit.kept * part.lanes.size();
        code_edit_elements(coder, part, edit, old, elements);
        old += edit.consumed() * part.lanes.size();
    } while (coder.flag(next.has_value()));
    if constexpr (C::kReads)
        if (!edits.finish()) coder.fail();
}

inline bool edits_are_smaller(const Part& part, const Splice& splice, const std::uint32_t* base,
                              const std::uint32_t* value) {
    BitCounter spliced, edited;
    code_splice(spliced, part, splice, base, value);
    code_edits(edited, part, splice.suffix, base, value);
    return edited.bits() < spliced.bits();
}

/// Codes a part that differs. `base` is null if the baseline lacks the component.
template <Coder C>
void code_part(C& coder, const Part& part, const std::uint32_t* base, Parts<C> parts) {
    if (base && base[0] == 0) base = nullptr;
    Splice splice;
    bool is_edited = false;
    if constexpr (!C::kReads) {
        splice = base ? find_splice(part, base, parts) : Splice{0, parts[0], 0};
        is_edited = base && edits_are_smaller(part, splice, base, parts);
    }
    if (base && coder.flag(is_edited)) {
        code_edits(coder, part, splice.suffix, base, parts);
    } else {
        code_splice(coder, part, splice, base, parts);
    }
}

}  // namespace shoal::replication::impl
