#include "sent_packets.h"

namespace shoal::net::impl {
namespace {

constexpr Duration kInitialTimeout = std::chrono::milliseconds(500);  // before the first rtt sample
constexpr Duration kMinVariation = std::chrono::milliseconds(10);
// The peer may delay an ack by 20 ms, and then until its next tick.
constexpr Duration kAckDelayAllowance = std::chrono::milliseconds(50);
// With a longer timeout the estimate would stay wrong too long after a sudden change of the round trip.
constexpr Duration kMaxTimeout = std::chrono::seconds(3);
constexpr std::uint8_t kMaxDoublings = 5;  // from 60 ms, the shortest timeout, to 1.9 s
constexpr Duration kMinReorderWait = std::chrono::milliseconds(4);
constexpr Duration kReorderMemory = std::chrono::seconds(10);
constexpr int kLaterDelivered = 3;
constexpr double kMinLossGain = 1.0 / 64;
constexpr double kPriorPackets = 16;  // counted as delivered at first, so that one loss is not 100 %
constexpr std::uint32_t kFirstSlots = 16;

/// Weight of one fate in the loss estimate: a mean over all packets at first, later over about the latest 64.
double loss_gain(const ConnectionStats& stats) {
    const double decided = double(stats.packets_delivered + stats.packets_lost);
    return std::max(kMinLossGain, 1 / (kPriorPackets + decided));
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
}

bool SentPackets::has_room() const {
    const Slot& slot = slots_[index(next_)];
    return slot.state != State::open || ((next_ - slot.number) & (capacity_ - 1)) != 0;
}

void SentPackets::sent_tracked(const Content& content, std::size_t bytes, Time now, ConnectionStats& stats) {
    assert(has_room());
    while (slots_[index(next_)].state == State::open && slots_.size() < capacity_) {
        const std::size_t size = std::min<std::size_t>(slots_.size() * 4, capacity_);
        const std::vector<Slot> former = std::exchange(slots_, std::vector<Slot>(size));
        news_.reserve(size / 2);  // usually enough for the news of one ack
        for (const Slot& slot : former)
            if (slot.number != 0) slots_[index(slot.number)] = slot;
    }
    slots_[index(next_)] = {next_, now, content, static_cast<std::uint16_t>(bytes), State::open};
    if (open_ == 0) oldest_open_ = next_;
    open_ += 1;
    next_ += 1;
    newest_sent_ = now;
    stats.bytes_in_flight += bytes;
}

void SentPackets::skip() {
    skipped_ = {next_, skipped_[0]};
    next_ += 1;
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

void SentPackets::acknowledge(const Acks& acks, Time now, ConnectionStats& stats) {
    assert(plausible(acks));
    if (!acks.present) return;
    const std::uint64_t newest = expand_ack(acks.newest);
    newest_acked_ = std::max(newest_acked_, newest);

    // Packets declared lost are measured too: after a sudden rise of the round trip all acks come too late.
    const Slot* const newest_slot = find(newest);
    const bool measures = newest_slot && newest >= measured_from_ && newest_slot->state != State::delivered;
    if (measures) sample_rtt(now - newest_slot->sent, acks.delay, stats);
    const auto rtt_of = [&](const Slot& slot) {
        if (measures && slot.number == newest) return stats.latest_rtt;
        return std::max({Duration(1), stats.min_rtt, now - slot.sent - acks.delay});
    };
    for (std::uint64_t behind = 0; behind <= 64 && newest - behind >= first_; ++behind) {
        if (behind > 0 && !(acks.bits >> (behind - 1) & 1)) continue;
        Slot* const slot = find(newest - behind);
        if (!slot || slot->state == State::delivered) continue;
        timeouts_in_a_row_ = 0;
        if (slot->state == State::open)
            slot->state = State::acked;
        else
            note_late(*slot, rtt_of(*slot), measures && behind == 0, now, stats);
    }
    // Packets older than the third newest delivered packet are lost.
    std::uint64_t lost_below = newest_acked_ + 1;
    for (int delivered = 0; open_ > 0 && delivered < kLaterDelivered && lost_below > oldest_open_;) {
        const Slot* const slot = find(--lost_below);
        delivered += slot && slot->state >= State::acked;
    }
    for (std::uint64_t number = oldest_open_; open_ > 0 && number <= newest_acked_; ++number) {
        Slot* const slot = find(number);
        if (slot && slot->state == State::acked)
            decide(*slot, State::delivered, rtt_of(*slot), measures && number == newest, stats);
        else if (number < lost_below && is_open(number))
            decide(*slot, State::overtaken, Duration(0), false, stats);
    }
}

void SentPackets::update(Time now, ConnectionStats& stats) {
    const Duration timeout = 2 * retransmission_timeout(stats);
    const Duration rtt = std::max(stats.rtt, stats.latest_rtt);
    const Duration reorder_wait = now < reordered_at_ + kReorderMemory ? reorder_wait_ : Duration(0);
    const Duration overtaken = std::min(timeout, rtt + std::max({rtt / 8, kMinReorderWait, reorder_wait}));
    for (std::uint64_t number = oldest_open_; open_ > 0 && number < next_; ++number) {
        if (!is_open(number)) continue;
        Slot& slot = slots_[index(number)];
        const Duration age = now - slot.sent;
        if (age < overtaken) break;  // later packets are younger
        const bool is_overtaken = number < newest_acked_;
        if (!is_overtaken && age < timeout) continue;
        // A packet sent before the previous timeout makes no further one: the sender did not know of it yet.
        if (!is_overtaken && (timeouts_in_a_row_ == 0 || slot.sent > timed_out_at_)) {
            timed_out_at_ = now;
            timeouts_in_a_row_ = std::min<std::uint8_t>(timeouts_in_a_row_ + 1, kMaxDoublings);
        }
        decide(slot, is_overtaken ? State::overtaken : State::timed_out, Duration(0), false, stats);
    }
}

void SentPackets::lose_all(ConnectionStats& stats) {
    const double loss = stats.loss;
    for (std::uint64_t number = oldest_open_; open_ > 0; ++number)
        if (is_open(number)) decide(slots_[index(number)], State::timed_out, Duration(0), false, stats);
    stats.loss = loss;  // the end of a connection says nothing about the path
}

bool SentPackets::next_news(News& out) {
    if (news_.empty()) return false;
    out = news_[0];
    news_.pop();
    return true;
}

void SentPackets::restart(ConnectionStats& stats) {
    measured_from_ = next_;
    reorder_wait_ = Duration(0);
    timeouts_in_a_row_ = 0;
    stats.rtt = Duration(0);
}

Duration SentPackets::answer_timeout(const ConnectionStats& stats) const {
    if (stats.rtt == Duration(0)) return kInitialTimeout;
    return std::min(stats.rtt + std::max(4 * stats.jitter, kMinVariation) + kAckDelayAllowance, kMaxTimeout);
}

Duration SentPackets::retransmission_timeout(const ConnectionStats& stats) const {
    return std::min(answer_timeout(stats) * (1 << timeouts_in_a_row_), kMaxTimeout);
}

/// Returns null if the packet was not tracked, or a later packet uses its slot.
SentPackets::Slot* SentPackets::find(std::uint64_t number) {
    Slot& slot = slots_[index(number)];
    return slot.number == number ? &slot : nullptr;
}

void SentPackets::decide(Slot& slot, State state, Duration rtt, bool measures, ConnectionStats& stats) {
    assert(slot.state == State::open || slot.state == State::acked);
    slot.state = state;
    const bool delivered = state == State::delivered;
    open_ -= 1;
    stats.bytes_in_flight -= slot.bytes;
    (delivered ? stats.packets_delivered : stats.packets_lost) += 1;
    (delivered ? stats.bytes_delivered : stats.bytes_lost) += slot.bytes;
    stats.loss += ((delivered ? 0.0 : 1.0) - stats.loss) * loss_gain(stats);
    news_.push({{slot.number, delivered, rtt}, slot.sent, slot.content, slot.bytes, false, measures});
    while (oldest_open_ < next_ && !is_open(oldest_open_)) oldest_open_ += 1;
}

/// Handles an ack of a packet that was declared lost. The fate does not change, but the estimates use the
/// ack. If later packets overtook it, the path reorders packets: for kReorderMemory, update() gives overtaken
/// packets as much time for their ack as this one needed, as in RFC 8985. acknowledge() gives no time.
void SentPackets::note_late(Slot& slot, Duration rtt, bool measures, Time now, ConnectionStats& stats) {
    const bool was_overtaken = slot.state == State::overtaken;
    slot.state = State::delivered;
    stats.late_acks += 1;
    stats.loss = std::max(0.0, stats.loss - loss_gain(stats));
    if (slot.number < measured_from_) return;
    news_.push({{slot.number, true, rtt}, slot.sent, slot.content, slot.bytes, true, measures});
    if (!was_overtaken) return;
    if (now >= reordered_at_ + kReorderMemory) reorder_wait_ = Duration(0);
    reorder_wait_ = std::max(reorder_wait_, now - slot.sent - stats.rtt);
    reordered_at_ = now;
}

void SentPackets::sample_rtt(Duration rtt, Duration ack_delay, ConnectionStats& stats) {
    rtt = std::max(rtt, Duration(1));
    const bool is_first = stats.rtt == Duration(0);
    stats.min_rtt = is_first ? rtt : std::min(stats.min_rtt, rtt);
    // The ack delay that the peer states is subtracted, but never reduces a sample below min_rtt.
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

std::uint64_t SentPackets::expand_ack(std::uint16_t truncated) const {
    const std::uint64_t last = next_ - 1;
    return last - static_cast<std::uint16_t>(last - truncated);
}

}  // namespace shoal::net::impl
