#pragma once
// Measures on the server how early the inputs of one player arrive, and decides by how much the player's
// client should be further ahead.

#include <cstdint>
#include <optional>
#include <vector>

#include "../show/timeline.h"

namespace shoal::replication::all {

/// The margin of a packet is the time from its arrival until the tick of its newest input begins. It is
/// negative if the packet is late. Not thread-safe.
class LeadMeter {
public:
    /// `tick`: time between two ticks, > 0.
    explicit LeadMeter(net::Duration tick);

    /// Call it when packet `number` of the client arrives, with inputs up to tick `newest`. `received`:
    /// number of packets that the client's connection has received, with or without inputs, including this
    /// one. `shift_parity`: see InputClock.
    void add(std::uint64_t number, std::uint64_t received, Tick newest, net::Duration margin,
             bool shift_parity, net::Time now);
    /// As add(), for a packet whose margin does not measure the path.
    void follow(std::uint64_t number, std::uint64_t received, Tick newest);
    /// Call it when an input arrives after its tick.
    void note_late(net::Time now);

    /// Returns by how much the client should change its lead now; nothing if no change is due.
    std::optional<net::Duration> take_shift(net::Time now);

    /// For tests: the samples agree with what is derived from them.
    bool is_consistent() const;

    /// The fraction of inputs that may be late.
    static constexpr double kMostLate = 1e-4;

private:
    static constexpr std::size_t kSamples = 256, kFewSamples = 32;
    static constexpr std::size_t kLateInARow = 4;  // so many late packets in a row: a longer path
    static constexpr net::Duration kWindow = std::chrono::seconds(2);
    static constexpr net::Duration kLateWindow = std::chrono::seconds(10);
    static constexpr std::size_t kMostLateNoted = 16;
    static constexpr Tick kMostTicksPerPacket = 8;
    static constexpr double kMostWantedMs = 1'000;

    struct Sample {
        double margin_ms = 0;
        net::Time at{0};
        std::uint64_t number = 0;    // greatest number of a packet with inputs until then
        std::uint64_t received = 0;  // packets received until then
    };

    /// The sample with the greatest margin of a span of time.
    struct Best {
        net::Duration span;
        double margin_ms = -1e9;  // no sample of the span has a greater one
        net::Time at{0};
        bool is_known = false;  // the sample is one of samples_
    };

    void insert(const Sample& sample);
    void drop_former_path();
    double greatest_ms(Best& best, net::Time now) const;
    double margin_ms(net::Time now);
    double loss() const;
    double wanted_ms(double margin_ms, net::Time now);
    bool is_late_risk_low(double wanted_ms, double margin_ms, double loss) const;

    double tick_ms_;
    std::vector<Sample> samples_;     // a ring of the last kSamples
    std::size_t next_ = 0;            // index for the next sample
    std::vector<double> margins_ms_;  // margins of the samples, ascending
    Best of_window_{kWindow}, recent_{kWindow / 4};
    std::vector<net::Time> late_;
    std::uint32_t wanted_steps_ = 0;  // result of the last search in wanted_ms(), in 1/8 of a tick
    double last_wanted_ms_;           // used while there are few samples
    std::size_t late_in_a_row_ = 0;
    std::uint64_t newest_number_ = 0;  // number of the packet with the newest inputs
    std::uint64_t received_then_ = 0;  // packets received until that packet
    Tick newest_tick_ = 0;
    std::uint32_t ticks_per_packet_ =
        1;  // new ticks in the last packet; > 1 if frames are longer than a tick
    double mean_ticks_per_packet_ = 1;
    bool shift_parity_ = false;
    std::optional<double> pending_ms_;  // the shift that the client was asked for, and has not fulfilled
    net::Time last_shift_{0};
};

}  // namespace shoal::replication::all
