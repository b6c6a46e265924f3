// What a hostile server can make a client hold: all of it counts for ReceiverOptions::max_held_bytes.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "replication/message.h"
#include "replication/receive/receiver.h"
#include "replication/send/sender.h"
#include "tests/replication/support/play.h"
#include "tests/support/allocations.h"

namespace shoal::replication::impl::hostile_server_test {
namespace {

constexpr std::size_t kMax = std::size_t{24} << 20;
constexpr std::string_view kText = "protocol error: the server sends more than this client may hold";

template <int>
struct Flag {};
struct Place {
    float x = 0, y = 0;
};
struct Spirit {
    float x = 0;
};
struct Hall {
    float stones[512] = {};
};
struct Nest {
    std::map<std::uint8_t, std::map<std::uint8_t, std::string>> eggs;
};
struct Herd {
    std::vector<std::array<float, 16>> cows;
};
struct Web {
    std::vector<ecs::Entity> ends;
};
struct ChildOf {
    static constexpr auto relation = ecs::exclusive;
};
struct Tidings {
    ecs::Entity of;
    std::string text;
};

template <int... I>
void declare_flags(Schema& schema, std::integer_sequence<int, I...>) {
    (schema.tag<Flag<I>>("flag " + std::to_string(I)), ...);
}
Schema hostile_schema() {
    Schema schema;
    declare_flags(schema, std::make_integer_sequence<int, 16>());
    schema.tag<Mine>("mine", to_owner());
    schema.component<Place>("place", linear());
    schema.component<Spirit>("spirit", predicted());
    schema.component<Hall>("hall");
    schema.component<Nest>("nest");
    schema.component<Herd>("herd");
    schema.component<Web>("web", max_length(256));
    schema.pair<ChildOf>("child of");
    schema.message<Tidings>("tidings");
    return schema;
}

/// A sender that does what it wants, and a receiver with a bound.
struct Siege {
    explicit Siege(std::size_t most) : receiver(mirror, schema, {.max_held_bytes = most}) {
        peer = sender.add_peer();
        find_flags(std::make_integer_sequence<int, 16>());
    }
    template <int... I>
    void find_flags(std::integer_sequence<int, I...>) {
        flags = {world.component<Flag<I>>()...};
    }
    /// One tick. Returns false when the receiver refuses to hold more.
    bool exchange() {
        sender.update(++tick);
        for (;;) {
            std::byte room[1200];
            const auto payload = sender.encode(peer, number, sizeof room, room);
            if (payload.empty()) break;
            sent += payload.size();
            const Receiver::Verdict verdict = receiver.receive(number, payload);
            sender.on_fate(peer, number++, verdict == Receiver::Verdict::accepted);
            if (verdict == Receiver::Verdict::too_many) return false;
            EXPECT_EQ(verdict, Receiver::Verdict::accepted);
        }
        receiver.apply();
        return true;
    }
    Schema schema = hostile_schema();
    ecs::World world, mirror;
    Sender sender{world, schema};
    Receiver receiver;
    Sender::Peer peer = 0;
    std::vector<ecs::ComponentId> flags;
    Tick tick = 0;
    std::uint64_t number = 1;
    std::size_t sent = 0;
};

// Each attack sends as much as it can for few bytes. The memory that the process then has is near the bound.
TEST(HostileServer, NothingThatItSendsExceedsTheBound) {
    struct Attack {
        const char* name;
        std::size_t most_entities;  // that the client has at the end
        std::function<ecs::Entity(Siege&, std::uint32_t)> spawn;
        std::size_t least = kMax / 4;  // bytes that the client holds at the end, in fact
    };
    const auto plain = [](Siege& siege, auto&&... values) {
        return siege.world.spawn(Replicated{}, values...);
    };
    ecs::Entity parent;
    const std::vector<Attack> attacks = {
        {"entities", 24'000, [&](Siege& siege, std::uint32_t) { return plain(siege, Flag<0>{}); }},
        {"archetypes", 1'600,
         [&](Siege& siege, std::uint32_t i) {
             const ecs::Entity entity = plain(siege);
             for (std::uint32_t bit = 0; bit < 16; ++bit)
                 if (i >> bit & 1) siege.world.add(entity, siege.flags[bit], nullptr);
             return entity;
         },
         kMax / 32},
        {"predicted entities", 96,
         [&](Siege& siege, std::uint32_t) {
             const ecs::Entity entity = plain(siege, Spirit{}, Mine{});
             siege.sender.set_owner(entity, siege.peer);
             return entity;
         },
         0},
        {"large components", 8'000, [&](Siege& siege, std::uint32_t) { return plain(siege, Hall{}); }},
        {"nested maps", 1'000,
         [&](Siege& siege, std::uint32_t) {
             Nest nest;
             for (std::uint8_t a = 0; a < 16; ++a)
                 for (std::uint8_t b = 0; b < 16; ++b) nest.eggs[a][b] = "e";
             return plain(siege, nest);
         }},
        {"vectors", 8'000,
         [&](Siege& siege, std::uint32_t) {
             return plain(siege, Herd{std::vector(16, std::array<float, 16>{})});
         }},
        {"references", 1'500,
         [&](Siege& siege, std::uint32_t i) {
             if (i % 256 == 0) parent = plain(siege);
             return plain(siege, Web{std::vector(256, parent)});
         },
         0},
        {"pairs", 8'000,
         [&](Siege& siege, std::uint32_t i) {
             const ecs::Entity entity = plain(siege);
             if (i > 0) siege.world.add(entity, ecs::to<ChildOf>(parent));
             parent = entity;
             return entity;
         },
         kMax / 8},
    };
    for (const Attack& attack : attacks) {
        SCOPED_TRACE(attack.name);
        Siege siege(kMax);
        const std::size_t before = test::held_bytes();
        std::size_t of_server = 0;  // what the sender and its world take
        bool holds = true;
        std::uint32_t i = 0;
        while (holds && i < 60'000) {
            const std::size_t start = test::held_bytes();
            for (int n = 0; n < 20; ++n) attack.spawn(siege, i++);
            siege.sender.update(++siege.tick);
            of_server += test::held_bytes() - start;
            holds = siege.exchange();
        }
        EXPECT_FALSE(holds);
        EXPECT_LE(siege.mirror.size(), attack.most_entities);
        const std::size_t held = test::held_bytes() - before - of_server;
        EXPECT_LE(siege.receiver.decoder().held_bytes(), kMax + kMax / 64);
        EXPECT_LE(held, 2 * kMax);
        EXPECT_GE(held, attack.least);
        siege.receiver.reset();
        siege.receiver.apply();
        EXPECT_EQ(siege.receiver.decoder().held_bytes(), 0u) << "what ended does not count";
    }
}

// Replicas that ended stay while messages name them.
TEST(HostileServer, ReplicasThatMessagesKeepCount) {
    Siege siege(kMax);
    siege.receiver.set_named([&](std::vector<NetId>& named) {
        for (NetId id = 1; id < 100'000; ++id) named.push_back(id);
    });
    bool holds = true;
    for (int round = 0; holds && round < 200; ++round) {
        std::vector<ecs::Entity> herd;
        for (int i = 0; i < 100; ++i) herd.push_back(siege.world.spawn(Hall{}, Replicated{}));
        holds = siege.exchange();
        for (const ecs::Entity entity : herd) siege.world.destroy(entity);
        holds = holds && siege.exchange();
    }
    EXPECT_FALSE(holds);
    EXPECT_LE(siege.mirror.size(), kMax / sizeof(Hall));
    siege.receiver.set_named({});
    siege.receiver.end_kept();
    EXPECT_EQ(siege.mirror.size(), 0u);
    EXPECT_LE(siege.receiver.decoder().held_bytes(), kMax / 32);
    EXPECT_TRUE(siege.exchange()) << "there is room again";
}

/// Names an entity that never comes.
class Nobody final : public EntityMap {
public:
    std::uint32_t to_net(ecs::Entity) override { return 4'000'000; }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }
};

// Messages that wait count together with the state.
TEST(HostileServer, AClientLeavesWithAReason) {
    enum class What { state, messages };
    for (const What what : {What::state, What::messages}) {
        SCOPED_TRACE(static_cast<int>(what));
        Play play(hostile_schema());
        play.server.on_join([&](PlayerId) { return play.world.spawn(Replicated{}); });
        ClientOptions options;
        options.receiver.max_held_bytes = 200'000;
        Play::Guest& guest = play.join(options);
        Nobody nobody;
        TypedMessages messages(play.schema, nobody);
        std::vector<std::byte> message{static_cast<std::byte>(MessageKind::typed), std::byte{0}};
        if (what == What::messages) messages.write(Tidings{{}, std::string(60, 'x')}, message, 1);
        for (int i = 0; i < 1'000 && guest.client.is_connected(); ++i) {
            if (what == What::state) play.world.spawn(Hall{}, Replicated{});
            play.server.for_each_peer([&](PlayerId player) {
                for (int n = 0; what != What::state && n < 40; ++n)
                    static_cast<void>(play.server.host().send_message(play.server.connection(player),
                                                                      net::unordered(), message));
            });
            play.run(1);
        }
        EXPECT_FALSE(guest.client.is_connected());
        EXPECT_EQ(guest.client.failure(), kText);
        EXPECT_TRUE(guest.client.is_refused());
        EXPECT_LE(guest.client.receiver().decoder().held_bytes(), 250'000u);
        guest.client.connect(play.at_server);  // a new connection starts clean
        play.run(1);
        EXPECT_EQ(guest.client.receiver().decoder().held_bytes(), 0u);
    }
}

}  // namespace
}  // namespace shoal::replication::impl::hostile_server_test
