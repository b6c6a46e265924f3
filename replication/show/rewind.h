#pragma once
// Lag compensation on the server: what a player saw when it made its input.

#include <cstdint>
#include <optional>

#include "../play/player_id.h"
#include "../send/sender.h"
#include "mixer.h"
#include "sight.h"

namespace shoal::replication::impl {

class Past;
struct Player;
class Players;

struct RewindStats {
    // Inputs and actions for which a player stated a time beyond the limits, or none after it stated one, and
    // got the nearest allowed time. With a correct client this happens only if packets are lost and the
    // client shows a time after its newest state.
    std::uint64_t breaches = 0;
};

/// What a server knows of a player's render time. A new connection begins with a new one.
struct SeenTime {
    std::optional<RenderTime> time;
    std::optional<Tick> tick;  // of the last set_time() with a lag
    double least_lag = 0;      // in ticks, at `tick`; a smaller lag would mean that the time ran too fast
    bool states = false;       // its inputs state what they saw
    RewindStats stats;
};

/// Knows the render time of each player. Not thread-safe.
class Rewind final : public Sight, private EntityMap {
public:
    /// The arguments must outlive this object. `tick_us`: length of a tick in microseconds, >= 1.
    /// `max_ticks`: the greatest lag, in ticks.
    Rewind(const ecs::World& world, const Schema& schema, const Sender& sender, Players& players,
           std::uint32_t tick_us, Tick max_ticks);

    /// Sets what the client showed when it made the player's input for `tick`, the current tick: the time
    /// `lag` before `tick`, see RenderTime::lag(). Without a lag the client showed its newest versions. Call
    /// it at most once per tick.
    void set_time(Player& player, Tick tick, std::optional<std::uint32_t> lag);
    /// The same for an action, until the next set_time().
    void look(PlayerId player, Tick made_for, std::optional<std::uint32_t> lag, Tick now) override;

    /// See Server::seen_by().
    Past seen_by(PlayerId player) const;
    bool see(PlayerId player, ecs::Entity entity, const void* type, bool is_there,
             void* value) const override;

private:
    friend class Past;

    double claimed(const Player& player, Tick now, std::optional<std::uint32_t> stated) const;
    double slowed(const SeenTime& seen, Tick now) const;
    double least_lag(const Player& player, Tick now) const;
    void set(Player& player, Tick now, double lag, bool counts);
    /// Returns false if the player did not have the component. `index`: kMaxComponents if it is not declared.
    bool read(const Player& player, ecs::Entity entity, std::size_t index, void* value) const;
    std::optional<Version> version(ecs::Entity entity, std::optional<Tick> tick, const View& view) const;
    bool is_displayed(const Shape& shape, const View& view) const;

    std::uint32_t to_net(ecs::Entity entity) override { return sender_.net_id(entity); }
    ecs::Entity to_entity(std::uint32_t net_id) override { return sender_.entity(net_id); }

    const ecs::World& world_;
    const Schema& schema_;
    const Sender& sender_;
    Players& players_;
    Mixer mixer_;
    double max_ticks_;
    double slack_;  // in ticks
};

/// What one player saw, at the time that its client showed. Valid until the next tick.
class Past {
public:
    Past(const Rewind& rewind, PlayerId player) : rewind_(rewind), player_(player) {}

    /// Returns the component as the player's client showed it, mixed if it has a Display. Returns nothing if
    /// the client did not have the entity or the component at that time, or if the component does not
    /// replicate to this client. The client shows entities that the player owns or predicts ahead of the
    /// server: for these returns the component as it is now.
    template <class T>
    std::optional<T> get(ecs::Entity entity) const {
        const T* const now = rewind_.world_.template try_get<T>(entity);
        std::optional<T> value = now ? std::optional<T>(*now) : std::optional<T>(std::in_place);
        const bool is_seen = rewind_.see(player_, entity, &type_address<T>, now != nullptr, &*value);
        return is_seen ? value : std::nullopt;
    }

private:
    const Rewind& rewind_;
    PlayerId player_;
};

}  // namespace shoal::replication::impl
