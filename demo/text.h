#pragma once
// The message with which a client tells the name of its player, once. It is reliable.
//
//   byte  content
//   0     'n'
//   1     1 to 16 bytes of text
//
// Rejected: another first byte, another length.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::demo {

std::vector<std::byte> write_name(std::string_view name);

/// Returns nothing if the message is not valid. The name is printable().
std::optional<std::string> read_name(std::span<const std::byte> message);

/// Replaces every byte that is not printable ASCII by '?', so that text from the network cannot control the
/// terminal.
std::string printable(std::string_view text);

}  // namespace shoal::demo
