#pragma once
// The encoded changes of entities since earlier versions. A change is encoded once in a tick, then copied for
// each peer that has the same baseline.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../codec/codec.h"
#include "../history/shadow.h"
#include "../scope/hidden_references.h"

namespace shoal::replication::all {

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
    /// Null: plain bits. All deltas of get() are encoded with the model of the last call, until the next one.
    void set_model(const CodecModel* model) { model_ = model; }
    /// Counts the decisions in all images that are encoded from now on. Null: does not count.
    void count(DecisionCounts* counts) { counts_ = counts; }

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

    /// Writes the bits of a delta of this cache.
    void append(const Delta& delta, BitWriter& out) const { out.append(bits_, delta.offset, delta.bits); }

private:
    static constexpr std::uint32_t kNone = 0xffffffff;

    struct Item {
        std::uint32_t entry;
        bool is_full;  // encoded without a baseline
        const CodecModel* model;
        View view;             // View{} if every peer sees the same in both images
        Tick baseline, older;  // ticks of the versions that it is encoded against
        std::uint32_t factor;  // 0: there is no older version
        Delta delta;
        std::uint32_t next;  // item of the same entry, or kNone

        bool is_alike(const Item& other) const {
            return model == other.model && view == other.view && is_full == other.is_full &&
                   baseline == other.baseline && older == other.older && factor == other.factor;
        }
    };

    const Shadow& shadow_;
    const CodecModel* model_ = nullptr;
    DecisionCounts* counts_ = nullptr;
    ShapeTable visible_shapes_;
    std::vector<std::uint32_t> visible_words_, baseline_words_, older_words_, kept_words_;
    HiddenReferences hidden_;
    std::vector<std::uint32_t> hidden_words_, hidden_baseline_words_, hidden_older_words_;
    BitWriter bits_;
    std::vector<Item> items_;
    // By entry: index in items_ of its first item. clear() does not change first_: an index is valid only if
    // items_ has it, and if the item belongs to the entry.
    std::vector<std::uint32_t> first_;
};

}  // namespace shoal::replication::all
