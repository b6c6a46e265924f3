#pragma once
// The messages and the events of actions that a client received and has not delivered: one queue. They wait
// for the entities that they name, and for the state that they ask for.

#include <cstdint>
#include <optional>
#include <vector>

#include "../../net/endpoint.h"
#include "../action/client_actions.h"
#include "../receive/receiver.h"
#include "typed_messages.h"

namespace shoal::replication::impl {

/// Not thread-safe.
class MessageQueue {
public:
    static constexpr std::size_t kMaxMessages = 4'096;              // messages and events
    static constexpr std::size_t kMaxWords = std::size_t{1} << 18;  // 32-bit words of all of them together
    static constexpr net::Duration kLongestWait = std::chrono::milliseconds(500);

    /// All must outlive the queue. `actions` gets the events.
    MessageQueue(TypedMessages& messages, const Receiver& receiver, ClientActions* actions = nullptr)
        : messages_(messages), receiver_(receiver), actions_(actions) {}

    /// Adds a message. `bytes` is the message without its first byte. Returns false, and only counts the
    /// message, if it is malformed. If the queue is full, everything in it is delivered first.
    bool add(std::span<const std::byte> bytes, net::Channel channel);
    /// As add(), for a message with the event of an action. Returns false, without effect, if it is
    /// malformed. Events and the reliable messages with the default key are one stream.
    bool add_event(std::span<const std::byte> bytes);

    /// Delivers messages and events in the order of arrival. It leaves one in the queue that waits for an
    /// entity, for the state of its tick, or for an earlier one of its stream. An event also waits until
    /// `render_tick`, if there is one, reaches its tick. Nothing waits longer than kLongestWait. Handlers may
    /// change the world. A call of deliver() by a handler has no effect.
    void deliver(net::Time now, std::optional<Tick> render_tick = {}) { deliver_until(now, render_tick); }
    /// Delivers everything. If a handler calls this, it happens after the running call.
    void deliver_all() { deliver_until({}, {}); }
    /// Drops everything. Do not call it in a handler.
    void clear();

    /// Appends the net ids that the messages and events in the queue name.
    void append_named(std::vector<NetId>& net_ids) const;

    std::size_t size() const { return waiting_.size(); }
    /// The memory that messages and events take, roughly.
    std::size_t bytes() const { return words_ * sizeof(std::uint32_t) + waiting_.size() * sizeof(Waiting); }

private:
    struct Waiting {
        TypedMessages::Message message;
        bool is_event = false;
        ActionEvent event;  // if is_event: without its words, which `message` has
        net::Channel channel = net::Channel::reliable;
        std::uint8_t stream = 0;
        std::optional<net::Time> since;  // the first deliver() that could have delivered it
    };
    Waiting take_spare();
    void push(Waiting waiting);
    const SchemaStruct& type_of(const Waiting& waiting) const;
    template <class Visit>
    void for_each_named(const Waiting& waiting, Visit&& visit) const;
    bool is_ordered(const Waiting& waiting) const;
    bool is_early(const Waiting& waiting, std::optional<Tick> render_tick) const;
    bool lacks_entity(const Waiting& waiting) const;
    bool lacks_state(const Waiting& waiting) const;
    void deliver_until(std::optional<net::Time> now, std::optional<Tick> render_tick);
    void recycle(Waiting& waiting);

    TypedMessages& messages_;
    const Receiver& receiver_;
    ClientActions* actions_;
    std::vector<Waiting> waiting_;
    std::vector<Waiting> spare_;  // delivered messages, whose memory is used again
    std::size_t words_ = 0;       // 32-bit words of all messages in waiting_
    bool is_delivering_ = false;
    bool must_deliver_all_ = false;  // a handler called deliver_all()
};

}  // namespace shoal::replication::impl
