// Rule 41: a game that calls everything from everywhere.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "ecs/query.h"
#include "replication/world_hash.h"
#include "tests/replication/support/play.h"
#include "tests/sim/seeds.h"

namespace shoal::replication::impl::monkey_test {
namespace {

struct Spot {
    float x = 0;
};
struct Hull {
    int points = 9;
    ecs::Entity near;
};
struct Helm {
    std::int8_t turn = 0;
    Press fire;
};
struct Flag {
    std::string text = "none";
};
struct Lit {};
struct PartOf {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};
struct Say {
    ecs::Entity about;
    std::string text;
};
/// Runs the monkey of its world, which `monkey` finds.
struct Do {
    ecs::Entity target;
    std::int32_t number = 0, check = 0;
    std::string validate(const Act& act) const;
    void mutate(Act& act) const;
};
struct Nod {
    std::int32_t number = 0, check = 0;
    std::string validate(const Act& act) const;
    void mutate(Act& act) const;
};

Schema zoo() {
    Schema out;
    out.component<Spot>("spot", quantised(-100, 100, 0.01), predicted(), linear());
    out.component<Hull>("hull");
    out.component<Flag>("flag", from_owner());
    out.tag<Lit>("lit");
    out.pair<PartOf>("part_of");
    out.input<Helm>("helm", field(&Helm::turn, bounded(-1, 1)));
    out.message<Say>("say");
    out.action<Do>("do", at_most(1000));
    out.action<Nod>("nod", independent(), at_most(1000), with_state());
    return out;
}

/// Does a few random things wherever it is called.
class Monkey {
public:
    explicit Monkey(std::uint32_t seed) : random(seed) {}
    virtual ~Monkey() = default;
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); }
    void play(ecs::World& world) {
        if (depth >= 3 || budget <= 0) return;
        depth += 1;
        for (std::uint32_t n = below(3); n > 0; --n, --budget) act_somehow(world);
        depth -= 1;
    }
    virtual void act_somehow(ecs::World& world) = 0;
    ecs::Entity any() {
        std::erase_if(entities, [&](ecs::Entity entity) { return !of->is_alive(entity); });
        return entities.empty() ? ecs::Entity{}
                                : entities[below(static_cast<std::uint32_t>(entities.size()))];
    }
    /// Writes, adds and removes components and pairs.
    void scribble(ecs::World& world, ecs::Entity entity) {
        if (!world.is_alive(entity)) return;
        switch (below(6)) {
            case 0:
                return world.set(entity, Hull{static_cast<int>(below(9)), any()});
            case 1:
                return world.remove<Hull>(entity);
            case 2:
                return below(2) != 0 ? world.add<Lit>(entity) : world.remove<Lit>(entity);
            case 3:
                return world.set(entity, Flag{std::string(below(9), 'f')});
            case 4:
                return world.remove<Flag>(entity);
            default:
                if (const ecs::Entity other = any(); other && other != entity)
                    world.add(entity, ecs::to<PartOf>(other));
        }
    }
    void watch(ecs::World& world) {
        of = &world;
        const auto change = [this](ecs::World& in, ecs::Entity, const auto&) { play(in); };
        hooks.push_back(world.on_add<Hull>(change));
        hooks.push_back(world.on_change<Hull>(change));
        hooks.push_back(world.on_remove<Hull>(change));
        hooks.push_back(world.on_add<Flag>(change));
        hooks.push_back(world.on_remove<Flag>(change));
        hooks.push_back(world.on_remove<Spot>(change));
        hooks.push_back(world.on_destroy([this](ecs::World& in, ecs::Entity) { play(in); }));
    }

    std::mt19937 random;
    ecs::World* of = nullptr;
    std::vector<ecs::Entity> entities;
    std::vector<ecs::Hook> hooks;
    int depth = 0, budget = 0;
};

Monkey* find_monkey(const ecs::World& world);

std::string Do::validate(const Act& act) const {
    if (Monkey* monkey = find_monkey(act.world)) monkey->play(act.world);
    EXPECT_EQ(check, -number);
    return act.is_server && number % 7 == 3 ? "no" : "";
}
void Do::mutate(Act& act) const {
    Monkey* const monkey = find_monkey(act.world);
    if (number % 3 == 0) {
        const ecs::Entity made = act.spawn(Hull{number, {}}, Flag{});
        if (monkey) monkey->entities.push_back(made);
    }
    if (number % 5 == 0 && act.world.is_alive(target)) act.destroy(target);
    if (number % 5 == 1 && act.world.is_alive(target)) act.world.set(target, Hull{number, target});
    if (monkey) monkey->play(act.world);
    EXPECT_EQ(check, -number) << "the arguments of a running action";
    if (number % 11 == 10) act.fail("stumbled");
}
std::string Nod::validate(const Act& act) const {
    if (Monkey* monkey = find_monkey(act.world)) monkey->play(act.world);
    EXPECT_EQ(check, -number);
    return act.is_server && number % 7 == 3 ? "no" : "";
}
void Nod::mutate(Act& act) const {
    if (Monkey* monkey = find_monkey(act.world)) monkey->play(act.world);
    EXPECT_EQ(check, -number);
}

class Cage {
public:
    explicit Cage(std::uint32_t seed)
        : play(zoo(), {.latency = std::chrono::milliseconds(seed % 3 * 20), .loss = seed % 4 * 0.05}, seed),
          keeper(seed, *this) {
        current = this;
        keeper.watch(play.world);
        set_up_server();
        for (std::uint32_t i = 0; i < 2; ++i) {
            ClientOptions options;
            options.check_every = seed % 2 == 0 ? 0 : 8;
            Play::Guest& guest = play.add(options);
            guests.push_back(std::make_unique<GuestMonkey>(seed * 3 + i, *this, guest));
            guests.back()->watch(guest.world);
            set_up(*guests.back());
        }
    }
    ~Cage() { current = nullptr; }
    void run(int ticks) {
        for (int i = 0; i < ticks; ++i) {
            for (Monkey* monkey : monkeys()) monkey->budget = 12;
            play.before_tick = [this] { keeper.play(play.world); };
            play.run(1);
        }
    }
    /// Stops the monkeys, and returns whether each client that plays gets what the server has.
    void expect_calm() {
        for (Monkey* monkey : monkeys()) monkey->budget = 0;
        is_calm = true;
        play.before_tick = {};
        play.set_link({});
        play.run(25);
        EXPECT_TRUE(play.server.sender().is_consistent());
        for (const auto& guest : guests) {
            Client& client = guest->guest.client;
            if (client.phase() != Phase::playing) continue;
            EXPECT_TRUE(client.receiver().is_consistent() && guest->guest.world.is_consistent());
        }
    }
    std::vector<Monkey*> monkeys() {
        std::vector<Monkey*> all{&keeper};
        for (const auto& guest : guests) all.push_back(guest.get());
        return all;
    }

    struct Keeper final : Monkey {
        Keeper(std::uint32_t seed, Cage& in) : Monkey(seed), cage(in) {}
        void act_somehow(ecs::World& world) override;
        Cage& cage;
        std::vector<PlayerId> players;
    };
    struct GuestMonkey final : Monkey {
        GuestMonkey(std::uint32_t seed, Cage& in, Play::Guest& of_guest)
            : Monkey(seed), cage(in), guest(of_guest) {}
        void act_somehow(ecs::World& world) override;
        Cage& cage;
        Play::Guest& guest;
    };
    void set_up_server();
    void set_up(GuestMonkey& monkey);

    static inline Cage* current = nullptr;
    Play play;
    Keeper keeper;
    std::vector<std::unique_ptr<GuestMonkey>> guests;
    bool is_calm = false;
};

Monkey* find_monkey(const ecs::World& world) {
    if (Cage::current)
        for (Monkey* monkey : Cage::current->monkeys())
            if (monkey->of == &world) return monkey;
    return nullptr;
}

void Cage::Keeper::act_somehow(ecs::World& world) {
    Server& server = cage.play.server;
    const PlayerId player =
        players.empty() ? PlayerId{} : players[below(static_cast<std::uint32_t>(players.size()))];
    const ecs::Entity entity = any();
    const auto number = static_cast<std::int32_t>(below(1000));
    switch (below(18)) {
        case 0:
        case 1:
            if (entities.size() < 30)
                entities.push_back(world.spawn(Spot{}, Hull{}, Flag{}, Helm{}, Replicated{}));
            return;
        case 2:
            if (entity) world.destroy(entity);
            return;
        case 3:
            if (entity) server.give(below(3) == 0 ? PlayerId{} : player, entity);
            return;
        case 4:
            if (entity) server.predict(player, entity, below(2) == 0);
            return;
        case 5:
            server.act(Do{entity, number, -number});
            return;
        case 6:
            server.act(Nod{number, -number});
            return;
        case 7:
            server.send_all(Say{entity, "all"});
            return;
        case 8:
            server.send(player, Say{entity, std::string(below(60), 's')},
                        below(2) == 0 ? net::unordered() : net::latest_of(1));
            return;
        case 9:
            if (below(12) == 0) server.disconnect(player, "out", cage.play.now);
            return;
        case 10:
            if (entity && below(3) == 0 && world.has<Replicated>(entity)) server.set_player(player, entity);
            return;
        case 11:
            if (entity) server.teleport(entity);
            return;
        case 12:
            server.view(player).set_groups(to_group(below(3)));
            return;
        case 13:
            if (entity) server.view(player).send_now(std::array{entity});
            return;
        case 14:
            if (entity) static_cast<void>(server.assign_net_id(entity));
            return;
        case 15:
            if (entity) below(2) == 0 ? world.remove<Replicated>(entity) : world.add<Replicated>(entity);
            return;
        default:
            scribble(world, entity);
    }
}

void Cage::GuestMonkey::act_somehow(ecs::World& world) {
    Client& client = guest.client;
    const ecs::Entity entity = any();
    const auto number = static_cast<std::int32_t>(below(1000));
    switch (below(12)) {
        case 0:
        case 1:
            client.act(Do{entity, number, -number});
            return;
        case 2:
            client.act(Nod{number, -number});
            return;
        case 3:
            client.send(Say{entity, "hi"});
            return;
        case 4:
            if (below(20) == 0) client.disconnect(cage.play.now);
            return;
        case 5:
            if (below(12) == 0) client.connect(cage.play.at_server, client.ticket());
            return;
        case 6:
            client.input(Helm{static_cast<std::int8_t>(static_cast<int>(below(3)) - 1), below(2) == 0});
            return;
        case 7:
            if (entity && below(4) == 0) world.destroy(entity);
            return;
        case 8:
            if (entity && !world.is_deferring()) client.restore(entity);
            return;
        case 9:
            static_cast<void>(client.why_not(Do{entity, number, -number}));
            return;
        case 10:
            client.each_shown<Spot>([&](ecs::Entity shown, const Spot&) { entities.push_back(shown); });
            return;
        default:
            scribble(world, entity);
    }
}

void Cage::set_up_server() {
    Server& server = play.server;
    server.on_join([&](PlayerId id) {
        keeper.players.push_back(id);
        keeper.play(play.world);
        const ecs::Entity made = play.world.spawn(Spot{}, Hull{}, Flag{}, Helm{}, Replicated{});
        keeper.entities.push_back(made);
        return made;
    });
    const auto event = [&](PlayerId) { keeper.play(play.world); };
    server.on_leave(event);
    server.on_away(event);
    server.on_back(event);
    server.on_warning([&](PlayerId, Warning) { keeper.play(play.world); });
    server.on<Say>([&](PlayerId, const Say&) { keeper.play(play.world); });
    server.on<Do>([&](const Do& it, const Call&) {
        keeper.play(play.world);
        EXPECT_EQ(it.check, -it.number);
    });
    server.on<Nod>([&](const Nod&, const Call&) { keeper.play(play.world); });
    server.on_action([&](const ActionReport&) { keeper.play(play.world); });
    server.on_step([&](const Step& step) {
        step.each<Spot, const Helm>([&](Spot& spot, const Helm& helm) {
            spot.x += helm.turn * step.dt;
            if (keeper.below(16) == 0) keeper.play(play.world);
        });
        keeper.play(play.world);
    });
    server.check<Flag>([&](PlayerId, ecs::Entity, const Flag& flag) {
        keeper.play(play.world);
        return std::string(flag.text.size() == 7 ? "seven" : "");
    });
}

void Cage::set_up(GuestMonkey& monkey) {
    Client& client = monkey.guest.client;
    ecs::World& world = monkey.guest.world;
    const auto play_here = [&] { monkey.play(world); };
    client.on<Say>([=](const Say&, const MessageInfo&) { play_here(); });
    client.on<Do>([=](const Do& it, const Call&) {
        play_here();
        EXPECT_EQ(it.check, -it.number);
    });
    client.on<Nod>([=](const Nod&, const Call&) { play_here(); });
    client.on_rejected<Do>([=](const Do& it, std::string_view) {
        play_here();
        EXPECT_EQ(it.check, -it.number);
    });
    client.on_refused<Flag>([=](ecs::Entity, std::string_view) { play_here(); });
    client.on_step([this, &client, &monkey](const Step& step) {
        step.each<Spot, const Helm>([&](Spot& spot, const Helm& helm) { spot.x += helm.turn * step.dt; });
        if (is_calm || monkey.below(8) != 0) return;
        client.send(Say{});
        client.act(Nod{4, -4});
    });
    monkey.guest.on_frame = [this, &monkey, &client, &world] {
        if (!client.is_connected() && monkey.below(10) == 0) client.connect(play.at_server, client.ticket());
        client.input(Helm{});
        if (!is_calm) monkey.play(world);
    };
    const auto seen = [&monkey](ecs::World& in, ecs::Entity entity, const Replica&) {
        monkey.entities.push_back(entity);
        monkey.play(in);
    };
    monkey.hooks.push_back(world.on_add<Replica>(seen));
    monkey.hooks.push_back(
        world.on_remove<Replica>([&](ecs::World& in, ecs::Entity, const Replica&) { monkey.play(in); }));
}

TEST(CalledFromInside, AMonkeyThatCallsEverythingFromEverywhere) {
    for (const std::uint64_t seed : sim::kind_seeds(100)) {
        if (testing::Test::HasFailure()) break;
        SCOPED_TRACE(testing::Message() << "SHOAL_KIND_SEEDS=" << seed << ":1");
        Cage cage(static_cast<std::uint32_t>(seed));
        cage.run(40);
        cage.expect_calm();
    }
}

}  // namespace
}  // namespace shoal::replication::impl::monkey_test
