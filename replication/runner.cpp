#include "runner.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>

#include "../net/socket/key_file.h"
#include "../net/socket/system_random.h"

namespace shoal::replication::impl {
namespace {

using namespace std::chrono_literals;

constexpr net::Duration kPollPeriod = 10ms;  // acks do not wait for the next tick
constexpr net::Duration kMaxCaughtUp = 1s;
constexpr net::Duration kSettling = 2s;     // most time in which clients get the last tick
constexpr net::Duration kDelivery = 1s;     // most time in which the other side gets the last messages
constexpr net::Duration kGoodbyes = 300ms;  // longer than disconnect packets are repeated
constexpr std::uint16_t kDefaultPort = 40'000;

net::Time now() {
    return std::chrono::duration_cast<net::Time>(std::chrono::steady_clock::now().time_since_epoch());
}

net::Duration period_of(double hz) {
    assert(hz > 0);
    return std::chrono::duration_cast<net::Duration>(std::chrono::duration<double>(1 / hz));
}

void wait(const RunnerSocket& socket, net::Time until) {
    const net::Duration left = until - now();
    if (left > 0us) net::wait_readable(*socket.socket, left);
}

/// Opens a socket on all addresses. Returns why it cannot, or nothing.
std::string open(RunnerSocket& socket, std::uint16_t port) {
    net::Result<net::Socket> opened = net::Socket::open(net::Address::any(port));
    if (!opened && opened.error() == net::NetError::unsupported)
        opened = net::Socket::open(net::Address::any_ipv4(port));
    if (!opened)
        return "cannot open UDP port " + std::to_string(port) + ": " +
               std::string(net::describe(opened.error()));
    socket.socket.emplace(std::move(opened.value()));
    return {};
}

/// Prints one line. The text may come from the network.
int fail(std::string text) {
    for (char& c : text)
        if (c < ' ' || c > '~') c = '?';
    std::fprintf(stderr, "%s\n", text.c_str());
    return 1;
}

/// Returns the bytes of a file, or of its beginning; none if it cannot be read.
std::vector<std::byte> read_bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    char bytes[Ticket::kBytes + 1];
    file.read(bytes, sizeof bytes);
    const std::span<const std::byte> read = std::as_bytes(std::span(bytes));
    return {read.begin(), read.begin() + file.gcount()};
}

/// Sets the keys of the options. Returns why it cannot, or nothing.
std::string find_keys(const std::string& key_file, ServerOptions& options) {
    std::uint64_t random = 0;
    if (!net::fill_random(options.host.seed) ||
        !net::fill_random(std::as_writable_bytes(std::span(&random, 1))))
        return "the system has no random bytes";
    options.random_seed = random;
    if (options.host.security == net::Security::insecure) return {};
    const std::string path = std::filesystem::path(key_file).replace_extension(".pub").string();
    if (path == key_file) return "the key file " + key_file + " needs another extension than .pub";
    auto [key, why] = net::load_or_make_private_key(key_file);
    if (!key) return why;
    options.host.key = *key;
    return net::write_public_key(path, net::public_key(*key)) ? "" : "cannot write " + path;
}

}  // namespace

ServerRunner::ServerRunner(ecs::World& world, const Schema& schema, const ServerRunnerOptions& options,
                           ServerListener* listener)
    : schema_(schema), period_(period_of(options.tick_hz)), error_(open(socket_, options.port)) {
    ServerOptions of_server = options.server;
    of_server.sender.tick_hz = options.tick_hz;
    if (error_.empty()) error_ = find_keys(options.key_file, of_server);
    if (!error_.empty()) {  // the server never runs, but the game can prepare it
        of_server.host.security = net::Security::insecure;
        of_server.host.seed = net::Seed{std::byte(1)};
    }
    server_ = std::make_unique<Server>(world, schema_, socket_, of_server, listener);
}

std::optional<net::Address> ServerRunner::address() const {
    if (!error_.empty()) return std::nullopt;
    net::Result<net::Address> local = socket_.socket->local_address();
    return local ? std::optional(local.value()) : std::nullopt;
}

int ServerRunner::run(const std::function<bool()>& each_tick) {
    if (!error_.empty()) return fail(error_);
    while (frame(each_tick)) wait(socket_, std::min(*next_tick_, now() + kPollPeriod));
    leave();
    return 0;
}

bool ServerRunner::frame(const std::function<bool()>& each_tick) {
    if (!error_.empty()) return false;
    assert(!is_in_frame_ && "a function of the game called frame()");
    if (is_in_frame_) return true;
    const ecs::impl::AtEnd ends{[&] { is_in_frame_ = false; }};
    is_in_frame_ = true;
    const net::Time due = now();
    if (!next_tick_) next_tick_ = due;
    while (!is_stopped_ && *next_tick_ <= due) {
        if (each_tick && !each_tick()) return false;
        const net::Time time = now();
        net::receive_all(*socket_.socket, server_->host(), time);
        server_->tick(time);
        next_tick_ = std::max(*next_tick_, time - kMaxCaughtUp) + period_;
    }
    net::receive_all(*socket_.socket, server_->host(), now());
    server_->poll(now());
    return !is_stopped_;
}

void ServerRunner::leave() {
    if (!error_.empty()) return;
    const auto serve = [&](net::Time end, auto&& is_done, auto&& step) {
        while (!is_done() && now() < end) {
            step();
            wait(socket_, now() + kPollPeriod);
            net::receive_all(*socket_.socket, server_->host(), now());
        }
    };
    serve(
        now() + kSettling, [&] { return server_->is_settled(); }, [&] { server_->resend(now()); });
    server_->host().shut_down("the server ends", now(), kDelivery);
    serve(
        now() + kDelivery + kGoodbyes, [&] { return server_->host().is_idle(); },
        [&] { server_->poll(now()); });
}

ClientRunner::ClientRunner(ecs::World& world, const Schema& schema, const ClientRunnerOptions& options,
                           ClientListener* listener)
    : schema_(schema),
      period_(period_of(options.frame_hz)),
      ticket_file_(options.ticket_file),
      error_(open(socket_, 0)) {
    ClientOptions of_client = options.client;
    if (error_.empty() && !net::fill_random(of_client.net.seed)) error_ = "the system has no random bytes";
    if (error_.empty() && of_client.net.security == net::Security::sealed) {
        const auto [key, why] = net::read_public_key(options.key_file);
        if (key) of_client.net.server_key = *key;
        error_ = why;
    }
    if (error_.empty()) {
        net::Result<std::vector<net::Address>> found = net::resolve(options.server, kDefaultPort);
        if (found) {
            servers_ = found.value();
        } else {
            error_ = "no address of the server '" + options.server +
                     "': " + std::string(net::describe(found.error()));
        }
    }
    if (options.bad_network) network_.emplace(socket_, *options.bad_network, options.bad_network_seed);
    net::Sink& sink = network_ ? static_cast<net::Sink&>(*network_) : socket_;
    client_ = std::make_unique<Client>(world, schema_, sink, of_client, listener);
    reconnect_.emplace(*client_, options.reconnect, [name = options.server] {
        const net::Result<std::vector<net::Address>> found = net::resolve(name, kDefaultPort);
        return found ? std::optional<net::Servers>(found.value()) : std::nullopt;
    });
}

int ClientRunner::run(const std::function<bool()>& each_frame) {
    if (!error_.empty()) return fail(error_);
    for (net::Time next = now(); !is_stopped_;) {
        if (!frame()) return fail(client_->failure());
        if (now() >= next) {
            if (each_frame && !each_frame()) break;
            next = std::max(next + period_, now() - period_);
        }
        wait_until(next);
    }
    leave();
    return 0;
}

bool ClientRunner::frame() {
    if (!error_.empty()) return false;
    assert(!is_in_frame_ && "a function of the game called frame()");
    if (is_in_frame_) return true;
    const ecs::impl::AtEnd ends{[&] { is_in_frame_ = false; }};
    is_in_frame_ = true;
    if (!std::exchange(has_started_, true)) {
        if (!ticket_file_.empty()) kept_ticket_ = read_bytes(ticket_file_);
        reconnect_->start(*servers_, kept_ticket_);
    }
    receive_all();
    update();
    keep_ticket();
    return reconnect_->update(now());
}

void ClientRunner::receive_all() {
    if (network_) {
        network_->receive_all(*socket_.socket, client_->endpoint(), now());
    } else {
        net::receive_all(*socket_.socket, client_->endpoint(), now());
    }
}

void ClientRunner::update() {
    client_->update(now());
    if (network_) network_->flush(now());
}

/// Waits at most kPollPeriod.
void ClientRunner::wait_until(net::Time time) {
    time = std::min(time, now() + kPollPeriod);
    wait(socket_, network_ ? network_->next_due(time) : time);
}

void ClientRunner::keep_ticket() {
    if (ticket_file_.empty()) return;
    const std::vector<std::byte> ticket = client_->ticket();
    if (ticket == kept_ticket_) return;
    kept_ticket_ = ticket;
    std::error_code ignored;
    if (ticket.empty()) {
        std::filesystem::remove(ticket_file_, ignored);
    } else if (!net::write_private(ticket_file_,
                                   {reinterpret_cast<const char*>(ticket.data()), ticket.size()})) {
        fail("cannot write " + ticket_file_);
        ticket_file_.clear();
    }
}

void ClientRunner::leave() {
    if (!error_.empty()) return;
    client_->disconnect(now(), kDelivery);
    for (const net::Time end = now() + kDelivery + kGoodbyes;
         !client_->endpoint().is_idle() && now() < end;) {
        update();
        wait_until(end);
        receive_all();
    }
    keep_ticket();
}

}  // namespace shoal::replication::impl
