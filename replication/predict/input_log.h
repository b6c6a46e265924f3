#pragma once
// The inputs of a client's player for recent ticks. The client sends them to the server, and uses them when
// it computes a tick again.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../play/uplink.h"
#include "../schema/image.h"
#include "../schema/schema.h"
#include "../show/render_time.h"

namespace shoal::replication::impl {

/// Number of ticks whose inputs and predicted values are kept: those of at least one second, a power of two.
Tick ticks_kept(net::Duration tick);

/// Holds the words of inputs, see StructCodec. Writes the section `inputs` of a payload: all inputs that are
/// not acknowledged, each as the difference to the input before it. Not thread-safe.
class InputLog final : public SectionWriter {
public:
    static constexpr std::uint32_t kMaxSent = 32;  // inputs in one packet

    /// `neutral`: the words of a default input. The type must outlive the log.
    InputLog(const SchemaStruct& type, std::span<const std::uint32_t> neutral);

    /// Drops all inputs, and keeps those of the last `ticks` ticks from now on. Requires a power of two.
    void keep(Tick ticks);

    /// Sets what the player does now. The values stay in use until the next call. Presses are added to those
    /// of earlier calls if `takes_presses`. Returns how many presses were dropped: all without
    /// `takes_presses`, else those for which 32 of their field wait already.
    std::uint32_t set_input(std::span<const std::uint32_t> words, bool takes_presses = true);
    /// Returns whether set_input() was called since reset().
    bool is_in_use() const { return is_in_use_; }

    /// Stores the present values and presses as the input of a tick. The input has at most Press::kMax
    /// presses of each Press field; further presses wait for the next tick. Requires that the tick is newer
    /// than that of the last call. If ticks in between are missing, all earlier inputs are dropped, and
    /// presses that no packet had wait again.
    void record(Tick tick);
    /// Returns the input of a tick. Returns an empty span if the input was not recorded or was dropped.
    std::span<const std::uint32_t> at(Tick tick) const;
    /// Tick of the newest recorded input. Empty if there is none.
    std::optional<Tick> newest() const { return count_ == 0 ? std::nullopt : std::optional(newest_); }

    /// Sets the time now, and InputClock::position() now, for the next packets.
    void set_sent(net::Time now, double position) {
        now_ = now;
        position_ = position;
    }

    /// Sets what the player sees while it makes the inputs of the next record() calls: the client's render
    /// time, or its newest versions.
    void set_seen(const std::optional<RenderTime>& seen) { seen_ = seen; }

    /// Drops all inputs, for a new connection.
    void reset();

    bool write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) override;
    void on_fate(std::uint64_t packet, bool delivered) override;

    struct Packet {
        std::uint64_t number = 0;  // 0: none
        Tick newest = 0;           // the tick of its newest input
        double fresh = 0;          // number of inputs that no earlier packet had
        net::Time sent{0};
        double position = 0;  // InputClock::position() when it was sent
    };
    /// The newest packet with inputs whose number has these low 8 bits; null if it has been forgotten.
    const Packet* find(std::uint8_t low_bits) const {
        const Packet& packet = packets_[low_bits];
        return packet.number == 0 ? nullptr : &packet;
    }
    /// The fraction of the last packets with inputs that were lost, and the mean of Packet::fresh.
    double loss() const { return loss_; }
    double fresh() const { return fresh_; }

private:
    static constexpr std::uint32_t kMaxWaiting = 32;  // waiting presses of one field
    static constexpr std::size_t kPackets = 256;      // largest number of packets in flight
    static constexpr double kFates = 256;             // number of packets over which the loss is a mean

    struct Input {
        std::vector<std::uint32_t> words;
        std::optional<std::uint32_t> lag;  // of what the player saw, see RenderTime::lag()
    };

    const Input& input(Tick tick) const { return inputs_[tick % inputs_.size()]; }
    void write(std::uint32_t count, BitWriter& out) const;

    const SchemaStruct& type_;
    std::vector<std::uint32_t> neutral_, input_;
    std::vector<std::uint32_t> waiting_;  // presses that are in no input yet: a number for each Press field
    std::vector<Input> inputs_;           // by tick
    std::uint32_t count_ = 0;             // number of inputs kept; the last is newest_
    Tick newest_ = 0;
    std::uint32_t unacknowledged_ = 0;  // number of inputs without an ack: the newest ones
    std::uint32_t unsent_ = 0;          // number of inputs that were in no packet: the newest ones
    bool is_in_use_ = false;
    double position_ = 0, loss_ = 0, fates_ = 0, fresh_ = 1;
    net::Time now_{0};
    std::optional<RenderTime> seen_;
    std::array<Packet, kPackets> packets_{};  // by number
    BitWriter bits_;
};

/// A section of inputs, decoded.
struct InputSection {
    std::uint32_t newest = 0;  // the low kTickBits bits of the newest tick
    std::uint32_t count = 0;   // 1 to InputLog::kMaxSent
    bool is_delayed = false;   // the client shows an earlier time than its newest state
    // The first `count` are used, the oldest first. The lags only if is_delayed, see RenderTime::lag().
    std::vector<std::vector<std::uint32_t>> words;
    std::vector<std::uint32_t> lags;

    std::optional<std::uint32_t> lag(std::uint32_t i) const {
        return is_delayed ? std::optional(lags[i]) : std::nullopt;
    }

    static constexpr unsigned kTickBits = 12;
    static constexpr unsigned kCountBits = 5;
    static constexpr unsigned kLagOrder = 7, kLagChangeOrder = 2;

    /// Replaces this section by the one that `in` contains. Returns false if the bits are invalid.
    bool read(const SchemaStruct& type, std::span<const std::uint32_t> neutral, BitReader& in);
    /// Returns the newest tick: the one nearest to `expected` with these low bits.
    Tick newest_near(Tick expected) const {
        constexpr Tick kRange = Tick{1} << kTickBits;
        return expected + ((newest - expected + kRange / 2) % kRange) - kRange / 2;
    }
};

}  // namespace shoal::replication::impl
