#pragma once
// A non-blocking UDP socket. Only the sources of this folder call the operating system.

#include <atomic>

#include "../endpoint.h"

namespace shoal::net::impl {

struct SocketConfig {
    std::uint32_t receive_buffer_bytes = 1 << 20;  // a request; the system may give less
    std::uint32_t send_buffer_bytes = 1 << 20;
    bool fragments = false;  // false: forbids routers to fragment datagrams, if the system supports it
};

/// Each datagram passed to the socket is counted once: sent, or dropped for one reason.
struct SocketStats {
    std::uint64_t sent = 0, bytes_sent = 0;  // accepted by the system
    std::uint64_t send_blocked = 0;          // dropped: the system's buffer is full
    std::uint64_t send_unreachable = 0;      // dropped: no route, no network, no such address
    std::uint64_t send_forbidden = 0;        // dropped: a firewall, or a broadcast address
    std::uint64_t send_too_large = 0;        // dropped: larger than the interface allows
    std::uint64_t send_failed = 0;           // dropped: anything else
    std::uint64_t send_repeats = 0;  // of `sent`: tried twice, as the first try told of an earlier datagram

    std::uint64_t received = 0, bytes_received = 0;  // returned by receive()
    std::uint64_t receive_cut = 0;  // of these: longer than the buffer; only on Linux and Windows
    // Errors that receive() skipped: an earlier datagram met a closed port, no host, or a short path (ICMP).
    std::uint64_t receive_errors = 0;
    std::uint64_t receive_failed = 0;  // calls that failed for any other reason
};

/// Owns the descriptor; movable. send() drops and counts datagrams that the system refuses. One thread may
/// send while another one receives; otherwise one thread at a time. recvmmsg and sendmmsg were tried on
/// Linux: 5 % faster in batches of 64, 4 % slower in batches of 4, 19 % slower for single datagrams.
class Socket final : public Sink {
public:
    /// Binds to `local`. Address::any(port) is dual stack (IPv4 and IPv6) where the system has IPv6; on
    /// `unsupported` fall back to Address::any_ipv4(port). Port 0 chooses a free port. With port 0, as a
    /// client has, the socket asks the system for ICMP errors, see error_to(); only on Linux.
    static Result<Socket> open(const Address& local, const SocketConfig& config = {});

    Socket(Socket&& other) noexcept { *this = std::move(other); }
    Socket& operator=(Socket&& other) noexcept;
    ~Socket() override { close(); }

    /// Receives one datagram; returns its size and sets `from`, or returns would_block if there is none. A
    /// longer datagram is cut to the buffer: use kMaxDatagramBytes + 1 bytes to notice. Errors that a
    /// stranger can cause (a closed port) are skipped. After any other error: wait before the next call.
    Result<std::size_t> receive(std::span<std::byte> buffer, Address& from);
    NetError try_send(const Address& to, std::span<const std::byte> datagram);
    void send(const Address& to, std::span<const std::byte> datagram) override {
        static_cast<void>(try_send(to, datagram));
    }
    /// Any thread may call it.
    NetError error_to(const Address& to) const override;

    /// The bound address, with the port that was chosen.
    Result<Address> local_address() const;
    const SocketStats& stats() const { return stats_; }
    /// The system's descriptor, for calls that this class does not offer.
    std::intptr_t handle() const { return handle_; }

private:
    static constexpr std::intptr_t kNone = -1;
    Socket(std::intptr_t handle, Address::Family family) : handle_(handle), family_(family) {}
    void close();
    void count_unsent(NetError reason);
    bool take_report();

    /// The newest error, and the address that it is about.
    class Report {
    public:
        void set(const Address& about, NetError error) { value_ = hash_of(about) | std::uint64_t(error); }
        NetError get(const Address& about) const {
            const std::uint64_t value = value_;
            return value && value - value % 256 == hash_of(about) ? NetError(value % 256) : NetError::none;
        }
        void clear(const Address& about) {
            if (get(about) != NetError::none) value_ = 0;
        }
        void operator=(const Report& other) { value_ = other.value_.load(); }

    private:
        static std::uint64_t hash_of(const Address& a) { return std::uint64_t{std::hash<Address>()(a)} << 8; }
        std::atomic<std::uint64_t> value_{0};  // a hash of the address, and an error in the lowest byte
    };

    /// Local addresses that datagrams came to; on an IPv6 socket IPv4 addresses are IPv4-mapped. Entries
    /// never change: the sending thread may read old entries while the receiving thread adds new ones.
    struct LocalAddresses {
        std::uint8_t number_of(const decltype(Address::ip)& ip);
        std::array<decltype(Address::ip), 255> ips{};  // Address::local of ips[i] is i + 1
        std::uint8_t count = 0;
    };

    std::intptr_t handle_ = kNone;
    Address::Family family_ = Address::Family::none;
    bool is_dual_ = false;        // IPv6 and IPv4
    bool takes_reports_ = false;  // the system reports errors of earlier datagrams
    Report unsent_;               // newest error of a send; set by the thread that sends
    Report returned_;             // newest error of an earlier datagram; set by the thread that receives
    // Null unless the socket is bound to a wildcard and the system reports the local address of a datagram.
    std::unique_ptr<LocalAddresses> local_;
    SocketStats stats_;
};

/// Blocks until one of at most eight sockets has a datagram or an error, the time is over, or a signal
/// arrives. Returns whether a socket has a datagram or an error.
bool wait_readable(std::span<const Socket* const> sockets, Duration at_most);
inline bool wait_readable(const Socket& socket, Duration at_most) {
    const std::array sockets = {&socket};
    return wait_readable(sockets, at_most);
}

/// Returns the addresses of "host:port", "1.2.3.4:5" or "[::1]:5", the system's preferred address first.
/// Blocks while the name is looked up.
Result<std::vector<Address>> resolve(std::string_view host_and_port, std::uint16_t default_port = 0);

/// Passes at most `max_datagrams` datagrams to `endpoint` and returns how many; no update() or flush().
std::size_t receive_all(Socket& socket, Endpoint& endpoint, Time now, std::size_t max_datagrams = 10'000);

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::receive_all, impl::resolve, impl::Socket, impl::SocketConfig, impl::SocketStats,
    impl::wait_readable;
}  // namespace shoal::net
