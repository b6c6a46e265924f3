#include "server_inputs.h"

#include <algorithm>
#include <cmath>

#include "../play/players.h"

namespace shoal::replication::impl {

ServerInputs::ServerInputs(ecs::World& world, const Schema& schema, Sender& sender, Players& players,
                           net::Duration tick)
    : world_(world),
      sender_(sender),
      players_(players),
      type_(schema.structs(StructKind::input)[0]),
      seen_by_(sender),
      codec_(seen_by_),
      value_(type_),
      component_(schema.components()[schema.input_component()].bind(world)),
      with_input_(world, std::array{ecs::impl::QueryCore::Term{component_, ecs::impl::QueryCore::Use::with}}),
      tick_(tick) {
    codec_.quantise(type_, value_.get(), neutral_);
}

bool ServerInputs::read_section(Player&, std::uint64_t packet, BitReader& in) {
    packet_ = packet;
    return section_.read(type_, neutral_, in);
}

void ServerInputs::commit_section(Player& player, net::Time now) {
    if (!applied_) return;
    std::unique_ptr<InputBuffer>& buffer = player.inputs;
    const auto patience = std::max(static_cast<Tick>(kPatience / tick_), Tick{1});
    if (!buffer) buffer = std::make_unique<InputBuffer>(type_, neutral_, patience, tick_);
    const Tick newest = section_.newest_near(next_);
    const std::uint64_t late = buffer->stats().late;
    for (std::uint32_t i = 0; i < section_.count; ++i)
        buffer->insert(newest - (section_.count - 1 - i), section_.words[i], section_.lag(i), next_);
    // If the server runs its ticks late, packets wait in its socket: their margins say nothing about the
    // path.
    const double passed = std::chrono::duration<double>(now - *applied_) / tick_;
    if (passed > 2) return;
    const double margin = static_cast<std::int32_t>(newest - next_) + std::max(1 - passed, 0.0);
    sender_.report_margin(
        player.peer, {static_cast<std::uint8_t>(packet_), static_cast<std::int32_t>(std::floor(margin * 8)),
                      buffer->stats().late != late});
}

void ServerInputs::apply(Tick tick, net::Time now) {
    applied_ = now;
    next_ = tick + 1;
    players_.for_each([&](Player& player) {
        if (player.inputs) player.input = player.inputs->take(tick);
    });
    entities_.clear();
    for (std::size_t i = 0, count = with_input_.refresh(); i < count; ++i) {
        const std::span<const ecs::Entity> rows = with_input_.match(i).archetype->entities();
        entities_.insert(entities_.end(), rows.begin(), rows.end());
    }
    former_.swap(driven_);
    driven_.clear();
    for (const ecs::Entity entity : entities_) {
        const Player* const player = player_of(entity);
        if (!player || !world_.is_alive(entity)) continue;
        driven_.push_back(entity);
        if (!player->inputs || !player->inputs->age()) continue;
        seen_by_.peer = *sender_.owner(entity);
        codec_.write(world_, entity, component_, type_, player->input);
    }
    for (const ecs::Entity entity : former_)
        if (world_.is_alive(entity) && world_.has(entity, component_) && !player_of(entity))
            codec_.write(world_, entity, component_, type_, neutral_);
}

/// Returns the player that owns an entity, or null.
const Player* ServerInputs::player_of(ecs::Entity entity) const {
    const std::optional<Sender::Peer> owner = sender_.owner(entity);
    return owner ? players_.find_peer(*owner) : nullptr;
}

}  // namespace shoal::replication::impl
