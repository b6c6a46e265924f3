#include "message_intake.h"

#include <algorithm>
#include <utility>

namespace shoal::replication::impl {

MessageIntake::Verdict MessageIntake::arrive(const MessageLimits& limits, Item& message, bool must_wait) {
    const std::size_t bytes = message.bytes.size();
    if (waiting_.empty() && !must_wait && pay(limits, bytes, message.arrived)) return Verdict::deliver;
    if (waiting_.size() >= limits.max_waiting || waiting_bytes_ + bytes > limits.max_waiting_bytes)
        return Verdict::flood;
    if (waiting_.empty()) since_ = message.arrived;
    waiting_.push_back(std::move(message));
    waiting_bytes_ += bytes;
    return Verdict::wait;
}

bool MessageIntake::take(const MessageLimits& limits, net::Time now, Item& item,
                         const std::function<bool(const Item&)>& has_run) {
    if (waiting_.empty()) return false;
    if (has_run && now - waiting_.front().arrived < kLongestWait && !has_run(waiting_.front())) {
        since_ = now;  // the limits are not what it waits for
        return false;
    }
    if (!pay(limits, waiting_.front().bytes.size(), now)) return false;
    item = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    waiting_bytes_ -= item.bytes.size();
    return true;
}

/// Takes one message and its bytes from what the rates allow. Returns false, and takes nothing, if less than
/// one message or no byte is left.
bool MessageIntake::pay(const MessageLimits& limits, std::size_t bytes, net::Time now) {
    const double elapsed_s = std::chrono::duration<double>(now - paid_until_).count();
    const double seconds = std::exchange(is_new_, false) ? limits.burst_s : elapsed_s;
    paid_until_ = now;
    messages_ = std::min(messages_ + seconds * limits.messages_per_s, limits.burst_s * limits.messages_per_s);
    bytes_ = std::min(bytes_ + seconds * limits.bytes_per_s, limits.burst_s * limits.bytes_per_s);
    if (messages_ < 1 || bytes_ <= 0) return false;
    messages_ -= 1;
    bytes_ -= static_cast<double>(bytes);
    return true;
}

}  // namespace shoal::replication::impl
