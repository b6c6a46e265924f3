#pragma once
// Finds the edits that turn the baseline of a string, vector or optional into its new elements.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "../schema/lanes.h"

namespace shoal::replication::impl {

/// How many elements of the baseline's part are kept, at its start and at its end. The elements between them
/// are new.
struct Splice {
    std::uint32_t prefix = 0, between = 0, suffix = 0;
};

/// One step from the baseline's elements to the new ones: some are kept, then `count` elements are changed,
/// left out or added.
struct Edit {
    enum class Kind : std::uint8_t {
        change,  // elements of the baseline change
        erase,   // elements of the baseline are left out
        fresh,   // new elements follow, in full
        copy,    // elements of the baseline follow that begin with number `source`
    };
    std::uint32_t kept = 0;
    Kind kind = Kind::change;
    // For fresh and copy. True: the elements replace the same number of elements of the baseline. False: they
    // are inserted.
    bool in_place = false;
    std::uint32_t count = 1;
    std::uint32_t source = 0;

    /// Number of elements of the baseline that are changed, left out or replaced.
    std::uint32_t consumed() const {
        return in_place || kind == Kind::change || kind == Kind::erase ? count : 0;
    }
    /// Number of elements that are changed or added.
    std::uint32_t produced() const { return kind == Kind::erase ? 0 : count; }
};

/// Number of bits of Edit::source, if the baseline has `count` elements.
unsigned source_bits(std::uint32_t count);

/// Returns the longest prefix and suffix that two versions of a part share.
Splice find_splice(const Part& part, const std::uint32_t* base, const std::uint32_t* value);

/// Lists the edits that lead from one version of a part to another, in order. The list depends only on the
/// two versions. It is short, but not always the shortest: it takes time in proportion to the number of
/// elements.
class EditFinder {
public:
    /// `base` and `value` are the words of two versions that differ; they must outlive the finder. They share
    /// `suffix` elements at their ends.
    EditFinder(const Part& part, std::uint32_t suffix, const std::uint32_t* base, const std::uint32_t* value);

    /// Returns the next edit. Returns nothing if all elements that are left are kept.
    std::optional<Edit> next();

private:
    const std::uint32_t* old_element(std::uint32_t index) const { return old_ + index * width_; }
    const std::uint32_t* new_element(std::uint32_t index) const { return new_ + index * width_; }
    bool same(std::uint32_t old_index, std::uint32_t new_index) const;
    std::uint32_t differences(std::uint32_t old_index, std::uint32_t new_index, std::uint32_t most) const;
    std::uint32_t alike_ahead(std::uint32_t old_index, std::uint32_t new_index) const;

    std::uint32_t keep();
    Edit decide();
    std::int32_t find_shift();
    Edit cheapest(bool in_place);
    bool find_copy(std::uint32_t& source);
    void take(const Edit& edit);
    bool continues_last(const Edit& edit) const;
    std::size_t header_bits(const Edit& edit) const;

    const Part& part_;
    const std::size_t width_;          // words of an element
    const std::uint32_t *old_, *new_;  // first elements
    const std::uint32_t old_count_, new_count_;
    const std::uint32_t old_end_, new_end_;  // elements from here on are kept
    const std::uint32_t reach_;              // longest insertion or erasure, in elements, that is recognised
    std::uint32_t old_at_ = 0,
                  new_at_ = 0;   // index of the next element; the edits so far cover all earlier elements
    std::uint32_t inserts_ = 0;  // number of elements still to insert
    std::uint32_t shift_budget_, copy_budget_;  // alignments that searches may still judge
    std::optional<Edit> decided_;               // the next edit, if it is known
    std::optional<Edit> last_;                  // the previous edit, if no element was kept since then
};

}  // namespace shoal::replication::impl
