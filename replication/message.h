#pragma once
// The format of the messages between server and client.

#include <cstddef>
#include <cstdint>

namespace shoal::replication {

// Message, on any channel:
//   byte  bytes  field  meaning
//   0     1      kind   0: game; the game defines the bytes that follow
//                       1: rebase; client to server, reliable: the client needs full records of some slots
//   1     4 n    slots  rebase: n entity slots, little-endian
// A server ends the connection if a message is empty, its kind is unknown, or a rebase does not have 1 + 4 n
// bytes with n >= 1. A client ignores all messages that are not of kind 0.
enum class MessageKind : std::uint8_t { game = 0, rebase = 1 };

}  // namespace shoal::replication
