#include "rewind.h"

#include <algorithm>
#include <cmath>

#include "../play/players.h"

namespace shoal::replication::impl {
namespace {

constexpr double kMaxSpeed = 1.1;  // of a client's render time; correct clients stay below 1.09
// Frames and ticks of a client do not begin at the same time, and all inputs of a frame saw the same. Actions
// may differ from the inputs by another tick.
constexpr double kSlackTicks = 2.0, kLongestFrameUs = 1e6 / 15, kActionSlackTicks = 1.0;

double ticks(Tick difference) {
    return static_cast<std::int32_t>(difference);
}

RenderTime before(Tick tick, double lag) {
    const double whole = std::ceil(lag);
    return {tick - static_cast<Tick>(static_cast<std::int64_t>(whole)), static_cast<float>(whole - lag)};
}

}  // namespace

Rewind::Rewind(const ecs::World& world, const Schema& schema, const Sender& sender, Players& players,
               std::uint32_t tick_us, Tick max_ticks)
    : world_(world),
      schema_(schema),
      sender_(sender),
      players_(players),
      mixer_(schema),
      max_ticks_(max_ticks),
      slack_(kSlackTicks + kLongestFrameUs / tick_us) {
    mixer_.set_tick_us(tick_us);
}

Past Rewind::seen_by(PlayerId player) const {
    return {*this, player};
}

void Rewind::set_time(Player& player, Tick tick, std::optional<std::uint32_t> stated) {
    SeenTime& seen = player.seen;
    seen.time.reset();
    seen.states = seen.states || stated;
    if (stated || seen.tick) set(player, tick, claimed(player, tick, stated), seen.states);
}

void Rewind::look(PlayerId id, Tick made_for, std::optional<std::uint32_t> stated, Tick now) {
    Player* const player = players_.find(id);
    if (!player || (!stated && !player->seen.tick)) return;
    SeenTime& seen = player->seen;
    const double lag = claimed(*player, now, stated) + (stated ? ticks(now - made_for) : 0);
    if (!seen.states) return set(*player, now, lag, stated.has_value());
    // At most that of the inputs: else the next input would move the time too fast.
    const double most = std::min(max_ticks_, slowed(seen, now) + slack_ + kActionSlackTicks),
                 least = least_lag(*player, now);
    seen.stats.breaches += lag < least;
    seen.time = before(now, std::min(std::max(lag, least), most));
}

/// The lag that a player claims. Without one: that of its newest versions.
double Rewind::claimed(const Player& player, Tick now, std::optional<std::uint32_t> stated) const {
    if (stated) return static_cast<double>(*stated) / RenderTime::kLagsPerTick;
    const std::optional<Tick> newest = sender_.newest_delivered(player.peer);
    return newest ? ticks(now - *newest) : 0;
}

/// The least lag with which the time does not run too fast.
double Rewind::slowed(const SeenTime& seen, Tick now) const {
    if (!seen.tick) return -max_ticks_;
    return seen.least_lag - (kMaxSpeed - 1) * ticks(now - *seen.tick);
}

double Rewind::least_lag(const Player& player, Tick now) const {
    return std::max(slowed(player.seen, now), claimed(player, now, {}));
}

void Rewind::set(Player& player, Tick now, double lag, bool counts) {
    if (!sender_.newest_delivered(player.peer)) return;
    SeenTime& seen = player.seen;
    const double allowed = std::min(std::max(lag, least_lag(player, now)), max_ticks_);
    seen.stats.breaches += counts && allowed != lag;
    seen.least_lag = std::max(slowed(seen, now), allowed - slack_);
    seen.tick = now;
    seen.time = before(now, allowed);
}

/// Returns the entity as of a tick of which a player with this view has a record.
std::optional<Version> Rewind::version(ecs::Entity entity, std::optional<Tick> tick, const View& view) const {
    if (!tick) return std::nullopt;
    const Shadow& shadow = sender_.shadow();
    std::optional<Version> version = shadow.at(shadow.index_of(entity), *tick, view.classes);
    if (version) version->tick = *tick;
    return version;
}

bool Rewind::see(PlayerId id, ecs::Entity entity, const void* type, bool is_there, void* value) const {
    const Player* const player = players_.find(id);
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
    const std::optional<Version> newest = had.empty() ? std::nullopt : version(entity, had.newest(), view);
    if (!newest) return false;
    const bool is_rewound = player.seen.time && is_displayed(*newest->image.shape, view);
    const std::optional<Version> shown =
        is_rewound ? version(entity, had.at(player.seen.time->tick), view) : newest;
    if (!shown) return false;
    ImageCursor cursor(schema_, shown->image);
    const auto component = static_cast<ComponentIndex>(index);
    if (!cursor.seek(component) || !view.shows(schema_, component)) return false;
    EntityMap& map = const_cast<Rewind&>(*this);
    cursor.layout().restore(cursor.lanes(), cursor.parts(), map, value);
    if (!is_rewound || schema_.components()[component].display.kind == Display::Kind::step) return true;
    const Mixer::Around around{*shown,
                               version(entity, had.after(player.seen.time->tick), view),
                               version(entity, had.at(shown->tick - 1), view),
                               had.mean_gap(),
                               *sender_.newest_delivered(player.peer),
                               false};
    Mixer::Mix mix;
    if (mixer_.find(around, *player.seen.time, mix)) mixer_.mix(component, mix, map, value);
    return true;
}

}  // namespace shoal::replication::impl
