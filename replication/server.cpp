#include "server.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>

#include "message.h"

namespace shoal::replication {
namespace {

net::HostConfig with_schema(net::HostConfig config, const Schema& schema) {
    config.schema_hash = schema.hash();
    return config;
}

constexpr std::uint32_t kPlayerKey = 0xffff'fffe;  // message key of player messages
constexpr std::uint32_t kActionKey = 0xffff'fffd;  // message key of messages about actions
constexpr std::uint32_t kShiftKey = 0xffff'fffc;   // message key of shift messages

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
      sender_(world, schema, with_deliveries(options.sender, schema)),
      queries_(world),
      predicted_(world, schema, references_),
      to_round_(world),
      owned_(world, schema, sender_,
             [this](PlayerId player, std::span<const std::byte> message) { send_or_end(player, message); }),
      rewind_(world, schema, sender_, welcome_.tick_us,
              static_cast<Tick>(std::ceil(options.max_rewind_s * options.sender.tick_hz))),
      entropy_(options.host.seed.secret()),
      host_(with_schema(options.host, schema), *this, sink),
      next_tick_(options.first_tick),
      most_away_(std::max(options.host.max_peers, 1u)),
      limits_(options.messages),
      typed_(schema, references_),
      join_options_(options.join),
      actions_(world, schema, sender_, *this, options.actions, options.sender.tick_hz) {
    if (join_options_.resume_time > net::Duration(0)) actions_.keep_results();
    if (!schema.structs(StructKind::action).empty()) uplink_.set(Section::actions, &actions_);
    uplink_.set(Section::owned_state, &owned_);
    if (schema.is_authority_quantised()) predicted_.watch(to_round_);
    if (schema.structs(StructKind::input).empty()) return;
    inputs_ =
        std::make_unique<ServerInputs>(world, schema, sender_, std::chrono::microseconds(welcome_.tick_us));
    uplink_.set(Section::inputs, inputs_.get());
    actions_.set_sight(&rewind_);
}

Tick Server::tick(net::Time now) {
    now_ = now;
    host_.update(now);
    handle_deferred();
    advance_joins();
    actions_.run(next_tick_);
    step(now);
    actions_.finish();
    sender_.update(next_tick_);
    report_too_large();
    host_.flush(now);
    return next_tick_++;
}

void Server::step(net::Time now) {
    if (inputs_) {
        inputs_->apply(next_tick_, now);
        for_each_peer(
            [&](PlayerId player) { rewind_.set_time(player, next_tick_, inputs_->lag(player, next_tick_)); });
        inputs_->take_shifts(now, [&](net::PeerId player, net::Duration shift) {
            // If the queue is full, the next shift does what this one should.
            static_cast<void>(
                host_.send_message(connection(player), net::ordered_by(kShiftKey), write_shift(shift)));
        });
    }
    const Step::Context context{queries_, references_, welcome_.random_seed, false};
    if (on_step_) on_step_(Step(next_tick_, static_cast<float>(welcome_.tick_us) * 1e-6f, true, context));
    predicted_.round_changes(to_round_, sender_.shadow().tag());
}

void Server::report_too_large() {
    if (!listener_) return;
    for (const Shadow::TooLarge& found : sender_.shadow().too_large())
        listener_->on_too_large(found.entity, schema_.components()[found.largest].name, found.bytes);
}

void Server::poll(net::Time now) {
    now_ = now;
    host_.update(now);
    handle_deferred();
    host_.flush(now);
}

void Server::resend(net::Time now) {
    for (const Member& member : members_)
        if (member.connection) sender_.request_marker(member.peer);
    poll(now);
}

std::size_t Server::write_payload(net::PeerId peer, net::PayloadTurn& turn) {
    const Member* member = find_connected(peer);
    if (!member) return 0;
    const auto payload =
        sender_.encode(member->peer, turn.packet_number, turn.share, turn.room, turn.may_be_large);
    if (payload.size() > turn.room.size()) turn.large = payload;
    return payload.size();
}

bool Server::give(net::PeerId peer, ecs::Entity entity) {
    const Member* member = find(peer);
    if (peer && !member) return false;
    if (!sender_.set_owner(entity, member ? std::optional(member->peer) : std::nullopt)) return false;
    mark<Mine>(entity, member != nullptr);
    return true;
}

bool Server::predict(PlayerId player, ecs::Entity entity, bool is_predicted) {
    const Member* member = find(player);
    if (!member || !schema_.predicts() || !sender_.set_predictor(member->peer, entity, is_predicted))
        return false;
    mark<ToPredict>(entity, sender_.has_predictors(entity));
    return true;
}

/// Gives an entity a tag of the schema, or takes it away.
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
    world_.set(entity, Teleports{static_cast<std::uint8_t>(((before ? before->count : 0) + 1) % 4)});
}

net::PeerId Server::owner(ecs::Entity entity) const {
    const std::optional<Sender::Peer> owner = sender_.owner(entity);
    for (const Member& member : members_)
        if (owner && member.id && member.peer == owner) return member.id;
    return {};
}

void Server::set_groups(net::PeerId peer, ViewClasses groups) {
    if (const Member* member = find(peer)) sender_.set_groups(member->peer, groups);
}

bool Server::is_settled() const {
    for (const Member& member : members_)
        if (member.connection && !sender_.is_settled(member.peer)) return false;
    return true;
}

net::SendResult Server::send_message(net::PeerId peer, net::Delivery how,
                                     std::span<const std::byte> message) {
    message_.assign(1, static_cast<std::byte>(MessageKind::game));
    message_.insert(message_.end(), message.begin(), message.end());
    return host_.send_message(connection(peer), how, message_);
}

void Server::disconnect(net::PeerId peer, std::string_view text, net::Time now) {
    const Member* member = find(peer);
    if (!member) return;
    if (member->seat.phase() == Phase::away) return leave(peer, net::DisconnectReason::kicked, text);
    host_.disconnect(member->connection, net::DisconnectReason::kicked, text, now);
}

Sender::PeerStats Server::peer_stats(net::PeerId peer) const {
    const Member* member = find(peer);
    return member ? sender_.stats(member->peer) : Sender::PeerStats{};
}

const Server::Member* Server::find(PlayerId player) const {
    const auto place = places_.find(player);
    return place == places_.end() ? nullptr : &members_[place->second];
}

const Server::Member* Server::find_connected(net::PeerId id) const {
    if (!id || id.index() >= connections_.size() || connections_[id.index()].id != id) return nullptr;
    return &members_[connections_[id.index()].member];
}

void Server::on_connected(net::PeerId peer) {
    Connection& connection = connections_[peer.index()];
    if (connection.resumption) return take_back(peer);
    if (find(peer))  // of 65,535 later connections with this index, one gets the same id
        return host_.disconnect(peer, net::DisconnectReason::kicked, "try again", now_);
    std::size_t place = 0;
    while (place < members_.size() && members_[place].id) ++place;
    if (place == members_.size()) members_.emplace_back();
    places_[peer] = place;
    connection.id = peer;
    connection.member = place;
    Member& member = members_[place];
    member.id = member.connection = peer;
    member.client_id = connection.client_id;
    member.peer =
        sender_.add_peer({.max_slots = connection.max_slots, .numbers = connection.numbers, .is_held = true});
    owned_.add_player(peer, member.peer);
    rewind_.add_player(peer, member.peer);
    member.seat.connect();
    member.key.issue(entropy_);
    if (inputs_) inputs_->add_player(peer, member.peer);
    // A new connection has room for it.
    static_cast<void>(host_.send_message(peer, net::unordered(), write_welcome(welcome_)));
    if (listener_) listener_->on_join(peer);
}

void Server::on_disconnected(net::PeerId peer, net::DisconnectReason reason, std::string_view text) {
    Member* member = find_connected(peer);
    if (!member) return;
    connections_[peer.index()].id = member->connection = {};
    const bool is_lost = reason == net::DisconnectReason::timed_out ||
                         reason == net::DisconnectReason::replaced ||
                         reason == net::DisconnectReason::exhausted;
    if (is_lost && member->seat.has_joined() && join_options_.resume_time > net::Duration(0))
        return go_away(member->id);
    leave(member->id, reason, text);
}

/// The connection is lost, and the seat waits for the player.
void Server::go_away(PlayerId player) {
    std::size_t away = 0;
    const Member* longest = nullptr;
    for (const Member& other : members_) {
        if (!other.id || other.seat.phase() != Phase::away) continue;
        ++away;
        if (!longest || other.seat.since() < longest->seat.since()) longest = &other;
    }
    if (away >= most_away_) leave(longest->id, net::DisconnectReason::timed_out, {});
    Member* member = find(player);
    if (!member) return;
    const bool has_played = member->seat.phase() == Phase::playing;
    member->seat.go_away(now_);
    member->intake = {};
    sender_.suspend_peer(member->peer);
    actions_.set_away(player);
    if (away_ && has_played) away_(player);
}

/// A client proved with a ticket that a seat is its own.
void Server::take_back(net::PeerId id) {
    const Resumption resumption = *std::exchange(connections_[id.index()].resumption, std::nullopt);
    const PlayerId player = resumption.ticket.seat;
    const std::uint64_t client_id = connections_[id.index()].client_id;
    bool is_valid = check_ticket(resumption.ticket, client_id);
    if (is_valid && find(player)->connection) {
        // The newest connection counts; the seat is away afterwards, unless the game ends it.
        host_.disconnect(find(player)->connection, net::DisconnectReason::replaced, {}, now_);
        is_valid = check_ticket(resumption.ticket, client_id);
    }
    if (!is_valid || find(player)->connection)
        return host_.disconnect(id, net::DisconnectReason::kicked, "the ticket is not valid", now_);
    Connection& connection = connections_[id.index()];
    connection.id = id;
    connection.member = places_.at(player);
    Member& member = members_[connection.member];
    member.connection = id;
    member.key.use(resumption.ticket, entropy_);
    tickets_.used += 1;
    const bool keeps = resumption.view == member.key.view;
    Resumed resumed;
    if (keeps) {
        sender_.reconnect_peer(member.peer);
    } else {
        sender_.replace_peer(member.peer, {connection.max_slots, connection.numbers, true});
        member.key.view = std::max(member.key.view + 1, 1u);
        resumed = actions_.replace_client(player);
    }
    resumed.keeps = keeps;
    if (inputs_) inputs_->reconnect(player);
    owned_.reconnect(player);
    rewind_.add_player(player, member.peer);
    member.seat.come_back(keeps, now_);
    // A new connection has room for these.
    static_cast<void>(host_.send_message(id, net::unordered(), write_welcome(welcome_)));
    static_cast<void>(host_.send_message(id, net::unordered(), write_resumed(resumed)));
    if (keeps) actions_.reconnect(player, resumption.first_actions);
}

/// Returns whether a connection of this client id can take the ticket's seat. Counts why not.
bool Server::check_ticket(const Ticket& ticket, std::uint64_t client_id) {
    const Member* member = find(ticket.seat);
    if (!member || !member->seat.has_joined()) {
        tickets_.unknown_seats += 1;
    } else if (!member->key.accepts(ticket)) {
        (member->key.is_outdated(ticket) ? tickets_.outdated : tickets_.wrong_secrets) += 1;
    } else if (member->client_id != client_id) {
        tickets_.wrong_players += 1;
    } else {
        return true;
    }
    return false;
}

void Server::leave(PlayerId player, net::DisconnectReason reason, std::string_view text) {
    Member* member = find(player);
    const ecs::Entity its_player = member->seat.player();
    member->seat.leave();  // the handler may call disconnect()
    if (leave_ && member->seat.has_joined()) leave_(player);
    member = find(player);
    std::vector<ecs::Entity> owned, predicted;
    sender_.for_each_owned(member->peer, [&](ecs::Entity entity) { owned.push_back(entity); });
    sender_.for_each_predicted(member->peer, [&](ecs::Entity entity) { predicted.push_back(entity); });
    actions_.remove_player(player);
    if (inputs_) inputs_->remove_player(player);
    owned_.remove_player(player);
    rewind_.remove_player(player);
    sender_.remove_peer(member->peer);
    members_[places_.at(player)] = {};
    places_.erase(player);
    for (const ecs::Entity entity : owned) {
        if (world_.is_alive(entity)) mark<Mine>(entity, false);
        if (inputs_ && world_.is_alive(entity)) inputs_->make_neutral(entity);
    }
    for (const ecs::Entity entity : predicted)
        if (world_.is_alive(entity)) mark<ToPredict>(entity, sender_.has_predictors(entity));
    if (listener_) listener_->on_leave(player, reason, text);
    if (join_options_.destroys_player && world_.is_alive(its_player)) world_.destroy(its_player);
}

void Server::admit(PlayerId player) {
    Member* member = find(player);
    if (!member) return;
    member->seat.admit();
    load_if_ready(player);
}

void Server::load_if_ready(PlayerId player) {
    Member& member = *find(player);
    if (!member.seat.may_load(join_options_)) return;
    member.seat.load(now_);
    sender_.start_peer(member.peer);
}

void Server::advance_joins() {
    for (std::size_t i = 0; i < members_.size(); ++i) {
        Member& member = members_[i];
        const PlayerId player = member.id;
        if (player && member.seat.phase() == Phase::away && member.seat.is_overdue(join_options_, now_))
            leave(player, net::DisconnectReason::timed_out, {});
        if (!member.id || member.seat.phase() != Phase::loading) continue;
        const bool has_joined = member.seat.has_joined();
        switch (member.seat.step(join_options_, sender_.stats(member.peer).unjoined, now_)) {
            case Seat::Step::wait:
                break;
            case Seat::Step::play:
                has_joined ? finish_return(player) : finish_join(player);
                break;
            case Seat::Step::restart:
                sender_.restart_peer(member.peer);
                if (warn_) warn_(player, Warning::join_restarted);
                break;
            case Seat::Step::give_up:
                host_.disconnect(member.connection, net::DisconnectReason::kicked,
                                 "loading the world took too long", now_);
        }
    }
}

/// The handler may disconnect the player.
void Server::finish_join(PlayerId player) {
    const ecs::Entity entity = join_ ? join_(player) : ecs::Entity{};
    if (find(player)) {
        assert((!world_.is_alive(entity) || world_.has<StableKey>(entity) ||
                world_.has(entity, sender_.shadow().tag())) &&
               "on_join() returned an entity without the tag Replicated, or SenderOptions::tag");
        set_player(player, entity);
    } else if (join_options_.destroys_player && world_.is_alive(entity)) {
        world_.destroy(entity);
    }
}

void Server::finish_return(PlayerId player) {
    send_player(*find(player));
    if (back_ && find(player)) back_(player);
}

Phase Server::phase(PlayerId player) const {
    const Member* member = find(player);
    return member ? member->seat.phase() : Phase::disconnected;
}

ecs::Entity Server::player(PlayerId player) const {
    const Member* member = find(player);
    return member && world_.is_alive(member->seat.player()) ? member->seat.player() : ecs::Entity{};
}

void Server::set_player(PlayerId player, ecs::Entity entity) {
    Member* member = find(player);
    if (!member || !member->seat.has_joined()) return;
    member->seat.set_player(entity);
    actions_.add_player(player, member->peer);
    if (world_.is_alive(entity)) give(player, entity);
    if (member->seat.phase() == Phase::playing) send_player(*member);
}

/// Tells a client that it plays, and the ticket for its next connection.
void Server::send_player(const Member& member) {
    const net::PeerId connection = member.connection;
    const std::vector<std::byte> ticket = write_ticket({member.id, member.key.newest()}, member.key.view);
    write_player(references_.to_net(member.seat.player()), message_);
    // Ordered: the last one counts. A full queue ends the connection: the client would never play.
    net::SendResult sent = host_.send_message(connection, net::ordered_by(kPlayerKey), message_);
    if (sent == net::SendResult::queued && join_options_.resume_time > net::Duration(0))
        sent = host_.send_message(connection, net::ordered_by(kPlayerKey), ticket);
    if (sent == net::SendResult::queue_full)
        host_.disconnect(connection, net::DisconnectReason::kicked, "too many messages wait for it", now_);
}

void Server::send_now(PlayerId player, std::span<const ecs::Entity> entities) {
    const Member* member = find(player);
    for (const ecs::Entity entity : entities)
        if (member && world_.is_alive(entity)) sender_.send_now(member->peer, entity);
}

net::SendResult Server::send_reliable(net::PeerId player, std::span<const std::byte> message) {
    return host_.send_message(connection(player), net::ordered_by(kActionKey), message);
}

void Server::disconnect_player(net::PeerId player, std::string_view why) {
    disconnect(player, why, now_);
}

void Server::on_message(net::PeerId connection, net::Channel channel, std::span<const std::byte> message) {
    Member* member = find_connected(connection);
    if (!member) return;
    const PlayerId peer = member->id;
    if (!message.empty() && message[0] == static_cast<std::byte>(MessageKind::game)) {
        if (listener_) listener_->on_message(peer, channel, message.subspan(1));
        return;
    }
    if (!message.empty() && message[0] == static_cast<std::byte>(MessageKind::typed))
        return take_typed(peer, channel, message.subspan(1));
    if (message.size() == 1 && message[0] == static_cast<std::byte>(MessageKind::ready)) {
        member->seat.set_ready();
        return load_if_ready(peer);
    }
    if (!read_rebase(message, [&](std::uint32_t slot) { sender_.rebase(member->peer, slot); }))
        host_.disconnect(connection, net::DisconnectReason::protocol_error, "unknown message", now_);
}

void Server::take_typed(PlayerId player, net::Channel channel, std::span<const std::byte> message) {
    MessageIntake& intake = find(player)->intake;
    const bool was_waiting = intake.waiting() != 0;
    switch (intake.arrive(limits_, channel, message, now_)) {
        case MessageIntake::Verdict::deliver:
            return handle_typed(player, channel, message);
        case MessageIntake::Verdict::wait:
            typed_.stats().deferred += 1;
            if (!was_waiting && warn_) warn_(player, Warning::messages_deferred);
            return;
        case MessageIntake::Verdict::flood:
            typed_.stats().floods += 1;
            disconnect(player, "too many messages", now_);
    }
}

void Server::handle_typed(PlayerId player, net::Channel channel, std::span<const std::byte> message) {
    references_.reader = find(player)->peer;
    if (typed_.read(message, read_)) {
        typed_.deliver(read_, {player, channel, false});
    } else {
        host_.disconnect(connection(player), net::DisconnectReason::protocol_error, "malformed message",
                         now_);
    }
}

/// A handler may disconnect the player.
void Server::handle_deferred() {
    for (std::size_t i = 0; i < members_.size(); ++i) {
        const PlayerId player = members_[i].id;
        if (!player) continue;
        while (members_[i].id == player && members_[i].intake.take(limits_, now_, deferred_))
            handle_typed(player, deferred_.channel, deferred_.bytes);
        if (members_[i].id != player || !members_[i].intake.is_flood(limits_, now_)) continue;
        typed_.stats().floods += 1;
        disconnect(player, "too many messages", now_);
    }
}

void Server::on_fate(net::PeerId peer, const net::PacketFate& fate) {
    if (const Member* member = find_connected(peer))
        sender_.on_fate(member->peer, fate.number, fate.delivered);
}

bool Server::on_payload(net::PeerId peer, std::uint64_t number, std::span<const std::byte> payload,
                        net::Time now) {
    const Member* member = find_connected(peer);
    if (!member || !uplink_.read(member->id, number, payload, now)) {
        host_.disconnect(peer, net::DisconnectReason::protocol_error, "malformed state", now);
        return false;
    }
    member = find_connected(peer);  // a check may have disconnected it
    if (member && owned_.is_flood(member->id))
        host_.disconnect(peer, net::DisconnectReason::kicked, "too many values were refused", now);
    return true;
}

/// Sends a reliable message. If the queue is full, disconnects the player: without the message, the client's
/// state would stay wrong.
void Server::send_or_end(PlayerId player, std::span<const std::byte> message) {
    if (host_.send_message(connection(player), net::Channel::reliable, message) ==
        net::SendResult::queue_full)
        disconnect(player, "too many messages wait for it", now_);
}

bool Server::on_admit(const net::Admission& admission, std::string& refusal) {
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
    if (hello->resumption && !check_ticket(hello->resumption->ticket, admission.client_id)) {
        refusal = "the ticket is not valid";
        return false;
    }
    const std::uint32_t index = admission.peer.index();
    if (index >= connections_.size()) connections_.resize(index + std::size_t{1});
    connections_[index].max_slots = hello->max_slots;
    connections_[index].numbers = std::move(*numbers);
    connections_[index].client_id = admission.client_id;
    connections_[index].resumption = hello->resumption;
    return !listener_ || listener_->on_admit(admission, refusal);
}

}  // namespace shoal::replication
