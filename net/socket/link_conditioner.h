#pragma once
// One direction of a bad network: takes datagrams and gives back what a real path would leave of them.
// BadNetwork puts two of them before a socket.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../endpoint.h"
#include "address.h"

namespace shoal::net {

/// Probabilities are 0..1, per datagram, independent of each other.
struct LinkConfig {
    Duration latency{0};  // one way
    Duration jitter{0};   // each delay is up to this much longer, evenly
    Duration spread{0};   // each delay is up to this much longer or shorter, evenly; never below zero
    double loss = 0;
    double burst = 0;         // chance that a burst of loss starts here
    double burst_length = 8;  // datagrams lost in a burst, mean; >= 1
    double duplicate = 0;     // chance of a second copy, with its own delay
    double reorder = 0;       // chance to be held back by reorder_delay; all others keep their order
    Duration reorder_delay = std::chrono::milliseconds(20);
    double corrupt = 0;              // chance that one to four bits flip, or the end is cut off
    std::size_t max_queued = 65536;  // datagrams under way; more are lost
    // A bottleneck before the latency: datagrams pass one after the other, in order of arrival.
    std::uint64_t bytes_per_second = 0;   // 0: none
    std::size_t queue_bytes = 64 * 1024;  // waiting for it; what does not fit is lost (tail drop)
};

struct LinkStats {
    std::uint64_t offered = 0, delivered = 0;
    std::uint64_t lost = 0, lost_in_bursts = 0, overflowed = 0;
    std::uint64_t duplicated = 0, reordered = 0, corrupted = 0;
};

/// One direction of one path, or of many. Same seed and same calls, same result, on every platform.
class LinkConditioner {
public:
    struct Datagram {
        Address from;
        Address to;
        std::vector<std::byte> bytes;
        Time due{0};
    };

    LinkConditioner(const LinkConfig& config, std::uint64_t seed);

    /// May be changed at any time; what is under way keeps its due time.
    void set_config(const LinkConfig& config) {
        config_ = config;
        in_burst_ = in_burst_ && config.burst > 0;
    }
    const LinkConfig& config() const { return config_; }

    void push(const Address& from, const Address& to, std::span<const std::byte> bytes, Time now);
    /// Takes the next datagram that is due by `now`, earliest first. The old bytes of `out` are reused.
    bool pop(Time now, Datagram& out);

    std::size_t queued() const { return heap_.size(); }
    /// When the next one is due; only if queued() > 0.
    Time next_due() const { return heap_.front().datagram.due; }
    /// How long a datagram that comes now waits for the bottleneck.
    Duration queue_delay(Time now) const;
    const LinkStats& stats() const { return stats_; }

private:
    struct Item {
        Datagram datagram;
        std::uint64_t order = 0;  // breaks ties
    };
    static bool is_later(const Item& a, const Item& b);
    std::uint64_t random();
    bool chance(double probability);
    void schedule(const Address& from, const Address& to, std::span<const std::byte> bytes, Time now);
    bool pass_bottleneck(std::size_t bytes, Time now);
    void corrupt(std::vector<std::byte>& bytes);

    LinkConfig config_;
    LinkStats stats_;
    std::vector<Item> heap_;
    std::vector<std::vector<std::byte>> spare_;  // buffers to reuse
    std::uint64_t random_state_;
    std::uint64_t next_order_ = 0;
    Time newest_due_{0};                      // of datagrams that kept their order
    std::chrono::nanoseconds busy_until_{0};  // when the bottleneck will have sent all queued datagrams
    bool in_burst_ = false;
};

}  // namespace shoal::net
