#include "tests/sim/player.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "tests/net/support/consistency.h"

namespace shoal::sim {
namespace {

replication::ClientOptions seeded(replication::ClientOptions options, std::uint64_t seed) {
    std::memcpy(options.net.seed.data(), &seed, sizeof seed);
    return options;
}

std::uint64_t handle_name(ecs::Entity entity) {
    return std::uint64_t{entity.generation} << 32 | entity.index;
}

}  // namespace

Player::Player(std::size_t index, const Plan& plan, std::uint64_t seed, const replication::Schema& schema)
    : schema_(schema),
      plan_(plan),
      random_(seed),
      chat_random_(seed + 0xc4a7),
      address_(net::Address::ipv4(10, 0, 1, static_cast<std::uint8_t>(index), 9000)),
      up_(plan.up, seed * 2 + 1),
      down_(plan.down, seed * 2 + 2),
      sink_(*this),
      ids_(bind_game(world_)),
      client_(world_, schema, sink_, seeded(plan.options, seed * 3), this),
      hash_(world_, schema),
      joins_at_(plan.joins_at) {
    for (int i = 0; i < 3; ++i) own_.push_back(world_.spawn(Position{1, 2, 3}, Wolf{}));
    connect_hooks();
}

Player::~Player() {
    hooks_.clear();
}

void Player::connect_hooks() {
    for (std::size_t i = 0; i < ids_.size(); ++i) {
        hooks_.push_back(world_.on(ecs::HookKind::add, ids_[i],
                                   [this, i](ecs::World&, ecs::Entity entity, const void* value) {
                                       on_value(i, entity, value, true);
                                   }));
        hooks_.push_back(world_.on(ecs::HookKind::change, ids_[i],
                                   [this, i](ecs::World&, ecs::Entity entity, const void* value) {
                                       on_value(i, entity, value, false);
                                   }));
        hooks_.push_back(world_.on(ecs::HookKind::remove, ids_[i],
                                   [this, i](ecs::World&, ecs::Entity entity, const void*) {
                                       if (told_.erase({entity, i}) != 1)
                                           fail("a remove hook without an add hook");
                                   }));
    }
    hooks_.push_back(world_.on_destroy([this](ecs::World&, ecs::Entity entity) { known_.erase(entity); }));
}

void Player::on_value(std::size_t component, ecs::Entity entity, const void* value, bool added) {
    if (!is_applying_) return fail("a hook outside of update()");
    if (known_.insert(entity).second) {
        const auto all = world_.components_of(entity);
        spawned_[entity].assign(all.begin(), all.end());
    }
    Snapshot snapshot;
    if (const auto take = game_components()[component].take) {
        take(
            value,
            [&](ecs::Entity target) {
                if (!world_.is_alive(target) || client_.receiver().net_id(target) == 0)
                    fail("a hook saw a reference that is not a replica");
                else
                    check_neighbour(target);
                return handle_name(target);
            },
            snapshot);
    }
    check_neighbour(entity);
    if (added == told_.contains({entity, component}))
        fail(added ? "added twice" : "changed before it was added");
    told_[{entity, component}] = std::move(snapshot);
}

void Player::on_leave(net::DisconnectReason reason, std::string_view text) {
    const bool ours = !wants_in_;
    const bool kicked = reason == net::DisconnectReason::kicked || reason == net::DisconnectReason::shut_down;
    // A burst ends after a number of packets. A connection without acks sends few, so a burst can last long.
    const bool has_bursts = plan_.up.burst > 0 || plan_.down.burst > 0;
    const bool is_awful = has_bursts || plan_.up.loss > 0.2 || plan_.down.loss > 0.2 ||
                          plan_.partitions > 0 || plan_.sleeps > 0.1;
    const bool cut_off =
        (is_awful || may_be_forgotten_) &&
        (reason == net::DisconnectReason::timed_out || reason == net::DisconnectReason::server_restarted ||
         reason == net::DisconnectReason::unreachable);
    if (!ours && !kicked && !cut_off) fail("disconnected: " + std::string(text));
    wants_in_ = false;
}

std::string Player::step(net::Time now, std::uint32_t frame, const History& history) {
    now_ = now;
    while (down_.pop(now, datagram_)) client_.endpoint().receive(datagram_.from, datagram_.bytes, now);
    if (!wants_in_ && frame >= joins_at_) {
        is_applying_ = true;
        client_.connect(kServerAddress);
        client_.update(now);  // destroys the old replicas
        is_applying_ = false;
        wants_in_ = true;
        checked_.clear();
        newest_.clear();
        written_.clear();
        destroyed_.clear();
        has_checked_ = false;
    }
    if (!is_calm_) misbehave(frame);
    if (!is_calm_ && client_.is_connected()) {
        chat_.speak(chat_random_, [&](net::Delivery how, std::span<const std::byte> bytes) {
            return client_.send_message(how, bytes);
        });
    }
    if (frame < sleeps_until_) return problem_;
    check_versions(history);
    is_applying_ = true;
    client_.update(now);
    is_applying_ = false;
    check_told();
    check_versions(history);
    check_replicas();
    check_complete(history);
    if (frame % 8 == 0 && !client_.receiver().is_consistent()) fail("the receiver is not consistent");
    if (frame % 8 == 0 && !is_consistent(client_.endpoint())) fail("the endpoint is not consistent");
    return problem_;
}

void Player::misbehave(std::uint32_t frame) {
    if (wants_in_ && random_.chance(plan_.leaves)) {
        wants_in_ = false;
        joins_at_ = frame + random_.below(40);
        client_.disconnect(now_);
    }
    if (frame >= sleeps_until_ && random_.chance(plan_.sleeps)) sleeps_until_ = frame + random_.below(20);
    if (random_.chance(plan_.moves)) {
        address_.port += 1;
        moves_ += 1;
    }
    if (random_.chance(plan_.partitions)) {
        const std::uint32_t until = frame + 10 + random_.below(140);
        const std::uint32_t which = random_.below(3);
        if (which != 0) up_cut_until_ = until;
        if (which != 1) down_cut_until_ = until;
    }
    net::LinkConfig up = plan_.up, down = plan_.down;
    if (frame < up_cut_until_) up.loss = 1;
    if (frame < down_cut_until_) down.loss = 1;
    up_.set_config(up);
    down_.set_config(down);
    if (random_.chance(plan_.destroys)) {
        std::vector<std::pair<std::uint32_t, ecs::Entity>> replicas;
        client_.receiver().for_each_entity([&](std::uint32_t id, ecs::Entity entity) {
            replicas.push_back({id, entity});
        });
        if (replicas.empty()) return;
        const auto [net_id, entity] = replicas[random_.below(static_cast<std::uint32_t>(replicas.size()))];
        destroyed_.insert(net_id);
        destroyed_count_ += 1;
        world_.destroy(entity);
        if (client_.receiver().entity(net_id)) fail("entity() returns a destroyed replica");
    }
}

/// Checks that each new version equals the server's entity at its tick.
void Player::check_versions(const History& history) {
    checking_.clear();
    next_checked_ = 0;
    client_.receiver().for_each_version([&](std::uint32_t slot, std::uint32_t net_id, replication::Tick tick,
                                            const replication::impl::Image& image) {
        checking_.push_back({slot, net_id, tick});
        if (was_checked(slot, net_id, tick)) return;
        versions_checked_ += 1;
        std::ostringstream where;
        where << "version " << tick << " of net id " << net_id << " in slot " << slot;
        const Snapshot* truth = history.at(net_id, tick);
        if (!truth) return fail(where.str() + " does not exist on the server");
        Snapshot held = snapshot_of(schema_, image);
        const auto [newest, is_first] = newest_.try_emplace(net_id, tick);
        if (is_first || replication::is_newer(tick, newest->second)) newest->second = tick;
        for (std::uint64_t& name : held.references)
            if (!history.at(static_cast<std::uint32_t>(name), tick)) name = 0;
        if (held != *truth)
            fail(where.str() + " differs\n  client:" + held.to_string() + "\n  server:" + truth->to_string());
    });
    std::swap(checked_, checking_);
}

/// Both lists are in the order of slots, and in a slot in the order of ticks.
bool Player::was_checked(std::uint32_t slot, std::uint32_t net_id, replication::Tick tick) {
    for (; next_checked_ < checked_.size(); ++next_checked_) {
        const Checked& last = checked_[next_checked_];
        if (last.slot == slot && last.net_id == net_id && last.tick == tick) return true;
        if (last.slot > slot || (last.slot == slot && replication::is_newer(last.tick, tick))) return false;
    }
    return false;
}

/// Returns the version that the world should show; nothing if the client knows none.
std::optional<replication::impl::Version> Player::due(std::uint32_t net_id) const {
    const replication::impl::Replicas& replicas = client_.receiver().replicas();
    const std::uint32_t index = replicas.ids().find(net_id);
    if (index == replication::impl::Replicas::kNone) return std::nullopt;
    return replicas.due(index);
}

/// Compares a replica with the version that is due. A reference to an entity that is no replica must be null.
/// Returns the difference, or nothing.
std::string Player::compare_to_due(ecs::Entity entity, std::uint64_t which) const {
    const replication::Receiver& receiver = client_.receiver();
    const std::uint32_t net_id = receiver.net_id(entity);
    const std::optional<replication::impl::Version> version = due(net_id);
    if (!version) return "net id " + std::to_string(net_id) + " has no version";
    // With a render time, a replica can come and end between two checks of versions.
    if (const auto newest = newest_.find(net_id);
        !client_.render_time() && (newest == newest_.end() || newest->second != version->tick))
        return "the newest version of net id " + std::to_string(net_id) + " is not due";
    Snapshot should = snapshot_of(schema_, version->image);
    for (std::uint64_t& name : should.references)
        if (!receiver.entity(static_cast<std::uint32_t>(name))) name = 0;
    const NameOf name_of = [&](ecs::Entity target) -> std::uint64_t { return receiver.net_id(target); };
    const Snapshot is = snapshot_of(world_, ids_, entity, name_of, which);
    if (is == should) return {};
    return "net id " + std::to_string(net_id) + " differs from its version " + std::to_string(version->tick) +
           "\n  world:  " + is.to_string() + "\n  version:" + should.to_string();
}

/// Checks, in a hook, that a replica has all values of this update(). Components that leave it are removed
/// after the hooks.
void Player::check_neighbour(ecs::Entity entity) {
    if (!neighbours_.insert(entity).second) return;
    neighbours_checked_ += 1;
    const std::optional<replication::impl::Version> version = due(client_.receiver().net_id(entity));
    const std::uint64_t which = version ? snapshot_of(schema_, version->image).components : 0;
    if (std::string what = compare_to_due(entity, which); !what.empty()) fail("in a hook " + what);
}

/// Checks that each replica equals its version that is due, whether the client is complete or not.
void Player::check_replicas() {
    neighbours_.clear();
    client_.receiver().for_each_entity([&](std::uint32_t net_id, ecs::Entity entity) {
        const std::optional<replication::impl::Version> version = due(net_id);
        if (!version) return fail("a replica without a version that is due");
        if (client_.render_time() && version->image.shape->is_delayed &&
            replication::is_newer(version->tick, client_.render_time()->tick) && !written_.contains(net_id))
            fail("a replica is shown before its tick");
        std::optional<replication::Tick>& written = written_[net_id];
        if (written == version->tick) return;
        written = version->tick;
        replicas_checked_ += 1;
        if (std::string what = compare_to_due(entity, ~std::uint64_t{0}); !what.empty()) fail(what);
    });
}

/// Checks that hooks reported each change, and each spawn only when it had all components.
void Player::check_told() {
    for (const auto& [entity, components] : spawned_) {
        const auto all = world_.components_of(entity);
        if (world_.is_alive(entity) &&
            !std::equal(all.begin(), all.end(), components.begin(), components.end()))
            fail("the first hook of a spawn did not see all its components");
    }
    spawned_.clear();
    std::size_t values = 0;
    client_.receiver().for_each_entity([&](std::uint32_t, ecs::Entity entity) {
        for (std::size_t i = 0; i < ids_.size(); ++i) {
            if (!world_.has(entity, ids_[i])) continue;
            values += 1;
            const auto told = told_.find({entity, i});
            if (told == told_.end()) return fail("a component was added without its hook");
            if (told->second != handles_of(entity, i)) fail("a value changed without its hook");
        }
    });
    if (values != told_.size()) fail("a component or an entity was removed without its hook");
}

Snapshot Player::handles_of(ecs::Entity entity, std::size_t component) const {
    Snapshot out;
    if (const auto take = game_components()[component].take)
        take(world_.try_get(entity, ids_[component]), handle_name, out);
    return out;
}

/// If the client is complete, checks that its world equals the server's.
void Player::check_complete(const History& history) {
    const auto complete = client_.receiver().complete();
    if (!complete) return;
    const replication::Tick tick = complete->tick;
    if (has_checked_ && tick == complete_checked_) return;
    has_checked_ = true;
    complete_checked_ = tick;
    complete_checks_ += 1;
    if (!history.knows(tick) || !history.knows(complete->since))
        return fail("complete at a tick that the server did not have");
    const replication::Receiver& receiver = client_.receiver();
    const NameOf name_of = [&](ecs::Entity entity) -> std::uint64_t { return receiver.net_id(entity); };
    std::uint32_t expected = 0;
    history.for_each_at(tick, [&](std::uint32_t net_id, const Snapshot& truth) {
        if (destroyed_.contains(net_id)) {
            if (receiver.entity(net_id)) fail("a replica that the game destroyed was created again");
            return;
        }
        expected += 1;
        const std::string who = "complete at " + std::to_string(tick) + ": net id " + std::to_string(net_id);
        const ecs::Entity entity = receiver.entity(net_id);
        if (!entity) return fail(who + " is missing");
        Snapshot should = truth;
        for (std::uint64_t& name : should.references)
            if (destroyed_.contains(static_cast<std::uint32_t>(name))) name = 0;
        Snapshot is = snapshot_of(world_, ids_, entity, name_of);
        if (is != should)
            fail(who + " differs\n  client:" + is.to_string() + "\n  server:" + should.to_string());
        worlds_checked_ += 1;
    });
    std::uint32_t replicas = 0;
    receiver.for_each_entity([&](std::uint32_t, ecs::Entity) { replicas += 1; });
    if (replicas != expected)
        fail("complete at " + std::to_string(tick) + ", but with another number of entities");
    if (world_.size() != replicas + own_.size()) fail("a destroyed entity is still in the world");
    for (const ecs::Entity entity : own_)
        if (!world_.is_alive(entity) || !world_.has<Wolf>(entity))
            fail("an entity of the game itself was changed");
    if (destroyed_.empty()) {
        if (receiver.entity_count() != replicas) fail("entity_count() is wrong");
        const auto sum = hash_.of_client(receiver);
        if (sum.entities != expected || sum.hash != history.hash(tick)) fail("the world hash differs");
    }
    if (destroyed_.empty() && history.hash(complete->since) != history.hash(tick)) fail("`since` is too old");
}

void Player::calm() {
    is_calm_ = true;
    net::LinkConfig good;
    good.burst_length = 1;  // ends a burst that has begun
    // If reordered datagrams are on their way, a shorter path would let new ones overtake them by more ticks.
    good.latency = keeps_order() ? plan_.calm_latency : plan_.up.latency;
    up_.set_config(good);
    good.latency = keeps_order() ? plan_.calm_latency : plan_.down.latency;
    down_.set_config(good);
    sleeps_until_ = 0;
    joins_at_ = 0;
}

bool Player::is_complete(replication::Tick last_change) const {
    const auto complete = client_.receiver().complete();
    return client_.is_connected() && complete && !replication::is_newer(last_change, complete->since);
}

bool Player::is_complete_at(replication::Tick tick) const {
    const auto complete = client_.receiver().complete();
    return client_.is_connected() && complete && complete->tick == tick;
}

std::string Player::state() const {
    std::ostringstream out;
    const auto complete = client_.receiver().complete();
    out << address_.to_string()
        << (client_.is_connected() ? " connected" : " not connected " + client_.failure());
    if (complete) out << ", complete from " << complete->since << " to " << complete->tick;
    if (const auto newest = client_.receiver().newest_tick()) out << ", newest tick " << *newest;
    const auto& stats = client_.receiver().stats();
    out << ", refused " << stats.refused_packets << ", rebases " << stats.rebases;
    return out.str();
}

std::string Player::check_empty() const {
    if (world_.size() != own_.size()) return "destroyed entities are still in the client's world";
    if (!told_.empty()) return "hooks missed a removal";
    if (client_.receiver().stats().suppressed != destroyed_count_)
        return "suppressed " + std::to_string(client_.receiver().stats().suppressed) +
               " replicas, but the game destroyed " + std::to_string(destroyed_count_);
    return {};
}

/// If datagrams keep their order, the server only names baselines that the client still has, however many
/// datagrams and acks are lost. Records of a large payload may come after newer ones: small payloads overtake
/// it.
std::string Player::check_repairs() const {
    const auto& stats = client_.receiver().stats();
    if (stats.malformed_packets != 0) return "malformed packets";
    if (stats.differences != 0) return "a self-check found other values";
    if (!keeps_order()) return {};
    if (plan_.options.receiver.max_versions < kEnoughVersions) return {};
    if (stats.refused_packets != 0) return "refused a packet, though all came in order";
    if (stats.rebases != 0) return "requested a full record, though all packets came in order";
    return {};
}

void Player::fail(const std::string& what) {
    if (problem_.empty()) problem_ = "client " + address_.to_string() + ": " + what;
}

}  // namespace shoal::sim
