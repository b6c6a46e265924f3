#include "server.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "message.h"

namespace shoal::replication::impl {

using ecs::impl::call_guarded;

namespace {

net::HostConfig with_schema(net::HostConfig config, const Schema& schema) {
    config.schema_hash = schema.hash();
    return config;
}

constexpr std::uint32_t kControlKey = 0xffff'fffd;  // message key of control messages
constexpr std::size_t kMaxUnsentBytes = 64 * 1024;  // of control messages for one player
constexpr std::ptrdiff_t kTypedHeaderBytes = 2;     // before a typed message: kind and stream
constexpr std::size_t kMaxNamed = 1'024;            // see Player::named
constexpr net::Duration kLatestEvent = std::chrono::milliseconds(500);

SenderOptions with_deliveries(SenderOptions options, const Schema& schema) {
    options.keeps_deliveries = options.keeps_deliveries || !schema.structs(StructKind::input).empty();
    return options;
}

std::uint32_t tick_us(double tick_hz) {
    return static_cast<std::uint32_t>(std::clamp(std::round(1e6 / tick_hz), 1.0, 4e9));
}

}  // namespace

Server::Server(ecs::World& world, const Schema& schema, net::Sink& sink, const ServerOptions& options,
               ServerListener* listener)
    : world_(world),
      schema_(schema),
      listener_(listener),
      welcome_{tick_us(options.sender.tick_hz), options.random_seed},
      model_ticks_(static_cast<Tick>(options.renew_model_s * options.sender.tick_hz)),
      sender_(world, schema, with_deliveries(options.sender, schema)),
      queries_(world),
      predicted_(world, schema, references_),
      to_round_(world),
      owned_(world, schema, sender_, *this, std::chrono::microseconds(welcome_.tick_us)),
      rewind_(world, schema, sender_, players_, welcome_.tick_us,
              static_cast<Tick>(std::ceil(options.max_rewind_s * options.sender.tick_hz))),
      entropy_(options.host.seed.secret()),
      host_(with_schema(options.host, schema), *this, sink),
      next_tick_(options.first_tick),
      most_away_(std::max(options.host.max_peers, 1u)),
      most_away_per_ip_(options.host.max_peers_per_ip != 0 ? options.host.max_peers_per_ip : most_away_),
      network_key_(entropy_.next_sip_key()),
      limits_(options.messages),
      typed_(schema, references_),
      join_options_(options.join),
      silent_after_(2 * options.host.connection.keep_alive),
      actions_(world, schema, sender_, players_, *this, options.actions, options.sender.tick_hz) {
    if (join_options_.resume_time > net::Duration(0)) actions_.keep_results();
    if (!schema.structs(StructKind::action).empty()) uplink_.set(Section::actions, &actions_);
    uplink_.set(Section::owned_state, &owned_);
    if (schema.is_authority_quantised()) predicted_.watch(to_round_);
    if (schema.structs(StructKind::input).empty()) return;
    inputs_ = std::make_unique<ServerInputs>(world, schema, sender_, players_,
                                             std::chrono::microseconds(welcome_.tick_us));
    uplink_.set(Section::inputs, inputs_.get());
    actions_.set_sight(&rewind_);
}

bool Server::may_run() const {
    assert(!run_.is_running && "a function of the game called tick(), poll() or resend()");
    return !run_.is_running;
}

Tick Server::tick(net::Time now) {
    if (!may_run()) return current_tick();
    const Running running(world_, run_);
    now_ = now;
    host_.update(now);
    handle_deferred();
    players_.for_each([&](Player& player) {
        if (player.connection && sender_.offer_model(player.peer)) send_control(player, model_message_);
        flush_control(player);
        if (player.unsent_bytes > kMaxUnsentBytes)
            disconnect(player.id, "too many messages wait for it", now_);
    });
    advance_joins();
    actions_.run(next_tick_);
    step(now);
    actions_.finish();
    owned_.repeat_records();
    sender_.update(next_tick_);
    if (recorder_) recorded_ = recorder_->record();
    if (model_ticks_ != 0 && next_tick_ % model_ticks_ == 0) renew_model();
    tell_ended();
    report_too_large();
    host_.flush(now);
    return next_tick_++;
}

void Server::step(net::Time now) {
    if (inputs_) {
        inputs_->apply(next_tick_, now);
        players_.for_each([&](Player& player) {
            if (player.connection)
                rewind_.set_time(player, next_tick_, player.inputs ? player.inputs->lag() : std::nullopt);
        });
    }
    const Step::Context context{queries_, references_, welcome_.random_seed, false};
    const float seconds = static_cast<float>(welcome_.tick_us) * 1e-6f;
    if (on_step_) call_guarded(world_, [&] { on_step_(Step(next_tick_, seconds, true, context)); });
    predicted_.round_changes(to_round_, sender_.shadow().tag());
}

void Server::report_too_large() {
    if (!listener_) return;
    for (const Shadow::TooLarge& found : sender_.shadow().too_large())
        call_guarded(world_, [&] {
            listener_->on_too_large(found.entity, schema_.components()[found.largest].name, found.bytes);
        });
}

void Server::poll(net::Time now) {
    if (!may_run()) return;
    const Running running(world_, run_);
    now_ = now;
    host_.update(now);
    handle_deferred();
    host_.flush(now);
}

void Server::resend(net::Time now) {
    if (!may_run()) return;
    players_.for_each([&](const Player& player) {
        if (player.connection) sender_.request_marker(player.peer);
    });
    poll(now);
}

std::size_t Server::write_payload(net::PeerId peer, net::PayloadTurn& turn) {
    const Player* const player = players_.find_connected(peer);
    if (!player) return 0;
    const auto payload =
        sender_.encode(player->peer, turn.packet_number, turn.share, turn.room, turn.may_be_large);
    if (payload.size() > turn.room.size()) turn.large = payload;
    return payload.size();
}

bool Server::give(net::PeerId peer, ecs::Entity entity) {
    const Player* const player = players_.find(peer);
    if (peer && !player) return false;
    const std::optional<Sender::Peer> before = sender_.owner(entity);
    const std::optional<Sender::Peer> owner = player ? std::optional(player->peer) : std::nullopt;
    if (!sender_.set_owner(entity, owner)) return false;
    if (owner != before) owned_.change_owner(entity, before.has_value());
    mark<Mine>(entity, player != nullptr);
    return true;
}

bool Server::predict(PlayerId player, ecs::Entity entity, bool is_predicted) {
    const Player* const found = players_.find(player);
    if (!found || !schema_.predicts()) return false;
    if (!sender_.set_predictor(found->peer, entity, is_predicted)) return false;
    mark<ToPredict>(entity, sender_.has_predictors(entity));
    return true;
}

bool Server::is_predicted_by(PlayerId player, ecs::Entity entity) const {
    const Player* const found = players_.find(player);
    return found && world_.is_alive(entity) && sender_.is_predictor(found->peer, entity);
}

void Server::PlayerView::send_now(std::span<const ecs::Entity> entities) {
    const auto peer = its_peer();
    for (const ecs::Entity entity : entities)
        if (peer && server_.world_.is_alive(entity)) server_.sender_.send_now(*peer, entity);
}

template <class Tag>
void Server::mark(ecs::Entity entity, bool has_tag) {
    if (schema_.find<Tag>() == kMaxComponents) return;
    if (has_tag) {
        world_.add<Tag>(entity);
    } else {
        world_.remove<Tag>(entity);
    }
}

void Server::teleport(ecs::Entity entity) {
    if (schema_.find<Teleports>() == kMaxComponents) return;
    const Teleports* const before = world_.try_get<Teleports>(entity);
    world_.set(entity, Teleports{static_cast<std::uint16_t>((before ? before->count : 0) + 1)});
}

net::PeerId Server::owner(ecs::Entity entity) const {
    const std::optional<Sender::Peer> owner = sender_.owner(entity);
    const Player* const player = owner ? players_.find_peer(*owner) : nullptr;
    return player ? player->id : net::PeerId{};
}

net::SendResult Server::send_typed(PlayerId player, const net::Delivery& how) {
    Player* const to = players_.find(player);
    const SchemaStruct& type = typed_.types()[typed_.written().type];
    const TypedMessages::Message* written = &typed_.written();
    std::vector<std::byte>* bytes = &message_;
    if (to && sender_.scope().is_used() && type.layout.has_references()) {
        hidden_message_ = *written;
        if (sender_.hide(to->peer, type.layout, hidden_message_.words)) {
            written = &hidden_message_;
            bytes = &hidden_bytes_;
            bytes->assign(message_.begin(), message_.begin() + kTypedHeaderBytes);
            typed_.write_again(*written, *bytes, next_tick_);
        }
    }
    const net::SendResult result = host_.send_message(connection(player), how, *bytes);
    if (to && net::is_queued(result)) note_named(*to, type, written->words, 0);
    typed_.stats().not_queued += !net::is_queued(result);
    return result;
}

/// Call it for each message or event that a client gets. Makes the client get the state that the type asks
/// for, and learn of the end of the entities that the message names.
void Server::note_named(Player& player, const SchemaStruct& type, std::span<const std::uint32_t> words,
                        NetId also) {
    if (!player.connection) return;
    const auto note = [&](NetId net_id) {
        const ecs::Entity entity = sender_.entity(net_id);
        if (entity && type.has_state) sender_.send_now(player.peer, entity);
        // A client that had the former entity of a key does not know of this one's end.
        if (entity && !NetIds::is_reserved(net_id) && sender_.has_acknowledged(player.peer, entity)) return;
        names_ended_ = names_ended_ || !entity;  // an action may destroy what it names
        const auto place = std::lower_bound(player.named.begin(), player.named.end(), net_id);
        if (place != player.named.end() && *place == net_id) return;
        player.named.insert(place, net_id);
        // Without the news of the oldest, a message that names it waits a little.
        if (player.named.size() > kMaxNamed) player.named.erase(player.named.begin());
    };
    if (also != 0) note(also);
    if (!type.layout.has_references()) return;
    const std::uint32_t* const lanes = words.data();
    type.layout.for_each_reference(lanes, lanes + type.layout.lanes().size(), note);
}

/// Tells the clients which of the entities that messages named have ended. A client that never got a record
/// of such an entity would wait for it.
void Server::tell_ended() {
    const std::uint64_t count = sender_.shadow().ended_count();
    if (std::exchange(ended_seen_, count) == count && !names_ended_) return;
    names_ended_ = false;
    std::vector<NetId> ended;
    players_.for_each([&](Player& player) {
        if (player.named.empty()) return;
        ended.clear();
        std::erase_if(player.named, [&](NetId net_id) {
            const ecs::Entity entity = sender_.entity(net_id);
            if (!entity) ended.push_back(net_id);
            return !entity || sender_.has_acknowledged(player.peer, entity);
        });
        if (!ended.empty()) send_control(player, write_control(Gone{ended}));
    });
}

std::size_t Server::send_typed(ViewClasses groups, const net::Delivery& how) {
    std::size_t queued = 0;
    for_each_peer([&](PlayerId player) {
        const Player& to = *players_.find(player);
        if (to.seat.phase() != Phase::playing) return;
        if (groups != to_everyone() && !overlap(groups & to_all_groups(), sender_.groups(to.peer))) return;
        queued += net::is_queued(send_typed(player, how));
    });
    return queued;
}

bool Server::is_settled() const {
    bool is_settled = true;
    players_.for_each([&](const Player& player) {
        is_settled = is_settled && (!player.connection || sender_.is_settled(player.peer));
    });
    return is_settled;
}

net::SendResult Server::send_message(net::PeerId peer, net::Delivery how,
                                     std::span<const std::byte> message) {
    message_.assign(1, static_cast<std::byte>(MessageKind::game));
    message_.insert(message_.end(), message.begin(), message.end());
    return host_.send_message(connection(peer), how, message_);
}

void Server::disconnect(net::PeerId peer, std::string_view text, net::Time now) {
    const Player* const player = players_.find(peer);
    if (!player) return;
    const Running running(world_, run_);
    if (!player->connection && player->seat.phase() != Phase::disconnected)
        return leave(peer, net::DisconnectReason::kicked, text);
    host_.disconnect(player->connection, net::DisconnectReason::kicked, text, now);
}

void Server::on_connected(net::PeerId peer) {
    const Running running(world_, run_, Caller::net);
    const Arrival& arrival = arrivals_[peer.index()];
    if (arrival.resumption) return take_back(peer);
    if (players_.find(peer))  // of 65,535 later connections with this index, one gets the same id
        return host_.disconnect(peer, net::DisconnectReason::kicked, "try again", now_);
    Player& player = players_.add(
        peer,
        sender_.add_peer({.max_slots = arrival.max_slots, .numbers = arrival.numbers, .is_held = true}));
    player.client_id = arrival.client_id;
    player.seat.connect(now_);
    player.key.issue(entropy_);
    send_control(player, write_control(welcome_));
    if (listener_) call_guarded(world_, [&] { listener_->on_join(peer); });
}

void Server::on_disconnected(net::PeerId peer, net::DisconnectReason reason, std::string_view text) {
    const Running running(world_, run_, Caller::net);
    Player* const player = players_.find_connected(peer);
    if (!player) return;
    players_.disconnect(*player);
    typed_.stats().lost += player->intake.waiting();
    const bool is_lost = reason == net::DisconnectReason::timed_out ||
                         reason == net::DisconnectReason::replaced ||
                         reason == net::DisconnectReason::exhausted;
    if (is_lost && player->seat.has_joined() && join_options_.resume_time > net::Duration(0))
        return go_away(*player, host_.address(peer));
    leave(player->id, reason, text);
}

/// Makes the seat wait for the player, whose connection is lost.
void Server::go_away(Player& player, const net::Address& from) {
    const PlayerId id = player.id;
    const net::impl::Networks networks(network_key_, from);
    const std::size_t per_machine = from.is_loopback() ? most_away_ : most_away_per_ip_;
    if (const Player* const other = players_.must_leave(networks, per_machine, most_away_))
        leave(other->id, net::DisconnectReason::timed_out, {});
    if (player.id != id) return;
    player.networks = networks;
    const bool has_played = player.seat.phase() == Phase::playing;
    player.seat.go_away(now_);
    player.intake = {};
    player.named.clear();
    if (away_ && has_played) call_guarded(world_, [&] { away_(id); });
}

/// Gives the seat of a ticket to this connection, whose client has proven the ticket. An earlier connection
/// of the seat ends. Disconnects the client if it cannot have the seat.
void Server::take_back(net::PeerId connection) {
    Arrival& arrival = arrivals_[connection.index()];
    const Resumption resumption = *std::exchange(arrival.resumption, std::nullopt);
    const auto owner = [&] {
        return players_.find_by_ticket(resumption.ticket, arrival.client_id, tickets_);
    };
    Player* player = owner();
    if (player && player->connection) {
        // The newest connection counts; the seat is away afterwards, unless the game ends it.
        host_.disconnect(player->connection, net::DisconnectReason::replaced, {}, now_);
        player = owner();
    }
    if (!player || player->connection)
        return host_.disconnect(connection, net::DisconnectReason::kicked, "the ticket is not valid", now_);
    players_.connect(*player, connection);
    player->messages = 0;
    player->key.use(resumption.ticket, entropy_);
    tickets_.used += 1;
    const bool keeps = resumption.state_number == player->key.state_number;
    Resumed resumed;
    if (keeps) {
        sender_.reconnect_peer(player->peer);
    } else {
        sender_.replace_peer(player->peer, {arrival.max_slots, arrival.numbers, true});
        player->key.state_number = std::max(player->key.state_number + 1, 1u);
        resumed = actions_.replace_client(*player);
    }
    resumed.keeps = keeps;
    player->seen = {};
    player->seat.come_back(keeps, now_);
    send_control(*player, write_control(welcome_));
    send_control(*player, write_control(resumed));
    if (keeps) actions_.reconnect(*player, resumption.first_actions);
    if (!keeps) owned_.replace_client(*player);  // its hooks may end the player
}

void Server::leave(PlayerId id, net::DisconnectReason reason, std::string_view text) {
    Player& player = *players_.find(id);
    const ecs::Entity its_player = player.seat.player();
    player.seat.leave();  // the handler may call disconnect()
    if (leave_ && player.seat.has_joined()) call_guarded(world_, [&] { leave_(id); });
    std::vector<ecs::Entity> owned, predicted;
    sender_.for_each_owned(player.peer, [&](ecs::Entity entity) { owned.push_back(entity); });
    sender_.for_each_predicted(player.peer, [&](ecs::Entity entity) { predicted.push_back(entity); });
    sender_.remove_peer(player.peer);
    players_.remove(player);
    for (const ecs::Entity entity : owned)
        if (world_.is_alive(entity)) mark<Mine>(entity, false);
    for (const ecs::Entity entity : predicted)
        if (world_.is_alive(entity)) mark<ToPredict>(entity, sender_.has_predictors(entity));
    if (listener_) call_guarded(world_, [&] { listener_->on_leave(id, reason, text); });
    if (join_options_.destroys_player && world_.is_alive(its_player)) world_.destroy(its_player);
}

void Server::admit(PlayerId id) {
    Player* const player = players_.find(id);
    if (!player) return;
    player->seat.admit();
    load_if_ready(*player);
}

void Server::load_if_ready(Player& player) {
    if (!player.seat.may_load(join_options_)) return;
    player.seat.load(now_);
    sender_.start_peer(player.peer);
}

void Server::advance_joins() {
    players_.for_each([&](Player& player) {
        if (player.seat.phase() == Phase::loading) {
            advance_join(player);
        } else if (player.seat.phase() == Phase::away && player.seat.is_overdue(join_options_, now_)) {
            leave(player.id, net::DisconnectReason::timed_out, {});
        } else if (player.seat.is_late(join_options_, now_)) {
            host_.disconnect(player.connection, net::DisconnectReason::kicked, "the client was not ready",
                             now_);
        }
    });
}

void Server::advance_join(Player& player) {
    const bool has_joined = player.seat.has_joined();
    switch (player.seat.advance(join_options_, sender_.stats(player.peer).unjoined, now_)) {
        case Seat::Next::wait:
            break;
        case Seat::Next::play:
            has_joined ? finish_return(player.id) : finish_join(player.id);
            break;
        case Seat::Next::restart:
            sender_.restart_peer(player.peer);
            warn(player.id, Warning::join_restarted);
            break;
        case Seat::Next::give_up:
            host_.disconnect(player.connection, net::DisconnectReason::kicked,
                             "loading the world took too long", now_);
    }
}

/// The handler may disconnect the player.
void Server::finish_join(PlayerId player) {
    actions_.add_player(*players_.find(player));  // the handler may do actions of the server
    ecs::Entity entity;
    if (join_) call_guarded(world_, [&] { entity = join_(player); });
    if (players_.find(player)) {
        assert((!world_.is_alive(entity) || world_.has<StableKey>(entity) ||
                world_.has(entity, sender_.shadow().tag())) &&
               "on_join() returned an entity without the tag Replicated, or SenderOptions::tag");
        set_player(player, entity);
    } else if (join_options_.destroys_player && world_.is_alive(entity)) {
        world_.destroy(entity);
    }
}

void Server::finish_return(PlayerId player) {
    send_player(*players_.find(player));
    if (back_ && players_.find(player)) call_guarded(world_, [&] { back_(player); });
}

void Server::warn(PlayerId player, Warning warning) {
    if (warn_) call_guarded(world_, [&] { warn_(player, warning); });
}

PlayerStats Server::stats(PlayerId id) const {
    PlayerStats stats;
    const Player* const player = players_.find(id);
    if (!player) return stats;
    if (player->inputs) {
        stats.inputs = player->inputs->stats();
        stats.input_age = player->inputs->age();
    }
    if (player->actions) {
        stats.actions = player->actions->stats;
        stats.actions_waiting = player->actions->waiting();
    }
    stats.messages_waiting = player->intake.waiting();
    stats.owned = player->owned.stats;
    stats.rewind = player->seen.stats;
    stats.state = sender_.stats(player->peer);
    return stats;
}

Phase Server::phase(PlayerId id) const {
    const Player* const player = players_.find(id);
    return player ? player->seat.phase() : Phase::disconnected;
}

ecs::Entity Server::player(PlayerId id) const {
    const Player* const player = players_.find(id);
    return player && world_.is_alive(player->seat.player()) ? player->seat.player() : ecs::Entity{};
}

void Server::set_player(PlayerId id, ecs::Entity entity) {
    Player* const player = players_.find(id);
    if (!player || !player->seat.has_joined()) return;
    const Running running(world_, run_);
    player->seat.set_player(entity);
    sender_.scope().view_by_default(player->peer, entity);
    if (world_.is_alive(entity)) give(id, entity);
    if (player->seat.phase() == Phase::playing) send_player(*player);
}

/// Tells a client that it plays, and the ticket for its next connection.
void Server::send_player(Player& player) {
    send_control(player, write_control(PlayerEntity{references_.to_net(player.seat.player())}));
    if (join_options_.resume_time > net::Duration(0))
        send_control(player,
                     write_control(NextTicket{{player.id, player.key.newest()}, player.key.state_number}));
}

/// Sends a control message, after the earlier ones. While the queue of the connection is full, it waits. If
/// too much waits, the next tick() disconnects the player.
void Server::send_control(Player& player, std::vector<std::byte> message) {
    if (!player.connection) return;
    player.unsent_bytes += message.size();
    player.unsent.push_back(std::move(message));
    flush_control(player);
}

bool Server::renew_model() {
    return sender_.renew_model() && note_model();
}

bool Server::load_model(std::span<const std::byte> bytes) {
    return sender_.load_model(bytes) && note_model();
}

/// Makes the message with the newest model, which tick() sends to each player.
bool Server::note_model() {
    NextModel next{sender_.models().number(), {}};
    for (const std::byte each : sender_.models().bytes())
        next.bytes.push_back(std::to_integer<std::uint8_t>(each));
    model_message_ = write_control(next);
    return true;
}

void Server::flush_control(Player& player) {
    while (!player.unsent.empty()) {
        const net::SendResult result =
            host_.send_message(player.connection, net::ordered_by(kControlKey), player.unsent.front());
        if (result == net::SendResult::queue_full) return;
        if (result == net::SendResult::too_large)  // for the queue: the next tick() disconnects the player
            return void(player.unsent_bytes = kMaxUnsentBytes + 1);
        player.unsent_bytes -= player.unsent.front().size();
        player.unsent.pop_front();
    }
}

/// Events are one stream with the game's messages with the default key. Events that would arrive too late are
/// not sent at all, so they never fill the queue of a slow player.
bool Server::send_event(Player& player, std::span<const std::byte> message) {
    return host_.stats(player.connection).oldest_message < kLatestEvent &&
           host_.send_message(player.connection, net::Channel::reliable, message) == net::SendResult::queued;
}

void Server::on_message(net::PeerId connection, net::Channel channel, std::span<const std::byte> message) {
    const Running running(world_, run_, Caller::net);
    Player* const player = players_.find_connected(connection);
    if (!player) return;
    if (message.empty() || !use(*player, static_cast<MessageKind>(message[0]), channel, message.subspan(1)))
        host_.disconnect(connection, net::DisconnectReason::protocol_error, "malformed message", now_);
}

/// Handles a message. Returns false if it is malformed, or of a kind that clients do not send.
bool Server::use(Player& player, MessageKind kind, net::Channel channel, std::span<const std::byte> bytes) {
    switch (kind) {
        case MessageKind::game:
            if (listener_) call_guarded(world_, [&] { listener_->on_message(player.id, channel, bytes); });
            return true;
        case MessageKind::typed:
            return take_typed(player, channel, bytes);
        case MessageKind::ready:
            if (!read_control<CanLoad>(bytes)) return false;
            player.seat.set_ready();
            load_if_ready(player);
            return true;
        case MessageKind::has_model:
            if (const auto has = read_control<HasModel>(bytes))
                return sender_.confirm_model(player.peer, has->number);
            return false;
        case MessageKind::rebase: {
            const std::optional<Rebase> rebase = read_control<Rebase>(bytes);
            if (!rebase) return false;
            std::vector<ecs::Entity> differ;
            for (const std::uint32_t slot : rebase->entity_slots) {
                const bool differs = (slot & Rebase::kDiffers) != 0;
                if (const auto entity = sender_.rebase(player.peer, slot & ~Rebase::kDiffers, differs))
                    if (differs) differ.push_back(entity);
            }
            for (const PlayerId id = player.id; const ecs::Entity entity : differ)
                if (listener_) call_guarded(world_, [&] { listener_->on_difference(id, entity); });
            return true;
        }
        default:
            return false;
    }
}

bool Server::take_typed(Player& player, net::Channel channel, std::span<const std::byte> message) {
    using enum MessageOrder;
    const auto order = message.empty() ? MessageOrder(0xff) : static_cast<MessageOrder>(message[0]);
    if (!message.empty()) message = message.subspan(1);
    const std::optional<EarlierActions> earlier = order == after ? take_earlier(message) : std::nullopt;
    const bool names_owned = order != unordered && schema_.has_owned();
    const bool is_in_order = (order == in_order || earlier) && channel == net::Channel::reliable;
    if ((!is_in_order && order != unordered) || (names_owned && message.size() < 4)) {
        typed_.stats().malformed += 1;
        return false;
    }
    const bool was_waiting = player.intake.waiting() != 0;
    handled_.before = {0, player.messages, earlier, 0};
    if (names_owned) handled_.before.owned = net::impl::load<std::uint32_t>(message.data());
    if (names_owned) message = message.subspan(4);
    handled_.bytes.assign(message.begin(), message.end());
    handled_.channel = channel;
    handled_.is_in_order = is_in_order;
    handled_.arrived = now_;
    const bool must_wait = !player.has_done(handled_.before);
    switch (player.intake.arrive(limits_, handled_, must_wait)) {
        case MessageIntake::Verdict::deliver:
            handle_typed(player, handled_);
            break;
        case MessageIntake::Verdict::wait:
            if (must_wait) break;
            typed_.stats().deferred += 1;
            if (!was_waiting) warn(player.id, Warning::messages_deferred);
            break;
        case MessageIntake::Verdict::flood:
            typed_.stats().floods += 1;
            disconnect(player.id, "too many messages", now_);
    }
    return true;
}

void Server::handle_typed(Player& player, const MessageIntake::Item& message) {
    references_.from = player.peer;
    player.messages += message.is_in_order;
    if (typed_.read(message.bytes, read_)) {
        typed_.deliver(read_, {player.id, message.channel, false});
    } else {
        host_.disconnect(player.connection, net::DisconnectReason::protocol_error, "malformed message", now_);
    }
}

/// Handles the messages and values of a player that have waited, in order. A handler may disconnect the
/// player.
void Server::handle_waiting(Player& player) {
    const auto has_run = [&](const MessageIntake::Item& message) { return player.has_done(message.before); };
    for (const PlayerId id = player.id;;) {
        owned_.run(player, next_tick_, now_);
        if (player.id != id || !player.intake.take(limits_, now_, handled_, has_run)) return;
        handle_typed(player, handled_);
        if (player.id != id) return;
    }
}

void Server::handle_deferred() {
    players_.for_each([&](Player& player) {
        const PlayerId id = player.id;
        handle_waiting(player);
        if (player.id == id && player.owned.is_flood()) disconnect(id, "too many values were refused", now_);
        if (player.id != id || !player.intake.is_flood(limits_, now_)) return;
        typed_.stats().floods += 1;
        disconnect(id, "too many messages", now_);
    });
}

void Server::on_fate(net::PeerId peer, const net::PacketFate& fate) {
    if (const Player* const player = players_.find_connected(peer))
        sender_.on_fate(player->peer, fate.number, fate.delivered);
}

bool Server::on_payload(net::PeerId peer, std::uint64_t number, std::span<const std::byte> payload,
                        net::Time now) {
    const Running running(world_, run_, Caller::net);
    Player* const player = players_.find_connected(peer);
    if (!player || !uplink_.read(*player, number, payload, now)) {
        host_.disconnect(peer, net::DisconnectReason::protocol_error, "malformed state", now);
        return false;
    }
    if (player->id) handle_waiting(*player);
    if (player->connection == peer && player->owned.is_flood())
        host_.disconnect(peer, net::DisconnectReason::kicked, "too many values were refused", now);
    return true;
}

bool Server::on_admit(const net::Admission& admission, std::string& refusal) {
    const Running running(world_, run_, Caller::net);
    const std::optional<Hello> hello = read_hello(admission.hello);
    if (!admission.schema_matches) {
        if (hello) refusal = schema_.difference(hello->summary);
        if (refusal.empty()) refusal = "the schemas differ";
        return false;
    }
    std::optional<ComponentNumbers> numbers = hello ? schema_.numbers_in(hello->summary) : std::nullopt;
    if (!numbers) {
        refusal = "malformed hello";
        return false;
    }
    if (hello->resumption) {
        const Player* const player =
            players_.find_by_ticket(hello->resumption->ticket, admission.client_id, tickets_);
        if (!player) {
            refusal = "the ticket is not valid";
            return false;
        }
        // Anyone can repeat a hello, so only a silent connection leaves its place in a full server.
        if (!admission.has_room && host_.stats(player->connection).silence >= silent_after_)
            host_.disconnect(player->connection, net::DisconnectReason::replaced, {}, now_);
    }
    const std::uint32_t index = admission.peer.index();
    if (index >= arrivals_.size()) arrivals_.resize(index + std::size_t{1});
    arrivals_[index] = {hello->max_slots, std::move(*numbers), admission.client_id, hello->resumption};
    bool is_welcome = !listener_;
    if (listener_) call_guarded(world_, [&] { is_welcome = listener_->on_admit(admission, refusal); });
    return is_welcome;
}

void Server::on_never_connected(net::PeerId peer) {
    const Running running(world_, run_, Caller::net);
    arrivals_[peer.index()] = {};
    if (listener_) call_guarded(world_, [&] { listener_->on_never_connected(peer); });
}

}  // namespace shoal::replication::impl
