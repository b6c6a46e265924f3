#include "client.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>

#include "message.h"

namespace shoal::replication::impl {

using ecs::impl::call_guarded;

namespace {

net::ClientConfig with_schema(net::ClientConfig config, const Schema& schema) {
    config.schema_hash = schema.hash();
    return config;
}

/// Whether the server has given the seat away, or never will give it back to this client.
bool is_seat_gone(net::DisconnectReason reason) {
    using enum net::DisconnectReason;
    return reason == closed || reason == closed_by_peer || reason == shut_down || reason == kicked ||
           reason == replaced || reason == protocol_error || reason == refused;
}

bool is_in_order(const net::Delivery& how) {
    return how.channel == net::Channel::reliable && how.key == net::Delivery(net::Channel::reliable).key;
}

ReceiverOptions with_hash_seed(const ClientOptions& options) {
    ReceiverOptions of_receiver = options.receiver;
    if (of_receiver.hash_seed == 0) of_receiver.hash_seed = options.net.seed.number();
    return of_receiver;
}

}  // namespace

Client::Client(ecs::World& world, const Schema& schema, net::Sink& sink, const ClientOptions& options,
               ClientListener* listener)
    : world_(world),
      schema_(schema),
      listener_(listener),
      receiver_(world, schema, with_hash_seed(options)),
      presentation_(world, schema, receiver_),
      mine_(world),
      actions_(world, schema, receiver_),
      owned_(world, schema, receiver_),
      predictor_(world, schema, receiver_, options.max_lead),
      endpoint_(with_schema(options.net, schema), *this, sink),
      typed_(schema, receiver_),
      ready_at_once_(options.is_ready_at_once) {
    uplink_.set(Section::inputs, predictor_.inputs());
    presentation_.set_predictor(&predictor_);
    predictor_.set_interpolator(&presentation_.interpolator());
    predictor_.check_steps(options.check_every, options.on_step_fault);
    uplink_.set(Section::actions, &actions_.section());
    actions_.set_sight(&presentation_);
    actions_.on_spawned([this](ecs::Entity entity) { return predictor_.add_pending(entity); });
    uplink_.set(Section::owned_state, &owned_);
    receiver_.set_named([this](std::vector<NetId>& net_ids) { queue_.append_named(net_ids); });
}

void Client::connect(const net::Servers& servers, std::span<const std::byte> ticket) {
    target_ = servers;
    token_.reset();
    to_use_ = Ticket::from(ticket);
    failure_.clear();
}

void Client::connect(const net::Servers& servers, const net::ClientToken& token,
                     std::span<const std::byte> ticket) {
    connect(servers, ticket);
    token_ = token;
}

void Client::start_connecting(net::Time now) {
    // The server keeps the seat of a connection that was replaced.
    endpoint_.disconnect(endpoint_.server(),
                         to_use_ ? net::DisconnectReason::replaced : net::DisconnectReason::closed, {}, now);
    if (!target_) return;  // on_leave called disconnect()
    const net::Servers servers = *std::exchange(target_, std::nullopt);
    const std::optional<net::ClientToken> token = std::exchange(token_, std::nullopt);
    const std::optional<Ticket> ticket = std::exchange(to_use_, std::nullopt);
    failure_.clear();
    welcome_.reset();
    queue_.clear();
    if (!ticket || ticket != ticket_) state_number_ = 0;
    ticket_ = ticket;
    if (state_number_ != 0) {
        static_cast<void>(actions_.take_answers());  // update() takes the failure from it, too
        predictor_.reset();
        receiver_.reconnect();
        presentation_.reconnect();
        owned_.reconnect();
    } else {
        forget_world();
    }
    ready_ = Ready::no;
    player_.reset();
    is_playing_ = false;
    is_resuming_ = awaits_resumed_ = ticket.has_value();
    const std::vector<std::byte> summary = schema_.summary();
    Hello said{receiver_.options().max_slots, summary};
    if (ticket) said.resumption = Resumption{*ticket, state_number_, actions_.first()};
    const std::vector<std::byte> hello = write_hello(said);
    if (token) {  // beside a token there is less room for a hello, but this hello always fits
        endpoint_.connect(servers, *token, hello, now);
    } else {
        endpoint_.connect(servers, hello, now);
    }
}

void Client::forget_world() {
    actions_.reset();
    predictor_.reset();
    receiver_.reset();
    presentation_.reset();
    owned_.reset();
}

/// Handles the message that the server accepted the ticket. Returns false if it is malformed, or unexpected.
bool Client::resume(const std::optional<Resumed>& resumed) {
    if (!resumed || !std::exchange(awaits_resumed_, false)) return false;
    if (resumed->keeps && state_number_ != 0) return true;
    state_number_ = 0;
    is_resuming_ = false;
    forget_world();
    actions_.reset(resumed->next_actions, resumed->epoch);
    if (welcome_) start_clocks();
    if (ready_at_once_) ready();
    return true;
}

void Client::start_clocks() {
    receiver_.start_clock(std::chrono::microseconds(welcome_->tick_us));
    predictor_.start(std::chrono::microseconds(welcome_->tick_us), welcome_->random_seed);
    presentation_.start(welcome_->tick_us);
}

void Client::disconnect(net::Time now, net::Duration deliver_for) {
    const Running running(world_, run_);
    target_.reset();
    token_.reset();  // it contains keys
    to_use_.reset();
    endpoint_.disconnect(endpoint_.server(), net::DisconnectReason::closed, {}, now, deliver_for);
}

std::vector<ecs::Entity> Client::mine() const {
    std::vector<ecs::Entity> entities;
    mine_.each([&](ecs::Entity entity) { entities.push_back(entity); });
    return entities;
}

void Client::update(net::Time now) {
    const bool is_inside = run_.is_running || actions_.is_acting();
    assert(!is_inside && "a function of the game called update()");
    if (is_inside) return;
    const Running running(world_, run_);
    now_ = now;
    owned_.take(actions_.before());
    if (target_) start_connecting(now);
    endpoint_.update(now);
    receiver_.update_clock(now);
    const bool is_correct = actions_.take_answers();
    predictor_.set_seen(presentation_.time());  // what the player saw when it made the input
    presentation_.apply(now);
    predictor_.update(now, stats().rtt, stats().jitter);
    is_playing_ = is_playing_ || (player_ && (*player_ == 0 || receiver_.entity(*player_)));
    is_resuming_ = is_resuming_ && !is_playing_;
    // An action counts for the next tick of this client.
    const Tick now_at = predictor_.tick().value_or(receiver_.newest_tick().value_or(0));
    const std::optional<RenderTime> time = presentation_.time();
    actions_.set_player(phase() == Phase::playing, player(), now_at + 1, time);
    actions_.end_accepted();
    queue_.deliver(now, time ? std::optional(time->tick) : std::nullopt);
    receiver_.end_kept();
    if (queue_.size() == 0) receiver_.replicas().forget_ended_keys();
    actions_.set_owned(owned_.name_newest(actions_.before()));
    actions_.run_waiting();
    if (!is_correct)
        endpoint_.disconnect(endpoint_.server(), net::DisconnectReason::protocol_error,
                             "malformed message about actions", now);
    owned_.update(actions_.before());
    confirm_model();
    send_ready();
    send_rebases();
    endpoint_.flush(now);
}

void Client::require_input(std::size_t index) const {
    if (index < schema_.structs(StructKind::input).size()) return;
    std::fprintf(stderr, "shoal: this type is not the input of the schema\n");
    std::abort();
}

void Client::ready() {
    if (is_connected() && ready_ == Ready::no) ready_ = Ready::to_send;
    send_ready();
}

void Client::send_ready() {
    if (ready_ != Ready::to_send || awaits_resumed_) return;
    if (endpoint_.send_message(endpoint_.server(), net::unordered(), write_control(CanLoad{})) ==
        net::SendResult::queued)
        ready_ = Ready::sent;
}

void Client::confirm_model() {
    if (new_model_ && endpoint_.send_message(endpoint_.server(), net::unordered(),
                                             write_control(HasModel{*new_model_})) == net::SendResult::queued)
        new_model_.reset();
}

Phase Client::phase() const {
    if (is_resuming_) return Phase::resuming;
    if (!is_connected()) return Phase::disconnected;
    if (is_playing_) return Phase::playing;
    return receiver_.newest_tick() ? Phase::loading : Phase::waiting;
}

ecs::Entity Client::player() const {
    return phase() == Phase::playing ? receiver_.entity(*player_) : ecs::Entity{};
}

void Client::send_rebases() {
    const std::span<const std::uint32_t> slots = receiver_.decoder().rebases();
    const std::size_t count = std::min(slots.size(), Rebase::kMax);
    if (count == 0 || !is_connected()) return;
    Rebase rebase{{slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(count)}};
    std::vector<ecs::Entity> differ;
    for (std::uint32_t& slot : rebase.entity_slots) {
        if (!receiver_.decoder().differs(slot)) continue;
        differ.push_back(receiver_.entity_in(slot));
        slot |= Rebase::kDiffers;
    }
    const net::SendResult sent =
        endpoint_.send_message(endpoint_.server(), net::Channel::reliable, write_control(rebase));
    if (sent != net::SendResult::queued) return;
    receiver_.decoder().drop_rebases(count);
    for (const ecs::Entity entity : differ)
        if (listener_) call_guarded(world_, [&] { listener_->on_difference(entity); });
}

net::SendResult Client::send_message(net::Delivery how, std::span<const std::byte> message) {
    message_.assign(1, static_cast<std::byte>(MessageKind::game));
    message_.insert(message_.end(), message.begin(), message.end());
    return endpoint_.send_message(endpoint_.server(), how, message_);
}

/// Begins a typed message, see WIRE.md.
void Client::begin_typed(const net::Delivery& how) {
    const auto earlier = is_in_order(how) ? actions_.earlier() : std::nullopt;
    const auto order = !is_in_order(how) ? MessageOrder::unordered
                       : earlier         ? MessageOrder::after
                                         : MessageOrder::in_order;
    message_ = {static_cast<std::byte>(MessageKind::typed), static_cast<std::byte>(order)};
    if (earlier) write_earlier(*earlier, message_);
    if (!is_in_order(how) || !schema_.has_owned()) return;
    message_.resize(message_.size() + 4);
    net::impl::store(message_.data() + message_.size() - 4, owned_.name_newest(actions_.before()));
}

net::SendResult Client::send_typed(const net::Delivery& how) {
    const net::SendResult result = endpoint_.send_message(endpoint_.server(), how, message_);
    typed_.stats().not_queued += !net::is_queued(result);
    if (net::is_queued(result) && is_in_order(how)) actions_.note_message();
    return result;
}

void Client::on_connected(net::PeerId) {
    const Running running(world_, run_, Caller::net);
    actions_.forget_messages();
    new_model_.reset();
    if (ready_at_once_ && !is_resuming_) ready();
    if (listener_) call_guarded(world_, [&] { listener_->on_join(); });
}

void Client::on_disconnected(net::PeerId, net::DisconnectReason reason, std::string_view text) {
    const Running running(world_, run_, Caller::net);
    queue_.deliver_all();
    is_resuming_ = awaits_resumed_ = false;
    is_refused_ = is_seat_gone(reason);
    if (is_refused_ && !to_use_) ticket_.reset();
    failure_ = net::describe(reason);
    if (!text.empty()) failure_ += ": " + schema_.explain(text);
    const std::string text_for_listener = failure_;  // on_leave may call connect(), which empties failure_
    if (listener_) call_guarded(world_, [&] { listener_->on_leave(reason, text_for_listener); });
}

/// Returns whether state, messages and answers together exceed what the server may make this client hold.
bool Client::holds_too_much() const {
    return receiver_.decoder().held_bytes() + queue_.bytes() + actions_.bytes() >
           receiver_.options().max_held_bytes;
}

void Client::end_for_size(net::Time now) {
    endpoint_.disconnect(endpoint_.server(), net::DisconnectReason::protocol_error,
                         "the server sends more than this client may hold", now);
}

bool Client::on_payload(net::PeerId peer, std::uint64_t number, std::span<const std::byte> payload,
                        net::Time now) {
    const Running running(world_, run_, Caller::net);
    const Receiver::Verdict verdict = receiver_.receive(number, payload);
    if (verdict == Receiver::Verdict::malformed)
        endpoint_.disconnect(peer, net::DisconnectReason::protocol_error, "malformed state", now);
    if (verdict == Receiver::Verdict::too_many || holds_too_much()) {
        end_for_size(now);
        return false;
    }
    if (verdict != Receiver::Verdict::accepted) return false;
    receiver_.hear(number, now);
    if (receiver_.decoder().margin()) predictor_.take_margin(*receiver_.decoder().margin(), now);
    presentation_.receive(number, stats().packets_received, now);
    return true;
}

void Client::on_message(net::PeerId peer, net::Channel channel, std::span<const std::byte> message) {
    const Running running(world_, run_, Caller::net);
    if (message.empty() || !use(static_cast<MessageKind>(message[0]), channel, message.subspan(1)))
        return endpoint_.disconnect(peer, net::DisconnectReason::protocol_error, "malformed message", now_);
    if (holds_too_much()) end_for_size(now_);
}

/// Handles a message. Returns false if it is malformed, or of a kind that servers do not send.
bool Client::use(MessageKind kind, net::Channel channel, std::span<const std::byte> bytes) {
    switch (kind) {
        case MessageKind::game:
            if (listener_) call_guarded(world_, [&] { listener_->on_message(channel, bytes); });
            return true;
        case MessageKind::typed:
            return queue_.add(bytes, channel);
        case MessageKind::action_event:
            return queue_.add_event(bytes);
        case MessageKind::action_results:
            return actions_.receive(read_control<ActionResults>(bytes), bytes.size());
        case MessageKind::gone:
            return actions_.receive(read_control<Gone>(bytes), bytes.size());
        case MessageKind::refused_value:
            return owned_.receive(read_control<OwnedRefusal>(bytes));
        case MessageKind::welcome:
            if (const auto welcome = read_control<Welcome>(bytes); welcome && !welcome_) {
                welcome_ = welcome;
                start_clocks();
                return true;
            }
            return false;
        case MessageKind::resumed:
            return resume(read_control<Resumed>(bytes));
        case MessageKind::model: {
            if (new_model_) return false;  // the server waits for the confirmation
            const auto model = read_control<NextModel>(bytes);
            if (!model ||
                !receiver_.decoder().add_model(model->number, std::as_bytes(std::span(model->bytes))))
                return false;
            new_model_ = model->number;
            return true;
        }
        case MessageKind::ticket:
            if (const auto next = read_control<NextTicket>(bytes)) {
                ticket_ = next->ticket;
                state_number_ = next->state_number;
                return true;
            }
            return false;
        case MessageKind::player:
            if (const auto player = read_control<PlayerEntity>(bytes)) {
                player_ = player->net_id;
                return true;
            }
            return false;
        default:
            return false;
    }
}

}  // namespace shoal::replication::impl
