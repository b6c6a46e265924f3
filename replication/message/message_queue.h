#pragma once
// The messages that a client received and has not delivered. They wait for the entities that they name.

#include <cstdint>
#include <optional>
#include <vector>

#include "../../net/endpoint.h"
#include "../receive/receiver.h"
#include "entity_wait.h"
#include "typed_messages.h"

namespace shoal::replication {

/// Not thread-safe.
class MessageQueue {
public:
    static constexpr std::size_t kMaxMessages = 1'024;
    static constexpr std::size_t kMaxWords = std::size_t{1} << 20;  // 32-bit words of all messages together

    /// Both must outlive the queue.
    MessageQueue(TypedMessages& messages, const Receiver& receiver)
        : messages_(messages), receiver_(receiver) {}

    /// Adds a message. `bytes` is the message without its first byte. Returns false, and only counts the
    /// message, if it is malformed. If the queue is full, all its messages are delivered first.
    bool add(std::span<const std::byte> bytes, net::Channel channel);

    /// Delivers messages in the order of arrival, except those that wait for an entity or for an earlier
    /// message of their stream. Handlers may change the world. If a handler calls deliver(), this has no
    /// effect.
    void deliver(net::Time now);
    /// Delivers all messages. If a handler calls this, the messages are delivered after those of the running
    /// call.
    void deliver_all();
    /// Drops all messages. Do not call it in a handler.
    void clear();

    std::size_t size() const { return waiting_.size(); }

private:
    struct Waiting {
        TypedMessages::Message message;
        net::Channel channel = net::Channel::reliable;
        std::uint8_t stream = 0;
        EntityWait wait;
    };

    bool is_ordered(const Waiting& waiting) const;
    void deliver_until(std::optional<net::Time> now);
    void recycle(Waiting& waiting);

    TypedMessages& messages_;
    const Receiver& receiver_;
    std::vector<Waiting> waiting_;
    std::vector<Waiting> spare_;  // delivered messages, whose memory is used again
    std::size_t words_ = 0;       // 32-bit words of all messages in waiting_
    bool is_delivering_ = false;
    bool must_deliver_all_ = false;  // a handler called deliver_all()
};

}  // namespace shoal::replication
