// A client whose history has other values than the server: found by a check sum, named, and healed.

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/replication/support/play.h"

namespace shoal::replication::impl {
namespace {

using namespace std::chrono_literals;

struct CheckedSpot {
    int x = 0;
};
struct CheckedText {
    std::string text;
};
struct CheckedSecret {
    int number = 0;
};

struct DifferencesSeen final : ServerListener, ClientListener {
    void on_difference(net::PeerId, ecs::Entity entity) override { at_server.push_back(entity); }
    void on_difference(ecs::Entity entity) override { at_client.push_back(entity); }
    void on_join(net::PeerId peer) override { player = peer; }
    std::vector<ecs::Entity> at_server, at_client;
    net::PeerId player{};
};

TEST(SelfCheck, AFlippedLaneInAClientsHistoryIsFoundAndHealed) {
    Schema schema;
    schema.component<CheckedSpot>("spot");
    schema.component<CheckedText>("text");
    schema.component<CheckedSecret>("secret", to_owner());
    DifferencesSeen seen;
    Play play(std::move(schema), {.latency = 40ms}, 1, Play::server_options(), &seen);
    std::vector<ecs::Entity> all;
    for (int i = 0; i < 20; ++i)
        all.push_back(play.world.spawn(Replicated{}, CheckedSpot{i}, CheckedText{"abc"}, CheckedSecret{i}));
    play.before_tick = [&] {  // the first ten move
        for (int i = 0; i < 10; ++i)
            play.world.patch<CheckedSpot>(all[std::size_t(i)], [](CheckedSpot& spot) { spot.x += 3; });
    };
    Play::Guest& guest = play.add({}, &seen);
    play.run(300);
    EXPECT_EQ(guest.client.receiver().stats().differences, 0u);
    for (const std::size_t victim : {3u, 15u}) {
        const NetId net_id = play.server.sender().net_id(all[victim]);
        guest.client.receiver().for_each_version([&](std::uint32_t, NetId at, Tick, const Image& image) {
            if (at == net_id) const_cast<std::uint32_t&>(image.words[0]) ^= 4;  // what bad memory does
        });
    }
    play.run(200);  // four seconds
    for (std::vector<ecs::Entity>* const named : {&seen.at_server, &seen.at_client}) {
        std::ranges::sort(*named, {}, &ecs::Entity::index);
        EXPECT_EQ(named->size(), 2u);
    }
    EXPECT_EQ(seen.at_server, (std::vector{all[3], all[15]}));
    EXPECT_EQ(guest.client.receiver().stats().differences, 2u);
    EXPECT_EQ(play.server.stats(seen.player).state.differences, 2u);
    play.before_tick = nullptr;
    play.run(20);
    for (const ecs::Entity entity : all)
        EXPECT_EQ(guest.world.get<CheckedSpot>(play.replica(guest, entity)).x,
                  play.world.get<CheckedSpot>(entity).x);
}

TEST(SelfCheck, AStateHeaderWithACheckIsReadAsWritten) {
    StateHeader header;
    header.tick = 100;
    header.anchor = StateHeader::Anchor{255, 300, 2};
    header.check = StateHeader::Check{70'000, 12, 0xbeef};
    BitWriter out;
    EXPECT_EQ(write_state_header(header, &out), out.bit_count());
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    BitReader in(bytes);
    const StateHeader read = read_state_header(in);
    ASSERT_TRUE(in.ok() && read.check && read.anchor);
    EXPECT_EQ(read.anchor->distance, 255u);
    EXPECT_EQ(read.anchor->age, 300u);
    EXPECT_EQ(read.check->slot, 70'000u);
    EXPECT_EQ(read.check->age, 12u);
    EXPECT_EQ(read.check->sum, 0xbeef);
}

}  // namespace
}  // namespace shoal::replication::impl
