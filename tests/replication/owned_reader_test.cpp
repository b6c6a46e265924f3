#include "replication/play/owned_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "replication/codec/codec.h"
#include "tests/replication/support/harbour.h"

namespace shoal::replication::all::owned_reader_test {
namespace {

using harbour::Aim;
using harbour::Banner;
using harbour::Cargo;
using harbour::Harbour;
using harbour::owned_schema;

/// A section with one value or more, all of one component.
std::vector<std::byte> owned_section(std::uint32_t count_less_one, std::uint32_t net_id,
                                     std::uint32_t component, const std::string& text) {
    BitWriter out;
    out.write_golomb(count_less_one, kOwnedCountOrder);
    for (std::uint32_t i = 0; i <= std::min(count_less_one, 300u); ++i) {
        if (i == 0) out.write(net_id, 32);
        if (i > 0) out.write_golomb(0, kOwnedNetIdOrder);
        out.write_golomb(component, kOwnedComponentOrder);
        std::vector<std::uint32_t> words{static_cast<std::uint32_t>(text.size())};
        for (const char c : text) words.push_back(static_cast<unsigned char>(c));
        const Schema schema = owned_schema();
        write_value(schema.components()[schema.find<Banner>()].layout, {}, words, out);
    }
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    return bytes;
}

bool read_forged(Harbour& harbour, std::uint64_t packet, const std::vector<std::byte>& section) {
    BitReader in(section);
    if (!harbour.stage.owned.read_section(harbour.first.id, packet, in)) return false;
    harbour.stage.owned.commit_section(harbour.first.id, {});
    return true;
}

TEST(OwnedReader, HostileSectionsHaveNoEffect) {
    Harbour harbour;
    const ecs::Entity foreign = harbour.stage.world.spawn(Replicated{}, Banner{"foreign"});
    harbour.stage.run(3);
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const ComponentIndex banner = Harbour::component<Banner>();
    for (const std::uint32_t net_id : {0u, own + 1000, harbour.stage.sender.net_id(foreign), 0xff000001u})
        EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, net_id, banner, "x")));
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).ignored, 4u);
    const ecs::Entity unsent = harbour.stage.world.spawn(Replicated{}, Banner{"unsent"});
    harbour.stage.give(&harbour.first, unsent);
    const NetId of_unsent = harbour.stage.sender.net_id(unsent);
    EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, of_unsent, banner, "x")));
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).ignored, 5u) << "the client does not have it";
    EXPECT_EQ(harbour.stage.world.get<Banner>(unsent).text, "unsent");
    for (const std::uint32_t component : {std::uint32_t{Harbour::component<Cargo>()},
                                          std::uint32_t{Harbour::component<Mine>()}, 4u, 5000u, 70'000u})
        EXPECT_FALSE(read_forged(harbour, 1001, owned_section(0, own, component, "x"))) << component;
    EXPECT_FALSE(read_forged(harbour, 1001, owned_section(256, own, banner, "x")));
    EXPECT_FALSE(read_forged(harbour, 1001, owned_section(0xffffffff, own, banner, "x")));
    const std::vector<std::byte> good = owned_section(0, own, banner, "good");
    for (std::size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(
            read_forged(harbour, 1001, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}));
    EXPECT_EQ(harbour.banner(), "guest");
    EXPECT_TRUE(read_forged(harbour, 1001, good));
    EXPECT_EQ(harbour.banner(), "good");
    EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, own, banner, "older")));
    EXPECT_EQ(harbour.banner(), "good");
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).outdated, 1u);
}

TEST(OwnedReader, TooManyRefusalsAreAFlood) {
    Harbour harbour;
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    for (std::uint64_t packet = 1000; packet < 1059; ++packet)
        EXPECT_TRUE(read_forged(harbour, packet, owned_section(0, own, Harbour::component<Banner>(), "bad")));
    EXPECT_FALSE(harbour.stage.owned.is_flood(harbour.first.id));
    for (std::uint64_t packet = 1059; packet < 2000; ++packet)
        EXPECT_TRUE(read_forged(harbour, packet, owned_section(0, own, Harbour::component<Banner>(), "bad")));
    EXPECT_TRUE(harbour.stage.owned.is_flood(harbour.first.id));
    EXPECT_EQ(harbour.stage.owned.stats(harbour.first.id).refused, 60u);
}

TEST(OwnedReader, ACheckMayEndThePlayer) {
    for (const bool accepts : {false, true}) {
        Harbour harbour;
        OwnedReader& owned = harbour.stage.owned;
        int checks = 0;
        owned.set_check(Harbour::component<Banner>(), [&](net::PeerId id, ecs::Entity, const void*) {
            checks += 1;
            owned.remove_player(id);
            return std::string(accepts ? "" : "no");
        });
        const NetId own = harbour.stage.sender.net_id(harbour.ship);
        EXPECT_TRUE(read_forged(harbour, 1000, owned_section(2, own, Harbour::component<Banner>(), "x")));
        EXPECT_EQ(checks, 1) << "the other values of the payload have no effect";
        EXPECT_EQ(harbour.banner(), "guest");
        EXPECT_TRUE(harbour.first.messages.empty());
        EXPECT_TRUE(read_forged(harbour, 1001, owned_section(0, own, Harbour::component<Banner>(), "x")));
        EXPECT_EQ(checks, 1);
    }
}

TEST(OwnedReader, TwentyRefusalsPerSecondAreNoFlood) {
    using namespace std::chrono_literals;
    Harbour harbour;
    OwnedReader& owned = harbour.stage.owned;
    const PlayerId id = harbour.first.id;
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const std::vector<std::byte> bad = owned_section(0, own, Harbour::component<Banner>(), "bad");
    std::uint64_t packet = 1000;
    const auto refused_at = [&](net::Time now, int times) {
        const std::uint64_t before = owned.stats(id).refused;
        for (int i = 0; i < times; ++i) {
            BitReader in(bad);
            EXPECT_TRUE(owned.read_section(id, packet++, in));
            owned.commit_section(id, now);
        }
        return owned.stats(id).refused - before;
    };
    EXPECT_EQ(refused_at(100s, 100), 60u) << "at once";
    EXPECT_TRUE(owned.is_flood(id));
    EXPECT_EQ(refused_at(100s + 49ms, 5), 0u);
    EXPECT_EQ(refused_at(100s + 51ms, 5), 1u);
    EXPECT_EQ(refused_at(101s + 55ms, 100), 20u);
    EXPECT_EQ(refused_at(200s, 100), 60u) << "at most";
}

TEST(OwnedReader, AReconnectedPlayerNumbersItsPacketsAnew) {
    Harbour harbour;
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const ComponentIndex banner = Harbour::component<Banner>();
    EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, own, banner, "x")));
    EXPECT_TRUE(read_forged(harbour, 1, owned_section(0, own, banner, "y")));
    EXPECT_EQ(harbour.banner(), "x");
    harbour.stage.owned.reconnect(harbour.first.id);
    EXPECT_TRUE(read_forged(harbour, 1, owned_section(0, own, banner, "y")));
    EXPECT_EQ(harbour.banner(), "y");
}

TEST(OwnedReader, OlderValuesOfManyEntitiesAreOutdated) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    std::vector<ecs::Entity> ships;
    for (int i = 0; i < 200; ++i) {
        ships.push_back(stage.world.spawn(Replicated{}, Banner{"guest"}));
        stage.give(&harbour.first, ships.back());
    }
    stage.run(10);
    const ComponentIndex banner = Harbour::component<Banner>();
    for (const ecs::Entity ship : ships)
        EXPECT_TRUE(read_forged(harbour, 1000, owned_section(0, stage.sender.net_id(ship), banner, "new")));
    for (const ecs::Entity ship : ships)
        EXPECT_TRUE(read_forged(harbour, 999, owned_section(0, stage.sender.net_id(ship), banner, "old")));
    EXPECT_EQ(stage.owned.stats(harbour.first.id).taken, 200u);
    EXPECT_EQ(stage.owned.stats(harbour.first.id).outdated, 200u);
    for (const ecs::Entity ship : ships) EXPECT_EQ(stage.world.get<Banner>(ship).text, "new");
}

TEST(OwnedReader, ReferencesAreReadAsThePlayerSeesThem) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    stage.give(&harbour.second, harbour.ship);
    stage.run(6);
    stage.kick(harbour.first, "enough");
    stage.owned.remove_player(harbour.first.id);
    const ecs::Entity replica = stage.replica(harbour.second, harbour.ship);
    harbour.second.world.set(replica, Aim{3, replica});
    stage.run(6);
    EXPECT_EQ(stage.world.get<Aim>(harbour.ship).target, harbour.ship);
}

TEST(OwnedReader, AMalformedRefusalIsNone) {
    const Schema schema = owned_schema();
    const ComponentIndex banner = Harbour::component<Banner>();
    const std::vector<std::byte> message =
        write_refusal(schema, {0x1'2345'6789, 7, banner, std::string(100, '\xfe'), {2, 'h', 'i'}});
    const std::optional<OwnedRefusal> read = read_refusal(schema, message);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->packet, 0x1'2345'6789u);
    EXPECT_EQ(read->net_id, 7u);
    EXPECT_EQ(read->component, banner);
    EXPECT_EQ(read->why, std::string(kMaxRefusalBytes, '\xfe'));
    EXPECT_EQ(read->words, (std::vector<std::uint32_t>{2, 'h', 'i'}));
    for (std::size_t size = 0; size < message.size(); ++size)
        EXPECT_FALSE(read_refusal(schema, std::span(message).first(size)));
    EXPECT_FALSE(read_refusal(schema, write_refusal(schema, {1, 7, Harbour::component<Cargo>(), "no", {5}})))
        << "not a component of the owner";
    const auto with = [&](std::size_t at, std::uint8_t byte) {
        std::vector<std::byte> bytes = message;
        bytes[at] = std::byte{byte};
        return bytes;
    };
    const std::size_t component_at = 13, length_at = 15;
    EXPECT_TRUE(read_refusal(schema, with(component_at, static_cast<std::uint8_t>(banner))));
    EXPECT_FALSE(
        read_refusal(schema, with(component_at, static_cast<std::uint8_t>(schema.components().size()))));
    EXPECT_FALSE(read_refusal(schema, with(component_at + 1, 0x80)));
    EXPECT_FALSE(read_refusal(schema, with(0, 13))) << "another kind";
    std::vector<std::byte> longer = with(length_at, kMaxRefusalBytes + 1);
    longer.insert(longer.begin() + 16, std::byte{'y'});
    EXPECT_FALSE(read_refusal(schema, longer)) << "a reason that is too long";
    longer = message;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(read_refusal(schema, longer)) << "a byte too many";
    std::mt19937 random(1);
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::byte> bytes = message;
        bytes[random() % bytes.size()] ^= static_cast<std::byte>(1u << random() % 8);
        static_cast<void>(read_refusal(schema, bytes));
    }
}

}  // namespace
}  // namespace shoal::replication::all::owned_reader_test
