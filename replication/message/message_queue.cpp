#include "message_queue.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace shoal::replication {
namespace {

constexpr std::size_t kMaxSpares = 32;

}  // namespace

bool MessageQueue::add(std::span<const std::byte> bytes, net::Channel channel) {
    Waiting waiting;
    if (!spare_.empty()) {
        waiting = std::move(spare_.back());
        spare_.pop_back();
    }
    if (bytes.empty()) {
        messages_.stats().malformed += 1;
        return false;
    }
    if (!messages_.read(bytes.subspan(1), waiting.message)) return false;
    const auto stream = std::to_integer<std::uint8_t>(bytes[0]);
    waiting.channel = channel;
    waiting.stream = stream;
    waiting.wait = {};
    if (waiting_.size() >= kMaxMessages || words_ + waiting.message.words.size() > kMaxWords) deliver_all();
    if (channel == net::Channel::sequenced) {
        const auto outdated = std::remove_if(waiting_.begin(), waiting_.end(), [&](Waiting& other) {
            const bool is_outdated = other.channel == channel && other.stream == stream;
            if (is_outdated) recycle(other);
            return is_outdated;
        });
        messages_.stats().superseded += static_cast<std::uint64_t>(waiting_.end() - outdated);
        waiting_.erase(outdated, waiting_.end());
    }
    words_ += waiting.message.words.size();
    waiting_.push_back(std::move(waiting));
    return true;
}

void MessageQueue::deliver(net::Time now) {
    deliver_until(now);
}

void MessageQueue::deliver_all() {
    deliver_until(std::nullopt);
}

/// If `now` is empty, delivers all messages, also those that wait.
void MessageQueue::deliver_until(std::optional<net::Time> now) {
    if (is_delivering_) {
        must_deliver_all_ = must_deliver_all_ || !now;
        return;
    }
    is_delivering_ = true;
    must_deliver_all_ = false;
    std::bitset<256> blocked;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
        Waiting waiting = std::move(waiting_[i]);
        const ComponentLayout& layout = messages_.types()[waiting.message.type].layout;
        const bool is_late = awaits_entity(receiver_, layout, waiting.message.words);
        const bool is_behind = is_ordered(waiting) && blocked[waiting.stream];
        if (now) waiting.wait.begin(*now);
        if (now && (is_behind || (is_late && !waiting.wait.is_over(*now)))) {
            if (is_ordered(waiting)) blocked.set(waiting.stream);
            waiting_[kept++] = std::move(waiting);
            continue;
        }
        messages_.deliver(waiting.message, {{}, waiting.channel, is_late});
        recycle(waiting);
    }
    waiting_.resize(kept);
    is_delivering_ = false;
    if (must_deliver_all_) deliver_until(std::nullopt);
}

void MessageQueue::clear() {
    waiting_.clear();
    words_ = 0;
}

/// Returns whether the message must be delivered after earlier ones of its stream. A sequenced message need
/// not: it replaces them.
bool MessageQueue::is_ordered(const Waiting& waiting) const {
    return waiting.channel == net::Channel::reliable && waiting.stream != 0;
}

void MessageQueue::recycle(Waiting& waiting) {
    words_ -= waiting.message.words.size();
    if (spare_.size() < kMaxSpares) spare_.push_back(std::move(waiting));
}

}  // namespace shoal::replication
