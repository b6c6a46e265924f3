#pragma once
// Replicates a world to clients: a Sender with a net::Host.

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../net/host.h"
#include "action/server_actions.h"
#include "message.h"
#include "message/typed_messages.h"
#include "play/owned_reader.h"
#include "play/players.h"
#include "play/running.h"
#include "play/uplink.h"
#include "predict/predicted_values.h"
#include "predict/server_inputs.h"
#include "predict/step.h"
#include "record/recorder.h"
#include "send/sender.h"
#include "show/rewind.h"
#include "world_hash.h"

namespace shoal::replication::impl {

struct ServerOptions {
    net::HostConfig host;  // set protocol_id, key and a new seed; schema_hash is overwritten
    SenderOptions sender;  // set tick_hz
    MessageLimits messages;
    JoinOptions join;
    ActionLimits actions;
    Tick first_tick = 1;  // number of the first tick()
    // Seed of Step::random(), which gives the same numbers on server and clients. It is sent to every client.
    std::uint64_t random_seed = 0;
    // Time between two calls of Server::renew_model(); >= 0. 0: only the game calls it.
    double renew_model_s = 180;
    double max_rewind_s = 0.4;  // how far back a player can see; > 0, at most SenderOptions::history_s
};

/// What a player did, and what it got.
struct PlayerStats {
    InputStats inputs;
    // Age of the newest input that came in time, in ticks; 0: it is the input of the current tick. Nothing
    // before the first input. A missing input is replaced by the input before, without its presses, for
    // 250 ms; then by T{}.
    std::optional<Tick> input_age;
    ActionStats actions;
    std::size_t actions_waiting = 0, messages_waiting = 0;  // because of ActionLimits and MessageLimits
    OwnedStats owned;
    RewindStats rewind;
    Sender::PeerStats state;
};

/// What happened to messages, how players came back, and why tickets were refused, see Client::ticket().
struct ServerStats {
    MessageStats messages;
    TicketStats tickets;
};

/// Warnings about a player, given to the game before the server has to disconnect the player.
enum class Warning : std::uint8_t {
    messages_deferred,  // the player sends more messages than MessageLimits allow
    join_restarted,     // loading took JoinOptions::timeout, and starts again
};

/// Callbacks of the game. They are called by the functions of host(), and by tick(), poll(), resend() and
/// disconnect(). They may send messages, disconnect peers, and change the world.
class ServerListener {
public:
    virtual ~ServerListener() = default;

    /// Decides whether a client may join. To refuse it, return false and set a text for humans. The client's
    /// address is proven. Admission::hello is written by the library (message.h), and has no data of the
    /// game.
    virtual bool on_admit(const net::Admission&, std::string& /*refusal*/) { return true; }
    /// on_admit returned true, but the client will never connect. See net::Handler::on_never_connected().
    virtual void on_never_connected(net::PeerId) {}
    /// A client without a ticket connected. See Server::on_join() for when the player plays.
    virtual void on_join(net::PeerId) {}
    /// Called exactly once for each on_join, unless the server is destroyed first. For a player that is away,
    /// see Server::on_away(), it is called when the player leaves, with DisconnectReason::timed_out. The text
    /// may contain bytes from the client.
    virtual void on_leave(net::PeerId, net::DisconnectReason, std::string_view /*text*/) {}
    /// The bytes come from the network: check them. They are valid during the call.
    virtual void on_message(net::PeerId, net::Channel, std::span<const std::byte>) {}
    /// A self-check of a client found that it has other values of an entity than the server, or the client
    /// lies; see ClientListener::on_difference().
    virtual void on_difference(net::PeerId, ecs::Entity) {}
    /// The state of an entity takes `bytes`, more than kMaxEntityBytes. `component` takes most of it. Clients
    /// keep the entity's last state within the limit. On clients the entity has no components if there was no
    /// such state. Called once; called again only after the entity was within the limit.
    virtual void on_too_large(ecs::Entity, std::string_view /*component*/, std::size_t /*bytes*/) {}
};

/// Uses no socket or clock: datagrams and time are arguments, and `sink` sends datagrams. Not thread-safe. In
/// each tick:
///
///     net::receive_all(socket, server.host(), now);
///     my_simulation_step(world);
///     server.tick(now);
class Server final : private net::Handler, private PlayerHost {
public:
    /// World, schema, sink and listener must outlive the server. A schema with an error stops the program.
    Server(ecs::World& world, const Schema& schema, net::Sink& sink, const ServerOptions& options,
           ServerListener* listener = nullptr);
    /// A temporary schema would not outlive the server.
    Server(ecs::World&, const Schema&&, net::Sink&, const ServerOptions&, ServerListener* = nullptr) = delete;

    /// Pass each datagram from the socket to host().receive().
    net::Host& host() { return host_; }
    const net::Host& host() const { return host_; }

    /// Sets the function that computes a tick from the one before. tick() calls it, after it wrote the inputs
    /// of the tick to the entities of their players, see Schema::input().
    void on_step(OnStep fn) { on_step_ = std::move(fn); }
    /// Ends a tick: runs the step function, and sends the changes of the world, as far as each peer's rate
    /// allows. Returns the tick's number. A function of the game that the server calls must not call tick(),
    /// poll() or resend(): a debug build stops the program, otherwise the call has no effect.
    Tick tick(net::Time now);

    /// Runs timers, and sends acks, messages, and the state that the rate did not allow before. Call it
    /// between ticks that are more than 20 ms apart.
    void poll(net::Time now);

    /// Like poll(), and also sends a completion marker for the last tick to each peer that got none. To end
    /// without losing changes, call it every few milliseconds until is_settled().
    void resend(net::Time now);
    /// Returns whether each peer acknowledged all state of the last tick, and a completion marker for it.
    bool is_settled() const;

    /// Records the state of each tick() from the next one on, with all that players may not see, until
    /// stop_recording(). Messages and actions are not recorded. Ends an earlier recording.
    void record(const RecorderOptions& options = {}) {
        recorder_.emplace(sender_, schema_, welcome_.tick_us, options);
        recorded_ = {};
    }
    void stop_recording() {
        recorder_.reset();
        recorded_ = {};
    }
    /// False, too, once the recording reached RecorderOptions::max_bytes.
    bool is_recording() const { return recorder_ && !recorder_->is_full(); }
    /// The bytes of the last tick() that belong to the recording, valid until the next: append them to a file
    /// or to memory. After each tick the file is a recording that a Replay plays, also if the server crashes
    /// while it writes. Empty if the server does not record.
    std::span<const std::byte> recorded() const { return recorded_; }

    /// As net::Endpoint::send_message, but the library adds one byte, so the maximum is one byte less.
    [[nodiscard]] net::SendResult send_message(net::PeerId peer, net::Delivery how,
                                               std::span<const std::byte> message);
    /// Sends a message of the schema. An entity in it arrives as the client's replica; see MessageInfo if the
    /// client does not have it yet. An entity that does not replicate arrives as null. The largest size is
    /// two bytes less than for net::Endpoint::send_message. MessageStats::not_queued counts what could not be
    /// queued.
    template <class T>
    net::SendResult send(PlayerId player, const T& message,
                         const net::Delivery& how = net::Channel::reliable) {
        write_typed(message, how);
        return send_typed(player, how);
    }
    /// Returns for how many of these players the message was queued.
    template <class T>
    std::size_t send(std::span<const PlayerId> players, const T& message,
                     const net::Delivery& how = net::Channel::reliable) {
        std::size_t queued = 0;
        write_typed(message, how);
        for (const PlayerId player : players) queued += net::is_queued(send_typed(player, how));
        return queued;
    }
    /// Sends to the players that play and are in one of these groups, see PlayerView. Returns for how many of
    /// them the message was queued.
    template <class T>
    std::size_t send(ViewClasses groups, const T& message,
                     const net::Delivery& how = net::Channel::reliable) {
        write_typed(message, how);
        return send_typed(groups, how);
    }
    /// Sends to all players that play. Returns for how many of them the message was queued.
    template <class T>
    std::size_t send_all(const T& message, const net::Delivery& how = net::Channel::reliable) {
        return send(to_everyone(), message, how);
    }
    /// Sets the handler of a type of messages: fn(PlayerId, const T&), or fn(const T&, const MessageInfo&) as
    /// for Client::on(). It is called like the functions of a ServerListener. Numbers in the message are
    /// within the ranges of their codecs. An entity that the player cannot know arrives as null. Set the
    /// handler before the first message, and not in a handler. For a type of actions, adds a handler
    /// fn(const T&, const Call&), which runs after the mutation. Set it before the first tick.
    template <class T, class Fn>
    void on(Fn handler) {
        constexpr bool kTakesPlayer = std::invocable<Fn&, PlayerId, const T&>;
        static_assert(!kTakesPlayer || !std::invocable<Fn&, const T&, const MessageInfo&>,
                      "a handler must name the types of its arguments");
        if constexpr (kTakesPlayer) {
            typed_.set_handler<T>(guarded<const T&, const MessageInfo&>(
                world_, [fn = std::move(handler)](const T& message, const MessageInfo& info) mutable {
                    fn(info.from, message);
                }));
        } else {
            set_handler<T>(world_, schema_, typed_, actions_, std::move(handler));
        }
    }
    /// Sets the function that is called once each time a reason for a warning begins.
    void on_warning(std::function<void(PlayerId, Warning)> handler) { warn_ = std::move(handler); }
    /// The server itself does an action: checks nothing, mutates, and tells all players. Returns what the
    /// mutation returns. Inside a query, a hook or another action's validator or mutation, the action waits
    /// for the next tick(), and act() returns a default value.
    template <class T>
    auto act(T action) {
        using Result = decltype(finish_act(actions_, action));
        if (actions_.begin(schema_.require_struct<T>(StructKind::action), &action, next_tick_))
            return finish_act(actions_, action);
        return Result();
    }
    /// Adds a function that learns of each action, also of rejected ones, for example to write a log.
    void on_action(ServerActions::Observer observer) { actions_.observe(std::move(observer)); }
    /// Returns what the player's client showed when it made the player's input for this tick. Call it in the
    /// functions that tick() calls. Requires that the schema has an input. For an unknown player, the Past is
    /// empty.
    Past seen_by(PlayerId player) const { return rewind_.seen_by(player); }
    /// Sets the function that checks the values that a player's client sends for a component with
    /// from_owner(). It returns an empty text to accept a value, or the reason to refuse it. Without a
    /// function all values within the ranges of the codecs are accepted. It is called in host().receive(),
    /// and may change the world. It is not called for a value that the server has already. The parentheses
    /// keep it apart from the macro check() of other systems.
    template <class T, class Fn>
    void(check)(Fn fn) {
        static_assert(
            requires(const T& value) { std::string(fn(PlayerId(), ecs::Entity(), value)); },
            "a check must be: std::string(PlayerId, ecs::Entity, const T&)");
        owned_.set_check(schema_.require_owned<T>(), [fn = std::move(fn)](PlayerId player, ecs::Entity entity,
                                                                          const void* value) mutable {
            return std::string(fn(player, entity, *static_cast<const T*>(value)));
        });
    }
    /// Ends the connection with DisconnectReason::kicked. A player that is away leaves at once. No effect for
    /// an unknown peer. Messages and actions of this player that were not handled yet are dropped. If the
    /// handler of a message calls this, the later messages of the player are dropped, too.
    void disconnect(net::PeerId peer, std::string_view text, net::Time now);

    /// Sets the function that is called once for each player, when it begins to play. At this time its client
    /// has everything that replicated when the client began to load. The function returns the entity of the
    /// player, which has the tag Replicated, or null. The server then gives the entity to the player, as
    /// give() does. tick() calls the function, outside of hooks and queries. The function may send messages
    /// to the player, and disconnect the player.
    void on_join(std::function<ecs::Entity(PlayerId)> handler) { join_ = std::move(handler); }
    /// Sets the function that is called when a player leaves, if on_join() was called for this player. In the
    /// function, player() still works. Afterwards the player's entity is destroyed, see JoinOptions.
    void on_leave(std::function<void(PlayerId)> handler) { leave_ = std::move(handler); }
    /// Sets the function that is called when a player that has played loses its connection. The player keeps
    /// its entities and groups, its inputs become T{}, and messages to it are not queued. If its client comes
    /// back with its ticket (Client::ticket) within JoinOptions::resume_time, on_back() is called, else
    /// on_leave(). A player that disconnects, or is disconnected, leaves at once. At most
    /// HostConfig::max_peers players can be away, and max_peers_per_ip of one address. If one more loses its
    /// connection, a player leaves: the one that is away longest, of this address or of the address that has
    /// most players away.
    void on_away(std::function<void(PlayerId)> handler) { away_ = std::move(handler); }
    /// Sets the function that is called when a player that was away plays again. tick() calls it, as
    /// on_join(). The client never gets messages and action events sent while the player was away, nor some
    /// that were sent shortly before, and may not be told of a value that was refused then.
    void on_back(std::function<void(PlayerId)> handler) { back_ = std::move(handler); }
    /// The present connection of a player, for the functions of host(); empty if there is none. It equals the
    /// player's id until the player comes back on another connection. Afterwards another player can have the
    /// same PlayerId::index(), so do not use the index as a key for tables of players.
    net::PeerId connection(PlayerId player) const {
        const Player* const found = players_.find(player);
        return found ? found->connection : net::PeerId{};
    }
    /// With JoinOptions::waits_for_admit, lets a player load once its client is ready(). Until then the
    /// client gets messages, but no state. Call it at any time after ServerListener::on_join().
    void admit(PlayerId player);
    Phase phase(PlayerId player) const;
    /// The entity of a player that plays; null if it has none, or if the entity is dead.
    ecs::Entity player(PlayerId player) const;
    /// Replaces the entity of a player that plays, and gives the new entity to the player. The former entity
    /// stays alive. No effect if the player does not play.
    void set_player(PlayerId player, ecs::Entity entity);
    /// Returns the net id of a living entity with the tag Replicated, also before the first tick() that sends
    /// it. For other living entities returns the net id that their StableKey reserves, or 0.
    NetId assign_net_id(ecs::Entity entity) { return sender_.assign_net_id(entity); }

    /// Makes the peer the owner of a living entity with the tag Replicated. From the next tick() on the owner
    /// sees the components with to_owner(), see view_class.h. If the schema has the tag Mine, the entity gets
    /// it. Ownership ends when the entity stops replicating, or the peer leaves. If `peer` is {}, the entity
    /// has no owner. Returns false, without effect, if the entity is dead or does not have the tag, or if
    /// there is no such player.
    bool give(net::PeerId peer, ecs::Entity entity);
    /// Returns {} if the entity has no owner.
    net::PeerId owner(ecs::Entity entity) const;
    /// Lets the player's client predict a living entity with the tag Replicated that the player does not own,
    /// for example a ball that the player pushes. If `is_predicted` is false, ends this. From the next tick()
    /// on, the client computes the entity together with the entities of its player, see Client::on_step().
    /// This also ends when the entity stops replicating, or the player leaves. Returns false, without effect,
    /// if the entity is dead or does not have the tag, if there is no such player, or if the schema predicts
    /// nothing.
    bool predict(PlayerId player, ecs::Entity entity, bool is_predicted = true);
    /// Returns whether predict() holds for this player and entity.
    bool is_predicted_by(PlayerId player, ecs::Entity entity) const;
    /// Says that a living entity was moved to another place without travelling there: clients that
    /// interpolate show it jump. No effect if no component of the schema has a Display.
    void teleport(ecs::Entity entity);
    /// What one player sees. For an unknown player, or one that left, no function has an effect.
    /// scope/scope.h has the rule who sees an entity. What is set has an effect from the next tick() on, and
    /// ends when the player leaves.
    class PlayerView {
    public:
        /// Sets the groups in which the player is: to_group(), or several with |; {} for none.
        void set_groups(ViewClasses groups) {
            if (const auto peer = its_peer()) server_.sender_.set_groups(*peer, groups);
        }
        /// The player enters or leaves a room; a player can be in any number of rooms. Entities have the
        /// component Room or Rooms.
        void enter(Room room) { change(&Scope::enter, room); }
        void leave(Room room) { change(&Scope::leave, room); }
        /// Shows an entity, or hides it, unless the player owns or predicts it. unset() undoes both.
        void show(ecs::Entity entity) { change(&Scope::set_shown, entity, true); }
        void hide(ecs::Entity entity) { change(&Scope::set_shown, entity, false); }
        void unset(ecs::Entity entity) { change(&Scope::set_shown, entity, std::nullopt); }
        /// With Schema::grid(): the player sees what is near this entity, which need not replicate, or near
        /// these places. Without a call this is the player's entity. Where the player looks from stays if the
        /// entity is destroyed.
        void from(ecs::Entity entity) {
            if (const auto peer = its_peer()) server_.sender_.scope().view_from(*peer, entity);
        }
        void from(std::span<const GridPlace> places) {
            if (const auto peer = its_peer()) server_.sender_.scope().view_from(*peer, places);
        }
        /// Asks the filters again, see filter().
        void recheck() {
            if (const auto peer = its_peer()) server_.sender_.scope().recheck(*peer);
        }
        /// In the next tick() sends a record of each of these entities, even if nothing changed. It is sent
        /// again if it is lost. Entities that do not replicate are ignored.
        void send_now(std::span<const ecs::Entity> entities);

        /// Returns whether the player sees a replicated entity now. The client may not have received it yet.
        bool sees(ecs::Entity entity) const {
            const Sender& sender = server_.sender_;
            const auto peer = its_peer();
            return peer && sender.shadow().replicates(entity) && sender.sees(*peer, entity);
        }
        /// Why the player has an entity, or does not have it; describe() gives a sentence.
        Why why(ecs::Entity entity) const {
            const auto peer = its_peer();
            return peer ? server_.sender_.why(*peer, entity) : Why();
        }
        /// The hash of what the player sees, for a comparison with WorldHash::of_client(). Call it after
        /// tick().
        WorldHash::Sum hash(WorldHash& hash) const {
            const auto peer = its_peer();
            return peer ? hash.of_peer(server_.sender_, *peer) : WorldHash::Sum();
        }

    private:
        friend class Server;
        PlayerView(Server& server, PlayerId player) : server_(server), player_(player) {}
        std::optional<Sender::Peer> its_peer() const {
            const Player* const found = server_.players_.find(player_);
            return found ? std::optional(found->peer) : std::nullopt;
        }
        template <class Fn, class... Arguments>
        void change(Fn fn, const Arguments&... arguments) {
            if (const auto peer = its_peer()) (server_.sender_.scope().*fn)(*peer, arguments...);
        }

        Server& server_;
        PlayerId player_;
    };
    PlayerView view(PlayerId player) { return {*this, player}; }
    /// Sets a function that says whether a player may see an entity, by a component of it. tick() calls it
    /// for the players that may see the entity otherwise: when the component was written, when another part
    /// of the rule changes, and after recheck(). sees(), why(), hash() and messages that name the entity
    /// call it, too. If the answer depends on something else that changes, call recheck(). The function may
    /// not change the world or call filter().
    template <class T, class Fn>
    void filter(Fn fn) {
        static_assert(
            requires(const T& value) { bool(fn(PlayerId(), ecs::Entity(), value)); },
            "a filter must be: bool(PlayerId, ecs::Entity, const T&)");
        sender_.scope().set_filter(
            world_.component<T>(), ecs::impl::type_name<T>(),
            [this, fn = std::move(fn)](Sender::Peer peer, ecs::Entity entity, const void* value) mutable {
                bool sees = false;  // also if the function throws
                ecs::impl::call_guarded(world_, [&] {
                    if constexpr (std::is_empty_v<T>)
                        sees = bool(fn(players_.find_peer(peer)->id, entity, T{}));
                    else
                        sees = bool(fn(players_.find_peer(peer)->id, entity, *static_cast<const T*>(value)));
                });
                return sees;
            });
    }
    void recheck(ecs::Entity entity) { sender_.scope().recheck(entity); }

    /// Makes a model of the traffic so far, for smaller packets; see codec/README.md. The server does so by
    /// itself, see ServerOptions::renew_model_s. Each client gets the model, and keeps the former one until
    /// it has it. Returns false, without effect, if there was too little traffic, or if the last model is not
    /// ten seconds old.
    bool renew_model();
    /// The newest model, for load_model() of a later server with the same schema. Empty if there is none.
    std::vector<std::byte> save_model() const {
        return {sender_.models().bytes().begin(), sender_.models().bytes().end()};
    }
    /// Uses a model of an earlier server. Returns false, without effect, if the bytes are not valid or of
    /// another schema, or if the last model is not ten seconds old.
    bool load_model(std::span<const std::byte> bytes);

    /// Number of the last tick(); 0 before the first.
    Tick current_tick() const { return sender_.tick(); }
    const Sender& sender() const { return sender_; }
    ServerStats stats() const { return {typed_.stats(), tickets_}; }
    /// All zero for an unknown player.
    PlayerStats stats(PlayerId player) const;
    InputStats input_stats(PlayerId player) const { return stats(player).inputs; }  // its former name

    /// Calls fn(PlayerId) for each player that is connected.
    template <class Fn>
    void for_each_peer(Fn&& fn) const {
        players_.for_each([&](const Player& player) {
            if (player.connection) fn(player.id);
        });
    }

private:
    /// The client that on_admit() admitted last with an index of a connection; it may fail to connect.
    struct Arrival {
        std::uint32_t max_slots = 0;
        ComponentNumbers numbers;
        std::uint64_t client_id = 0;
        std::optional<Resumption> resumption;
    };

    /// The references in messages of one player.
    class References final : public EntityMap {
    public:
        explicit References(Server& server) : server_(server) {}
        std::uint32_t to_net(ecs::Entity entity) override {
            return server_.world_.is_alive(entity) ? server_.assign_net_id(entity) : 0;
        }
        ecs::Entity to_entity(std::uint32_t net_id) override {
            return server_.sender_.entity_seen_by(from, net_id);
        }
        Sender::Peer from = 0;  // the peer that sent the message

    private:
        Server& server_;
    };

    void on_connected(net::PeerId peer) override;
    void on_disconnected(net::PeerId peer, net::DisconnectReason reason, std::string_view text) override;
    void on_message(net::PeerId peer, net::Channel channel, std::span<const std::byte> message) override;
    void on_fate(net::PeerId peer, const net::PacketFate& fate) override;
    bool on_admit(const net::Admission& admission, std::string& refusal) override;
    void on_never_connected(net::PeerId peer) override;
    std::size_t write_payload(net::PeerId peer, net::PayloadTurn& turn) override;
    bool on_payload(net::PeerId peer, std::uint64_t number, std::span<const std::byte> payload,
                    net::Time now) override;

    void send_control(Player& player, std::vector<std::byte> message) override;
    void flush_control(Player& player);
    bool note_model();
    [[nodiscard]] bool send_event(Player& player, std::span<const std::byte> message) override;
    void note_named(Player& player, const SchemaStruct& type, std::span<const std::uint32_t> words,
                    NetId also) override;
    void disconnect_player(Player& player, std::string_view why) override {
        disconnect(player.id, why, now_);
    }
    void give_entity(PlayerId player, ecs::Entity entity) override { give(player, entity); }

    template <class T>
    void write_typed(const T& message, const net::Delivery& how) {
        message_ = {static_cast<std::byte>(MessageKind::typed), static_cast<std::byte>(stream_of(how))};
        typed_.write(message, message_, next_tick_);
    }
    net::SendResult send_typed(PlayerId player, const net::Delivery& how);
    std::size_t send_typed(ViewClasses groups, const net::Delivery& how);
    bool use(Player& player, MessageKind kind, net::Channel channel, std::span<const std::byte> bytes);
    [[nodiscard]] bool take_typed(Player& player, net::Channel channel, std::span<const std::byte> message);
    void handle_typed(Player& player, const MessageIntake::Item& message);
    void handle_deferred();
    void handle_waiting(Player& player) override;
    void load_if_ready(Player& player);
    void advance_joins();
    void advance_join(Player& player);
    void finish_join(PlayerId player);
    void tell_ended();
    bool may_run() const;
    void step(net::Time now);
    void report_too_large();
    template <class Tag>
    void mark(ecs::Entity entity, bool has_tag);
    void finish_return(PlayerId player);
    void warn(PlayerId player, Warning warning);
    void take_back(net::PeerId connection);
    void send_player(Player& player);
    void go_away(Player& player, const net::Address& from);
    void leave(PlayerId player, net::DisconnectReason reason, std::string_view text);

    ecs::World& world_;
    const Schema& schema_;
    ServerListener* listener_;
    Welcome welcome_;
    const Tick model_ticks_;                // from one renew_model() to the next; 0: never
    std::vector<std::byte> model_message_;  // with the newest model
    Sender sender_;
    std::optional<Recorder> recorder_;
    std::span<const std::byte> recorded_;  // memory of recorder_
    References references_{*this};
    UplinkReader uplink_;
    std::unique_ptr<ServerInputs> inputs_;  // null: the schema has no input
    OnStep on_step_;
    StepQueries queries_;
    PredictedValues predicted_;
    ecs::ChangeCollector to_round_;  // watches something only if the authority is quantised
    OwnedReader owned_;
    Rewind rewind_;
    net::Entropy entropy_;  // of tickets; before host_, which takes the seed
    net::Host host_;
    Tick next_tick_;
    RunState run_;
    net::Time now_{0};  // argument of the last tick(), poll() or resend()
    Players players_;
    std::vector<Arrival> arrivals_;  // by PeerId::index()
    std::size_t most_away_, most_away_per_ip_;
    net::impl::SipKey network_key_;
    std::vector<std::byte> message_;
    TypedMessages::Message hidden_message_;  // as message_, for a player who does not see all that it names
    std::vector<std::byte> hidden_bytes_;
    std::uint64_t ended_seen_ = 0;  // Shadow::ended_count() in the last tell_ended()
    bool names_ended_ = false;      // a message since then names an entity that had ended
    MessageLimits limits_;
    TypedMessages typed_;
    TypedMessages::Message read_;  // the message that is handled, decoded
    MessageIntake::Item handled_;  // the message that is handled
    std::function<void(PlayerId, Warning)> warn_;
    TicketStats tickets_;
    JoinOptions join_options_;
    net::Duration silent_after_;  // a client that is alive sends something within this time
    std::function<ecs::Entity(PlayerId)> join_;
    std::function<void(PlayerId)> leave_, away_, back_;
    ServerActions actions_;
};

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::ActionReport, impl::Cluster, impl::Coding, impl::describe, impl::InputStats, impl::JoinOptions,
    impl::MessageInfo, impl::MessageStats, impl::Past, impl::PeerOptions, impl::Phase, impl::PlayerStats,
    impl::Reason, impl::RewindStats, impl::Room, impl::Rooms, impl::Sender, impl::SenderOptions, impl::Server,
    impl::ServerListener, impl::ServerOptions, impl::ServerStats, impl::TicketStats, impl::Warning, impl::Why;
}  // namespace shoal::replication
