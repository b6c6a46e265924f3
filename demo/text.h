#pragma once
// Text that players wrote.

#include <string>
#include <string_view>

namespace shoal::demo {

/// Replaces every byte that is not printable ASCII by '?', so that text from the network cannot control the
/// terminal.
std::string printable(std::string_view text);
bool is_printable(std::string_view text);

}  // namespace shoal::demo
