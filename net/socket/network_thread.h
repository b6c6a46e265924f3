#pragma once
// A thread that receives and sends datagrams, for a game whose own thread is busy for long. It exists only if
// the game starts one. The endpoint runs on the game's thread.

#include <condition_variable>
#include <mutex>
#include <thread>

#include "socket.h"

namespace shoal::net::impl {

/// A bounded queue of datagrams without locks: one thread writes, another reads. Allocates at creation only.
class DatagramRing {
public:
    struct Slot {
        Address peer;
        Time time{0};
        std::uint16_t size = 0;
        std::array<std::byte, kMaxDatagramBytes + 1> bytes;  // one more byte, to notice longer datagrams
        std::span<const std::byte> datagram() const { return std::span(bytes).first(size); }
    };

    /// Rounds up to a power of two.
    explicit DatagramRing(std::size_t min_capacity)
        : slots_(std::bit_ceil((std::max<std::size_t>)(min_capacity, 1))) {}
    std::size_t capacity() const { return slots_.size(); }

    /// Writer: the slot to fill before commit(). Null: the ring is full.
    Slot* writable() {
        const std::size_t at = written_.load(std::memory_order_relaxed);
        const bool is_full = at - read_.load(std::memory_order_acquire) == slots_.size();
        return is_full ? nullptr : &slots_[at & (slots_.size() - 1)];
    }
    void commit() { written_.fetch_add(1, std::memory_order_release); }

    /// Reader: the oldest slot, valid until release(). Null: the ring is empty.
    Slot* readable() {
        const std::size_t at = read_.load(std::memory_order_relaxed);
        const bool is_empty = at == written_.load(std::memory_order_acquire);
        return is_empty ? nullptr : &slots_[at & (slots_.size() - 1)];
    }
    void release() { read_.fetch_add(1, std::memory_order_release); }

private:
    std::vector<Slot> slots_;
    // How many slots were written and read since creation. Each counter has its own cache line.
    alignas(64) std::atomic<std::size_t> written_{0};
    alignas(64) std::atomic<std::size_t> read_{0};
};

struct NetworkThreadConfig {
    std::size_t ring_datagrams = 1024;  // in each direction, 1.25 kB each; rounded up to a power of two
};

struct NetworkThreadStats {
    // Counted up to the last moment when the thread was idle:
    SocketStats socket;
    std::uint64_t receive_overflow = 0;  // dropped on arrival, because the ring is full
    // Counted up to now:
    std::uint64_t send_overflow = 0;  // dropped by send(): too large, or the ring is full
};

/// For the game's thread. A tick: receive_all(), the endpoint's update() and flush(), then flush() here.
class NetworkThread final : public Sink {
public:
    /// The new thread calls `clock`, which must return the game's time. Fails, and closes `socket`, if no
    /// loopback socket can be opened. std::thread throws if the system has no thread left.
    static Result<std::unique_ptr<NetworkThread>> start(Socket socket, std::function<Time()> clock,
                                                        const NetworkThreadConfig& config = {});
    ~NetworkThread() override { stop(); }

    /// Queues a copy. The thread sends it after the next flush() at the latest.
    void send(const Address& to, std::span<const std::byte> datagram) override;
    NetError error_to(const Address& to) const override { return socket_.error_to(to); }
    void flush();

    /// Passes at most `max_datagrams` received datagrams to `endpoint`, with their times of arrival, moved
    /// between the `now` of the last call and this one. Returns how many it passed.
    std::size_t receive_all(Endpoint& endpoint, Time now, std::size_t max_datagrams = 10'000);
    /// Blocks until a datagram can be received, or the time is over. Returns whether there is one.
    bool wait(Duration at_most);

    /// Sends the queued datagrams and joins the thread. receive_all() still returns datagrams that arrived
    /// before. A second call has no effect.
    void stop();

    Result<Address> local_address() const { return socket_.local_address(); }
    NetworkThreadStats stats() const;

private:
    NetworkThread(Socket socket, Socket bell, const Address& bell_address, std::function<Time()> clock,
                  const NetworkThreadConfig& config);
    // Called only by the network thread:
    void run();
    bool send_queued();
    NetError receive_arrived();
    void sleep(bool is_socket_broken);
    void show_stats();

    Socket socket_;
    Socket bell_;  // wakes the thread by a datagram to itself; works on every system
    Address bell_address_;
    std::function<Time()> clock_;
    DatagramRing arrived_, queued_;
    std::atomic<bool> is_asleep_{false};  // the thread sleeps or is about to: flush() must wake it
    std::atomic<bool> is_stopping_{false};
    std::atomic<bool> is_game_waiting_{false};  // set by wait(); the next arrival clears it and notifies
    std::uint64_t receive_overflow_ = 0;        // used only by the network thread
    std::uint64_t send_overflow_ = 0;           // used only by the game's thread
    Time newest_{0};                            // latest `now` of receive_all()
    mutable std::mutex mutex_;
    std::condition_variable arrival_;
    NetworkThreadStats shown_;  // what stats() returns; guarded by mutex_
    std::thread thread_;
};

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::NetworkThread, impl::NetworkThreadConfig, impl::NetworkThreadStats;
}  // namespace shoal::net
