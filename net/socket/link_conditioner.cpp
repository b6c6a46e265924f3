#include "link_conditioner.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace shoal::net {

LinkConditioner::LinkConditioner(const LinkConfig& config, std::uint64_t seed)
    : config_(config), random_state_(seed) {}

void LinkConditioner::push(const Address& from, const Address& to, std::span<const std::byte> bytes,
                           Time now) {
    stats_.offered += 1;
    if (!in_burst_ && chance(config_.burst)) in_burst_ = true;
    if (in_burst_) {
        stats_.lost_in_bursts += 1;
        in_burst_ = !chance(1.0 / std::max(1.0, config_.burst_length));
        return;
    }
    if (chance(config_.loss)) {
        stats_.lost += 1;
        return;
    }
    schedule(from, to, bytes, now);
    if (chance(config_.duplicate)) {
        stats_.duplicated += 1;
        schedule(from, to, bytes, now);
    }
}

bool LinkConditioner::pop(Time now, Datagram& out) {
    if (heap_.empty() || heap_.front().datagram.due > now) return false;
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    std::swap(out, heap_.back().datagram);
    spare_.push_back(std::move(heap_.back().datagram.bytes));
    heap_.pop_back();
    stats_.delivered += 1;
    return true;
}

bool LinkConditioner::is_later(const Item& a, const Item& b) {
    return a.datagram.due != b.datagram.due ? a.datagram.due > b.datagram.due : a.order > b.order;
}

Duration LinkConditioner::queue_delay(Time now) const {
    if (config_.bytes_per_second == 0) return Duration(0);
    return std::chrono::ceil<Duration>(std::max(busy_until_ - now, std::chrono::nanoseconds(0)));
}

/// SplitMix64. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
std::uint64_t LinkConditioner::random() {
    random_state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = random_state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

bool LinkConditioner::chance(double probability) {
    if (probability <= 0) return false;
    return static_cast<double>(random() >> 11) * 0x1p-53 < probability;
}

void LinkConditioner::schedule(const Address& from, const Address& to, std::span<const std::byte> bytes,
                               Time now) {
    if (heap_.size() >= config_.max_queued || !pass_bottleneck(bytes.size(), now)) {
        stats_.overflowed += 1;
        return;
    }
    Item item;
    item.datagram.from = from;
    item.datagram.to = to;
    item.order = next_order_++;
    if (!spare_.empty()) {
        item.datagram.bytes = std::move(spare_.back());
        spare_.pop_back();
    }
    item.datagram.bytes.reserve(kMaxDatagramBytes);
    item.datagram.bytes.assign(bytes.begin(), bytes.end());
    if (chance(config_.corrupt) && !bytes.empty()) corrupt(item.datagram.bytes);

    const Duration shortest = std::max(config_.latency - config_.spread, Duration(0));
    const Duration longest = config_.latency + config_.spread + config_.jitter;
    Time due = now + queue_delay(now) + shortest;
    if (longest > shortest) {
        const auto range = static_cast<std::uint64_t>((longest - shortest).count());
        due += Duration(static_cast<Duration::rep>(random() % (range + 1)));
    }
    if (chance(config_.reorder)) {
        stats_.reordered += 1;
        due += config_.reorder_delay;
    } else {
        due = std::max(due, newest_due_);
        newest_due_ = due;
    }
    item.datagram.due = due;
    heap_.push_back(std::move(item));
    std::push_heap(heap_.begin(), heap_.end(), is_later);
}

bool LinkConditioner::pass_bottleneck(std::size_t bytes, Time now) {
    if (config_.bytes_per_second == 0) return true;
    const auto time_of = [&](std::size_t count) {
        return std::chrono::nanoseconds(count * 1'000'000'000 / config_.bytes_per_second);
    };
    if (queue_delay(now) + time_of(bytes) > time_of(config_.queue_bytes)) return false;
    busy_until_ = std::max<std::chrono::nanoseconds>(busy_until_, now) + time_of(bytes);
    return true;
}

void LinkConditioner::corrupt(std::vector<std::byte>& bytes) {
    stats_.corrupted += 1;
    if (random() % 8 == 0) {
        bytes.resize(static_cast<std::size_t>(random() % bytes.size()));
        return;
    }
    const std::uint64_t flips = 1 + random() % 4;
    for (std::uint64_t i = 0; i < flips; ++i) {
        const std::uint64_t bit = random() % (bytes.size() * 8);
        bytes[bit / 8] ^= std::byte(1u << (bit % 8));
    }
}

}  // namespace shoal::net
