#pragma once
// The inputs of one player on the server, from their arrival until their tick.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../../net/endpoint.h"
#include "../schema/image.h"
#include "../schema/schema.h"

namespace shoal::replication::impl {

/// Counts what happened to the inputs of a player. T is the input type of the schema.
struct InputStats {
    std::uint64_t in_time = 0;          // inputs used at their ticks
    std::uint64_t late = 0;             // inputs that arrived after their ticks: the values were dropped
    std::uint64_t early = 0;            // inputs dropped because their ticks were too far in the future
    std::uint64_t repeated = 0;         // ticks without an input that used the values of an earlier input
    std::uint64_t neutral = 0;          // ticks that used T{}, because inputs were missing for longer
    std::uint64_t joined_presses = 0;   // presses of late inputs that were added to a later input
    std::uint64_t dropped_presses = 0;  // presses of late inputs that were too old or too many
};

/// Holds the words of inputs, see StructCodec. Not thread-safe.
class InputBuffer {
public:
    /// `neutral`: the words of a default input. `patience`: the number of ticks for which the last values
    /// are used when inputs are missing, and for which the presses of a late input still count; >= 1. The
    /// type must outlive the buffer.
    InputBuffer(const SchemaStruct& type, std::span<const std::uint32_t> neutral, Tick patience,
                net::Duration tick);

    /// An input that is so many ticks or more in the future is dropped. For so many ticks in the past a
    /// duplicate is recognised. Two seconds or more, a power of two.
    Tick reach() const { return static_cast<Tick>(slots_.size() / 2); }

    /// Adds an input. `lag`: see RenderTime::lag(); empty: the client showed its newest versions. `next`: the
    /// tick of the next take(). Inputs may arrive in any order and repeatedly.
    void insert(Tick tick, std::span<const std::uint32_t> words, std::optional<std::uint32_t> lag, Tick next);

    /// Returns the input for a tick. Valid until the next call. Call it once for each tick, in order.
    std::span<const std::uint32_t> take(Tick tick);

    /// The lag of the input that the last take() returned, or of a newer one that came too late.
    std::optional<std::uint32_t> lag() const { return lag_; }
    /// Number of ticks from the newest input that was used at its tick to the last take(). 0: the last take()
    /// had its input. Empty before the first such input.
    std::optional<Tick> age() const { return age_; }
    const InputStats& stats() const { return stats_; }

private:
    static constexpr std::uint8_t kMaxWaiting = 8;  // waiting presses of one field

    struct Slot {
        Tick tick = 0;
        bool is_held = false;
        std::optional<std::uint32_t> lag;
        std::vector<std::uint32_t> words;
    };

    Slot& slot(Tick tick) { return slots_[tick % slots_.size()]; }
    void set_lag(const Slot& slot) {
        lag_ = slot.lag;
        lag_tick_ = slot.tick;
    }
    void join_presses(std::span<const std::uint32_t> words, bool is_in_time);

    const SchemaStruct& type_;
    std::vector<std::uint32_t> neutral_, last_, out_;
    Tick patience_;
    std::vector<Slot> slots_;            // by tick
    std::vector<std::uint8_t> waiting_;  // presses to add to the next input: a number for each Press field
    std::optional<Tick> age_;
    std::optional<Tick> newest_;  // that arrived
    std::optional<std::uint32_t> lag_;
    std::optional<Tick> lag_tick_;  // the input of this tick stated lag_
    InputStats stats_;
};

}  // namespace shoal::replication::impl
