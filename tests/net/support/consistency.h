#pragma once
// Whole-structure checks of the network layer, for tests after every step: is_consistent(host), and so on for
// its parts.

#include <bit>

#include "net/client.h"
#include "net/host.h"

namespace shoal::net::impl {

/// A friend of the classes that it checks.
struct Consistency {
    /// Peers, their connections and the places of the gate agree with each other.
    static bool of(const Host& it) {
        std::size_t open = 0, closed = 0;
        for (std::uint32_t index = 0; index < it.peers_.size(); ++index) {
            const Host::Peer* const peer = it.peers_[index].get();
            if (!peer) continue;
            (peer->connection.is_open() ? open : closed) += 1;
            if (peer->id().index() != index || it.gate_.index_of(peer->connection_id) != index) return false;
            if (!of(peer->connection)) return false;
        }
        return of(it.gate_, open, closed);
    }
    static std::size_t capacity_bytes(const IncomingPayload& it) { return it.bytes_.capacity(); }
    static bool of(const Client& it) { return !it.connection_ || of(*it.connection_); }
    static bool of(const Connection& it) {
        return of(it.sent_) && of(it.queue_) && of(it.inbox_) && of(it.outgoing_) && of(it.incoming_);
    }

    /// Each place is in the lists and counts that its state requires. `open`, `closed`: how many connections
    /// of the host are open, and closed but not released.
    static bool of(const Gate& it, std::size_t open, std::size_t closed) {
        using State = Gate::State;
        std::size_t free = 0, pending = 0, peers = 0, leaving = 0, attempts = 0;
        NetworkCounts peer_counts;
        const auto leads_to = [&](std::uint64_t name, std::uint32_t index) {
            const auto found = it.attempts_.find(name);
            return found != it.attempts_.end() && found->second == index;
        };
        for (std::uint32_t index = 0; index < it.places_.size(); ++index) {
            const Gate::Place& place = it.places_[index];
            free += place.state == State::free;
            pending += place.state == State::pending;
            peers += place.state == State::peer;
            leaving += place.state == State::leaving;
            if (place.peer.index() != index) return false;
            if (place.state == State::peer) peer_counts.add(place.networks);
            if (place.state == State::free) continue;
            if (!leads_to(place.attempt, index) || (place.token != 0 && !leads_to(place.token, index)))
                return false;
            attempts += place.token != 0 ? 2 : 1;
        }
        std::vector<bool> is_free(it.places_.size());
        for (std::size_t i = 0; i < it.free_.size(); ++i) {
            if (it.places_[it.free_[i]].state != State::free || is_free[it.free_[i]]) return false;
            is_free[it.free_[i]] = true;
        }
        Time since{0};
        for (const Gate::Pending& each : it.pending_) {
            const Gate::Place& place = it.places_[each.session.peer.index()];
            if (place.state != State::pending || &*place.pending != &each || each.since < since) return false;
            since = each.since;
        }
        return it.places_.size() <= it.max_places_ && it.pending_.size() <= it.max_pending_ &&
               it.peers_ <= it.max_peers_ && free == it.free_.size() && pending == it.pending_.size() &&
               peers == it.peers_ && attempts == it.attempts_.size() && peer_counts == it.peer_counts_ &&
               open == peers && closed == leaving;
    }

    /// Each packet is in the slot of its number, and open_packets() is right.
    static bool of(const SentPackets& it) {
        using State = SentPackets::State;
        std::uint32_t open = 0;
        for (std::size_t i = 0; i < it.slots_.size(); ++i) {
            const SentPackets::Slot& slot = it.slots_[i];
            if (slot.number != 0 &&
                (it.index(slot.number) != i || slot.number < it.first_ || slot.number >= it.next_))
                return false;
            // acknowledge() gives each acked packet its fate before it returns.
            if (slot.state == State::acked) return false;
            if (slot.state == State::open && (slot.number == 0 || slot.number < it.oldest_open_))
                return false;
            open += slot.state == State::open;
        }
        return open == it.open_ && it.slots_.size() <= it.capacity_ && it.oldest_open_ <= it.next_ &&
               it.newest_acked_ < it.next_;
    }

    /// Each message is in the list of its weight and state, and the counts of bytes and copies are right.
    static bool of(const SendQueue& it) {
        constexpr std::uint32_t kNone = SendQueue::kNone;
        std::size_t waiting = 0;
        for (std::size_t weight = 0; weight < it.queues_.size(); ++weight) {
            std::size_t bytes = 0;
            for (std::size_t place = 0; place < SendQueue::kPlaces; ++place) {
                for (std::uint32_t i = it.queues_[weight][place].first; i != kNone;
                     i = it.messages_[i].next) {
                    const SendQueue::Message& message = it.messages_[i];
                    if (std::size_t(message.weight) != weight || message.copies != 0) return false;
                    if (place < SendQueue::first_unsent ? message.id == 0
                                                        : place != SendQueue::unsent_on(message.channel))
                        return false;
                    bytes += SendQueue::kTypicalHeadBytes + message.size;
                    waiting += 1;
                }
            }
            if (bytes != it.waiting_bytes_[weight]) return false;
        }
        std::size_t under_way = 0, copies = 0, bytes = 0;
        for (std::size_t i = 0; i < it.sent_.size(); ++i) {
            const SendQueue::Message& message = it.messages_[it.sent_[i]];
            if (message.id != it.base_ + i) return false;
            under_way += message.is_delivered || message.copies > 0;
            copies += message.is_delivered ? 0 : message.copies;
            bytes += message.size;
        }
        return waiting == it.queued_ && waiting + under_way == it.messages_.used() &&
               bytes == it.window_bytes_ && (it.sent_.empty() || !it.messages_[it.sent_[0]].is_delivered) &&
               (copies > 0) <= (it.carried_.used() > 0);
    }

    /// Each kept message is in exactly one list, and its id has the state that belongs to this list.
    static bool of(const Inbox& it) {
        using State = Inbox::State;
        std::size_t bytes = 0, waiting = 0, pieces = 0, ids_waiting = 0;
        // Counts the messages of a list. Returns false if the list is endless, or the id of a message has
        // another state.
        const auto add = [&](std::uint32_t first, State expected, std::size_t& count) {
            for (std::uint32_t i = first; i != kNoIndex; i = it.waiting_[i].next) {
                if (++count > it.waiting_.used() || it.state(it.waiting_[i].id) != expected) return false;
                bytes += it.waiting_[i].size;
            }
            return true;
        };
        if (!add(it.ready_, State::waiting, waiting)) return false;
        for (std::size_t i = 0; i < it.slots_.size(); ++i) {
            const Inbox::Slot& slot = it.slots_[i];
            if (slot.state == State::delivered) continue;  // the slot's lists are not used any more
            if (!add(slot.waiters, State::waiting, waiting)) return false;
            if (!add(slot.pieces, State::delivered, pieces)) return false;
            ids_waiting += slot.state == State::waiting;
        }
        return waiting == ids_waiting && waiting + pieces == it.waiting_.used() &&
               bytes == it.waiting_bytes_ && bytes <= kReliableWindowBytes + kMaxReliableBytes &&
               of(it.waiting_) && of(it.store_.blocks_) &&
               (it.slots_.empty() || it.slots_[0].state != State::delivered);
    }

    static bool of(const OutgoingPayload& it) { return (it.waiting_ & ~it.unacked_) == 0; }
    static bool of(const IncomingPayload& it) {
        const std::size_t most = kFragmentBytes * std::size_t(std::popcount(it.arrived_));
        const bool has_last = it.last_ < kMaxFragments;
        return it.bytes_.size() <= most && it.bytes_.size() + (has_last ? kFragmentBytes : 1) > most &&
               (!has_last || it.arrived_ >> it.last_ == 1);
    }

    /// Each item is either in use or in the list of free items.
    template <class T>
    static bool of(const IndexPool<T>& it) {
        std::uint32_t free = 0;
        for (std::uint32_t i = it.free_; i != kNoIndex; i = it.items_[i].next)
            if (i >= it.size() || ++free > it.size()) return false;
        return it.used_ + free == it.size();
    }
    static bool of(const MessageStore& it) { return of(it.blocks_); }
};

template <class T>
bool is_consistent(const T& part) {
    return Consistency::of(part);
}

}  // namespace shoal::net::impl
