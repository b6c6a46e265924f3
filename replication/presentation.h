#pragma once
// What a client shows at which time: its world at the render time, and values between two versions.

#include <cstdint>
#include <optional>
#include <utility>

#include "predict/predictor.h"
#include "receive/receiver.h"
#include "show/interpolator.h"
#include "show/render_clock.h"
#include "show/sight.h"

namespace shoal::replication::impl {

/// One per client; not thread-safe. If no component has a Display, or ReceiverOptions::interpolate is false,
/// apply() writes the newest versions to the world, and sample() returns the values in the world.
class Presentation final : public Sight {
public:
    /// The arguments must outlive the presentation.
    Presentation(ecs::World& world, const Schema& schema, Receiver& receiver);

    /// Sets the predictor, whose values are shown for entities that it predicts; may be null. It must outlive
    /// the presentation.
    void set_predictor(const Predictor* predictor) { predictor_ = predictor; }
    /// Prepares for a new connection.
    void reset();
    /// Prepares for a new connection, but keeps the replicas and the render time.
    void reconnect() { newest_number_ = received_then_ = 0; }
    /// Call it when the server has sent the length of its ticks, in microseconds, after
    /// Receiver::start_clock().
    void start(std::uint32_t tick_us);
    /// Call it when a state payload was accepted, after Receiver::hear(). `number`: its packet number.
    /// `packets_received`: number of packets that the connection has received, including this one.
    void receive(std::uint64_t number, std::uint64_t packets_received, net::Time now);
    /// Writes to the world the versions that are to be shown now.
    void apply(net::Time now);

    /// The render time. Empty if apply() shows the newest versions, or before the first state.
    std::optional<RenderTime> time() const { return clock_ ? clock_->time() : std::nullopt; }
    const std::optional<RenderClock>& clock() const { return clock_; }
    Interpolator& interpolator() { return interpolator_; }

    template <class T>
    std::optional<T> sample(ecs::Entity entity) const;
    template <class T, class Fn>
    void each_shown(Fn&& fn);
    template <class T>
    std::optional<T> authoritative(ecs::Entity entity) const;

    /// As sample(). Only for the player of this client.
    bool see(PlayerId, ecs::Entity entity, const void* type, bool is_there, void* value) const override {
        if (is_there) mix(entity, type, value);
        return is_there;
    }

private:
    void mix(ecs::Entity entity, const void* type, void* value) const {
        if (!predictor_ || !predictor_->show(entity, type, value)) interpolator_.mix(entity, type, value);
    }

    ecs::World& world_;
    const Schema& schema_;
    Receiver& receiver_;
    Interpolator interpolator_;
    const Predictor* predictor_ = nullptr;
    std::optional<RenderClock> clock_;
    // For the newest payload.
    std::uint64_t newest_number_ = 0, received_then_ = 0;
    net::Time arrival_{0};
    StepQueries queries_;  // of each_shown()
};

template <class T>
std::optional<T> Presentation::sample(ecs::Entity entity) const {
    const T* const in_world = world_.try_get<T>(entity);
    if (!in_world) return std::nullopt;
    std::optional<T> shown(*in_world);
    mix(entity, &type_address<T>, &*shown);
    return shown;
}

template <class T, class Fn>
void Presentation::each_shown(Fn&& fn) {
    queries_.get<const T>().each([&](ecs::Entity entity, const T& in_world) {
        T shown = in_world;
        mix(entity, &type_address<T>, &shown);
        fn(entity, std::as_const(shown));
    });
}

template <class T>
std::optional<T> Presentation::authoritative(ecs::Entity entity) const {
    Replicas& replicas = receiver_.replicas();
    const std::uint32_t index = replicas.ids().find(entity);
    if (index == Replicas::kNone || !world_.is_alive(entity)) return std::nullopt;
    const Image image = replicas[index].versions.newest()->image;
    const std::size_t component = schema_.find<T>();
    ImageCursor value(schema_, image);
    if (component == kMaxComponents || !value.seek(static_cast<ComponentIndex>(component)))
        return std::nullopt;
    std::optional<T> newest(std::in_place);
    value.layout().restore(value.lanes(), value.parts(), replicas, &*newest);
    return newest;
}

}  // namespace shoal::replication::impl
