#include "networks.h"

#include <algorithm>
#include <cassert>

namespace shoal::net {
namespace {

constexpr Duration kSlice = std::chrono::milliseconds(100);

}  // namespace

Networks::Networks(const SipKey& key, const Address& address) {
    const auto ip = std::as_bytes(std::span(address.ip));
    if (address.family == Address::Family::ipv4) {
        hashes_[0] = siphash(key, {4}, ip.first(4));
        return;
    }
    count_ = hashes_.size();
    for (std::size_t place = 0; place < count_; ++place)
        hashes_[place] = siphash(key, {6}, ip.first(8 - place));  // 64, 56 and 48 bits
}

bool NetworkCounts::has_room(const Networks& networks, std::uint64_t limit) const {
    for (std::size_t place = 0; place < networks.hashes().size(); ++place) {
        const auto found = counts_.find(networks.hashes()[place]);
        if (found != counts_.end() && found->second >= Networks::limit_at(place, limit)) return false;
    }
    return true;
}

void NetworkCounts::add(const Networks& networks) {
    for (const std::uint64_t hash : networks.hashes()) counts_[hash] += 1;
}

void NetworkCounts::remove(const Networks& networks) {
    for (const std::uint64_t hash : networks.hashes()) {
        const auto found = counts_.find(hash);
        assert(found != counts_.end());
        if (--found->second == 0) counts_.erase(found);
    }
}

bool AttemptLimit::take(const Networks& networks, std::uint32_t per_machine, std::uint32_t total, Time now) {
    if (now - since_ >= kSlice) {
        since_ = now;
        newcomers_ = others_ = 0;
        counts_.fill(0);
    }
    const auto count_of = [&](std::uint64_t hash) -> std::uint32_t& {
        return counts_[hash % counts_.size()];
    };
    const std::span<const std::uint64_t> hashes = networks.hashes();
    for (std::size_t place = 0; place < hashes.size(); ++place)
        if (count_of(hashes[place]) >= Networks::limit_at(place, per_machine)) return false;
    const bool is_newcomer = count_of(hashes.back()) == 0;
    if (newcomers_ + others_ >= total) return false;
    if (!is_newcomer && others_ >= std::max(total / 2, 1u)) return false;
    (is_newcomer ? newcomers_ : others_) += 1;
    for (const std::uint64_t hash : hashes) count_of(hash) += 1;
    return true;
}

}  // namespace shoal::net
