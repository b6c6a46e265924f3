#pragma once
// A thread that receives and sends for a game whose own thread is busy for longer than the network should
// wait. It exists only if the game makes one, and knows nothing but datagrams: the endpoint stays with the
// game.

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "socket.h"

namespace shoal::net {

/// A bounded queue of datagrams without locks: one thread writes, another one reads. All memory is made at
/// creation.
class DatagramRing {
public:
    struct Slot {
        Address peer;
        Time time{0};
        std::uint16_t size = 0;
        std::array<std::byte, kMaxDatagramBytes + 1> bytes;  // one more, so that what is too long shows
        std::span<const std::byte> datagram() const { return std::span(bytes).first(size); }
    };

    /// Rounds up to a power of two.
    explicit DatagramRing(std::size_t min_capacity)
        : slots_(std::bit_ceil(std::max<std::size_t>(min_capacity, 1))) {}
    std::size_t capacity() const { return slots_.size(); }

    /// Writer: the slot to fill, which commit() then hands over. Null: the ring is full.
    Slot* writable() {
        const std::size_t at = written_.load(std::memory_order_relaxed);
        const bool is_full = at - read_.load(std::memory_order_acquire) == slots_.size();
        return is_full ? nullptr : &slots_[at & (slots_.size() - 1)];
    }
    void commit() { written_.fetch_add(1, std::memory_order_release); }

    /// Reader: the oldest slot, until release() gives it back. Null: there is none.
    Slot* readable() {
        const std::size_t at = read_.load(std::memory_order_relaxed);
        const bool is_empty = at == written_.load(std::memory_order_acquire);
        return is_empty ? nullptr : &slots_[at & (slots_.size() - 1)];
    }
    void release() { read_.fetch_add(1, std::memory_order_release); }

private:
    std::vector<Slot> slots_;
    // Counts of slots since the beginning, modulo 2^64; a cache line each.
    alignas(64) std::atomic<std::size_t> written_{0};
    alignas(64) std::atomic<std::size_t> read_{0};
};

struct NetworkThreadConfig {
    std::size_t ring_datagrams = 1024;  // each way, 1.25 kB each; rounded up to a power of two
};

struct NetworkThreadStats {
    // As of the last time that the thread had nothing to do:
    SocketStats socket;
    std::uint64_t receive_overflow = 0;  // dropped on arrival: the game had not fetched what came before
    // As of now:
    std::uint64_t send_overflow = 0;  // dropped by send: the ring is full, or > kMaxDatagramBytes
};

/// All functions are for one thread, the game's. A tick: receive_all(), update(), the endpoint's flush(),
/// then flush() here.
class NetworkThread final : public Sink {
public:
    /// `clock` is called on the new thread, and must count as the game's own time does. Fails when the
    /// system has no loopback; `socket` is closed then. When it has no thread, std::thread throws, just as
    /// new does when it has no memory.
    static Result<std::unique_ptr<NetworkThread>> start(Socket socket, std::function<Time()> clock,
                                                        const NetworkThreadConfig& config = {});
    /// Stops.
    ~NetworkThread() override;

    /// Queues a copy. It leaves at the next flush() at the latest.
    void send(const Address& to, std::span<const std::byte> datagram) override;
    void flush();

    /// Feeds `endpoint` what has arrived, at most `max_datagrams`, with the times of arrival; but none
    /// earlier than the last call's `now` nor later than this one's, so that its time never goes backwards.
    /// Returns how many.
    std::size_t receive_all(Endpoint& endpoint, Time now, std::size_t max_datagrams = 10'000);
    /// Blocks until there is something to receive, or the time is over. Returns whether there is.
    bool wait(Duration at_most);

    /// Sends what was queued, ends the thread and waits for its end. From then on nothing arrives or leaves;
    /// what has arrived can still be fetched. Again: no effect.
    void stop();

    /// The socket's.
    Result<Address> local_address() const { return socket_.local_address(); }
    NetworkThreadStats stats() const;

private:
    NetworkThread(Socket socket, Socket bell, const Address& bell_address, std::function<Time()> clock,
                  const NetworkThreadConfig& config);
    // On the thread:
    void run();
    bool send_queued();
    NetError receive_arrived();
    void sleep(bool is_socket_broken);
    void show_stats();

    Socket socket_;
    Socket bell_;  // wakes the thread by a datagram to itself: works on every system
    Address bell_address_;
    std::function<Time()> clock_;
    DatagramRing arrived_, queued_;
    std::atomic<bool> is_asleep_{false};  // or about to be: ring the bell
    std::atomic<bool> is_stopping_{false};
    std::atomic<bool> is_game_waiting_{false};  // or was: notify it
    std::uint64_t receive_overflow_ = 0;        // the thread's
    std::uint64_t send_overflow_ = 0;           // the game's
    Time newest_{0};                            // that an endpoint was told
    mutable std::mutex mutex_;
    std::condition_variable arrival_;
    NetworkThreadStats shown_;  // under the mutex
    std::thread thread_;
};

}  // namespace shoal::net
