#include "send_queue.h"

namespace shoal::net::impl {
namespace {

constexpr std::size_t kLargestHeadBytes = 16;
constexpr std::size_t kFirstKeys = 8;  // keys of reliable messages for which newest_ has room at first

// Packet loss, 0..1, above which small reliable messages are repeated once, or twice, before they are known
// to be lost. With 64-byte messages at 60 Hz and 5 % loss, a copy in the next packet lowers the 99th
// percentile of latency from 200 to 75 ms; to declare packets as lost sooner does not lower it. A second copy
// gains nothing at 5 %; at 20 % loss and a round trip of 20 ms it lowers the percentile from 94 to 50 ms.
constexpr double kLossForOne = 0.01;
constexpr double kLossForTwo = 0.08;
// Least time between a message and its repeat, for different ticks: losses come in bursts.
constexpr Duration kRepeatAfter = std::chrono::milliseconds(10);
// This long after a message was sent, its repeat gets a packet of its own, if no other packet took it.
constexpr Duration kRepeatAlone = std::chrono::milliseconds(20);
constexpr double kMaxRepeatCredit = 1200;

std::size_t piece_count(std::size_t message_bytes) {
    return std::max<std::size_t>(1, (message_bytes + kMaxMessageBytes - 1) / kMaxMessageBytes);
}

}  // namespace

std::size_t SendQueue::cost_in_queue(std::size_t message_bytes) {
    return piece_count(message_bytes) * kEntryBytes + message_bytes;
}

bool SendQueue::push(const Delivery& how, std::span<const std::byte> message) {
    assert(message.size() <= (how.channel == Channel::reliable ? kMaxReliableBytes : kMaxMessageBytes));
    assert(how.channel != Channel::sequenced || how.key < kSequencedKeys);
    const bool is_reliable = how.channel == Channel::reliable;
    const bool is_sequenced = how.channel == Channel::sequenced;
    Newest* const before = is_reliable && how.key != Delivery::kNoKey ? &newest(how.key) : nullptr;
    if (is_sequenced && sequenced_.empty()) sequenced_.resize(kSequencedKeys, kNone);
    std::uint32_t replaced = is_sequenced ? sequenced_[how.key] : kNone;
    const Weight weight = before && before->unsent > 0 ? before->weight
                          : replaced != kNone          ? messages_[replaced].weight
                                                       : how.weight;
    std::uint32_t& used = used_bytes_[std::size_t(how.channel)][std::size_t(weight)];
    const auto used_then = [&] {
        return used + cost_in_queue(message.size()) -
               (replaced == kNone ? 0 : cost_in_queue(messages_[replaced].size));
    };
    while (used_then() > max_bytes_) {
        if (is_reliable || queue(weight, unsent_on(how.channel)).first == kNone) return false;
        drop_first(weight, how.channel);
        if (is_sequenced) replaced = sequenced_[how.key];
    }
    used = static_cast<std::uint32_t>(used_then());
    if (replaced != kNone) {
        Message& waiting = messages_[replaced];
        store_.release(waiting.bytes);
        waiting.bytes = store_.put(message);
        waiting_bytes_[std::size_t(weight)] += static_cast<std::uint32_t>(message.size() - waiting.size);
        waiting.size = static_cast<std::uint16_t>(message.size());
        return true;
    }
    std::size_t pieces = piece_count(message.size());
    if (before) *before = {how.key, std::uint32_t(before->unsent + pieces), before->id, weight};
    while (pieces-- > 0) {
        const std::span<const std::byte> piece = message.first(std::min(message.size(), kMaxMessageBytes));
        message = message.subspan(piece.size());
        const std::uint32_t index = messages_.take();
        Message& added = messages_[index];
        added = {};
        added.bytes = store_.put(piece);
        added.key = how.key;
        added.size = static_cast<std::uint16_t>(piece.size());
        added.pieces_left = static_cast<std::uint16_t>(pieces);
        added.channel = how.channel;
        added.weight = weight;
        added.last_sent = now_;
        enqueue(index, unsent_on(how.channel));
        if (is_sequenced) sequenced_[how.key] = index;
    }
    return true;
}

/// Returns the entry of the key, valid until the next call.
SendQueue::Newest& SendQueue::newest(std::uint32_t key) {
    const auto is_before = [](const Newest& entry, std::uint32_t other) { return entry.key < other; };
    auto at = std::lower_bound(newest_.begin(), newest_.end(), key, is_before);
    if (at != newest_.end() && at->key == key) return *at;
    if (newest_.size() == newest_.capacity()) {
        std::erase_if(newest_, [&](const Newest& old) { return old.unsent == 0 && old.id < base_; });
        newest_.reserve(std::max(kFirstKeys, 2 * newest_.size()));
        at = std::lower_bound(newest_.begin(), newest_.end(), key, is_before);
    }
    return *newest_.insert(at, {key});
}

void SendQueue::enqueue(std::uint32_t index, Place place) {
    Message& message = messages_[index];
    Queue& to = queue(message.weight, place);
    (to.first == kNone ? to.first : messages_[to.last].next) = index;
    to.last = index;
    message.next = kNone;
    queued_ += 1;
    waiting_bytes_[std::size_t(message.weight)] += kTypicalHeadBytes + message.size;
}

void SendQueue::unlink_first(Weight weight, Place place) {
    Queue& from = queue(weight, place);
    const Message& message = messages_[from.first];
    from.first = message.next;
    queued_ -= 1;
    waiting_bytes_[std::size_t(weight)] -= kTypicalHeadBytes + message.size;
    if (message.channel == Channel::sequenced) sequenced_[message.key] = kNone;
    if (place < first_unsent) return;
    used_bytes_[std::size_t(message.channel)][std::size_t(weight)] -=
        static_cast<std::uint32_t>(kEntryBytes + message.size);
}

/// Drops the oldest unsent message of an unreliable or sequenced channel.
void SendQueue::drop_first(Weight weight, Channel channel) {
    const std::uint32_t index = queue(weight, unsent_on(channel)).first;
    unlink_first(weight, unsent_on(channel));
    store_.release(messages_[index].bytes);
    messages_.release(index);
    dropped_ += 1;
}

void SendQueue::drop_old(Duration max_age, Time now) {
    if (now == last_flush_) return;
    for (const Weight weight : {Weight::bulk, Weight::normal, Weight::urgent}) {
        const Queue& waiting = queue(weight, unsent_on(Channel::unreliable));
        const auto is_old = [&](const Message& message) {
            return message.last_sent < last_flush_ && now - message.last_sent > max_age;
        };
        while (waiting.first != kNone && is_old(messages_[waiting.first]))
            drop_first(weight, Channel::unreliable);
    }
    last_flush_ = now_ = now;
}

/// The queues of a weight in order of precedence, for n from 0 to kPlaces - 1.
SendQueue::Place SendQueue::place_in_turn(std::size_t n) const {
    return n < first_unsent ? Place(n)
                            : Place(first_unsent + (n - first_unsent + std::size_t(next_channel_)) % 3);
}

/// Returns the first message of this queue; kNone if the reliable window has no room for it.
inline std::uint32_t SendQueue::first_of(Weight weight, Place place) const {
    const std::uint32_t first = queue(weight, place).first;
    const bool can_go = first != kNone && (place != unsent_reliable || window_has_room(messages_[first]));
    return can_go ? first : kNone;
}

SendQueue::Waiting SendQueue::waiting_messages(Weight weight) const {
    if (weight == Weight::normal && is_held_up())
        return {waiting_bytes_[0] + waiting_bytes_[1], kMaxMessageBytes + kLargestHeadBytes, true};
    if (waiting_bytes_[std::size_t(weight)] == 0) return {};
    for (std::size_t n = 0; n < kPlaces; ++n) {
        const Place place = place_in_turn(n);
        const std::uint32_t index = first_of(weight, place);
        if (index == kNone) continue;
        const std::size_t first = messages_[index].size + kLargestHeadBytes;
        const bool is_window_full = place != unsent_reliable &&
                                    queue(weight, unsent_reliable).first != kNone &&
                                    first_of(weight, unsent_reliable) == kNone;
        return {is_window_full ? first : waiting_bytes_[std::size_t(weight)], first, place == lost_twice};
    }
    return {};
}

bool SendQueue::has_repeats(const Terms& terms) const {
    return terms.loss > kLossForOne && !repeats_.empty() && repeats_[0].sent + kRepeatAlone <= terms.now;
}

/// Returns whether bulk messages must take turns with normal messages: if one was lost twice, because others
/// may wait for it, and it needs a packet without payload; or if half of the reliable window is used, and one
/// was lost or has unsent pieces, because the window cannot advance beyond it and would soon be full.
bool SendQueue::is_held_up() const {
    if (waiting_bytes_[std::size_t(Weight::bulk)] == 0) return false;
    if (queue(Weight::bulk, lost_twice).first != kNone) return true;
    if (sent_.size() < kReliableWindow / 2 && window_bytes_ < kReliableWindowBytes / 2) return false;
    const std::uint32_t unsent = queue(Weight::bulk, unsent_reliable).first;
    return queue(Weight::bulk, lost_once).first != kNone || (unsent != kNone && messages_[unsent].id != 0);
}

bool SendQueue::take_message(Draft& draft, Weight weight, const Terms& terms) {
    if (weight != Weight::normal || !is_held_up()) return take_next(draft, weight, terms);
    bulk_turn_ = !bulk_turn_;
    return take_next(draft, bulk_turn_ ? Weight::bulk : Weight::normal, terms) ||
           take_next(draft, bulk_turn_ ? Weight::normal : Weight::bulk, terms);
}

bool SendQueue::take_next(Draft& draft, Weight weight, const Terms& terms) {
    if (waiting_bytes_[std::size_t(weight)] == 0) return false;
    for (std::size_t n = 0; n < kPlaces; ++n) {
        const Place place = place_in_turn(n);
        const std::uint32_t index = first_of(weight, place);
        if (index == kNone || (place == lost_twice && terms.beside_payload)) continue;
        Message& message = messages_[index];
        const bool needs_id = place == unsent_reliable && message.id == 0;
        Newest* const before = needs_id && message.key != Delivery::kNoKey ? &newest(message.key) : nullptr;
        if (needs_id) {
            message.id = next_id();
            // The receiver delivers message `id - distance` before this one; distance 0: it need not wait. If
            // all earlier messages were delivered, distance 1 causes no wait either, and the next message of
            // the key, which often has distance 1, can share the head.
            const bool has_predecessor = before && before->id >= base_;
            message.distance = has_predecessor ? static_cast<std::uint16_t>(message.id - before->id)
                                               : before && sent_.empty();
        }
        if (!put(draft, index)) {
            if (needs_id) message.id = 0;
            continue;
        }
        if (needs_id) assign_ids(index, before);
        unlink_first(weight, place);
        if (place >= first_unsent) next_channel_ = Channel((std::size_t(message.channel) + 1) % 3);
        return true;
    }
    return false;
}

/// Returns whether the message has an id, or the message and its later pieces fit into the reliable window;
/// bulk messages may use half of the window.
bool SendQueue::window_has_room(const Message& message) const {
    if (message.id != 0) return true;
    const unsigned shift = message.weight == Weight::bulk ? 1 : 0;
    const std::size_t bytes = message.size + message.pieces_left * kMaxMessageBytes;
    return sent_.size() + message.pieces_left < kReliableWindow >> shift &&
           window_bytes_ + bytes <= kReliableWindowBytes >> shift;
}

/// Gives ids to the message and the pieces that follow it in the queue. `entry`: of its key, or null.
void SendQueue::assign_ids(std::uint32_t index, Newest* entry) {
    const std::uint32_t count = messages_[index].pieces_left + 1u;
    for (std::uint32_t i = 0; i < count; ++i, index = messages_[index].next) {
        Message& piece = messages_[index];
        if (i > 0) piece.distance = 1;
        piece.id = next_id();
        sent_.push(index);
        window_bytes_ += piece.size;
    }
    if (!entry) return;
    entry->id = next_id() - 1;
    entry->unsent -= count;
}

void SendQueue::take_repeats(Draft& draft, const Terms& terms) {
    if (terms.loss <= kLossForOne) repeats_.clear();
    for (; !repeats_.empty() && repeats_[0].sent + kRepeatAfter <= terms.now; repeats_.pop()) {
        const Repeat repeat = repeats_[0];
        Message* const message = find(repeat.id);
        // Skips a message that was delivered, lost, or sent again in the meantime.
        if (!message || message->copies == 0 || message->last_sent != repeat.sent) continue;
        if (repeat_credit_ < message->size) break;
        const bool is_protected = take_parity(draft, *message);
        if (!is_protected && !put(draft, index_of(repeat.id))) break;
        repeat_credit_ = std::max(repeat_credit_ - message->size, -kMaxRepeatCredit);
        if (!is_protected) message->last_sent = terms.now;
    }
}

/// Adds the parity of this message and the one before it, which has the size of one of them. Returns false if
/// there is no room, or unless both are in flight, of the same size, with distance 1 and no later pieces.
bool SendQueue::take_parity(Draft& draft, Message& message) {
    const Message* const before = find(message.id - 1);
    if (!before || before->copies == 0 || before->size != message.size) return false;
    if (before->distance != 1 || message.distance != 1 || before->pieces_left + message.pieces_left > 0)
        return false;
    const std::size_t bytes = message.size + 1u + 2 + 2;  // head 1, id 2, size 2
    const bool is_full = draft.count == kMaxMessagesPerPacket || draft.parity_count == draft.parities.size();
    if (is_full || bytes > draft.room) return false;
    message.has_parity = true;
    draft.parities[draft.parity_count++] = message.id;
    draft.count += 1;
    draft.room -= bytes;
    return true;
}

/// Appends the message to the column of its channel, or returns false if there is no room. Counts the most
/// bytes that the message can take: its id may take fewer, and sorting may join runs.
bool SendQueue::put(Draft& draft, std::uint32_t index) {
    const Message& message = messages_[index];
    Draft::Column& column = draft.columns[std::size_t(message.channel)];
    const Message* const before = column.count > 0 ? &messages_[column.messages[column.count - 1]] : nullptr;
    const bool joined = before && joins(*before, message);
    std::size_t bytes = message.size + (message.channel == Channel::sequenced ? 1u : 0u);
    // A message that joins a run adds no head. The second message of a run adds one byte: the count.
    bytes += joined ? (column.in_run == 1 ? 1u : 0u) : run_bytes(run_of(message));
    if (bytes > draft.room || draft.count == kMaxMessagesPerPacket) return false;
    if (before && before->id > message.id) draft.is_sorted = false;
    column.in_run = joined ? column.in_run + 1 : 1;
    column.messages[column.count++] = index;
    draft.count += 1;
    draft.room -= bytes;
    return true;
}

bool SendQueue::joins(const Message& before, const Message& after) {
    if (before.size != after.size || after.size == 0 || (before.pieces_left > 0) != (after.pieces_left > 0))
        return false;
    return before.channel != Channel::reliable ||
           (after.id == before.id + 1 && after.distance == before.distance);
}

/// Returns a run with this message only. The id of a reliable message counts two bytes, the longest form.
Run SendQueue::run_of(const Message& message) {
    Run run;
    run.channel = message.channel;
    run.goes_on = message.pieces_left > 0;
    run.id_bytes = message.channel == Channel::reliable ? 2 : 0;
    run.distance = message.distance;
    run.size = message.size;
    run.first_id = message.id;
    return run;
}

/// Writes runs, channel by channel, then parities. Frees unreliable and sequenced messages.
std::uint32_t SendQueue::write(ByteWriter& out, Draft& draft, const Terms& terms, ConnectionStats& stats) {
    Draft::Column& reliable = draft.columns[std::size_t(Channel::reliable)];
    if (!draft.is_sorted)
        std::sort(reliable.messages.begin(), reliable.messages.begin() + std::ptrdiff_t(reliable.count),
                  [&](std::uint32_t a, std::uint32_t b) { return messages_[a].id < messages_[b].id; });
    std::uint32_t first_carried = kNone, last_carried = kNone;
    std::uint64_t next = 0;  // one more than the last id written
    std::size_t left = draft.count;
    const auto write_head = [&](Run& run) {
        left -= run.count;
        run.is_last = left == 0;
        run.fills_packet = run.is_last && !terms.beside_payload;
        write_run(out, run);
    };
    for (const Draft::Column& column : draft.columns) {
        for (std::size_t at = 0; at < column.count;) {
            Run run = run_of(messages_[column.messages[at]]);
            while (at + run.count < column.count && joins(messages_[column.messages[at + run.count - 1]],
                                                          messages_[column.messages[at + run.count]]))
                run.count += 1;
            if (run.channel == Channel::reliable) {
                run.id_bytes = run.first_id == next ? 0 : number_bytes(next_id(), base_);
                next = run.first_id + run.count;
                carry(last_carried, run);
                if (first_carried == kNone) first_carried = last_carried;
            }
            write_head(run);
            for (const std::size_t end = at + run.count; at < end; ++at)
                write_message(out, column.messages[at], terms, stats);
        }
    }
    for (const std::uint64_t id : std::span(draft.parities).first(draft.parity_count)) {
        Run run = run_of(*find(id));
        run.is_parity = true;
        run.id_bytes = id + 2 == next ? 0 : number_bytes(next_id(), base_);
        if (run.id_bytes > 0) next = id + 1;
        write_head(run);
        // The exclusive or of the two messages.
        std::array<std::byte, kMaxRepeatedBytes> before;
        const std::span<std::byte> sum = out.claim(run.size);
        store_.read(find(id)->bytes, sum);
        store_.read(find(id - 1)->bytes, std::span(before).first(run.size));
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] ^= before[i];
    }
    stats.messages_sent += draft.count;
    stats.messages_repeated += draft.parity_count;
    return first_carried;
}

void SendQueue::write_message(ByteWriter& out, std::uint32_t index, const Terms& terms,
                              ConnectionStats& stats) {
    Message& message = messages_[index];
    if (message.channel == Channel::sequenced) out.u8(message.key);
    store_.read(message.bytes, out.claim(message.size));
    if (message.channel != Channel::reliable) {
        store_.release(message.bytes);
        return messages_.release(index);
    }
    const unsigned copies_before = message.copies;
    const bool is_small = message.size <= kMaxRepeatedBytes && message.weight != Weight::bulk;
    const bool is_unprotected = !message.has_parity || message.losses > 1;
    const unsigned repeats_wanted = terms.loss > kLossForTwo ? 2 : terms.loss > kLossForOne ? 1 : 0;
    if (copies_before > 0 || message.losses > 0) stats.messages_repeated += 1;
    message.copies += 1;
    message.last_sent = terms.now;
    if (is_small && is_unprotected && copies_before < repeats_wanted) repeats_.push({message.id, terms.now});
}

/// Adds the ids of a run to carried_. If these ids directly follow those of the entry `last`, this entry
/// takes them. Else a new entry takes them, and becomes `last`.
void SendQueue::carry(std::uint32_t& last, const Run& run) {
    if (last != kNone && carried_[last].first + carried_[last].count == run.first_id) {
        carried_[last].count += run.count;
        return;
    }
    const std::uint32_t index = carried_.take();
    carried_[index] = {run.first_id, kNone, run.count};
    if (last != kNone) carried_[last].next = index;
    last = index;
}

void SendQueue::on_fate(std::uint32_t carried, bool is_delivered) {
    while (carried != kNone) {
        const Carried ids = carried_[carried];
        carried_.release(carried);
        carried = ids.next;
        for (std::uint64_t id = ids.first; id < ids.first + ids.count; ++id) {
            Message* const message = find(id);
            if (!message) continue;  // the message was delivered by another packet
            if (is_delivered) {
                store_.release(message->bytes);
                message->is_delivered = true;
                continue;
            }
            assert(message->copies > 0);
            message->copies -= 1;
            if (message->copies > 0) continue;
            if (message->losses < 255) message->losses += 1;
            enqueue(index_of(id), message->losses >= 2 ? lost_twice : lost_once);
        }
    }
    for (; !sent_.empty() && messages_[sent_[0]].is_delivered; ++base_) {
        window_bytes_ -= messages_[sent_[0]].size;
        messages_.release(sent_[0]);
        sent_.pop();
    }
}

/// Returns null if the message was delivered, or no message has this id yet.
SendQueue::Message* SendQueue::find(std::uint64_t id) {
    if (id < base_ || id >= next_id()) return nullptr;
    Message& message = messages_[index_of(id)];
    return message.is_delivered ? nullptr : &message;
}

void SendQueue::paid(std::size_t bytes) {
    repeat_credit_ = std::min(repeat_credit_ + repeat_share_ * double(bytes), kMaxRepeatCredit);
}

void SendQueue::count(ConnectionStats& stats) const {
    const std::uint32_t oldest = queue(Weight::normal, unsent_reliable).first;
    stats.oldest_message = oldest == kNone ? Duration(0) : now_ - messages_[oldest].last_sent;
    stats.messages_queued = queued_;
    stats.messages_dropped = dropped_;
    stats.message_bytes_queued = waiting_bytes_[0] + waiting_bytes_[1] + waiting_bytes_[2];
    stats.messages_in_flight = static_cast<std::uint32_t>(sent_.size());
}

}  // namespace shoal::net::impl
