#pragma once
// Actions on their way to the server, and the server's answers. WIRE.md specifies the bits.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../codec/bits.h"
#include "../history/net_ids.h"
#include "../schema/image.h"
#include "../schema/schema.h"

namespace shoal::replication {

/// Actions of one player are numbered in two streams. A rejection ends all later actions of the ordered
/// stream that the client called without knowing of it; the actions of the independent stream do not depend
/// on each other.
enum class ActionStream : std::uint8_t { ordered, independent };
inline constexpr std::size_t kActionStreams = 2;

inline constexpr std::size_t kMaxActionBytes = 512;       // of the arguments of one action
inline constexpr std::uint32_t kMaxTouched = 32;          // entities that one action touches
inline constexpr std::uint32_t kMaxCreated = 32;          // entities that one action creates
inline constexpr std::uint32_t kMaxWaitingActions = 256;  // of one player
inline constexpr std::size_t kMaxVerdictBytes = 64;       // of the reason of a rejection; longer ones are cut

/// An action as the server gets it.
struct ActionRecord {
    std::uint8_t type = 0;        // its number among the schema's actions
    Tick tick = 0;                // of the client's step that followed the call
    PendingId first_pending = 0;  // of the first entity that it created, if it created some
    std::uint32_t created = 0;
    std::vector<NetId> touched;        // entities whose components the client changed ahead of the server
    std::vector<std::uint32_t> words;  // the quantised arguments
};

/// A run of actions of one stream.
struct ActionRun {
    std::uint32_t first = 0;  // sequence number of the first one
    std::uint8_t epoch = 0;   // of the ordered stream: how many rejections the client knew of
    std::span<const ActionRecord> records;
};

/// Writes a run that is not empty.
void write_actions(const Schema& schema, const ActionRun& run, BitWriter& out);
/// Reads what write_actions() wrote. `expected` is near the sequence number of the first action. The run
/// refers to `records`. Any bits are safe: returns false if they are invalid or exceed a limit.
bool read_actions(const Schema& schema, std::uint32_t expected, BitReader& in,
                  std::vector<ActionRecord>& records, ActionRun& run);
/// Returns the greatest number of bits that a run of this action takes.
std::size_t measure_action(const Schema& schema, const ActionRecord& record);

/// What became of an action.
struct ActionResult {
    ActionStream stream = ActionStream::ordered;
    std::uint32_t sequence = 0;
    bool is_accepted = true;
    // Accepted: for each entity that the client created, its net id; 0 if the server did not create it, or
    // destroyed it in the same tick.
    std::vector<NetId> created;
    std::string why_not;  // rejected; at most kMaxVerdictBytes, of any bytes
};

/// Somebody else did an action.
struct ActionEvent {
    Tick tick = 0;
    NetId player = 0;  // net id of the player's entity; 0: the server did it
    std::uint8_t type = 0;
    std::vector<std::uint32_t> words;
};
std::vector<std::byte> write_event(const Schema& schema, const ActionEvent& event);
/// Returns false if the message is none, or malformed.
bool read_event(const Schema& schema, std::span<const std::byte> message, ActionEvent& event);

/// Entities that were named in results and ended before the client acknowledged a record of them.
std::vector<std::byte> write_gone(std::span<const PendingId> ids);
std::optional<std::vector<PendingId>> read_gone(std::span<const std::byte> message);

/// The results of one tick for one player.
std::vector<std::byte> write_results(std::span<const ActionResult> results, Tick tick);
struct ActionResults {
    Tick tick = 0;
    std::vector<ActionResult> results;  // with the lower 16 bits of their sequence numbers
};
/// Returns nothing if the message is none, or malformed.
std::optional<ActionResults> read_results(std::span<const std::byte> message);

}  // namespace shoal::replication
