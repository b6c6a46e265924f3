#pragma once
// A bad network before a socket, or between the endpoints of one program.

#include <unordered_map>

#include "link_conditioner.h"
#include "socket.h"

namespace shoal::net {

/// One way in and one way out, each a LinkConditioner. Same seed and same calls, same result, on every
/// platform. Before a socket, for one endpoint:
///     BadNetwork network(socket, {.latency = 50ms, .loss = 0.05}, seed);  // the endpoint's Sink
///     network.receive_all(socket, endpoint, now);                         // instead of net::receive_all
///     network.flush(now);                                                 // after the endpoint's flush
/// Without sockets, for any number of endpoints with addresses of your choice:
///     BadNetwork network({.latency = 50ms, .loss = 0.05}, seed);
///     Host host(config, handler, network.at(server));                     // likewise for each client
///     network.receive_all(server, host, now);                             // likewise for each client
/// A datagram sets out at the time of the latest call.
class BadNetwork final : public Sink {
public:
    /// `outside` is a socket or another Sink, and stays the caller's. `config` is for each direction.
    BadNetwork(Sink& outside, const LinkConfig& config, std::uint64_t seed)
        : BadNetwork(outside, config, config, seed) {}
    BadNetwork(Sink& outside, const LinkConfig& out, const LinkConfig& in, std::uint64_t seed)
        : BadNetwork(&outside, out, in, seed) {}
    /// `config` is for the way to each endpoint. What is for an address that no endpoint has is dropped.
    BadNetwork(const LinkConfig& config, std::uint64_t seed) : BadNetwork(nullptr, config, config, seed) {}

    /// The Sink of the endpoint with this address. Lives as long as the network.
    Sink& at(const Address& address) { return place(address); }
    /// Sends for the endpoint whose socket this network wraps.
    void send(const Address& to, std::span<const std::byte> datagram) override { carry({}, to, datagram); }

    /// Gives `endpoint` what is due, at most `max_datagrams`. Returns how many.
    std::size_t receive_all(Socket& socket, Endpoint& endpoint, Time now, std::size_t max_datagrams = 10'000);
    std::size_t receive_all(const Address& address, Endpoint& endpoint, Time now,
                            std::size_t max_datagrams = 10'000);
    /// Sends outside what is due.
    void flush(Time now);

    /// When the next datagram is due, or `at_most` if that is earlier.
    Time next_due(Time at_most) const;
    /// The two directions, to change them or to ask what they did.
    LinkConditioner& out() { return out_; }
    LinkConditioner& in(const Address& address = {}) { return place(address).in; }

private:
    struct Place final : Sink {
        Place(BadNetwork& of, const Address& at, std::uint64_t seed)
            : network(of), address(at), in(of.in_config_, seed) {}
        void send(const Address& to, std::span<const std::byte> datagram) override {
            network.carry(address, to, datagram);
        }
        BadNetwork& network;
        Address address;
        LinkConditioner in;
    };

    BadNetwork(Sink* outside, const LinkConfig& out, const LinkConfig& in, std::uint64_t seed)
        : outside_(outside), in_config_(in), seed_(seed), out_(out, seed + 1) {}
    BadNetwork(const BadNetwork&) = delete;
    BadNetwork& operator=(const BadNetwork&) = delete;
    Place& place(const Address& address);
    void carry(const Address& from, const Address& to, std::span<const std::byte> datagram);

    Sink* outside_;
    LinkConfig in_config_;
    std::uint64_t seed_;
    LinkConditioner out_;
    std::unordered_map<Address, Place> places_;  // the endpoint before a socket has no address
    LinkConditioner::Datagram datagram_;
    Time now_{0};
};

}  // namespace shoal::net
