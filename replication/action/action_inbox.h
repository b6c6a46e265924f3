#pragma once
// Actions of one player that arrived at the server, until they run.

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "action_wire.h"

namespace shoal::replication::impl {

/// Takes each action once, in the order of its stream. Not thread-safe.
class ActionInbox {
public:
    /// Decodes the section `actions` of a payload, for commit(). Returns false if the bits are invalid. Any
    /// bits are safe.
    bool read(const Schema& schema, BitReader& in);
    /// Adds the new actions of the last read() to waiting(). Returns false if a stream would then have more
    /// than kMaxWaitingActions; its newest actions are not added.
    bool commit();

    /// The actions of a stream that have arrived but have not run, the oldest first.
    const std::deque<ActionRecord>& waiting(ActionStream stream) const { return at(stream).waiting; }
    /// Sequence number of the oldest action in waiting(stream), or of the next action if it is empty.
    std::uint32_t sequence(ActionStream stream) const {
        return at(stream).next - static_cast<std::uint32_t>(at(stream).waiting.size());
    }
    /// Removes the oldest action of a stream. Call it when the action has run; in the independent stream
    /// also when it was rejected.
    void pop(ActionStream stream) { at(stream).waiting.pop_front(); }
    /// Removes the oldest action of the ordered stream, after it was rejected. Also removes all later
    /// actions that the client called before it knew of the rejection, and ignores those that arrive later.
    /// Returns the number of removed later actions.
    std::size_t reject();
    /// Removes the waiting actions of both streams. Call it when the client has forgotten them.
    void forget_waiting() {
        for (Stream& stream : streams_) stream.waiting.clear();
    }
    /// Sequence number of the next action that will arrive.
    std::uint32_t next(ActionStream stream) const { return at(stream).next; }
    /// Returns whether these actions have run, or never will.
    bool has_run(const EarlierActions& actions) const;
    /// Number of calls of reject(), modulo 256.
    std::uint8_t epoch() const { return at(ActionStream::ordered).epoch; }

    /// Number of actions that were ignored because they had arrived before, or because an earlier action was
    /// rejected.
    std::uint64_t ignored() const { return ignored_; }

private:
    struct Stream {
        std::deque<ActionRecord> waiting;
        std::uint32_t next = 0;  // sequence number of the next action to come
        std::uint8_t epoch = 0;  // number of calls of reject(), modulo 256
    };
    struct Staged {
        std::vector<ActionRecord> records;
        ActionRun run;
        bool is_used = false;
    };

    Stream& at(ActionStream stream) { return streams_[static_cast<std::size_t>(stream)]; }
    const Stream& at(ActionStream stream) const { return streams_[static_cast<std::size_t>(stream)]; }

    std::array<Stream, kActionStreams> streams_;
    std::array<Staged, kActionStreams> staged_;
    std::uint64_t ignored_ = 0;
};

}  // namespace shoal::replication::impl
