#pragma once
// The messages of a schema: writes and reads them, and calls their handlers. WIRE.md specifies their bits.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../../net/endpoint.h"
#include "../codec/bits.h"
#include "player_id.h"
#include "struct_codec.h"

namespace shoal::replication {

/// How a message arrived.
struct MessageInfo {
    PlayerId from;  // on a server: the sender
    net::Channel channel = net::Channel::reliable;
    // On a client: an entity that the message names did not arrive in time; the reference is null.
    bool is_late = false;
};

/// What happened to typed messages since the server or client was made.
struct MessageStats {
    std::uint64_t delivered = 0;   // to handlers
    std::uint64_t unhandled = 0;   // there was no handler for their type
    std::uint64_t malformed = 0;   // each ended a connection
    std::uint64_t late = 0;        // client, of those delivered or unhandled: see MessageInfo
    std::uint64_t superseded = 0;  // client: sequenced ones that waited for an entity when a newer one came
    std::uint64_t deferred = 0;    // server: those that waited because of MessageLimits
    std::uint64_t floods = 0;      // server: players that were disconnected because of MessageLimits
};

/// The order in which a client gets messages of one channel. Messages of one stream keep their order; 0: the
/// message is in no order. Different keys of reliable messages can share a stream.
constexpr std::uint8_t stream_of(const net::Delivery& how) {
    if (how.channel == net::Channel::sequenced) return static_cast<std::uint8_t>(how.key);
    if (how.channel == net::Channel::unreliable || how.key == net::Delivery::kNoKey) return 0;
    return static_cast<std::uint8_t>(1 + how.key % 255);
}

/// Not thread-safe.
class TypedMessages {
public:
    /// A message as integers.
    struct Message {
        std::size_t type = 0;  // index in Schema::structs(StructKind::message)
        std::vector<std::uint32_t> words;
    };

    /// Schema and map must outlive it. The map translates references.
    TypedMessages(const Schema& schema, EntityMap& map) : schema_(schema), codec_(map) {
        types_.resize(types().size());
    }

    /// Replaces the handler of T. Do not call it in a handler.
    template <class T>
    void set_handler(std::function<void(const T&, const MessageInfo&)> handler) {
        const std::size_t type = schema_.require_struct<T>(StructKind::message);
        types_[type].value = std::make_unique<StructValue>(types()[type]);
        types_[type].handler = [fn = std::move(handler)](const void* value, const MessageInfo& info) {
            fn(*static_cast<const T*>(value), info);
        };
    }

    /// Appends the bits of a message, in whole bytes.
    template <class T>
    void write(const T& value, std::vector<std::byte>& out) {
        write(schema_.require_struct<T>(StructKind::message), &value, out);
    }

    /// Reads what write() wrote. Any bytes are safe: returns false, and counts them, if they are malformed.
    bool read(std::span<const std::byte> bytes, Message& message);

    /// Calls the handler of the message's type, if there is one. A handler must not call deliver().
    void deliver(const Message& message, const MessageInfo& info);

    const std::vector<SchemaStruct>& types() const { return schema_.structs(StructKind::message); }
    MessageStats& stats() { return stats_; }
    const MessageStats& stats() const { return stats_; }

private:
    struct Type {
        std::unique_ptr<StructValue> value;  // null: there is no handler
        std::function<void(const void* value, const MessageInfo&)> handler;
    };

    void write(std::size_t type, const void* value, std::vector<std::byte>& out);
    unsigned type_bits() const;

    const Schema& schema_;
    StructCodec codec_;
    std::vector<Type> types_;  // as types(), once a handler is set
    std::vector<std::uint32_t> words_;
    BitWriter bits_;
    MessageStats stats_;
};

}  // namespace shoal::replication
