#include "replication/record/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "replication/record/recorder.h"
#include "tests/replication/support/link.h"
#include "tests/sim/game.h"

namespace shoal::replication::impl::recordings {
namespace {

using sim::Aim;
using sim::Position;

/// A random world that is recorded, with the hash of each tick.
struct Studio {
    explicit Studio(std::uint64_t seed, const RecorderOptions& options = {.keyframe_s = 0.5},
                    const sim::Director::Style& style = {.churn = 0.3, .large = 0.01},
                    const SenderOptions& sender_options = {})
        : sender(world, schema, sender_options),
          recorder(std::in_place, sender, schema, 16'667, options),
          director(world, seed, style) {}

    void run(int ticks) {
        for (int i = 0; i < ticks; ++i) {
            director.step();
            sender.update(++tick);
            const auto bytes = recorder->record();
            file.insert(file.end(), bytes.begin(), bytes.end());
            ends.push_back(file.size());
            hashes[tick] = hash.of_server(sender.shadow());
        }
    }

    ecs::World world;
    Schema schema = game_schema();
    Sender sender;
    std::optional<Recorder> recorder;
    WorldHash hash{world, schema};
    sim::Director director;
    Tick tick = 0;
    std::vector<std::byte> file;
    std::vector<std::size_t> ends;  // size of the file after each tick
    std::map<Tick, WorldHash::Sum> hashes;
};

struct Cinema {
    explicit Cinema(std::span<const std::byte> file) : replay(world, schema, file) {}
    WorldHash::Sum sum() { return hash.of_client(replay.receiver()); }

    ecs::World world;
    Schema schema = game_schema();
    Replay replay;
    WorldHash hash{world, schema};
};

// Goal: a replay shows the recorder's world at each tick: played from the start, after seeks, and in steps
// back.
TEST(Replay, HasTheHashesOfTheRecorderFromTheStartAndAfterSeeks) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Studio studio(seed);
        studio.run(200);
        Cinema cinema(studio.file);
        ASSERT_EQ(cinema.replay.error(), "");
        EXPECT_EQ(cinema.replay.first_tick(), 1u);
        EXPECT_EQ(cinema.replay.last_tick(), 200u);
        EXPECT_EQ(cinema.replay.tick_time(), std::chrono::microseconds(16'667));
        for (Tick tick = 1; tick <= 200; ++tick) {
            ASSERT_TRUE(cinema.replay.step()) << cinema.replay.error();
            ASSERT_EQ(cinema.replay.tick(), tick);
            ASSERT_EQ(cinema.sum(), studio.hashes[tick]) << "tick " << tick;
            ASSERT_EQ(cinema.replay.receiver().complete()->tick, tick);
        }
        EXPECT_TRUE(cinema.replay.at_end());
        std::mt19937 random(static_cast<unsigned>(seed));
        for (int i = 0; i < 40; ++i) {
            const Tick tick = 1 + static_cast<Tick>(random() % 200);
            ASSERT_TRUE(cinema.replay.seek(tick));
            ASSERT_EQ(cinema.sum(), studio.hashes[tick]) << "seek to " << tick;
            ASSERT_TRUE(cinema.replay.step(i % 2 == 0 ? -1 : 1));
            ASSERT_EQ(cinema.sum(), studio.hashes[*cinema.replay.tick()]);
        }
        EXPECT_TRUE(cinema.replay.receiver().is_consistent());
    }
}

TEST(Replay, PlaysAtAnySpeedAndStopsAtBothEnds) {
    Studio studio(5);
    studio.run(120);
    Cinema cinema(studio.file);
    using std::chrono::milliseconds;
    ASSERT_TRUE(cinema.replay.play(milliseconds(0)));
    EXPECT_EQ(cinema.replay.tick(), 1u);
    ASSERT_TRUE(cinema.replay.play(milliseconds(500)));
    EXPECT_EQ(cinema.replay.tick(), 30u);  // 29.99 ticks
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(cinema.replay.play(milliseconds(17), 0.25));
    EXPECT_EQ(cinema.replay.tick(), 41u);
    ASSERT_TRUE(cinema.replay.play(milliseconds(250), 4));
    EXPECT_EQ(cinema.replay.tick(), 101u);
    EXPECT_EQ(cinema.sum(), studio.hashes[101]);
    ASSERT_TRUE(cinema.replay.play(milliseconds(500), -1));
    EXPECT_EQ(cinema.replay.tick(), 71u);
    EXPECT_EQ(cinema.sum(), studio.hashes[71]);
    ASSERT_TRUE(cinema.replay.play(milliseconds(5000)));
    EXPECT_TRUE(cinema.replay.at_end());
    ASSERT_TRUE(cinema.replay.play(milliseconds(50'000), -2));
    EXPECT_EQ(cinema.replay.tick(), 1u);
    ASSERT_TRUE(cinema.replay.seek(4000));
    EXPECT_EQ(cinema.replay.tick(), 120u);
}

TEST(Replay, KeepsItsEntitiesWhileItPlaysOverAKeyframe) {
    Studio studio(6, {.keyframe_s = 0.1}, {.is_stable = true});
    const ecs::Entity watched = studio.world.spawn(Replicated{}, Position{1, 2, 3});
    studio.run(60);
    Cinema cinema(studio.file);
    ASSERT_TRUE(cinema.replay.step());
    const NetId id = studio.sender.net_id(watched);
    const ecs::Entity entity = cinema.replay.receiver().entity(id);
    ASSERT_TRUE(entity);
    for (int i = 1; i < 60; ++i) ASSERT_TRUE(cinema.replay.step());
    EXPECT_EQ(cinema.replay.receiver().entity(id), entity);
    ASSERT_TRUE(cinema.replay.step(-30));
    EXPECT_EQ(cinema.world.get<Position>(cinema.replay.receiver().entity(id)).z, 3);
}

// A server that crashes leaves a file that ends anywhere.
TEST(Replay, PlaysWhatIsWholeOfARecordingThatIsCutAnywhere) {
    Studio studio(7, {.keyframe_s = 0.1}, {.max_entities = 4, .operations = 2});
    studio.run(20);
    for (std::size_t size = 0; size < studio.file.size(); ++size) {
        const std::unique_ptr<std::byte[]> exact(new std::byte[size]);
        std::copy_n(studio.file.data(), size, exact.get());
        Cinema cinema({exact.get(), size});
        const auto whole = std::ranges::upper_bound(studio.ends, size) - studio.ends.begin();
        ASSERT_EQ(cinema.replay.is_open(), whole > 0) << size;
        const bool is_at_end = whole > 0 && studio.ends[static_cast<std::size_t>(whole - 1)] == size;
        ASSERT_EQ(cinema.replay.error().empty(),
                  is_at_end || (size > 0 && !cinema.replay.is_open() && cinema.replay.error().empty()))
            << size;
        if (whole == 0) {
            ASSERT_FALSE(cinema.replay.seek(1));
            continue;
        }
        ASSERT_EQ(cinema.replay.last_tick(), static_cast<Tick>(whole));
        ASSERT_TRUE(cinema.replay.seek(cinema.replay.last_tick()));
        ASSERT_EQ(cinema.sum(), studio.hashes[cinema.replay.last_tick()]);
    }
}

TEST(Replay, FindsEachFlippedByteAndPlaysWhatComesBefore) {
    Studio studio(8, {.keyframe_s = 0.1}, {.max_entities = 4, .operations = 2});
    studio.run(20);
    for (std::size_t at = 0; at < studio.file.size(); ++at) {
        std::vector<std::byte> file = studio.file;
        file[at] ^= std::byte(1u << at % 8);
        Cinema cinema(file);
        ASSERT_NE(cinema.replay.error(), "") << at;
        ASSERT_EQ(cinema.replay.error().find('\n'), std::string::npos);
        const auto whole = std::ranges::upper_bound(studio.ends, at) - studio.ends.begin();
        ASSERT_EQ(cinema.replay.is_open(), whole > 0);
        if (whole > 0) {
            ASSERT_EQ(cinema.replay.last_tick(), static_cast<Tick>(whole));
            ASSERT_TRUE(cinema.replay.seek(static_cast<Tick>(whole)));
            ASSERT_EQ(cinema.sum(), studio.hashes[static_cast<Tick>(whole)]);
        }
    }
}

/// Writes the checksum of each chunk anew, as a hostile author would.
void forge_checksums(std::vector<std::byte>& file) {
    for (std::size_t at = 8; at + Chunk::kHeaderBytes <= file.size();) {
        const std::size_t size = Chunk::kHeaderBytes + net::impl::load<std::uint32_t>(&file[at + 4]);
        if (size > file.size() - at) return;
        const std::span<std::byte> chunk = std::span(file).subspan(at, size);
        net::impl::ByteWriter(chunk).u32(chunk_checksum(chunk.subspan(4)));
        at += size;
    }
}

TEST(Replay, SurvivesForgedRecordings) {
    Studio studio(9, {.keyframe_s = 0.1}, {.max_entities = 6, .operations = 3});
    studio.run(25);
    std::mt19937 random(1);
    int played = 0, refused = 0;
    for (int i = 0; i < 3000; ++i) {
        std::vector<std::byte> file = studio.file;
        for (std::size_t n = 1 + random() % 3; n > 0; --n)
            file[random() % file.size()] ^= std::byte(1 + random() % 255);
        forge_checksums(file);
        Cinema cinema(file);
        if (!cinema.replay.is_open()) {
            ASSERT_NE(cinema.replay.error(), "");
            ++refused;
            continue;
        }
        bool is_good = true;
        for (const Tick tick : {cinema.replay.last_tick(), cinema.replay.first_tick(), Tick{13}})
            is_good = cinema.replay.is_open() && cinema.replay.seek(tick) && is_good;
        ASSERT_EQ(is_good || !cinema.replay.error().empty(), true);
        ASSERT_TRUE(cinema.replay.receiver().is_consistent());
        played += is_good;
    }
    EXPECT_GT(played, 100);
    EXPECT_GT(refused, 100);
}

TEST(Replay, RefusesForeignFiles) {
    for (const std::string text :
         {"", "S", "SHOALREC", "%PDF-1.7 and more text than the head of a recording has",
          "SHOALREC and then something else entirely, for a while"}) {
        Cinema cinema(std::as_bytes(std::span(text)));
        EXPECT_FALSE(cinema.replay.is_open()) << text;
        EXPECT_NE(cinema.replay.error(), "") << text;
        EXPECT_FALSE(cinema.replay.step());
    }
}

TEST(Recorder, EndsBeforeItsLimit) {
    Studio studio(10, {.max_bytes = 5'000});
    studio.run(300);
    EXPECT_TRUE(studio.recorder->is_full());
    EXPECT_LE(studio.file.size(), 5'000u);
    EXPECT_GT(studio.file.size(), 2'000u);
    EXPECT_EQ(studio.recorder->bytes(), studio.file.size());
    Cinema cinema(studio.file);
    EXPECT_EQ(cinema.replay.error(), "");
    ASSERT_TRUE(cinema.replay.seek(9999));
    EXPECT_EQ(cinema.sum(), studio.hashes[*cinema.replay.tick()]);
}

// Schemas of different versions.

struct Hull {
    int size = 0;
    bool operator==(const Hull&) const = default;
};
struct Flags {
    std::vector<std::string> signals;
    std::optional<ecs::Entity> flagship;
    bool operator==(const Flags&) const = default;
};
struct Crew {
    double wage = 0;
    std::uint64_t count = 0;
    float mood = 0;
    bool operator==(const Crew&) const = default;
};
struct Paint {
    std::uint8_t ink = 0;
};
struct Towed {};
struct Beacon {};

enum class Year { yesterday, today, other };

/// Yesterday's schema has Flags, Paint and Beacon; today's has Crew and Paint in another form.
Schema shipyard(Year year) {
    Schema schema;
    schema.component<Hull>("hull");
    schema.component<StableKey>("key");
    if (year == Year::yesterday) {
        schema.component<Flags>("flags", field(&Flags::signals, max_length(9)));
        schema.optional<Flags>();
        schema.tag<Beacon>("beacon");
        schema.optional<Beacon>();
        schema.component<Paint>("paint", bounded(0, 200));
    } else {
        schema.component<Crew>("crew");
        schema.optional<Crew>();
        schema.component<Paint>("paint");
    }
    schema.optional<Paint>();
    if (year == Year::other) schema.component<Towed>("towed");
    return schema;
}

std::vector<std::byte> record_ship(Year year, int ticks) {
    ecs::World world;
    const Schema schema = shipyard(year);
    Sender sender(world, schema);
    Recorder recorder(sender, schema, 10'000, {.keyframe_s = 0.1});
    const ecs::Entity first =
        world.spawn(Replicated{}, Hull{1}, Crew{2.5, 1, 3}, Flags{{"red"}, {}}, Paint{7});
    std::vector<std::byte> file;
    for (Tick tick = 1; tick <= static_cast<Tick>(ticks); ++tick) {
        const auto n = static_cast<std::uint8_t>(tick);
        world.set(first, Hull{n});
        world.set(first, Crew{n * 0.5, tick, n * 0.25f});
        world.set(first, Flags{{"red", std::string(tick % 8, 'x')}, first});
        world.set(first, Paint{n});
        if (tick == 5) world.spawn(Replicated{}, Beacon{}, Flags{}, Hull{77});
        if (tick == 20) world.remove<Flags>(first);
        sender.update(tick);
        const auto bytes = recorder.record();
        file.insert(file.end(), bytes.begin(), bytes.end());
    }
    return file;
}

TEST(Replay, PlaysARecordingOfASchemaWithOtherOptionalComponents) {
    for (const auto& [recorded, played] :
         {std::pair(Year::yesterday, Year::today), std::pair(Year::today, Year::yesterday)}) {
        const std::vector<std::byte> file = record_ship(recorded, 30);
        ecs::World world;
        const Schema schema = shipyard(played);
        Replay replay(world, schema, file);
        ASSERT_EQ(replay.error(), "");
        ecs::Query<const Hull> hulls(world);
        for (Tick tick = 1; tick <= 30; ++tick) {
            ASSERT_TRUE(replay.step()) << replay.error();
            std::vector<int> sizes;
            hulls.each([&](ecs::Entity entity, const Hull& hull) {
                sizes.push_back(hull.size);
                EXPECT_FALSE(world.has<Flags>(entity) || world.has<Crew>(entity) || world.has<Paint>(entity));
            });
            std::ranges::sort(sizes);
            const int n = static_cast<int>(tick);
            ASSERT_EQ(sizes, tick < 5 ? std::vector{n} : std::vector({n, 77}));
        }
        ASSERT_TRUE(replay.seek(12));
        ASSERT_TRUE(replay.receiver().is_consistent());
    }
}

TEST(Replay, PlaysOptionalComponentsThatBothSchemasHave) {
    const std::vector<std::byte> file = record_ship(Year::yesterday, 30);
    ecs::World world;
    const Schema schema = shipyard(Year::yesterday);
    Replay replay(world, schema, file);
    ASSERT_TRUE(replay.seek(15)) << replay.error();
    int count = 0;
    ecs::Query<const Flags, const Paint>(world).each(
        [&](ecs::Entity entity, const Flags& flags, const Paint& paint) {
            ++count;
            EXPECT_EQ(paint.ink, 15);
            EXPECT_EQ(flags, (Flags{{"red", "xxxxxxx"}, entity}));
        });
    EXPECT_EQ(count, 1);
}

TEST(Replay, NamesAComponentThatDiffers) {
    const std::vector<std::byte> file = record_ship(Year::today, 3);
    ecs::World world;
    const Schema schema = shipyard(Year::other);
    Replay replay(world, schema, file);
    EXPECT_FALSE(replay.is_open());
    EXPECT_EQ(replay.error(), "byte 8: component 'towed' is unknown to the recording");
}

// A server's recording has what no player sees.

struct Chest {
    int gold = 0;
};
struct Spot {
    float x = 0, y = 0;
};

TEST(Server, RecordsWhatTheScopeAndViewClassesHideFromPlayers) {
    Schema schema;
    schema.component<Chest>("chest", to_owner());
    schema.component<Spot>("spot", every(std::chrono::seconds(1)));
    schema.component<Hull>("hull", to_group(2));
    schema.tag<Mine>("mine", to_owner());
    schema.grid<Spot>({.radius = 10});
    Link link(Link::default_options(), schema);
    link.server.filter<Spot>([](PlayerId, ecs::Entity, const Spot&) { return false; });
    link.world.spawn(Replicated{}, Spot{1000, 5}, Chest{3}, Hull{4});
    link.add();
    link.run(30);
    EXPECT_TRUE(link.server.recorded().empty());
    link.server.record({.keyframe_s = 1});
    std::vector<std::byte> file;
    for (int i = 0; i < 100; ++i) {
        if (i == 10) link.world.spawn(Replicated{}, Spot{-500, 7}, Chest{30}, Hull{40});
        ecs::Query<Spot>(link.world).each([&](ecs::Entity, Spot& spot) { spot.y += 1; });
        link.step();
        const auto bytes = link.server.recorded();
        ASSERT_FALSE(bytes.empty());
        file.insert(file.end(), bytes.begin(), bytes.end());
    }
    EXPECT_TRUE(link.server.is_recording());
    link.server.stop_recording();
    EXPECT_FALSE(link.server.is_recording());
    link.run(3);
    EXPECT_TRUE(link.server.recorded().empty());
    EXPECT_TRUE(link.server.sender().is_consistent());
    ecs::World world;
    Replay replay(world, schema, file);
    ASSERT_EQ(replay.error(), "");
    for (float i = 1; i <= 100; ++i) {
        ASSERT_TRUE(replay.step()) << replay.error();
        int count = 0;
        ecs::Query<const Spot, const Chest, const Hull>(world).each(
            [&](ecs::Entity, const Spot& spot, const Chest& chest, const Hull& hull) {
                ++count;
                EXPECT_EQ(spot.y, chest.gold == 3 ? 5 + i : 7 + i - 10);
                EXPECT_EQ(hull.size, chest.gold == 3 ? 4 : 40);
            });
        ASSERT_EQ(count, i <= 10 ? 1 : 2);
    }
}

}  // namespace
}  // namespace shoal::replication::impl::recordings
