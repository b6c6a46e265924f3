#pragma once
// Simulated network paths, and a measurement of the rate controller over one of them. A server sends game
// state to its clients with the real Host and Client and a virtual clock. Source of the competing bulk flow:
// RFC 9438, CUBIC.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shoal::net::impl::paths {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // a value that was not measured

/// A new value of a parameter, from `at_s` seconds after the start on.
struct Change {
    double at_s = 0;
    double value = 0;
};

/// The delays of the datagrams of one flow in one direction, applied one after the other. All zero: none.
struct Jitter {
    double in_order_ms = 0;      // uniform within +-, independent for each datagram; order is kept
    double out_of_order_ms = 0;  // the same; a datagram may overtake others
    double correlated_ms = 0;    // varies slowly within +-; order is kept
    double pause_every_s = 0;    // mean time between stalls; datagrams wait until the end of the stall
    double pause_min_ms = 50, pause_max_ms = 200;
    double grant_ms = 0;  // datagrams leave only at multiples of this
};

/// A link that all flows share. Bytes are those of the datagrams, without IP and UDP headers.
struct Bottleneck {
    double bytes_per_second = 0;       // 0: the link does not limit
    double queue_bytes = 0;            // a datagram that would make the queue longer is dropped
    double policer_bytes = 0;          // > 0: a token bucket of this size and no queue
    std::vector<Change> changes = {};  // of bytes_per_second
};

struct PathSpec {
    std::string group, name;

    int flows = 1;            // at most 100
    double demand = 80'000;   // bytes of state per second, of each flow
    double last_joins_s = 0;  // when the last flow connects; the others are there at the start
    double tick_hz = 60;      // of the server
    double client_tick_hz = 60;
    double duration_s = 0;  // 0: as given to run()

    double down_ms = 25, up_ms = 25;           // latency; down is from the server to the client
    std::vector<Change> latency_changes = {};  // milliseconds, of both directions
    Jitter jitter = {};                        // of both directions
    double loss = 0;                           // 0..1, mean share of both directions
    double loss_burst = 0;  // mean length of a burst of losses, at most 0.5 s; 0: independent losses
    Bottleneck down = {}, up = {};
    bool has_cubic = false;  // a bulk flow of CUBIC shares the link to the clients

    double server_stall_s = 0, client_stall_s = 0;  // how long the process stops, from stall_at_s on
    double stall_at_s = 10;

    double event_s = 0;  // Outcome::resume, settled and rise are measured from here on; 0: not at all
};

/// Times are milliseconds where the name says so, else seconds; the start is when all flows that join at
/// once are connected. kNone: does not apply to this path.
struct Outcome {
    double good = kNone;    // from second 3 on: goodput over the target
    double first = kNone;   // the same, seconds 3 to 5
    double minute = kNone;  // goodput over the target, over the whole run
    double when_s = kNone;  // time until goodput over a sliding second first reached 85 % of the target
    double q50_ms = kNone, q99_ms = kNone, qmax_ms = kNone;  // wait in the bottleneck from second 3 on
    double drop = kNone;  // of datagrams sent down from second 10 on, share dropped by the bottleneck
    double msg50_ms = kNone, msg99_ms = kNone;  // age of the server's reliable messages at delivery
    double up99_ms = kNone;                     // the same for the clients' messages
    double gap_ms = kNone;  // longest time without accepted state, of all flows, from second 3 on
    double ours = kNone;  // with CUBIC: share of the other flows in the bytes that passed, from second 10 on
    double resume_s =
        kNone;  // last time that goodput over a second was under 50 % of the target, from event_s
    double settled_s =
        kNone;  // from event_s until the wait is under 100 ms, and in the median of the second after
    double rise_s = kNone;  // until goodput over a second reached 85 % of the capacity, from event_s
    std::vector<double> shares = {};  // of each flow, times the number of flows: 1 is fair
    bool is_cut = false;              // a connection ended

    double lowest_share() const;
    double highest_share() const;
};

/// The same arguments give the same outcome. It lasts at least 20 s after an event or a late flow.
Outcome run(const PathSpec& path, std::uint64_t seed, double duration_s = 60);

/// All simulated paths for the rate controller.
std::vector<PathSpec> family();

}  // namespace shoal::net::impl::paths
