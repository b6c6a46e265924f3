#pragma once
// What the state that clients decide needs on the wire beside its values. WIRE.md specifies the bits.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../schema/pending_id.h"
#include "../schema/schema.h"

namespace shoal::replication {

inline constexpr std::size_t kMaxOwnedValues = 256;  // in a payload
inline constexpr std::size_t kMaxRefusalBytes = 64;  // of a reason; longer ones are cut
inline constexpr unsigned kOwnedNetIdOrder = 2, kOwnedComponentOrder = 2, kOwnedCountOrder = 0;

/// The server did not take a value of a client.
struct OwnedRefusal {
    std::uint64_t packet = 0;  // that had the value
    std::uint32_t net_id = 0;
    ComponentIndex component = 0;
    std::string why;                   // may contain any bytes
    std::vector<std::uint32_t> words;  // the value that the server has
};
std::vector<std::byte> write_refusal(const Schema& schema, const OwnedRefusal& refusal);
/// Returns nothing if the message is none, or malformed.
std::optional<OwnedRefusal> read_refusal(const Schema& schema, std::span<const std::byte> message);

}  // namespace shoal::replication
