#pragma once
// For an entity that appears or disappears, finds the entities that refer to it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bucket_hash.h"

namespace shoal::replication::impl {

/// A multiset of pairs (target, referrer). Targets are any 32-bit numbers, referrers small indices. Memory is
/// reused: nothing is allocated once the index has grown enough.
class ReferenceIndex {
public:
    explicit ReferenceIndex(BucketHash hash = BucketHash{}) : hash_(hash) {}

    void add(std::uint32_t target, std::uint32_t referrer);

    /// Removes all pairs of `referrer`.
    void clear(std::uint32_t referrer);

    /// Calls visit(referrer) for each referrer of `target`, as often as the pair was added. visit must not
    /// change the index.
    template <class Visit>
    void for_each_referrer(std::uint32_t target, Visit&& visit) const {
        if (buckets_.empty()) return;
        for (std::uint32_t i = buckets_[bucket(target)]; i != kNone; i = links_[i].next_in_bucket)
            if (links_[i].target == target) visit(links_[i].referrer);
    }

    std::size_t size() const { return count_; }

    bool is_consistent() const;  // consistency.cpp

private:
    static constexpr std::uint32_t kNone = 0xffffffff;

    struct Link {
        std::uint32_t target, referrer;
        std::uint32_t next_in_bucket, previous_in_bucket;  // previous: kNone at the bucket's head
        std::uint32_t next_of_referrer;                    // in a free link: the next free link
    };

    std::size_t bucket(std::uint32_t target) const { return hash_(target, buckets_.size()); }
    void rehash();

    BucketHash hash_;
    std::vector<Link> links_;
    std::vector<std::uint32_t> buckets_;    // first link of each chain; the size is a power of two
    std::vector<std::uint32_t> referrers_;  // by referrer: first link
    std::uint32_t free_ = kNone;
    std::size_t count_ = 0;
};

}  // namespace shoal::replication::impl
