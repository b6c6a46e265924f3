#include "networks.h"

namespace shoal::net::impl {

Networks::Networks(const SipKey& key, const Address& address) {
    const auto ip = std::as_bytes(std::span(address.ip));
    if (address.family == Address::Family::ipv4) {
        hashes_[0] = siphash(key, {4}, ip.first(4));
        return;
    }
    count_ = hashes_.size();
    for (std::size_t place = 0; place < count_; ++place)
        hashes_[place] = siphash(key, {6}, ip.first(8 - place));  // the first 64, 56 and 48 bits
}

bool NetworkCounts::has_room(const Networks& networks, std::uint64_t limit, const Networks* leaving) const {
    for (std::size_t place = 0; place < networks.hashes().size(); ++place) {
        const std::uint64_t hash = networks.hashes()[place];
        const bool is_left = leaving && place < leaving->hashes().size() && leaving->hashes()[place] == hash;
        const auto found = counts_.find(hash);
        const std::uint64_t count = found == counts_.end() ? 0 : found->second - is_left;
        if (count >= Networks::limit_at(place, limit)) return false;
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

bool AttemptLimit::take(const Networks& networks, std::uint32_t per_machine, std::uint32_t total,
                        std::uint64_t random, Time now) {
    const auto turn = [&](std::span<Count> counts, Time& since, Duration length) {
        if (now - since < length) return;
        const bool is_next = now - since < 2 * length;
        since = now;
        for (Count& count : counts) count = {0, is_next ? count.now : std::uint16_t(0)};
    };
    turn(counts_, machines_since_, kMachineSlice);
    turn(pools_, total_since_, kTotalSlice);
    const auto lately = [](const Count& count) { return std::max(count.now, count.before); };
    const auto add = [&](Count& count) {
        if (count.now < 0xFFFF) count.now += 1;
        return lately(count);
    };
    const auto first_of = [&](std::uint64_t hash) -> Count& { return counts_[hash % kCounts]; };
    const auto second_of = [&](std::uint64_t hash) -> Count& {
        return counts_[kCounts + (hash >> 32) % kCounts];
    };
    const std::span<const std::uint64_t> hashes = networks.hashes();
    const bool is_newcomer = std::min(lately(first_of(hashes.back())), lately(second_of(hashes.back()))) == 0;
    const auto in_slice = [](double per_second, Duration slice) {
        return per_second * std::chrono::duration<double>(slice).count();
    };
    double of_network = 1;
    for (std::size_t place = 0; place < hashes.size(); ++place) {
        const int attempts = std::min(add(first_of(hashes[place])), add(second_of(hashes[place])));
        const double limit = double(Networks::limit_at(place, per_machine));
        of_network = std::min(of_network, std::max(in_slice(limit, kMachineSlice), 1.0) / attempts);
    }
    const double most = std::max(in_slice(total, kTotalSlice), 1.0);
    double draw = double(random >> 11) * 0x1p-53;
    if (draw >= of_network) {
        draw = (draw - of_network) / (1 - of_network);
        const int used = lately(pools_[0]) + lately(pools_[1]);
        return draw < std::max(most - used, 0.0) / add(pools_[2]);
    }
    const double theirs = std::min(most / 2, double(lately(pools_[is_newcomer ? 1 : 0])));
    return draw < of_network * std::max(most - theirs, 1.0) / add(pools_[is_newcomer ? 0 : 1]);
}

}  // namespace shoal::net::impl
