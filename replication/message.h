#pragma once
// The format of the messages between server and client.

#include <cstddef>
#include <cstdint>

namespace shoal::replication {

// Message, on any channel:
//   byte  bytes  field  meaning
//   0     1      kind   0: game; the game defines the rest
//                       1: rebase; client to server, reliable: slots whose baseline the client does not have
//   1     4 n    slots  rebase: n entity slots, little-endian
// A server ends the connection if the kind is unknown, or if a rebase has no slots or another length.
// A client ignores all messages that are not of kind 0.
enum class MessageKind : std::uint8_t { game = 0, rebase = 1 };

}  // namespace shoal::replication
