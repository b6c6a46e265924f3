#include "owned_reader.h"

#include <algorithm>

#include "../codec/codec.h"
#include "control_codec.h"
#include "players.h"

namespace shoal::replication::impl {
namespace {

constexpr net::Duration kMaxAhead = std::chrono::seconds(2);

}  // namespace

OwnedReader::OwnedReader(ecs::World& world, const Schema& schema, Sender& sender, PlayerHost& host,
                         net::Duration tick)
    : world_(world),
      schema_(schema),
      sender_(sender),
      host_(host),
      codec_(*this),
      checks_(schema.components().size()),
      most_ahead_(schema.structs(StructKind::input).empty() ? 0
                                                            : static_cast<std::int32_t>(kMaxAhead / tick)) {
    for (const SchemaComponent& component : schema.components()) {
        const bool is_owned = component.role == Role::owner;
        ids_.push_back(is_owned ? component.bind(world) : ecs::ComponentId{});
        values_.push_back(is_owned ? std::make_unique<StructValue>(component) : nullptr);
    }
}

void OwnedReader::replace_client(Player& player) {
    OwnedValues& values = player.owned;
    values.stats.ignored += values.waiting.size();
    values.waiting.clear();
    values.waiting_words = 0;
    values.arrived = 0;
    std::vector<ecs::Entity> owned;
    sender_.for_each_owned(player.peer, [&](ecs::Entity entity) { owned.push_back(entity); });
    for (const ecs::Entity entity : owned) change_owner(entity, true);
}

void OwnedReader::change_owner(ecs::Entity entity, bool had_owner) {
    const auto has = [&](ecs::ComponentId id) { return id != ecs::ComponentId{} && world_.has(entity, id); };
    if (std::ranges::none_of(ids_, has)) return;
    const auto epoch = static_cast<std::uint16_t>(state_of(entity).epoch + 1);
    had_owner ? set_state(entity, {epoch, 0}) : repeats_.push_back({entity, kRepeats});
}

void OwnedReader::set_state(ecs::Entity entity, const OwnerState& state) {
    world_.set(entity, state);
    repeats_.push_back({entity, kRepeats});
}

void OwnedReader::repeat_records() {
    std::erase_if(repeats_, [&](Repeat& repeat) {
        const auto owner = world_.is_alive(repeat.entity) ? sender_.owner(repeat.entity) : std::nullopt;
        if (owner) sender_.send_now(*owner, repeat.entity);
        return !owner || --repeat.ticks_left == 0;
    });
}

OwnerState OwnedReader::state_of(ecs::Entity entity) const {
    const OwnerState* const state = std::as_const(world_).try_get<OwnerState>(entity);
    return state ? *state : OwnerState{};
}

// The format is specified in ../WIRE.md.

bool OwnedReader::read_section(Player& player, std::uint64_t, BitReader& in) {
    staged_.clear();
    const std::uint32_t more = in.read_golomb(kOwnedCountOrder);
    if (more >= kMaxOwnedValues) return false;
    OwnedValue expected;
    expected.version = player.owned.arrived;
    expected.before.tick = next_tick_;
    staged_.resize(more + std::size_t{1});
    for (std::size_t i = 0; i <= more; ++i)
        if (!read_owned(schema_, i == 0 ? nullptr : &staged_[i - 1], expected, in, staged_[i])) return false;
    return true;
}

void OwnedReader::commit_section(Player& player, net::Time) {
    OwnedValues& values = player.owned;
    for (OwnedValue& value : staged_) {
        if (!player.id) return;
        if (static_cast<std::int32_t>(value.version - values.arrived) <= 0) {
            values.stats.outdated += 1;
            continue;
        }
        values.arrived = value.version;
        values.waiting_words += value.words.size();
        values.waiting.push_back(std::move(value));
    }
}

void OwnedReader::run(Player& player, Tick next_tick, net::Time now) {
    next_tick_ = next_tick;
    OwnedValues& values = player.owned;
    for (const PlayerId id = player.id; id && player.id == id;) {  // a check may end the player
        const double passed_s = std::chrono::duration<double>(now - values.earned_until).count();
        values.earned_until = now;
        values.refusals_left =
            std::min(OwnedValues::kMaxRefusals,
                     values.refusals_left + std::max(0.0, passed_s) * OwnedValues::kRefusalsPerSecond);
        if (values.waiting.empty()) values.held_since.reset();
        if (values.waiting.empty() || must_wait(player, next_tick, now)) return;
        const OwnedValue value = std::move(values.waiting.front());
        values.waiting.pop_front();
        values.waiting_words -= value.words.size();
        if (values.is_flood()) {
            values.stats.ignored += 1;
        } else {
            judge(player, value);
        }
    }
}

/// Returns whether the oldest value must wait.
bool OwnedReader::must_wait(Player& player, Tick next_tick, net::Time now) const {
    OwnedValues& values = player.owned;
    if (values.waiting.size() > kMaxWaiting || values.waiting_words > kMaxWaitingWords) return false;
    const Before& before = values.waiting.front().before;
    const auto ahead = static_cast<std::int32_t>(before.tick - next_tick);
    if (ahead > 0 && ahead <= most_ahead_) return true;
    if (player.has_done(before)) {
        values.held_since.reset();
        return false;
    }
    if (!values.held_since) values.held_since = now;
    return now - *values.held_since < kLongestWait;
}

void OwnedReader::judge(Player& player, const OwnedValue& sent) {
    const PlayerId id = player.id;
    const ecs::ComponentId component_id = ids_[sent.component];
    const ecs::Entity entity = sender_.entity_seen_by(player.peer, sent.net_id);
    if (!entity || sender_.owner(entity) != player.peer || !world_.has(entity, component_id) ||
        state_of(entity).epoch != sent.epoch)
        return void(player.owned.stats.ignored += 1);
    from_ = player.peer;
    const SchemaComponent& component = schema_.components()[sent.component];
    codec_.quantise(component, std::as_const(world_).try_get(entity, component_id), words_);
    if (words_ == sent.words) return;
    if (checks_[sent.component]) {
        void* const value = values_[sent.component]->get();
        codec_.restore(component, sent.words, value);
        std::string why = "the server could not check it";  // if the check throws
        ecs::impl::call_guarded(world_, [&] { why = checks_[sent.component](id, entity, value); });
        if (player.id != id) return;  // the check disconnected the player
        if (!why.empty()) return refuse(player, sent, why);
        if (!world_.has(entity, component_id)) return;  // the check removed the component
    }
    const bool is_taken =
        world_.patch(entity, component_id, [&](void* at) { codec_.restore(component, sent.words, at); });
    player.owned.stats.taken += player.id == id && is_taken;  // a hook may end it
}

void OwnedReader::refuse(Player& player, const OwnedValue& sent, std::string_view why) {
    player.owned.stats.refused += 1;
    player.owned.refusals_left -= 1;
    const ecs::Entity entity = sender_.entity(sent.net_id);
    if (!world_.has(entity, ids_[sent.component])) return;  // the check removed the component
    if (const OwnerState state = state_of(entity); state.epoch == sent.epoch)
        set_state(entity, {state.epoch, sent.version});
    host_.send_control(player,
                       write_control(OwnedRefusal{sent.version, sent.epoch, sent.net_id, sent.component,
                                                  std::string(why.substr(0, kMaxRefusalBytes))}));
}

}  // namespace shoal::replication::impl
