#include "network_thread.h"

namespace shoal::net::impl {
namespace {

constexpr Duration kPatience = std::chrono::milliseconds(100);  // longest sleep of the thread
constexpr int kTurn = 256;  // most datagrams received before the thread sends again

}  // namespace

Result<std::unique_ptr<NetworkThread>> NetworkThread::start(Socket socket, std::function<Time()> clock,
                                                            const NetworkThreadConfig& config) {
    constexpr SocketConfig kSmall{.receive_buffer_bytes = 1 << 14, .send_buffer_bytes = 1 << 14};
    Result<Socket> bell = Socket::open(Address::ipv4(127, 0, 0, 1, 0), kSmall);
    if (!bell) return bell.error();
    Result<Address> address = bell.value().local_address();
    if (!address) return address.error();
    std::unique_ptr<NetworkThread> result(new NetworkThread(std::move(socket), std::move(bell.value()),
                                                            address.value(), std::move(clock), config));
    result->thread_ = std::thread([thread = result.get()] { thread->run(); });
    return result;
}

NetworkThread::NetworkThread(Socket socket, Socket bell, const Address& bell_address,
                             std::function<Time()> clock, const NetworkThreadConfig& config)
    : socket_(std::move(socket)),
      bell_(std::move(bell)),
      bell_address_(bell_address),
      clock_(std::move(clock)),
      arrived_(config.ring_datagrams),
      queued_(config.ring_datagrams) {}

void NetworkThread::send(const Address& to, std::span<const std::byte> datagram) {
    DatagramRing::Slot* const slot = queued_.writable();
    if (!slot || datagram.size() > kMaxDatagramBytes) return void(send_overflow_ += 1);
    slot->peer = to;
    slot->size = static_cast<std::uint16_t>(datagram.size());
    std::copy(datagram.begin(), datagram.end(), slot->bytes.begin());
    queued_.commit();
}

// flush() and sleep() both exchange is_asleep_, one after the other. If sleep() was first, flush() reads true
// and wakes the thread. If flush() was first, sleep() sees the datagrams queued before flush(): if there is
// one, the thread does not sleep.
void NetworkThread::flush() {
    if (is_asleep_.exchange(false, std::memory_order_acq_rel)) bell_.send(bell_address_, {});
}

std::size_t NetworkThread::receive_all(Endpoint& endpoint, Time now, std::size_t max_datagrams) {
    now = std::max(now, newest_);
    std::size_t count = 0;
    for (; count < max_datagrams; ++count) {
        const DatagramRing::Slot* const slot = arrived_.readable();
        if (!slot) break;
        endpoint.receive(slot->peer, slot->datagram(), std::clamp(slot->time, newest_, now));
        arrived_.release();
    }
    newest_ = now;
    return count;
}

bool NetworkThread::wait(Duration at_most) {
    constexpr Duration kMax = std::chrono::hours(1);
    std::unique_lock lock(mutex_);
    return arrival_.wait_for(lock, std::clamp(at_most, Duration(0), kMax), [this] {
        if (arrived_.readable() != nullptr) return true;
        // The network thread exchanges is_game_waiting_ after it stored a datagram. If this exchange is
        // first, the thread reads true and notifies; otherwise readable() below sees the datagram.
        is_game_waiting_.exchange(true, std::memory_order_acq_rel);
        return arrived_.readable() != nullptr;
    });
}

void NetworkThread::stop() {
    if (!thread_.joinable()) return;
    is_stopping_.store(true, std::memory_order_release);
    bell_.send(bell_address_, {});
    thread_.join();
}

NetworkThreadStats NetworkThread::stats() const {
    const std::lock_guard lock(mutex_);
    NetworkThreadStats result = shown_;
    result.send_overflow = send_overflow_;
    return result;
}

void NetworkThread::run() {
    for (;;) {
        // Reads is_stopping_ before it sends: datagrams queued before stop() must be sent.
        const bool is_stopping = is_stopping_.load(std::memory_order_acquire);
        const bool has_sent = send_queued();
        if (is_stopping) break;
        const NetError error = receive_arrived();
        if (error != NetError::none && !has_sent) sleep(error != NetError::would_block);
    }
    show_stats();
}

/// Sends all queued datagrams. Returns whether there was one.
bool NetworkThread::send_queued() {
    bool has_sent = false;
    while (const DatagramRing::Slot* const slot = queued_.readable()) {
        socket_.send(slot->peer, slot->datagram());
        queued_.release();
        has_sent = true;
    }
    return has_sent;
}

/// Receives up to kTurn datagrams. Returns NetError::none after kTurn datagrams: more may be left. Otherwise
/// returns why it stopped: NetError::would_block if no datagram is left, or the error of the socket.
NetError NetworkThread::receive_arrived() {
    DatagramRing::Slot overflow;  // takes datagrams for which the ring has no room
    for (int turn = 0; turn < kTurn; ++turn) {
        DatagramRing::Slot* const room = arrived_.writable();
        DatagramRing::Slot& slot = room ? *room : overflow;
        Result<std::size_t> size = socket_.receive(slot.bytes, slot.peer);
        if (!size) return size.error();
        if (!room) {
            receive_overflow_ += 1;
            continue;
        }
        slot.size = static_cast<std::uint16_t>(size.value());
        slot.time = clock_();
        arrived_.commit();
        if (is_game_waiting_.exchange(false, std::memory_order_acq_rel)) {
            const std::lock_guard lock(mutex_);  // wait() holds mutex_ until it waits for arrival_
            arrival_.notify_one();
        }
    }
    return NetError::none;
}

void NetworkThread::sleep(bool is_socket_broken) {
    show_stats();
    is_asleep_.exchange(true, std::memory_order_acq_rel);
    if (queued_.readable() == nullptr && !is_stopping_.load(std::memory_order_acquire)) {
        const std::array<const Socket*, 2> both = {&bell_, &socket_};
        wait_readable(std::span(both).first(is_socket_broken ? 1 : 2), kPatience);
    }
    is_asleep_.exchange(false, std::memory_order_acq_rel);
    std::array<std::byte, 1> nothing;
    Address ringer;
    while (bell_.receive(nothing, ringer)) continue;
}

void NetworkThread::show_stats() {
    const std::lock_guard lock(mutex_);
    shown_.socket = socket_.stats();
    shown_.receive_overflow = receive_overflow_;
}

}  // namespace shoal::net::impl
