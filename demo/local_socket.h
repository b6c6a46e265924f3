#pragma once
// A TCP socket between programs of one machine.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace shoal::demo {

/// On 127.0.0.1; no function waits. On Windows, requires that a net::Socket was opened before.
class LocalSocket {
public:
    LocalSocket() = default;
    LocalSocket(LocalSocket&& other) noexcept { *this = std::move(other); }
    LocalSocket& operator=(LocalSocket&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~LocalSocket() { close(); }

    /// Begins to connect. Returns false, and leaves the socket closed, if that failed already.
    bool connect(std::uint16_t port);
    /// Port 0 chooses a free port. Returns false, and leaves the socket closed, if the port cannot be used.
    bool listen(std::uint16_t port);
    /// Of a socket that listens: a new connection, or a closed socket if there is none.
    LocalSocket accept();
    /// Sends the beginning of `text`, as much as there is room for, and removes it. Returns false if the
    /// connection failed.
    bool send(std::string& text);
    /// Appends to `text` what has arrived, until it has `max_bytes`. Returns false if nothing more can
    /// arrive.
    bool receive(std::string& text, std::size_t max_bytes);

    std::uint16_t port() const;  // of this side; 0: closed
    bool is_open() const { return handle_ != kNone; }
    void close();

private:
    static constexpr std::intptr_t kNone = -1;
    bool open();
    std::intptr_t handle_ = kNone;
};

}  // namespace shoal::demo
