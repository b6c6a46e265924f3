#pragma once
// On the server: checks the values that clients send for components with from_owner(), and writes them to the
// world.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../../net/endpoint.h"
#include "../send/sender.h"
#include "owned_wire.h"
#include "player_host.h"
#include "struct_codec.h"
#include "uplink.h"

namespace shoal::replication::impl {

struct OwnedStats {
    std::uint64_t taken = 0;    // values written to the world, which had others
    std::uint64_t refused = 0;  // values refused by a check
    // Values that came when the player did not own the entity, or the entity lacked the component, or too
    // many had been refused; and values that waited when the player got another client.
    std::uint64_t ignored = 0;
    std::uint64_t outdated = 0;  // values that arrived again, or after a newer value
};

/// The values of one player that the server has not handled yet.
struct OwnedValues {
    static constexpr double kRefusalsPerSecond = 20, kMaxRefusals = 3 * kRefusalsPerSecond;

    /// Returns whether the value with this version was handled, and all earlier ones.
    bool has_run(std::uint32_t version) const {
        const std::uint32_t done = waiting.empty() ? arrived : waiting[0].version - 1;
        return static_cast<std::int32_t>(done - version) >= 0;
    }
    /// Returns whether too many values were refused: more than 20 per second (60 at once). Then further
    /// values have no effect.
    bool is_flood() const { return refusals_left < 1; }

    std::deque<OwnedValue> waiting;
    std::size_t waiting_words = 0;  // of their values
    std::uint32_t arrived = 0;      // version of the newest value that arrived
    // Since then the first of `waiting` has waited for what came before, and others before it.
    std::optional<net::Time> held_since;
    double refusals_left = kMaxRefusals;
    net::Time earned_until{0};  // time up to which refusals_left has grown
    OwnedStats stats;
};

/// Reads the section Section::owned_state of all clients. Not thread-safe.
class OwnedReader final : public SectionReader, private EntityMap {
public:
    /// The arguments must outlive this object. `tick`: time between two ticks.
    OwnedReader(ecs::World& world, const Schema& schema, Sender& sender, PlayerHost& host,
                net::Duration tick);
    OwnedReader(const OwnedReader&) = delete;
    OwnedReader& operator=(const OwnedReader&) = delete;

    /// Call it when the player has another client, which numbers its values anew. Drops the values that wait.
    void replace_client(Player& player);
    /// Call it when a living entity gets another owner, or none. If it had one, the values that this owner
    /// has sent are ignored from now on.
    void change_owner(ecs::Entity entity, bool had_owner);
    /// Sends the records of changed owners and refusals again in the following ticks. Call it once in a tick,
    /// before the sender's update().
    void repeat_records();

    /// Returns the reason to refuse a value; at most kMaxRefusalBytes of it are sent. Empty: the value is
    /// accepted. It is not called for a value that the server has already.
    using Check = std::function<std::string(PlayerId, ecs::Entity, const void* value)>;
    /// Sets the check of a component. Without a check all values are accepted.
    void set_check(ComponentIndex component, Check check) { checks_[component] = std::move(check); }

    /// Handles the values of a player that are due, in order. A value waits for its tick, if the schema has
    /// an input, and then at most kLongestWait for what the client did before.
    void run(Player& player, Tick next_tick, net::Time now);
    static constexpr net::Duration kLongestWait = std::chrono::milliseconds(500);

    bool read_section(Player& player, std::uint64_t packet, BitReader& in) override;
    void commit_section(Player& player, net::Time now) override;

private:
    /// The owner of an entity gets its record in so many ticks: if it is lost, what the owner writes is lost.
    struct Repeat {
        ecs::Entity entity;
        int ticks_left;
    };

    // The oldest value does not wait while more than so many wait, or more than so many words of them.
    static constexpr std::size_t kMaxWaiting = 256, kMaxWaitingWords = std::size_t{1} << 16;
    static constexpr int kRepeats = 6;

    std::uint32_t to_net(ecs::Entity entity) override { return sender_.net_id(entity); }
    ecs::Entity to_entity(std::uint32_t net_id) override { return sender_.entity_seen_by(from_, net_id); }

    bool must_wait(Player& player, Tick next_tick, net::Time now) const;
    void judge(Player& player, const OwnedValue& sent);
    void refuse(Player& player, const OwnedValue& sent, std::string_view why);
    OwnerState state_of(ecs::Entity entity) const;
    void set_state(ecs::Entity entity, const OwnerState& state);

    ecs::World& world_;
    const Schema& schema_;
    Sender& sender_;
    PlayerHost& host_;
    StructCodec codec_;
    std::vector<ecs::ComponentId> ids_;                 // by component; only if it has from_owner()
    std::vector<std::unique_ptr<StructValue>> values_;  // by component; null without from_owner()
    std::vector<Check> checks_;                         // by component
    std::vector<Repeat> repeats_;
    std::int32_t most_ahead_;  // a value for a tick further in the future does not wait for it
    Tick next_tick_ = 0;       // argument of the last run()

    Sender::Peer from_ = 0;             // peer of the player whose value judge() handles
    std::vector<OwnedValue> staged_;    // from read_section(), for commit_section()
    std::vector<std::uint32_t> words_;  // scratch: a value in the world
};

}  // namespace shoal::replication::impl
