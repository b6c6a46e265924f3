#include "owned_reader.h"

#include <algorithm>

#include "../codec/codec.h"
#include "control_codec.h"

namespace shoal::replication::all {
namespace {

constexpr double kRefusalsPerSecond = 20;
constexpr double kMaxRefusals = 3 * kRefusalsPerSecond;
constexpr net::Duration kMaxAhead = std::chrono::seconds(2);

}  // namespace

OwnedReader::OwnedReader(ecs::World& world, const Schema& schema, Sender& sender, net::Duration tick,
                         Send send)
    : world_(world),
      schema_(schema),
      sender_(sender),
      send_(std::move(send)),
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

void OwnedReader::add_player(PlayerId id, Sender::Peer peer) {
    players_[id].peer = peer;
    players_[id].refusals_left = kMaxRefusals;
}

void OwnedReader::remove_player(PlayerId player) {
    players_.erase(player);
}

void OwnedReader::replace_client(PlayerId id) {
    Player* const player = find(id);
    if (!player) return;
    player->stats.ignored += player->waiting.size();
    player->waiting.clear();
    player->waiting_words = 0;
    player->arrived = 0;
    std::vector<ecs::Entity> owned;
    sender_.for_each_owned(player->peer, [&](ecs::Entity entity) { owned.push_back(entity); });
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

const OwnedReader::Player* OwnedReader::find(PlayerId player) const {
    const auto found = players_.find(player);
    return found == players_.end() ? nullptr : &found->second;
}

bool OwnedReader::is_flood(PlayerId player) const {
    const Player* const found = find(player);
    return found && found->refusals_left < 1;
}

OwnedReader::Stats OwnedReader::stats(PlayerId player) const {
    const Player* const found = find(player);
    return found ? found->stats : Stats{};
}

bool OwnedReader::has_run(PlayerId id, std::uint32_t version) const {
    const Player* const player = find(id);
    if (!player) return true;
    const std::uint32_t done = player->waiting.empty() ? player->arrived : player->waiting[0].version - 1;
    return static_cast<std::int32_t>(done - version) >= 0;
}

// The format is specified in ../WIRE.md.

bool OwnedReader::read_section(PlayerId id, std::uint64_t, BitReader& in) {
    staged_.clear();
    const Player* const player = find(id);
    const std::uint32_t more = in.read_golomb(kOwnedCountOrder);
    if (!player || more >= kMaxOwnedValues) return false;
    OwnedValue expected;
    expected.version = player->arrived;
    expected.before.tick = next_tick_;
    staged_.resize(more + std::size_t{1});
    for (std::size_t i = 0; i <= more; ++i)
        if (!read_owned(schema_, i == 0 ? nullptr : &staged_[i - 1], expected, in, staged_[i])) return false;
    return true;
}

void OwnedReader::commit_section(PlayerId id, net::Time) {
    Player* const player = find(id);  // an earlier section may end the player
    for (OwnedValue& value : staged_) {
        if (!player) return;
        if (static_cast<std::int32_t>(value.version - player->arrived) <= 0) {
            player->stats.outdated += 1;
            continue;
        }
        player->arrived = value.version;
        player->waiting_words += value.words.size();
        player->waiting.push_back(std::move(value));
    }
}

void OwnedReader::run(PlayerId id, Tick next_tick, net::Time now) {
    next_tick_ = next_tick;
    for (Player* player = find(id); player; player = find(id)) {  // a check may end the player
        const double passed_s = std::chrono::duration<double>(now - player->earned_until).count();
        player->earned_until = now;
        player->refusals_left =
            std::min(kMaxRefusals, player->refusals_left + std::max(0.0, passed_s) * kRefusalsPerSecond);
        if (player->waiting.empty()) player->held_since.reset();
        if (player->waiting.empty() || must_wait(id, *player, next_tick, now)) return;
        const OwnedValue value = std::move(player->waiting.front());
        player->waiting.pop_front();
        player->waiting_words -= value.words.size();
        if (is_flood(id)) {
            player->stats.ignored += 1;
        } else {
            judge(id, *player, value);
        }
    }
}

/// Returns whether the oldest value must wait.
bool OwnedReader::must_wait(PlayerId id, Player& player, Tick next_tick, net::Time now) {
    if (player.waiting.size() > kMaxWaiting || player.waiting_words > kMaxWaitingWords) return false;
    const Before& before = player.waiting.front().before;
    const auto ahead = static_cast<std::int32_t>(before.tick - next_tick);
    if (ahead > 0 && ahead <= most_ahead_) return true;
    if (!has_handled_ || has_handled_(id, before)) {
        player.held_since.reset();
        return false;
    }
    if (!player.held_since) player.held_since = now;
    return now - *player.held_since < kLongestWait;
}

void OwnedReader::judge(PlayerId id, Player& player, const OwnedValue& sent) {
    const ecs::ComponentId component_id = ids_[sent.component];
    const ecs::Entity entity = sender_.entity_seen_by(player.peer, sent.net_id);
    if (!entity || sender_.owner(entity) != player.peer || !world_.has(entity, component_id) ||
        state_of(entity).epoch != sent.epoch)
        return void(player.stats.ignored += 1);
    from_ = player.peer;
    const SchemaComponent& component = schema_.components()[sent.component];
    codec_.quantise(component, std::as_const(world_).try_get(entity, component_id), words_);
    if (words_ == sent.words) return;
    if (checks_[sent.component]) {
        void* const value = values_[sent.component]->get();
        codec_.restore(component, sent.words, value);
        std::string why = "the server could not check it";  // if the check throws
        ecs::all::call_guarded(world_, [&] { why = checks_[sent.component](id, entity, value); });
        Player* const still = find(id);  // the check may disconnect the player
        if (!still) return;
        if (!why.empty()) return refuse(id, *still, sent, why);
        if (!world_.has(entity, component_id)) return;  // the check removed the component
    }
    const bool is_taken =
        world_.patch(entity, component_id, [&](void* at) { codec_.restore(component, sent.words, at); });
    if (Player* const still = find(id); still && is_taken) still->stats.taken += 1;  // a hook may end it
}

void OwnedReader::refuse(PlayerId id, Player& player, const OwnedValue& sent, std::string_view why) {
    player.stats.refused += 1;
    player.refusals_left -= 1;
    const ecs::Entity entity = sender_.entity(sent.net_id);
    if (!world_.has(entity, ids_[sent.component])) return;  // the check removed the component
    if (const OwnerState state = state_of(entity); state.epoch == sent.epoch)
        set_state(entity, {state.epoch, sent.version});
    send_(id, write_control(OwnedRefusal{sent.version, sent.epoch, sent.net_id, sent.component,
                                         std::string(why.substr(0, kMaxRefusalBytes))}));
}

}  // namespace shoal::replication::all
