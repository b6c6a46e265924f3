#pragma once
// The actions of a client: does them at once, sends them to the server, and undoes what the server rejects.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../../ecs/change_collector.h"
#include "../play/struct_codec.h"
#include "../receive/receiver.h"
#include "../show/render_time.h"
#include "action.h"
#include "action_queue.h"
#include "overlay.h"

namespace shoal::replication::impl {

/// Not thread-safe.
class ClientActions final : private EntityMap {
public:
    struct Stats {
        ComponentLayout::Misfits misfits;  // arguments that did not fit their codecs
        std::uint64_t done = 0;            // done here and queued for the server
        std::uint64_t accepted = 0;        // accepted by the server
        std::uint64_t rejected = 0;        // rejected by the server, or the mutation failed on the client
        std::uint64_t dropped = 0;         // undone because an earlier action was rejected, see independent()
        std::uint64_t not_begun = 0;       // not done: not playing, too many without an answer, too large
        std::uint64_t bad_writes = 0;      // components that steps decide, written by a mutation: a mistake
    };

    /// The arguments must outlive this object.
    ClientActions(ecs::World& world, const Schema& schema, Receiver& receiver);
    ClientActions(const ClientActions&) = delete;
    ClientActions& operator=(const ClientActions&) = delete;

    /// Writes the section `actions` of payloads.
    SectionWriter& section() { return queue_; }

    using Handler = std::function<void(const void* action, const Call& call)>;
    using RejectHandler = std::function<void(const void* action, std::string_view why)>;
    /// `type`: number of the action in the schema. Several handlers of one type run in the order of their
    /// registration.
    void on(std::size_t type, Handler handler) { types_[type].handlers.push_back(std::move(handler)); }
    void on_rejected(std::size_t type, RejectHandler handler) {
        types_[type].reject_handlers.push_back(std::move(handler));
    }

    /// Sets the function that is called for each entity that an action spawned ahead of the server. It
    /// returns the components, ascending, that this client holds when the entity becomes a replica, see
    /// Receiver::hold().
    using OnSpawned = std::function<std::span<const ComponentIndex>(ecs::Entity)>;
    void on_spawned(OnSpawned fn) { on_spawned_ = std::move(fn); }

    /// Sets the object that Act::seen() asks. It must outlive this object.
    void set_sight(const Sight* sight) { sight_ = sight; }

    /// Sets whether the client may act, the entity that acts, the tick of the game's next step, and the
    /// render time that the player sees.
    void set_player(bool is_playing, ecs::Entity player, Tick next_tick,
                    const std::optional<RenderTime>& seen = {});

    /// Begins an action: quantises the fields of `action` in place. Returns false if the action does not run
    /// now: do not call end(). Either Stats::not_begun counts it, and it never runs; or a query, a hook or
    /// another mutation is running, and a later update() runs it.
    bool begin(std::size_t type, void* action);
    /// The argument of the mutation, between begin() and end().
    Act& act() { return *act_; }
    /// Ends an action, after its mutation has run: sends it to the server, or undoes it if it failed.
    void end(const void* action);
    /// Call it instead of end() if the mutation threw. Undoes its changes; calls no handler, sends nothing.
    void abandon();
    /// Returns whether a mutation is running.
    bool is_acting() const { return act_.has_value(); }

    /// Keeps an answer of the server, until take_answers() uses it. `bytes`: the size of its message. Returns
    /// false if there is none.
    bool receive(std::optional<ActionResults> results, std::size_t bytes) {
        return results && keep(std::move(*results), {}, bytes);
    }
    bool receive(std::optional<Gone> gone, std::size_t bytes) {
        return gone && keep({}, std::move(*gone), bytes);
    }
    /// The memory that these answers take, roughly.
    std::size_t bytes() const { return answer_bytes_; }
    /// Handles the server's answers. Call it before the receiver's apply(). Returns false if an answer is
    /// not one to an action of this client: end the connection.
    [[nodiscard]] bool take_answers();
    /// Ends the overlay of accepted actions. Call it after the receiver's apply().
    void end_accepted() { overlay_.end_accepted(); }
    /// Does the waiting actions of this client. Call it after end_accepted() and the handlers of events.
    void run_waiting();

    /// As read_event().
    bool read(std::span<const std::byte> bytes, ActionEvent& event) const {
        return read_event(schema_, bytes, event);
    }
    /// Calls the handlers for an event. `words`: its arguments.
    void fire(const ActionEvent& event, std::span<const std::uint32_t> words, bool is_late);
    const std::vector<SchemaStruct>& types() const { return schema_.structs(StructKind::action); }

    /// Calls the validator with this client's world. Returns the reason against the action; empty: allowed.
    std::string why_not(std::size_t type, const void* action) const;

    /// For a new connection: forgets all actions, without calls of handlers. Destroys the entities that they
    /// spawned and that are no replicas. Replicas keep what the actions wrote. Call it before the receiver's
    /// reset().
    void reset();
    /// As reset(), but continues the numbers of the player's earlier client, see ActionQueue::reset().
    void reset(const std::array<std::uint32_t, kActionStreams>& next, std::uint8_t epoch) {
        reset();
        queue_.reset(next, epoch);
    }
    /// By stream: sequence number of the oldest action without an answer; if there is none, of the next
    /// action.
    std::array<std::uint32_t, kActionStreams> first() const {
        return {queue_.first(ActionStream::ordered), queue_.first(ActionStream::independent)};
    }

    /// Call it when a reliable message with the default key was queued. The actions before it run before it,
    /// and those after it after it.
    void note_message() { messages_ += 1; }
    /// Call it when a new connection begins.
    void forget_messages() {
        messages_ = 0;
        queue_.forget_messages();
    }
    std::optional<EarlierActions> earlier() const { return queue_.earlier(); }
    /// What the client did before now.
    Before before() const { return {next_tick_, messages_, earlier()}; }
    /// Sets the version of the newest value that the client wrote, see ActionRecord::owned.
    void set_owned(std::uint32_t version) { owned_ = version; }

    const Stats& stats() const { return stats_; }
    /// Number of actions that the server has not answered.
    std::size_t waiting() const { return queue_.size(); }
    bool is_consistent() const;  // consistency.cpp

private:
    struct Type {
        std::vector<Handler> handlers;
        std::vector<RejectHandler> reject_handlers;
    };
    /// An entity that the client spawned in an action.
    struct Pending {
        PendingId id;
        ecs::Entity entity;
    };
    /// An action that was called while a query, a hook or a mutation ran.
    struct Waiting {
        std::size_t type;
        std::vector<std::uint32_t> words;
    };

    std::uint32_t to_net(ecs::Entity entity) override;
    ecs::Entity to_entity(std::uint32_t id) override;

    const SchemaStruct& type(std::size_t number) const { return schema_.structs(StructKind::action)[number]; }
    void start(std::size_t type);
    bool keep(ActionResults results, Gone gone, std::size_t bytes);
    void use_gone(const Gone& gone);
    void undo_pending();
    void destroy_unless_replica(ecs::Entity entity);
    void remove_components(ecs::Entity entity);
    std::string take(ActionRecord& record);
    void note_changes(Overlay::Key key, ActionRecord& record, bool is_destroyed = false);
    bool accept(const ActionResult& result, Tick tick);
    bool reject(const ActionResult& result);
    void tell_rejected(const ActionRecord& record, std::string_view why);
    void end_pending(PendingId id, NetId net_id);
    void fire(std::size_t type, const void* action, const Call& call);

    ecs::World& world_;
    const Schema& schema_;
    Receiver& receiver_;
    StructCodec codec_;
    ActionQueue queue_;
    Overlay overlay_;
    std::size_t mine_, to_predict_;  // indices of these tags in the schema
    std::vector<Type> types_;        // by the number of the action in the schema
    std::vector<Pending> pending_;   // of actions without an answer, in the order of their creation
    std::vector<Pending> answered_;  // of other actions, the oldest first; the receiver still knows the ids
    std::vector<Waiting> waiting_;
    std::vector<std::pair<ActionResults, Gone>> answers_;  // for take_answers(); one of the two is empty
    std::size_t answer_bytes_ = 0;                         // see bytes()
    bool is_broken_ = false;                               // the server sent something malformed
    std::vector<ecs::Entity> created_;                     // entities that the running mutation spawned
    ecs::Hook created_hook_;
    PendingId next_pending_ = pending_after(kFirstPending);
    OnSpawned on_spawned_;
    const Sight* sight_ = nullptr;
    std::uint16_t messages_ = 0;  // see note_message()
    std::uint32_t owned_ = 0;     // see set_owned()
    bool is_playing_ = false;
    ecs::Entity player_;
    Tick next_tick_ = 0;
    std::optional<RenderTime> seen_;

    // Between begin() and end(): the running action.
    std::optional<Act> act_;
    std::optional<LocalWrites::Pause> pause_;
    std::optional<ecs::ChangeCollector> changes_;
    std::size_t type_ = 0;
    std::vector<std::uint32_t> words_;
    Stats stats_;
};

}  // namespace shoal::replication::impl
