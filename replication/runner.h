#pragma once
// Runs a server or a client in a program of its own: owns the socket, reads the key files and the clock, and
// contains the loop. Only this file of the library and net/socket/network_thread.h wait or read a clock.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../net/socket/bad_network.h"
#include "../net/socket/socket.h"
#include "client.h"
#include "reconnect.h"
#include "server.h"

namespace shoal::replication::impl {

struct ServerRunnerOptions {
    std::uint16_t port = 40'000;  // UDP, on all addresses; 0 picks a free one
    /// The server's private key. If the file does not exist, it is made, readable only by its owner. The
    /// public key is written beside it, with the extension .pub: clients need this file.
    std::string key_file = "server.key";
    double tick_hz = 60;  // ticks per second; > 0
    /// All other options. The runner itself sets host.key, host.seed, random_seed and sender.tick_hz.
    ServerOptions server = {};
};

struct ClientRunnerOptions {
    std::string server = "127.0.0.1:40000";  // host:port; the port may be missing
    std::string key_file = "server.pub";     // the server's public key
    double frame_hz = 60;                    // calls of each_frame per second; > 0
    ReconnectOptions reconnect = {};         // what to do when the connection is lost
    /// Where the ticket is kept while the player plays, readable only by its owner. If the program ends
    /// without leaving, its next start takes the player's seat back. Each running client needs a file of its
    /// own. Empty: the ticket is not kept.
    std::string ticket_file = {};
    /// Simulates a bad network in both directions between the client and the server, for tests of the game.
    std::optional<net::LinkConfig> bad_network = {};
    std::uint64_t bad_network_seed = 1;  // decides which datagrams are lost
    /// All other options. The runner itself sets net.server_key and net.seed.
    ClientOptions client = {};
};

/// Sends through a socket if there is one. Otherwise drops datagrams.
class RunnerSocket final : public net::Sink {
public:
    void send(const net::Address& to, std::span<const std::byte> datagram) override {
        if (socket) socket->send(to, datagram);
    }
    net::NetError error_to(const net::Address& to) const override {
        return socket ? socket->error_to(to) : net::NetError::none;
    }
    std::optional<net::Socket> socket;
};

/// If the set-up fails, error() says why and run() returns at once. Not thread-safe, except stop().
class ServerRunner {
public:
    /// World and listener must outlive the runner.
    ServerRunner(ecs::World& world, const Schema& schema, const ServerRunnerOptions& options,
                 ServerListener* listener = nullptr);

    Server& server() { return *server_; }
    /// The error of the set-up, in one line. Empty if there is none.
    const std::string& error() const { return error_; }
    /// The address of the socket, with its port. Empty if there is an error.
    std::optional<net::Address> address() const;

    /// In each tick calls each_tick(), where the game changes the world, and then Server::tick(). Ends when
    /// each_tick() returns false, or after stop(). At the end it waits up to 2 s until each client has the
    /// last tick, up to 1 s more until it has the last messages, then disconnects all clients. Returns the
    /// exit code of the program: 0, or 1 after printing error(). After a pause it runs the missed ticks at
    /// once, but at most one second of ticks.
    int run(const std::function<bool()>& each_tick = nullptr);
    /// For a game with its own loop, in place of run(): receives datagrams and runs the ticks that are due,
    /// with each_tick() as in run(). Never waits. Call it at least every 20 ms, and leave() at the end.
    /// Returns false if each_tick() did, after stop(), and if there is an error. Functions of the game that
    /// it calls must not call it: a debug build stops the program, otherwise the call has no effect.
    bool frame(const std::function<bool()>& each_tick = nullptr);
    /// Ends what frame() began, as run() does at its end. Takes up to 2.3 s.
    void leave();
    /// Ends run(). May be called by another thread, and by a signal handler.
    void stop() { is_stopped_ = true; }

private:
    Schema schema_;
    net::Duration period_;
    RunnerSocket socket_;
    std::string error_;
    std::unique_ptr<Server> server_;
    std::optional<net::Time> next_tick_;  // when the next tick is due
    bool is_in_frame_ = false;
    std::atomic<bool> is_stopped_ = false;
};

/// As ServerRunner, for a client.
class ClientRunner {
public:
    ClientRunner(ecs::World& world, const Schema& schema, const ClientRunnerOptions& options,
                 ClientListener* listener = nullptr);

    Client& client() { return *client_; }
    const Client& client() const { return *client_; }
    const std::string& error() const { return error_; }

    /// Connects. In each frame calls Client::update() and then each_frame(). When each_frame() returns false,
    /// or after stop(), disconnects and returns 0, as soon as the server has the last messages, at most 1 s
    /// later. If the connection is lost while the player plays, tries to come back, see ReconnectOptions;
    /// Client::phase() is not Phase::playing meanwhile. If there is an error, or the connection ends for
    /// good, prints the reason and returns 1.
    int run(const std::function<bool()>& each_frame = nullptr);
    /// For a game with its own loop, in place of run(): connects in the first call, receives datagrams, and
    /// calls Client::update(). Waits only to look up the server's name again, if it does not answer when the
    /// connection was lost. Call it at least every 20 ms, before drawing, and leave() at the
    /// end. Returns false if there is an error(), and when the connection has ended for good: then
    /// Client::failure() says why. As ServerRunner::frame(), not for functions that it calls.
    bool frame();
    /// Disconnects. Takes up to 1.3 s, so that the server gets the last messages and learns of it.
    void leave();
    void stop() { is_stopped_ = true; }

private:
    void receive_all();
    void update();
    void wait_until(net::Time time);
    void keep_ticket();

    Schema schema_;
    net::Duration period_;
    std::string ticket_file_;
    std::vector<std::byte> kept_ticket_;  // what the file has
    RunnerSocket socket_;
    std::optional<net::BadNetwork> network_;
    std::string error_;
    std::optional<net::Servers> servers_;
    std::unique_ptr<Client> client_;
    std::optional<Reconnect> reconnect_;
    bool has_started_ = false, is_in_frame_ = false;
    std::atomic<bool> is_stopped_ = false;
};

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::ClientRunner, impl::ClientRunnerOptions, impl::Reconnect, impl::ReconnectOptions,
    impl::ServerRunner, impl::ServerRunnerOptions;
}  // namespace shoal::replication
