#include "server_actions.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "../play/control_codec.h"

namespace shoal::replication::all {

using ecs::all::call_guarded;

namespace {

constexpr std::size_t kMaxSpawned = 256;
constexpr double kMaxAheadSeconds = 2;
constexpr double kRejectionSeconds = 3;
constexpr double kMessageSeconds = 0.5;  // longest wait for what the client sent before an action

}  // namespace

ServerActions::ServerActions(ecs::World& world, const Schema& schema, Sender& sender, Host& host,
                             const ActionLimits& limits, double tick_hz)
    : world_(world),
      schema_(schema),
      sender_(sender),
      host_(host),
      limits_(limits),
      tick_s_(1 / tick_hz),
      most_ahead_(static_cast<std::int32_t>(std::ceil(kMaxAheadSeconds * tick_hz))),
      codec_(*this),
      handlers_(schema.structs(StructKind::action).size()) {
    if (handlers_.empty()) return;
    created_hook_ = world.on(ecs::HookKind::add, sender.shadow().tag(),
                             [this](ecs::World&, std::span<const ecs::Entity> entities, const void*) {
                                 if (act_) created_.insert(created_.end(), entities.begin(), entities.end());
                             });
}

void ServerActions::add_player(net::PeerId id, Sender::Peer peer) {
    if (handlers_.empty() || find(id)) return;  // without actions there is nothing to do for a player
    std::size_t place = 0;
    while (place < players_.size() && players_[place]) ++place;
    if (place == players_.size()) players_.emplace_back();
    players_[place] = std::make_unique<Player>();
    places_[id] = place;
    Player& player = *players_[place];
    player.id = id;
    player.peer = peer;
    player.tokens = limits_.burst;
    player.rejection_tokens = limits_.rejections_per_second * kRejectionSeconds;
    for (const SchemaStruct& action : schema_.structs(StructKind::action))
        player.type_tokens.push_back(std::max(1.0, action.per_second));
}

void ServerActions::remove_player(net::PeerId id) {
    Player* const player = find(id);
    if (!player) return;
    player->has_left = true;
    if (!is_running_) players_[places_.at(id)].reset();
    places_.erase(id);
}

ServerActions::Player* ServerActions::find(net::PeerId id) const {
    const auto place = places_.find(id);
    return place == places_.end() ? nullptr : players_[place->second].get();
}

/// Translates a reference in an action of actor_, or of the server.
ecs::Entity ServerActions::to_entity(std::uint32_t id) {
    if (!actor_) return sender_.entity(id);
    if (!is_pending(id)) return sender_.entity_seen_by(actor_->peer, id);
    for (const Spawned& one : actor_->spawned)
        if (one.id == id) return world_.is_alive(one.entity) ? one.entity : ecs::Entity{};
    return {};
}

bool ServerActions::read_section(net::PeerId id, std::uint64_t, BitReader& in) {
    Player* const player = find(id);
    return player && player->inbox.read(schema_, in);
}

void ServerActions::commit_section(net::PeerId id, net::Time) {
    Player* const player = find(id);
    if (player && !player->inbox.commit()) host_.disconnect_player(id, "too many actions");
}

// Running

void ServerActions::run(Tick tick) {
    tick_ = tick;
    is_running_ = true;
    run_waiting();
    for (std::size_t i = 0; i < players_.size(); ++i) {
        if (!players_[i]) continue;
        earn_tokens(*players_[i]);
        run_stream(*players_[i], ActionStream::ordered);
        run_stream(*players_[i], ActionStream::independent);
        if (players_[i]->held_since[0]) run_stream(*players_[i], ActionStream::ordered);
        players_[i]->stats.ignored = players_[i]->inbox.ignored();
        if (players_[i]->rejection_tokens < 0)
            host_.disconnect_player(players_[i]->id, "too many rejected actions");
    }
    is_running_ = false;
    for (auto& player : players_)
        if (player && player->has_left) player.reset();
}

void ServerActions::earn_tokens(Player& player) const {
    const auto earn = [&](double& tokens, double per_second, double most) {
        tokens = std::min(most, tokens + per_second * tick_s_);
    };
    earn(player.tokens, limits_.per_second, limits_.burst);
    earn(player.rejection_tokens, limits_.rejections_per_second,
         limits_.rejections_per_second * kRejectionSeconds);
    for (std::size_t i = 0; i < player.type_tokens.size(); ++i)
        earn(player.type_tokens[i], type(i).per_second, std::max(1.0, type(i).per_second));
}

bool ServerActions::take_tokens(Player& player, std::size_t number) const {
    // Sums of fractions may be just below a whole number.
    constexpr double kOne = 1 - 1e-6;
    if (player.tokens < kOne || player.type_tokens[number] < kOne) return false;
    player.tokens -= 1;
    player.type_tokens[number] -= 1;
    return true;
}

void ServerActions::run_stream(Player& player, ActionStream stream) {
    if (player.inbox.waiting(stream).empty()) player.held_since[static_cast<std::size_t>(stream)].reset();
    while (!player.has_left && !player.inbox.waiting(stream).empty()) {
        const ActionRecord& front = player.inbox.waiting(stream).front();
        const auto ahead = static_cast<std::int32_t>(front.tick - tick_);
        if (ahead > 0 && ahead <= most_ahead_) return;
        if (must_wait(player, stream)) return;
        if (!take_tokens(player, front.type)) {
            player.stats.deferred += 1;
            return;
        }
        const ActionRecord record = front;
        run_one(player, stream, record);
        if (!player.has_left) host_.handle_waiting(player.id);
    }
}

/// Returns whether the client sent a message or value before its next action, and the server has not handled
/// it. After a while the action does not wait any longer.
bool ServerActions::must_wait(Player& player, ActionStream stream) {
    std::optional<Tick>& since = player.held_since[static_cast<std::size_t>(stream)];
    host_.handle_waiting(player.id);
    const ActionRecord& next = player.inbox.waiting(stream).front();
    if (player.has_left || host_.has_handled(player.id, next.messages, next.owned)) {
        since.reset();
        return player.has_left;
    }
    if (!since) since = tick_;
    return (tick_ - *since) * tick_s_ < kMessageSeconds;
}

void ServerActions::run_one(Player& player, ActionStream stream, const ActionRecord& record) {
    const SchemaStruct& what = type(record.type);
    actor_ = &player;
    StructValue value(what);
    codec_.restore(what, record.words, value.get());
    const auto ahead = static_cast<std::int32_t>(record.tick - tick_);
    const Tick late_ticks = ahead < 0 ? tick_ - record.tick : 0;
    if (sight_) sight_->look(player.id, record.tick, record.lag, tick_);
    start(record.type, &player, late_ticks);
    const ecs::Entity entity = act_->player;
    ActionEvent event;
    std::string why = "the server could not do it";  // if a function of the game throws
    call_guarded(world_, [&] {
        std::string refusal = what.ops.validate ? what.ops.validate(value.get(), *act_) : std::string();
        event = event_of(player.id, entity);
        codec_.quantise(what, value.get(), event.words);
        if (refusal.empty() && what.ops.mutate) {
            what.ops.mutate(value.get(), *act_);
            refusal = act_->why_not();
        }
        why = std::move(refusal);
    });
    act_.reset();
    // The functions of the game that are called from here on may do actions of the server, which use act_
    // and created_.
    const std::vector<ecs::Entity> created = std::exchange(created_, {});
    for (const ecs::Entity spawned : created)
        if (replicates(spawned)) host_.give_entity(player.id, spawned);
    if (!player.has_left)
        for (const NetId net_id : record.touched)
            if (const ecs::Entity touched = sender_.entity_seen_by(player.peer, net_id))
                sender_.send_now(player.peer, touched);
    why.empty() ? accept(player, stream, record, created) : reject(player, stream, why);
    report({tick_, late_ticks, player.id, what.name, record.type, value.get(), why.empty(), why});
    if (why.empty()) fire(value.get(), std::move(event), entity);
}

/// Returns the event of the running action, without its arguments. `entity`: that of the player who acts.
ActionEvent ServerActions::event_of(net::PeerId who, ecs::Entity entity) {
    const NetId player = world_.is_alive(entity) ? sender_.assign_net_id(entity) : 0;
    return {tick_, who, player, static_cast<std::uint8_t>(type_), {}};
}

void ServerActions::start(std::size_t number, const Player* player, Tick late_ticks) {
    created_.clear();
    type_ = number;
    act_.emplace(world_, sender_.shadow().tag(), player ? sight_ : nullptr);
    act_->tick = tick_;
    act_->late_ticks = late_ticks;
    if (!player) return;
    act_->who = player->id;
    act_->player = host_.player_entity(player->id);
}

void ServerActions::accept(Player& player, ActionStream stream, const ActionRecord& record,
                           std::span<const ecs::Entity> created) {
    player.stats.accepted += 1;
    ActionResult& result = player.results.emplace_back();
    result.stream = stream;
    result.sequence = static_cast<std::uint16_t>(player.inbox.sequence(stream));
    if (!player.has_left) match_created(player, record, created, result);
    player.inbox.pop(stream);
}

void ServerActions::reject(Player& player, ActionStream stream, const std::string& why) {
    ActionResult& result = player.results.emplace_back();
    result.stream = stream;
    result.sequence = static_cast<std::uint16_t>(player.inbox.sequence(stream));
    result.is_accepted = false;
    result.why_not = why.substr(0, kMaxRejectionBytes);
    player.stats.rejected += 1;
    player.rejection_tokens -= 1;
    if (stream == ActionStream::independent) {
        player.inbox.pop(stream);
    } else {
        player.stats.dropped += player.inbox.reject();
    }
}

/// Matches the n-th entity that the server spawned with the n-th that the client spawned. Adds the net ids to
/// the result; 0 where the server has no entity.
void ServerActions::match_created(Player& player, const ActionRecord& record,
                                  std::span<const ecs::Entity> created, ActionResult& result) {
    for (std::uint32_t i = 0; i < record.created; ++i) {
        const bool exists = i < created.size() && replicates(created[i]);
        const NetId net_id = exists ? sender_.assign_net_id(created[i]) : 0;
        result.created.push_back(net_id);
        if (!exists) continue;
        const PendingId id = pending_after(record.first_pending, i);
        sender_.set_pending_id(player.peer, net_id, id - kFirstPending);
        player.spawned.push_back({id, created[i], net_id});
        player.outstanding.push_back({id, created[i], net_id});
        if (player.spawned.size() > kMaxSpawned) player.spawned.pop_front();
    }
}

bool ServerActions::replicates(ecs::Entity entity) const {
    return world_.is_alive(entity) && world_.has(entity, sender_.shadow().tag());
}

/// Calls the handlers, and sends an event to all players except the one who acted. `entity`: the entity that
/// this player had when the action began; it may be dead.
void ServerActions::fire(const void* action, ActionEvent event, ecs::Entity entity) {
    const auto living = [&] { return world_.is_alive(entity) ? entity : ecs::Entity{}; };
    for (const Handler& handler : handlers_[event.type])
        call_guarded(world_, [&] { handler(action, {living(), event.who, false, event.tick}); });
    const std::vector<std::byte> message = write_event(schema_, event);
    for (const auto& player : players_) {
        if (!player || player->id == event.who || player->has_left || player->is_away) continue;
        const std::optional<ActionEvent> seen = as_seen(*player, event);
        if (host_.send_event(player->id, seen ? write_event(schema_, *seen) : message)) {
            host_.note_named(player->id, type(event.type), (seen ? *seen : event).words,
                             (seen ? *seen : event).player);
        } else {
            player->stats.lost_events += 1;
        }
    }
}

/// Returns the event without the entities that a player does not see; nothing if the player sees them all.
std::optional<ActionEvent> ServerActions::as_seen(const Player& player, const ActionEvent& event) const {
    const ComponentLayout& layout = type(event.type).layout;
    const bool hides_player = event.player != 0 && sender_.hides(player.peer, event.player);
    if (!hides_player && (!sender_.scope().is_used() || !layout.has_references())) return std::nullopt;
    ActionEvent seen = event;
    if (hides_player) seen.player = 0;
    const bool hides_words = sender_.hide(player.peer, layout, seen.words);
    return hides_player || hides_words ? std::optional(std::move(seen)) : std::nullopt;
}

void ServerActions::report(const ActionReport& report) const {
    for (const Observer& observer : observers_) call_guarded(world_, [&] { observer(report); });
}

// The server's own actions

bool ServerActions::begin(std::size_t number, void* action, Tick tick) {
    std::vector<std::uint32_t> words;  // words_ are those of the running action
    codec_.quantise(type(number), action, words);
    const bool fits = fits_action(type(number), words);
    assert(fits && "the arguments of an action have at most 512 bytes");
    if (!fits) return false;
    if (act_ || world_.is_deferring()) {
        waiting_.push_back({number, std::move(words)});
        return false;
    }
    tick_ = tick;
    actor_ = nullptr;
    codec_.restore(type(number), words, action);
    words_ = std::move(words);
    start(number, nullptr, 0);
    return true;
}

void ServerActions::run_waiting() {
    std::vector<Waiting> all;
    all.swap(waiting_);
    actor_ = nullptr;
    for (Waiting& one : all) {
        const SchemaStruct& what = type(one.type);
        StructValue value(what);
        codec_.restore(what, one.words, value.get());
        words_ = std::move(one.words);
        start(one.type, nullptr, 0);
        bool has_run = !what.ops.mutate;
        if (what.ops.mutate)
            call_guarded(world_, [&] { what.ops.mutate(value.get(), *act_), has_run = true; });
        has_run ? static_cast<void>(end(value.get())) : abandon();
    }
}

bool ServerActions::end(const void* action) {
    const ecs::World::KeepThrown keep(world_);
    const std::string why = act_->why_not();
    const std::size_t number = type_;  // the functions of the game may do other actions
    ActionEvent event = event_of({}, {});
    event.words = std::move(words_);
    act_.reset();
    report({tick_, 0, {}, type(number).name, number, action, why.empty(), why});
    if (why.empty()) fire(action, std::move(event), {});
    return why.empty();
}

// Results

void ServerActions::finish() {
    for (const auto& player : players_)
        if (player) finish(*player);
}

void ServerActions::finish(Player& player) {
    for (ActionResult& result : player.results) forget_gone(player, result);
    // While the player is away, nothing is sent: reconnect() sends the results.
    if (!player.results.empty() && !player.is_away)
        host_.send_control(player.id, write_control(ActionResults{tick_, player.results}));
    std::vector<PendingId> gone;
    std::erase_if(player.outstanding, [&](const Spawned& one) {
        const bool is_gone = !replicates(one.entity) || !sender_.sees(player.peer, one.entity);
        if (is_gone) gone.push_back(one.id);
        if (!is_gone && !sender_.has_acknowledged(player.peer, one.entity)) return false;
        sender_.set_pending_id(player.peer, one.net_id, 0);
        return true;
    });
    if (!gone.empty() && !player.is_away) host_.send_control(player.id, write_control(Gone{gone}));
    if (keeps_results_) store_results(player);
    for (const PendingId id : gone)
        if (keeps_results_) player.kept_gone_ids.push_back(id);
    while (player.kept_gone_ids.size() > kMaxSpawned) player.kept_gone_ids.pop_front();
    player.results.clear();
}

/// Sets the net ids of entities that do not replicate to the player any more to 0.
void ServerActions::forget_gone(const Player& player, ActionResult& result) const {
    for (NetId& net_id : result.created)
        if (!replicates(sender_.entity(net_id)) || sender_.hides(player.peer, net_id)) net_id = 0;
}

/// Stores the results of this tick: in each stream as many results as a client can wait for.
void ServerActions::store_results(Player& player) {
    for (ActionResult& result : player.results) {
        std::deque<KeptResult>& kept = player.kept[static_cast<std::size_t>(result.stream)];
        kept.push_back({tick_, std::move(result)});
        if (kept.size() > kMaxWaitingActions) kept.pop_front();
    }
}

void ServerActions::set_away(net::PeerId id) {
    if (Player* const player = find(id)) player->is_away = true;
}

void ServerActions::reconnect(net::PeerId id, const std::array<std::uint32_t, kActionStreams>& first) {
    Player* const player = find(id);
    if (!player) return;
    player->is_away = false;
    for (std::size_t stream = 0; stream < kActionStreams; ++stream) {
        std::vector<ActionResult> of_one_tick;
        Tick tick = 0;
        const auto flush = [&] {
            if (!of_one_tick.empty()) host_.send_control(id, write_control(ActionResults{tick, of_one_tick}));
            of_one_tick.clear();
        };
        for (KeptResult& kept : player->kept[stream]) {
            if (static_cast<std::int16_t>(kept.result.sequence - first[stream]) < 0) continue;
            if (kept.tick != tick) flush();
            tick = kept.tick;
            forget_gone(*player, kept.result);
            of_one_tick.push_back(kept.result);
        }
        flush();
    }
    if (!player->kept_gone_ids.empty())
        host_.send_control(id,
                           write_control(Gone{{player->kept_gone_ids.begin(), player->kept_gone_ids.end()}}));
}

Resumed ServerActions::replace_client(net::PeerId id) {
    Resumed resumed;
    Player* const player = find(id);
    if (!player) return resumed;
    player->is_away = false;
    player->spawned.clear();
    player->outstanding.clear();
    for (auto& kept : player->kept) kept.clear();
    player->kept_gone_ids.clear();
    player->inbox.forget_waiting();
    resumed.next_actions = {player->inbox.next(ActionStream::ordered),
                            player->inbox.next(ActionStream::independent)};
    resumed.epoch = player->inbox.epoch();
    return resumed;
}

ServerActions::Stats ServerActions::stats(net::PeerId id) const {
    const Player* const player = find(id);
    return player ? player->stats : Stats{};
}

std::size_t ServerActions::waiting(net::PeerId id) const {
    const Player* const player = find(id);
    if (!player) return 0;
    return player->inbox.waiting(ActionStream::ordered).size() +
           player->inbox.waiting(ActionStream::independent).size();
}

}  // namespace shoal::replication::all
