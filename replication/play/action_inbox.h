#pragma once
// Actions of one player that arrived at the server, until they run.

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "action_wire.h"

namespace shoal::replication {

/// Takes each action once, in the order of its stream. Not thread-safe.
class ActionInbox {
public:
    /// Decodes a section of a payload, without another effect. Any bits are safe: returns false if no correct
    /// client writes them.
    bool read(const Schema& schema, BitReader& in);
    /// Takes the new actions of the last read(). Returns false if more than kMaxWaitingActions wait then; the
    /// newest are missing.
    bool commit();

    /// The actions of a stream that wait, the oldest first.
    const std::deque<ActionRecord>& waiting(ActionStream stream) const { return at(stream).waiting; }
    /// Sequence number of the oldest action that waits. Requires that one does.
    std::uint32_t sequence(ActionStream stream) const {
        return at(stream).next - static_cast<std::uint32_t>(at(stream).waiting.size());
    }
    /// The oldest action ran, or was rejected in the independent stream.
    void pop(ActionStream stream) { at(stream).waiting.pop_front(); }
    /// The oldest action of the ordered stream was rejected: ignores all later ones that the client called
    /// without knowing of it. Returns how many of them waited.
    std::size_t reject();

    /// Actions that arrived again, or after the rejection of an earlier one.
    std::uint64_t ignored() const { return ignored_; }

private:
    struct Stream {
        std::deque<ActionRecord> waiting;
        std::uint32_t next = 0;  // sequence number of the next action to come
        std::uint8_t epoch = 0;  // how many actions were rejected with all later ones
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

}  // namespace shoal::replication
