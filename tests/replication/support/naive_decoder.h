#pragma once
// A second decoder for the payloads of replication, written from replication/WIRE.md alone and as simple as
// possible. It uses nothing of the library: the schema is described by hand.

#include <algorithm>
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

/// "Trend".
struct Trend {
    const State* older = nullptr;
    std::uint32_t factor = 0;
};

inline std::uint32_t factor_of(std::uint32_t age, std::uint32_t older) {
    if (older == 0) return 0;
    const std::uint64_t factor = (std::uint64_t{age} * 256 + older / 2) / older;
    return factor > 2048 ? 2048 : static_cast<std::uint32_t>(factor);
}

/// Reads groups, parts and components.
class StateReader {
public:
    StateReader(const Description& schema, Bits& bits) : bits_(bits) {
        for (const auto& [id, component] : schema) components_.push_back(&component);
    }

    /// "Image". `base` is null for a full record.
    State read(const State* base, Trend trend = {}) {
        factor_ = trend.factor;
        std::vector<bool> moved;
        if (base != nullptr && trend.older != nullptr && trend.factor != 0)
            moved = pieces(*trend.older, *base);
        const bool moves = std::find(moved.begin(), moved.end(), true) != moved.end();
        is_usual_ = moves && bits_.bit();
        std::set<std::uint32_t> indices;
        if (is_usual_) {
            for (const auto& [index, value] : *base) indices.insert(index);
        } else {
            indices = base == nullptr ? full_list() : delta_list(*base);
        }
        const bool has_trend = moves && indices.size() == base->size() &&
                               std::all_of(base->begin(), base->end(),
                                           [&](const auto& item) { return indices.count(item.first) != 0; });
        State out;
        for (const std::uint32_t index : indices) {
            if (!bits_.ok()) break;
            const bool has_base = base != nullptr && base->count(index) != 0;
            out[index] = component(*components_[index], has_base ? &base->at(index) : nullptr,
                                   has_trend ? &trend.older->at(index) : nullptr, moved);
        }
        return out;
    }

    /// A component that the baseline lacks.
    Value read_alone(const Component& of) {
        std::vector<bool> none;
        is_usual_ = false;
        return component(of, nullptr, nullptr, none);
    }

private:
    /// Which groups and parts of two states differ; none if the states have other components, or more than 64
    /// groups and parts.
    std::vector<bool> pieces(const State& before, const State& now) const {
        std::vector<bool> out;
        if (before.size() != now.size()) return out;
        for (const auto& [index, value] : now) {
            if (before.count(index) == 0) return {};
            const Value& old = before.at(index);
            for (const Group& group : groups_of(lanes_of(components_[index]->fields))) {
                bool differs = false;
                for (std::size_t i = group.first; i < group.first + group.count; ++i)
                    differs = differs || old.lanes[i] != value.lanes[i];
                out.push_back(differs);
            }
            for (std::size_t i = 0; i < value.parts.size(); ++i)
                out.push_back(old.parts[i] != value.parts[i]);
        }
        return out.size() > 64 ? std::vector<bool>{} : out;
    }

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

    /// `moved`: which groups and parts differ in the older version; those of this component are removed.
    Value component(const Component& component, const Value* base, const Value* older,
                    std::vector<bool>& moved) {
        const std::vector<Lane> lanes = lanes_of(component.fields);
        const std::vector<Group> groups = groups_of(lanes);
        Value out;
        out.lanes.resize(lanes.size());
        const std::vector<ListedPart> parts = list_parts(component.parts);
        out.parts.resize(parts.size());
        if (base != nullptr) out = *base;
        older_ = older;
        last_ = 5;
        const std::size_t count = component.is_tag ? 0 : groups.size() + parts.size();
        if (count == 0 || (!is_usual_ && !bits_.bit())) return out;
        const auto differs = [&] {
            if (!is_usual_) return count == 1 || bits_.bit();
            const bool is_one = moved.front();
            moved.erase(moved.begin());
            return is_one;
        };
        for (const Group& group : groups)
            if (differs()) read_group(lanes, group, base, out.lanes);
        for (std::size_t i = 0; i < parts.size() && bits_.ok(); ++i)
            if (differs()) out.parts[i] = part(parts[i].part, base != nullptr ? &base->parts[i] : nullptr);
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

    /// The difference times the factor, rounded.
    std::int64_t expected(std::uint32_t now, std::uint32_t before) const {
        const std::int64_t difference = static_cast<std::int32_t>(now - before);
        return static_cast<std::int64_t>(std::floor(static_cast<double>(difference * factor_ + 128) / 256));
    }

    /// "Rotation".
    std::vector<std::uint32_t> rotation(const Value& base, const Value& before, std::size_t first,
                                        std::uint32_t greatest, std::int64_t most) const {
        const auto four = [&](const Value& value) {
            std::vector<std::int64_t> out;
            std::int64_t rest = 2 * most * most;
            for (std::size_t i = 0; i < 3; ++i) {
                out.push_back(2 * std::int64_t{value.lanes[first + i]} - most);
                rest -= out[i] * out[i];
            }
            std::int64_t root = 0;
            while (rest > 0 && (root + 1) * (root + 1) <= rest) ++root;
            out.insert(out.begin() + static_cast<std::ptrdiff_t>(value.lanes[first - 1]), root);
            return out;
        };
        const std::vector<std::int64_t> now = four(base), then = four(before);
        std::int64_t product = 0;
        for (std::size_t i = 0; i < 4; ++i) product += now[i] * then[i];
        std::vector<std::int64_t> next;
        for (std::size_t i = 0; i < 4; ++i) {
            const std::int64_t change = now[i] - (product < 0 ? -then[i] : then[i]);
            next.push_back(
                now[i] + static_cast<std::int64_t>(std::floor(static_cast<double>(change * factor_) / 256)));
        }
        std::vector<std::uint32_t> out;
        for (std::size_t i = 0; i < 4; ++i) {
            if (i == greatest) continue;
            const std::int64_t number = next[greatest] < 0 ? -next[i] : next[i];
            const double half = std::floor(static_cast<double>(number + most + 1) / 2);
            out.push_back(static_cast<std::uint32_t>(std::clamp(half, 0.0, static_cast<double>(most))));
        }
        return out;
    }

    /// "Group", a quantity of a trend.
    void read_predicted(const std::vector<Lane>& lanes, const Group& group, const Value& base,
                        bool is_rotation, std::vector<std::uint32_t>& values) {
        const Value& before = older_ != nullptr ? *older_ : base;
        const Lane& lane = lanes[group.first];
        std::vector<std::uint32_t> out;
        const auto turns = [&] {
            const std::size_t at = group.first - 1;
            return base.lanes[at] != values[at] || before.lanes[at] != values[at];
        };
        if (is_rotation && turns()) {
            out = rotation(base, before, group.first, values[group.first - 1], lane.greatest);
        } else {
            for (std::size_t i = group.first; i < group.first + group.count; ++i) {
                const std::int64_t sum = base.lanes[i] + expected(base.lanes[i], before.lanes[i]);
                const std::int64_t most = lane.greatest;
                out.push_back(static_cast<std::uint32_t>(
                    most == 0xffffffff ? sum : std::clamp<std::int64_t>(sum, 0, most)));
            }
        }
        for (std::size_t i = 0; i < group.count; ++i) {
            const unsigned width = width_of(zigzag(out[i] - base.lanes[group.first + i]));
            const std::uint32_t code = bits_.golomb(std::min((width + 2 * last_ + 3) / 4, 20u));
            last_ = width_of(code);
            values[group.first + i] = out[i] + unzigzag(code);
            if (values[group.first + i] > lane.greatest) bits_.refuse("a lane over its greatest value");
        }
    }

    /// "Group". `values` contains the baseline's lanes, or zeros.
    void read_group(const std::vector<Lane>& lanes, const Group& group, const Value* base,
                    std::vector<std::uint32_t>& values) {
        const bool has_base = base != nullptr;
        if (has_base && lanes[group.first].kind == LaneKind::quantity) {
            const std::size_t at = group.first - 1;
            const Lane four{LaneKind::symbol, true, 3};
            const bool is_rotation = group.first > 0 && group.count == 3 && lanes[at] == four &&
                                     lanes[group.first].is_bounded && lanes[group.first].greatest < 1 << 20;
            if (older_ != nullptr || (is_rotation && base->lanes[at] != values[at]))
                return read_predicted(lanes, group, *base, is_rotation, values);
        }
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
                    value = real(value, older_ != nullptr ? older_->lanes[i] : value, has_base, k, j);
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

    std::uint32_t real(std::uint32_t base, std::uint32_t before, bool has_base, unsigned& k, unsigned& j) {
        const auto change = [&](std::uint32_t now, std::uint32_t then) {
            return static_cast<std::uint32_t>(expected(now, then));
        };
        if (!bits_.bit()) {
            const std::uint32_t number = static_cast<std::uint32_t>(whole(base));
            const std::uint32_t moved = change(number, static_cast<std::uint32_t>(whole(before)));
            const unsigned width = width_of(zigzag(moved));
            const unsigned by_width = std::min(width < 8 ? width / 2 : width - 2, 20u);
            const std::uint32_t code = bits_.golomb(has_base ? by_width : k);
            k = next_order(code);
            if (code == 0 && base == before) return base;
            const std::uint32_t sum = number + moved + unzigzag(code);
            return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(sum)));
        }
        const std::uint32_t code = bits_.golomb(j);
        j = next_order(code);
        // order() is its own inverse.
        return order(order(base) + change(order(base), order(before)) + unzigzag(code));
    }

    /// "Part".
    using Elements = std::vector<std::vector<std::uint32_t>>;
    Elements part(const Part& part, const Elements* base) {
        older_ = nullptr;  // no trend inside parts
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
            if (lanes.size() == 1 || bits_.bit()) {
                const Value old{values, {}};
                read_group(lanes, {i, 1}, &old, values);
            }
    }

    std::vector<std::uint32_t> element(const std::vector<Lane>& lanes) {
        std::vector<std::uint32_t> values(lanes.size());
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            if (lanes[i].kind == LaneKind::symbol && lanes[i].greatest == 1) {
                values[i] = bits_.bit();
            } else {
                read_group(lanes, {i, 1}, nullptr, values);
            }
        }
        return values;
    }

    std::vector<const Component*> components_;
    Bits& bits_;
    std::uint32_t factor_ = 0;
    bool is_usual_ = false;
    const Value* older_ = nullptr;  // the older version's value of the component that is being read
    unsigned last_ = 5;
};

// Payloads

enum class Kind { delta, full, despawn };

struct Record {
    std::uint32_t slot = 0;
    Kind kind = Kind::delta;
    bool is_at_anchor = false;                  // delta
    bool is_same = false;                       // delta: another baseline, that of an earlier record
    std::uint32_t baseline = 0;                 // delta: tick
    std::uint32_t older = 0;                    // delta: ticks before the baseline
    std::uint32_t base_tick = 0;                // delta: of the baseline
    std::optional<std::uint32_t> older_tick{};  // delta: of the older version, if there is one
    std::uint32_t factor = 0;                   // delta
    std::uint32_t net_id = 0;                   // full
    std::uint32_t pending = 0;                  // full: 0 if the client did not spawn the entity
    unsigned reason = 0;                        // despawn
    State state;                                // delta, full
};

struct Payload {
    std::optional<std::uint64_t> anchor;  // number of the packet
    std::uint32_t tick = 0;
    std::uint32_t older = 0;
    bool is_listed = false, is_uniform = false;
    bool is_complete = false;
    std::uint32_t distance = 0, others = 0, quiet = 0;  // complete
    std::vector<Record> records;
};

/// What the receiver has of the entity in a slot.
struct Replica {
    std::uint32_t net_id = 0;
    std::uint32_t needed = 0;                 // tick of the oldest version that a delta may still name
    std::map<std::uint32_t, State> versions;  // by tick
    std::optional<std::uint32_t> known_from;  // versions before this tick may be forgotten
    std::map<std::uint32_t, State> former{};  // versions that came in another slot
    std::optional<std::uint32_t> bound{};     // the newest tick of these
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
        next_slot_ = next_listed_ = 0;
        gap_order_ = 1;
        std::optional<std::uint32_t> net_id;
        std::optional<std::pair<std::uint32_t, std::uint32_t>> other;
        for (std::uint32_t i = 0; i < count && bits.ok(); ++i) read_record(bits, net_id, other);
        read_padding(bits);
        why_ = bits.why();
        if (!bits.ok()) return false;
        ticks_[number] = payload_.tick;
        if (lists_[number % 64].number <= number) {
            lists_[number % 64] = {number, {}};
            for (const Record& record : payload_.records)
                if (record.kind != Kind::despawn) lists_[number % 64].slots.insert(record.slot);
        }
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
    /// The slots of the records of its anchor's packet, ascending, if they are listed.
    const std::vector<std::uint32_t>& listed() const { return listed_; }
    /// The rule that refused the last payload.
    const std::string& why() const { return why_; }
    const std::map<std::uint32_t, Replica>& replicas() const { return replicas_; }
    const Description& schema() const { return schema_; }

    /// Forgets a version, as a receiver may.
    void forget(std::uint32_t slot, std::uint32_t tick) {
        Replica& replica = replicas_[slot];
        replica.versions.erase(tick);
        std::optional<std::uint32_t> next;
        for (const auto& [at, state] : replica.versions)
            if (is_after(at, tick) && (!next || is_after(*next, at))) next = at;
        if (next && (!replica.known_from || is_after(*next, *replica.known_from))) replica.known_from = *next;
    }

private:
    /// "State payload". Returns the number of records.
    std::uint32_t read_header(std::uint64_t number, Bits& bits) {
        std::uint32_t anchor_distance = 0;
        if (bits.bit()) {
            const std::uint32_t distance = bits.golomb(2);
            if (distance > 254) bits.refuse("the distance of an anchor over 254");
            const std::uint32_t age = bits.golomb(0);
            anchor_distance = distance + 1;
            payload_.older = unzigzag(bits.golomb(0)) + 2;
            payload_.is_listed = bits.bit();
            if (payload_.is_listed && anchor_distance > 32) bits.refuse("a list of more than 32 packets ago");
            payload_.is_uniform = payload_.is_listed && bits.bit();
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
        listed_.clear();
        if (payload_.is_listed) {
            const List& list = lists_[*payload_.anchor % 64];
            if (list.number != *payload_.anchor) bits.refuse("an anchor that has no list");
            listed_.assign(list.slots.begin(), list.slots.end());
        }
        return count;
    }

    /// Returns the slot of the next record. Sets `is_listed`.
    std::uint32_t read_slot(Bits& bits, bool& is_listed) {
        is_listed = true;
        while (payload_.is_listed && next_listed_ < listed_.size() && bits.ok())
            if (const std::uint32_t slot = listed_[next_listed_++]; bits.bit()) return slot;
        is_listed = false;
        const std::uint32_t gap = bits.golomb(gap_order_);
        gap_order_ = std::min((gap_order_ + width_of(gap) + 1) / 2, 16u);
        next_slot_ += gap;
        if (next_slot_ >= 0xffffffffu) bits.refuse("a slot of 2^32 - 1 or more");
        return static_cast<std::uint32_t>(next_slot_++);
    }

    /// "Record".
    void read_record(Bits& bits, std::optional<std::uint32_t>& last_net_id,
                     std::optional<std::pair<std::uint32_t, std::uint32_t>>& other) {
        Record record;
        bool is_listed = false;
        record.slot = read_slot(bits, is_listed);
        if (bits.ok() && record.slot >= max_slots_) bits.refuse("a slot over the limit");
        if (!bits.ok()) return;
        if ((is_listed && payload_.is_uniform) || bits.bit()) {
            if (!payload_.anchor) {
                bits.refuse("a delta to an anchor that does not exist");
                return;
            }
            record.is_at_anchor = true;
            record.baseline = ticks_[*payload_.anchor];
            record.older = payload_.older;
            read_delta(bits, record);
        } else if (bits.bit()) {
            record.is_same = other && bits.bit();
            if (!record.is_same) {
                const std::uint32_t tick = payload_.tick - bits.golomb(5) - 1;
                other = {tick, bits.golomb(1)};
            }
            record.baseline = other->first;
            record.older = other->second;
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
        bool is_missing = replica == replicas_.end();
        std::optional<std::uint32_t> base;
        if (!is_missing) base = version_at(replica->second, record.baseline, is_missing);
        if (is_missing || !base) {
            bits.refuse("a delta without its baseline");
            return;
        }
        Trend trend{nullptr, factor_of(payload_.tick - record.baseline, record.older)};
        if (trend.factor != 0) {
            const std::uint32_t tick = record.baseline - record.older;
            const auto older = version_at(replica->second, tick, is_missing);
            if (is_missing) {
                bits.refuse("a delta without the older version that comes before its baseline");
                return;
            }
            if (older && tick - *older <= 8) {
                trend.older = &replica->second.versions[*older];
                record.older_tick = *older;
            }
        }
        record.base_tick = *base;
        record.factor = trend.factor;
        record.state = StateReader(schema_, bits).read(&replica->second.versions[*base], trend);
    }

    /// The tick of the newest version at `tick`. Sets `is_missing` if it may be forgotten.
    static std::optional<std::uint32_t> version_at(const Replica& replica, std::uint32_t tick,
                                                   bool& is_missing) {
        if (replica.versions.count(tick) != 0) return tick;
        if (replica.known_from && is_after(*replica.known_from, tick)) is_missing = true;
        std::optional<std::uint32_t> found;
        for (const auto& [at, state] : replica.versions)
            if (!is_after(at, tick) && (!found || is_after(at, *found))) found = at;
        return found;
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
            const auto& bound = is_of_slot ? known->second.bound : std::nullopt;
            if (is_of_slot && (!bound || is_after(payload_.tick, *bound)))
                known->second.versions.insert({payload_.tick, record.state});
            return;
        }
        newest_[record.slot] = payload_.tick;
        if (record.kind == Kind::despawn) {
            replicas_.erase(record.slot);
            return;
        }
        if (record.kind == Kind::full) bind(record);
        Replica& replica = replicas_[record.slot];
        if (record.kind == Kind::delta && is_after(record.baseline - record.older, replica.needed))
            replica.needed = record.baseline - record.older;
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
        Replica replica{record.net_id, payload_.tick - 16, {}, {}};
        if (from) {
            if (record.net_id < 0xff000000) {
                replica.former = replicas_[*from].former;
                replica.former.merge(replicas_[*from].versions);
                replica.bound = newest_[*from];
            }
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
    struct List {
        std::uint64_t number = 0;
        std::set<std::uint32_t> slots;
    };
    List lists_[64];                     // by number of the packet, modulo 64
    std::vector<std::uint32_t> listed_;  // of the anchor
    std::uint64_t next_slot_ = 0;
    std::size_t next_listed_ = 0;
    unsigned gap_order_ = 1;
    Payload payload_;
    std::string why_;
};

}  // namespace naive_replication
