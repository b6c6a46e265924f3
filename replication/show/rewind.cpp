#include "rewind.h"

#include <algorithm>
#include <cmath>

namespace shoal::replication {
namespace {

constexpr double kMostSpeed = 1.1;   // of a client's render time; correct clients stay below 1.09
constexpr double kSlackTicks = 2.0;  // frames and ticks of a client do not begin at the same time

}  // namespace

Rewind::Rewind(const ecs::World& world, const Schema& schema, const Sender& sender, std::uint32_t tick_us,
               Tick max_ticks)
    : world_(world), schema_(schema), sender_(sender), mixer_(schema), max_ticks_(max_ticks) {
    mixer_.set_tick_us(tick_us);
}

void Rewind::add_player(PlayerId player, Sender::Peer peer) {
    players_[player] = {};
    players_[player].peer = peer;
}

void Rewind::remove_player(PlayerId player) {
    players_.erase(player);
}

const Rewind::Player* Rewind::find(PlayerId player) const {
    const auto found = players_.find(player);
    return found == players_.end() ? nullptr : &found->second;
}

Past Rewind::seen_by(PlayerId player) const {
    return {*this, find(player)};
}

RewindStats Rewind::stats(PlayerId player) const {
    const Player* const found = find(player);
    return found ? found->stats : RewindStats{};
}

void Rewind::set_time(PlayerId id, Tick tick, std::optional<std::uint32_t> stated) {
    const auto found = players_.find(id);
    if (found == players_.end()) return;
    Player& player = found->second;
    player.time.reset();
    const std::optional<Tick> newest = sender_.newest_delivered(player.peer);
    if (!stated || !newest) return;
    double lag = static_cast<double>(*stated) / kPerTick;
    const double claimed = lag;
    if (player.tick) {
        player.least_lag -= (kMostSpeed - 1) * static_cast<double>(tick - *player.tick);
        lag = std::max(lag, player.least_lag);
    }
    lag = std::max(lag, static_cast<double>(static_cast<std::int32_t>(tick - *newest)));
    lag = std::min(lag, static_cast<double>(max_ticks_));
    player.stats.breaches += lag != claimed;
    player.least_lag = std::max(player.least_lag, lag - kSlackTicks);
    player.tick = tick;
    const double whole = std::ceil(lag);
    player.time = {tick - static_cast<Tick>(static_cast<std::int64_t>(whole)),
                   static_cast<float>(whole - lag)};
}

/// Returns the entity as of a tick of which the player has a record.
std::optional<Version> Rewind::version(ecs::Entity entity, std::optional<Tick> tick) const {
    if (!tick) return std::nullopt;
    std::optional<Version> version = sender_.shadow().at(entity, *tick);
    if (version) version->tick = *tick;
    return version;
}

bool Rewind::see(const Player* player, ecs::Entity entity, const void* type, bool is_there,
                 void* value) const {
    if (!player) return false;
    // The player's client shows these entities ahead of the server.
    if (sender_.owner(entity) == player->peer || sender_.is_predictor(player->peer, entity)) return is_there;
    return read(*player, entity, schema_.find(type), value);
}

/// Returns whether a client with this view shows an entity of this shape as of its render time, if it does
/// not predict the entity. Shape::is_delayed does not say this: the tag Mine in the shape may be that of
/// another player.
bool Rewind::is_displayed(const Shape& shape, const View& view) const {
    return std::any_of(shape.components.begin(), shape.components.end(), [&](ComponentIndex component) {
        return schema_.components()[component].display.kind != Display::Kind::step &&
               view.shows(schema_, component);
    });
}

bool Rewind::read(const Player& player, ecs::Entity entity, std::size_t index, void* value) const {
    const std::optional<std::uint32_t> slot = sender_.slot_of(player.peer, entity);
    if (!slot) return false;
    const View view = sender_.view(player.peer).shown(*slot);
    const Deliveries& had = sender_.view(player.peer).deliveries(*slot);
    const std::optional<Version> newest = had.empty() ? std::nullopt : version(entity, had.newest());
    if (!newest) return false;
    const bool is_rewound = player.time && is_displayed(*newest->image.shape, view);
    const std::optional<Version> shown = is_rewound ? version(entity, had.at(player.time->tick)) : newest;
    if (!shown) return false;
    ImageCursor cursor(schema_, shown->image);
    const auto component = static_cast<ComponentIndex>(index);
    if (!cursor.seek(component) || !view.shows(schema_, component)) return false;
    EntityMap& map = const_cast<Rewind&>(*this);
    cursor.layout().restore(cursor.lanes(), cursor.parts(), map, value);
    if (!is_rewound || schema_.components()[component].display.kind == Display::Kind::step) return true;
    const Mixer::Around around{*shown,
                               version(entity, had.after(player.time->tick)),
                               version(entity, had.at(shown->tick - 1)),
                               had.mean_gap(),
                               *sender_.newest_delivered(player.peer),
                               false};
    Mixer::Mix mix;
    if (mixer_.find(around, *player.time, mix)) mixer_.mix(component, mix, map, value);
    return true;
}

}  // namespace shoal::replication
