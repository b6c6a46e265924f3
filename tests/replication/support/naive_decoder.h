#pragma once
// A second decoder for the payloads of replication, written from replication/WIRE.md alone and as simple as
// possible. Of the library it uses only the table of probabilities: the schema is described by hand.

#include <algorithm>
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
#include "naive_state.h"
#include "replication/codec/model.h"

namespace naive_replication {

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

/// "Self-check".
struct Check {
    std::uint32_t slot = 0, age = 0, sum = 0;
};

struct Payload {
    std::optional<Check> check;
    bool differs = false;                 // what `check` says is not true
    std::optional<std::uint64_t> anchor;  // number of the packet
    std::uint32_t tick = 0;
    std::uint32_t older = 0;
    bool is_listed = false, is_uniform = false;
    bool is_complete = false, is_coded = false;
    unsigned model = 0;                                 // 0: the built-in one
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
        if (payload_.check) check(*payload_.check);
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

    /// "13 model". Returns false if the bytes are invalid.
    bool add_model(unsigned number, std::span<const std::byte> bytes) {
        models_[number] = trained_model(schema_, built_in(), bytes);
        return !models_[number].empty();
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
    static const std::uint8_t* built_in() { return shoal::replication::impl::kBuiltInModel.data(); }

    /// "State payload". Returns the number of records.
    std::uint32_t read_header(std::uint64_t number, Bits& bits) {
        std::uint32_t anchor_distance = 0;
        if (bits.bit()) {
            std::uint32_t distance = bits.golomb(2);
            if (distance == 255) {
                payload_.check.emplace();
                payload_.check->slot = bits.golomb(8);
                payload_.check->age = bits.golomb(3);
                payload_.check->sum = static_cast<std::uint32_t>(bits.number(16));
                distance = bits.golomb(2);
            }
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
        payload_.is_coded = bits.bit();
        if (payload_.is_coded && bits.bit()) {
            payload_.model = static_cast<unsigned>(bits.number(2));
            if (models_.count(payload_.model) == 0) bits.refuse("a model that was not sent");
        }
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
            record.state = read_image(bits, nullptr, {});
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
        record.state = read_image(bits, &replica->second.versions[*base], trend);
    }

    State read_image(Bits& bits, const State* base, const Trend& trend) {
        const bool is_string = payload_.is_coded && (base != nullptr || !bits.bit());
        const bool is_trained = payload_.model != 0;
        if (is_string) bits.begin_string(is_trained ? models_[payload_.model].data() : built_in());
        State out = StateReader(schema_, bits, is_string && is_trained).read(base, trend);
        if (is_string) bits.end_string();
        return out;
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

    /// "Self-check".
    void check(const Check& check) {
        const auto replica = replicas_.find(check.slot);
        bool is_missing = replica == replicas_.end();
        std::optional<std::uint32_t> at;
        if (!is_missing) at = version_at(replica->second, payload_.tick - check.age, is_missing);
        if (is_missing || !at) return;
        std::uint32_t sum = 0x811c9dc5;
        const auto mix = [&](std::uint32_t word) { sum = (sum ^ word) * 16777619; };
        for (const auto& [index, value] : replica->second.versions[*at]) {
            if (schema_[index].second.is_from_owner) continue;
            mix(index);
            for (const std::uint32_t lane : value.lanes) mix(lane);
            for (const auto& part : value.parts) {
                mix(static_cast<std::uint32_t>(part.size()));
                for (const auto& element : part)
                    for (const std::uint32_t lane : element) mix(lane);
            }
        }
        payload_.differs = ((sum ^ sum >> 16) & 0xffff) != check.sum;
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
    std::map<unsigned, std::vector<std::uint8_t>> models_;  // by number
    std::map<std::uint64_t, std::uint32_t> ticks_;          // of accepted packets, by number
    std::map<std::uint32_t, std::uint32_t> newest_;         // by slot: tick of its newest record
    std::map<std::uint32_t, Replica> replicas_;             // by slot
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
