#pragma once
// The encoded changes of entities since earlier versions. A change is encoded once in a tick, then copied for
// each peer that has the same baseline.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../codec/codec.h"
#include "../history/shadow.h"
#include "../scope/hidden_references.h"

namespace shoal::replication::impl {

/// Only reads the shadow, so several threads, each with its own cache, can encode at the same time.
class DeltaCache {
public:
    /// An entity's newest image, encoded against a baseline.
    struct Delta {
        std::size_t offset = 0, bits = 0;  // position in this cache
        bool is_empty = false;             // the newest image equals the baseline
    };

    /// The shadow must outlive the cache.
    explicit DeltaCache(const Shadow& shadow);
    /// All deltas of get() are encoded with this model, until the next call. It must not change before
    /// clear().
    void set_model(ModelView model) { model_ = model; }
    /// Counts the decisions in one of `every` images that are encoded from now on. Null: does not count.
    void learn(DecisionCounts* counts, std::uint32_t every) {
        counts_ = counts;
        learn_every_ = every;
    }

    /// Calls of get(), and those whose delta was encoded already.
    struct Uses {
        std::uint64_t asked = 0, found = 0;
    };
    const Uses& uses() const { return uses_; }

    /// Removes all deltas. Call it after each update of the shadow.
    void clear();

    /// Returns the newest image of an entry, as `view` shows it, encoded against `baseline`, a version of the
    /// entry. Without a baseline it is encoded for a full record. The result is valid until clear().
    /// `view.numbers` must live as long. `older`: a version that the peer has, too; `factor`: see Trend.
    /// `sight`: for a peer that does not see all entities that one of the images refers to; then it is
    /// encoded for this call only.
    Delta get(std::uint32_t entry, const std::optional<Version>& baseline, View view = {},
              const std::optional<Version>& older = {}, std::uint32_t factor = 0,
              const NameSight* sight = nullptr);

    /// Returns the check_sum() of an image as `view` shows it to a peer with this sight; null: it sees all.
    std::uint16_t check_sum_of(Image image, View view, const NameSight* sight);

    /// Begins to load what get() needs for an entry and a baseline of this tick. prefetch_item() reads what
    /// prefetch_first() loads, so call it some time later.
    void prefetch_first(std::uint32_t entry, Tick baseline) const {
        prefetch(&first_[place(entry, baseline)]);
    }
    void prefetch_item(std::uint32_t entry, Tick baseline) const {
        const std::uint32_t first = first_[place(entry, baseline)];
        if (first < items_.size()) prefetch(&items_[first]);
    }

    /// Writes the bits of a delta of this cache.
    void append(const Delta& delta, BitWriter& out) const { out.append(bits_, delta.offset, delta.bits); }

private:
    static constexpr std::uint32_t kNone = 0xffffffff, kPlaces = 8;

    struct Item {
        std::uint32_t entry;
        std::uint32_t next;    // item of the same place, or kNone
        Tick baseline, older;  // ticks of the versions that it is encoded against
        std::uint32_t factor;  // 0: there is no older version
        bool is_full;          // encoded without a baseline
        View view;             // View{} if every peer sees the same in both images
        const std::uint8_t* model;
        Delta delta;

        bool is_alike(const Item& other) const {
            return model == other.model && view == other.view && is_full == other.is_full &&
                   baseline == other.baseline && older == other.older && factor == other.factor;
        }
    };

    /// Items of one entry whose baselines are a few ticks apart have different places.
    static std::size_t place(std::uint32_t entry, Tick baseline) {
        return std::size_t{entry} * kPlaces + baseline % kPlaces;
    }

    bool is_learned_from(std::uint32_t entry, Tick tick) const;

    const Shadow& shadow_;
    ModelView model_;
    DecisionCounts* counts_ = nullptr;
    std::uint32_t learn_every_ = 1;
    Uses uses_;
    ShapeTable visible_shapes_;
    std::vector<std::uint32_t> visible_words_, baseline_words_, older_words_, kept_words_;
    HiddenReferences hidden_;
    std::vector<std::uint32_t> hidden_words_, hidden_baseline_words_, hidden_older_words_;
    BitWriter bits_;
    std::vector<Item> items_;
    // By place(): index in items_ of the first item. clear() does not change first_: an index is valid only
    // if items_ has it, and if the item belongs to the entry.
    std::vector<std::uint32_t> first_;
};

}  // namespace shoal::replication::impl
