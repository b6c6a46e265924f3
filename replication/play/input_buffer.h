#pragma once
// The inputs of one player on the server, from their arrival until their tick.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../schema/image.h"
#include "../schema/schema.h"

namespace shoal::replication {

/// What became of the inputs of a player.
struct InputStats {
    std::uint64_t in_time = 0;          // used at their ticks
    std::uint64_t late = 0;             // arrived after their ticks: the values were dropped
    std::uint64_t early = 0;            // dropped, because their ticks were too far ahead
    std::uint64_t repeated = 0;         // ticks whose input was missing, and which used the last values
    std::uint64_t neutral = 0;          // ticks that used T{}, because inputs were missing for longer
    std::uint64_t joined_presses = 0;   // presses of late inputs that a later input got
    std::uint64_t dropped_presses = 0;  // too late, or too many at once
};

/// Holds the words of inputs, see StructCodec. Not thread-safe.
class InputBuffer {
public:
    static constexpr Tick kAhead = 64;   // inputs of so many ticks ahead are kept
    static constexpr Tick kBehind = 64;  // for so many ticks the buffer knows which inputs it got

    /// `neutral`: the words of T{}. `patience`: for so many ticks values are repeated, and presses that come
    /// late still count; 1 to kBehind. The type must outlive the buffer.
    InputBuffer(const SchemaStruct& type, std::span<const std::uint32_t> neutral, Tick patience);

    /// Adds an input. `next`: the tick of the next take(). Inputs may come in any order, and several times.
    void insert(Tick tick, std::span<const std::uint32_t> words, Tick next);

    /// Returns the input for a tick. Valid until the next call. Call it once for each tick, in order.
    std::span<const std::uint32_t> take(Tick tick);

    /// Ticks since the newest input that was in time for its tick, as of the last take(); 0: that of this
    /// tick was. Nothing before the first one.
    std::optional<Tick> age() const { return age_; }
    const InputStats& stats() const { return stats_; }

private:
    static constexpr std::uint8_t kMostWaiting = 8;  // presses of one field

    struct Slot {
        Tick tick = 0;
        bool is_held = false;
        std::vector<std::uint32_t> words;
    };

    Slot& slot(Tick tick) { return slots_[tick % slots_.size()]; }
    void join_presses(std::span<const std::uint32_t> words, bool is_in_time);

    const SchemaStruct& type_;
    std::vector<std::uint32_t> neutral_, last_, out_;
    Tick patience_;
    std::array<Slot, kAhead + kBehind> slots_;
    std::vector<std::uint8_t> waiting_;  // presses that join the next input, one number per Press
    std::optional<Tick> age_;
    InputStats stats_;
};

}  // namespace shoal::replication
