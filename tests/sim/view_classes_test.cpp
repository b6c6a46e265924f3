// Components that only some peers see, through loss, while owners and groups change.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/game.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session.h"

namespace shoal::sim {
namespace {

constexpr std::size_t kGuests = 3, kEntities = 8;

struct Place {
    std::int32_t value = 0;
};
struct Ammunition {
    std::int32_t value = 0;
};
struct Disguise {
    std::int32_t value = 0;
};
struct Orders {
    std::int32_t value = 0;
};
struct Badge {
    std::int32_t value = 0;
};

replication::Schema restricted_schema() {
    using namespace replication;
    Schema schema;
    schema.component<Place>("place");
    schema.component<Ammunition>("ammunition", to_owner());
    schema.component<Disguise>("disguise", to_others());
    schema.component<Orders>("orders", to_group(0));
    schema.component<Badge>("badge", to_owner() | to_group(1), bounded(0, 1'000'000));
    schema.tag<replication::Mine>("mine", to_owner());
    return schema;
}

/// Component names and values; a tag has 0.
using Values = std::map<std::string, std::uint32_t>;

struct EntityAt {
    Values values;
    std::optional<std::size_t> owner;  // a guest
};
struct TickTruth {
    std::map<replication::NetId, EntityAt> entities;
    replication::ViewClasses groups[kGuests];
};

Values visible_to(std::size_t guest, const EntityAt& entity, replication::ViewClasses groups) {
    const bool is_owner = entity.owner == guest;
    Values out;
    for (const auto& [name, value] : entity.values) {
        const bool is_visible = name == "place" || ((name == "ammunition" || name == "mine") && is_owner) ||
                                (name == "disguise" && !is_owner) ||
                                (name == "orders" && overlap(groups, replication::to_group(0))) ||
                                (name == "badge" && (is_owner || overlap(groups, replication::to_group(1))));
        if (is_visible) out[name] = value;
    }
    return out;
}

class ViewClassWorld {
public:
    ViewClassWorld(std::uint64_t seed, const net::LinkConfig& link)
        : random_(seed), session_(schema_, link, kGuests, seed), groups_(kGuests) {
        while (entities_.size() < kEntities) entities_.push_back(spawn());
    }

    void step(bool with_changes) {
        if (with_changes) {
            change_values();
            if (random_.chance(0.1)) change_owner();
            if (random_.chance(0.03)) change_groups();
            if (random_.chance(0.03)) {
                const std::size_t i = random_.below(kEntities);
                session_.world().destroy(entities_[i]);
                entities_[i] = spawn();
            }
        }
        session_.step();
        record();
        for (std::size_t guest = 0; guest < kGuests; ++guest) check_versions(guest);
    }

    void set_link(const net::LinkConfig& link) { session_.set_link(link); }

    /// The clients' worlds have what each client sees of the last tick.
    void expect_agreement() {
        const TickTruth& truth = truth_[session_.server().current_tick()];
        for (std::size_t guest = 0; guest < kGuests; ++guest) {
            auto& client = session_.guests()[guest]->client;
            std::size_t mine = 0;
            for (const auto& [net_id, entity] : truth.entities) {
                const ecs::Entity replica = client.receiver().entity(net_id);
                ASSERT_TRUE(replica);
                EXPECT_EQ(values_of(session_.guests()[guest]->world, replica),
                          visible_to(guest, entity, truth.groups[guest]));
                mine += entity.owner == guest;
            }
            EXPECT_EQ(client.mine().size(), mine);
        }
        EXPECT_TRUE(session_.server().sender().is_consistent());
        EXPECT_GT(checked_, 1'000u);
    }

private:
    ecs::Entity spawn() {
        const ecs::Entity entity = session_.world().spawn(replication::Replicated{}, Place{}, Ammunition{},
                                                          Disguise{}, Orders{}, Badge{});
        if (random_.chance(0.5)) session_.server().give(any_peer(), entity);
        return entity;
    }

    net::PeerId any_peer() {
        std::vector<net::PeerId> peers{{}};
        session_.server().for_each_peer([&](net::PeerId peer) { peers.push_back(peer); });
        return peers[random_.below(static_cast<std::uint32_t>(peers.size()))];
    }

    template <class T>
    void change(ecs::Entity entity) {
        const T value{static_cast<std::int32_t>(random_.below(1'000'000))};
        if (random_.chance(0.1)) {
            session_.world().remove<T>(entity);
        } else if (random_.chance(0.5)) {
            session_.world().set(entity, value);
        }
    }
    void change_values() {
        const ecs::Entity entity = entities_[random_.below(kEntities)];
        change<Place>(entity);
        change<Ammunition>(entity);
        change<Disguise>(entity);
        change<Orders>(entity);
        change<Badge>(entity);
    }
    void change_owner() { session_.server().give(any_peer(), entities_[random_.below(kEntities)]); }
    void change_groups() {
        const std::uint32_t which = random_.below(4);
        replication::ViewClasses groups;
        if ((which & 1) != 0) groups = groups | replication::to_group(0);
        if ((which & 2) != 0) groups = groups | replication::to_group(1);
        const net::PeerId peer = any_peer();
        if (const auto guest = guest_of(peer)) groups_[*guest] = groups;
        session_.server().view(peer).set_groups(groups);
    }

    std::optional<std::size_t> guest_of(net::PeerId peer) {
        for (std::size_t guest = 0; guest < kGuests && peer; ++guest)
            if (session_.server().host().address(peer) == session_.guests()[guest]->address) return guest;
        return std::nullopt;
    }

    template <class T>
    static void read(const ecs::World& world, ecs::Entity entity, const std::string& name, Values& values) {
        if (const T* value = world.try_get<T>(entity))
            values[name] = static_cast<std::uint32_t>(value->value);
    }
    static Values values_of(const ecs::World& world, ecs::Entity entity) {
        Values values;
        read<Place>(world, entity, "place", values);
        read<Ammunition>(world, entity, "ammunition", values);
        read<Disguise>(world, entity, "disguise", values);
        read<Orders>(world, entity, "orders", values);
        read<Badge>(world, entity, "badge", values);
        if (world.has<replication::Mine>(entity)) values["mine"] = 0;
        return values;
    }

    void record() {
        TickTruth& truth = truth_[session_.server().current_tick()];
        for (const ecs::Entity entity : entities_)
            truth.entities[session_.server().sender().net_id(entity)] = {
                values_of(session_.world(), entity), guest_of(session_.server().owner(entity))};
        for (std::size_t guest = 0; guest < kGuests; ++guest) truth.groups[guest] = groups_[guest];
    }

    void check_versions(std::size_t guest) {
        const auto check = [&](std::uint32_t, replication::NetId net_id, replication::Tick tick,
                               const replication::impl::Image& image) {
            Values held;
            for (replication::impl::ImageCursor at(schema_, image); !at.at_end(); at.next())
                held[schema_.components()[at.component()].name] = at.layout().empty() ? 0 : *at.lanes();
            const TickTruth& truth = truth_[tick];
            ASSERT_EQ(truth.entities.count(net_id), 1u);
            EXPECT_EQ(held, visible_to(guest, truth.entities.at(net_id), truth.groups[guest]))
                << "guest " << guest << ", tick " << tick << ", net id " << net_id;
            ++checked_;
        };
        session_.guests()[guest]->client.receiver().for_each_version(check);
    }

    Random random_;
    const replication::Schema schema_ = restricted_schema();
    Session session_;
    std::vector<replication::ViewClasses> groups_;
    std::vector<ecs::Entity> entities_;
    std::map<replication::Tick, TickTruth> truth_;
    std::size_t checked_ = 0;
};

TEST(ViewClasses, Rule02EachVersionHasWhatItsPeerSeesWhileOwnersAndGroupsChange) {
    for (const std::uint64_t seed : kind_seeds(6)) {
        SCOPED_TRACE(testing::Message() << "SHOAL_KIND_SEEDS=" << seed << ":1");
        net::LinkConfig link;
        link.latency = std::chrono::milliseconds(20 * static_cast<int>(seed % 7));
        link.jitter = std::chrono::milliseconds(10);
        link.loss = 0.02 * static_cast<double>(seed % 6);
        ViewClassWorld game(seed, link);
        for (int tick = 0; tick < 500; ++tick) {
            if (tick % 150 == 80) game.set_link({.loss = 1});  // for longer than the history
            if (tick % 150 == 149) game.set_link(link);
            game.step(true);
        }
        game.set_link({});
        for (int tick = 0; tick < 300; ++tick) game.step(false);
        game.expect_agreement();
        if (HasFailure()) break;
    }
}

}  // namespace
}  // namespace shoal::sim
