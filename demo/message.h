#pragma once
// The messages of a client. Name is reliable; of steer only the latest counts.
//
//   byte  name                    steer
//   0     'n'                     's'
//   1     1 to 16 bytes of text   a Direction
//
// Rejected: another first byte, another length, a direction that does not exist.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::demo {

enum class Direction : std::uint8_t { none, up, down, left, right };

std::vector<std::byte> write_name(std::string_view name);
std::vector<std::byte> write_steer(Direction direction);

/// Each function returns nothing if the message has another kind or is not valid. The name is printable().
std::optional<std::string> read_name(std::span<const std::byte> message);
std::optional<Direction> read_steer(std::span<const std::byte> message);

/// Replaces every byte that is not printable ASCII by '?', so that text from the network cannot control the
/// terminal.
std::string printable(std::string_view text);

}  // namespace shoal::demo
