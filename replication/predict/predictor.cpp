#include "predictor.h"

#include <algorithm>
#include <utility>

namespace shoal::replication::impl {

Predictor::Predictor(ecs::World& world, const Schema& schema, Receiver& receiver, net::Duration max_lead)
    : world_(world),
      schema_(schema),
      receiver_(receiver),
      max_lead_(max_lead),
      queries_(world),
      values_(world, schema, receiver),
      smoothing_(world, schema),
      teleports_(static_cast<ComponentIndex>(schema.find<Teleports>())),
      mine_(world),
      to_predict_(world) {
    for (const PredictedValues::Component& component : values_.components()) held_.push_back(component.index);
    row_.resize(values_.row_words());
    if (schema.structs(StructKind::input).empty()) return;
    type_ = &schema.structs(StructKind::input)[0];
    const std::size_t index = schema.input_component();
    component_ = schema.components()[index].bind(world);
    if (!schema.components()[index].is_tag) held_.push_back(static_cast<ComponentIndex>(index));
    codec_ = std::make_unique<StructCodec>(receiver);
    value_ = std::make_unique<StructValue>(*type_);
    codec_->quantise(*type_, value_->get(), neutral_);
    log_ = std::make_unique<InputLog>(*type_, neutral_);
}

Predictor::~Predictor() = default;

void Predictor::check_steps(Tick every, OnStepFault on_fault) {
    check_.reset();
    if (every != 0 && on_fault)
        check_ = std::make_unique<StepCheck>(world_, schema_, every,
                                             guarded<const StepFault&>(world_, std::move(on_fault)));
}

void Predictor::start(net::Duration tick, std::uint64_t random_seed) {
    clock_.emplace();
    meter_.emplace(tick);
    tick_ = tick;
    kept_ = ticks_kept(tick);
    if (log_) log_->keep(kept_);
    seed_ = random_seed;
}

void Predictor::reset() {
    clock_.reset();
    if (log_) log_->reset();
    stop();  // removes Predicted: an entity that the game loaded outlives its replica
    last_.reset();
    checked_.reset();
    nan_until_.reset();
    must_restore_ = is_predicting_ = false;
}

void Predictor::set_input(const void* input, bool is_playing) {
    codec_->quantise(*type_, input, words_);
    stats_.misfits = codec_->misfits();
    stats_.dropped_presses += log_->set_input(words_, is_playing);
}

std::optional<Tick> Predictor::tick() const {
    if (!clock_ || !clock_->is_running()) return std::nullopt;
    return receiver_.clock()->wrapped(clock_->tick());
}

void Predictor::take_margin(const StateHeader::Margin& margin, net::Time now) {
    const InputLog::Packet* const packet = log_ && meter_ ? log_->find(margin.packet) : nullptr;
    const std::optional<ServerClock>& server = receiver_.clock();
    if (!packet || !server || packet->sent < server->began()) return;
    const double lead = packet->position - server->schedule(packet->sent);
    // Of the new inputs in a packet the oldest one is needed first.
    meter_->add(lead + packet->fresh - 1 - margin.ticks(), lead, now);
    if (margin.is_late) meter_->note_late(lead, now);
}

void Predictor::update(net::Time now, net::Duration rtt, net::Duration rtt_var) {
    const std::optional<ServerClock>& server = receiver_.clock();
    if (!clock_ || !log_ || !log_->is_in_use() || !server || !server->is_running()) return;
    const LocalWrites::Pause pause(receiver_.local_writes());
    const std::optional<double> wanted = meter_->wanted(log_->loss(), log_->fresh(), now);
    const InputClock::Advance ticks = clock_->advance(*server, wanted, now, rtt, rtt_var);
    log_->set_sent(now, clock_->position());
    const net::Duration lead = server->duration(clock_->position() - server->position(now));
    const net::Duration passed = now - std::exchange(updated_, now);
    for (Member& member : members_) smoothing_.decay(member.shown, passed);
    is_predicting_ = on_step_ && !held_.empty() && lead <= max_lead_;
    join_pending();
    if (is_predicting_) {
        update_group();
        reconcile();
    } else {
        stop();
    }
    if (ticks.has_jumped)
        must_restore_ = true;  // the skipped ticks are not computed: nothing to compare with
    // If the clock jumps, the shown values must not jump.
    const bool jumps = ticks.has_jumped || ticks.count >= std::max(server->ticks(kJump), 2.0);
    for (Member& member : members_)
        if (jumps) smoothing_.begin_jump(member.shown, fraction_);
    for (std::uint32_t i = 0; i < ticks.count; ++i) {
        log_->record(ticks.first + i);
        run(ticks.first + i, true);
    }
    fraction_ = clock_->position() - static_cast<double>(clock_->tick());
    for (Member& member : members_)
        if (jumps) smoothing_.end_jump(member.shown, fraction_);
}

void Predictor::stop() {
    for (Member& member : members_) leave(member);
    members_.clear();
    set_predicted(pending_, false);
}

std::span<const ComponentIndex> Predictor::add_pending(ecs::Entity entity) {
    if (!is_predicting_) return {};
    pending_.push_back(entity);
    world_.add<Predicted>(entity);
    return held_;
}

/// Adds pending entities that became replicas of this player to the group. Until the group is complete as of
/// their first version, these entities continue from their predicted values.
void Predictor::join_pending() {
    std::erase_if(pending_, [&](ecs::Entity entity) {
        if (!world_.is_alive(entity)) return true;
        if (receiver_.net_id(entity) == 0) return false;
        const bool is_in_group = world_.has<Mine>(entity) || world_.has<ToPredict>(entity);
        if (is_predicting_ && is_in_group) {
            join(entity, true);
        } else {
            for (const ComponentIndex component : held_) receiver_.release(entity, component);
            if (world_.is_alive(entity)) world_.remove<Predicted>(entity);
        }
        return true;
    });
}

void Predictor::join(ecs::Entity entity, bool is_active) {
    const NetId net_id = receiver_.net_id(entity);
    const std::optional<Version> shown = net_id != 0 ? receiver_.shown(net_id) : std::nullopt;
    if (!shown) return;
    Member member;
    member.entity = entity;
    member.net_id = net_id;
    member.since = shown->tick;
    member.is_active = is_active;
    member.rows.resize(values_.row_words() * kept_);
    if (entity.index >= places_.size()) places_.resize(entity.index + std::size_t{1});
    places_[entity.index] = static_cast<std::uint32_t>(members_.size());
    members_.push_back(std::move(member));
    must_restore_ = true;
}

void Predictor::set_predicted(std::span<const ecs::Entity> entities, bool is_predicted) {
    for (const ecs::Entity entity : entities) {
        if (!world_.is_alive(entity)) continue;
        if (is_predicted) {
            world_.add<Predicted>(entity);
        } else {
            world_.remove<Predicted>(entity);
        }
    }
}

std::size_t Predictor::find(ecs::Entity entity) const {
    const std::size_t place = entity.index < places_.size() ? places_[entity.index] : members_.size();
    return place < members_.size() && members_[place].entity == entity ? place : members_.size();
}

/// Makes the members the entities that have the tag Mine or ToPredict now.
void Predictor::update_group() {
    for (Member& member : members_) member.is_found = false;
    const auto add = [&](ecs::Entity entity) {
        // An action of this client may have destroyed the entity, and waits for its answer.
        const auto is_overlaid = [&](ComponentIndex index) { return receiver_.is_overlaid(entity, index); };
        if (std::ranges::any_of(held_, is_overlaid)) return;
        const std::size_t place = find(entity);
        if (place == members_.size()) join(entity, false);
        if (place < members_.size()) members_[place].is_found = true;
    };
    mine_.each(add);
    to_predict_.each(add);
    for (Member& member : members_)
        if (!member.is_found) leave(member);
    if (std::erase_if(members_, [](const Member& member) { return !member.is_found; }) > 0)
        for (std::uint32_t i = 0; i < members_.size(); ++i) places_[members_[i].entity.index] = i;
    for (const Member& member : members_)
        if (member.is_active) hold(member.entity);
}

void Predictor::hold(ecs::Entity entity) {
    for (const ComponentIndex component : held_) receiver_.hold(entity, component);
}

/// Ends the prediction of an entity: the world shows the server's values again.
void Predictor::leave(Member& member) {
    if (!world_.is_alive(member.entity) || !member.is_active) return;
    if (interpolator_) {
        std::vector<std::byte> drawn;
        for (const Smoothing::Component& component : smoothing_.components()) {
            const auto* const value =
                static_cast<const std::byte*>(world_.try_get(member.entity, component.id));
            if (!value || component.display.kind == Display::Kind::own) continue;
            drawn.assign(value, value + component.size);
            smoothing_.show(member.shown, fraction_, component.type, drawn.data());
            interpolator_->blend_from(member.entity, component.type, drawn);
        }
    }
    for (const ComponentIndex component : held_) receiver_.release(member.entity, component);
    if (world_.is_alive(member.entity)) world_.remove<Predicted>(member.entity);
}

/// Finds the newest tick for which the state of the whole group has arrived, and compares this state with the
/// prediction.
void Predictor::reconcile() {
    const std::optional<Tick> complete = receiver_.decoder().completion().group_complete();
    if (!complete || !last_ || members_.empty()) return;
    const Tick tick = *complete;
    if (tick == checked_ && !must_restore_) return;
    if (*last_ - tick >= kept_) return;  // also if the tick is newer
    if (!find_images(tick)) return;
    const Tick after = std::exchange(checked_, tick).value_or(tick);
    for (std::size_t i = 0; i < members_.size(); ++i) {
        const std::uint32_t now = teleports(images_[i]);
        members_[i].has_teleported = std::exchange(members_[i].teleports, now).value_or(now) != now;
    }
    if (nan_until_ && is_newer(*nan_until_, tick)) return;
    nan_until_.reset();
    if (must_restore_ || is_wrong(tick, after)) restore(tick);
    must_restore_ = false;
}

/// Finds the images of the members at a tick. Returns false if a member did not belong to the group yet, or
/// has no version of this tick.
bool Predictor::find_images(Tick tick) {
    images_.clear();
    for (const Member& member : members_) {
        if (is_newer(member.since, tick)) return false;
        const std::optional<Version> version = receiver_.at(member.net_id, tick);
        if (!version) return false;
        images_.push_back(version->image);
    }
    return true;
}

std::uint32_t Predictor::teleports(const Image& image) const {
    const std::uint32_t position = image.shape->find(teleports_);
    return position == Shape::kAbsent ? 0 : *image.lanes(position);
}

/// Requires that the members were restored, and that all ticks since then were computed.
bool Predictor::is_wrong(Tick tick, Tick after) {
    stats_.checks += 1;
    std::uint32_t error = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) {
        values_.capture(images_[i], row_);
        ComponentIndex component = 0;
        const std::uint32_t found = values_.difference(row(members_[i], tick), row_, &component);
        if (found != 0 && error == 0)
            stats_.last = {tick, after, members_[i].net_id, members_[i].has_teleported,
                           schema_.components()[component].name};
        error = std::max(error, found);
    }
    if (error == 0) return false;
    stats_.mispredictions += 1;
    stats_.last_error = error;
    return true;
}

/// Sets the whole group to the server's state of a tick, and runs the ticks after it again.
void Predictor::restore(Tick tick) {
    begin_jumps();
    {
        const ecs::World::DelayHooks delay(world_);
        for (std::size_t i = 0; i < members_.size(); ++i) {
            Member& member = members_[i];
            for (const PredictedValues::Component& component : values_.components())
                if (world_.is_alive(member.entity))
                    receiver_.show(member.entity, images_[i], component.index);
        }
    }
    for (Member& member : members_) {
        if (!world_.is_alive(member.entity)) continue;
        if (member.is_active) continue;
        hold(member.entity);
        world_.add<Predicted>(member.entity);
        member.is_active = true;
    }
    const std::uint64_t nan_fields = stats_.nan_fields;
    set_predicted(pending_, false);
    for (Tick next = tick + 1; !is_newer(next, *last_); ++next) {
        stats_.resimulated += 1;
        run(next, false);
    }
    set_predicted(pending_, true);
    for (Member& member : members_) {
        if (tick == *last_) smoothing_.take_tick(member.entity, member.shown);
        smoothing_.end_jump(member.shown, fraction_);
        if (member.has_teleported && world_.is_alive(member.entity)) {
            smoothing_.forget(member.shown);
            smoothing_.take_tick(member.entity, member.shown);
        }
    }
    // A restore at once would give a NaN again: one restore per round trip is enough.
    if (stats_.nan_fields != nan_fields) nan_until_ = *last_;
}

void Predictor::begin_jumps() {
    for (Member& member : members_) {
        const bool was_drawn = interpolator_ && !receiver_.is_new(member.net_id);
        if (member.is_active) {
            smoothing_.begin_jump(member.shown, fraction_);
        } else if (was_drawn && world_.is_alive(member.entity)) {
            smoothing_.begin(member.entity, member.shown, [&](const void* type, void* value) {
                interpolator_->mix(member.entity, type, value);
            });
        }
    }
}

bool Predictor::show(ecs::Entity entity, const void* type, void* value) const {
    const std::size_t place = find(entity);
    if (place == members_.size() || !members_[place].is_active) return false;
    smoothing_.show(members_[place].shown, fraction_, type, value);
    return true;
}

void Predictor::run(Tick tick, bool is_new) {
    if (is_new) {
        last_ = tick;
        stats_.ticks += 1;
    }
    if (!is_predicting_) return;
    std::span<const std::uint32_t> input = log_->at(tick);
    if (input.empty()) input = neutral_;
    for (const Member& member : members_)
        if (member.is_active && world_.is_alive(member.entity) && world_.has(member.entity, component_))
            codec_->write(world_, member.entity, component_, *type_, input);
    const float seconds = std::chrono::duration<float>(tick_).count();
    const Step::Context context{queries_, receiver_, seed_, true};
    const auto step = [&](bool is_first) {
        ecs::impl::call_guarded(world_, [&] { on_step_(Step(tick, seconds, is_first, context)); });
    };
    if (is_new && check_ && check_->is_due(tick)) {
        check_->run(tick, step);
    } else {
        step(is_new);
    }
    for (Member& member : members_) {
        if (!member.is_active || !world_.is_alive(member.entity)) continue;
        stats_.nan_fields += values_.capture(member.entity, row(member, tick));
        smoothing_.take_tick(member.entity, member.shown);
    }
}

}  // namespace shoal::replication::impl
