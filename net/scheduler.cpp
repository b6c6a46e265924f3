#include "scheduler.h"

namespace shoal::net::impl {
namespace {

constexpr std::size_t kByte = 256;  // so that the shares of small messages are not rounded to zero
/// Largest credit and largest debt of a kind; more than any message costs.
constexpr std::int32_t kMaxCredit = 3 * kMaxDatagramBytes * kByte;

}  // namespace

std::size_t Scheduler::begin(std::size_t room, const SendQueue::Waiting& urgent,
                             const SendQueue::Waiting& normal, bool payload_waits) {
    room_ = static_cast<std::uint32_t>(room);
    urgent_.share = urgent ? shares_.urgent : 0;
    normal_.share = normal ? shares_.normal : 0;
    payload_.share = payload_waits ? shares_.payload : 0;
    for (Kind* const kind : {&urgent_, &normal_, &payload_})
        if (!competes(*kind)) kind->credit = 0;
    if (!payload_waits) return 0;
    if (!competes(payload_)) return std::min(room, kMaxPayloadBytes);

    // Messages of one kind get no room until their share and credit cover the first message.
    const auto due = [&](const Kind& kind, const SendQueue::Waiting& messages) {
        const std::size_t most = messages ? may_take(kind) : 0;
        return most >= messages.first ? std::min(messages.bytes, most) : 0;
    };
    const std::size_t urgent_due = due(urgent_, urgent), normal_due = due(normal_, normal);
    const std::size_t left = room - std::min(room, urgent_due + normal_due);
    const bool needs_own_packet =
        (urgent_due > 0 && urgent.needs_own_packet) || (normal_due > 0 && normal.needs_own_packet);
    // After a payload that took more than its share, payloads get nothing until the debt is paid.
    const std::size_t most = may_take(payload_);
    if (!needs_own_packet && left >= kMinPayloadBytes && most > 0) return std::min(left, kMaxPayloadBytes);
    // The credit of payloads adds up over several packets until it is enough for one payload.
    const bool is_payloads_turn =
        most >= kMinPayloadBytes && payload_.credit >= urgent_.credit && payload_.credit >= normal_.credit;
    return is_payloads_turn ? std::min({most, room, kMaxPayloadBytes}) : 0;
}

void Scheduler::payload_took(std::size_t bytes) {
    if (bytes == 0) payload_ = {};
    pay(payload_, bytes);
}

void Scheduler::fill(SendQueue::Draft& draft, SendQueue& queue, const SendQueue::Terms& terms) {
    const auto take = [&](Weight weight) {
        const std::size_t room = draft.room;
        if (!queue.take(draft, weight, terms)) return false;
        pay(weight == Weight::urgent ? urgent_ : normal_, room - draft.room);
        return true;
    };
    const auto take_next = [&] {
        const bool is_urgents_turn = urgent_.credit >= normal_.credit;
        return take(is_urgents_turn ? Weight::urgent : Weight::normal) ||
               take(is_urgents_turn ? Weight::normal : Weight::urgent);
    };
    while (take_next()) continue;
    const bool has_urgent(queue.waiting(Weight::urgent)), has_normal(queue.waiting(Weight::normal));
    if (!has_urgent) urgent_.credit = 0;
    if (!has_normal) normal_.credit = 0;
    if (!has_urgent && !has_normal) payload_.credit = 0;
    queue.take_repeats(draft, terms);
    while (terms.bulk && queue.take(draft, Weight::bulk, terms)) continue;
}

/// Returns how many bytes of this packet the kind may use: its credit plus its share.
std::size_t Scheduler::may_take(const Kind& kind) const {
    const Credit share = static_cast<Credit>(room_ * kByte * kind.share / all_shares());
    return static_cast<std::size_t>(std::max<Credit>(kind.credit + share, 0)) / kByte;
}

void Scheduler::pay(Kind& payer, std::size_t bytes) {
    if (!competes(payer)) return;
    payer.credit -= static_cast<Credit>(bytes * kByte);
    for (Kind* const kind : {&urgent_, &normal_, &payload_}) {
        kind->credit += static_cast<Credit>(bytes * kByte * kind->share / all_shares());
        kind->credit = std::clamp(kind->credit, -kMaxCredit, kMaxCredit);
    }
}

}  // namespace shoal::net::impl
