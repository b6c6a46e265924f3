#include "action_queue.h"

#include <algorithm>
#include <cassert>

namespace shoal::replication::impl {

std::size_t ActionQueue::size() const {
    std::size_t count = 0;
    for (const Stream& stream : streams_) count += stream.waiting.size();
    return count;
}

std::optional<EarlierActions> ActionQueue::earlier() const {
    if (size() == 0) return std::nullopt;
    EarlierActions actions{{}, at(ActionStream::ordered).epoch};
    for (std::size_t i = 0; i < kActionStreams; ++i)
        actions.next[i] = static_cast<std::uint16_t>(next(static_cast<ActionStream>(i)));
    return actions;
}

void ActionQueue::forget_messages() {
    for (Stream& stream : streams_)
        for (ActionRecord& record : stream.waiting) record.messages = 0;
}

void ActionQueue::add(ActionStream stream, ActionRecord record) {
    assert(!is_full(stream));
    Stream& to = at(stream);
    to.payloads_left =
        std::max(to.payloads_left, measure_action(schema_, record) <= kSmallBits ? kSmallPayloads : 1);
    to.waiting.push_back(std::move(record));
}

const ActionRecord* ActionQueue::front(ActionStream stream, std::uint32_t low_sequence) const {
    const Stream& from = at(stream);
    if (from.waiting.empty() || ((from.first ^ low_sequence) & 0xffff) != 0) return nullptr;
    return &from.waiting.front();
}

void ActionQueue::pop(ActionStream stream) {
    Stream& from = at(stream);
    assert(!from.waiting.empty());
    from.waiting.erase(from.waiting.begin());
    from.first += 1;
    if (is_newer(from.first, from.received)) from.received = from.first;
}

std::vector<ActionRecord> ActionQueue::take_ordered() {
    Stream& ordered = at(ActionStream::ordered);
    assert(!ordered.waiting.empty());
    std::vector<ActionRecord> dropped;
    dropped.swap(ordered.waiting);
    ordered.first += 1;  // the next action gets the number after the rejected action
    ordered.received = ordered.first;
    ordered.epoch = static_cast<std::uint8_t>(ordered.epoch + 1);
    ordered.payloads_left = 0;
    return dropped;
}

void ActionQueue::reset() {
    for (Stream& stream : streams_) stream = {};
    sent_.clear();
}

void ActionQueue::reset(const std::array<std::uint32_t, kActionStreams>& next, std::uint8_t epoch) {
    reset();
    for (std::size_t i = 0; i < kActionStreams; ++i) streams_[i].first = streams_[i].received = next[i];
    at(ActionStream::ordered).epoch = epoch;
}

/// Returns the actions for the next payload; none if there is nothing to send. More than one action must fit
/// into `share_bits` together; a single one may take all of `room_bits`. Subtracts the taken bits from
/// `room_bits`.
std::span<const ActionRecord> ActionQueue::run_of(const Stream& stream, std::size_t share_bits,
                                                  std::size_t& room_bits) const {
    if (stream.payloads_left == 0) return {};
    const std::span<const ActionRecord> all =
        std::span(stream.waiting).subspan(stream.received - stream.first);
    std::size_t taken = 0, count = 0;
    for (; count < all.size(); ++count) {
        const std::size_t bits = taken + measure_action(schema_, all[count]);
        if (bits > (count == 0 ? room_bits : std::min(share_bits, room_bits))) break;
        taken = bits;
    }
    room_bits -= taken;
    return all.first(count);
}

/// Returns whether a payload in flight has an action of the stream that is not known to have arrived.
bool ActionQueue::is_in_flight(std::size_t stream) const {
    const bool is_ordered = stream == static_cast<std::size_t>(ActionStream::ordered);
    for (std::size_t i = 0; i < sent_.size(); ++i) {
        const Sent& sent = sent_[i];
        if (sent.packet == 0 || (is_ordered && sent.epoch != streams_[stream].epoch)) continue;
        if (is_newer(sent.end[stream], streams_[stream].received)) return true;
    }
    return false;
}

bool ActionQueue::write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) {
    Sent sent{packet, {}, at(ActionStream::ordered).epoch};
    std::array<std::span<const ActionRecord>, kActionStreams> runs;
    bool is_empty = true;
    lacked_room_ = false;
    std::size_t left_bits = room_bits - std::min(room_bits, kActionStreams);
    const std::size_t share_bits = left_bits / kActionStreams;
    for (std::size_t i = 0; i < kActionStreams; ++i) {
        const bool has_new = streams_[i].received - streams_[i].first < streams_[i].waiting.size();
        // The last payload may have had no room for the newer ones.
        if (has_new && streams_[i].payloads_left == 0 && !is_in_flight(i)) streams_[i].payloads_left = 1;
        runs[i] = run_of(streams_[i], share_bits, left_bits);
        sent.end[i] = streams_[i].received + static_cast<std::uint32_t>(runs[i].size());
        is_empty = is_empty && runs[i].empty();
        lacked_room_ = lacked_room_ || (streams_[i].payloads_left > 0 && has_new && runs[i].empty());
    }
    if (is_empty) return false;
    for (std::size_t i = 0; i < kActionStreams; ++i) {
        out.write_bool(!runs[i].empty());
        if (runs[i].empty()) continue;
        write_actions(schema_, {streams_[i].received, streams_[i].epoch, runs[i]}, out);
        streams_[i].payloads_left -= 1;
    }
    sent_.push(sent);
    return true;
}

void ActionQueue::on_fate(std::uint64_t packet, bool delivered) {
    std::size_t found = 0;
    while (found < sent_.size() && sent_[found].packet != packet) ++found;
    if (found == sent_.size()) return;
    const Sent sent = sent_[found];
    for (std::size_t i = 0; i < kActionStreams; ++i) {
        Stream& stream = streams_[i];
        if (i == static_cast<std::size_t>(ActionStream::ordered) && sent.epoch != stream.epoch) continue;
        if (!is_newer(sent.end[i], stream.received)) continue;
        if (delivered) {
            stream.received = sent.end[i];
        } else {
            stream.payloads_left = std::max(stream.payloads_left, 1u);
        }
    }
    sent_[found].packet = 0;
    while (!sent_.empty() && sent_[0].packet == 0) sent_.pop();
}

}  // namespace shoal::replication::impl
