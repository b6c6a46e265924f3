#pragma once
// A thread that receives and sends for a game whose own thread is busy for longer than the network should
// wait. It exists only if the game makes one, and knows nothing but datagrams: the endpoint stays with the
// game.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "../endpoint.h"
#include "datagram_ring.h"
#include "socket.h"

namespace shoal::net {

struct NetworkThreadConfig {
    std::size_t ring_datagrams = 1024;  // each way, 1.25 kB each; rounded up to a power of two
};

struct NetworkThreadStats {
    SocketStats socket;                  // as of the last time that the thread had nothing to do
    std::uint64_t receive_overflow = 0;  // dropped on arrival: the game had not fetched what came before
    std::uint64_t send_overflow = 0;     // dropped by send: the ring is full, or > kMaxDatagramBytes
};

/// All functions are for one thread, the game's. A tick: receive_all(), update(), the endpoint's flush(), then
/// flush() here.
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
    void announce_arrival();
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
    std::atomic<std::uint64_t> receive_overflow_{0};
    std::uint64_t send_overflow_ = 0;
    Time newest_{0};  // that an endpoint was told
    mutable std::mutex mutex_;
    std::condition_variable arrival_;
    SocketStats shown_;  // under the mutex
    std::thread thread_;
};

}  // namespace shoal::net
