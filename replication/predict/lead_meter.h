#pragma once
// Decides how far the inputs of a client are ahead of the server.

#include <array>
#include <optional>
#include <vector>

#include "../receive/server_clock.h"

namespace shoal::replication::all {

/// The lead is the position of the input clock minus ServerClock::schedule(), in ticks. Each packet with
/// inputs measures a need: the lead with which its oldest new input would have arrived just in time. Not
/// thread-safe.
class LeadMeter {
public:
    /// `tick`: time between two ticks, > 0.
    explicit LeadMeter(net::Duration tick) : tick_ms_(ServerClock::ms(tick)) {}

    /// `lead`: that of the packet.
    void add(double need, double lead, net::Time now);
    /// Call it when the server says that an input came after its tick. `lead`: that of the input's packet.
    void note_late(double lead, net::Time now);

    /// Returns the lead with which at most the fraction kMaxLate of inputs is late, if this fraction of
    /// packets is lost, and each packet has so many new inputs. Empty while too few packets were measured; a
    /// few packets that are late are enough. It changes seldom.
    std::optional<double> wanted(double loss, double inputs_per_packet, net::Time now);

    /// The fraction of inputs that may be late.
    static constexpr double kMaxLate = 1e-4;

private:
    static constexpr std::size_t kDelays = 256, kFewDelays = 32;
    static constexpr std::size_t kLateInARow = 4;  // so many late packets in a row: a longer path
    static constexpr net::Duration kInterval = std::chrono::milliseconds(100);  // between two computations
    static constexpr net::Duration kPatience = std::chrono::seconds(2);         // before the lead is reduced
    static constexpr net::Duration kLateWindow = std::chrono::seconds(10);
    static constexpr std::size_t kMaxLateNoted = 16;
    static constexpr double kMaxDelayMs = 1'000, kMaxLoss = 0.5;

    double delay_to_cover(double loss, double inputs_per_packet);

    double tick_ms_;
    RecentGreatest least_need_;               // negative, of a packet that the path delayed least
    std::array<double, kDelays> delays_{};    // needs of the last packets, minus the least need at the time
    std::size_t count_ = 0;                   // of all delays; index of the next one, modulo kDelays
    std::array<double, kLateInARow> last_{};  // the last needs, by count_
    std::size_t late_in_a_row_ = 0;           // packets that needed more than wanted_, or than their lead
    std::size_t late_at_first_ = 0;           // such packets before the first wanted_, in a row or not
    std::vector<net::Time> late_;
    std::vector<double> sorted_;  // scratch of delay_to_cover()
    double cover_ = 2;            // the last delay_to_cover()
    std::optional<double> wanted_;
    net::Time computed_{0}, changed_{0};
    bool is_urgent_ = false;
};

}  // namespace shoal::replication::all
