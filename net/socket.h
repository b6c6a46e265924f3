#pragma once
// The only file pair that knows the operating system: a non-blocking UDP socket.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "address.h"
#include "endpoint.h"
#include "result.h"

namespace shoal::net {

struct SocketConfig {
    std::uint32_t receive_buffer_bytes = 1 << 20;  // a wish; the system may give less
    std::uint32_t send_buffer_bytes = 1 << 20;
};

/// Owns the descriptor; movable. As a Sink it drops what the system will not take, and counts it.
class Socket final : public Sink {
public:
    /// Binds to `local`. Address::any(port) is dual stack (IPv4 and IPv6) where the system has IPv6; on
    /// `unsupported` fall back to Address::any_ipv4(port). Port 0 picks a free one.
    static Result<Socket> open(const Address& local, const SocketConfig& config = {});

    Socket(Socket&& other) noexcept
        : handle_(std::exchange(other.handle_, kNone)),
          family_(other.family_),
          send_errors_(other.send_errors_) {}
    Socket& operator=(Socket&& other) noexcept;
    ~Socket() override;

    /// One datagram: its bytes and sender. would_block when there is none. A datagram longer than the
    /// buffer is cut to it; use one byte more than kMaxDatagramBytes to tell. Errors that a stranger can
    /// cause (a closed port) are skipped.
    Result<std::size_t> receive(std::span<std::byte> buffer, Address& from);
    NetError try_send(const Address& to, std::span<const std::byte> datagram);
    void send(const Address& to, std::span<const std::byte> datagram) override {
        if (try_send(to, datagram) != NetError::none) send_errors_ += 1;
    }

    /// The bound address, with the port that was picked.
    Result<Address> local_address() const;
    std::uint64_t send_errors() const { return send_errors_; }
    /// For poll() and its like.
    std::intptr_t handle() const { return handle_; }

private:
    static constexpr std::intptr_t kNone = -1;
    Socket(std::intptr_t handle, Address::Family family) : handle_(handle), family_(family) {}
    void close();

    std::intptr_t handle_ = kNone;
    Address::Family family_ = Address::Family::none;
    std::uint64_t send_errors_ = 0;
};

/// Addresses of "host:port", "1.2.3.4:5" or "[::1]:5", the system's preferred one first. Blocks while
/// the name is looked up.
Result<std::vector<Address>> resolve(std::string_view host_and_port, std::uint16_t default_port = 0);

/// Feeds `endpoint` what has arrived, at most `max_datagrams`. Returns how many. update() and flush() are
/// left to the caller.
std::size_t receive_all(Socket& socket, Endpoint& endpoint, Time now, std::size_t max_datagrams = 10'000);

}  // namespace shoal::net
