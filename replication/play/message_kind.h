#pragma once
// The kinds of messages between server and client, and how the actions of a player are numbered. WIRE.md
// specifies the bytes.

#include <cstddef>
#include <cstdint>

namespace shoal::replication::impl {

/// First byte of a message between server and client.
enum class MessageKind : std::uint8_t {
    game = 0,            // the bytes that follow are the game's
    rebase = 1,          // from a client, reliable: it needs full records of some entity slots
    welcome = 2,         // from the server, reliable: the first message to each client
    typed = 3,           // a message of the schema, see message/typed_messages.h
    action_results = 4,  // from the server, reliable: the answers to the client's actions
    action_event = 5,    // from the server, reliable: the server or another player did an action
    gone = 6,            // from the server, reliable: see Gone
    ready = 7,           // from a client, reliable: the server can send state now
    player = 8,          // from the server, reliable: the client plays; names its player's entity
    refused_value = 12,  // from the server, reliable: it refused a value, see OwnedRefusal
    ticket = 24,         // from the server, reliable: lets a later connection take the player's seat
    model = 13,          // from the server, reliable: probabilities for the range coder, see NextModel
    has_model = 14,      // from a client, reliable: it has a model
    resumed = 25,        // from the server, reliable: this connection got the seat of its ticket
};

/// Second byte of a typed message from a client: its place among the client's actions.
enum class MessageOrder : std::uint8_t {
    in_order = 0,   // after actions that have all run, and before the later ones
    after = 1,      // as in_order, but after the actions that the message names
    unordered = 2,  // in no order with actions
};

/// The actions of one player are numbered in two streams. If an action of the ordered stream is rejected, the
/// later actions of this stream that the client called before it knew of the rejection are dropped. The
/// actions of the independent stream do not depend on each other.
enum class ActionStream : bool { ordered, independent };
inline constexpr std::size_t kActionStreams = 2;

}  // namespace shoal::replication::impl
