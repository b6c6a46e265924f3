// The server and a client that interpolates measure the same time between two versions of an entity.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/replication/support/link.h"

namespace shoal::replication::impl::sender_gaps_test {
namespace {

struct Buoy {
    float height = 0;
};
struct Oar {
    std::int8_t turn = 0;
};

Schema buoy_schema() {
    Schema schema;
    schema.component<Buoy>("buoy", linear());
    schema.input<Oar>("oar");
    return schema;
}

// Both ignore pauses of more than 250 ms.
TEST(SenderGaps, AreThoseThatTheClientMeasures) {
    for (const double tick_hz : {4.0, 10.0, 30.0, 50.0, 60.0, 64.0, 128.0}) {
        SCOPED_TRACE(tick_hz);
        ServerOptions options = Link::default_options();
        options.sender.tick_hz = tick_hz;
        Link link(options, buoy_schema());
        Link::Player& player = link.add();
        const ecs::Entity buoy = link.world.spawn(Replicated{}, Buoy{});
        const auto run = [&](int ticks) {
            for (int i = 0; i < std::max(1, ticks); ++i) {
                link.now += std::chrono::microseconds(static_cast<int>(1e6 / tick_hz));
                link.exchange();
                link.server.tick(link.now);
                link.exchange();
                player.client.update(link.now);
            }
        };
        run(20);
        const int most = static_cast<int>(tick_hz / 4);
        for (const int gap : {2, most - 1, 1, most, 2, most + 1, 1, most * 5 / 4 + 1, 1}) {
            link.world.patch<Buoy>(buoy, [](Buoy& one) { one.height += 1; });
            run(gap);
        }
        const auto slot = link.server.sender().slot_of(0, buoy);
        ASSERT_TRUE(slot);
        const float measured = link.server.sender().view(0).deliveries(*slot).mean_gap();
        const Replicas& replicas = player.client.receiver().replicas();
        const std::uint32_t index = replicas.ids().find(link.server.assign_net_id(buoy));
        EXPECT_FLOAT_EQ(measured, replicas[index].mean_gap);
        EXPECT_GT(measured, 0);
    }
}

}  // namespace
}  // namespace shoal::replication::impl::sender_gaps_test
