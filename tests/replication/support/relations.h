#pragma once
// Relations, and a server and a client whose schema has them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <vector>

#include "replication/schema/pairs.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {

namespace relations {

struct Escorts {
    static constexpr auto relation = ecs::exclusive;
    float distance = 1;
};
struct Knows {
    static constexpr auto relation = ecs::many;
};
struct Owes {
    static constexpr auto relation = ecs::many;
    std::int32_t coins = 7;
    ecs::Entity witness;
};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

using Entities = std::vector<ecs::Entity>;

struct Hires {
    static constexpr auto relation = ecs::many;
    std::int32_t note = 0;  // of each side
    std::int32_t wage = 0;
};

}  // namespace relations
}  // namespace shoal::replication::impl

template <>
struct shoal::replication::Replicate<shoal::replication::impl::relations::Hires> {
    static auto fields(auto& v) { return std::tie(v.wage); }
};

namespace shoal::replication::impl {
namespace relations {

class Pairs : public testing::Test, public Pair {
protected:
    Pairs() : Pair({}, {}, 1, 1, describe()) {}

    static Schema describe() {
        Schema out;
        out.component<sim::Health>("health");
        out.pair<Escorts>("escorts", field(&Escorts::distance, quantised(0, 100, 0.5)));
        out.pair<Knows>("knows", max_length(40));
        out.pair<Owes>("owes", field(&Owes::coins, bounded(0, 100)));
        out.pair<PartOf>("part_of");
        out.pair<Hires>("hires");
        return out;
    }
    /// Makes each entity a part of the one before it.
    void chain(std::initializer_list<ecs::Entity> entities) {
        for (const ecs::Entity* one = entities.begin() + 1; one != entities.end(); ++one)
            world.add(*one, ecs::to<PartOf>(one[-1]));
    }
    void exchange() {
        Pair::exchange();
        EXPECT_TRUE(receiver.is_consistent());
        EXPECT_TRUE(sender.shadow().is_consistent());
        EXPECT_TRUE(worlds_are_equal());
    }
    /// A tick whose only packet arrives.
    void tick_and_apply() {
        deliver(tick_and_encode());
        receiver.apply();
    }
    /// A tick in packets that hold this many bytes, or one record that is larger.
    std::vector<SentPacket> tick_in_packets_of(std::size_t capacity) {
        tick();
        std::vector<SentPacket> packets;
        while (const auto packet = encode(capacity)) packets.push_back(*packet);
        return packets;
    }
    template <class R>
    Entities targets(ecs::Entity source) {
        Entities out;
        for (const ecs::Entity target : mirror.targets<R>(replica(source))) out.push_back(target);
        std::sort(out.begin(), out.end());
        return out;
    }
};

}  // namespace relations

}  // namespace shoal::replication::impl
