#include "presentation.h"

namespace shoal::replication::impl {

Presentation::Presentation(ecs::World& world, const Schema& schema, Receiver& receiver)
    : world_(world),
      schema_(schema),
      receiver_(receiver),
      interpolator_(schema, receiver.replicas()),
      queries_(world) {
    receiver.replicas().on_jump([this](std::uint32_t index) { interpolator_.keep_shown(index); });
}

void Presentation::reset() {
    clock_.reset();
    interpolator_.reset();
    newest_number_ = 0;
    received_then_ = 0;
}

void Presentation::start(std::uint32_t tick_us) {
    if (!interpolator_.is_needed() || !receiver_.options().interpolate || clock_) return;
    clock_.emplace();
    interpolator_.set_tick_us(tick_us);
    receiver_.replicas().set_long_gap(static_cast<Tick>(RenderClock::kMaxDelay.count() / tick_us));
    if (receiver_.newest_tick())
        clock_->receive(*receiver_.clock(), *receiver_.newest_tick(), arrival_, false);
}

void Presentation::receive(std::uint64_t number, std::uint64_t packets_received, net::Time now) {
    const bool is_newest = number > newest_number_;
    const bool is_gapless = is_newest && packets_received - received_then_ >= number - newest_number_;
    const std::optional<Tick> tick = receiver_.decoder().completion().tick_of(number);
    if (clock_ && tick) clock_->receive(*receiver_.clock(), *tick, now, is_gapless);
    if (!is_newest) return;
    newest_number_ = number;
    received_then_ = packets_received;
    arrival_ = now;
}

void Presentation::apply(net::Time now) {
    if (!interpolator_.is_needed() || !receiver_.options().interpolate) return receiver_.apply();
    if (clock_) clock_->update(*receiver_.clock(), now);
    if (!time()) return;  // the length of a tick, or the first state payload, has not arrived yet
    interpolator_.set_time(*time(), *receiver_.newest_tick());
    receiver_.apply(time()->tick);
}

}  // namespace shoal::replication::impl
