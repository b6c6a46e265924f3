#pragma once
// Actions on their way to the server, and the server's answers. WIRE.md specifies the bits.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../../net/endpoint.h"
#include "../codec/bits.h"
#include "../history/net_ids.h"
#include "../play/message_kind.h"
#include "../schema/image.h"
#include "../schema/schema.h"

namespace shoal::replication::impl {

inline constexpr std::size_t kMaxActionBytes = 512;       // size of the arguments of one action
inline constexpr std::uint32_t kMaxTouched = 32;          // existing entities that one action changes
inline constexpr std::uint32_t kMaxCreated = 32;          // entities that one action spawns
inline constexpr std::uint32_t kMaxWaitingActions = 256;  // actions without an answer, per player and stream
inline constexpr std::size_t kMaxRejectionBytes = 64;     // size of a reason to reject; a longer one is cut

/// An action as a client sends it to the server.
struct ActionRecord {
    std::uint8_t type = 0;        // number of the action in the schema
    Tick tick = 0;                // tick of the client's first step after the call
    PendingId first_pending = 0;  // id of the first entity that the client spawned; unused if created is 0
    std::uint32_t created = 0;    // number of entities that the client spawned; their ids are consecutive
    std::vector<NetId> touched;   // entities whose components the client changed ahead of the server
    std::vector<std::uint32_t> words;       // the quantised arguments
    std::optional<std::uint32_t> lag = {};  // of what the player saw, before `tick`, see RenderTime::lag()
    // How many reliable messages with the default key the client sent before, modulo 2^16.
    std::uint16_t messages = 0;
    // Version of the newest value of a component with from_owner() that the client wrote before, see
    // OwnedValue.
    std::uint32_t owned = 0;
};

/// The actions that a client called before it sent a message, and that may not have run: they run first.
struct EarlierActions {
    std::array<std::uint16_t, kActionStreams> next{};  // by stream: 1 + number of the last of them
    std::uint8_t epoch = 0;                            // as in ActionRun
    friend bool operator==(const EarlierActions&, const EarlierActions&) = default;
};
void write_earlier(const EarlierActions& actions, std::vector<std::byte>& out);
/// Takes the bytes of write_earlier() from the front of `in`. Returns nothing, without effect, if there are
/// too few.
std::optional<EarlierActions> take_earlier(std::span<const std::byte>& in);

/// What a client did before it sent something: the server handles this first, see Player::has_done().
struct Before {
    Tick tick = 0;               // of the client's next step
    std::uint16_t messages = 0;  // as in ActionRecord
    std::optional<EarlierActions> actions;
    std::uint32_t owned = 0;  // as in ActionRecord
};

/// A run of actions of one stream.
struct ActionRun {
    std::uint32_t first = 0;  // sequence number of the first action
    std::uint8_t epoch = 0;   // in the ordered stream: number of rejections that the client knew, modulo 256
    std::span<const ActionRecord> records;
};

/// Writes a run that is not empty.
void write_actions(const Schema& schema, const ActionRun& run, BitWriter& out);
/// Reads the bits of write_actions(). `expected`: a sequence number less than 2^15 from that of the first
/// action. The run refers to `records`. Returns false if the bits are invalid or exceed a limit. Any bits
/// are safe.
bool read_actions(const Schema& schema, std::uint32_t expected, BitReader& in,
                  std::vector<ActionRecord>& records, ActionRun& run);
/// Returns whether arguments have at most kMaxActionBytes.
bool fits_action(const SchemaStruct& type, std::span<const std::uint32_t> words);
/// Returns an upper limit of the bits that this action adds to a run, or takes as a run of its own.
std::size_t measure_action(const Schema& schema, const ActionRecord& record);

/// The server's answer to an action.
struct ActionResult {
    ActionStream stream = ActionStream::ordered;
    std::uint16_t sequence = 0;  // the lower bits
    bool is_accepted = true;
    // If accepted: for each entity that the client spawned, its net id; 0 if the server did not spawn it, or
    // destroyed it in the same tick.
    std::vector<NetId> created;
    std::string why_not;  // if rejected: the reason; at most kMaxRejectionBytes, any bytes

    bool is_valid() const { return created.size() <= kMaxCreated && why_not.size() <= kMaxRejectionBytes; }
};

/// An action of the server or of another player, as the server reports it to a client.
struct ActionEvent {
    Tick tick = 0;
    net::PeerId who;   // the player who did it; empty: the server did it
    NetId player = 0;  // net id of the player's entity; 0: there is none any more, or the server did it
    std::uint8_t type = 0;
    std::vector<std::uint32_t> words;
};
std::vector<std::byte> write_event(const Schema& schema, const ActionEvent& event);
/// `bytes`: the message without its first byte. Returns false if it is malformed.
bool read_event(const Schema& schema, std::span<const std::byte> bytes, ActionEvent& event);

/// Pending entities to which an earlier result gave a net id, and other entities that messages named. They
/// ended on the server before the client acknowledged a record of them.
struct Gone {
    static constexpr MessageKind kKind = MessageKind::gone;
    std::vector<PendingId> ids;  // or net ids
};

/// The results of one tick for one player.
struct ActionResults {
    static constexpr MessageKind kKind = MessageKind::action_results;
    Tick tick = 0;
    std::vector<ActionResult> results;

    bool is_valid() const { return results.size() <= kActionStreams * kMaxWaitingActions; }
};

}  // namespace shoal::replication::impl
