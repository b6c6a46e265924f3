#pragma once
// The format of a client's hello, and of the messages between server and client.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shoal::replication {

// Message, on any channel:
//   byte  bytes  field  meaning
//   0     1      kind   0: game; the game defines the bytes that follow
//                       1: rebase; client to server, reliable: the client needs full records of some slots
//   1     4 n    slots  rebase: n entity slots, little-endian
// A server ends the connection if a message is empty, its kind is unknown, or a rebase does not have 1 + 4 n
// bytes with n >= 1. A client ignores all messages that are not of kind 0.
enum class MessageKind : std::uint8_t { game = 0, rebase = 1 };

/// What a client says in its connection request:
///   byte  bytes  field      meaning
///   0     4      max_slots  little-endian, >= 1; the number of entity slots that the client can take
///   4     n      summary    Schema::summary()
struct Hello {
    std::uint32_t max_slots = 0;
    std::span<const std::byte> summary;
};
std::vector<std::byte> write_hello(const Hello& hello);
/// Returns nothing if the bytes are malformed. The result refers to `bytes`.
std::optional<Hello> read_hello(std::span<const std::byte> bytes);

}  // namespace shoal::replication
