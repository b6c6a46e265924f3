#pragma once
// Reads the state of an entity for the second decoder, see naive_decoder.h: components, their groups and
// parts, and what a trend predicts.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "naive_bits.h"
#include "naive_schema.h"

namespace naive_replication {

struct Value {
    std::vector<std::uint32_t> lanes;
    std::vector<std::vector<std::vector<std::uint32_t>>> parts;  // by part, element and lane
    bool operator==(const Value&) const = default;
};

/// By index of the component.
using State = std::map<std::uint32_t, Value>;

/// "Range coder": the slots of a group in a trained model, after its first 16.
inline unsigned slots_of(const Lane& lane) {
    if (lane.kind == LaneKind::real) return 4;
    if (lane.kind != LaneKind::symbol || lane.greatest == 1) return 0;
    return lane.bits() <= 10 ? 3 * ((1u << lane.bits()) - 1) : 2 * lane.bits();
}

inline unsigned slots_of(const Component& component) {
    const std::vector<Lane> lanes = lanes_of(component.fields);
    const std::vector<Group> groups = groups_of(lanes);
    const std::size_t pieces = groups.size() + list_parts(component.parts).size();
    if (component.is_tag || pieces == 0) return 0;
    unsigned slots = 4 + 16 * static_cast<unsigned>(pieces);
    for (const Group& group : groups) slots += slots_of(lanes[group.first]);
    return slots;
}

/// "Symbol": what a trained model begins with.
inline void add_symbol(const Lane& lane, std::vector<std::uint8_t>& model) {
    const unsigned n = lane.bits();
    if (n > 10) return model.resize(model.size() + 2 * n, 51);
    for (unsigned prefix = 1; prefix < 1u << n; ++prefix) {
        const unsigned m = n + 1 - width_of(prefix);
        const bool has_zeros = prefix == 1u << (width_of(prefix) - 1);
        const unsigned second = 256 / m;
        model.push_back(!lane.is_bounded && has_zeros && m > 3 ? 64 : 128);
        model.push_back(static_cast<std::uint8_t>(second > 255 ? 255 : second));
        model.push_back(static_cast<std::uint8_t>(second > 255 ? 1 : 256 - second));
    }
}

/// "13 model": the bytes of a trained model. Empty if they are invalid. The hash is not read.
inline std::vector<std::uint8_t> trained_model(const Description& schema, const std::uint8_t* built_in,
                                               std::span<const std::byte> bytes) {
    std::vector<std::uint8_t> model(built_in, built_in + 3'008);
    const auto copy = [&](unsigned from, unsigned count) {
        model.insert(model.end(), built_in + from, built_in + from + count);
    };
    for (const auto& [id, component] : schema) {
        if (slots_of(component) == 0) continue;
        copy(2892, 4);
        const std::vector<Lane> lanes = lanes_of(component.fields);
        for (const Group& group : groups_of(lanes)) {
            const Lane& lane = lanes[group.first];
            copy(2896, 16);
            if (lane.kind == LaneKind::real) copy(2912, 4);
            if (lane.kind == LaneKind::symbol && lane.greatest != 1) add_symbol(lane, model);
        }
        for (std::size_t i = 0; i < list_parts(component.parts).size(); ++i) copy(2896, 16);
    }
    Bits bits(bytes);
    bits.number(32), bits.number(32);
    std::size_t at = bits.golomb(1);
    for (; bits.ok() && at < model.size(); at += 1 + std::size_t{bits.golomb(1)})
        if ((model[at] = static_cast<std::uint8_t>(bits.number(8))) == 0) return {};
    return bits.ok() && at == model.size() ? model : std::vector<std::uint8_t>();
}

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
    /// `is_trained`: the string has a trained model.
    StateReader(const Description& schema, Bits& bits, bool is_trained = false)
        : bits_(bits), is_trained_(is_trained) {
        for (const auto& [id, component] : schema) components_.push_back(&component);
    }

    /// "Image". `base` is null for a full record.
    State read(const State* base, Trend trend = {}) {
        factor_ = trend.factor;
        std::vector<bool> moved;
        if (base != nullptr && trend.older != nullptr && trend.factor != 0)
            moved = pieces(*trend.older, *base);
        const bool moves = std::find(moved.begin(), moved.end(), true) != moved.end();
        const std::size_t pieces_moved =
            static_cast<std::size_t>(std::count(moved.begin(), moved.end(), true));
        is_usual_ = moves && bits_.bit(2880 + static_cast<unsigned>(std::min<std::size_t>(pieces_moved, 7)));
        std::set<std::uint32_t> indices;
        if (is_usual_) {
            for (const auto& [index, value] : *base) indices.insert(index);
        } else {
            indices = base == nullptr ? full_list() : delta_list(*base);
        }
        const bool has_trend = moves && indices.size() == base->size() &&
                               std::all_of(base->begin(), base->end(),
                                           [&](const auto& item) { return indices.count(item.first) != 0; });
        has_moved_ = has_trend;
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
        is_usual_ = has_moved_ = false;
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
        if (!bits_.bit(2888)) return out;
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
        unsigned slot = 3'008;  // the first one of this component
        for (std::size_t i = 0; components_[i] != &component; ++i) slot += slots_of(*components_[i]);
        const unsigned changed_slot = is_trained_ ? slot : 2'892;
        slot += 4;
        const std::size_t count = component.is_tag ? 0 : groups.size() + parts.size();
        std::vector<bool> mine;
        if (has_moved_) {
            mine.assign(moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>(count));
            moved.erase(moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>(count));
        }
        const bool any = std::find(mine.begin(), mine.end(), true) != mine.end();
        const unsigned known = base == nullptr ? 0 : !has_moved_ ? 1 : any ? 3 : 2;
        if (count == 0 || !(is_usual_ ? any : bits_.bit(changed_slot + known))) return out;
        std::size_t piece = 0;
        unsigned before = 0;
        const auto differs = [&] {
            const bool moves = has_moved_ && mine[piece];
            ++piece;
            if (is_usual_) return moves;
            if (count == 1) return true;
            const bool is_one =
                bits_.bit((is_trained_ ? slot : 2'896) + 4 * (known < 2 ? known : 2 + moves) + before);
            before = (before != 0 ? 2u : 0u) + is_one;
            return is_one;
        };
        for (const Group& group : groups) {
            own_slot_ = is_trained_ ? std::optional(slot + 16) : std::nullopt;
            if (differs()) read_group(lanes, group, base, out.lanes);
            slot += 16 + slots_of(lanes[group.first]);
        }
        own_slot_.reset();
        for (std::size_t i = 0; i < parts.size() && bits_.ok(); ++i, slot += 16)
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

    static unsigned sign_of(std::uint32_t change) { return change == 0 ? 0 : change >> 31 == 0 ? 1 : 2; }

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
            const std::uint32_t change = out[i] - base.lanes[group.first + i];
            const unsigned width = width_of(zigzag(change));
            const unsigned scale = std::min((width + last_ + 1) / 3, 19u);
            const unsigned reach = older_ == nullptr || factor_ < 128 ? 0
                                   : factor_ < 256                    ? 1
                                   : factor_ < 512                    ? 2
                                                                      : 3;
            const std::uint32_t code = bits_.residual(std::min((width + 2 * last_ + 3) / 4, 20u),
                                                      20 * reach + scale, scale, sign_of(change));
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
                        const unsigned order = std::min(k, 15u);
                        const std::uint32_t code = bits_.residual(k, 80 + order, order, 0);
                        k = next_order(code);
                        value += unzigzag(code);
                    }
                    break;
                case LaneKind::symbol:
                    if (lane.greatest == 1) {
                        value = 1 - value;
                    } else {
                        value = symbol(lane, has_base, value);
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

    /// "Symbol"
    std::uint32_t symbol(const Lane& lane, bool has_base, std::uint32_t base) {
        const unsigned n = lane.bits();
        if (own_slot_ && n <= 10) {
            std::uint32_t prefix = 1;
            bool follows = has_base;
            for (unsigned left = n; left > 0; --left) {
                const bool old = (base >> (left - 1) & 1) != 0;
                const bool bit = bits_.bit(*own_slot_ + 3 * (prefix - 1) + (!follows ? 0 : old ? 2 : 1));
                follows = follows && bit == old;
                prefix = 2 * prefix + bit;
            }
            return prefix - (1u << n);
        }
        if (own_slot_ && has_base) {
            for (unsigned left = n; left > 0; --left) {
                const unsigned i = left - 1;
                if (bits_.bit(*own_slot_ + 2 * i + (base >> i & 1))) base ^= 1u << i;
            }
            return base;
        }
        return lane.is_bounded ? static_cast<std::uint32_t>(bits_.number(n)) : bits_.golomb(3);
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
        const bool moves = base != before;
        if (!bits_.bit(own_slot_.value_or(2'912) + (has_base ? 2 : 0) + moves)) {
            const std::uint32_t number = static_cast<std::uint32_t>(whole(base));
            const std::uint32_t moved = change(number, static_cast<std::uint32_t>(whole(before)));
            const unsigned width = width_of(zigzag(moved));
            const unsigned by_width = std::min(width < 8 ? width / 2 : width - 2, 20u);
            const std::uint32_t code = has_base ? bits_.residual(by_width, 96 + std::min(width, 20u),
                                                                 std::min(width / 2, 19u), sign_of(moved))
                                                : bits_.residual(k, 117, 0, 0);
            k = next_order(code);
            if (code == 0 && base == before) return base;
            const std::uint32_t sum = number + moved + unzigzag(code);
            return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(sum)));
        }
        const std::uint32_t code = bits_.residual(j, 118 + moves, 16, 0);
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
    bool has_moved_ = false;        // it is known which groups and parts moved
    const Value* older_ = nullptr;  // the older version's value of the component that is being read
    unsigned last_ = 5;
    const bool is_trained_;
    std::optional<unsigned> own_slot_;  // of the group in a trained model, after its first 16
};

}  // namespace naive_replication
