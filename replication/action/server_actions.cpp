#include "server_actions.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "../play/control_codec.h"
#include "../play/players.h"

namespace shoal::replication::impl {

using ecs::impl::call_guarded;

namespace {

constexpr std::size_t kMaxSpawned = 256;
constexpr double kMaxAheadSeconds = 2;
constexpr double kRejectionSeconds = 3;
constexpr double kMessageSeconds = 0.5;  // longest wait for what the client sent before an action

}  // namespace

ServerActions::ServerActions(ecs::World& world, const Schema& schema, Sender& sender, Players& players,
                             PlayerHost& host, const ActionLimits& limits, double tick_hz)
    : world_(world),
      schema_(schema),
      sender_(sender),
      players_(players),
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

void ServerActions::add_player(Player& player) {
    if (handlers_.empty() || player.actions) return;  // without actions there is nothing to do for a player
    player.actions = std::make_unique<PlayerActions>();
    player.actions->tokens = limits_.burst;
    player.actions->rejection_tokens = limits_.rejections_per_second * kRejectionSeconds;
    for (const SchemaStruct& action : schema_.structs(StructKind::action))
        player.actions->type_tokens.push_back(std::max(1.0, action.per_second));
}

/// Translates a reference in an action of actor_, or of the server.
ecs::Entity ServerActions::to_entity(std::uint32_t id) {
    if (!actor_) return sender_.entity(id);
    if (!is_pending(id)) return sender_.entity_seen_by(actor_->peer, id);
    for (const PlayerActions::Spawned& one : actor_->actions->spawned)
        if (one.id == id) return world_.is_alive(one.entity) ? one.entity : ecs::Entity{};
    return {};
}

bool ServerActions::read_section(Player& player, std::uint64_t, BitReader& in) {
    return player.actions && player.actions->inbox.read(schema_, in);
}

void ServerActions::commit_section(Player& player, net::Time) {
    if (player.actions && !player.actions->inbox.commit())
        host_.disconnect_player(player, "too many actions");
}

// Running. A function of the game may end the player, which then has no actions.

void ServerActions::run(Tick tick) {
    tick_ = tick;
    run_waiting();
    players_.for_each([&](Player& player) {
        if (!player.actions) return;
        earn_tokens(*player.actions);
        run_stream(player, ActionStream::ordered);
        run_stream(player, ActionStream::independent);
        if (player.actions && player.actions->held_since[0]) run_stream(player, ActionStream::ordered);
        if (!player.actions) return;
        player.actions->stats.ignored = player.actions->inbox.ignored();
        if (player.actions->rejection_tokens < 0)
            host_.disconnect_player(player, "too many rejected actions");
    });
}

void ServerActions::earn_tokens(PlayerActions& actions) const {
    const auto earn = [&](double& tokens, double per_second, double most) {
        tokens = std::min(most, tokens + per_second * tick_s_);
    };
    earn(actions.tokens, limits_.per_second, limits_.burst);
    earn(actions.rejection_tokens, limits_.rejections_per_second,
         limits_.rejections_per_second * kRejectionSeconds);
    for (std::size_t i = 0; i < actions.type_tokens.size(); ++i)
        earn(actions.type_tokens[i], type(i).per_second, std::max(1.0, type(i).per_second));
}

bool ServerActions::take_tokens(PlayerActions& actions, std::size_t number) const {
    // Sums of fractions may be just below a whole number.
    constexpr double kOne = 1 - 1e-6;
    if (actions.tokens < kOne || actions.type_tokens[number] < kOne) return false;
    actions.tokens -= 1;
    actions.type_tokens[number] -= 1;
    return true;
}

void ServerActions::run_stream(Player& player, ActionStream stream) {
    if (player.actions && player.actions->inbox.waiting(stream).empty())
        player.actions->held_since[static_cast<std::size_t>(stream)].reset();
    while (player.actions && !player.actions->inbox.waiting(stream).empty()) {
        const ActionRecord& front = player.actions->inbox.waiting(stream).front();
        const auto ahead = static_cast<std::int32_t>(front.tick - tick_);
        if (ahead > 0 && ahead <= most_ahead_) return;
        if (must_wait(player, stream)) return;
        if (!take_tokens(*player.actions, front.type)) {
            player.actions->stats.deferred += 1;
            return;
        }
        const ActionRecord record = front;
        run_one(player, stream, record);
        if (player.actions) host_.handle_waiting(player);
    }
}

/// Returns whether the client sent a message or value before its next action, and the server has not handled
/// it. After a while the action does not wait any longer.
bool ServerActions::must_wait(Player& player, ActionStream stream) {
    host_.handle_waiting(player);
    if (!player.actions) return true;
    std::optional<Tick>& since = player.actions->held_since[static_cast<std::size_t>(stream)];
    const ActionRecord& next = player.actions->inbox.waiting(stream).front();
    if (player.has_done({0, next.messages, {}, next.owned})) {
        since.reset();
        return false;
    }
    if (!since) since = tick_;
    return (tick_ - *since) * tick_s_ < kMessageSeconds;
}

void ServerActions::run_one(Player& player, ActionStream stream, const ActionRecord& record) {
    const SchemaStruct& what = type(record.type);
    const PlayerId id = player.id;
    actor_ = &player;
    StructValue value(what);
    codec_.restore(what, record.words, value.get());
    const auto ahead = static_cast<std::int32_t>(record.tick - tick_);
    const Tick late_ticks = ahead < 0 ? tick_ - record.tick : 0;
    if (sight_) sight_->look(id, record.tick, record.lag, tick_);
    start(record.type, &player, late_ticks);
    const ecs::Entity entity = act_->player;
    ActionEvent event;
    std::string why = "the server could not do it";  // if a function of the game throws
    call_guarded(world_, [&] {
        std::string refusal = what.ops.validate ? what.ops.validate(value.get(), *act_) : std::string();
        event = event_of(id, entity);
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
        if (replicates(spawned)) host_.give_entity(id, spawned);
    if (player.actions)
        for (const NetId net_id : record.touched)
            if (const ecs::Entity touched = sender_.entity_seen_by(player.peer, net_id))
                sender_.send_now(player.peer, touched);
    if (player.actions) why.empty() ? accept(player, stream, record, created) : reject(player, stream, why);
    report({tick_, late_ticks, id, what.name, record.type, value.get(), why.empty(), why});
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
    if (world_.is_alive(player->seat.player())) act_->player = player->seat.player();
}

void ServerActions::accept(Player& player, ActionStream stream, const ActionRecord& record,
                           std::span<const ecs::Entity> created) {
    PlayerActions& actions = *player.actions;
    actions.stats.accepted += 1;
    ActionResult& result = actions.results.emplace_back();
    result.stream = stream;
    result.sequence = static_cast<std::uint16_t>(actions.inbox.sequence(stream));
    match_created(player, record, created, result);
    actions.inbox.pop(stream);
}

void ServerActions::reject(Player& player, ActionStream stream, const std::string& why) {
    PlayerActions& actions = *player.actions;
    actions.results.push_back({stream,
                               static_cast<std::uint16_t>(actions.inbox.sequence(stream)),
                               false,
                               {},
                               why.substr(0, kMaxRejectionBytes)});
    actions.stats.rejected += 1;
    actions.rejection_tokens -= 1;
    if (stream == ActionStream::independent) {
        actions.inbox.pop(stream);
    } else {
        actions.stats.dropped += actions.inbox.reject();
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
        PlayerActions& actions = *player.actions;
        actions.spawned.push_back({id, created[i], net_id});
        actions.outstanding.push_back({id, created[i], net_id});
        if (actions.spawned.size() > kMaxSpawned) actions.spawned.pop_front();
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
    players_.for_each([&](Player& player) {
        if (!player.actions || player.id == event.who || !player.connection) return;
        const std::optional<ActionEvent> seen = as_seen(player, event);
        if (host_.send_event(player, seen ? write_event(schema_, *seen) : message)) {
            host_.note_named(player, type(event.type), (seen ? *seen : event).words,
                             (seen ? *seen : event).player);
        } else {
            player.actions->stats.lost_events += 1;
        }
    });
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
    players_.for_each([&](Player& player) {
        if (player.actions) finish(player);
    });
}

void ServerActions::finish(Player& player) {
    PlayerActions& actions = *player.actions;
    for (ActionResult& result : actions.results) forget_gone(player, result);
    // While the player is away, nothing is sent: reconnect() sends the results.
    if (!actions.results.empty())
        host_.send_control(player, write_control(ActionResults{tick_, actions.results}));
    std::vector<PendingId> gone;
    std::erase_if(actions.outstanding, [&](const PlayerActions::Spawned& one) {
        const bool is_gone = !replicates(one.entity) || !sender_.sees(player.peer, one.entity);
        if (is_gone) gone.push_back(one.id);
        if (!is_gone && !sender_.has_acknowledged(player.peer, one.entity)) return false;
        sender_.set_pending_id(player.peer, one.net_id, 0);
        return true;
    });
    if (!gone.empty()) host_.send_control(player, write_control(Gone{gone}));
    if (keeps_results_) {
        store_results(actions);
        actions.kept_gone_ids.insert(actions.kept_gone_ids.end(), gone.begin(), gone.end());
    }
    while (actions.kept_gone_ids.size() > kMaxSpawned) actions.kept_gone_ids.pop_front();
    actions.results.clear();
}

/// Sets the net ids of entities that do not replicate to the player any more to 0.
void ServerActions::forget_gone(const Player& player, ActionResult& result) const {
    for (NetId& net_id : result.created)
        if (!replicates(sender_.entity(net_id)) || sender_.hides(player.peer, net_id)) net_id = 0;
}

/// Stores the results of this tick: in each stream as many results as a client can wait for.
void ServerActions::store_results(PlayerActions& actions) {
    for (ActionResult& result : actions.results) {
        std::deque<PlayerActions::KeptResult>& kept = actions.kept[static_cast<std::size_t>(result.stream)];
        kept.push_back({tick_, std::move(result)});
        if (kept.size() > kMaxWaitingActions) kept.pop_front();
    }
}

void ServerActions::reconnect(Player& player, const std::array<std::uint32_t, kActionStreams>& first) {
    if (!player.actions) return;
    for (std::size_t stream = 0; stream < kActionStreams; ++stream) {
        std::vector<ActionResult> of_one_tick;
        Tick tick = 0;
        const auto flush = [&] {
            if (!of_one_tick.empty())
                host_.send_control(player, write_control(ActionResults{tick, of_one_tick}));
            of_one_tick.clear();
        };
        for (PlayerActions::KeptResult& kept : player.actions->kept[stream]) {
            if (static_cast<std::int16_t>(kept.result.sequence - first[stream]) < 0) continue;
            if (kept.tick != tick) flush();
            tick = kept.tick;
            forget_gone(player, kept.result);
            of_one_tick.push_back(kept.result);
        }
        flush();
    }
    const std::deque<PendingId>& gone = player.actions->kept_gone_ids;
    if (!gone.empty()) host_.send_control(player, write_control(Gone{{gone.begin(), gone.end()}}));
}

Resumed ServerActions::replace_client(Player& player) {
    if (!player.actions) return {};
    PlayerActions& actions = *player.actions;
    actions.spawned.clear();
    actions.outstanding.clear();
    for (auto& kept : actions.kept) kept.clear();
    actions.kept_gone_ids.clear();
    actions.inbox.forget_waiting();
    return {false,
            {actions.inbox.next(ActionStream::ordered), actions.inbox.next(ActionStream::independent)},
            actions.inbox.epoch()};
}

}  // namespace shoal::replication::impl
