#include "owned_writer.h"

#include <algorithm>

#include "../codec/codec.h"

namespace shoal::replication::impl {

OwnedWriter::OwnedWriter(ecs::World& world, const Schema& schema, Receiver& receiver)
    : world_(world),
      schema_(schema),
      receiver_(receiver),
      changes_(world),
      mine_(world),
      handlers_(schema.components().size()),
      has_input_(!schema.structs(StructKind::input).empty()) {
    for (std::size_t i = 0; i < schema.components().size(); ++i)
        if (schema.components()[i].role == Role::owner) components_.push_back(static_cast<ComponentIndex>(i));
    for (const ComponentIndex component : components_)
        changes_.watch(schema.components()[component].bind(world));
}

std::vector<OwnedWriter::Owned>::iterator OwnedWriter::place_of(ecs::Entity entity) {
    return std::lower_bound(owned_.begin(), owned_.end(), entity,
                            [](const Owned& owned, ecs::Entity other) { return owned.entity < other; });
}

void OwnedWriter::take(const Before& before) {
    if (components_.empty()) return;
    before_ = before;
    if (!has_input_) before_.tick = 0;
    for (const ecs::ChangeCollector::Change change : changes_.changes()) {
        const auto owned = place_of(change.entity);
        if (owned == owned_.end() || owned->entity != change.entity) continue;
        change.for_each([&](std::uint32_t watch) {
            for (Value& value : owned->values)
                if (value.component == components_[watch] && capture(change.entity, value))
                    add(*owned, value);
        });
    }
    changes_.clear();
}

std::uint32_t OwnedWriter::name_newest(const Before& before) {
    take(before);
    return named_ = newest_;
}

void OwnedWriter::update(const Before& before) {
    if (components_.empty()) return;
    take(before);
    std::erase_if(owned_, [&](Owned& owned) {
        if (is_shown(owned.entity) && world_.has<Mine>(owned.entity)) return false;
        release(owned);
        return true;
    });
    mine_.each([&](ecs::Entity entity) {
        const auto place = place_of(entity);
        if (place != owned_.end() && place->entity == entity) return;
        if (is_shown(entity)) owned_.insert(place, {entity, receiver_.net_id(entity), {}, {}, {}});
    });
    for (Owned& owned : owned_)
        if (is_shown(owned.entity) && receiver_.shown_tick(owned.entity) != owned.shown)
            follow_version(owned);
    take(before);
    is_due_ = true;
    tell_refused();
}

/// Returns whether the entity is a replica that the game has not destroyed.
bool OwnedWriter::is_shown(ecs::Entity entity) const {
    return world_.is_alive(entity) && receiver_.shown_tick(entity);
}

/// Adds and removes values as the server adds and removes components of the entity. Takes the server's values
/// if the OwnerState says so.
void OwnedWriter::follow_version(Owned& owned) {
    owned.shown = receiver_.shown_tick(owned.entity);
    const std::optional<Version> version = receiver_.at(owned.net_id, *owned.shown);
    if (!version) return;
    const OwnerState before = std::exchange(owned.state, owner_state(version->image));
    if (owned.state.epoch != before.epoch) release(owned);
    const bool is_refused = owned.state != before;
    ImageCursor image(schema_, version->image);
    std::size_t known = 0;
    for (const ComponentIndex component : components_) {
        const bool was_there = known < owned.values.size() && owned.values[known].component == component;
        const bool is_there = image.seek(component);
        const auto place = owned.values.begin() + static_cast<std::ptrdiff_t>(known);
        if (was_there && !is_there) {
            receiver_.release(owned.entity, component);
            owned.values.erase(place);
        } else if (is_there) {
            if (!was_there) owned.values.insert(place, Value{})->component = component;
            Value& value = owned.values[known];
            const bool stays = value.version != 0 && is_newer(value.version, owned.state.refused);
            if (!was_there || (is_refused && !stays)) restore(owned, value, image);
            known += 1;
        }
    }
}

/// Takes the server's value, and holds it from now on.
void OwnedWriter::restore(const Owned& owned, Value& value, const ImageCursor& image) {
    value.words.assign(image.lanes(), image.lanes() + image.layout().lanes().size());
    value.words.insert(value.words.end(), image.parts(), image.parts() + image.part_words());
    receiver_.release(owned.entity, value.component);
    receiver_.hold(owned.entity, value.component);
    // A reference to an entity that the client does not have is null in the world.
    if (image.layout().has_references()) capture(owned.entity, value);
    if (capture(owned.entity, value)) add(owned, value);  // hooks of the game may have written the component
}

/// Shows the server's values.
void OwnedWriter::release(Owned& owned) {
    for (const Value& value : std::exchange(owned.values, {}))
        receiver_.release(owned.entity, value.component);
}

/// Returns whether the value in the world is another one than `value`, which then gets it.
bool OwnedWriter::capture(ecs::Entity entity, Value& value) {
    if (!world_.is_alive(entity)) return false;  // a hook of the game destroyed it
    receiver_.capture(entity, value.component, captured_);
    if (!captured_.is_present || captured_.words == value.words) return false;
    value.words = captured_.words;
    return true;
}

/// Adds a new value to those that are to be sent. It replaces an earlier one of its component, unless an
/// action, a message or the input of a tick came in between. Inputs do not keep more than kMaxPinned values,
/// actions and messages not more than kMaxNamed.
void OwnedWriter::add(const Owned& owned, Value& value) {
    const auto is_earlier = [&](const OwnedValue& old) {
        return old.net_id == owned.net_id && old.component == value.component;
    };
    const bool may_replace_any = waiting_.size() >= kMaxPinned;
    std::erase_if(waiting_, [&](const OwnedValue& old) {
        return is_earlier(old) && is_newer(old.version, named_) &&
               (may_replace_any || old.before.tick == before_.tick);
    });
    if (waiting_.size() >= kMaxNamed)
        if (const auto old = std::ranges::find_if(waiting_, is_earlier); old != waiting_.end())
            waiting_.erase(old);
    newest_ = std::max(newest_ + 1, 1u);
    value.version = newest_;
    waiting_.push_back({newest_, owned.state.epoch, owned.net_id, value.component, before_, value.words});
    payloads_left_ = kSmallPayloads;
}

// The format is specified in ../WIRE.md.

bool OwnedWriter::write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) {
    lacked_room_ = false;
    if (!is_due_ || payloads_left_ == 0 || waiting_.empty()) return false;
    values_.clear();
    std::uint32_t count = 0;
    const std::size_t most_bits =
        room_bits - std::min<std::size_t>(room_bits, golomb_bits(kMaxOwnedValues - 1, kOwnedCountOrder));
    for (; count < std::min(waiting_.size(), kMaxOwnedValues); ++count) {
        value_.clear();
        write_owned(schema_, waiting_[count], count == 0 ? nullptr : &waiting_[count - 1], value_);
        if (values_.bit_count() + value_.bit_count() > most_bits) break;
        values_.append(value_, 0, value_.bit_count());
    }
    lacked_room_ = count == 0;
    if (count == 0) return false;
    out.write_golomb(count - 1, kOwnedCountOrder);
    out.append(values_, 0, values_.bit_count());
    if (values_.bit_count() > kSmallBits) {
        payloads_left_ = 0;
    } else if (!has_input_) {
        payloads_left_ -= 1;
    }
    is_due_ = false;
    sent_.push({packet, waiting_[count - 1].version});
    stats_.sent += count;
    return true;
}

void OwnedWriter::on_fate(std::uint64_t packet, bool delivered) {
    std::size_t found = 0;
    while (found < sent_.size() && sent_[found].packet != packet) ++found;
    if (found == sent_.size()) return;
    const std::uint32_t newest = sent_[found].newest;
    sent_[found].packet = 0;
    while (!sent_.empty() && sent_[0].packet == 0) sent_.pop();
    const bool was_waiting = !waiting_.empty() && !is_newer(waiting_.front().version, newest);
    if (delivered)
        std::erase_if(waiting_, [&](const OwnedValue& value) { return !is_newer(value.version, newest); });
    // The payload may have had no room for the newer ones.
    if (was_waiting && !waiting_.empty()) payloads_left_ = std::max(payloads_left_, 1u);
}

bool OwnedWriter::receive(std::optional<OwnedRefusal> refusal) {
    if (!refusal || !is_in(components_, refusal->component)) return false;
    stats_.refused += 1;
    if (refusals_.size() < kMaxRefusals) refusals_.push_back(std::move(*refusal));
    return true;
}

/// Calls the handlers for the refused values that the server's values have replaced.
void OwnedWriter::tell_refused() {
    std::vector<OwnedRefusal> all = std::exchange(refusals_, {});  // handlers may receive more
    for (OwnedRefusal& refusal : all) {
        const ecs::Entity entity = receiver_.entity(refusal.net_id);
        const auto owned = place_of(entity);
        if (owned == owned_.end() || owned->entity != entity) continue;
        if (owned->state.epoch == refusal.epoch && is_newer(refusal.version, owned->state.refused)) {
            refusals_.push_back(std::move(refusal));
            continue;
        }
        if (const Refused& handler = handlers_[refusal.component]) handler(entity, refusal.why);
    }
}

void OwnedWriter::reconnect() {
    for (OwnedValue& value : waiting_) value.before.messages = 0;
}

void OwnedWriter::reset() {
    owned_.clear();
    changes_.clear();
    waiting_.clear();
    refusals_.clear();
    sent_.clear();
    newest_ = named_ = payloads_left_ = 0;
}

}  // namespace shoal::replication::impl
