#include "sent_packets.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>

namespace shoal::net {
namespace {

constexpr Duration kInitialTimeout = std::chrono::milliseconds(500);  // before the first sample
constexpr Duration kMinVariation = std::chrono::milliseconds(10);
// How late an ack may be sent: 20 ms, and then it waits for the other side's next tick.
constexpr Duration kAckDelayAllowance = std::chrono::milliseconds(50);
// Longer ones would keep what a jump of the round trip taught wrongly, and no game waits so long.
constexpr Duration kMaxTimeout = std::chrono::seconds(3);
constexpr std::uint8_t kMaxDoublings = 5;  // from the shortest timeout to the longest
constexpr Duration kMinReorderWait = std::chrono::milliseconds(4);
constexpr Duration kReorderMemory = std::chrono::seconds(10);
constexpr int kLaterDelivered = 3;
constexpr double kMinLossGain = 1.0 / 64;
constexpr double kPriorPackets = 16;  // taken as delivered: else the first fate would be all we know
constexpr std::uint32_t kFirstSlots = 16;

/// What one packet's fate weighs: the mean of all at first, then of the latest.
double loss_gain(const ConnectionStats& stats) {
    const double settled = double(stats.packets_delivered + stats.packets_lost);
    return std::max(kMinLossGain, 1 / (kPriorPackets + settled));
}

}  // namespace

SentPackets::SentPackets(std::uint64_t first, std::uint32_t capacity)
    : slots_(std::min(capacity, kFirstSlots)),
      capacity_(capacity),
      first_(first),
      next_(first),
      oldest_open_(first),
      newest_acked_(first - 1) {
    assert(first >= 1);
    assert(std::has_single_bit(capacity));
    news_.reserve(slots_.size() / 2);  // what one ack settles, as a rule
}

bool SentPackets::has_room(std::uint64_t ahead) const {
    const std::uint64_t number = next_ + ahead;
    const Slot& slot = slots_[number & (slots_.size() - 1)];
    return slot.state != State::open || ((number - slot.number) & (capacity_ - 1)) != 0;
}

void SentPackets::sent_tracked(const Content& content, std::size_t bytes, Time now, ConnectionStats& stats) {
    assert(has_room());
    while (slots_[next_ & (slots_.size() - 1)].state == State::open && slots_.size() < capacity_) grow();
    Slot& slot = slots_[next_ & (slots_.size() - 1)];
    slot = Slot{};
    slot.number = next_;
    slot.content = content;
    slot.sent = now;
    slot.bytes = static_cast<std::uint16_t>(bytes);
    slot.state = State::open;
    if (open_ == 0) oldest_open_ = next_;
    open_ += 1;
    next_ += 1;
    newest_sent_ = now;
    stats.bytes_in_flight += bytes;
}

bool SentPackets::plausible(const Acks& acks) const {
    if (!acks.present) return true;
    if (next_ == first_) return false;
    const std::uint64_t last = next_ - 1;
    if (static_cast<std::uint16_t>(last - acks.newest) > last - first_) return false;
    const std::uint64_t newest = expand_ack(acks.newest);
    return std::none_of(skipped_.begin(), skipped_.end(), [&](std::uint64_t skipped) {
        const std::uint64_t behind = newest - skipped;
        return skipped != 0 && skipped <= newest && behind <= 64 &&
               (behind == 0 || (acks.bits >> (behind - 1) & 1));
    });
}

void SentPackets::skip() {
    skipped_ = {next_, skipped_[0]};
    next_ += 1;
}

void SentPackets::acknowledge(const Acks& acks, Time now, ConnectionStats& stats) {
    assert(plausible(acks));
    if (!acks.present) return;
    const std::uint64_t newest = expand_ack(acks.newest);
    newest_acked_ = std::max(newest_acked_, newest);

    // A packet that was declared lost measures as well: after a jump of the round trip there are no others.
    const Slot* const newest_slot = find(newest);
    const bool measures = newest_slot && newest >= measured_from_ && newest_slot->state != State::unused &&
                          newest_slot->state != State::delivered;
    if (measures) sample_rtt(now - newest_slot->sent, acks.delay, stats);
    const auto rtt_of = [&](const Slot& slot) {
        if (measures && slot.number == newest) return stats.latest_rtt;
        return std::max({Duration(1), stats.min_rtt, now - slot.sent - acks.delay});
    };
    for (std::uint64_t behind = 0; behind <= 64 && newest - behind >= first_; ++behind) {
        if (behind > 0 && !(acks.bits >> (behind - 1) & 1)) continue;
        Slot* const slot = find(newest - behind);
        if (!slot || slot->state == State::unused || slot->state == State::delivered) continue;
        timeouts_in_a_row_ = 0;
        if (slot->state == State::open) {
            slot->is_acked = true;
        } else {
            came_late(*slot, rtt_of(*slot), measures && behind == 0, now, stats);
        }
    }
    const std::uint64_t lost_below = third_newest_delivered();
    for (std::uint64_t number = oldest_open_; open_ > 0 && number <= newest_acked_; ++number) {
        Slot* const slot = find(number);
        if (!slot || slot->state != State::open) continue;
        if (slot->is_acked) {
            settle(*slot, State::delivered, rtt_of(*slot), measures && number == newest, stats);
        } else if (number < lost_below) {
            settle(*slot, State::overtaken, Duration(0), false, stats);
        }
    }
    advance();
}

void SentPackets::update(Time now, ConnectionStats& stats) {
    const Duration timeout = 2 * retransmission_timeout(stats);
    const Duration rtt = std::max(stats.rtt, stats.latest_rtt);
    const Duration reorder_wait = now < reordered_at_ + kReorderMemory ? reorder_wait_ : Duration(0);
    const Duration overtaken = std::min(timeout, rtt + std::max({rtt / 8, kMinReorderWait, reorder_wait}));
    for (std::uint64_t number = oldest_open_; open_ > 0 && number < next_; ++number) {
        Slot* const slot = find(number);
        if (!slot || slot->state != State::open) continue;
        const Duration age = now - slot->sent;
        if (age < overtaken) break;  // later ones are younger
        const bool is_overtaken = number < newest_acked_;
        if (!is_overtaken && age < timeout) continue;
        if (!is_overtaken) timed_out(*slot, now);
        settle(*slot, is_overtaken ? State::overtaken : State::timed_out, Duration(0), false, stats);
    }
    advance();
}

void SentPackets::lose_all(ConnectionStats& stats) {
    const double loss = stats.loss;
    for (std::uint64_t number = oldest_open_; open_ > 0; ++number) {
        assert(number < next_);
        Slot* const slot = find(number);
        if (slot && slot->state == State::open) settle(*slot, State::timed_out, Duration(0), false, stats);
    }
    stats.loss = loss;  // which says nothing about the path
    advance();
}

bool SentPackets::next_news(News& out) {
    if (news_.empty()) return false;
    out = news_[0];
    news_.pop();
    return true;
}

void SentPackets::restart(Duration rtt, ConnectionStats& stats) {
    measured_from_ = next_;
    reorder_wait_ = Duration(0);
    timeouts_in_a_row_ = 0;
    stats.rtt = Duration(0);
    sample_rtt(rtt, Duration(0), stats);
}

Duration SentPackets::answer_timeout(const ConnectionStats& stats) const {
    if (stats.rtt == Duration(0)) return kInitialTimeout;
    return std::min(stats.rtt + std::max(4 * stats.jitter, kMinVariation) + kAckDelayAllowance, kMaxTimeout);
}

Duration SentPackets::retransmission_timeout(const ConnectionStats& stats) const {
    return std::min(answer_timeout(stats) * (1 << timeouts_in_a_row_), kMaxTimeout);
}

SentPackets::Slot* SentPackets::find(std::uint64_t number) {
    Slot& slot = slots_[number & (slots_.size() - 1)];
    return slot.number == number ? &slot : nullptr;
}

const SentPackets::Slot* SentPackets::find(std::uint64_t number) const {
    const Slot& slot = slots_[number & (slots_.size() - 1)];
    return slot.number == number ? &slot : nullptr;
}

void SentPackets::settle(Slot& slot, State state, Duration rtt, bool measures, ConnectionStats& stats) {
    assert(slot.state == State::open);
    slot.state = state;
    const bool delivered = state == State::delivered;
    open_ -= 1;
    stats.bytes_in_flight -= slot.bytes;
    (delivered ? stats.packets_delivered : stats.packets_lost) += 1;
    (delivered ? stats.bytes_delivered : stats.bytes_lost) += slot.bytes;
    stats.loss += ((delivered ? 0.0 : 1.0) - stats.loss) * loss_gain(stats);
    report(slot, delivered, rtt, measures, false);
}

void SentPackets::report(const Slot& slot, bool is_delivered, Duration rtt, bool measures, bool is_late) {
    News news;
    news.fate = {slot.number, is_delivered, rtt};
    news.sent = slot.sent;
    news.content = slot.content;
    news.bytes = slot.bytes;
    news.is_late = is_late;
    news.measures = measures;
    news_.push(news);
}

void SentPackets::sample_rtt(Duration rtt, Duration ack_delay, ConnectionStats& stats) {
    rtt = std::max(rtt, Duration(1));
    const bool is_first = stats.rtt == Duration(0);
    stats.min_rtt = is_first ? rtt : std::min(stats.min_rtt, rtt);
    // The peer states its delay; it cannot make the path look shorter than it ever was.
    rtt = std::max(rtt - ack_delay, stats.min_rtt);
    stats.latest_rtt = rtt;
    if (is_first) {
        stats.rtt = rtt;
        stats.jitter = rtt / 2;
        return;
    }
    const Duration deviation = rtt > stats.rtt ? rtt - stats.rtt : stats.rtt - rtt;
    stats.jitter += (deviation - stats.jitter) / 4;
    stats.rtt = std::max(Duration(1), stats.rtt + (rtt - stats.rtt) / 8);
}

/// Too late for its fate, yet it says something about older ones. And if others overtook it, the path changes
/// the order: the next one is given as long. After RFC 8985, which widens its window in the same way.
void SentPackets::came_late(Slot& slot, Duration rtt, bool measures, Time now, ConnectionStats& stats) {
    const bool was_overtaken = slot.state == State::overtaken;
    slot.state = State::delivered;
    stats.late_acks += 1;
    stats.loss = std::max(0.0, stats.loss - loss_gain(stats));
    if (slot.number >= measured_from_) report(slot, true, rtt, measures, true);
    if (!was_overtaken || slot.number < measured_from_) return;
    if (now >= reordered_at_ + kReorderMemory) reorder_wait_ = Duration(0);
    reorder_wait_ = std::max(reorder_wait_, now - slot.sent - stats.rtt);
    reordered_at_ = now;
}

/// The timeout of a packet that was sent before the previous timeout does not count as another one: the
/// sender could not react to the first yet.
void SentPackets::timed_out(const Slot& slot, Time now) {
    if (timeouts_in_a_row_ > 0 && slot.sent <= timed_out_at_) return;
    timed_out_at_ = now;
    timeouts_in_a_row_ = std::min<std::uint8_t>(timeouts_in_a_row_ + 1, kMaxDoublings);
}

std::uint64_t SentPackets::expand_ack(std::uint16_t truncated) const {
    const std::uint64_t last = next_ - 1;
    return last - static_cast<std::uint16_t>(last - truncated);
}

std::uint64_t SentPackets::third_newest_delivered() const {
    int delivered = 0;
    for (std::uint64_t number = newest_acked_; open_ > 0 && number >= oldest_open_; --number) {
        const Slot* const slot = find(number);
        if (!slot) continue;
        if (slot->state == State::delivered || (slot->state == State::open && slot->is_acked)) delivered += 1;
        if (delivered == kLaterDelivered) return number;
    }
    return 0;
}

void SentPackets::advance() {
    if (open_ == 0) oldest_open_ = next_;
    while (oldest_open_ < next_) {
        const Slot* const slot = find(oldest_open_);
        if (slot && slot->state == State::open) break;
        oldest_open_ += 1;
    }
}

void SentPackets::grow() {
    assert(slots_.size() < capacity_);
    // In few steps: a busy connection has what it needs soon.
    std::vector<Slot> larger(std::min<std::size_t>(slots_.size() * 4, capacity_));
    news_.reserve(larger.size() / 2);
    for (const Slot& slot : slots_) {
        if (slot.state != State::unused) larger[slot.number & (larger.size() - 1)] = slot;
    }
    slots_ = std::move(larger);
}

}  // namespace shoal::net
