#include "socket.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <mstcpip.h>
#include <winsock2.h>
#include <ws2tcpip.h>
#ifdef _MSC_VER
#pragma comment(lib, "ws2_32.lib")
#endif
#else
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace shoal::net {
namespace {

#ifdef _WIN32
using Handle = SOCKET;
using Length = int;

/// Started once per process, never stopped: the system cleans up.
bool start_system() {
    static const bool is_started = [] {
        WSADATA data;
        return WSAStartup(MAKEWORD(2, 2), &data) == 0;
    }();
    return is_started;
}
void close_handle(Handle handle) {
    closesocket(handle);
}

NetError last_error() {
    switch (WSAGetLastError()) {
        case WSAEWOULDBLOCK:
            return NetError::would_block;
        case WSAEADDRINUSE:
            return NetError::address_in_use;
        case WSAEACCES:
            return NetError::permission;
        case WSAEADDRNOTAVAIL:
            return NetError::bad_address;
        case WSAENETUNREACH:
        case WSAEHOSTUNREACH:
        case WSAENETRESET:
        case WSAECONNRESET:
            return NetError::unreachable;
        case WSAEMSGSIZE:
            return NetError::too_large;
        case WSAEAFNOSUPPORT:
        case WSAEPROTONOSUPPORT:
            return NetError::unsupported;
        default:
            return NetError::system;
    }
}
bool set_non_blocking(Handle handle) {
    u_long on = 1;
    // A closed port at some peer must not make receiving fail.
    BOOL report_resets = FALSE;
    DWORD ignored = 0;
    WSAIoctl(handle, SIO_UDP_CONNRESET, &report_resets, sizeof report_resets, nullptr, 0, &ignored, nullptr,
             nullptr);
    return ioctlsocket(handle, FIONBIO, &on) == 0;
}
#else
using Handle = int;
using Length = socklen_t;

bool start_system() {
    return true;
}
void close_handle(Handle handle) {
    ::close(handle);
}

NetError last_error() {
    switch (errno) {
        case EAGAIN:
#if EAGAIN != EWOULDBLOCK
        case EWOULDBLOCK:
#endif
        case ENOBUFS:
        case EINTR:
            return NetError::would_block;
        case EADDRINUSE:
            return NetError::address_in_use;
        case EACCES:
        case EPERM:
            return NetError::permission;
        case EADDRNOTAVAIL:
        case EINVAL:
            return NetError::bad_address;
        case ECONNREFUSED:
        case ENETUNREACH:
        case EHOSTUNREACH:
        case ENETDOWN:
            return NetError::unreachable;
        case EMSGSIZE:
            return NetError::too_large;
        case EAFNOSUPPORT:
        case EPROTONOSUPPORT:
            return NetError::unsupported;
        default:
            return NetError::system;
    }
}
bool set_non_blocking(Handle handle) {
    const int flags = fcntl(handle, F_GETFL, 0);
    return flags >= 0 && fcntl(handle, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(handle, F_SETFD, FD_CLOEXEC) == 0;
}
#endif

template <class T>
bool set_option(Handle handle, int level, int name, T value) {
    return setsockopt(handle, level, name, reinterpret_cast<const char*>(&value), sizeof value) == 0;
}

/// For a socket of `family`; an IPv6 socket reaches IPv4 by mapped addresses. 0 if it cannot.
Length to_system(const Address& address, Address::Family family, sockaddr_storage& out) {
    std::memset(&out, 0, sizeof out);
    if (family == Address::Family::ipv4) {
        if (address.family != Address::Family::ipv4) return 0;
        auto& ipv4 = reinterpret_cast<sockaddr_in&>(out);
        ipv4.sin_family = AF_INET;
        ipv4.sin_port = htons(address.port);
        std::memcpy(&ipv4.sin_addr, address.ip.data(), 4);
        return sizeof ipv4;
    }
    auto& ipv6 = reinterpret_cast<sockaddr_in6&>(out);
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(address.port);
    auto* const ip = reinterpret_cast<std::uint8_t*>(&ipv6.sin6_addr);
    if (address.family == Address::Family::ipv6) {
        ipv6.sin6_scope_id = address.scope;
        std::copy(address.ip.begin(), address.ip.end(), ip);
    } else if (address.family == Address::Family::ipv4) {
        ip[10] = ip[11] = 0xFF;
        std::copy_n(address.ip.begin(), 4, ip + 12);
    } else {
        return 0;
    }
    return sizeof ipv6;
}

Address from_system(const sockaddr_storage& in) {
    if (in.ss_family == AF_INET) {
        const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(in);
        std::array<std::uint8_t, 4> ip;
        std::memcpy(ip.data(), &ipv4.sin_addr, 4);
        return Address::ipv4(ip[0], ip[1], ip[2], ip[3], ntohs(ipv4.sin_port));
    }
    if (in.ss_family != AF_INET6) return {};
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(in);
    std::array<std::uint8_t, 16> ip;
    std::memcpy(ip.data(), &ipv6.sin6_addr, 16);
    return Address::ipv6(ip, ntohs(ipv6.sin6_port), static_cast<std::uint32_t>(ipv6.sin6_scope_id));
}

}  // namespace

Result<Socket> Socket::open(const Address& local, const SocketConfig& config) {
    if (local.family == Address::Family::none) return NetError::bad_address;
    if (!start_system()) return NetError::system;
    const bool is_ipv6 = local.family == Address::Family::ipv6;
    const Handle handle = ::socket(is_ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM, IPPROTO_UDP);
#ifdef _WIN32
    if (handle == INVALID_SOCKET) return last_error();
#else
    if (handle < 0) return last_error();
#endif
    Socket result(static_cast<std::intptr_t>(handle), local.family);  // closes on every way out
    if (!set_non_blocking(handle)) return last_error();
    // The wildcard is dual stack; a particular IPv6 address cannot be.
    const int only_ipv6 = local.ip == std::array<std::uint8_t, 16>{} ? 0 : 1;
    if (is_ipv6 && !set_option(handle, IPPROTO_IPV6, IPV6_V6ONLY, only_ipv6)) return last_error();
    set_option(handle, SOL_SOCKET, SO_RCVBUF, static_cast<int>(config.receive_buffer_bytes));
    set_option(handle, SOL_SOCKET, SO_SNDBUF, static_cast<int>(config.send_buffer_bytes));

    sockaddr_storage storage;
    const Length length = to_system(local, local.family, storage);
    if (::bind(handle, reinterpret_cast<const sockaddr*>(&storage), length) != 0) return last_error();
    return result;
}

Socket& Socket::operator=(Socket&& other) noexcept {
    if (this == &other) return *this;
    close();
    handle_ = std::exchange(other.handle_, kNone);
    family_ = other.family_;
    send_errors_ = other.send_errors_;
    return *this;
}

Socket::~Socket() {
    close();
}

Result<std::size_t> Socket::receive(std::span<std::byte> buffer, Address& from) {
    // A stranger's closed port shows up as an error of ours; skip a few, then come back later.
    for (int attempt = 0; attempt < 16; ++attempt) {
        sockaddr_storage storage;
        Length length = sizeof storage;
        const auto size = ::recvfrom(static_cast<Handle>(handle_), reinterpret_cast<char*>(buffer.data()),
#ifdef _WIN32
                                     static_cast<int>(buffer.size()),
#else
                                     buffer.size(),
#endif
                                     0, reinterpret_cast<sockaddr*>(&storage), &length);
        if (size >= 0) {
            from = from_system(storage);
            return static_cast<std::size_t>(size);
        }
        const NetError error = last_error();
        if (error == NetError::too_large) {  // Windows tells of cut datagrams in this way
            from = from_system(storage);
            return buffer.size();
        }
        if (error != NetError::unreachable) return error;
    }
    return NetError::would_block;
}

NetError Socket::try_send(const Address& to, std::span<const std::byte> datagram) {
    sockaddr_storage storage;
    const Length length = to_system(to, family_, storage);
    if (length == 0) return NetError::bad_address;
    const auto sent = ::sendto(static_cast<Handle>(handle_), reinterpret_cast<const char*>(datagram.data()),
#ifdef _WIN32
                               static_cast<int>(datagram.size()),
#else
                               datagram.size(),
#endif
                               0, reinterpret_cast<const sockaddr*>(&storage), length);
    return sent >= 0 ? NetError::none : last_error();
}

Result<Address> Socket::local_address() const {
    sockaddr_storage storage;
    Length length = sizeof storage;
    if (::getsockname(static_cast<Handle>(handle_), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
        return last_error();
    }
    return from_system(storage);
}

void Socket::close() {
    if (handle_ != kNone) close_handle(static_cast<Handle>(handle_));
    handle_ = kNone;
}

Result<std::vector<Address>> resolve(std::string_view host_and_port, std::uint16_t default_port) {
    Result<Address> literal = Address::parse(host_and_port, default_port);
    if (literal) return std::vector<Address>{literal.value()};

    // The name replaced by a literal, so that one parser knows what a port is.
    const std::size_t colon = host_and_port.find(':');
    const std::string name(host_and_port.substr(0, colon));
    const std::string tail(colon == host_and_port.npos ? std::string_view() : host_and_port.substr(colon));
    Result<Address> port = Address::parse("0.0.0.0" + tail, default_port);
    if (!port || name.empty()) return NetError::bad_address;
    if (!start_system()) return NetError::system;

    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* list = nullptr;
    if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return NetError::not_found;
    std::vector<Address> addresses;
    for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
        sockaddr_storage storage{};
        std::memcpy(&storage, entry->ai_addr, std::min(sizeof storage, std::size_t(entry->ai_addrlen)));
        Address address = from_system(storage);
        address.port = port.value().port;
        if (address.family != Address::Family::none) addresses.push_back(address);
    }
    ::freeaddrinfo(list);
    if (addresses.empty()) return NetError::not_found;
    return addresses;
}

std::size_t receive_all(Socket& socket, Endpoint& endpoint, Time now, std::size_t max_datagrams) {
    std::array<std::byte, kMaxDatagramBytes + 1> buffer;
    Address from;
    std::size_t count = 0;
    while (count < max_datagrams) {
        Result<std::size_t> size = socket.receive(buffer, from);
        if (!size) break;
        endpoint.receive(from, std::span<const std::byte>(buffer).first(size.value()), now);
        count += 1;
    }
    return count;
}

}  // namespace shoal::net
