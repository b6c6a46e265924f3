#include "bad_network.h"

namespace shoal::net::impl {
namespace {

bool is_later(const LinkConditioner::Datagram& a, const LinkConditioner::Datagram& b) {
    return a.due != b.due ? a.due > b.due : a.order > b.order;
}

}  // namespace

void LinkConditioner::push(const Address& from, const Address& to, std::span<const std::byte> bytes,
                           Time now) {
    stats_.offered += 1;
    if (!in_burst_ && chance(config_.burst)) in_burst_ = true;
    if (in_burst_) {
        stats_.lost_in_bursts += 1;
        in_burst_ = !chance(1.0 / std::max(1.0, config_.burst_length));
        return;
    }
    if (chance(config_.loss)) return void(stats_.lost += 1);
    schedule(from, to, bytes, now);
    if (chance(config_.duplicate)) {
        stats_.duplicated += 1;
        schedule(from, to, bytes, now);
    }
}

bool LinkConditioner::pop(Time now, Datagram& out) {
    if (count_ == 0 || heap_.front().due > now) return false;
    std::pop_heap(heap_.begin(), heap_.begin() + std::ptrdiff_t(count_), is_later);
    count_ -= 1;
    std::swap(out, heap_[count_]);
    stats_.delivered += 1;
    return true;
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
    if (count_ >= config_.max_queued || !pass_bottleneck(bytes.size(), now))
        return void(stats_.overflowed += 1);
    if (count_ == heap_.size()) heap_.emplace_back();
    Datagram& datagram = heap_[count_];
    datagram.from = from;
    datagram.to = to;
    datagram.order = next_order_++;
    datagram.bytes.reserve(kMaxDatagramBytes);
    datagram.bytes.assign(bytes.begin(), bytes.end());
    if (chance(config_.corrupt) && !bytes.empty()) corrupt(datagram.bytes);

    const Duration shortest = std::max(config_.latency - config_.spread, Duration(0));
    const Duration longest = config_.latency + config_.spread + config_.jitter;
    datagram.due = now + queue_delay(now) + shortest;
    if (longest > shortest) {
        const auto range = static_cast<std::uint64_t>((longest - shortest).count());
        datagram.due += Duration(static_cast<Duration::rep>(random() % (range + 1)));
    }
    if (chance(config_.reorder)) {
        stats_.reordered += 1;
        datagram.due += config_.reorder_delay;
    } else {
        datagram.due = newest_due_ = std::max(datagram.due, newest_due_);
    }
    count_ += 1;
    std::push_heap(heap_.begin(), heap_.begin() + std::ptrdiff_t(count_), is_later);
}

bool LinkConditioner::pass_bottleneck(std::size_t bytes, Time now) {
    if (config_.bytes_per_second == 0) return true;
    const auto time_of = [&](std::uint64_t count) {
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
        const auto bit = static_cast<std::size_t>(random() % (bytes.size() * 8));
        bytes[bit / 8] ^= std::byte(1u << (bit % 8));
    }
}

std::size_t BadNetwork::receive_all(Socket& socket, Endpoint& endpoint, Time now, std::size_t max_datagrams) {
    std::array<std::byte, kMaxDatagramBytes + 1> buffer;
    Address from;
    for (std::size_t i = 0; i < max_datagrams; ++i) {
        const Result<std::size_t> size = socket.receive(buffer, from);
        if (!size) break;
        in().push(from, {}, std::span(buffer).first(size.value()), now);
    }
    return receive_all(Address{}, endpoint, now, max_datagrams);
}

std::size_t BadNetwork::receive_all(const Address& address, Endpoint& endpoint, Time now,
                                    std::size_t max_datagrams) {
    now_ = now;
    Place& receiver = place(address);
    std::size_t count = 0;
    for (; count < max_datagrams && receiver.in.pop(now, datagram_); ++count)
        endpoint.receive(datagram_.from, datagram_.bytes, now);
    return count;
}

void BadNetwork::flush(Time now) {
    now_ = now;
    while (out_.pop(now, datagram_)) outside_->send(datagram_.to, datagram_.bytes);
}

Time BadNetwork::next_due(Time at_most) const {
    if (out_.queued() > 0) at_most = std::min(at_most, out_.next_due());
    for (const auto& [address, place] : places_)
        if (place.in.queued() > 0) at_most = std::min(at_most, place.in.next_due());
    return at_most;
}

BadNetwork::Place& BadNetwork::place(const Address& address) {
    // Each place needs a seed of its own. out_ has seed_ + 1, so the first place gets seed_, and the next
    // places get seed_ + 2, seed_ + 3 and so on.
    const std::uint64_t seed = seed_ + places_.size() + (places_.empty() ? 0 : 1);
    return places_.try_emplace(address, *this, address, seed).first->second;
}

void BadNetwork::carry(const Address& from, const Address& to, std::span<const std::byte> datagram) {
    if (outside_) return out_.push(from, to, datagram, now_);
    const auto receiver = places_.find(to);
    if (receiver != places_.end()) receiver->second.in.push(from, to, datagram, now_);
}

}  // namespace shoal::net::impl
