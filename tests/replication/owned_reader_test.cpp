#include "replication/play/owned_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "replication/codec/codec.h"
#include "tests/replication/support/harbour.h"

namespace shoal::replication::impl::owned_reader_test {
namespace {

using harbour::Aim;
using harbour::Banner;
using harbour::Cargo;
using harbour::Harbour;
using harbour::owned_schema;

/// A section with one value or more, all of one component; the first one has this version.
std::vector<std::byte> owned_section(std::uint32_t count_less_one, std::uint32_t net_id,
                                     std::uint32_t component, const std::string& text, std::uint32_t version,
                                     std::uint32_t epoch = 0) {
    BitWriter out;
    out.write_golomb(count_less_one, kOwnedCountOrder);
    for (std::uint32_t i = 0; i <= std::min(count_less_one, 300u); ++i) {
        if (i == 0) out.write(version, 24);
        if (i == 0) out.write(net_id, 32);
        if (i > 0) out.write_golomb(0, 0);  // version
        if (i > 0) out.write_golomb(0, 2);  // net id
        out.write_bool(false);              // nothing came before
        out.write_golomb(component, 2);
        out.write_golomb(epoch, 0);
        std::vector<std::uint32_t> words{static_cast<std::uint32_t>(text.size())};
        for (const char c : text) words.push_back(static_cast<unsigned char>(c));
        const Schema schema = owned_schema();
        write_value(schema.components()[schema.find<Banner>()].layout, {}, words, out);
    }
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    return bytes;
}

/// Whether the server has handled what the client did before it wrote a value.
void set_handled(Harbour& harbour, bool is_handled) {
    harbour.stage.player(harbour.first.id).messages = is_handled ? 0 : 0xffff;
}

bool read_forged(Harbour& harbour, const std::vector<std::byte>& section, net::Time now = {}) {
    BitReader in(section);
    if (!harbour.stage.owned.read_section(harbour.stage.player(harbour.first.id), 0, in)) return false;
    harbour.stage.owned.commit_section(harbour.stage.player(harbour.first.id), now);
    harbour.stage.owned.run(harbour.stage.player(harbour.first.id), harbour.stage.next_tick, now);
    return true;
}

TEST(OwnedReader, HostileSectionsHaveNoEffect) {
    Harbour harbour;
    const ecs::Entity foreign = harbour.stage.world.spawn(Replicated{}, Banner{"foreign"});
    harbour.stage.run(3);
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const ComponentIndex banner = Harbour::component<Banner>();
    std::uint32_t version = 1000;
    for (const std::uint32_t net_id : {0u, own + 1000, harbour.stage.sender.net_id(foreign), 0xff000001u})
        EXPECT_TRUE(read_forged(harbour, owned_section(0, net_id, banner, "x", version++)));
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.ignored, 4u);
    const ecs::Entity unsent = harbour.stage.world.spawn(Replicated{}, Banner{"unsent"});
    harbour.stage.give(&harbour.first, unsent);
    const NetId of_unsent = harbour.stage.sender.net_id(unsent);
    EXPECT_TRUE(read_forged(harbour, owned_section(0, of_unsent, banner, "x", version++)));
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.ignored, 5u)
        << "the client does not have it";
    EXPECT_EQ(harbour.stage.world.get<Banner>(unsent).text, "unsent");
    EXPECT_TRUE(read_forged(harbour, owned_section(0, own, banner, "x", version++, 1)));
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.ignored, 6u) << "an epoch to come";
    EXPECT_FALSE(read_forged(harbour, owned_section(0, own, banner, "x", version, 0x10000)));
    for (const std::uint32_t component :
         {std::uint32_t{Harbour::component<Cargo>()}, std::uint32_t{Harbour::component<Mine>()},
          std::uint32_t{Harbour::component<OwnerState>()}, 5u, 5000u, 70'000u})
        EXPECT_FALSE(read_forged(harbour, owned_section(0, own, component, "x", version))) << component;
    EXPECT_FALSE(read_forged(harbour, owned_section(256, own, banner, "x", version)));
    EXPECT_FALSE(read_forged(harbour, owned_section(0xffffffff, own, banner, "x", version)));
    const std::vector<std::byte> good = owned_section(0, own, banner, "good", version);
    for (std::size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(read_forged(harbour, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}));
    EXPECT_EQ(harbour.banner(), "guest");
    EXPECT_TRUE(read_forged(harbour, good));
    EXPECT_EQ(harbour.banner(), "good");
    EXPECT_TRUE(read_forged(harbour, owned_section(0, own, banner, "older", version - 1)));
    EXPECT_TRUE(read_forged(harbour, owned_section(0, own, banner, "same", version)));
    EXPECT_EQ(harbour.banner(), "good");
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.outdated, 2u);
}

TEST(OwnedReader, TooManyRefusalsAreAFlood) {
    Harbour harbour;
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const auto refuse = [&](std::uint32_t version) {
        return read_forged(harbour, owned_section(0, own, Harbour::component<Banner>(), "bad", version));
    };
    for (std::uint32_t version = 1; version < 60; ++version) EXPECT_TRUE(refuse(version));
    EXPECT_FALSE(harbour.stage.player(harbour.first.id).owned.is_flood());
    for (std::uint32_t version = 60; version < 1000; ++version) EXPECT_TRUE(refuse(version));
    EXPECT_TRUE(harbour.stage.player(harbour.first.id).owned.is_flood());
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.refused, 60u);
    EXPECT_EQ(harbour.stage.player(harbour.first.id).owned.stats.ignored, 999u - 60);
}

TEST(OwnedReader, ACheckMayEndThePlayer) {
    for (const bool accepts : {false, true}) {
        Harbour harbour;
        int checks = 0;
        harbour.stage.owned.set_check(Harbour::component<Banner>(),
                                      [&](net::PeerId id, ecs::Entity, const void*) {
                                          checks += 1;
                                          harbour.stage.players.remove(harbour.stage.player(id));
                                          return std::string(accepts ? "" : "no");
                                      });
        const NetId own = harbour.stage.sender.net_id(harbour.ship);
        EXPECT_TRUE(read_forged(harbour, owned_section(2, own, Harbour::component<Banner>(), "x", 1)));
        EXPECT_EQ(checks, 1) << "the other values of the payload have no effect";
        EXPECT_EQ(harbour.banner(), "guest");
        EXPECT_TRUE(harbour.first.messages.empty());
    }
}

TEST(OwnedReader, AHookOfTheValueMayEndThePlayer) {
    Harbour harbour;
    const ecs::Hook hook =
        harbour.stage.world.on_change<Banner>([&](ecs::World&, ecs::Entity, const Banner&) {
            harbour.stage.players.remove(harbour.stage.player(harbour.first.id));
        });
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    EXPECT_TRUE(read_forged(harbour, owned_section(2, own, Harbour::component<Banner>(), "x", 1)));
    EXPECT_EQ(harbour.banner(), "x");
    EXPECT_FALSE(harbour.stage.players.find(harbour.first.id));
}

TEST(OwnedReader, ValuesWaitForWhatDoesNotComeForHalfASecondTogether) {
    using namespace std::chrono_literals;
    Harbour harbour;
    set_handled(harbour, false);
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const auto send = [&](std::uint32_t first, net::Time now) {
        EXPECT_TRUE(
            read_forged(harbour, owned_section(2, own, Harbour::component<Banner>(), "x", first), now));
    };
    const auto newest_run = [&](net::Time now) {
        Player& player = harbour.stage.player(harbour.first.id);
        harbour.stage.owned.run(player, harbour.stage.next_tick, now);
        std::uint32_t version = 0;
        while (player.owned.has_run(version + 1) && version < 9) ++version;
        return version;
    };
    send(1, 1s);
    EXPECT_EQ(newest_run(1s + 499ms), 0u);
    EXPECT_EQ(newest_run(1s + 500ms), 3u);
    send(4, 9s);
    EXPECT_EQ(newest_run(9s + 499ms), 3u) << "another wait";
    set_handled(harbour, true);
    EXPECT_EQ(newest_run(9s + 499ms), 6u);
    set_handled(harbour, false);
    send(7, 9s + 600ms);
    EXPECT_EQ(newest_run(9s + 1'099ms), 6u);
    EXPECT_EQ(newest_run(9s + 1'100ms), 9u);
}

TEST(OwnedReader, TwentyRefusalsPerSecondAreNoFlood) {
    using namespace std::chrono_literals;
    Harbour harbour;
    const OwnedValues& owned = harbour.stage.player(harbour.first.id).owned;
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    std::uint32_t version = 1;
    const auto refused_at = [&](net::Time now, int times) {
        const std::uint64_t before = owned.stats.refused;
        for (int i = 0; i < times; ++i)
            EXPECT_TRUE(read_forged(
                harbour, owned_section(0, own, Harbour::component<Banner>(), "bad", version++), now));
        return owned.stats.refused - before;
    };
    EXPECT_EQ(refused_at(100s, 100), 60u) << "at once";
    EXPECT_TRUE(owned.is_flood());
    EXPECT_EQ(refused_at(100s + 49ms, 5), 0u);
    EXPECT_EQ(refused_at(100s + 51ms, 5), 1u);
    EXPECT_EQ(refused_at(101s + 55ms, 100), 20u);
    EXPECT_EQ(refused_at(200s, 100), 60u) << "at most";
}

struct Scroll {
    std::string text;
};

// A player whose values wait for a message that does not come cannot make the server keep more.
TEST(OwnedReader, LargeValuesWaitUpTo256kB) {
    Schema schema;
    schema.component<Scroll>("scroll", max_length(880), from_owner());
    schema.tag<Mine>("mine", to_owner());
    Stage stage(schema);
    Stage::Client& client = stage.add_client();
    const ecs::Entity desk = stage.world.spawn(Replicated{}, Scroll{});
    stage.give(&client, desk);
    stage.run(4);
    stage.player(client.id).messages = 0xffff;  // one that was sent before did not come
    for (std::uint32_t version = 1; version <= 120; ++version) {
        std::vector<std::uint32_t> words(881, 'a' + version);
        words[0] = 880;
        BitWriter out;
        out.write_golomb(0, kOwnedCountOrder);
        write_owned(schema,
                    {version,
                     0,
                     stage.sender.net_id(desk),
                     static_cast<ComponentIndex>(schema.find<Scroll>()),
                     {},
                     words},
                    nullptr, out);
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        BitReader in(bytes);
        ASSERT_TRUE(stage.owned.read_section(stage.player(client.id), version, in));
        stage.owned.commit_section(stage.player(client.id), {});
        stage.owned.run(stage.player(client.id), 0, {});
        const std::uint32_t handled = version <= 74 ? 0 : version - 74;
        EXPECT_EQ(stage.player(client.id).owned.stats.taken, handled) << "74 values of 880 letters wait";
    }
    stage.owned.replace_client(stage.player(client.id));
    EXPECT_EQ(stage.player(client.id).owned.stats.ignored, 74u) << "what waited is counted";
}

TEST(OwnedReader, AnotherClientOfThePlayerNumbersItsValuesAnew) {
    Harbour harbour;
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const ComponentIndex banner = Harbour::component<Banner>();
    EXPECT_TRUE(read_forged(harbour, owned_section(0, own, banner, "x", 1000)));
    EXPECT_TRUE(read_forged(harbour, owned_section(0, own, banner, "y", 1)));
    EXPECT_EQ(harbour.banner(), "x");
    harbour.stage.owned.replace_client(harbour.stage.player(harbour.first.id));
    EXPECT_TRUE(read_forged(harbour, owned_section(0, own, banner, "y", 1)));
    EXPECT_EQ(harbour.banner(), "x") << "of the client before";
    EXPECT_TRUE(read_forged(harbour, owned_section(0, own, banner, "y", 2, 1)));
    EXPECT_EQ(harbour.banner(), "y");
}

// Goal: a value waits for what the client did before it, but not for ever, and in no great number.
TEST(OwnedReader, AValueWaitsForWhatTheClientDidBefore) {
    using namespace std::chrono_literals;
    Harbour harbour;
    OwnedReader& owned = harbour.stage.owned;
    Player& player = harbour.stage.player(harbour.first.id);
    set_handled(harbour, false);
    const NetId own = harbour.stage.sender.net_id(harbour.ship);
    const auto send = [&](const std::string& text, std::uint32_t version, net::Time now) {
        EXPECT_TRUE(
            read_forged(harbour, owned_section(0, own, Harbour::component<Banner>(), text, version), now));
    };
    send("a", 1, 1s);
    EXPECT_EQ(harbour.banner(), "guest");
    EXPECT_FALSE(player.owned.has_run(1));
    EXPECT_TRUE(player.owned.has_run(0));
    owned.run(player, 1, 1s + 499ms);
    EXPECT_EQ(harbour.banner(), "guest");
    owned.run(player, 1, 1s + 500ms);
    EXPECT_EQ(harbour.banner(), "a") << "not for ever";
    EXPECT_TRUE(player.owned.has_run(1));
    send("b", 2, 2s);
    set_handled(harbour, true);
    owned.run(player, 1, 2s);
    EXPECT_EQ(harbour.banner(), "b");
    set_handled(harbour, false);
    for (std::uint32_t version = 3; version < 303; ++version) send(std::to_string(version), version, 3s);
    EXPECT_EQ(harbour.banner(), "46") << "256 wait";
}

TEST(OwnedReader, ReferencesAreReadAsThePlayerSeesThem) {
    Harbour harbour;
    Stage& stage = harbour.stage;
    stage.give(&harbour.second, harbour.ship);
    stage.run(6);
    stage.kick(harbour.first, "enough");
    const ecs::Entity replica = stage.replica(harbour.second, harbour.ship);
    harbour.second.world.set(replica, Aim{3, replica});
    stage.run(6);
    EXPECT_EQ(stage.world.get<Aim>(harbour.ship).target, harbour.ship);
}

}  // namespace
}  // namespace shoal::replication::impl::owned_reader_test
