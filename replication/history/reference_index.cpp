#include "reference_index.h"

#include <algorithm>

namespace shoal::replication::impl {

void ReferenceIndex::add(std::uint32_t target, std::uint32_t referrer) {
    if (referrer >= referrers_.size()) referrers_.resize(referrer + std::size_t{1}, kNone);
    if (count_ * 2 >= buckets_.size()) rehash();
    std::uint32_t link = free_;
    if (link == kNone) {
        link = static_cast<std::uint32_t>(links_.size());
        links_.emplace_back();
    } else {
        free_ = links_[link].next_of_referrer;
    }
    std::uint32_t& head = buckets_[bucket(target)];
    links_[link] = {target, referrer, head, kNone, referrers_[referrer]};
    if (head != kNone) links_[head].previous_in_bucket = link;
    head = link;
    referrers_[referrer] = link;
    ++count_;
}

void ReferenceIndex::clear(std::uint32_t referrer) {
    if (referrer >= referrers_.size()) return;
    for (std::uint32_t i = referrers_[referrer]; i != kNone;) {
        Link& link = links_[i];
        const std::uint32_t next = link.next_of_referrer;
        if (link.next_in_bucket != kNone)
            links_[link.next_in_bucket].previous_in_bucket = link.previous_in_bucket;
        if (link.previous_in_bucket != kNone) {
            links_[link.previous_in_bucket].next_in_bucket = link.next_in_bucket;
        } else {
            buckets_[bucket(link.target)] = link.next_in_bucket;
        }
        link.next_of_referrer = free_;
        free_ = i;
        --count_;
        i = next;
    }
    referrers_[referrer] = kNone;
}

void ReferenceIndex::rehash() {
    buckets_.assign(std::max<std::size_t>(16, buckets_.size() * 2), kNone);
    for (std::uint32_t first : referrers_)
        for (std::uint32_t i = first; i != kNone; i = links_[i].next_of_referrer) {
            std::uint32_t& head = buckets_[bucket(links_[i].target)];
            links_[i].next_in_bucket = head;
            links_[i].previous_in_bucket = kNone;
            if (head != kNone) links_[head].previous_in_bucket = i;
            head = i;
        }
}

}  // namespace shoal::replication::impl
