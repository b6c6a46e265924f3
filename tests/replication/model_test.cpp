// Models of the range coder: trained, written, read, sent to clients, and used by them.

#include "replication/codec/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "replication/client.h"
#include "replication/codec/range_coder.h"
#include "replication/send/learned_models.h"
#include "replication/server.h"
#include "tests/replication/support/link.h"

namespace shoal::replication::impl {
namespace {

enum class Mood : std::uint8_t { calm, alert, angry };
enum class Marks : std::uint32_t {};
struct Sheep {
    Mood mood{};
    Marks marks{};
    std::uint16_t wool = 0;
    float at[2] = {};
};

struct Bell {
    bool rings = false;
};

Schema sheep_schema() {
    Schema schema;
    schema.component<Sheep>("sheep");
    return schema;
}

TEST(Model, IsWrittenAndReadBack) {
    const Schema schema = sheep_schema();
    const SchemaComponent& last = schema.components().back();
    CodecModel model = untrained_model(schema);
    EXPECT_EQ(model.size(), kModelSlots + last.first_slot + last.layout.slot_count());
    EXPECT_TRUE(std::equal(kBuiltInModel.begin(), kBuiltInModel.end(), model.begin()));
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
    Schema other = sheep_schema();
    other.component<Bell>("bell");
    EXPECT_FALSE(read_model(bytes, other));
}

TEST(Model, AnyBytesGiveAModelWithoutZerosOrNone) {
    const Schema schema = sheep_schema();
    const std::size_t size = untrained_model(schema).size();
    std::mt19937 random(2);
    int read = 0;
    for (int run = 0; run < 5'000; ++run) {
        BitWriter out;
        out.write(static_cast<std::uint32_t>(schema.hash()), 32);
        out.write(static_cast<std::uint32_t>(schema.hash() >> 32), 32);
        std::size_t left = size;
        for (std::size_t gap = random() % size; gap < left; gap = random() % size) {
            out.write_golomb(static_cast<std::uint32_t>(gap), 1);
            out.write(random() % 256, 8);
            left -= gap + 1;
        }
        out.write_golomb(static_cast<std::uint32_t>(left + random() % 20 / 18), 1);
        std::vector<std::byte> bytes(out.byte_count());
        out.copy_to(bytes);
        if (run % 3 == 0) bytes[8 + random() % (bytes.size() - 8)] ^= std::byte(random() & 0xff);
        const std::optional<CodecModel> model = read_model(bytes, schema);
        if (!model) continue;
        read += 1;
        ASSERT_EQ(model->size(), size);
        ASSERT_EQ(std::count(model->begin(), model->end(), 0), 0);
    }
    EXPECT_GT(read, 1'000);
    EXPECT_LT(read, 4'900);
    EXPECT_FALSE(read_model(std::vector<std::byte>(kMaxModelBytes + 1), schema));
}

TEST(Model, TrainingMovesTheSlotsThatWereCountedOften) {
    CodecModel model{128, 128, 128, 128};
    const DecisionCounts counts{{{1'000, 0}}, {{0, 1'000}}, {{3, 3}}, {{300, 100}}};
    train(model, counts);
    EXPECT_EQ(model[0], 1);
    EXPECT_EQ(model[1], 255);
    EXPECT_EQ(model[2], 128) << "too few";
    EXPECT_EQ(model[3], 65);
}

TEST(Model, ACounterThatIsFullHalves) {
    DecisionCounts counts{{{0x7fff'ffffu, 100}}};
    DecisionCounter counter(counts);
    counter.decide(false, 0);
    EXPECT_EQ(counts[0], (std::array<std::uint32_t, 2>{0x4000'0000u, 50}));
}

/// A schema with so many symbols that a model of all of them is too large.
template <int N>
struct Tree {
    Mood mood[80] = {};
};
Schema forest() {
    Schema schema;
    schema.component<Tree<0>>("a");
    schema.component<Tree<1>>("b");
    return schema;
}

TEST(LearnedModels, AreBoundedInSize) {
    const Schema schema = forest();
    LearnedModels models(schema, true, 1);
    ASSERT_GT(models.learned().size(), 2 * kMaxModelBytes);
    std::mt19937 random(4);
    for (auto& counts : *models.counts())
        counts = {2'000'000 / (1 + static_cast<std::uint32_t>(random() % 4'000)), 9};
    ASSERT_TRUE(models.renew(1));
    EXPECT_LE(models.bytes().size(), kMaxModelBytes);
    EXPECT_GT(models.bytes().size(), kMaxModelBytes / 20);
    EXPECT_TRUE(read_model(models.bytes(), schema));
}

/// A model that differs from others in one slot.
std::vector<std::byte> model_with(const Schema& schema, std::uint8_t p) {
    CodecModel model = untrained_model(schema);
    model.back() = p;
    return write_model(model, schema);
}

TEST(LearnedModels, APeerKeepsItsModelUntilItHasTheNextOne) {
    const Schema schema = sheep_schema();
    LearnedModels models(schema, false, 10);
    LearnedModels::Peer peer;
    EXPECT_FALSE(models.offer(peer)) << "there is none";
    EXPECT_FALSE(models.renew(5)) << "it learns nothing";
    ASSERT_TRUE(models.load(model_with(schema, 11), 5));
    EXPECT_FALSE(models.load(model_with(schema, 12), 14)) << "too soon";
    EXPECT_EQ(models.number_of(peer), 0);
    ASSERT_TRUE(models.offer(peer));
    EXPECT_FALSE(models.offer(peer)) << "it is on its way";
    EXPECT_FALSE(models.confirm(peer, 2)) << "another one";
    ASSERT_TRUE(models.confirm(peer, 1));
    EXPECT_FALSE(models.confirm(peer, 1)) << "twice";
    EXPECT_EQ(models.model_of(peer).back(), 11);
    ASSERT_TRUE(models.load(model_with(schema, 12), 15));
    ASSERT_TRUE(models.offer(peer));
    EXPECT_EQ(models.number_of(peer), 1);
    EXPECT_EQ(models.model_of(peer).back(), 11);
    ASSERT_TRUE(models.load(model_with(schema, 13), 25));
    EXPECT_FALSE(models.offer(peer)) << "at most one is on its way";
    EXPECT_EQ(models.number_of(peer), 0) << "the next one gets the first one's number";
    EXPECT_EQ(models.model_of(peer).size(), kModelSlots);
    ASSERT_TRUE(models.confirm(peer, 2));
    EXPECT_EQ(models.model_of(peer).back(), 12);
    ASSERT_TRUE(models.load(model_with(schema, 14), 35));
    EXPECT_EQ(models.number_of(peer), 0);
    ASSERT_TRUE(models.offer(peer));
    ASSERT_TRUE(models.confirm(peer, 1));
    EXPECT_EQ(models.model_of(peer).back(), 14);
    EXPECT_FALSE(models.offer(peer)) << "it has the newest one";
    // The number of an offer is used again before the peer answers.
    for (const Tick now : {45u, 55u, 65u}) {
        ASSERT_TRUE(models.load(model_with(schema, 15), now));
        EXPECT_EQ(models.offer(peer), now == 45);
    }
    ASSERT_TRUE(models.load(model_with(schema, 16), 75));
    ASSERT_TRUE(models.confirm(peer, 2));
    EXPECT_EQ(models.number_of(peer), 0) << "what the peer has is forgotten";
    EXPECT_TRUE(models.offer(peer));
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
        link.server.for_each_peer(
            [&](net::PeerId peer) { sum += link.server.stats(peer).state.state_bytes; });
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
    EXPECT_TRUE(flock.link.server.save_model().empty());
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
    next.link.server.for_each_peer(
        [&](net::PeerId peer) { EXPECT_EQ(next.link.server.stats(peer).state.model, 1); });
    EXPECT_LT(next.run(200) * 10, before * 9);
    EXPECT_TRUE(next.link.is_equal(player));
}

TEST(Model, AModelThatLiesIsRefused) {
    const Schema schema = sheep_schema();
    const std::vector<std::byte> valid = write_model(untrained_model(schema), schema);
    ecs::World world;
    Receiver receiver(world, schema);
    EXPECT_TRUE(receiver.decoder().add_model(1, valid));
    EXPECT_FALSE(receiver.decoder().add_model(0, valid));
    EXPECT_FALSE(receiver.decoder().add_model(kMaxModel + 1, valid));
    EXPECT_FALSE(receiver.decoder().add_model(2, std::span(valid).first(valid.size() - 1)));
    StateHeader header;
    header.coding = Coding::range;
    header.model = 2;
    BitWriter out;
    write_state_header(header, &out);
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    EXPECT_EQ(receiver.receive(1, bytes), Receiver::Verdict::malformed) << "it was never sent";
}

TEST(Model, AClientThatComesBackGetsTheModelAgain) {
    Flock flock;
    Link::Player& player = flock.link.add(flock.link.schema);
    flock.run(330);
    ASSERT_TRUE(flock.link.server.renew_model());
    flock.run(10);
    ASSERT_TRUE(flock.link.server.stats(flock.link.listener.last).state.model);
    ASSERT_FALSE(player.client.ticket().empty());
    player.client.connect(flock.link.wire.address, player.client.ticket());
    flock.run(2);
    EXPECT_FALSE(flock.link.server.stats(flock.link.listener.last).state.model);
    flock.run(60);
    EXPECT_TRUE(flock.link.server.stats(flock.link.listener.last).state.model);
    EXPECT_TRUE(player.client.is_connected());
    EXPECT_TRUE(flock.link.is_equal(player));
}

TEST(Model, AServerThatDoesNotWaitForTheAnswerIsLeft) {
    Flock flock;
    Link::Player& player = flock.link.add(flock.link.schema);
    flock.run(10);
    NextModel next{1, {}};
    for (const std::byte each : write_model(untrained_model(flock.link.schema), flock.link.schema))
        next.bytes.push_back(std::to_integer<std::uint8_t>(each));
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(flock.link.server.host().send_message(flock.link.listener.last, net::unordered(),
                                                        write_control(next)),
                  net::SendResult::queued);
    flock.run(10);
    EXPECT_FALSE(player.client.is_connected());
    EXPECT_EQ(player.client.failure(), "protocol error: malformed message");
}

}  // namespace
}  // namespace shoal::replication::impl
