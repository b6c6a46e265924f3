#include "server.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
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
      sender_(world, schema, options.sender),
      queries_(world),
      predicted_(world, schema, references_),
      to_round_(world),
      owned_(world, schema, sender_,
             [this](PlayerId player, std::span<const std::byte> message) { send_or_end(player, message); }),
      host_(with_schema(options.host, schema), *this, sink),
      next_tick_(options.first_tick),
      limits_(options.messages),
      typed_(schema, references_),
      join_options_(options.join),
      actions_(world, schema, sender_, *this, options.actions, options.sender.tick_hz) {
    if (!schema.structs(StructKind::action).empty()) uplink_.set(Section::actions, &actions_);
    uplink_.set(Section::owned_state, &owned_);
    if (schema.is_authority_quantised()) predicted_.watch(to_round_);
    if (schema.structs(StructKind::input).empty()) return;
    inputs_ =
        std::make_unique<ServerInputs>(world, schema, sender_, std::chrono::microseconds(welcome_.tick_us));
    uplink_.set(Section::inputs, inputs_.get());
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
        inputs_->take_shifts(now, [&](net::PeerId player, net::Duration shift) {
            // If the queue is full, the next shift does what this one should.
            static_cast<void>(host_.send_message(player, net::ordered_by(kShiftKey), write_shift(shift)));
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
        if (member.id) sender_.request_marker(member.peer);
    poll(now);
}

std::size_t Server::write_payload(net::PeerId peer, net::PayloadTurn& turn) {
    const Member* member = find(peer);
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
    mark_owned(entity, member != nullptr);
    return true;
}

void Server::mark_owned(ecs::Entity entity, bool is_owned) {
    if (schema_.find<Mine>() == kMaxComponents) return;
    if (is_owned) {
        world_.add<Mine>(entity);
    } else {
        world_.remove<Mine>(entity);
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
        if (member.id && !sender_.is_settled(member.peer)) return false;
    return true;
}

net::SendResult Server::send_message(net::PeerId peer, net::Delivery how,
                                     std::span<const std::byte> message) {
    message_.assign(1, static_cast<std::byte>(MessageKind::game));
    message_.insert(message_.end(), message.begin(), message.end());
    return host_.send_message(peer, how, message_);
}

void Server::disconnect(net::PeerId peer, std::string_view text, net::Time now) {
    host_.disconnect(peer, net::DisconnectReason::kicked, text, now);
}

Sender::PeerStats Server::peer_stats(net::PeerId peer) const {
    const Member* member = find(peer);
    return member ? sender_.stats(member->peer) : Sender::PeerStats{};
}

const Server::Member* Server::find(net::PeerId peer) const {
    if (!peer || peer.index() >= members_.size() || members_[peer.index()].id != peer) return nullptr;
    return &members_[peer.index()];
}

void Server::on_connected(net::PeerId peer) {
    Member& member = members_[peer.index()];
    member.id = peer;
    member.peer =
        sender_.add_peer({.max_slots = member.max_slots, .numbers = member.numbers, .is_held = true});
    owned_.add_player(peer, member.peer);
    member.seat.connect();
    if (inputs_) inputs_->add_player(peer, member.peer);
    // A new connection has room for it.
    static_cast<void>(host_.send_message(peer, net::unordered(), write_welcome(welcome_)));
    if (listener_) listener_->on_join(peer);
}

void Server::on_disconnected(net::PeerId peer, net::DisconnectReason reason, std::string_view text) {
    const Member* member = find(peer);
    if (!member) return;
    const ecs::Entity its_player = member->seat.player();
    if (leave_ && member->seat.phase() == Phase::playing) leave_(peer);
    std::vector<ecs::Entity> owned;
    sender_.for_each_owned(member->peer, [&](ecs::Entity entity) { owned.push_back(entity); });
    actions_.remove_player(peer);
    if (inputs_) inputs_->remove_player(peer);
    owned_.remove_player(peer);
    sender_.remove_peer(member->peer);
    members_[peer.index()] = {};
    for (const ecs::Entity entity : owned) {
        if (world_.is_alive(entity)) mark_owned(entity, false);
        if (inputs_ && world_.is_alive(entity)) inputs_->make_neutral(entity);
    }
    if (listener_) listener_->on_leave(peer, reason, text);
    if (join_options_.destroys_player && world_.is_alive(its_player)) world_.destroy(its_player);
}

void Server::admit(PlayerId player) {
    Member* member = find(player);
    if (!member) return;
    member->seat.admit();
    load_if_ready(player);
}

void Server::load_if_ready(PlayerId player) {
    Member& member = members_[player.index()];
    if (!member.seat.may_load(join_options_)) return;
    member.seat.load(now_);
    sender_.start_peer(member.peer);
}

void Server::advance_joins() {
    for (std::size_t i = 0; i < members_.size(); ++i) {
        Member& member = members_[i];
        const PlayerId player = member.id;
        if (!player || member.seat.phase() != Phase::loading) continue;
        switch (member.seat.step(join_options_, sender_.stats(member.peer).unjoined, now_)) {
            case Seat::Step::wait:
                break;
            case Seat::Step::play:
                finish_join(player);
                break;
            case Seat::Step::restart:
                sender_.restart_peer(member.peer);
                if (warn_) warn_(player, Warning::join_restarted);
                break;
            case Seat::Step::give_up:
                host_.disconnect(player, net::DisconnectReason::kicked, "loading the world took too long",
                                 now_);
        }
    }
}

/// The handler may disconnect the player.
void Server::finish_join(PlayerId player) {
    const ecs::Entity entity = join_ ? join_(player) : ecs::Entity{};
    if (find(player)) {
        set_player(player, entity);
    } else if (join_options_.destroys_player && world_.is_alive(entity)) {
        world_.destroy(entity);
    }
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
    if (!member || member->seat.phase() != Phase::playing) return;
    member->seat.set_player(entity);
    actions_.add_player(player, member->peer);
    if (world_.is_alive(entity)) give(player, entity);
    write_player(references_.to_net(entity), message_);
    // Ordered: the last one counts. A full queue ends the connection: the client would never play.
    if (host_.send_message(player, net::ordered_by(kPlayerKey), message_) == net::SendResult::queue_full)
        host_.disconnect(player, net::DisconnectReason::kicked, "too many messages wait for it", now_);
}

void Server::send_now(PlayerId player, std::span<const ecs::Entity> entities) {
    const Member* member = find(player);
    for (const ecs::Entity entity : entities)
        if (member && world_.is_alive(entity)) sender_.send_now(member->peer, entity);
}

net::SendResult Server::send_reliable(net::PeerId player, std::span<const std::byte> message) {
    return host_.send_message(player, net::ordered_by(kActionKey), message);
}

void Server::disconnect_player(net::PeerId player, std::string_view why) {
    host_.disconnect(player, net::DisconnectReason::kicked, why, now_);
}

void Server::on_message(net::PeerId peer, net::Channel channel, std::span<const std::byte> message) {
    const Member* member = find(peer);
    if (!member) return;
    if (!message.empty() && message[0] == static_cast<std::byte>(MessageKind::game)) {
        if (listener_) listener_->on_message(peer, channel, message.subspan(1));
        return;
    }
    if (!message.empty() && message[0] == static_cast<std::byte>(MessageKind::typed))
        return take_typed(peer, channel, message.subspan(1));
    if (message.size() == 1 && message[0] == static_cast<std::byte>(MessageKind::ready)) {
        members_[peer.index()].seat.set_ready();
        return load_if_ready(peer);
    }
    if (!read_rebase(message, [&](std::uint32_t slot) { sender_.rebase(member->peer, slot); }))
        host_.disconnect(peer, net::DisconnectReason::protocol_error, "unknown message", now_);
}

void Server::take_typed(PlayerId player, net::Channel channel, std::span<const std::byte> message) {
    MessageIntake& intake = members_[player.index()].intake;
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
            host_.disconnect(player, net::DisconnectReason::kicked, "too many messages", now_);
    }
}

void Server::handle_typed(PlayerId player, net::Channel channel, std::span<const std::byte> message) {
    references_.reader = members_[player.index()].peer;
    if (typed_.read(message, read_)) {
        typed_.deliver(read_, {player, channel, false});
    } else {
        host_.disconnect(player, net::DisconnectReason::protocol_error, "malformed message", now_);
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
        host_.disconnect(player, net::DisconnectReason::kicked, "too many messages", now_);
    }
}

void Server::on_fate(net::PeerId peer, const net::PacketFate& fate) {
    if (const Member* member = find(peer)) sender_.on_fate(member->peer, fate.number, fate.delivered);
}

bool Server::on_payload(net::PeerId peer, std::uint64_t number, std::span<const std::byte> payload,
                        net::Time now) {
    if (!uplink_.read(peer, number, payload, now)) {
        host_.disconnect(peer, net::DisconnectReason::protocol_error, "malformed state", now);
        return false;
    }
    if (owned_.is_flood(peer))
        host_.disconnect(peer, net::DisconnectReason::kicked, "too many values were refused", now);
    return true;
}

ComponentIndex Server::owned_component(std::size_t index) const {
    if (index < schema_.components().size() && schema_.components()[index].role == Role::owner)
        return static_cast<ComponentIndex>(index);
    std::fprintf(stderr, "shoal: this type is not a component with from_owner()\n");
    std::abort();
}

/// A client that misses the message would never be right again.
void Server::send_or_end(PlayerId player, std::span<const std::byte> message) {
    if (host_.send_message(player, net::Channel::reliable, message) == net::SendResult::queue_full)
        host_.disconnect(player, net::DisconnectReason::kicked, "too many messages wait for it", now_);
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
    const std::uint32_t index = admission.peer.index();
    if (index >= members_.size()) members_.resize(index + std::size_t{1});
    members_[index].max_slots = hello->max_slots;
    members_[index].numbers = std::move(*numbers);
    return !listener_ || listener_->on_admit(admission, refusal);
}

}  // namespace shoal::replication
