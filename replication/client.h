#pragma once
// Keeps a copy of the server's world: a Receiver with a net::Client.

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../ecs/query.h"
#include "../net/client.h"
#include "action/client_actions.h"
#include "message.h"
#include "message/message_queue.h"
#include "message/typed_messages.h"
#include "play/owned_writer.h"
#include "play/running.h"
#include "play/seat.h"
#include "play/uplink.h"
#include "predict/predictor.h"
#include "presentation.h"
#include "receive/receiver.h"

namespace shoal::replication::impl {

struct ClientOptions {
    net::ClientConfig net;  // set protocol_id, server_key and a new seed; schema_hash is overwritten
    ReceiverOptions receiver;
    bool is_ready_at_once = true;  // false: the client gets no state before ready()
    // If the inputs must be at least this far ahead of the server's state, the client does not predict its
    // own entities, but shows the server's values.
    net::Duration max_lead = std::chrono::milliseconds(500);
    // For debug builds: in every n-th tick, checks that the step function computes the same result when it
    // runs twice, and writes only what it may write. 0: never. The function is called for each mistake that
    // is found, in update(). It must not change the world. See StepCheck.
    Tick check_every = 0;
    OnStepFault on_step_fault = {};
};

/// Callbacks of the game. They are called in endpoint().receive(), update() and disconnect(). They may send
/// messages, call connect(), and change the world.
class ClientListener {
public:
    virtual ~ClientListener() = default;
    virtual void on_join() {}
    /// The connection ended, or could not be made. Called once for each connect() that an update() has begun.
    /// The replicas stay until the next attempt to connect begins. The text may contain bytes from the
    /// server.
    virtual void on_leave(net::DisconnectReason, std::string_view /*text*/) {}
    /// The bytes come from the network: check them. They are valid during the call.
    virtual void on_message(net::Channel, std::span<const std::byte>) {}
    /// A self-check found that this client has other values of an entity than the server; it gets them anew.
    /// The cause is a bug of the library or bad memory. Null if the entity is not in the world.
    virtual void on_difference(ecs::Entity) {}
};

/// Uses no socket or clock: datagrams and time are arguments, and `sink` sends datagrams. Not thread-safe. In
/// a loop:
///
///     net::receive_all(socket, client.endpoint(), now);
///     client.update(now);
class Client final : private net::Handler {
public:
    /// World, schema, sink and listener must outlive the client. A schema with an error stops the program.
    Client(ecs::World& world, const Schema& schema, net::Sink& sink, const ClientOptions& options,
           ClientListener* listener = nullptr);
    /// A temporary schema would not outlive the client.
    Client(ecs::World&, const Schema&&, net::Sink&, const ClientOptions&, ClientListener* = nullptr) = delete;

    /// The next update() ends an earlier connection, destroys its replicas, and begins to connect. If
    /// on_leave of the earlier connection calls connect() or disconnect(), the last call counts.
    /// `token`: see net::Client::connect.
    ///
    /// With a ticket, see ticket(), takes back the player's seat. If this client got the ticket itself, its
    /// replicas stay, and actions without an answer are sent again. Otherwise it loads the world. If the
    /// server refuses the ticket, the attempt fails, and ticket() is empty. A `ticket` that is empty or
    /// malformed is ignored.
    void connect(const net::Servers& servers, std::span<const std::byte> ticket = {});
    void connect(const net::Servers& servers, const net::ClientToken& token,
                 std::span<const std::byte> ticket = {});
    /// What connect() needs to take back this player's seat, for JoinOptions::resume_time after the
    /// connection was lost. Secret. It changes when the player comes back. Keep the newest ticket, for
    /// example in a file, to come back after a crash. Empty before the client plays, and after it lost its
    /// seat: it disconnected or was disconnected, or the server refused the ticket. A client never reconnects
    /// by itself: use Reconnect, or call connect(servers, ticket()) in or after ClientListener::on_leave().
    std::vector<std::byte> ticket() const { return ticket_ ? ticket_->bytes() : std::vector<std::byte>(); }
    /// Ends the connection or the attempt to connect; no effect if there is none. The player leaves. Messages
    /// and events that wait are delivered now. If the handler of a message calls this function, they are
    /// delivered after the handler. With `deliver_for` the connection goes on until the server has the
    /// messages of this client, at most for this time, see net::Endpoint::disconnect().
    void disconnect(net::Time now, net::Duration deliver_for = net::Duration(0));

    /// Pass each datagram from the socket to endpoint().receive().
    net::Client& endpoint() { return endpoint_; }
    const net::Client& endpoint() const { return endpoint_; }

    /// Applies received state to the world and sends what is due. Entities that have a component with a
    /// Display are shown as of render_time(). Call it at least every 20 ms, outside of hooks and queries. A
    /// function of the game that the client calls must not call update(): a debug build stops the program,
    /// otherwise the call has no effect. What such a function throws, if anything, may leave update() at its
    /// end.
    void update(net::Time now);

    /// As net::Endpoint::send_message, but the library adds one byte, so the maximum is one byte less.
    [[nodiscard]] net::SendResult send_message(net::Delivery how, std::span<const std::byte> message);

    /// Sends a message of the schema to the server. An entity in it that is not a replica, and was not loaded
    /// by both sides, arrives as null. The largest size is seven bytes less than for
    /// net::Endpoint::send_message. MessageStats::not_queued counts what could not be queued. The server
    /// handles reliable messages with the default key in one order with act(), and with the values of
    /// components with from_owner().
    template <class T>
    net::SendResult send(const T& message, const net::Delivery& how = net::Channel::reliable) {
        begin_typed(how);
        typed_.write(message, message_);
        return send_typed(how);
    }
    /// Sets the handler of a type of messages: fn(const T&, const MessageInfo&). update() calls it, after it
    /// has changed the world; disconnect() and receive() may call it, too. A message that names an entity
    /// which has not arrived yet waits for at most 500 ms. Later reliable messages with the same key wait,
    /// too. Set the handler before the first message, and not in a handler.
    ///
    /// For a type of actions, adds a handler fn(const T&, const Call&). It is called when this client does
    /// such an action, and when another player or the server did one: in update() when render_time() reaches
    /// the tick of the action, but at most 500 ms after its event has arrived. receive() and disconnect() may
    /// call it, too. Do not add it in a handler.
    template <class T, class Fn>
    void on(Fn handler) {
        set_handler<T>(world_, schema_, typed_, actions_, std::move(handler));
    }
    const MessageStats& message_stats() const { return typed_.stats(); }
    /// Sets what the player does now: a value of the schema's input type. Call it once per frame, before
    /// update(). The values are used for all ticks that begin before the next call; each Press is used in one
    /// tick only. A Press that is made before the client plays is dropped.
    template <class T>
    void input(const T& input) {
        require_input(schema_.find_struct<T>(StructKind::input));
        predictor_.set_input(&input, phase() == Phase::playing);
    }
    /// Sets the function that computes a tick from the tick before it. update() calls it for the entities
    /// that this client owns or predicts, see Server::predict(): for each new tick, and again for earlier
    /// ticks if the server's state differs.
    void on_step(OnStep fn) { predictor_.set_on_step(std::move(fn)); }
    /// The tick of the newest input, which is ahead of the server. Empty before the first input.
    std::optional<Tick> predicted_tick() const { return predictor_.tick(); }
    /// Returns whether this client's own entities are computed ahead of the server. False while the lead
    /// exceeds ClientOptions::max_lead.
    bool is_predicting() const { return predictor_.is_predicting(); }
    const PredictionStats& prediction_stats() const { return predictor_.stats(); }

    /// Does an action: mutates this client's world at once, calls the handlers, and sends the action to the
    /// server, in order. Returns the result of the mutation. If the server rejects the action, its changes
    /// are undone, and also the changes of later actions that are not independent(). Inside a query or hook,
    /// the action waits for the next update(). If the client does not play, or if 256 actions have no answer,
    /// nothing happens (action_stats().not_begun). In both cases act() returns a default value.
    template <class T>
    auto act(T action) {
        using Result = decltype(finish_act(actions_, action));
        actions_.set_owned(owned_.name_newest(actions_.before()));
        if (actions_.begin(schema_.require_struct<T>(StructKind::action), &action))
            return finish_act(actions_, action);
        return Result();
    }
    /// Adds a handler for rejected actions of this client. It gets the action and the reason, after all
    /// changes of the action were undone. The text comes from the server.
    template <class T, class Fn>
    void on_rejected(Fn handler) {
        static_assert(std::invocable<Fn&, const T&, std::string_view>,
                      "a handler of rejected actions must take (const T&, std::string_view)");
        actions_.on_rejected(schema_.require_struct<T>(StructKind::action),
                             [fn = std::move(handler)](const void* action, std::string_view why) mutable {
                                 fn(*static_cast<const T*>(action), why);
                             });
    }
    /// Calls the action's validator with this client's world, for example to disable a button. Returns the
    /// reason against the action. Empty: the action is allowed.
    template <class T>
    std::string why_not(const T& action) const {
        return actions_.why_not(schema_.require_struct<T>(StructKind::action), &action);
    }
    const ClientActions::Stats& action_stats() const { return actions_.stats(); }

    /// Tells the server that this client can load the world now. Call it once for each connection, when
    /// is_connected(); no effect at other times. Needed only without ClientOptions::is_ready_at_once.
    void ready();
    /// How far the client has come in joining. It plays when it has its player's entity, and everything that
    /// replicated at the time when it began to load. Phase::resuming while it connects with a ticket.
    Phase phase() const;
    /// The replica of the player's entity, see Server::on_join(); null before the client plays, and while
    /// there is none.
    ecs::Entity player() const;

    /// Sets the function that is called when the server refused a value that the game wrote to a component
    /// with from_owner() of an entity that this client owns. Before the call the component gets the server's
    /// value again, unless the game has written a newer value, which is on its way. `why` is the result of
    /// the server's check; it may contain any bytes. The function is called in update() and
    /// endpoint().receive(), and may change the world.
    template <class T, class Fn>
    void on_refused(Fn handler) {
        static_assert(std::invocable<Fn&, ecs::Entity, std::string_view>,
                      "a handler of refused values must take (ecs::Entity, std::string_view)");
        owned_.on_refused(schema_.require_owned<T>(),
                          guarded<ecs::Entity, std::string_view>(world_, std::move(handler)));
    }
    const OwnedWriter::Stats& owned_stats() const { return owned_.stats(); }

    bool is_connected() const { return endpoint_.is_connected(endpoint_.server()); }
    /// Why the last connection ended or could not be made. Empty until then; connect() empties it again. The
    /// text may contain bytes from the server.
    const std::string& failure() const { return failure_; }
    /// Returns whether failure() is final: this client ended the connection, or the server ended or refused
    /// it. ticket() is then empty.
    bool is_refused() const { return !failure_.empty() && is_refused_; }

    /// The server's welcome message; nothing until it has arrived. The next attempt to connect forgets it.
    const std::optional<Welcome>& welcome() const { return welcome_; }

    const Receiver& receiver() const { return receiver_; }
    /// Undoes what the game did to a replica, see Receiver::restore().
    bool restore(ecs::Entity entity) { return receiver_.restore(entity); }

    /// The time of the server that the world shows, for entities that have a component with a Display.
    /// Nothing if there are none, if ReceiverOptions::interpolate is false, or before the first state.
    std::optional<RenderTime> render_time() const { return presentation_.time(); }
    /// Returns the component of an entity as it is to be drawn: mixed from the versions around render_time(),
    /// or, for entities and components that are not mixed, as it is in the world. Returns nothing if the
    /// entity does not have the component.
    template <class T>
    std::optional<T> sample(ecs::Entity entity) const {
        return presentation_.sample<T>(entity);
    }
    /// Calls fn(Entity, const T&) with sample() of each entity that has a T. Structural changes are queued
    /// meanwhile.
    template <class T, class Fn>
    void each_shown(Fn&& fn) {
        presentation_.each_shown<T>(fn);
    }
    /// Returns the component of a replica in the newest version received; nothing if this version lacks it.
    /// The world may show an older version.
    template <class T>
    std::optional<T> authoritative(ecs::Entity entity) const {
        return presentation_.authoritative<T>(entity);
    }

    /// The entities that the server gave to this client, see Server::give(). Requires that the schema has
    /// the tag Mine.
    std::vector<ecs::Entity> mine() const;
    /// Statistics of the last connection; all zero before the first.
    const net::ConnectionStats& stats() const { return endpoint_.stats(endpoint_.server()); }

private:
    void begin_typed(const net::Delivery& how);
    net::SendResult send_typed(const net::Delivery& how);
    void on_connected(net::PeerId) override;
    void on_disconnected(net::PeerId, net::DisconnectReason reason, std::string_view text) override;
    void on_fate(net::PeerId, const net::PacketFate& fate) override {
        uplink_.on_fate(fate.number, fate.delivered);
    }
    std::size_t write_payload(net::PeerId, net::PayloadTurn& turn) override {
        if (awaits_resumed_) return 0;
        return uplink_.write(turn.packet_number, turn.room);
    }
    bool on_payload(net::PeerId peer, std::uint64_t number, std::span<const std::byte> payload,
                    net::Time now) override;
    void on_message(net::PeerId peer, net::Channel channel, std::span<const std::byte> message) override;
    bool use(MessageKind kind, net::Channel channel, std::span<const std::byte> bytes);

    void require_input(std::size_t index) const;
    void start_connecting(net::Time now);
    void forget_world();
    bool resume(const std::optional<Resumed>& resumed);
    void start_clocks();
    void confirm_model();
    void send_ready();
    void send_rebases();
    bool holds_too_much() const;
    void end_for_size(net::Time now);

    ecs::World& world_;
    const Schema& schema_;
    ClientListener* listener_;
    RunState run_;
    Receiver receiver_;
    Presentation presentation_;
    mutable ecs::Query<ecs::With<Mine>> mine_;
    ClientActions actions_;
    OwnedWriter owned_;
    UplinkWriter uplink_;
    Predictor predictor_;
    net::Client endpoint_;
    std::string failure_;
    bool is_refused_ = false;                // if there is a failure: see is_refused()
    std::optional<std::uint8_t> new_model_;  // a HasModel is to be sent
    std::optional<Welcome> welcome_;
    std::optional<net::Servers> target_;     // the next update() connects to it
    std::optional<net::ClientToken> token_;  // the token for target_
    std::optional<Ticket> to_use_;           // the ticket for target_
    std::optional<Ticket> ticket_;           // the newest ticket
    std::uint32_t state_number_ = 0;         // see Resumption
    bool is_resuming_ = false;               // the attempt or connection has a ticket
    bool awaits_resumed_ = false;            // the server has not answered the ticket
    std::vector<std::byte> message_;
    net::Time now_{0};  // argument of the last update()
    TypedMessages typed_;
    MessageQueue queue_{typed_, receiver_, &actions_};
    bool ready_at_once_;
    enum class Ready : std::uint8_t { no, to_send, sent } ready_ = Ready::no;
    std::optional<NetId> player_;  // net id of the player's entity; 0: no entity; empty: still joining
    bool is_playing_ = false;
};

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::Client, impl::ClientListener, impl::ClientOptions, impl::describe, impl::MessageInfo,
    impl::MessageStats, impl::Misprediction, impl::NetId, impl::Phase, impl::PredictionStats, impl::Receiver,
    impl::ReceiverOptions, impl::RenderTime, impl::StepFault;
}  // namespace shoal::replication
