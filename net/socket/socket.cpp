#include "socket.h"

#include <cerrno>
#include <new>

#ifdef _WIN32
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <winsock2.h>
#include <ws2tcpip.h>
// Must follow the headers above.
#include <mstcpip.h>
#ifndef SIO_UDP_CONNRESET
#define SIO_UDP_CONNRESET _WSAIOW(IOC_VENDOR, 12)
#endif
#ifdef _MSC_VER
#pragma comment(lib, "ws2_32.lib")
#endif
#else
#define __APPLE_USE_RFC_3542  // for IPV6_RECVPKTINFO
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/errqueue.h>
#endif
// The system reports the local address that a datagram came to, and can send from a chosen local address.
#if defined(IP_PKTINFO) && defined(IPV6_RECVPKTINFO)
#define SHOAL_HAS_LOCAL_ADDRESSES
#endif
#endif

namespace shoal::net::impl {
namespace {

#ifdef _WIN32
#define CODE(name) WSA##name  // the error code of Winsock for this value of errno

struct System {
    using Handle = SOCKET;
    using Length = int;
    using Size = int;

    static bool start() {
        static WSADATA data;
        static const bool is_started = WSAStartup(MAKEWORD(2, 2), &data) == 0;
        return is_started;
    }
    /// Also keeps other programs from binding this port, and turns off an error that receiving would report
    /// after a datagram was sent to a closed port.
    static bool set_non_blocking(Handle handle) {
        u_long on = 1;
        BOOL report_resets = FALSE;
        const BOOL is_exclusive = TRUE;
        DWORD ignored = 0;
        WSAIoctl(handle, SIO_UDP_CONNRESET, &report_resets, sizeof report_resets, nullptr, 0, &ignored,
                 nullptr, nullptr);
        return ioctlsocket(handle, static_cast<long>(FIONBIO), &on) == 0 &&
               setsockopt(handle, SOL_SOCKET, SO_EXCLUSIVEADDRUSE,
                          reinterpret_cast<const char*>(&is_exclusive), sizeof is_exclusive) == 0;
    }
    static void close(Handle handle) { closesocket(handle); }
    static int poll(pollfd* list, std::size_t count, int timeout_ms) {
        return WSAPoll(list, static_cast<ULONG>(count), timeout_ms);
    }
    static int last_code() { return WSAGetLastError(); }
};
#else
#define CODE(name) name

struct System {
    using Handle = int;
    using Length = socklen_t;
    using Size = std::size_t;

    static bool start() { return true; }
    static bool set_non_blocking(Handle handle) {
        const int flags = fcntl(handle, F_GETFL, 0);
        return flags >= 0 && fcntl(handle, F_SETFL, flags | O_NONBLOCK) == 0 &&
               fcntl(handle, F_SETFD, FD_CLOEXEC) == 0;
    }
    static void close(Handle handle) { ::close(handle); }
    static int poll(pollfd* list, std::size_t count, int timeout_ms) {
        return ::poll(list, static_cast<nfds_t>(count), timeout_ms);
    }
    static int last_code() { return errno; }
};
#endif

using Handle = System::Handle;
using Length = System::Length;
using LocalIp = decltype(Address::ip);

NetError error_of(int code) {
    const auto is_one_of = [code](auto... codes) { return ((code == codes) || ...); };
    if (is_one_of(CODE(EWOULDBLOCK), CODE(ENOBUFS), ENOMEM)) return NetError::would_block;
    if (is_one_of(CODE(EADDRINUSE))) return NetError::address_in_use;
    if (is_one_of(CODE(EADDRNOTAVAIL))) return NetError::not_here;
    if (is_one_of(CODE(EACCES), EPERM)) return NetError::permission;
    if (is_one_of(CODE(EINVAL))) return NetError::bad_address;
    if (is_one_of(CODE(EMSGSIZE))) return NetError::too_large;
    if (is_one_of(CODE(EAFNOSUPPORT), CODE(EPROTONOSUPPORT))) return NetError::unsupported;
    if (is_one_of(CODE(ECONNREFUSED), CODE(ECONNRESET))) return NetError::port_closed;
    if (is_one_of(CODE(ENETRESET), CODE(ENETUNREACH), CODE(EHOSTUNREACH), CODE(ENETDOWN), CODE(EHOSTDOWN)))
        return NetError::unreachable;
    return NetError::system;
}
NetError last_error() {
    return error_of(System::last_code());
}
/// Returns whether the error may belong to an earlier datagram.
bool is_about_peer(NetError error) {
    return error == NetError::unreachable || error == NetError::port_closed;
}
bool was_interrupted() {
    return System::last_code() == CODE(EINTR);
}

template <class T>
bool set_option(Handle handle, int level, int name, T value) {
    return setsockopt(handle, level, name, reinterpret_cast<const char*>(&value), sizeof value) == 0;
}

/// Some systems refuse a size that is too large instead of giving less: then half of it is tried, and so on.
void ask_for_buffer(Handle handle, int name, std::uint32_t bytes) {
    for (bytes = std::min(bytes, 1u << 30); bytes >= 4096; bytes /= 2)
        if (set_option(handle, SOL_SOCKET, name, static_cast<int>(bytes))) return;
}

/// Makes routers drop datagrams that are too long for the next hop. A dual-stack socket has the options of
/// both families; errors of unknown options are ignored.
void forbid_fragments(Handle handle) {
#if defined(IP_MTU_DISCOVER) && defined(IP_PMTUDISC_PROBE)
    set_option(handle, IPPROTO_IP, IP_MTU_DISCOVER, int{IP_PMTUDISC_PROBE});
    set_option(handle, IPPROTO_IPV6, IPV6_MTU_DISCOVER, int{IPV6_PMTUDISC_PROBE});
#else
#if defined(IP_DONTFRAGMENT)
    set_option(handle, IPPROTO_IP, IP_DONTFRAGMENT, 1);
#elif defined(IP_DONTFRAG)
    set_option(handle, IPPROTO_IP, IP_DONTFRAG, 1);
#endif
#if defined(IPV6_DONTFRAG)
    set_option(handle, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
#endif
#endif
}

/// Makes the system keep ICMP errors of sent datagrams, for Socket::take_report(). Returns whether it does.
bool ask_for_reports([[maybe_unused]] Handle handle, [[maybe_unused]] bool is_ipv6) {
#ifdef __linux__
    const bool of_ipv6 = is_ipv6 && set_option(handle, IPPROTO_IPV6, IPV6_RECVERR, 1);
    return set_option(handle, IPPROTO_IP, IP_RECVERR, 1) || of_ipv6;
#else
    return false;
#endif
}

/// Converts an address for a socket of `family`. Returns its length, or 0 if the socket cannot reach it.
Length to_system(const Address& address, Address::Family family, sockaddr_storage& out) {
    const bool is_ipv4 = address.family == Address::Family::ipv4;
    if (address.family == Address::Family::none || (family == Address::Family::ipv4 && !is_ipv4)) return 0;
    if (family == Address::Family::ipv4) {
        auto& ipv4 = *new (&out) sockaddr_in{};
        ipv4.sin_family = AF_INET;
        ipv4.sin_port = htons(address.port);
        std::memcpy(&ipv4.sin_addr, address.ip.data(), 4);
        return sizeof ipv4;
    }
    auto& ipv6 = *new (&out) sockaddr_in6{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(address.port);
    ipv6.sin6_scope_id = address.scope;
    auto* const ip = reinterpret_cast<std::uint8_t*>(&ipv6.sin6_addr);
    if (is_ipv4) ip[10] = ip[11] = 0xFF;
    std::memcpy(is_ipv4 ? ip + 12 : ip, address.ip.data(), is_ipv4 ? 4 : 16);
    return sizeof ipv6;
}

Address from_system(const sockaddr& in) {
    LocalIp ip{};
    if (in.sa_family == AF_INET) {
        const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(in);
        std::memcpy(ip.data(), &ipv4.sin_addr, 4);
        return {.ip = ip, .port = ntohs(ipv4.sin_port), .family = Address::Family::ipv4};
    }
    if (in.sa_family != AF_INET6) return {};
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(in);
    std::memcpy(ip.data(), &ipv6.sin6_addr, 16);
    return Address::ipv6(ip, ntohs(ipv6.sin6_port), static_cast<std::uint32_t>(ipv6.sin6_scope_id));
}

#ifdef SHOAL_HAS_LOCAL_ADDRESSES
/// The argument of sendmsg() and recvmsg(): one datagram, with control data for its local address.
struct Envelope {
    Envelope(std::span<const std::byte> datagram, sockaddr_storage& peer, Length length)
        : bytes{const_cast<std::byte*>(datagram.data()), datagram.size()} {  // sendmsg() only reads the bytes
        message.msg_name = &peer;
        message.msg_namelen = length;
        message.msg_iov = &bytes;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
    }
    void set_source(const LocalIp& ip, bool is_ipv4) {
        cmsghdr* const item = CMSG_FIRSTHDR(&message);
        item->cmsg_level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
        item->cmsg_type = is_ipv4 ? IP_PKTINFO : IPV6_PKTINFO;
        // The length without padding: for longer control data Linux allocates memory.
        item->cmsg_len = static_cast<Length>(CMSG_LEN(is_ipv4 ? sizeof(in_pktinfo) : sizeof(in6_pktinfo)));
        message.msg_controllen = item->cmsg_len;
        const std::size_t at =
            is_ipv4 ? offsetof(in_pktinfo, ipi_spec_dst) : offsetof(in6_pktinfo, ipi6_addr);
        std::memcpy(CMSG_DATA(item) + at, ip.data(), is_ipv4 ? 4 : 16);
    }
    /// Returns the local address that the datagram came to. Returns zeros if the system does not report it.
    LocalIp destination() {
        LocalIp ip{};
        const cmsghdr* const item = CMSG_FIRSTHDR(&message);
        if (item && item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_PKTINFO) {
            in_pktinfo info;
            std::memcpy(&info, CMSG_DATA(item), sizeof info);
            // On Linux ipi_spec_dst is the address to answer from, also for broadcasts.
            std::memcpy(ip.data(), info.ipi_spec_dst.s_addr ? &info.ipi_spec_dst : &info.ipi_addr, 4);
        } else if (item && item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_PKTINFO) {
            std::memcpy(ip.data(), CMSG_DATA(item) + offsetof(in6_pktinfo, ipi6_addr), ip.size());
        }
        return ip;
    }

    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(in6_pktinfo))] = {};
    iovec bytes;
    msghdr message{};
};
#endif

/// Returns the system's result. Sets `*came_to`, if not null, to the local address that the datagram came to.
auto receive_datagram(Handle handle, std::span<std::byte> buffer, sockaddr_storage& from,
                      [[maybe_unused]] LocalIp* came_to) {
#ifdef __linux__
    constexpr int kFlags = MSG_TRUNC;  // returns the true size of a datagram that was cut
#else
    constexpr int kFlags = 0;
#endif
    Length length = sizeof from;
#ifdef SHOAL_HAS_LOCAL_ADDRESSES
    if (came_to) {
        Envelope envelope(buffer, from, length);
        const auto size = ::recvmsg(handle, &envelope.message, kFlags);
        if (size >= 0) *came_to = envelope.destination();
        return size;
    }
#endif
    return ::recvfrom(handle, reinterpret_cast<char*>(buffer.data()),
                      static_cast<System::Size>(buffer.size()), kFlags, reinterpret_cast<sockaddr*>(&from),
                      &length);
}

/// `source`: the local address to send from; null: the system chooses.
bool send_datagram(Handle handle, std::span<const std::byte> datagram, sockaddr_storage& to, Length length,
                   [[maybe_unused]] const LocalIp* source) {
#ifdef SHOAL_HAS_LOCAL_ADDRESSES
    if (source) {
        Envelope envelope(datagram, to, length);
        envelope.set_source(*source, to.ss_family == AF_INET);
        return ::sendmsg(handle, &envelope.message, 0) >= 0;
    }
#endif
    return ::sendto(handle, reinterpret_cast<const char*>(datagram.data()),
                    static_cast<System::Size>(datagram.size()), 0, reinterpret_cast<const sockaddr*>(&to),
                    length) >= 0;
}

}  // namespace

Result<Socket> Socket::open(const Address& local, const SocketConfig& config) {
    if (local.family == Address::Family::none) return NetError::bad_address;
    if (!System::start()) return NetError::system;
    const bool is_ipv6 = local.family == Address::Family::ipv6;
    const Handle handle = ::socket(is_ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM, IPPROTO_UDP);
    if (handle == static_cast<Handle>(kNone)) return last_error();
    Socket result(static_cast<std::intptr_t>(handle), local.family);  // closes the handle on each error below
    if (!System::set_non_blocking(handle)) return last_error();
    // The wildcard is dual stack; a particular IPv6 address cannot be.
    const bool is_wildcard = local.ip == LocalIp{};
    if (is_ipv6 && !set_option(handle, IPPROTO_IPV6, IPV6_V6ONLY, is_wildcard ? 0 : 1)) return last_error();
    ask_for_buffer(handle, SO_RCVBUF, config.receive_buffer_bytes);
    ask_for_buffer(handle, SO_SNDBUF, config.send_buffer_bytes);
    if (!config.fragments) forbid_fragments(handle);
    result.is_dual_ = is_ipv6 && is_wildcard;
    result.takes_reports_ = local.port == 0 && ask_for_reports(handle, is_ipv6);
#ifdef SHOAL_HAS_LOCAL_ADDRESSES
    if (is_wildcard && (is_ipv6 ? set_option(handle, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
                                : set_option(handle, IPPROTO_IP, IP_PKTINFO, 1)))
        result.local_ = std::make_unique<LocalAddresses>();
#endif
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
    is_dual_ = other.is_dual_;
    takes_reports_ = other.takes_reports_;
    unsent_ = other.unsent_;
    returned_ = other.returned_;
    local_ = std::move(other.local_);
    stats_ = other.stats_;
    return *this;
}

void Socket::close() {
    if (handle_ != kNone) System::close(static_cast<Handle>(handle_));
}

Result<std::size_t> Socket::receive(std::span<std::byte> buffer, Address& from) {
    // A stranger's closed port appears as an error of this socket: each call skips at most 16 such errors.
    for (int attempt = 0; attempt < 16; ++attempt) {
        sockaddr_storage sender;
        LocalIp came_to{};
        const auto size =
            receive_datagram(static_cast<Handle>(handle_), buffer, sender, local_ ? &came_to : nullptr);
        const NetError error = size < 0 ? last_error() : NetError::none;
        // Windows reports a cut datagram as an error, Linux by its true size.
        const bool is_cut = (error == NetError::too_large && !takes_reports_) ||
                            (size > 0 && static_cast<std::size_t>(size) > buffer.size());
        if (size >= 0 || is_cut) {
            const std::size_t bytes = is_cut ? buffer.size() : static_cast<std::size_t>(size);
            stats_.received += 1;
            stats_.bytes_received += bytes;
            stats_.receive_cut += is_cut;
            from = from_system(reinterpret_cast<const sockaddr&>(sender));
            if (local_) from.local = local_->number_of(came_to);
            returned_.clear(from);
            return bytes;
        }
        const bool is_interrupted = was_interrupted();
        const bool is_reported = take_report();
        if (error == NetError::would_block && !is_reported) return error;
        if (is_reported || is_about_peer(error)) {
            stats_.receive_errors += 1;
        } else if (!is_interrupted) {
            stats_.receive_failed += 1;
            return error;
        }
    }
    return NetError::would_block;
}

/// Takes an error of an earlier datagram from the system. Returns false if there is none.
bool Socket::take_report() {
#ifdef __linux__
    if (!takes_reports_) return false;
    sockaddr_storage to{};
    alignas(cmsghdr) char control[256];
    msghdr message{};
    message.msg_name = &to;
    message.msg_namelen = sizeof to;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(static_cast<Handle>(handle_), &message, MSG_ERRQUEUE) < 0) return false;
    for (cmsghdr* item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
        const bool is_report = (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_RECVERR) ||
                               (item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_RECVERR);
        sock_extended_err report;
        if (!is_report) continue;
        std::memcpy(&report, CMSG_DATA(item), sizeof report);
        returned_.set(from_system(reinterpret_cast<const sockaddr&>(to)),
                      error_of(static_cast<int>(report.ee_errno)));
    }
    return true;
#else
    return false;
#endif
}

NetError Socket::error_to(const Address& to) const {
    const NetError unsent = unsent_.get(to);
    return unsent != NetError::none ? unsent : returned_.get(to);
}

NetError Socket::try_send(const Address& to, std::span<const std::byte> datagram) {
    sockaddr_storage receiver;
    const bool is_other_family =
        family_ == Address::Family::ipv6 && !is_dual_ && to.family == Address::Family::ipv4;
    const Length length = is_other_family ? 0 : to_system(to, family_, receiver);
    const LocalIp* source = local_ && to.local != 0 ? &local_->ips[to.local - 1u] : nullptr;
    NetError error = to.family == Address::Family::none ? NetError::bad_address : NetError::wrong_family;
    for (int attempt = 0; length > 0 && attempt < 3; ++attempt) {
        if (send_datagram(static_cast<Handle>(handle_), datagram, receiver, length, source)) {
            stats_.send_repeats += attempt > 0 && is_about_peer(error);
            unsent_.clear(to);
            stats_.sent += 1;
            stats_.bytes_sent += datagram.size();
            return NetError::none;
        }
        error = last_error();
        if (was_interrupted()) continue;
        // The error may belong to an earlier datagram, and this datagram was not sent: try again.
        if (is_about_peer(error) && attempt == 0) continue;
        // The machine may have lost the local address that the peer knows. Let the system choose another.
        const bool is_about_addresses =
            error == NetError::unreachable || error == NetError::not_here || error == NetError::bad_address;
        if (!is_about_addresses || !std::exchange(source, nullptr)) break;
    }
    count_unsent(error);
    if (error != NetError::would_block) unsent_.set(to, error);
    return error;
}

/// Returns the number of `ip`, which is added if new. Returns 0 if the table is full or `ip` is no host
/// address: the system then chooses the source address.
std::uint8_t Socket::LocalAddresses::number_of(const LocalIp& ip) {
    const auto end = ips.begin() + count;
    const auto found = std::find(ips.begin(), end, ip);
    if (found == end) {
        const bool is_host = ip != LocalIp{} && ip[0] != 0xFF;  // 0xFF: IPv6 multicast
        if (!is_host || count == ips.size()) return 0;
        *found = ip;
        count += 1;
    }
    return static_cast<std::uint8_t>(found - ips.begin() + 1);
}

void Socket::count_unsent(NetError reason) {
    const bool is_unreachable =
        is_about_peer(reason) || reason == NetError::bad_address || reason == NetError::wrong_family;
    std::uint64_t& count = reason == NetError::would_block  ? stats_.send_blocked
                           : is_unreachable                 ? stats_.send_unreachable
                           : reason == NetError::permission ? stats_.send_forbidden
                           : reason == NetError::too_large  ? stats_.send_too_large
                                                            : stats_.send_failed;
    count += 1;
}

Result<Address> Socket::local_address() const {
    sockaddr_storage storage;
    Length length = sizeof storage;
    if (::getsockname(static_cast<Handle>(handle_), reinterpret_cast<sockaddr*>(&storage), &length) != 0)
        return last_error();
    return from_system(reinterpret_cast<const sockaddr&>(storage));
}

bool wait_readable(std::span<const Socket* const> sockets, Duration at_most) {
    constexpr Duration kMax = std::chrono::hours(1);
    std::array<pollfd, 8> list{};
    assert(sockets.size() <= list.size());
    for (std::size_t i = 0; i < sockets.size(); ++i) {
        list[i].fd = static_cast<Handle>(sockets[i]->handle());
        list[i].events = POLLIN;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::clamp(at_most, Duration(0), kMax));
    return System::poll(list.data(), sockets.size(), static_cast<int>(left.count())) > 0;
}

Result<std::vector<Address>> resolve(std::string_view host_and_port, std::uint16_t default_port) {
    Result<Address> literal = Address::parse(host_and_port, default_port);
    if (literal) return std::vector<Address>{literal.value()};

    // Replaces the name by a literal, so that Address::parse reads the port.
    const std::string name(host_and_port.substr(0, host_and_port.find(':')));
    const std::string tail(host_and_port.substr(name.size()));
    Result<Address> port = Address::parse("0.0.0.0" + tail, default_port);
    if (!port || name.empty()) return NetError::bad_address;
    if (!System::start()) return NetError::system;
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* list = nullptr;
    if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return NetError::not_found;
    std::vector<Address> addresses;
    for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
        Address address = from_system(*entry->ai_addr);
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
    for (; count < max_datagrams; ++count) {
        const Result<std::size_t> size = socket.receive(buffer, from);
        if (!size) break;
        endpoint.receive(from, std::span<const std::byte>(buffer).first(size.value()), now);
    }
    return count;
}

}  // namespace shoal::net::impl
