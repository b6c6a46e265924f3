#pragma once
// A non-blocking UDP socket. This file pair and system_random are all that knows the operating system.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "../endpoint.h"
#include "../result.h"
#include "address.h"

namespace shoal::net {

struct SocketConfig {
    std::uint32_t receive_buffer_bytes = 1 << 20;  // a wish; the system may give less
    std::uint32_t send_buffer_bytes = 1 << 20;
    bool fragments = false;  // false: the IP header forbids routers to cut datagrams, where the system can
};

/// Every datagram offered to the socket, and every one that it had for us, is counted exactly once.
struct SocketStats {
    std::uint64_t sent = 0, bytes_sent = 0;  // what the system took
    std::uint64_t send_blocked = 0;          // dropped: the system's buffer is full
    std::uint64_t send_unreachable = 0;      // dropped: no route, no network, no such address
    std::uint64_t send_forbidden = 0;        // dropped: a firewall, or a broadcast address
    std::uint64_t send_too_large = 0;        // dropped: more than the interface carries
    std::uint64_t send_failed = 0;           // dropped: anything else
    std::uint64_t send_repeats = 0;          // sent at the second attempt: an earlier one's error came first

    std::uint64_t received = 0, bytes_received = 0;  // what came out of the socket
    std::uint64_t receive_cut = 0;                   // of these, longer than the buffer they were put into
    std::uint64_t receive_errors = 0;  // skipped: an earlier datagram found a closed port or no host (ICMP)
    std::uint64_t receive_failed = 0;  // calls that failed for another reason than an empty socket
};

/// Owns the descriptor; movable. As a Sink it drops what the system will not take, and counts it.
/// One thread may send while another one receives; otherwise one thread at a time.
/// recvmmsg and sendmmsg were tried on Linux, over loopback: 1.29 instead of 1.36 us for a datagram there and
/// back in batches of 64, 1.46 instead of 1.40 in batches of 4, and 1.90 instead of 1.59 alone.
class Socket final : public Sink {
public:
    /// Binds to `local`. Address::any(port) is dual stack (IPv4 and IPv6) where the system has IPv6; on
    /// `unsupported` fall back to Address::any_ipv4(port). Port 0 picks a free one.
    /// A wildcard's socket answers from the address that was asked, by Address::local, as connected clients
    /// and firewalls expect; on Windows the system chooses.
    static Result<Socket> open(const Address& local, const SocketConfig& config = {});

    Socket(Socket&& other) noexcept { *this = std::move(other); }
    Socket& operator=(Socket&& other) noexcept;
    ~Socket() override { close(); }

    /// One datagram: its bytes and sender. would_block when there is none. A datagram longer than the
    /// buffer is cut to it; use one byte more than kMaxDatagramBytes to tell. Errors that a stranger can
    /// cause (a closed port) are skipped. After any other error: wait before the next attempt.
    Result<std::size_t> receive(std::span<std::byte> buffer, Address& from);
    NetError try_send(const Address& to, std::span<const std::byte> datagram);
    void send(const Address& to, std::span<const std::byte> datagram) override {
        static_cast<void>(try_send(to, datagram));
    }

    /// The bound address, with the port that was picked.
    Result<Address> local_address() const;
    const SocketStats& stats() const { return stats_; }
    /// For what is not here: the system's own descriptor.
    std::intptr_t handle() const { return handle_; }

private:
    static constexpr std::intptr_t kNone = -1;
    Socket(std::intptr_t handle, Address::Family family) : handle_(handle), family_(family) {}
    void close();
    void count_unsent(NetError reason);

    /// The machine's addresses that datagrams came to, as the system has them in a socket of this family.
    /// Entries never change: the sender reads those whose number it has while the receiver adds others.
    struct LocalAddresses {
        std::uint8_t number_of(const decltype(Address::ip)& ip);
        std::array<decltype(Address::ip), 255> ips{};  // Address::local is one more than the index
        std::uint8_t count = 0;
    };

    std::intptr_t handle_ = kNone;
    Address::Family family_ = Address::Family::none;
    std::unique_ptr<LocalAddresses> local_;  // of a wildcard's socket, where the system tells
    SocketStats stats_;
};

/// Blocks until one of at most eight sockets has something to tell, or the time is over, whichever comes
/// first; a signal may end it too. Returns whether there is something.
bool wait_readable(std::span<const Socket* const> sockets, Duration at_most);
inline bool wait_readable(const Socket& socket, Duration at_most) {
    const std::array sockets = {&socket};
    return wait_readable(sockets, at_most);
}

/// Addresses of "host:port", "1.2.3.4:5" or "[::1]:5", the system's preferred one first. Blocks while
/// the name is looked up.
Result<std::vector<Address>> resolve(std::string_view host_and_port, std::uint16_t default_port = 0);

/// Feeds `endpoint` what has arrived, at most `max_datagrams`. Returns how many. update() and flush() are
/// left to the caller.
std::size_t receive_all(Socket& socket, Endpoint& endpoint, Time now, std::size_t max_datagrams = 10'000);

}  // namespace shoal::net
