#pragma once
// The inputs of a client's player: those of recent ticks, to be sent and to be simulated again.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../schema/image.h"
#include "../schema/schema.h"
#include "uplink.h"

namespace shoal::replication {

/// Holds the words of inputs, see StructCodec. Writes the section of inputs: all that are not acknowledged,
/// each as the difference to the one before. Not thread-safe.
class InputLog final : public SectionWriter {
public:
    static constexpr Tick kKept = 64;               // ticks
    static constexpr std::uint32_t kMostSent = 32;  // inputs in one packet

    /// `neutral`: the words of T{}. The type must outlive the log.
    InputLog(const SchemaStruct& type, std::span<const std::uint32_t> neutral);

    /// Takes what the player does now. The values are held until the next call; presses are added up.
    void hold(std::span<const std::uint32_t> words);
    /// Whether hold() was called since reset().
    bool is_in_use() const { return is_in_use_; }

    /// Makes what is held the input of a tick, with at most Press::kMost presses of each kind; more wait for
    /// the next tick. The tick is newer than that of the last call. If it is not the next one, the inputs
    /// before are forgotten.
    void record(Tick tick);
    /// Returns the input of a tick; empty if it was not recorded, or forgotten.
    std::span<const std::uint32_t> at(Tick tick) const;
    /// Tick of the newest input recorded; nothing if there is none.
    std::optional<Tick> newest() const { return count_ == 0 ? std::nullopt : std::optional(newest_); }

    /// See InputClock::parity().
    void set_parity(bool parity) { parity_ = parity; }

    /// Forgets everything, for a new connection.
    void reset();

    bool write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) override;
    void on_fate(std::uint64_t packet, bool delivered) override;

private:
    static constexpr std::uint32_t kMostWaiting = 32;  // presses of one field
    static constexpr std::size_t kPackets = 256;       // whose fates may be open

    struct Packet {
        std::uint64_t number = 0;  // 0: none
        Tick newest = 0;
    };

    void write(std::uint32_t count, BitWriter& out) const;

    const SchemaStruct& type_;
    std::vector<std::uint32_t> neutral_, held_;
    std::vector<std::uint32_t> waiting_;  // presses that no tick got yet, one number per Press
    std::array<std::vector<std::uint32_t>, kKept> words_;  // by tick
    std::uint32_t count_ = 0;                              // of inputs kept, up to newest_
    Tick newest_ = 0;
    std::uint32_t unacknowledged_ = 0;  // of the newest inputs
    bool is_in_use_ = false, is_sent_ = true, parity_ = false;
    std::array<Packet, kPackets> packets_{};  // by number
    BitWriter bits_;
};

/// A section of inputs, decoded.
struct InputSection {
    std::uint32_t newest = 0;  // the low kTickBits bits of the newest tick
    std::uint32_t count = 0;   // 1 to InputLog::kMostSent
    bool parity = false;
    std::vector<std::vector<std::uint32_t>> words;  // the first `count`, the oldest first

    static constexpr unsigned kTickBits = 12;
    static constexpr unsigned kCountBits = 5;

    /// Replaces this section. Returns false if no correct client writes these bits.
    bool read(const SchemaStruct& type, std::span<const std::uint32_t> neutral, BitReader& in);
    /// Returns the newest tick: the one nearest to `expected` with these low bits.
    Tick newest_near(Tick expected) const {
        constexpr Tick kRange = Tick{1} << kTickBits;
        return expected + ((newest - expected + kRange / 2) % kRange) - kRange / 2;
    }
};

}  // namespace shoal::replication
