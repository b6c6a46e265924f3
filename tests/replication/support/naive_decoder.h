#pragma once
// A second decoder for the payloads of replication, written from replication/WIRE.md alone and as simple as
// possible. It uses nothing of the library: the schema is described by hand.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "naive_bits.h"
#include "naive_schema.h"

namespace naive_replication {

// Values

struct Value {
    std::vector<std::uint32_t> lanes;
    std::vector<std::vector<std::vector<std::uint32_t>>> parts;  // by part, element and lane
    bool operator==(const Value&) const = default;
};

/// By index of the component.
using State = std::map<std::uint32_t, Value>;

/// Reads groups, parts and components.
class StateReader {
public:
    StateReader(const Description& schema, Bits& bits) : bits_(bits) {
        for (const auto& [id, component] : schema) components_.push_back(&component);
    }

    /// "Image". `base` is null for a full record.
    State read(const State* base) {
        const std::set<std::uint32_t> indices = base == nullptr ? full_list() : delta_list(*base);
        State out;
        for (const std::uint32_t index : indices) {
            if (!bits_.ok()) break;
            const bool has_base = base != nullptr && base->count(index) != 0;
            out[index] = component(*components_[index], has_base ? &base->at(index) : nullptr);
        }
        return out;
    }

    /// A component that the baseline lacks.
    Value read_alone(const Component& of) { return component(of, nullptr); }

private:
    /// A list of `count` rising numbers below `limit`.
    std::vector<std::uint32_t> rising(std::uint32_t count, std::size_t limit) {
        std::vector<std::uint32_t> out;
        if (count > limit) bits_.refuse("more numbers in a list than exist");
        std::uint64_t next = 0;
        for (std::uint32_t i = 0; i < count && bits_.ok(); ++i) {
            next += bits_.golomb(0);
            if (next >= limit) {
                bits_.refuse("a number in a list that does not exist");
                break;
            }
            out.push_back(static_cast<std::uint32_t>(next++));
        }
        return out;
    }

    std::set<std::uint32_t> full_list() {
        const std::uint32_t count = bits_.golomb(2);
        const std::vector<std::uint32_t> list = rising(count, components_.size());
        return {list.begin(), list.end()};
    }

    std::set<std::uint32_t> delta_list(const State& base) {
        std::vector<std::uint32_t> old;
        for (const auto& [index, value] : base) old.push_back(index);
        std::set<std::uint32_t> out(old.begin(), old.end());
        if (!bits_.bit()) return out;
        const std::uint32_t removed = bits_.golomb(0);
        for (const std::uint32_t position : rising(removed, old.size())) out.erase(old[position]);
        const std::uint32_t added = bits_.golomb(0);
        for (const std::uint32_t index : rising(added, components_.size())) {
            if (base.count(index) != 0) bits_.refuse("an added component that the baseline has");
            out.insert(index);
        }
        return out;
    }

    Value component(const Component& component, const Value* base) {
        const std::vector<Lane> lanes = lanes_of(component.fields);
        const std::vector<Group> groups = groups_of(lanes);
        Value out;
        out.lanes.resize(lanes.size());
        const std::vector<ListedPart> parts = list_parts(component.parts);
        out.parts.resize(parts.size());
        if (base != nullptr) out = *base;
        if (component.is_tag || !bits_.bit()) return out;
        const bool has_bits = groups.size() + parts.size() > 1;
        for (const Group& group : groups)
            if (!has_bits || bits_.bit()) read_group(lanes, group, base != nullptr, out.lanes);
        for (std::size_t i = 0; i < parts.size() && bits_.ok(); ++i)
            if (!has_bits || bits_.bit())
                out.parts[i] = part(parts[i].part, base != nullptr ? &base->parts[i] : nullptr);
        check_lengths(parts, out);
        return out;
    }

    /// "Parts inside elements".
    void check_lengths(const std::vector<ListedPart>& parts, const Value& value) {
        for (std::size_t i = 0; i < parts.size(); ++i) {
            if (!parts[i].is_inner || !bits_.ok()) continue;
            std::uint64_t sum = 0;
            for (const auto& element : value.parts[parts[i].around]) sum += element[parts[i].length_lane];
            if (sum != value.parts[i].size()) bits_.refuse("lengths that differ from the number of elements");
        }
    }

    static unsigned next_order(std::uint32_t before) {
        const unsigned width = width_of(before);
        return width == 0 ? 0 : width - 1 > 20 ? 20 : width - 1;
    }

    /// "Group". `values` contains the baseline's lanes, or zeros.
    void read_group(const std::vector<Lane>& lanes, const Group& group, bool has_base,
                    std::vector<std::uint32_t>& values) {
        unsigned k = 4, j = 16;
        for (std::size_t i = group.first; i < group.first + group.count && bits_.ok(); ++i) {
            const Lane& lane = lanes[i];
            std::uint32_t& value = values[i];
            switch (lane.kind) {
                case LaneKind::quantity:
                    if (lane.is_bounded && !has_base) {
                        value = static_cast<std::uint32_t>(bits_.number(lane.bits()));
                    } else {
                        const std::uint32_t code = bits_.golomb(k);
                        k = next_order(code);
                        value += unzigzag(code);
                    }
                    break;
                case LaneKind::symbol:
                    if (lane.greatest == 1) {
                        value = 1 - value;
                    } else if (lane.is_bounded) {
                        value = static_cast<std::uint32_t>(bits_.number(lane.bits()));
                    } else {
                        value = bits_.golomb(3);
                    }
                    break;
                case LaneKind::real:
                    value = real(value, k, j);
                    break;
                case LaneKind::reference:
                    value = bits_.golomb(8);
                    break;
            }
            if (value > lane.greatest) bits_.refuse("a lane over its greatest value");
            if (lane.exponent != 0 && (value & lane.exponent) == lane.exponent)
                bits_.refuse("a float that is not finite");
        }
    }

    static std::int32_t whole(std::uint32_t lane) {
        const float value = std::bit_cast<float>(lane);
        return value > -16'777'216.f && value < 16'777'216.f ? static_cast<std::int32_t>(value) : 0;
    }
    static std::uint32_t order(std::uint32_t lane) { return lane >> 31 != 0 ? lane ^ 0x7fffffffu : lane; }

    std::uint32_t real(std::uint32_t base, unsigned& k, unsigned& j) {
        if (!bits_.bit()) {
            const std::uint32_t code = bits_.golomb(k);
            k = next_order(code);
            if (code == 0) return base;
            const std::uint32_t sum = static_cast<std::uint32_t>(whole(base)) + unzigzag(code);
            return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(sum)));
        }
        const std::uint32_t code = bits_.golomb(j);
        j = next_order(code);
        return order(order(base) + unzigzag(code));  // order() is its own inverse
    }

    /// "Part".
    using Elements = std::vector<std::vector<std::uint32_t>>;
    Elements part(const Part& part, const Elements* base) {
        const std::vector<Lane> lanes = lanes_of(part);
        const Elements old = base != nullptr ? *base : Elements{};
        if (!old.empty() && bits_.bit()) return edited(part, lanes, old);
        const std::uint64_t prefix = old.empty() ? 0 : bits_.golomb(3);
        const std::uint64_t suffix = old.empty() ? 0 : bits_.golomb(1);
        const std::uint64_t between = bits_.golomb(3);
        if (prefix + suffix > old.size()) bits_.refuse("too many elements kept");
        if (prefix + suffix + between > part.max_length) bits_.refuse("a part over its greatest length");
        Elements out;
        for (std::uint64_t i = 0; i < prefix && bits_.ok(); ++i) out.push_back(old[i]);
        for (std::uint64_t i = 0; i < between && bits_.ok(); ++i) out.push_back(element(lanes));
        for (std::uint64_t i = suffix; i > 0 && bits_.ok(); --i) out.push_back(old[old.size() - i]);
        return out;
    }

    /// "Edits".
    Elements edited(const Part& part, const std::vector<Lane>& lanes, const Elements& old) {
        Elements out;
        std::uint64_t next = 0;  // number of an old element
        const auto follow = [&](std::uint64_t first, std::uint64_t count) {
            if (first + count > old.size()) bits_.refuse("an edit of elements that do not exist");
            if (out.size() + count > part.max_length) bits_.refuse("edits to over the greatest length");
            for (std::uint64_t i = first; i < first + count && bits_.ok(); ++i) out.push_back(old[i]);
        };
        const auto leave_out = [&](std::uint64_t count) {
            next += count;
            if (next > old.size()) bits_.refuse("an edit of elements that do not exist");
        };
        bool more = true;
        while (more && bits_.ok()) {
            const std::uint64_t kept = bits_.golomb(3);
            const bool is_change = !bits_.bit(), is_erase = !is_change && bits_.bit();
            const bool is_copy = !is_change && !is_erase && bits_.bit();
            const bool is_in_place = !is_change && !is_erase && bits_.bit();
            const std::uint64_t count = std::uint64_t{bits_.golomb(0)} + 1;
            const std::uint64_t source = is_copy ? bits_.number(width_of(old.size() - 1)) : 0;
            follow(next, kept);
            next += kept;
            if (is_copy) {
                follow(source, count);
            } else if (is_change) {
                follow(next, count);
                for (std::uint64_t i = count; i > 0 && bits_.ok(); --i) change(lanes, out[out.size() - i]);
            } else if (!is_erase) {
                if (out.size() + count > part.max_length) bits_.refuse("edits to over the greatest length");
                for (std::uint64_t i = 0; i < count && bits_.ok(); ++i) out.push_back(element(lanes));
            }
            if (is_change || is_erase || is_in_place) leave_out(count);
            more = bits_.bit();
        }
        if (bits_.ok()) follow(next, old.size() - next);
        return out;
    }

    void change(const std::vector<Lane>& lanes, std::vector<std::uint32_t>& values) {
        for (std::size_t i = 0; i < lanes.size() && bits_.ok(); ++i)
            if (lanes.size() == 1 || bits_.bit()) read_group(lanes, {i, 1}, true, values);
    }

    std::vector<std::uint32_t> element(const std::vector<Lane>& lanes) {
        std::vector<std::uint32_t> values(lanes.size());
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            if (lanes[i].kind == LaneKind::symbol && lanes[i].greatest == 1) {
                values[i] = bits_.bit();
            } else {
                read_group(lanes, {i, 1}, false, values);
            }
        }
        return values;
    }

    std::vector<const Component*> components_;
    Bits& bits_;
};

// Payloads

enum class Kind { delta, full, despawn };

struct Record {
    std::uint32_t slot = 0;
    Kind kind = Kind::delta;
    bool is_at_anchor = false;   // delta
    bool is_same = false;        // delta: another baseline, that of an earlier record
    std::uint32_t baseline = 0;  // delta: tick
    std::uint32_t net_id = 0;    // full
    std::uint32_t pending = 0;   // full: 0 if the client did not spawn the entity
    unsigned reason = 0;         // despawn
    State state;                 // delta, full
};

struct Payload {
    std::optional<std::uint64_t> anchor;  // number of the packet
    std::uint32_t tick = 0;
    bool is_complete = false;
    std::uint32_t distance = 0, others = 0, quiet = 0;  // complete
    std::vector<Record> records;
};

/// What the receiver has of the entity in a slot.
struct Replica {
    std::uint32_t net_id = 0;
    std::uint32_t needed = 0;                 // tick of the oldest version that a delta may still name
    std::map<std::uint32_t, State> versions;  // by tick
};

/// Ticks can wrap around.
inline bool is_after(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a - b) > 0;
}

class Decoder {
public:
    Decoder(Description schema, std::uint32_t max_slots)
        : schema_(std::move(schema)), max_slots_(max_slots) {}

    /// Reads the payload of packet `number`. Returns false if a rule refuses it; then nothing changed.
    bool receive(std::uint64_t number, std::span<const std::byte> bytes) {
        Bits bits(bytes);
        payload_ = {};
        const std::uint32_t count = read_header(number, bits);
        std::uint64_t next_slot = 0;
        std::optional<std::uint32_t> net_id, baseline;
        for (std::uint32_t i = 0; i < count && bits.ok(); ++i) read_record(bits, next_slot, net_id, baseline);
        read_padding(bits);
        why_ = bits.why();
        if (!bits.ok()) return false;
        ticks_[number] = payload_.tick;
        take_marker(number);
        for (const Record& record : payload_.records)
            if (record.kind == Kind::despawn) take(record);
        for (const Record& record : payload_.records)
            if (record.kind != Kind::despawn) take(record);
        return true;
    }

    /// First and last tick at which the sender's entities were equal to the newest versions.
    std::optional<std::pair<std::uint32_t, std::uint32_t>> complete() const {
        if (!marker_ || marker_->tick != newest_tick_) return std::nullopt;
        std::uint64_t missing = marker_->distance - marker_->others;
        for (std::uint64_t number = marker_->number - marker_->distance; number < marker_->number; ++number)
            missing -= ticks_.count(number);
        if (missing != 0) return std::nullopt;
        return std::pair{marker_->tick - marker_->quiet, marker_->tick};
    }

    /// The payload of the last receive(); whole only if it was accepted.
    const Payload& payload() const { return payload_; }
    /// The rule that refused the last payload.
    const std::string& why() const { return why_; }
    const std::map<std::uint32_t, Replica>& replicas() const { return replicas_; }
    const Description& schema() const { return schema_; }

    /// Forgets a version, as a receiver may.
    void forget(std::uint32_t slot, std::uint32_t tick) { replicas_[slot].versions.erase(tick); }

private:
    /// "State payload". Returns the number of records.
    std::uint32_t read_header(std::uint64_t number, Bits& bits) {
        std::uint32_t anchor_distance = 0;
        if (bits.bit()) {
            const std::uint32_t distance = bits.golomb(2);
            if (distance > 254) bits.refuse("the distance of an anchor over 254");
            const std::uint32_t age = bits.golomb(0);
            anchor_distance = distance + 1;
            payload_.tick = unzigzag(age) + distance + 1;  // the anchor's tick is added below
        } else {
            payload_.tick = static_cast<std::uint32_t>(bits.number(32));
        }
        payload_.is_complete = bits.bit();
        if (payload_.is_complete) {
            payload_.distance = bits.golomb(2);
            if (payload_.distance > 255) bits.refuse("the distance of a marker over 255");
            if (payload_.distance > 0) payload_.others = bits.golomb(0);
            if (payload_.others > payload_.distance) bits.refuse("more others than packets");
            payload_.quiet = bits.golomb(0);
        }
        const std::uint32_t count = bits.golomb(3);
        if (anchor_distance == 0 || !bits.ok()) return count;
        if (anchor_distance > number || ticks_.count(number - anchor_distance) == 0) {
            bits.refuse("an anchor that was not accepted");
            return 0;
        }
        payload_.anchor = number - anchor_distance;
        payload_.tick += ticks_[*payload_.anchor];
        return count;
    }

    /// "Record".
    void read_record(Bits& bits, std::uint64_t& next_slot, std::optional<std::uint32_t>& last_net_id,
                     std::optional<std::uint32_t>& last_baseline) {
        next_slot += bits.golomb(1);
        if (next_slot >= 0xffffffffu) bits.refuse("a slot of 2^32 - 1 or more");
        if (next_slot >= max_slots_) bits.refuse("a slot over the limit");
        if (!bits.ok()) return;
        Record record;
        record.slot = static_cast<std::uint32_t>(next_slot++);
        if (bits.bit()) {
            if (!payload_.anchor) {
                bits.refuse("a delta to an anchor that does not exist");
                return;
            }
            record.is_at_anchor = true;
            record.baseline = ticks_[*payload_.anchor];
            read_delta(bits, record);
        } else if (bits.bit()) {
            record.is_same = last_baseline && bits.bit();
            last_baseline = record.is_same ? *last_baseline : payload_.tick - bits.golomb(5) - 1;
            record.baseline = *last_baseline;
            read_delta(bits, record);
        } else if (bits.bit()) {
            record.kind = Kind::full;
            record.net_id = last_net_id ? *last_net_id + unzigzag(bits.golomb(2))
                                        : static_cast<std::uint32_t>(bits.number(32));
            last_net_id = record.net_id;
            if (record.net_id == 0 || record.net_id >> 24 == 0xfe) bits.refuse("net id");
            if (bits.bit()) {
                record.pending = bits.golomb(8);
                if (record.pending == 0 || record.pending > 0xffffff) bits.refuse("pending id");
            }
            check_tick(bits, record);
            record.state = StateReader(schema_, bits).read(nullptr);
        } else {
            record.kind = Kind::despawn;
            record.reason = static_cast<unsigned>(bits.number(2));
            if (record.reason == 3) bits.refuse("reason 3");
            check_tick(bits, record);
        }
        payload_.records.push_back(std::move(record));
    }

    void read_delta(Bits& bits, Record& record) {
        if (!bits.ok()) return;
        check_tick(bits, record);
        const auto replica = replicas_.find(record.slot);
        if (replica == replicas_.end() || replica->second.versions.count(record.baseline) == 0) {
            bits.refuse("a delta without its baseline");
            return;
        }
        record.state = StateReader(schema_, bits).read(&replica->second.versions[record.baseline]);
    }

    void read_padding(Bits& bits) {
        if (!bits.ok()) return;
        if (bits.left() >= 8) bits.refuse("8 or more bits after the last record");
        while (bits.ok() && bits.left() > 0)
            if (bits.bit()) bits.refuse("padding that is not zero");
    }

    /// "What a receiver keeps": the newest tick, and the marker of the newest tick that has one.
    void take_marker(std::uint64_t number) {
        const std::uint32_t tick = payload_.tick;
        if (!newest_tick_ || is_after(tick, *newest_tick_)) newest_tick_ = tick;
        if (!payload_.is_complete || payload_.distance >= number) return;
        if (marker_ && (is_after(marker_->tick, tick) || (marker_->tick == tick && marker_->number > number)))
            return;
        marker_ = Marker{number, tick, payload_.distance, payload_.others, payload_.quiet};
    }

    /// "What a receiver keeps": a record of an accepted payload.
    void take(const Record& record) {
        const auto known = replicas_.find(record.slot);
        if (record.kind == Kind::delta && known == replicas_.end()) return;
        if (is_overtaken(record)) {
            const bool is_of_slot = known != replicas_.end() && record.kind != Kind::despawn &&
                                    (record.kind == Kind::delta || record.net_id == known->second.net_id);
            if (is_of_slot) known->second.versions.insert({payload_.tick, record.state});
            return;
        }
        newest_[record.slot] = payload_.tick;
        if (record.kind == Kind::despawn) {
            replicas_.erase(record.slot);
            return;
        }
        if (record.kind == Kind::full) bind(record);
        Replica& replica = replicas_[record.slot];
        if (record.kind == Kind::delta && is_after(record.baseline, replica.needed))
            replica.needed = record.baseline;
        replica.versions[payload_.tick] = record.state;
    }

    bool is_overtaken(const Record& record) {
        const auto newest = newest_.find(record.slot);
        if (newest != newest_.end() && !is_after(payload_.tick, newest->second)) return true;
        const std::optional<std::uint32_t> at = slot_of(record.net_id);
        return record.kind == Kind::full && at && !is_after(payload_.tick, newest_[*at]);
    }

    /// Makes the slot that of the record's entity.
    void bind(const Record& record) {
        const std::optional<std::uint32_t> from = slot_of(record.net_id);
        if (from == record.slot) return;
        Replica replica{record.net_id, payload_.tick, {}};
        if (from) {
            if (record.net_id < 0xff000000) replica.versions = replicas_[*from].versions;
            replicas_.erase(*from);
        }
        replicas_[record.slot] = replica;
    }

    std::optional<std::uint32_t> slot_of(std::uint32_t net_id) const {
        for (const auto& [slot, replica] : replicas_)
            if (replica.net_id == net_id) return slot;
        return std::nullopt;
    }

    /// Refuses a record that is newer than all versions of its entity, but 2^31 or more after one of them.
    void check_tick(Bits& bits, const Record& record) {
        const std::optional<std::uint32_t> slot =
            record.kind == Kind::full ? slot_of(record.net_id) : std::optional(record.slot);
        if (!slot || replicas_.count(*slot) == 0 || !is_after(payload_.tick, newest_[*slot])) return;
        for (const auto& [tick, state] : replicas_[*slot].versions)
            if (!is_after(payload_.tick, tick)) bits.refuse("a tick 2^31 or more after a version");
    }

    Description schema_;
    std::uint32_t max_slots_;
    std::map<std::uint64_t, std::uint32_t> ticks_;   // of accepted packets, by number
    std::map<std::uint32_t, std::uint32_t> newest_;  // by slot: tick of its newest record
    std::map<std::uint32_t, Replica> replicas_;      // by slot
    struct Marker {
        std::uint64_t number = 0;  // of its packet
        std::uint32_t tick = 0, distance = 0, others = 0, quiet = 0;
    };
    std::optional<std::uint32_t> newest_tick_;
    std::optional<Marker> marker_;
    Payload payload_;
    std::string why_;
};

}  // namespace naive_replication
