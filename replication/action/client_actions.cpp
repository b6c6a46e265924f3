#include "client_actions.h"

#include <algorithm>
#include <cassert>

#include "../codec/codec.h"
#include "../message.h"

namespace shoal::replication::impl {

using ecs::impl::call_guarded;

namespace {

// Most entities in answered_. They are kept because the full record of a pending entity, or the message
// Gone, may arrive after the action's result.
constexpr std::size_t kMaxAnswered = 1024;

ActionStream stream_of(const SchemaStruct& type) {
    return type.is_independent ? ActionStream::independent : ActionStream::ordered;
}

}  // namespace

ClientActions::ClientActions(ecs::World& world, const Schema& schema, Receiver& receiver)
    : world_(world),
      schema_(schema),
      receiver_(receiver),
      codec_(*this),
      queue_(schema),
      overlay_(receiver),
      mine_(schema.find<Mine>()),
      to_predict_(schema.find<ToPredict>()),
      types_(schema.structs(StructKind::action).size()) {
    if (types_.empty()) return;
    created_hook_ = world.on_add<Replicated>([this](ecs::World&, ecs::Entity entity) {
        if (act_) created_.push_back(entity);
    });
}

std::uint32_t ClientActions::to_net(ecs::Entity entity) {
    for (const Pending& pending : pending_)
        if (pending.entity == entity) return pending.id;
    if (const NetId net_id = receiver_.net_id(entity)) return net_id;
    for (const Pending& answered : answered_)  // accepted, and the record has not arrived
        if (answered.entity == entity) return answered.id;
    return 0;
}

ecs::Entity ClientActions::to_entity(std::uint32_t id) {
    for (const Pending& pending : pending_)
        if (pending.id == id) return pending.entity;
    return receiver_.entity(id);
}

void ClientActions::set_player(bool is_playing, ecs::Entity player, Tick next_tick,
                               const std::optional<RenderTime>& seen) {
    is_playing_ = is_playing;
    player_ = player;
    next_tick_ = next_tick;
    seen_ = seen;
}

bool ClientActions::begin(std::size_t number, void* action) {
    const SchemaStruct& what = type(number);
    if (!is_playing_ || queue_.is_full(stream_of(what)) || overlay_.is_full() ||
        waiting_.size() >= kMaxWaitingActions) {
        stats_.not_begun += 1;
        return false;
    }
    std::vector<std::uint32_t> words;  // words_ are those of the running action
    codec_.quantise(what, action, words);
    stats_.misfits = codec_.misfits();
    if (world_.is_deferring() || act_) {
        waiting_.push_back({number, std::move(words)});
        return false;
    }
    if (!fits_action(what, words)) {
        stats_.not_begun += 1;
        return false;
    }
    codec_.restore(what, words, action);
    words_ = std::move(words);
    start(number);
    return true;
}

void ClientActions::start(std::size_t number) {
    type_ = number;
    created_.clear();
    changes_.emplace(world_);
    for (const SchemaComponent& component : schema_.components()) changes_->watch(component.bind(world_));
    pause_.emplace(receiver_.local_writes());
    act_.emplace(world_, ecs::ComponentId{}, sight_);
    act_->player = player_;
    act_->tick = next_tick_;
    act_->is_server = false;
}

void ClientActions::end(const void* action) {
    const ecs::World::KeepThrown keep(world_);
    ActionRecord record;
    const std::size_t number = type_;  // the hooks and handlers of the game may do other actions
    if (const std::string why = take(record); !why.empty()) return tell_rejected(record, why);
    queue_.add(stream_of(type(number)), std::move(record));
    stats_.done += 1;
    fire(number, action, {player_, {}, true, next_tick_});
}

void ClientActions::abandon() {
    const ecs::World::KeepThrown keep(world_);
    ActionRecord record;
    act_->fail("the mutation threw an exception");
    take(record);
}

/// Ends the running action. Returns why it failed: then it is undone.
std::string ClientActions::take(ActionRecord& record) {
    const ActionStream stream = stream_of(type(type_));
    const Overlay::Key key{stream, queue_.next(stream)};
    record = {static_cast<std::uint8_t>(type_), next_tick_, 0, 0, {}, words_, {}, messages_, owned_};
    if (seen_) record.lag = seen_->lag(next_tick_);
    note_changes(key, record);
    changes_->clear();
    for (const ecs::Entity entity : act_->destroyed()) remove_components(entity);
    note_changes(key, record, true);
    std::string why = act_->why_not();
    if (created_.size() > kMaxCreated || record.touched.size() > kMaxTouched)
        why = "the action creates or changes too many entities";
    if (!created_.empty() && stream == ActionStream::independent)
        why = "an independent action cannot create entities";
    changes_.reset();
    act_.reset();
    // The hooks of the game that run from here on may do other actions.
    const std::vector<ecs::Entity> created = std::exchange(created_, {});
    const ecs::impl::AtEnd resume{[&] { pause_.reset(); }};
    if (!why.empty()) {
        overlay_.undo(key);
        for (std::size_t i = created.size(); i-- > 0;)
            if (world_.is_alive(created[i])) world_.destroy(created[i]);
        stats_.rejected += 1;
        return why;
    }
    record.created = static_cast<std::uint32_t>(created.size());
    if (record.created > 0) record.first_pending = next_pending_;
    // The n-th entity stands for the n-th one of the server, so those that the mutation destroyed count, too.
    for (const ecs::Entity entity : created) {
        std::span<const ComponentIndex> held;
        if (on_spawned_ && world_.is_alive(entity)) held = on_spawned_(entity);
        pending_.push_back({next_pending_, entity});
        receiver_.replicas().expect(next_pending_, entity, held);
        next_pending_ = pending_after(next_pending_);
    }
    return {};
}

/// Removes the components of the schema from an entity that a mutation destroyed, except those that the
/// player decides itself, and what makes them the player's: a rejection could not restore their values.
void ClientActions::remove_components(ecs::Entity entity) {
    for (std::size_t i = 0; i < schema_.components().size(); ++i) {
        const SchemaComponent& component = schema_.components()[i];
        const auto index = static_cast<ComponentIndex>(i);
        if (component.role == Role::owner && receiver_.is_held(entity, index)) continue;
        if (i == mine_ || i == to_predict_) continue;
        if (world_.is_alive(entity)) world_.remove(entity, component.bind(world_));
    }
}

/// Adds the replicas that the mutation changed to the overlay and to the record. What the player's steps or
/// the player itself decide is not for actions, except that an action may destroy the entity.
void ClientActions::note_changes(Overlay::Key key, ActionRecord& record, bool is_destroyed) {
    for (const ecs::ChangeCollector::Change change : changes_->changes()) {
        if (!receiver_.shown_tick(change.entity)) continue;
        bool is_touched = false;
        change.for_each([&](std::uint32_t watch) {
            const auto index = static_cast<ComponentIndex>(watch);
            const Role role = schema_.components()[watch].role;
            const bool is_of_player = role != Role::server && receiver_.is_held(change.entity, index) &&
                                      !receiver_.is_overlaid(change.entity, index);
            const bool is_bad = is_of_player && role == Role::predicted && !is_destroyed;
            assert(!is_bad && "a mutation writes a component that this client predicts");
            stats_.bad_writes += is_bad;
            if (is_of_player && !(is_destroyed && role == Role::predicted)) return;
            overlay_.add(key, change.entity, index);
            is_touched = true;
        });
        const NetId net_id = is_touched ? receiver_.net_id(change.entity) : 0;
        if (net_id != 0 && std::ranges::count(record.touched, net_id) == 0) record.touched.push_back(net_id);
    }
}

void ClientActions::run_waiting() {
    if (waiting_.empty()) return;
    std::vector<Waiting> all;
    all.swap(waiting_);
    for (const Waiting& one : all) {
        StructValue value(type(one.type));
        codec_.restore(type(one.type), one.words, value.get());
        if (!begin(one.type, value.get())) continue;
        const auto mutate = type(one.type).ops.mutate;
        bool has_run = !mutate;
        if (mutate) call_guarded(world_, [&] { mutate(value.get(), *act_), has_run = true; });
        has_run ? end(value.get()) : abandon();
    }
}

bool ClientActions::keep(ActionResults results, Gone gone, std::size_t bytes) {
    answer_bytes_ += 2 * bytes + sizeof answers_[0] + results.results.size() * sizeof(ActionResult);
    answers_.emplace_back(std::move(results), std::move(gone));
    return true;
}

bool ClientActions::take_answers() {
    answer_bytes_ = 0;
    for (const auto& [results, gone] : std::exchange(answers_, {})) {  // handlers may receive more
        for (const ActionResult& result : results.results)
            is_broken_ = is_broken_ || !(result.is_accepted ? accept(result, results.tick) : reject(result));
        if (is_broken_) return false;
        use_gone(gone);
    }
    return !is_broken_;
}

void ClientActions::fire(const ActionEvent& event, std::span<const std::uint32_t> words, bool is_late) {
    StructValue value(type(event.type));
    codec_.restore(type(event.type), words, value.get());
    fire(event.type, value.get(), {receiver_.entity(event.player), event.who, false, event.tick, is_late});
}

bool ClientActions::accept(const ActionResult& result, Tick tick) {
    const ActionRecord* const record = queue_.front(result.stream, result.sequence);
    if (!record || record->created != result.created.size()) return false;
    const std::uint32_t sequence = queue_.first(result.stream);
    for (std::uint32_t i = 0; i < record->created; ++i)
        end_pending(pending_after(record->first_pending, i), result.created[i]);
    overlay_.accept({result.stream, sequence}, tick);
    queue_.pop(result.stream);
    stats_.accepted += 1;
    return true;
}

/// Handles the answer for a pending entity. If the server has no such entity (net_id 0), destroys the
/// pending one. Otherwise the entity is a replica, or becomes one when its full record arrives.
void ClientActions::end_pending(PendingId id, NetId net_id) {
    const auto found = std::find_if(pending_.begin(), pending_.end(),
                                    [&](const Pending& pending) { return pending.id == id; });
    if (found == pending_.end()) return;
    const ecs::Entity entity = found->entity;
    pending_.erase(found);
    if (net_id == 0) destroy_unless_replica(entity);
    answered_.push_back({id, entity});
    if (answered_.size() <= kMaxAnswered) return;
    std::erase_if(answered_, [&](const Pending& answered) { return receiver_.net_id(answered.entity) != 0; });
    if (answered_.size() <= kMaxAnswered) return;
    const Pending oldest = answered_.front();
    answered_.erase(answered_.begin());
    receiver_.replicas().forget_expected(oldest.id);
    destroy_unless_replica(oldest.entity);  // its record will spawn another entity
}

void ClientActions::use_gone(const Gone& gone) {
    for (const std::uint32_t id : gone.ids) {
        if (!is_pending(id)) receiver_.replicas().note_ended(id);
        for (const Pending& answered : answered_)
            if (answered.id == id) destroy_unless_replica(answered.entity);
    }
}

void ClientActions::destroy_unless_replica(ecs::Entity entity) {
    if (receiver_.net_id(entity) == 0 && world_.is_alive(entity)) world_.destroy(entity);
}

bool ClientActions::reject(const ActionResult& result) {
    if (!queue_.front(result.stream, result.sequence)) return false;
    const std::uint32_t sequence = queue_.first(result.stream);
    std::vector<ActionRecord> ended;
    if (result.stream == ActionStream::independent) {
        ended.push_back(*queue_.front(result.stream, result.sequence));
        overlay_.undo({result.stream, sequence});
        queue_.pop(result.stream);
    } else {
        overlay_.undo_from(sequence);
        ended = queue_.take_ordered();
        undo_pending();
    }
    stats_.rejected += 1;
    stats_.dropped += ended.size() - 1;
    for (const ActionRecord& record : ended)
        tell_rejected(record, &record == &ended.front() ? std::string_view(result.why_not)
                                                        : "an earlier action was rejected");
    return true;
}

/// Destroys the entities spawned by the actions without an answer, the newest entity first.
void ClientActions::undo_pending() {
    while (!pending_.empty()) {
        const Pending pending = pending_.back();
        pending_.pop_back();
        receiver_.replicas().forget_expected(pending.id);
        if (world_.is_alive(pending.entity)) world_.destroy(pending.entity);
    }
}

void ClientActions::tell_rejected(const ActionRecord& record, std::string_view why) {
    if (types_[record.type].reject_handlers.empty()) return;
    StructValue value(type(record.type));
    codec_.restore(type(record.type), record.words, value.get());
    for (const RejectHandler& handler : types_[record.type].reject_handlers)
        call_guarded(world_, [&] { handler(value.get(), why); });
}

void ClientActions::fire(std::size_t number, const void* action, const Call& call) {
    for (const Handler& handler : types_[number].handlers)
        call_guarded(world_, [&] { handler(action, call); });
}

std::string ClientActions::why_not(std::size_t number, const void* action) const {
    if (!type(number).ops.validate) return {};
    Act act(world_, {}, sight_);
    act.player = player_;
    act.tick = next_tick_;
    act.is_server = false;
    return type(number).ops.validate(action, act);
}

void ClientActions::reset() {
    overlay_.reset();
    queue_.reset();
    undo_pending();
    for (const Pending& answered : answered_) {
        receiver_.replicas().forget_expected(answered.id);
        destroy_unless_replica(answered.entity);
    }
    answered_.clear();
    waiting_.clear();
    answers_.clear();
    answer_bytes_ = 0;
    is_broken_ = is_playing_ = false;
}

}  // namespace shoal::replication::impl
