#pragma once
// Brings a client that lost its connection back to its seat.

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "client.h"

namespace shoal::replication::impl {

struct ReconnectOptions {
    // New attempts begin for this long after the connection was lost. Use the server's
    // JoinOptions::resume_time. 0: no attempts.
    net::Duration time = std::chrono::seconds(30);
    net::Duration pause = std::chrono::seconds(1);  // least time from one attempt to the next
};

/// Calls Client::connect() again when the connection of a player was lost. If the server refuses the ticket,
/// because it was restarted or gave the seat away, the client joins as a new player. Uses no clock. Not
/// thread-safe. The client must outlive this object.
class Reconnect {
public:
    /// `look_up`: resolves the server's name again, or returns nothing. Called when an attempt to come back
    /// has failed, before the next one, because the server may have another address now.
    explicit Reconnect(Client& client, const ReconnectOptions& options = {},
                       std::function<std::optional<net::Servers>()> look_up = {})
        : client_(client), options_(options), look_up_(std::move(look_up)) {}

    /// Connects. `ticket`: the ticket of an earlier process, or empty.
    void start(const net::Servers& servers, std::span<const std::byte> ticket = {});

    /// Call it after each Client::update(). Returns false when it has given up: the time is over, or the
    /// client never had a seat, or Client::is_refused(). Client::failure() says why the last attempt failed.
    [[nodiscard]] bool update(net::Time now);

private:
    Client& client_;
    ReconnectOptions options_;
    std::function<std::optional<net::Servers>()> look_up_;
    std::optional<net::Servers> servers_;
    bool has_seat_ = false;          // the client has had a ticket since start()
    bool uses_ticket_ = false;       // the server has not accepted the ticket of the running attempt
    std::optional<net::Time> lost_;  // when the connection was lost; nothing while connected
    net::Time next_{0};              // no attempt before
    bool has_tried_ = false;         // since the connection was lost
};

}  // namespace shoal::replication::impl
