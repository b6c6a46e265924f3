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
#include "../play/player_id.h"
#include "../play/struct_codec.h"
#include "../schema/image.h"

namespace shoal::replication::all {

/// How a message arrived.
struct MessageInfo {
    PlayerId from;  // on a server: the sender
    net::Channel channel = net::Channel::reliable;
    // On a client: an entity that the message names did not arrive in time; the reference is null.
    bool is_late = false;
};

/// What happened to typed messages since the server or client was made.
struct MessageStats {
    std::uint64_t delivered = 0;   // messages given to a handler
    std::uint64_t unhandled = 0;   // messages of a type without a handler
    std::uint64_t malformed = 0;   // each ended a connection
    std::uint64_t late = 0;        // client: messages with is_late; each also counts in one of the first two
    std::uint64_t superseded = 0;  // client: sequenced messages replaced by a newer one while they waited
    std::uint64_t deferred = 0;    // server: messages that waited because of MessageLimits
    std::uint64_t lost = 0;        // server: messages that waited when their player's connection ended
    std::uint64_t not_queued = 0;  // messages that send() did not queue
    std::uint64_t floods = 0;      // server: players that were disconnected because of MessageLimits
    ComponentLayout::Misfits misfits;  // values of sent messages that did not fit their codecs
};

/// Returns the stream of a message within its channel. A client gets the messages of one stream in their
/// order; stream 0 has no order. Several keys of reliable messages can share a stream.
constexpr std::uint8_t stream_of(const net::Delivery& how) {
    if (how.channel == net::Channel::sequenced) return static_cast<std::uint8_t>(how.key);
    if (how.channel == net::Channel::unreliable || how.key == net::Delivery::kNoKey) return 0;
    return static_cast<std::uint8_t>(1 + how.key % 255);
}

/// Not thread-safe.
class TypedMessages {
public:
    /// A message as integers, see StructCodec.
    struct Message {
        std::size_t type = 0;  // index in Schema::structs(StructKind::message)
        std::vector<std::uint32_t> words;
        Tick tick = 0;  // on a client, of a type with_state(): the server's tick
    };

    /// Schema and map must outlive this object. The map translates references.
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

    /// Appends a message, padded to full bytes. `tick`: for a client, the server's tick; types with_state()
    /// contain it.
    template <class T>
    void write(const T& value, std::vector<std::byte>& out, std::optional<Tick> tick = {}) {
        write(schema_.require_struct<T>(StructKind::message), &value, out, tick);
    }
    /// Appends a message that write() wrote, with other words. Does not change written().
    void write_again(const Message& message, std::vector<std::byte>& out, std::optional<Tick> tick = {});
    /// The last written message.
    const Message& written() const { return written_; }

    /// Decodes what write() wrote. Returns false, and counts the message, if the bytes are malformed. Any
    /// bytes are safe. `has_tick`: the server has written the message.
    bool read(std::span<const std::byte> bytes, Message& message, bool has_tick = false);

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

    void write(std::size_t type, const void* value, std::vector<std::byte>& out, std::optional<Tick> tick);
    unsigned type_bits() const;

    const Schema& schema_;
    StructCodec codec_;
    std::vector<Type> types_;  // by the index in types()
    Message written_;
    BitWriter bits_;
    MessageStats stats_;
};

}  // namespace shoal::replication::all
