#pragma once
// The actions of players on the server: checks and does them, and reports them to the players.

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../net/endpoint.h"
#include "../play/player_host.h"
#include "../play/struct_codec.h"
#include "../play/ticket.h"
#include "../play/uplink.h"
#include "../send/sender.h"
#include "action.h"
#include "action_inbox.h"

namespace shoal::replication::impl {

/// Limits of one player's actions.
struct ActionLimits {
    double per_second = 60;  // actions above this rate wait, in order; > 0
    double burst = 120;      // actions that may run at once after a pause; >= 1
    // Above this rate the player is disconnected. As many as in 3 seconds are allowed at once; > 0
    double rejections_per_second = 20;
};

/// The argument of an observer, for one action that ran or was rejected. Valid during the call.
struct ActionReport {
    Tick tick = 0;
    Tick late_ticks = 0;  // how many ticks too late the action came; 0: in time
    net::PeerId who;      // the player; empty: the server did the action
    std::string_view name;
    std::size_t type = 0;          // number of the action in the schema
    const void* action = nullptr;  // a struct of this type
    bool is_accepted = false;
    std::string_view why_not;  // reason of the rejection; empty if accepted
};

struct ActionStats {
    std::uint64_t accepted = 0;
    std::uint64_t rejected = 0;
    std::uint64_t dropped = 0;      // removed while they waited, because an earlier action was rejected
    std::uint64_t ignored = 0;      // had arrived before, or arrived after an earlier action was rejected
    std::uint64_t deferred = 0;     // how often the limits made a stream wait until the next tick
    std::uint64_t lost_events = 0;  // events that the player's connection was too slow for
};

/// The actions of one player that plays.
struct PlayerActions {
    /// An entity that both the server and the player's client spawned in an action.
    struct Spawned {
        PendingId id;
        ecs::Entity entity;
        NetId net_id;
    };
    struct KeptResult {
        Tick tick;
        ActionResult result;
    };

    /// Number of actions that have arrived and did not run.
    std::size_t waiting() const {
        return inbox.waiting(ActionStream::ordered).size() + inbox.waiting(ActionStream::independent).size();
    }

    ActionInbox inbox;
    std::array<std::optional<Tick>, kActionStreams> held_since;  // by what has not arrived
    std::deque<Spawned> spawned;        // the newest ones: later actions can refer to them
    std::vector<Spawned> outstanding;   // entities of which no record was acknowledged yet
    std::vector<ActionResult> results;  // results of this tick
    std::array<std::deque<KeptResult>, kActionStreams> kept;  // the newest results
    std::deque<PendingId> kept_gone_ids;                      // the newest ids that were sent as gone
    double tokens = 0, rejection_tokens = 0;                  // token buckets of ActionLimits
    std::vector<double> type_tokens;                          // by type: a token bucket of at_most()
    ActionStats stats;
};

class Players;

/// Not thread-safe.
class ServerActions final : public SectionReader, private EntityMap {
public:
    /// The arguments must outlive this object.
    ServerActions(ecs::World& world, const Schema& schema, Sender& sender, Players& players, PlayerHost& host,
                  const ActionLimits& limits, double tick_hz);
    ServerActions(const ServerActions&) = delete;
    ServerActions& operator=(const ServerActions&) = delete;

    /// Call it when the player begins to play.
    void add_player(Player& player);

    /// From now on keeps the last results of each player, so that reconnect() can send them again.
    void keep_results() { keeps_results_ = true; }
    /// Call it when the player has a new connection, and its client has not forgotten its actions. `first`:
    /// by stream, the sequence number of the first action whose result is sent again.
    void reconnect(Player& player, const std::array<std::uint32_t, kActionStreams>& first);
    /// Call it when the player has a new connection, and its client has forgotten its actions. Drops the
    /// actions that wait. Returns the sequence numbers and the epoch with which the client continues.
    Resumed replace_client(Player& player);

    using Handler = std::function<void(const void* action, const Call& call)>;
    using Observer = std::function<void(const ActionReport& report)>;
    /// `type`: number of the action in the schema.
    void on(std::size_t type, Handler handler) { handlers_[type].push_back(std::move(handler)); }
    void observe(Observer observer) { observers_.push_back(std::move(observer)); }

    /// Sets the object that Act::seen() asks. It must outlive this object.
    void set_sight(Sight* sight) { sight_ = sight; }

    /// Does the actions that are due at a tick. The actions of one player run in the order of their stream.
    void run(Tick tick);
    /// Sends the results of the tick. Call it after the last change of the world in this tick, and before the
    /// sender's update().
    void finish();

    /// Begins an action of the server: quantises the fields of `action` in place. Requires that the arguments
    /// have at most kMaxActionBytes. Returns false if a query, a hook or an action is running: then do not
    /// call end(), the next run() does the action.
    bool begin(std::size_t type, void* action, Tick tick);
    Act& act() { return *act_; }
    /// Ends an action of the server, after its mutation has run. Tells the observers, calls the handlers,
    /// and sends an event to all players. If the mutation failed, only tells the observers, and returns
    /// false.
    bool end(const void* action);
    /// Call it instead of end() if the mutation threw. Its changes stay; calls no handler, sends no event.
    void abandon() { act_.reset(); }

    bool read_section(Player& player, std::uint64_t packet, BitReader& in) override;
    void commit_section(Player& player, net::Time now) override;

private:
    /// An action of the server that was called while a query, a hook or an action ran.
    struct Waiting {
        std::size_t type;
        std::vector<std::uint32_t> words;
    };
    std::uint32_t to_net(ecs::Entity entity) override { return sender_.assign_net_id(entity); }
    ecs::Entity to_entity(std::uint32_t id) override;

    const SchemaStruct& type(std::size_t number) const { return schema_.structs(StructKind::action)[number]; }
    void earn_tokens(PlayerActions& actions) const;
    bool take_tokens(PlayerActions& actions, std::size_t type) const;
    bool must_wait(Player& player, ActionStream stream);
    void run_waiting();
    void run_stream(Player& player, ActionStream stream);
    void run_one(Player& player, ActionStream stream, const ActionRecord& record);
    void accept(Player& player, ActionStream stream, const ActionRecord& record,
                std::span<const ecs::Entity> created);
    void reject(Player& player, ActionStream stream, const std::string& why);
    void start(std::size_t type, const Player* player, Tick late_ticks);
    ActionEvent event_of(net::PeerId who, ecs::Entity entity);
    void match_created(Player& player, const ActionRecord& record, std::span<const ecs::Entity> created,
                       ActionResult& result);
    void fire(const void* action, ActionEvent event, ecs::Entity entity);
    std::optional<ActionEvent> as_seen(const Player& player, const ActionEvent& event) const;
    void report(const ActionReport& report) const;
    void finish(Player& player);
    void forget_gone(const Player& player, ActionResult& result) const;
    void store_results(PlayerActions& actions);
    bool replicates(ecs::Entity entity) const;

    ecs::World& world_;
    const Schema& schema_;
    Sender& sender_;
    Players& players_;
    PlayerHost& host_;
    ActionLimits limits_;
    double tick_s_;
    std::int32_t most_ahead_;  // an action for a tick further in the future runs at once
    StructCodec codec_;
    std::vector<std::vector<Handler>> handlers_;  // by type
    std::vector<Observer> observers_;
    Sight* sight_ = nullptr;
    bool keeps_results_ = false;
    std::vector<Waiting> waiting_;
    std::vector<ecs::Entity> created_;  // entities that the running mutation spawned
    ecs::Hook created_hook_;
    Tick tick_ = 0;

    // Between start() and the end of an action: the running action. `words_`: its arguments for clients,
    // taken before the mutation, which may destroy the entities that they name.
    std::optional<Act> act_;
    const Player* actor_ = nullptr;
    std::size_t type_ = 0;
    std::vector<std::uint32_t> words_;
};

}  // namespace shoal::replication::impl
