#pragma once
// The values that clients send for components with from_owner(), and the server's refusals of them. WIRE.md
// specifies the bits.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../action/action_wire.h"
#include "../schema/schema.h"

namespace shoal::replication::impl {

inline constexpr std::size_t kMaxOwnedValues = 256;  // most values in one payload
inline constexpr std::size_t kMaxRefusalBytes = 64;  // size of a reason; a longer one is cut
inline constexpr unsigned kOwnedCountOrder = 0;      // of a Golomb code, see BitWriter::write_golomb()

/// A value that a client wrote to a component with from_owner().
struct OwnedValue {
    std::uint32_t version = 0;  // rises with each value of this client; compared modulo 2^32
    std::uint16_t epoch = 0;    // that the client knows, see OwnerState
    NetId net_id = 0;
    ComponentIndex component = 0;
    Before before;  // `tick` only if the schema has an input
    std::vector<std::uint32_t> words;
};
/// Appends a value. `previous`: the value before it in the payload; null: it is the first one.
void write_owned(const Schema& schema, const OwnedValue& value, const OwnedValue* previous, BitWriter& out);
/// Reads what write_owned() wrote. The first value has a version and a tick near those of `expected`. Returns
/// false if the bits are invalid. Any bits are safe.
bool read_owned(const Schema& schema, const OwnedValue* previous, const OwnedValue& expected, BitReader& in,
                OwnedValue& value);

/// The server refuses a value of a client.
struct OwnedRefusal {
    static constexpr MessageKind kKind = MessageKind::refused_value;
    std::uint32_t version = 0;
    std::uint16_t epoch = 0;
    NetId net_id = 0;
    ComponentIndex component = 0;
    std::string why;  // at most kMaxRefusalBytes, any bytes

    bool is_valid() const { return why.size() <= kMaxRefusalBytes; }
};

}  // namespace shoal::replication::impl
