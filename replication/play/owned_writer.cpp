#include "owned_writer.h"

#include <algorithm>
#include <cassert>

#include "../codec/codec.h"

namespace shoal::replication::all {

OwnedWriter::OwnedWriter(ecs::World& world, const Schema& schema, Receiver& receiver)
    : world_(world),
      schema_(schema),
      receiver_(receiver),
      changes_(world),
      mine_(world),
      handlers_(schema.components().size()) {
    for (std::size_t i = 0; i < schema.components().size(); ++i)
        if (schema.components()[i].role == Role::owner) components_.push_back(static_cast<ComponentIndex>(i));
    for (const ComponentIndex component : components_)
        changes_.watch(schema.components()[component].bind(world));
}

std::vector<OwnedWriter::Owned>::iterator OwnedWriter::place_of(ecs::Entity entity) {
    return std::lower_bound(owned_.begin(), owned_.end(), entity,
                            [](const Owned& owned, ecs::Entity other) { return owned.entity < other; });
}

void OwnedWriter::update() {
    if (components_.empty()) return;
    std::erase_if(owned_, [&](Owned& owned) {
        const bool is_replica = is_shown(owned.entity);
        if (is_replica && world_.has<Mine>(owned.entity)) return false;
        for (Value& value : owned.values) {
            set_pending(value, false);
            receiver_.release(owned.entity, value.component);
        }
        return true;
    });
    mine_.each([&](ecs::Entity entity) {
        const auto place = place_of(entity);
        if (place != owned_.end() && place->entity == entity) return;
        if (is_shown(entity)) owned_.insert(place, {entity, receiver_.net_id(entity), std::nullopt, {}});
    });
    for (Owned& owned : owned_)
        if (is_shown(owned.entity) && receiver_.shown_tick(owned.entity) != owned.shown)
            follow_version(owned);
    for (const ecs::ChangeCollector::Change change : changes_.changes())
        change.for_each([&](std::uint32_t watch) {
            if (Value* value = find(change.entity, components_[watch])) update_value(change.entity, *value);
        });
    changes_.clear();
}

/// Returns whether the entity is a replica that the game has not destroyed.
bool OwnedWriter::is_shown(ecs::Entity entity) const {
    return world_.is_alive(entity) && receiver_.shown_tick(entity);
}

/// Adds and removes values as the server adds and removes components of the entity.
void OwnedWriter::follow_version(Owned& owned) {
    owned.shown = receiver_.shown_tick(owned.entity);
    const std::optional<Version> version = receiver_.at(owned.net_id, *owned.shown);
    if (!version) return;
    ImageCursor image(schema_, version->image);
    std::size_t known = 0;
    for (const ComponentIndex component : components_) {
        const bool was_there = known < owned.values.size() && owned.values[known].component == component;
        const bool is_there = image.seek(component);
        const auto place = owned.values.begin() + static_cast<std::ptrdiff_t>(known);
        if (was_there && !is_there) {
            set_pending(*place, false);
            receiver_.release(owned.entity, component);
            owned.values.erase(place);
        } else if (is_there) {
            if (!was_there) {
                const auto added = owned.values.insert(place, Value{});
                added->component = component;
                hold(owned, *added, image);
            }
            known += 1;
        }
    }
}

void OwnedWriter::hold(const Owned& owned, Value& value, const ImageCursor& image) {
    receiver_.hold(owned.entity, value.component);
    value.words.assign(image.lanes(), image.lanes() + image.layout().lanes().size());
    value.words.insert(value.words.end(), image.parts(), image.parts() + image.part_words());
    // A reference to an entity that the client does not have is null in the world.
    if (image.layout().has_references()) capture(owned.entity, value);
    update_value(owned.entity, value);  // hooks of the game may have written the component
    if (asked_.contains(owned.net_id)) set_pending(value, true);
}

bool OwnedWriter::capture(ecs::Entity entity, Value& value) {
    if (!world_.is_alive(entity)) return false;  // a hook of the game destroyed it
    receiver_.capture(entity, value.component, captured_);
    if (!captured_.is_present || captured_.words == value.words) return false;
    value.words = captured_.words;
    return true;
}

void OwnedWriter::update_value(ecs::Entity entity, Value& value) {
    if (!capture(entity, value)) return;
    value.first_packet = 0;
    set_pending(value, true);
}

void OwnedWriter::set_pending(Value& value, bool is_pending) {
    if (value.is_pending == is_pending) return;
    value.is_pending = is_pending;
    is_pending ? ++pending_count_ : --pending_count_;
}

OwnedWriter::Value* OwnedWriter::find(ecs::Entity entity, ComponentIndex component) {
    const auto owned = place_of(entity);
    if (owned == owned_.end() || owned->entity != entity) return nullptr;
    for (Value& value : owned->values)
        if (value.component == component) return &value;
    return nullptr;
}

// The format is specified in ../WIRE.md.

bool OwnedWriter::write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) {
    lacked_room_ = false;
    if (pending_count_ == 0) return false;
    values_.clear();
    std::uint32_t count = 0;
    NetId last = 0;
    const std::size_t most_bits =
        room_bits - std::min<std::size_t>(room_bits, golomb_bits(kMaxOwnedValues - 1, kOwnedCountOrder));
    const std::size_t first = next_;
    for (std::size_t i = 0; i < owned_.size(); ++i) {
        const std::size_t at = (first + i) % owned_.size();
        for (Value& value : owned_[at].values) {
            if (!value.is_pending || count == kMaxOwnedValues) continue;
            value_.clear();
            if (count == 0) {
                value_.write(owned_[at].net_id, 32);
            } else {
                value_.write_golomb(zigzag(owned_[at].net_id - last), kOwnedNetIdOrder);
            }
            value_.write_golomb(value.component, kOwnedComponentOrder);
            write_value(schema_.components()[value.component].layout, {}, value.words, value_);
            if (values_.bit_count() + value_.bit_count() > most_bits) {
                next_ = at;  // this entity is the first of the next section
                lacked_room_ = lacked_room_ || value_.bit_count() > most_bits;
                continue;
            }
            values_.append(value_, 0, value_.bit_count());
            last = owned_[at].net_id;
            count += 1;
            set_pending(value, false);
            if (value.first_packet == 0) value.first_packet = packet;
            value.last_packet = packet;
        }
    }
    if (count == 0) return false;
    out.write_golomb(count - 1, kOwnedCountOrder);
    out.append(values_, 0, values_.bit_count());
    stats_.sent += count;
    return true;
}

void OwnedWriter::on_fate(std::uint64_t packet, bool delivered) {
    if (delivered) return;
    for (Owned& owned : owned_)
        for (Value& value : owned.values)
            if (value.last_packet == packet) set_pending(value, true);
}

bool OwnedWriter::receive(std::span<const std::byte> message) {
    const std::optional<std::vector<NetId>> net_ids = read_send_owned(message);
    if (!net_ids) return use_refusal(message);
    for (const NetId net_id : *net_ids) note_asked(net_id);
    return true;
}

/// The server needs this client's values of an entity.
void OwnedWriter::note_asked(NetId net_id) {
    asked_.insert(net_id);
    if (asked_.size() > most_asked_) {
        std::erase_if(asked_, [&](NetId asked) { return !receiver_.entity(asked); });
        most_asked_ = std::max(kFewAsked, 2 * asked_.size());
    }
    const ecs::Entity entity = receiver_.entity(net_id);
    const auto owned = place_of(entity);
    if (owned == owned_.end() || owned->entity != entity) return;
    for (Value& value : owned->values) set_pending(value, true);
}

bool OwnedWriter::use_refusal(std::span<const std::byte> message) {
    const std::optional<OwnedRefusal> refusal = read_refusal(schema_, message);
    if (!refusal) return false;
    const ecs::Entity entity = receiver_.entity(refusal->net_id);
    Value* const value = find(entity, refusal->component);
    if (!value) return true;
    update_value(entity, *value);
    const bool is_told = value->first_packet != 0 && value->refused_packet >= value->first_packet;
    value->refused_packet = std::max(value->refused_packet, refusal->packet);
    // Otherwise a later packet has a value of this component, and the server checks that value.
    if (!value->is_pending && value->last_packet <= refusal->packet) {
        value->words = refusal->words;
        receiver_.show(entity, refusal->component, Receiver::Value{true, refusal->words});
        if (schema_.components()[refusal->component].layout.has_references()) capture(entity, *value);
    }
    if (is_told) return true;
    stats_.refused += 1;
    if (const Refused& handler = handlers_[refusal->component]) handler(entity, refusal->why);
    return true;
}

void OwnedWriter::reconnect() {
    for (Owned& owned : owned_)
        for (Value& value : owned.values) {
            if (value.last_packet != 0) set_pending(value, true);
            value.first_packet = value.last_packet = value.refused_packet = 0;
        }
}

void OwnedWriter::reset() {
    owned_.clear();
    changes_.clear();
    asked_.clear();
    pending_count_ = 0;
}

bool OwnedWriter::is_consistent() const {
    std::size_t pending = 0;
    for (std::size_t i = 0; i < owned_.size(); ++i) {
        if (i > 0 && !(owned_[i - 1].entity < owned_[i].entity)) return false;
        for (const Value& value : owned_[i].values) pending += value.is_pending;
    }
    return pending == pending_count_;
}

}  // namespace shoal::replication::all
