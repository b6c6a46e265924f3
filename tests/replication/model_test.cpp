// Models of the range coder: trained, written, read, sent to clients, and used by them.

#include "replication/codec/model.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "replication/client.h"
#include "replication/server.h"
#include "tests/replication/support/link.h"

namespace shoal::replication::all {
namespace {

enum class Mood : std::uint8_t { calm, alert, angry };
enum class Marks : std::uint32_t {};
struct Sheep {
    Mood mood{};
    Marks marks{};
    std::uint16_t wool = 0;
    float at[2] = {};
};

Schema sheep_schema() {
    Schema schema;
    schema.component<Sheep>("sheep");
    return schema;
}

TEST(Model, IsWrittenAndReadBack) {
    const Schema schema = sheep_schema();
    CodecModel model = built_in_model(schema);
    EXPECT_EQ(read_model(write_model(model, schema), schema), model);
    std::mt19937 random(1);
    for (int i = 0; i < 500; ++i)
        model[random() % model.size()] = static_cast<std::uint8_t>(1 + random() % 255);
    model.back() = 7;
    const std::vector<std::byte> bytes = write_model(model, schema);
    EXPECT_EQ(read_model(bytes, schema), model);
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_FALSE(read_model(std::span(bytes).first(size), schema)) << size;
    std::vector<std::byte> longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(read_model(longer, schema));
}

TEST(Model, AnyBytesGiveAModelWithoutZerosOrNone) {
    const Schema schema = sheep_schema();
    std::mt19937 random(2);
    const std::size_t size = built_in_model(schema).size();
    for (int run = 0; run < 5'000; ++run) {
        std::vector<std::byte> bytes(random() % 40);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
        const std::optional<CodecModel> model = read_model(bytes, schema);
        if (!model) continue;
        ASSERT_EQ(model->size(), size);
        ASSERT_EQ(std::count(model->begin(), model->end(), 0), 0);
    }
}

TEST(Model, TrainingMovesTheSlotsThatWereCountedOften) {
    CodecModel model{128, 128, 128, 128};
    DecisionCounts counts{{{1'000, 0}}, {{0, 1'000}}, {{3, 3}}, {{300, 100}}};
    train(model, counts);
    EXPECT_EQ(model[0], 1);
    EXPECT_EQ(model[1], 255);
    EXPECT_EQ(model[2], 128) << "too few";
    EXPECT_EQ(model[3], 65);
    EXPECT_EQ(counts[3], (std::array<std::uint32_t, 2>{150, 50}));
}

/// A flock whose moods, marks and wool change in ways that the built-in model does not know.
struct Flock {
    Flock() : link(options(), sheep_schema()) {
        for (std::uint32_t i = 0; i < 40; ++i) sheep.push_back(link.world.spawn(Replicated{}, Sheep{}));
    }
    static ServerOptions options() {
        ServerOptions options = Link::default_options();
        options.sender.learn_every = 3;
        return options;
    }
    /// Returns the bytes of state sent to all players.
    std::uint64_t run(int ticks) {
        const std::uint64_t before = sent();
        for (int i = 0; i < ticks; ++i) {
            for (const ecs::Entity each : sheep) {
                Sheep next = link.world.get<Sheep>(each);
                if (random() % 4 != 0) continue;
                next.mood = next.mood == Mood::angry ? Mood::calm : Mood::angry;
                next.marks = Marks{static_cast<std::uint32_t>(next.marks) ^ 0x10000};
                link.world.set(each, next);
            }
            link.step();
        }
        return sent() - before;
    }
    std::uint64_t sent() {
        std::uint64_t sum = 0;
        link.server.for_each_peer([&](net::PeerId peer) { sum += link.server.peer_stats(peer).state_bytes; });
        return sum;
    }

    std::mt19937 random{3};
    Link link;
    std::vector<ecs::Entity> sheep;
};

TEST(Model, ClientsUseWhatTheServerLearnedAsSoonAsTheyHaveIt) {
    Flock flock;
    const Link::Player& early = flock.link.add(flock.link.schema);
    flock.run(10);
    EXPECT_FALSE(flock.link.server.renew_model()) << "too little traffic";
    EXPECT_FALSE(flock.link.server.sender().model_number());
    flock.run(300);
    const std::uint64_t before = flock.run(200);
    ASSERT_TRUE(flock.link.server.renew_model());
    EXPECT_FALSE(flock.link.server.renew_model()) << "too soon";
    const Link::Player& late = flock.link.add(flock.link.schema);
    flock.run(20);
    const std::uint64_t after = flock.run(200) / 2;
    EXPECT_LT(after * 10, before * 9);
    for (const Link::Player* player : {&early, &late}) {
        EXPECT_TRUE(player->client.is_connected());
        EXPECT_TRUE(flock.link.is_equal(*player));
    }
    const std::vector<std::byte> saved = flock.link.server.save_model();
    EXPECT_LT(saved.size(), 4'000u);
    Flock next;
    EXPECT_FALSE(next.link.server.load_model(std::span(saved).first(saved.size() / 2)));
    ASSERT_TRUE(next.link.server.load_model(saved));
    const Link::Player& player = next.link.add(next.link.schema);
    next.run(20);
    EXPECT_LT(next.run(200) * 10, before * 9);
    EXPECT_TRUE(next.link.is_equal(player));
}

TEST(Model, AModelThatLiesEndsTheConnection) {
    const Schema schema = sheep_schema();
    const std::vector<std::byte> valid = write_model(built_in_model(schema), schema);
    ecs::World world;
    Receiver receiver(world, schema);
    EXPECT_TRUE(receiver.add_model(1, valid));
    EXPECT_FALSE(receiver.add_model(0, valid));
    EXPECT_FALSE(receiver.add_model(kMaxModel + 1, valid));
    EXPECT_FALSE(receiver.add_model(2, std::span(valid).first(valid.size() - 1)));
    StateHeader header;
    header.coding = Coding::range;
    header.model = 2;
    BitWriter out;
    write_state_header(header, &out);
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    EXPECT_EQ(receiver.receive(1, bytes), Receiver::Verdict::malformed) << "it was never sent";
}

}  // namespace
}  // namespace shoal::replication::all
