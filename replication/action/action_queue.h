#pragma once
// A client's actions that the server has not answered yet.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../../net/fifo.h"
#include "../play/uplink.h"
#include "action_wire.h"

namespace shoal::replication::impl {

/// A payload contains, beginning with the oldest, the actions that are not known to have arrived, as many as
/// fit. So if a payload is delivered, the server has its actions and all earlier actions. Not thread-safe.
class ActionQueue final : public SectionWriter {
public:
    explicit ActionQueue(const Schema& schema) : schema_(schema) {}

    /// Returns whether a stream has kMaxWaitingActions without an answer.
    bool is_full(ActionStream stream) const { return at(stream).waiting.size() >= kMaxWaitingActions; }
    /// Sequence number of the next action of a stream.
    std::uint32_t next(ActionStream stream) const {
        return at(stream).first + static_cast<std::uint32_t>(at(stream).waiting.size());
    }
    /// Sequence number of the oldest action without an answer. If there is none, the same as next().
    std::uint32_t first(ActionStream stream) const { return at(stream).first; }
    /// The actions of both streams, if any has no answer.
    std::optional<EarlierActions> earlier() const;
    /// Call it when a new connection counts messages anew.
    void forget_messages();
    /// Number of actions without an answer, in both streams.
    std::size_t size() const;

    /// Appends an action. Requires !is_full(stream), and that the arguments have at most kMaxActionBytes.
    void add(ActionStream stream, ActionRecord record);

    /// Returns the oldest action without an answer if its sequence number has these lower 16 bits, else
    /// null. Valid until the next change of the queue.
    const ActionRecord* front(ActionStream stream, std::uint32_t low_sequence) const;
    /// Removes the oldest action of a stream, after the server accepted it. In the independent stream also
    /// after the server rejected it.
    void pop(ActionStream stream);
    /// Removes and returns all actions of the ordered stream, after the server rejected the oldest of them.
    std::vector<ActionRecord> take_ordered();

    /// Removes all actions, for a new connection.
    void reset();
    /// As reset(), but continues the numbers of the player's earlier client. `next`: by stream, the sequence
    /// number of the next action. `epoch`: the epoch of the ordered stream.
    void reset(const std::array<std::uint32_t, kActionStreams>& next, std::uint8_t epoch);

    bool write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) override;
    void on_fate(std::uint64_t packet, bool delivered) override;

    bool is_consistent() const;  // consistency.cpp

private:
    struct Stream {
        std::vector<ActionRecord> waiting;
        std::uint32_t first = 0;     // sequence number of the first action in `waiting`
        std::uint32_t received = 0;  // sequence number of the first action that is not known to have arrived
        std::uint32_t payloads_left = 0;  // payloads to come with the actions from `received` on
        std::uint8_t epoch = 0;           // number of calls of take_ordered(), modulo 256
    };
    struct Sent {
        std::uint64_t packet;
        std::array<std::uint32_t, kActionStreams>
            end;             // 1 + sequence number of the last action in the packet
        std::uint8_t epoch;  // epoch of the ordered stream
    };

    Stream& at(ActionStream stream) { return streams_[static_cast<std::size_t>(stream)]; }
    const Stream& at(ActionStream stream) const { return streams_[static_cast<std::size_t>(stream)]; }
    std::span<const ActionRecord> run_of(const Stream& stream, std::size_t share_bits,
                                         std::size_t& room_bits) const;
    bool is_in_flight(std::size_t stream) const;

    const Schema& schema_;
    std::array<Stream, kActionStreams> streams_;
    net::impl::Fifo<Sent> sent_;  // packets in flight, the oldest first
};

}  // namespace shoal::replication::impl
