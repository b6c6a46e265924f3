#pragma once
// Messages of the server about values that clients send for components with from_owner(), and the limits of
// such values.
// WIRE.md specifies the bits.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../schema/pending_id.h"
#include "../schema/schema.h"

namespace shoal::replication::all {

inline constexpr std::size_t kMaxOwnedValues = 256;  // most values in one payload
inline constexpr std::size_t kMaxRefusalBytes = 64;  // size of a reason; a longer one is cut
// Orders of Golomb codes, see BitWriter::write_golomb().
inline constexpr unsigned kOwnedNetIdOrder = 2, kOwnedComponentOrder = 2, kOwnedCountOrder = 0;

/// The server refuses a value of a client.
struct OwnedRefusal {
    std::uint64_t packet = 0;  // number of the client's packet with the value
    std::uint32_t net_id = 0;
    ComponentIndex component = 0;
    std::string why;                   // may contain any bytes
    std::vector<std::uint32_t> words;  // the value that the server has
};
std::vector<std::byte> write_refusal(const Schema& schema, const OwnedRefusal& refusal);
/// Returns nothing if the message has another kind, or is malformed.
std::optional<OwnedRefusal> read_refusal(const Schema& schema, std::span<const std::byte> message);

inline constexpr std::size_t kMaxAskedEntities = 200;  // in one message

/// Asks a client for its values of these entities, at most kMaxAskedEntities.
std::vector<std::byte> write_send_owned(std::span<const std::uint32_t> net_ids);
/// Returns nothing if the message has another kind, or is malformed.
std::optional<std::vector<std::uint32_t>> read_send_owned(std::span<const std::byte> message);

}  // namespace shoal::replication::all
