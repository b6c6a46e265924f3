#pragma once
// A simulated bad network, between an endpoint and its socket or between the endpoints of one program.

#include <unordered_map>

#include "socket.h"

namespace shoal::net::impl {

/// Probabilities are 0..1, per datagram, independent of each other.
struct LinkConfig {
    Duration latency{0};  // delay of each datagram, one way
    Duration jitter{0};   // added to each delay: from 0 to this much, uniformly distributed
    Duration spread{0};   // added to each delay: +- this much, uniformly distributed; never below zero
    double loss = 0;
    double burst = 0;         // chance that a burst of loss starts with this datagram
    double burst_length = 8;  // mean number of datagrams lost in a burst; >= 1
    double duplicate = 0;     // chance of a second copy, with its own delay
    double reorder = 0;       // chance of an additional reorder_delay; other datagrams keep their order
    Duration reorder_delay = std::chrono::milliseconds(20);
    double corrupt = 0;              // chance that one to four bits flip, or the end is missing
    std::size_t max_queued = 65536;  // most datagrams in flight; further ones are lost
    // A bottleneck before the latency. Datagrams pass it one by one, in order of arrival.
    std::uint64_t bytes_per_second = 0;   // 0: no bottleneck
    std::size_t queue_bytes = 64 * 1024;  // the bottleneck's queue; datagrams beyond it are lost (tail drop)
};

struct LinkStats {
    std::uint64_t offered = 0, delivered = 0;
    std::uint64_t lost = 0, lost_in_bursts = 0, overflowed = 0;
    std::uint64_t duplicated = 0, reordered = 0, corrupted = 0;
};

/// One direction of one or more paths. The same seed and calls give the same result on every platform.
class LinkConditioner {
public:
    struct Datagram {
        Address from;
        Address to;
        std::vector<std::byte> bytes;
        Time due{0};
        std::uint64_t order = 0;  // among datagrams due at the same time, the lowest is delivered first
    };

    LinkConditioner(const LinkConfig& config, std::uint64_t seed) : config_(config), random_state_(seed) {}

    /// May be called at any time; datagrams in flight keep their due time.
    void set_config(const LinkConfig& config) {
        config_ = config;
        in_burst_ = in_burst_ && config.burst > 0;
    }
    const LinkConfig& config() const { return config_; }

    void push(const Address& from, const Address& to, std::span<const std::byte> bytes, Time now);
    /// Takes the earliest datagram that is due by `now`, or returns false. Reuses the memory of `out`.
    bool pop(Time now, Datagram& out);

    std::size_t queued() const { return count_; }
    /// Requires queued() > 0.
    Time next_due() const { return heap_.front().due; }
    /// How long a datagram pushed now would wait for the bottleneck.
    Duration queue_delay(Time now) const;
    const LinkStats& stats() const { return stats_; }

private:
    std::uint64_t random();
    bool chance(double probability);
    void schedule(const Address& from, const Address& to, std::span<const std::byte> bytes, Time now);
    bool pass_bottleneck(std::size_t bytes, Time now);
    void corrupt(std::vector<std::byte>& bytes);

    LinkConfig config_;
    LinkStats stats_;
    std::vector<Datagram> heap_;  // a heap of the first count_ items; the rest are kept to reuse their memory
    std::size_t count_ = 0;
    std::uint64_t random_state_;
    std::uint64_t next_order_ = 0;
    Time newest_due_{0};                      // latest due time of datagrams that keep their order
    std::chrono::nanoseconds busy_until_{0};  // when the bottleneck will have sent all queued datagrams
    bool in_burst_ = false;
};

/// A LinkConditioner for each direction, with a socket for one endpoint, or without sockets for any number of
/// endpoints: README.md, A bad network. The same seed and calls give the same result on every platform. A
/// datagram counts as sent at the `now` of the latest receive_all() or flush().
class BadNetwork final : public Sink {
public:
    /// `outside` is a socket or another Sink, owned by the caller. Both directions begin with `config`.
    BadNetwork(Sink& outside, const LinkConfig& config, std::uint64_t seed)
        : BadNetwork(&outside, config, seed) {}
    /// Without a socket: connects the endpoints named by at(). Each datagram passes `config` once, on its way
    /// to an endpoint. Datagrams to other addresses are dropped.
    BadNetwork(const LinkConfig& config, std::uint64_t seed) : BadNetwork(nullptr, config, seed) {}

    /// The Sink for the endpoint with this address. Valid as long as the network.
    Sink& at(const Address& address) { return place(address); }
    /// With a socket: takes a datagram of the endpoint, for flush() to send later. Without a socket use at().
    void send(const Address& to, std::span<const std::byte> datagram) override { carry({}, to, datagram); }
    NetError error_to(const Address& to) const override {
        return outside_ ? outside_->error_to(to) : NetError::none;
    }

    /// Passes at most `max_datagrams` due datagrams to `endpoint`. Returns how many.
    std::size_t receive_all(Socket& socket, Endpoint& endpoint, Time now, std::size_t max_datagrams = 10'000);
    std::size_t receive_all(const Address& address, Endpoint& endpoint, Time now,
                            std::size_t max_datagrams = 10'000);
    /// Sends due datagrams to `outside`.
    void flush(Time now);
    /// The time at which the next datagram is due, but `at_most` at the latest.
    Time next_due(Time at_most) const;
    /// The directions. With a socket, out() leads from the endpoint to the socket, and in() the other way.
    /// Without a socket, in(address) leads to the endpoint with this address, and out() is unused.
    LinkConditioner& out() { return out_; }
    LinkConditioner& in(const Address& address = {}) { return place(address).in; }

private:
    struct Place final : Sink {
        Place(BadNetwork& of, const Address& at, std::uint64_t seed)
            : network(of), address(at), in(of.config_, seed) {}
        void send(const Address& to, std::span<const std::byte> datagram) override {
            network.carry(address, to, datagram);
        }
        BadNetwork& network;
        Address address;
        LinkConditioner in;
    };

    BadNetwork(Sink* outside, const LinkConfig& config, std::uint64_t seed)
        : outside_(outside), config_(config), seed_(seed), out_(config, seed + 1) {}
    BadNetwork(const BadNetwork&) = delete;
    BadNetwork& operator=(const BadNetwork&) = delete;
    Place& place(const Address& address);
    void carry(const Address& from, const Address& to, std::span<const std::byte> datagram);

    Sink* outside_;
    LinkConfig config_;
    std::uint64_t seed_;
    LinkConditioner out_;
    std::unordered_map<Address, Place> places_;  // by address; the endpoint of a socket has Address{}
    LinkConditioner::Datagram datagram_;
    Time now_{0};
};

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::BadNetwork, impl::LinkConfig, impl::LinkStats;
}  // namespace shoal::net
