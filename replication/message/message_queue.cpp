#include "message_queue.h"

#include <algorithm>
#include <bitset>
#include <utility>

namespace shoal::replication::impl {
namespace {

constexpr std::size_t kMaxSpares = 32;

}  // namespace

MessageQueue::Waiting MessageQueue::take_spare() {
    if (spare_.empty()) return {};
    Waiting waiting = std::move(spare_.back());
    spare_.pop_back();
    waiting.since.reset();
    return waiting;
}

bool MessageQueue::add(std::span<const std::byte> bytes, net::Channel channel) {
    Waiting waiting = take_spare();
    waiting.is_event = false;
    if (bytes.empty()) {
        messages_.stats().malformed += 1;
        return false;
    }
    if (!messages_.read(bytes.subspan(1), waiting.message, true)) return false;
    waiting.channel = channel;
    waiting.stream = std::to_integer<std::uint8_t>(bytes[0]);
    push(std::move(waiting));
    return true;
}

bool MessageQueue::add_event(std::span<const std::byte> bytes) {
    Waiting waiting = take_spare();
    ActionEvent event;
    if (!actions_ || !actions_->read(bytes, event)) return false;
    waiting.message.type = event.type;
    waiting.message.words = std::move(event.words);
    waiting.message.tick = event.tick;
    waiting.event = std::move(event);
    waiting.is_event = true;
    waiting.channel = net::Channel::reliable;
    waiting.stream = stream_of(net::Channel::reliable);
    push(std::move(waiting));
    return true;
}

void MessageQueue::push(Waiting waiting) {
    if (waiting_.size() >= kMaxMessages || words_ + waiting.message.words.size() > kMaxWords) deliver_all();
    if (waiting.channel == net::Channel::sequenced && !is_delivering_) {
        const auto outdated = std::remove_if(waiting_.begin(), waiting_.end(), [&](Waiting& other) {
            const bool is_outdated = other.channel == waiting.channel && other.stream == waiting.stream;
            if (is_outdated) words_ -= other.message.words.size();
            if (is_outdated) recycle(other);
            return is_outdated;
        });
        messages_.stats().superseded += static_cast<std::uint64_t>(waiting_.end() - outdated);
        waiting_.erase(outdated, waiting_.end());
    }
    words_ += waiting.message.words.size();
    waiting_.push_back(std::move(waiting));
}

/// If `now` is empty, delivers all messages, also those that wait.
void MessageQueue::deliver_until(std::optional<net::Time> now, std::optional<Tick> render_tick) {
    if (is_delivering_) {
        must_deliver_all_ = must_deliver_all_ || !now;
        return;
    }
    must_deliver_all_ = false;
    is_delivering_ = true;
    std::size_t next = 0, kept = 0;  // the next message, and the number of those before it that stay
    std::bitset<256> blocked;
    while (next < waiting_.size()) {
        Waiting waiting = std::move(waiting_[next++]);
        const bool is_late = lacks_entity(waiting) || lacks_state(waiting);
        if (now && !waiting.since) waiting.since = now;
        const bool is_over = !now || *now - *waiting.since >= kLongestWait;
        const bool is_behind = now && is_ordered(waiting) && blocked[waiting.stream];
        if (is_behind || (!is_over && (is_late || is_early(waiting, render_tick)))) {
            if (is_ordered(waiting)) blocked.set(waiting.stream);
            waiting_[kept++] = std::move(waiting);
            continue;
        }
        words_ -= waiting.message.words.size();
        if (waiting.is_event) {
            actions_->fire(waiting.event, waiting.message.words, is_late);
        } else {
            messages_.deliver(waiting.message, {{}, waiting.channel, is_late});
        }
        recycle(waiting);
    }
    waiting_.resize(kept);
    is_delivering_ = false;
    if (must_deliver_all_) deliver_all();
}

void MessageQueue::clear() {
    waiting_.clear();
    words_ = 0;
}

const SchemaStruct& MessageQueue::type_of(const Waiting& waiting) const {
    const std::size_t type = waiting.message.type;
    return waiting.is_event ? actions_->types()[type] : messages_.types()[type];
}

/// Calls visit(net_id) for each entity that a message or event names, and for the player of an event.
template <class Visit>
void MessageQueue::for_each_named(const Waiting& waiting, Visit&& visit) const {
    if (waiting.is_event && waiting.event.player != 0) visit(waiting.event.player);
    const ComponentLayout& layout = type_of(waiting).layout;
    // There are no words while the handler of the message runs: they were moved.
    if (!layout.has_references() || waiting.message.words.empty()) return;
    const std::uint32_t* const words = waiting.message.words.data();
    layout.for_each_reference(words, words + layout.lanes().size(), visit);
}

void MessageQueue::append_named(std::vector<NetId>& net_ids) const {
    for (const Waiting& waiting : waiting_)
        for_each_named(waiting, [&](NetId net_id) { net_ids.push_back(net_id); });
}

/// Returns whether the message must be delivered after earlier ones of its stream. A sequenced message need
/// not: it replaces them.
bool MessageQueue::is_ordered(const Waiting& waiting) const {
    return waiting.channel == net::Channel::reliable && waiting.stream != 0;
}

bool MessageQueue::is_early(const Waiting& waiting, std::optional<Tick> render_tick) const {
    const bool has_time = waiting.is_event || type_of(waiting).has_state;
    return has_time && render_tick && is_newer(waiting.message.tick, *render_tick);
}

bool MessageQueue::lacks_entity(const Waiting& waiting) const {
    bool lacks = false;
    for_each_named(waiting, [&](NetId net_id) { lacks = lacks || receiver_.replicas().may_appear(net_id); });
    return lacks;
}

/// Returns whether an entity is named whose state is asked for, and which the world shows as of an earlier
/// tick.
bool MessageQueue::lacks_state(const Waiting& waiting) const {
    if (!type_of(waiting).has_state) return false;
    bool lacks = false;
    for_each_named(waiting, [&](NetId net_id) {
        lacks = lacks || receiver_.replicas().is_older_than(net_id, waiting.message.tick);
    });
    return lacks;
}

void MessageQueue::recycle(Waiting& waiting) {
    if (spare_.size() < kMaxSpares) spare_.push_back(std::move(waiting));
}

}  // namespace shoal::replication::impl
