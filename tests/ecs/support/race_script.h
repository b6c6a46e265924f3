#pragma once
// The random script of a race, which a world and its model follow, and its operations.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ecs/world.h"
#include "tests/ecs/support/race.h"
#include "tests/ecs/support/types.h"

namespace ecs_race {

using namespace shoal::ecs::impl;
using namespace ecs_types;

struct ChildOf {
    static constexpr auto relation = exclusive | destroy_with_target;
};
struct Follows {
    static constexpr auto relation = exclusive;
    int distance = 0;
};
struct Likes {
    static constexpr auto relation = many;
    Counted much{0};
};

// Kinds of components, in the order of their ids.
enum Kind { kHealth, kCounted, kSelf, kMoveOnly, kTag, kChildOf, kFollows, kLikes };
constexpr int kKinds = 5;      // kinds of components without relations
constexpr int kRelations = 3;  // kinds of relations
constexpr int kAll = kKinds + kRelations;

constexpr int kFirstPair = 1000;           // number of the first pair; the world's slots follow
constexpr int kCrowd = 32;                 // with more entities, many are destroyed
constexpr int kSlots = 24;                 // number of hooks
constexpr std::size_t kMaxReactions = 60;  // of hooks per step

struct Dice {
    std::uint64_t state;

    /// Returns 0 to sides - 1.
    int roll(int sides) {
        state = mix(state);
        return static_cast<int>(state % static_cast<unsigned>(std::max(sides, 1)));
    }
};

/// Components with values, sorted by number.
class Values {
public:
    struct Entry {
        int component;
        int value;
    };

    void set(int component, int value) {
        int at = size_;
        while (at != 0 && entries_[at - 1].component >= component) --at;
        if (at == size_ || entries_[at].component != component) {
            assert(size_ < kMax);
            std::copy_backward(entries_ + at, entries_ + size_, entries_ + size_ + 1);
            ++size_;
        }
        entries_[at] = {component, value};
    }
    Entry* find(int component) {
        for (Entry& entry : *this)
            if (entry.component == component) return &entry;
        return nullptr;
    }
    const Entry* find(int component) const { return const_cast<Values*>(this)->find(component); }
    bool has(int component) const { return find(component) != nullptr; }

    int size() const { return size_; }
    bool empty() const { return size_ == 0; }
    Entry* begin() { return entries_; }
    Entry* end() { return entries_ + size_; }
    const Entry* begin() const { return entries_; }
    const Entry* end() const { return entries_ + size_; }

private:
    static constexpr int kMax = kKinds + 3;
    Entry entries_[kMax];
    int size_ = 0;
};

// kBatch precedes the events of its rows. kVisit: a row of an iteration.
enum Event { kAdd, kChange, kRemove, kDestroy, kBatch, kVisit };

struct Traced {
    int what;
    int component;
    int entity;  // or the number of rows
    int value;
    int detail;         // Removal and whether the entity is dying; or the kind of visit
    int slot;           // of the hook
    std::uint64_t has;  // digest of the components that the entity has
    bool operator==(const Traced&) const = default;
};

/// A hash of a sequence of numbers; starts with 0.
inline std::uint64_t digest(std::uint64_t before, int number) {
    const std::uint64_t sum = (before ^ static_cast<std::uint64_t>(number + 1)) * 0x9E37'79B9'7F4A'7C15;
    return sum ^ (sum >> 32);
}

/// How a hook is connected.
struct Connection {
    int event;
    int kind;
    bool is_batch;
    bool is_by_id;
};

/// The interface of a world and its model. `how` selects one of the world's functions with the same result.
class Side {
public:
    virtual ~Side() = default;
    virtual void spawn(const Values& values) = 0;
    virtual void spawn_n(int count, int value, bool is_generated) = 0;
    virtual void destroy(int entity) = 0;
    virtual void destroy_frozen() = 0;
    virtual void clear() = 0;
    virtual void set(int entity, const Values& values, int how) = 0;
    virtual void add(int entity, int component, int how) = 0;
    virtual void remove(int entity, const Values& components, int how) = 0;
    virtual void patch(int entity, int component, int by, int how) = 0;  // by 0: returns false
    virtual void mut(int entity, int component, int by) = 0;             // acts while the Mut lives
    virtual int pair(int relation, int target) = 0;                      // the component number of the pair
    virtual void set_singleton(int value) = 0;
    virtual void set_singletons(int entity) = 0;
    virtual void iterate(int component, int mode, int how) = 0;
    virtual void iterate_sources(int relation, int target, int how) = 0;
    virtual void iterate_targets(int relation, int source) = 0;
    virtual void iterate_entities() = 0;
    virtual void connect(int slot, Connection how) = 0;
    virtual void disconnect(int slot) = 0;
    virtual void release(int slot) = 0;
    virtual void mark(int entity, int kind) = 0;  // kind kAll: all kinds that it has
    virtual void forget(int entity) = 0;
    virtual void defer(std::uint64_t first, std::uint64_t second) = 0;  // acts, while a Deferral lives
    virtual void delay_hooks(std::uint64_t first, std::uint64_t second) = 0;
    virtual void keep_deferral() = 0;  // or ends the one kept
    virtual bool keeps_deferral() const = 0;
    virtual int size() = 0;
    virtual bool is_alive(int entity) = 0;
    virtual std::vector<int> living() = 0;

    /// Runs a step.
    void begin(std::uint64_t dice) {
        seed = dice;
        trace.clear();
        act(mix(dice));
        while (keeps_deferral()) keep_deferral();
    }

    std::uint64_t seed = 0;
    std::vector<Traced> trace;
    int nesting = 0;
    int spawned = 0;

protected:
    void act(std::uint64_t roll) {
        Dice dice{roll};
        if (size() > kCrowd) return thin_out(dice);
        const int entity = dice.roll(8) == 0 ? dice.roll(spawned) : recent(dice, 30);
        const bool is_usable = is_alive(entity);
        const int what = dice.roll(40);
        if (what < 20) {
            if (is_usable) change(what, entity, dice);
        } else if (what < 26) {
            populate(what - 20, entity, dice);
        } else if (what < 31) {
            subscribe(what - 26, entity, dice);
        } else if (nesting < 2) {
            ++nesting;
            hold(what - 31, entity, dice);
            --nesting;
        }
    }

    void react() {
        if (trace.size() >= kMaxReactions) return;
        const std::uint64_t roll = mix(seed ^ mix(trace.size()));
        if (roll % 3 != 0) return;
        act(roll);
        if (roll % 2 == 0) act(~roll);
    }

    void visit(int component, int entity, int value, int mode) {
        trace.push_back({kVisit, component, entity, value, mode, 0, 0});
        react();
    }

private:
    int recent(Dice& dice, int most) { return spawned - 1 - dice.roll(std::min(spawned, most)); }

    void thin_out(Dice& dice) {
        std::vector<int> doomed = living();
        std::erase_if(doomed, [&](int) { return dice.roll(4) == 0; });
        for (const int entity : doomed) destroy(entity);
    }

    Values some(Dice& dice, int sides = 3) {
        Values values;
        for (int kind = 0; kind < kKinds; ++kind)
            if (dice.roll(sides) == 0) values.set(kind, kind == kTag ? 0 : dice.roll(100));
        return values;
    }

    /// Adds a pair if the target is alive; only one if the relation is exclusive.
    int some_pair(Dice& dice, Values& values, int relations = kRelations) {
        const int relation = kRelations - 1 - dice.roll(relations), target = recent(dice, 12);
        const int value = dice.roll(100);
        if (!is_alive(target)) return 0;
        const int component = pair(relation, target);
        values.set(component, relation + kKinds == kChildOf ? 0 : value);
        return component;
    }

    /// Chooses components of several kinds, sometimes with pairs.
    Values several(Dice& dice) {
        Values values = some(dice);
        if (dice.roll(3) == 0) some_pair(dice, values);
        if (dice.roll(9) == 0) some_pair(dice, values, 1);
        return values;
    }

    void change(int what, int entity, Dice& dice) {
        const int kind = dice.roll(kKinds), value = dice.roll(100), how = dice.roll(3), by = dice.roll(4);
        Values values;
        switch (what) {
            case 0:
            case 1:
                values.set(kind, kind == kTag ? 0 : value);
                return set(entity, values, how);
            case 2:
            case 3:
                values = several(dice);
                return values.empty() ? void() : set(entity, values, how);
            case 4:
                return add(entity, kind, how);
            case 5:
            case 6:
                values.set(kind, 0);
                return remove(entity, values, how);
            case 7:
            case 8:
                values = some(dice, 2);
                some_pair(dice, values);
                return remove(entity, values, how);
            case 9:
            case 10:
                return kind == kTag ? void() : patch(entity, kind, by, how);
            case 11:
                return kind == kTag ? void() : mut(entity, kind, by);
            case 12:
                if (const int pair = some_pair(dice, values, 2)) patch(entity, pair, by, how);
                return;
            case 13:
                if (const int pair = some_pair(dice, values)) add(entity, pair, how);
                return;
            case 14:
                if (some_pair(dice, values) != 0) remove(entity, values, how);
                return;
            default:
                if (some_pair(dice, values) != 0) set(entity, values, how);
        }
    }

    void populate(int what, int entity, Dice& dice) {
        const int count = 1 + dice.roll(4), value = dice.roll(100), rare = dice.roll(24);
        switch (what) {
            case 0:
            case 1:
            case 2:
                return spawn(several(dice));
            case 3:
                return spawn_n(count, value, dice.roll(2) == 0);
            case 4:
                if (spawned != 0) destroy(entity);
                return;
            default:
                if (rare < 4) destroy_frozen();
                if (rare >= 4 && rare < 10) set_singleton(value);
                if (rare == 10 && spawned != 0) set_singletons(entity);
                if (rare == 11 && dice.roll(8) == 0) clear();
        }
    }

    void subscribe(int what, int entity, Dice& dice) {
        const int slot = dice.roll(kSlots), kind = dice.roll(kAll), rare = dice.roll(32);
        switch (what) {
            case 0:
            case 1: {
                const int event = dice.roll(4), style = dice.roll(4);
                disconnect(slot);
                return connect(slot, {event, event == kDestroy ? 0 : kind, style % 2 == 0, style / 2 == 0});
            }
            case 2:
                if (rare % 2 == 0) disconnect(slot);
                if (rare == 1 && spawned % 64 == 0) release(slot);
                return;
            case 3:
                return is_alive(entity) ? mark(entity, rare < 12 ? kAll : kind) : void();
            default:
                if (rare < 8 && spawned != 0) forget(entity);
        }
    }

    /// Iterations, Muts and deferrals, during which other operations run.
    void hold(int what, int entity, Dice& dice) {
        const int kind = dice.roll(kKinds - 1), relation = dice.roll(kRelations), how = dice.roll(3);
        switch (what) {
            case 0:
            case 1:
            case 2:
                return iterate(kind, dice.roll(5), how);
            case 3:
            case 4:
                return spawned != 0 ? iterate_sources(relation, recent(dice, 12), how) : void();
            case 5:
                return spawned != 0 ? iterate_targets(relation, entity) : void();
            case 6:
                return how == 0 ? iterate_entities() : void();
            case 7:
                return how == 0 ? defer(mix(dice.state), ~dice.state)
                                : delay_hooks(mix(dice.state), ~dice.state);
            default:
                keep_deferral();
        }
    }
};

// Values of components are made from numbers, and read as numbers.

template <class T>
T make(int value) {
    if constexpr (std::is_same_v<T, MoveOnly>) {
        return MoveOnly{std::make_unique<int>(value)};
    } else if constexpr (std::is_same_v<T, Likes>) {
        return Likes{Counted{value}};
    } else if constexpr (std::is_empty_v<T>) {
        return {};
    } else {
        return T{value};
    }
}

inline int& number_in(Health& v) {
    return v.points;
}
inline int& number_in(Counted& v) {
    return v.value;
}
inline int& number_in(SelfReferential& v) {
    return v.value;
}
inline int& number_in(MoveOnly& v) {
    return *v.value;
}
inline int& number_in(Follows& v) {
    return v.distance;
}
inline int& number_in(Likes& v) {
    return v.much.value;
}

template <class T>
int value_of(const T& value) {
    if constexpr (std::is_same_v<T, SelfReferential>)
        if (!value.is_intact()) return -1'000'000;
    if constexpr (std::is_same_v<T, MoveOnly>)
        if (value.value == nullptr) return -2'000'000;
    return number_in(const_cast<T&>(value));
}

/// Calls fn with the type of a kind.
template <class Fn>
void with_type(int kind, Fn&& fn) {
    switch (kind) {
        case kHealth:
            return fn.template operator()<Health>();
        case kCounted:
            return fn.template operator()<Counted>();
        case kSelf:
            return fn.template operator()<SelfReferential>();
        case kMoveOnly:
            return fn.template operator()<MoveOnly>();
        case kTag:
            return fn.template operator()<Frozen>();
        case kChildOf:
            return fn.template operator()<ChildOf>();
        case kFollows:
            return fn.template operator()<Follows>();
        case kLikes:
            return fn.template operator()<Likes>();
    }
}

template <class T>
constexpr int kind_of_type = std::is_same_v<T, Health>            ? kHealth
                             : std::is_same_v<T, Counted>         ? kCounted
                             : std::is_same_v<T, SelfReferential> ? kSelf
                             : std::is_same_v<T, MoveOnly>        ? kMoveOnly
                                                                  : kTag;

/// Calls fn with the types of these components if they are one of the sets below; else returns false.
template <class Fn>
bool with_types(const Values& values, Fn&& fn) {
    unsigned set = 0;
    for (const Values::Entry& entry : values) set |= 1u << std::min(entry.component, 31);
    switch (set) {
        case 0b00001:
            return fn.template operator()<Health>(), true;
        case 0b00011:
            return fn.template operator()<Counted, Health>(), true;
        case 0b00110:
            return fn.template operator()<Counted, SelfReferential>(), true;
        case 0b01001:
            return fn.template operator()<Health, MoveOnly>(), true;
        case 0b10011:
            return fn.template operator()<Frozen, Health, Counted>(), true;
        case 0b01110:
            return fn.template operator()<SelfReferential, MoveOnly, Counted>(), true;
        default:
            return false;
    }
}

}  // namespace ecs_race
