#pragma once
// What messages between server and client begin with.

#include <cstddef>
#include <cstdint>

namespace shoal::replication {

// Message, on any channel:
//   byte  bytes  field  meaning
//   0     1      kind   0: the game's, the rest is its own
//                       1: rebase, client to server, reliable: slots that the client cannot follow
//   1     4 n    slots  rebase: little-endian
// Rejected by a server: unknown kinds, a rebase of no or of broken slots: they end the connection.
// A client counts nothing and ignores what is not the game's.
enum class MessageKind : std::uint8_t { game = 0, rebase = 1 };

}  // namespace shoal::replication
