#include "send_queue.h"

#include <algorithm>
#include <cassert>

namespace shoal::net {
namespace {

constexpr std::size_t kTypicalHeadBytes = 4;  // of a message, when counting what is ready
constexpr std::size_t kLargestHeadBytes = 16;
constexpr std::size_t kFirstSent = 32;
constexpr std::size_t kFirstBuckets = 16;
constexpr std::size_t kKeys = 256;  // of sequenced messages

// Source of the repeats: research on 64-byte messages at 60 Hz and 5 % loss. One copy in the next packet
// takes the 99th percentile from 200 to 75 ms, which no quicker detection of losses does.
constexpr double kLossForOne = 0.01;
constexpr double kLossForTwo = 0.03;
constexpr Duration kRepeatAfter = std::chrono::milliseconds(10);  // another tick: losses come in bursts
constexpr Duration kRepeatAlone = std::chrono::milliseconds(20);  // no packet came by to ride with
constexpr double kMaxRepeatCredit = 1200;
constexpr double kSecondShare = 0.74;  // at one small message a packet this is what first repeats take

/// Of a message, 1 if it is none too large.
std::size_t piece_count(std::size_t message_bytes) {
    return std::max<std::size_t>(1, (message_bytes + kMaxMessageBytes - 1) / kMaxMessageBytes);
}

std::size_t repeats_wanted(double loss) {
    return loss > kLossForTwo ? 2 : loss > kLossForOne ? 1 : 0;
}

}  // namespace

bool SendQueue::push(const Delivery& how, std::span<const std::byte> message) {
    assert(message.size() <= (how.channel == Channel::reliable ? kMaxReliableBytes : kMaxMessageBytes));
    assert(how.channel != Channel::sequenced || how.key < kKeys);
    if (how.channel == Channel::sequenced) {
        if (sequenced_.empty()) sequenced_.resize(kKeys, kNone);
        if (sequenced_[how.key] != kNone) return replace(sequenced_[how.key], message);
    }
    Delivery with = how;
    const bool is_ordered = how.channel == Channel::reliable && how.key != Delivery::kNoKey;
    const std::uint32_t before = is_ordered && !buckets_.empty() ? link_to_newest(how.key) : kNone;
    if (before != kNone && messages_[before].id == 0) with.weight = messages_[before].weight;
    std::uint32_t& used = used_bytes_[std::size_t(with.channel)][std::size_t(with.weight)];
    if (used + cost_in_queue(message.size()) > max_bytes_) return false;
    used = static_cast<std::uint32_t>(used + cost_in_queue(message.size()));
    for (std::size_t left = piece_count(message.size()); left > 0; --left) {
        const std::size_t bytes = std::min(message.size(), kMaxMessageBytes);
        const std::uint32_t index = add(with, message.first(bytes));
        messages_[index].pieces_left = static_cast<std::uint16_t>(left - 1);
        message = message.subspan(bytes);
        if (how.channel == Channel::sequenced) sequenced_[how.key] = index;
        if (is_ordered) chain(index);
        enqueue(index, how.channel == Channel::reliable ? fresh : loose);
    }
    return true;
}

std::size_t SendQueue::cost_in_queue(std::size_t message_bytes) {
    return piece_count(message_bytes) * kEntryBytes + message_bytes;
}

/// The newer message takes the place of the older one in its queue.
bool SendQueue::replace(std::uint32_t index, std::span<const std::byte> bytes) {
    Message& message = messages_[index];
    std::uint32_t& used = used_bytes(message);
    if (used - message.size + bytes.size() > max_bytes_) return false;
    used = static_cast<std::uint32_t>(used - message.size + bytes.size());
    std::size_t& waiting = waiting_bytes_[std::size_t(message.weight)];
    waiting = waiting - message.size + bytes.size();
    store_.release(message.bytes);
    message.bytes = store_.put(bytes);
    message.size = static_cast<std::uint16_t>(bytes.size());
    return true;
}

bool SendQueue::has_next(Weight weight) const {
    if (waiting_[std::size_t(weight)] == 0) return false;
    for (const Place place : {alone, returned, loose})
        if (queue(weight, place).first != kNone) return true;
    const std::uint32_t first = queue(weight, fresh).first;
    return first != kNone && window_has_room(messages_[first]);
}

SendQueue::Waiting SendQueue::waiting(Weight weight) const {
    assert(weight != Weight::bulk);
    if (weight == Weight::normal && is_held_up())
        return {waiting_bytes_[0] + waiting_bytes_[1], kMaxMessageBytes + kLargestHeadBytes, true};
    if (!has_next(weight)) return {};
    Waiting result{waiting_bytes_[std::size_t(weight)], 0, queue(weight, alone).first != kNone};
    for (const Place place : {alone, returned, loose_turn_ ? loose : fresh, loose_turn_ ? fresh : loose}) {
        const std::uint32_t index = queue(weight, place).first;
        if (index == kNone || (place == fresh && !window_has_room(messages_[index]))) continue;
        result.first = messages_[index].size + kLargestHeadBytes;
        break;
    }
    const std::uint32_t first_fresh = queue(weight, fresh).first;
    if (first_fresh != kNone && !window_has_room(messages_[first_fresh])) result.bytes = result.first;
    return result;
}

bool SendQueue::has_repeats(const Terms& terms) const {
    if (repeats_wanted(terms.loss) == 0 || repeats_[0].empty()) return false;
    return repeats_[0][0].sent + kRepeatAlone <= terms.now;
}

bool SendQueue::is_held_up() const {
    if (waiting_[std::size_t(Weight::bulk)] == 0) return false;
    if (next_id_ - base_ < kReliableWindow / 2 && bytes_under_way() < kReliableWindowBytes / 2) return false;
    const std::uint32_t first = queue(Weight::bulk, fresh).first;
    return queue(Weight::bulk, alone).first != kNone || queue(Weight::bulk, returned).first != kNone ||
           (first != kNone && messages_[first].id != 0);
}

std::uint32_t SendQueue::write(ByteWriter& out, Draft& draft, const Terms& terms, ConnectionStats& stats) {
    if (draft.empty()) return kNone;
    const std::uint32_t carried = write_runs(out, draft, terms.beside_payload);
    note_sent(draft, terms, stats);
    return carried;
}

void SendQueue::settle(std::uint32_t carried, bool is_delivered) {
    while (carried != kNone) {
        const Carried ids = carried_[carried];
        carried_.release(carried);
        carried = ids.next;
        for (std::uint64_t id = ids.first; id < ids.first + ids.count; ++id) {
            const std::uint32_t index = find(id);
            if (index == kNone) continue;  // another copy was delivered before
            is_delivered ? delivered(index) : lost(index);
        }
    }
}

/// Writes the messages, channel by channel in runs, and forgets those that need no ack.
std::uint32_t SendQueue::write_runs(ByteWriter& out, Draft& draft, bool beside_payload) {
    if (!draft.is_sorted) {
        Draft::Column& reliable = draft.of(Channel::reliable);
        std::sort(reliable.messages.begin(), reliable.messages.begin() + std::ptrdiff_t(reliable.count),
                  [&](std::uint32_t a, std::uint32_t b) { return messages_[a].id < messages_[b].id; });
    }
    std::uint32_t first_carried = kNone;
    std::uint32_t last_carried = kNone;
    std::uint64_t next_id = 0;
    std::size_t left = draft.count + draft.parity_count;
    for (std::size_t channel = 0; channel < draft.columns.size(); ++channel) {
        const Draft::Column& column = draft.columns[channel];
        for (std::size_t at = 0; at < column.count;) {
            Run run = run_at(draft, channel, at);
            left -= run.count;
            run.is_last = left == 0;
            run.fills_packet = run.is_last && !beside_payload;
            if (run.channel == Channel::reliable) {
                if (run.first_id != next_id) run.id_bytes = number_bytes(next_id_, base_);
                next_id = run.first_id + run.count;
                carry(last_carried, run);
                if (first_carried == kNone) first_carried = last_carried;
            }
            write_run(out, run);
            for (const std::size_t end = at + run.count; at < end; ++at) {
                const std::uint32_t index = column.messages[at];
                const Message& message = messages_[index];
                if (run.channel == Channel::sequenced) out.u8(message.key);
                store_.read(message.bytes, out.claim(message.size));
                if (run.channel != Channel::reliable) release(index);
            }
        }
    }
    for (std::size_t i = 0; i < draft.parity_count; ++i) {
        Run run;
        run.is_last = --left == 0;
        run.fills_packet = run.is_last && !beside_payload;
        const Message& message = messages_[draft.parities[i]];
        run.id_bytes = message.id + 2 == next_id ? 0 : number_bytes(next_id_, base_);
        if (run.id_bytes > 0) next_id = message.id + 1;
        write_parity(out, message, run);
    }
    return first_carried;
}

/// The message and the one before it, combined by exclusive or.
void SendQueue::write_parity(ByteWriter& out, const Message& message, Run run) const {
    run.channel = Channel::reliable;
    run.is_parity = true;
    run.first_id = message.id;
    run.size = message.size;
    write_run(out, run);
    std::array<std::byte, kMaxRepeatedBytes> before;
    store_.read(messages_[find(message.id - 1)].bytes, std::span(before).first(message.size));
    const std::span<std::byte> sum = out.claim(message.size);
    store_.read(message.bytes, sum);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] ^= before[i];
}

void SendQueue::note_sent(const Draft& draft, const Terms& terms, ConnectionStats& stats) {
    const Draft::Column& reliable = draft.of(Channel::reliable);
    for (std::size_t i = 0; i < reliable.count; ++i) {
        Message& message = messages_[reliable.messages[i]];
        const bool is_repeat = message.copies > 0;
        if (is_repeat || message.losses > 0) stats.messages_repeated += 1;
        message.copies += 1;
        message.last_sent = terms.now;
        const bool is_small = message.size <= kMaxRepeatedBytes && message.weight != Weight::bulk;
        if (!is_repeat && is_small && (!message.has_parity || message.losses > 1) &&
            repeats_wanted(terms.loss) > 0) {
            repeats_[0].push({message.id, terms.now});
        }
    }
    stats.messages_sent += draft.count + draft.parity_count;
    stats.messages_repeated += draft.parity_count;
}

void SendQueue::paid(std::size_t bytes) {
    for (std::size_t round = 0; round < repeat_credit_.size(); ++round) {
        const double earned = repeat_share_ * (round == 0 ? 1 : kSecondShare) * double(bytes);
        repeat_credit_[round] = std::min(repeat_credit_[round] + earned, kMaxRepeatCredit);
    }
}

std::uint32_t SendQueue::add(const Delivery& how, std::span<const std::byte> message) {
    const std::uint32_t index = messages_.take();
    Message& added = messages_[index];
    added = Message{};
    added.bytes = store_.put(message);
    added.key = how.key;
    added.size = static_cast<std::uint16_t>(message.size());
    added.channel = how.channel;
    added.weight = how.weight;
    return index;
}

void SendQueue::drop_bytes(Message& message) {
    store_.release(message.bytes);
    message.bytes = kNone;
}

void SendQueue::release(std::uint32_t index) {
    Message& message = messages_[index];
    if (!message.is_delivered) drop_bytes(message);
    if (message.channel == Channel::reliable && message.key != Delivery::kNoKey) unchain(index);
    messages_.release(index);
}

/// Makes it the newest of its key, in place of the one that was.
void SendQueue::chain(std::uint32_t index) {
    if (buckets_.size() < messages_.size()) grow_buckets();
    Message& message = messages_[index];
    std::uint32_t& newest = link_to_newest(message.key);
    if (newest != kNone) {
        Message& before = messages_[newest];
        before.successor = index;
        message.predecessor = newest;
        message.next_in_bucket = before.next_in_bucket;
    }
    newest = index;
}

void SendQueue::unchain(std::uint32_t index) {
    const Message& message = messages_[index];
    if (message.successor != kNone) {
        messages_[message.successor].predecessor = kNone;
    } else {
        link_to_newest(message.key) = message.next_in_bucket;
    }
}

std::uint32_t& SendQueue::bucket(std::uint32_t key) {
    return buckets_[(key * 0x9E3779B9u >> 16) & (buckets_.size() - 1)];
}

/// Where the newest of the key hangs, or would.
std::uint32_t& SendQueue::link_to_newest(std::uint32_t key) {
    std::uint32_t* link = &bucket(key);
    while (*link != kNone && messages_[*link].key != key) link = &messages_[*link].next_in_bucket;
    return *link;
}

void SendQueue::grow_buckets() {
    std::vector<std::uint32_t> old(std::max(kFirstBuckets, buckets_.size() * 2), kNone);
    old.swap(buckets_);
    for (std::uint32_t index : old) {
        while (index != kNone) {
            Message& message = messages_[index];
            const std::uint32_t next = message.next_in_bucket;
            std::uint32_t& head = bucket(message.key);
            message.next_in_bucket = head;
            head = index;
            index = next;
        }
    }
}

void SendQueue::enqueue(std::uint32_t index, Place place) {
    Message& message = messages_[index];
    message.next = kNone;
    Queue& to = queue(message.weight, place);
    (to.last == kNone ? to.first : messages_[to.last].next) = index;
    to.last = index;
    waiting_[std::size_t(message.weight)] += 1;
    waiting_bytes_[std::size_t(message.weight)] += kTypicalHeadBytes + message.size;
}

void SendQueue::dequeue(Weight weight, Place place) {
    waiting_[std::size_t(weight)] -= 1;
    Queue& from = queue(weight, place);
    const Message& message = messages_[from.first];
    waiting_bytes_[std::size_t(weight)] -= kTypicalHeadBytes + message.size;
    if (place == fresh || place == loose)
        used_bytes(message) -= static_cast<std::uint32_t>(kEntryBytes + message.size);
    from.first = message.next;
    if (from.first == kNone) from.last = kNone;
}

SendQueue::Took SendQueue::take(Draft& draft, Weight weight, const Terms& terms) {
    if (weight != Weight::normal || !is_held_up()) return take_next(draft, weight, terms);
    bulk_turn_ = !bulk_turn_;
    const Took first = take_next(draft, bulk_turn_ ? Weight::bulk : Weight::normal, terms);
    return first == Took::one ? first : take_next(draft, bulk_turn_ ? Weight::normal : Weight::bulk, terms);
}

SendQueue::Took SendQueue::take_next(Draft& draft, Weight weight, const Terms& terms) {
    Took result = Took::nothing;
    if (waiting_[std::size_t(weight)] == 0) return result;
    for (const Place place : {alone, returned, loose_turn_ ? loose : fresh, loose_turn_ ? fresh : loose}) {
        const std::uint32_t index = queue(weight, place).first;
        if (index == kNone || (place == alone && terms.beside_payload)) continue;
        Message& message = messages_[index];
        if (place == fresh && !window_has_room(message)) continue;
        const bool needs_id = place == fresh && message.id == 0;
        if (needs_id) {
            message.id = next_id_;
            message.distance = distance_if_sent_now(message);
        }
        const std::size_t bytes = cost(draft, message);
        if (bytes > draft.room) {
            if (needs_id) message.id = 0;
            result = Took::no_room;
            continue;
        }
        if (needs_id) {
            assign_id(index);
            if (message.pieces_left > 0) assign_ids(index);
        }
        dequeue(weight, place);
        if (message.channel == Channel::sequenced) sequenced_[message.key] = kNone;
        if (place == fresh || place == loose) loose_turn_ = place == fresh;
        put(draft, index, bytes);
        return Took::one;
    }
    return result;
}

void SendQueue::take_repeats(Draft& draft, const Terms& terms) {
    const std::size_t wanted = repeats_wanted(terms.loss);
    for (std::size_t round = 0; round < repeats_.size(); ++round) {
        Fifo<Repeat>& waiting = repeats_[round];
        if (round >= wanted) waiting.clear();
        while (!waiting.empty() && waiting[0].sent + kRepeatAfter <= terms.now) {
            const Repeat repeat = waiting[0];
            const std::uint32_t index = find(repeat.id);
            // Delivered, or lost, or sent again since, in this packet, too: not our business any more.
            if (index != kNone && messages_[index].copies > 0 && messages_[index].last_sent == repeat.sent) {
                Message& message = messages_[index];
                const std::size_t bytes = cost(draft, message);
                if (repeat_credit_[round] < message.size || bytes > draft.room) break;
                for (double& credit : repeat_credit_)
                    credit = std::max(credit - message.size, -kMaxRepeatCredit);
                if (take_parity(draft, index)) {
                    waiting.pop();
                    continue;
                }
                put(draft, index, bytes);
                message.last_sent = terms.now;
                if (round + 1 < wanted) repeats_[round + 1].push({repeat.id, terms.now});
            }
            waiting.pop();
        }
    }
}

/// A parity protects two messages for the bytes of one: where messages follow each other, that is worth more
/// than a copy. The one before must be in flight as well, of the same size and order.
bool SendQueue::take_parity(Draft& draft, std::uint32_t index) {
    Message& message = messages_[index];
    const std::uint32_t before = find(message.id - 1);
    if (before == kNone || message.distance != 1 || message.pieces_left > 0) return false;
    const Message& other = messages_[before];
    const bool fits =
        other.copies > 0 && other.distance == 1 && other.size == message.size && other.pieces_left == 0;
    const std::size_t bytes = message.size + 1u + 2 + 2;  // head, id, size
    if (!fits || bytes > draft.room || draft.parity_count == draft.parities.size()) return false;
    message.has_parity = true;
    draft.parities[draft.parity_count++] = index;
    draft.room -= bytes;
    return true;
}

/// Bytes at most, if it is the next one of its channel: ids may take fewer, and sorting may join runs. More
/// than there are if one more message is too many.
std::size_t SendQueue::cost(const Draft& draft, const Message& message) const {
    if (draft.count + draft.parity_count == kMaxMessagesPerPacket) return draft.room + 1;
    const Draft::Column& column = draft.of(message.channel);
    const std::size_t bytes = message.size + (message.channel == Channel::sequenced ? 1u : 0u);
    if (column.count > 0 && joins(messages_[column.messages[column.count - 1]], message)) {
        return bytes + (column.in_run == 1 ? 1u : 0u);  // a count
    }
    Run run;
    run.id_bytes = message.channel == Channel::reliable ? 2 : 0;
    run.distance = message.distance;
    run.size = message.size;
    return bytes + run_bytes(run);
}

/// Takes `bytes`, its cost.
void SendQueue::put(Draft& draft, std::uint32_t index, std::size_t bytes) {
    const Message& message = messages_[index];
    Draft::Column& column = draft.of(message.channel);
    if (column.count > 0) {
        const Message& before = messages_[column.messages[column.count - 1]];
        if (before.id > message.id) draft.is_sorted = false;
        if (!joins(before, message)) column.in_run = 0;
    }
    column.in_run += 1;
    column.messages[column.count++] = index;
    draft.count += 1;
    draft.room -= bytes;
}

bool SendQueue::joins(const Message& before, const Message& after) const {
    if (before.size != after.size || after.size == 0 || (before.pieces_left > 0) != (after.pieces_left > 0))
        return false;
    return before.channel != Channel::reliable ||
           (after.id == before.id + 1 && after.distance == before.distance);
}

/// The run that starts there.
Run SendQueue::run_at(const Draft& draft, std::size_t channel, std::size_t at) const {
    const Draft::Column& column = draft.columns[channel];
    const Message& first = messages_[column.messages[at]];
    std::size_t end = at + 1;
    while (end < column.count && joins(messages_[column.messages[end - 1]], messages_[column.messages[end]]))
        end += 1;
    Run run;
    run.channel = first.channel;
    run.count = static_cast<std::uint8_t>(end - at);
    run.goes_on = first.pieces_left > 0;
    run.size = first.size;
    run.first_id = first.id;
    run.distance = first.distance;
    return run;
}

/// Notes the ids of a run behind `last`, in it if they are consecutive, and moves `last` there.
void SendQueue::carry(std::uint32_t& last, const Run& run) {
    if (last != kNone && carried_[last].first + carried_[last].count == run.first_id) {
        carried_[last].count = static_cast<std::uint16_t>(carried_[last].count + run.count);
        return;
    }
    const std::uint32_t index = carried_.take();
    carried_[index] = {run.first_id, kNone, run.count};
    if (last != kNone) carried_[last].next = index;
    last = index;
}

/// For it and for the pieces after it, or they have their ids. Bulk leaves half of the window to the others.
bool SendQueue::window_has_room(const Message& message) const {
    if (message.id != 0) return true;
    const unsigned shift = message.weight == Weight::bulk ? 1 : 0;
    const std::size_t bytes = message.size + message.pieces_left * kMaxMessageBytes;
    return next_id_ + message.pieces_left - base_ < kReliableWindow >> shift &&
           bytes_under_way() + bytes <= kReliableWindowBytes >> shift;
}

/// To the pieces that wait behind this one.
void SendQueue::assign_ids(std::uint32_t index) {
    for (unsigned left = messages_[index].pieces_left; left > 0; --left) {
        index = messages_[index].next;
        messages_[index].id = next_id_;
        messages_[index].distance = 1;
        assign_id(index);
    }
}

void SendQueue::assign_id(std::uint32_t index) {
    const Message& message = messages_[index];
    assert(message.id == next_id_);
    if (next_id_ - base_ == sent_.size()) {
        std::vector<Sent> larger(std::max(kFirstSent, sent_.size() * 2));
        for (std::uint64_t id = base_; id < next_id_; ++id) larger[id & (larger.size() - 1)] = sent(id);
        sent_ = std::move(larger);
    }
    sent(next_id_) = {index, sent_bytes_};
    sent_bytes_ += message.size;
    next_id_ += 1;
}

std::uint16_t SendQueue::distance_if_sent_now(const Message& message) const {
    if (message.key == Delivery::kNoKey) return 0;
    if (message.predecessor != kNone) {
        return static_cast<std::uint16_t>(next_id_ - messages_[message.predecessor].id);
    }
    // Everything before is delivered. To wait for the last one of it costs nothing, and may join what
    // follows.
    return next_id_ == base_ ? 1 : 0;
}

/// kNone: delivered, or not sent yet.
std::uint32_t SendQueue::find(std::uint64_t id) const {
    if (id < base_ || id >= next_id_) return kNone;
    const std::uint32_t index = sent(id).message;
    return messages_[index].is_delivered ? kNone : index;
}

void SendQueue::delivered(std::uint32_t index) {
    drop_bytes(messages_[index]);
    messages_[index].is_delivered = true;
    while (base_ < next_id_ && messages_[sent(base_).message].is_delivered) {
        release(sent(base_).message);
        base_ += 1;
    }
}

void SendQueue::lost(std::uint32_t index) {
    Message& message = messages_[index];
    assert(message.copies > 0);
    message.copies -= 1;
    if (message.copies > 0) return;
    if (message.losses < 255) message.losses += 1;
    enqueue(index, message.losses >= 2 ? alone : returned);
}

std::size_t SendQueue::capacity_bytes() const {
    return messages_.capacity_bytes() + store_.capacity_bytes() + carried_.capacity_bytes() +
           (buckets_.capacity() + sequenced_.capacity()) * sizeof(std::uint32_t) +
           sent_.capacity() * sizeof(Sent);
}

bool SendQueue::is_consistent() const {
    std::size_t waiting = 0;
    for (std::size_t weight = 0; weight < queues_.size(); ++weight) {
        const std::size_t before = waiting;
        std::size_t bytes = 0;
        for (std::size_t place = 0; place < kPlaces; ++place) {
            for (std::uint32_t i = queues_[weight][place].first; i != kNone; i = messages_[i].next) {
                const Message& message = messages_[i];
                if (std::size_t(message.weight) != weight || message.copies != 0) return false;
                if ((place == loose) != (message.channel != Channel::reliable)) return false;
                if (place != fresh && place != loose && message.id == 0) return false;
                bytes += kTypicalHeadBytes + message.size;
                waiting += 1;
            }
        }
        if (waiting - before != waiting_[weight] || bytes != waiting_bytes_[weight]) return false;
    }
    std::size_t under_way = 0;
    std::size_t copies = 0;
    for (std::uint64_t id = base_; id < next_id_; ++id) {
        const Message& message = messages_[sent(id).message];
        if (message.id != id) return false;
        under_way += message.is_delivered || message.copies > 0;
        copies += message.is_delivered ? 0 : message.copies;
    }
    return waiting + under_way == messages_.used() && (base_ == next_id_ || find(base_) != kNone) &&
           (copies > 0) <= (carried_.used() > 0);
}

}  // namespace shoal::net
