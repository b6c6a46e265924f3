#pragma once
// Limits the rate at which a server handles the messages of one player. Messages above the rate wait.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "../../net/endpoint.h"
#include "../action/action_wire.h"

namespace shoal::replication::impl {

/// Limits of the typed messages of each player. Messages above the rate wait, in order. A player is
/// disconnected if too many messages wait, or if for max_wait there was always a message that waited.
struct MessageLimits {
    double messages_per_s = 50;       // > 0
    double bytes_per_s = 16'000;      // > 0
    double burst_s = 2;               // a player who was silent may send what the rates allow in this
                                      // time at once; messages_per_s * burst_s >= 1
    std::uint32_t max_waiting = 256;  // messages
    std::uint32_t max_waiting_bytes = 64 * 1024;
    net::Duration max_wait = std::chrono::seconds(3);
};

/// One per player. Not thread-safe.
class MessageIntake {
public:
    struct Item {
        net::Channel channel = net::Channel::reliable;
        std::vector<std::byte> bytes;
        bool is_in_order = false;  // with actions and values
        Before before;
        net::Time arrived{0};
    };
    static constexpr net::Duration kLongestWait = std::chrono::milliseconds(500);  // for what comes before
    /// deliver: deliver the message now. wait: the message was moved, and take() returns it later. flood:
    /// disconnect the player.
    enum class Verdict : std::uint8_t { deliver, wait, flood };

    /// Call it when a message arrives. Moves it if it must wait. `must_wait`: for what comes before.
    Verdict arrive(const MessageLimits& limits, Item& message, bool must_wait);
    /// Moves the next message that the limits allow to `item`. Returns false if there is none.
    /// `has_run(item)`: whether what the client did before was handled; the message waits for it.
    bool take(const MessageLimits& limits, net::Time now, Item& item,
              const std::function<bool(const Item&)>& has_run = {});
    /// Returns whether for max_wait there was always a message that waited.
    bool is_flood(const MessageLimits& limits, net::Time now) const {
        return !waiting_.empty() && now - since_ >= limits.max_wait;
    }

    std::size_t waiting() const { return waiting_.size(); }
    std::size_t waiting_bytes() const { return waiting_bytes_; }

private:
    bool pay(const MessageLimits& limits, std::size_t bytes, net::Time now);

    std::vector<Item> waiting_;
    std::size_t waiting_bytes_ = 0;
    net::Time since_{0};  // start of the time during which there always were waiting messages
    // Messages and bytes that the rates allowed until paid_until_ and that were not used. bytes_ is negative
    // after a large message.
    double messages_ = 0, bytes_ = 0;
    net::Time paid_until_{0};
    bool is_new_ = true;
};

}  // namespace shoal::replication::impl
