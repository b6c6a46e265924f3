#include "local_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <winsock2.h>
#include <ws2tcpip.h>
#else
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#endif

namespace shoal::demo {
namespace {

#ifdef _WIN32
using LocalHandle = SOCKET;
using LocalLength = int;
using LocalSize = int;
constexpr int kNoSignal = 0;

bool is_pending() {
    const int code = WSAGetLastError();
    return code == WSAEWOULDBLOCK || code == WSAEINPROGRESS || code == WSAENOTCONN;
}
bool set_up(LocalHandle handle) {
    u_long on = 1;
    return ioctlsocket(handle, static_cast<long>(FIONBIO), &on) == 0;
}
void close_handle(LocalHandle handle) {
    closesocket(handle);
}
#else
using LocalHandle = int;
using LocalLength = socklen_t;
using LocalSize = std::size_t;
#ifdef MSG_NOSIGNAL
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;
#endif

/// Returns whether the last call may succeed later. On some systems a socket that still connects is "not
/// connected".
bool is_pending() {
    const int code = errno;
    return code == EAGAIN || code == EWOULDBLOCK || code == EINPROGRESS || code == ENOTCONN || code == EINTR;
}
bool set_up(LocalHandle handle) {
    const int on = 1;
    setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // a restarted server gets its port again
#ifdef SO_NOSIGPIPE
    setsockopt(handle, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    return fcntl(handle, F_SETFL, O_NONBLOCK) == 0 && fcntl(handle, F_SETFD, FD_CLOEXEC) == 0;
}
void close_handle(LocalHandle handle) {
    ::close(handle);
}
#endif

sockaddr_in local_address(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
}

}  // namespace

bool LocalSocket::open() {
    close();
    handle_ = static_cast<std::intptr_t>(::socket(AF_INET, SOCK_STREAM, 0));
    if (is_open() && !set_up(static_cast<LocalHandle>(handle_))) close();
    return is_open();
}

bool LocalSocket::connect(std::uint16_t port) {
    if (!open()) return false;
    const sockaddr_in to = local_address(port);
    const auto handle = static_cast<LocalHandle>(handle_);
    if (::connect(handle, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && !is_pending()) close();
    return is_open();
}

bool LocalSocket::listen(std::uint16_t port) {
    if (!open()) return false;
    const sockaddr_in at = local_address(port);
    const auto handle = static_cast<LocalHandle>(handle_);
    if (::bind(handle, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 || ::listen(handle, 8) != 0)
        close();
    return is_open();
}

LocalSocket LocalSocket::accept() {
    LocalSocket client;
    if (!is_open()) return client;
    client.handle_ =
        static_cast<std::intptr_t>(::accept(static_cast<LocalHandle>(handle_), nullptr, nullptr));
    if (client.is_open() && !set_up(static_cast<LocalHandle>(client.handle_))) client.close();
    return client;
}

bool LocalSocket::send(std::string& text) {
    if (!is_open()) return false;
    while (!text.empty()) {
        const auto sent = ::send(static_cast<LocalHandle>(handle_), text.data(),
                                 static_cast<LocalSize>(text.size()), kNoSignal);
        if (sent < 0) return is_pending();
        text.erase(0, static_cast<std::size_t>(sent));
    }
    return true;
}

bool LocalSocket::receive(std::string& text, std::size_t max_bytes) {
    if (!is_open()) return false;
    std::array<char, 1024> buffer;
    while (text.size() < max_bytes) {
        const std::size_t room = std::min(buffer.size(), max_bytes - text.size());
        const auto size =
            ::recv(static_cast<LocalHandle>(handle_), buffer.data(), static_cast<LocalSize>(room), 0);
        if (size <= 0) return size < 0 && is_pending();
        text.append(buffer.data(), static_cast<std::size_t>(size));
    }
    return true;
}

std::uint16_t LocalSocket::port() const {
    sockaddr_in own{};
    LocalLength length = sizeof own;
    const bool is_known = is_open() && getsockname(static_cast<LocalHandle>(handle_),
                                                   reinterpret_cast<sockaddr*>(&own), &length) == 0;
    return is_known ? ntohs(own.sin_port) : std::uint16_t{0};
}

void LocalSocket::close() {
    if (is_open()) close_handle(static_cast<LocalHandle>(handle_));
    handle_ = kNone;
}

}  // namespace shoal::demo
