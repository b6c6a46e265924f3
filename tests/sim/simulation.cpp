#include "tests/sim/simulation.h"
#include "tests/net/support/consistency.h"

#include "tests/net/support/server_key.h"

#include <cmath>
#include <cstring>
#include <sstream>

namespace shoal::sim {
namespace {

using std::chrono::milliseconds;

/// How many ticks a datagram is late if others overtake it, see make_reordered(): fewer than
/// Replicas::kLateTicks, as the server's and the client's ticks are not at the same time.
constexpr double kOvertakenTicks = 14;

net::Duration random_ms(Random& random, double low, double high) {
    return net::Duration(static_cast<net::Duration::rep>(1000 * random.between(low, high)));
}

net::LinkConfig link_of(Random& random) {
    net::LinkConfig link;
    link.latency = random_ms(random, 0, random.chance(0.2) ? 250 : 60);
    if (random.chance(0.6)) link.jitter = random_ms(random, 0, 40);
    if (random.chance(0.7)) link.loss = random.between(0, random.chance(0.2) ? 0.5 : 0.15);
    if (random.chance(0.3)) link.burst = random.between(0, 0.02);
    link.burst_length = 4;
    if (random.chance(0.4)) link.duplicate = random.between(0, 0.2);
    if (random.chance(0.5)) link.reorder = random.between(0, 0.3);
    link.reorder_delay = random_ms(random, 5, 120);
    if (random.chance(0.3)) link.corrupt = random.between(0, 0.1);
    return link;
}

/// Returns 1, or a packet number less than 100 below a power of two, so that its low bits wrap around soon.
std::uint64_t first_number(Random& random) {
    static constexpr unsigned kWidths[] = {7, 8, 15, 16, 24, 31, 32, 48};
    if (random.chance(0.2)) return 1;
    return (std::uint64_t{1} << random.pick(kWidths)) - 1 - random.below(100);
}

net::Seed net_seed(std::uint64_t number) {
    net::Seed seed{};
    std::memcpy(seed.data(), &number, sizeof number);
    return seed;
}

replication::Schema game_schema(bool interpolates) {
    replication::Schema schema;
    describe(schema, interpolates ? replication::linear() : replication::Display{});
    return schema;
}

}  // namespace

Plan plan_of(std::uint64_t seed) {
    Random random(seed * 0x9e3779b97f4a7c15u + 1);
    Plan plan;
    plan.seed = seed;
    static constexpr double kRates[] = {60, 60, 30, 20, 120};
    plan.tick_hz = random.pick(kRates);
    plan.busy_ticks = 120 + random.below(220);
    if (random.chance(0.4)) plan.keeps = 0;

    plan.style.max_entities = random.chance(0.1) ? 250 : 5 + random.below(45);
    plan.style.operations = random.chance(0.1) ? 60 : random.between(0.2, 12);
    plan.style.churn = random.between(0, 0.6);
    plan.style.cluster = random.chance(0.5) ? 0.03 : 0;
    plan.style.idle = random.chance(0.5) ? 0.05 : 0;
    plan.style.large = seed % 60 == 7 ? 0.02 : 0;

    static constexpr replication::Tick kFirstTicks[] = {
        1, 0, 0xffffffff - 60, 0x7fffffff - 60, 0xffffff80, 0x80000000, 1000};
    plan.server.first_tick = random.pick(kFirstTicks);
    plan.server.host.protocol_id = 7;
    plan.server.host.seed = net_seed(seed);
    give_key(plan.server.host);
    plan.server.host.connection.first_packet_number = first_number(random);
    plan.server.host.connection.timeout = std::chrono::seconds(6);
    // Longer than connect_timeout of the clients, so that the server keeps a handshake that a client
    // completes late.
    plan.server.host.handshake_timeout = std::chrono::seconds(20);
    plan.server.sender.tick_hz = plan.tick_hz;
    if (seed % 4 == 1) plan.server.sender.coding = replication::Coding::bits;
    if (seed % 4 == 2) {
        plan.server.renew_model_s = 1;
        plan.server.sender.learn_every = 1;
    }
    static constexpr double kHistories[] = {0.6, 0.6, 0.1, 0.02, 2.0};
    plan.server.sender.history_s = random.pick(kHistories);
    static constexpr std::uint64_t kRatesPerSecond[] = {256'000, 256'000, 20'000, 8'000, 4'000};
    plan.server.host.connection.max_bytes_per_second = random.pick(kRatesPerSecond);
    if (plan.style.large > 0)  // time for some entities of 30 kB
        plan.rest_s += 400'000.0 / static_cast<double>(plan.server.host.connection.max_bytes_per_second);

    const std::uint32_t players = 1 + random.below(random.chance(0.15) ? 8 : 3);
    for (std::uint32_t i = 0; i < players; ++i) {
        Player::Plan player;
        player.up = link_of(random);
        player.down = link_of(random);
        if (random.chance(0.4)) player.joins_at = random.below(plan.busy_ticks);
        if (random.chance(0.2)) player.leaves = 0.01;
        if (random.chance(0.3)) player.partitions = 0.01;
        if (random.chance(0.3)) player.sleeps = random.between(0, 0.2);
        if (random.chance(0.3)) player.moves = random.between(0, 0.01);
        if (random.chance(0.3)) player.destroys = random.between(0, 0.05);
        player.options.net.protocol_id = 7;
        give_key(player.options.net);
        player.options.net.connection.first_packet_number = first_number(random);
        player.options.net.connection.timeout = std::chrono::seconds(6);
        static constexpr std::uint32_t kVersions[] = {128, 128, 128, 32, 8, 4};
        player.options.receiver.max_versions = random.pick(kVersions);
        plan.players.push_back(player);
    }
    if (seed % 15 == 4) plan.style.turnover = 0.03;
    if (seed % 30 == 4) {  // a client that takes fewer entities than there are
        const std::uint32_t slots = 1 + plan.style.max_entities / 2;
        plan.players[0].options.receiver.max_slots = slots;
        plan.keeps = std::min(plan.keeps, slots);
    }
    if (seed % 12 == 5) plan.crashes = 0.01;
    if (seed % 8 == 0) make_quiet(plan);
    if (seed % 16 == 3) make_reordered(plan);
    return plan;
}

void make_quiet(Plan& plan) {
    plan.is_quiet = true;
    plan.kicks = plan.crashes = 0;
    for (Player::Plan& player : plan.players) {
        for (net::LinkConfig* link : {&player.up, &player.down})
            *link = {.latency = link->latency, .jitter = link->jitter};
        player.leaves = player.partitions = player.sleeps = player.moves = 0;
        player.options.receiver.max_versions = Player::kEnoughVersions;
    }
}

void make_reordered(Plan& plan) {
    make_quiet(plan);
    plan.is_quiet = false;
    plan.is_reordered = true;
    // A client cannot decode a delta that arrives after the despawn record of its entity.
    plan.style.is_stable = true;
    plan.style.turnover = 0;
    plan.keeps = ~0u;
    for (Player::Plan& player : plan.players) {
        for (net::LinkConfig* link : {&player.up, &player.down}) {
            link->jitter = net::Duration{0};
            link->reorder = 0.2;
            link->reorder_delay =
                net::Duration(static_cast<net::Duration::rep>(kOvertakenTicks * 1e6 / plan.tick_hz));
        }
    }
}

void Simulation::Sink::send(const net::Address& to, std::span<const std::byte> datagram) {
    for (const auto& player : simulation.players_)
        if (player->address() == to) player->down().push(kServerAddress, to, datagram, simulation.now_);
}

Simulation::Simulation(const Plan& plan)
    : plan_(plan),
      random_(plan.seed ^ 0xabcdef),
      frame_(static_cast<net::Duration::rep>(1e6 / plan.tick_hz)),
      schema_(game_schema(plan.interpolates)),
      ids_(bind_game(world_)),
      director_(world_, plan.seed + 17, plan.style),
      sink_(*this),
      server_(world_, schema_, sink_, plan.server, this),
      hash_(world_, schema_),
      history_(plan.server.first_tick),
      chat_random_(plan.seed + 0x5a1d) {
    if (!schema_.error().empty()) fail(schema_.error());
    for (std::size_t i = 0; i < plan.players.size(); ++i)
        players_.push_back(std::make_unique<Player>(i, plan.players[i], plan.seed * 100 + i, schema_));
}

Simulation::~Simulation() = default;

void Simulation::on_leave(net::PeerId peer, net::DisconnectReason reason, std::string_view text) {
    if (reason == net::DisconnectReason::protocol_error)
        fail("the server drops a client: " + std::string(text));
    chats_.erase(peer);
}

void Simulation::speak() {
    for (auto& entry : chats_) {
        entry.second.speak(chat_random_, [&](net::Delivery how, std::span<const std::byte> bytes) {
            return server_.send_message(entry.first, how, bytes);
        });
    }
}

/// In both directions, for all connected peers.
bool Simulation::has_everyone_heard_all() const {
    for (const auto& [peer, chat] : chats_) {
        for (const auto& player : players_) {
            if (player->address() != server_.host().address(peer)) continue;
            if (!chat.has_heard_all_of(player->chat()) || !player->chat().has_heard_all_of(chat))
                return false;
        }
    }
    return true;
}

void Simulation::fail(const std::string& what) {
    if (problem_.empty()) problem_ = what;
}

std::string Simulation::run() {
    std::uint32_t frame = 0;
    for (; frame < plan_.busy_ticks && problem_.empty(); ++frame) {
        director_.step();
        if (random_.chance(plan_.kicks)) {
            std::vector<net::PeerId> peers;
            server_.for_each_peer([&](net::PeerId peer) { peers.push_back(peer); });
            for (const auto& player : players_) player->may_be_forgotten();
            if (!peers.empty())
                server_.disconnect(peers[random_.below(static_cast<std::uint32_t>(peers.size()))], "go away",
                                   now_);
        }
        if (plan_.crashes > 0 && random_.chance(plan_.crashes) && totals_.crashes < 5)
            replace(random_.below(static_cast<std::uint32_t>(players_.size())), frame);
        speak();
        step(true);
        for (const auto& player : players_)
            if (std::string what = player->step(now_, frame, history_); !what.empty()) fail(what);
    }
    director_.shrink_to(plan_.keeps);
    if (problem_.empty()) rest();
    return problem_;
}

/// The game of a player crashed and is started again: the server has a connection that nobody answers, and at
/// the same address a client with an empty world connects.
void Simulation::replace(std::size_t index, std::uint32_t frame) {
    add(totals_, *players_[index]);
    totals_.crashes += 1;
    Player::Plan plan = plan_.players[index];
    plan.joins_at = frame + random_.below(30);
    const std::uint64_t seed = plan_.seed * 100 + index + 50 * totals_.crashes;
    players_[index] = std::make_unique<Player>(index, plan, seed, schema_);
}

/// Without changes and network faults all clients must become complete.
void Simulation::rest() {
    for (const auto& player : players_) player->calm();
    std::uint32_t frame = plan_.busy_ticks;
    const std::uint32_t limit = frame + static_cast<std::uint32_t>(plan_.rest_s * plan_.tick_hz);
    do {
        step(true);
        for (const auto& player : players_)
            if (std::string what = player->step(now_, frame, history_); !what.empty()) fail(what);
    } while (++frame < limit && !is_everyone_complete() && problem_.empty());
    if (!problem_.empty()) return;
    if (!is_everyone_complete()) {
        std::string states;
        for (const auto& player : players_) states += "\n  " + player->state();
        fail("not complete at rest, last change at " + std::to_string(history_.last_change()) + states);
        return;
    }
    // Then they must become complete as of the last tick, without new ticks. At the lowest rate the queued
    // messages alone take seconds.
    bool settled = false;
    const net::Time end = now_ + std::chrono::seconds(15);
    while (now_ < end && problem_.empty() && !settled) {
        step(false);
        for (const auto& player : players_)
            if (std::string what = player->step(now_, ++frame, history_); !what.empty()) fail(what);
        settled = server_.is_settled() && has_everyone_heard_all() && is_everyone_complete() &&
                  (!plan_.interpolates || is_everyone_complete_at(server_.current_tick()));
    }
    if (!problem_.empty()) return;
    if (!settled)
        return fail(server_.is_settled() ? "messages are missing"
                                         : "a peer did not acknowledge the last tick");
    for (const auto& player : players_) {
        if (!player->is_complete_at(server_.current_tick()))
            fail("acknowledged, but not complete: " + player->state());
        if (std::string what = player->check_repairs(); !what.empty()) fail(what);
        const auto& drops = player->client().stats().drops;
        if (drops[net::Drop::malformed] != 0) fail("malformed datagrams");
        if (plan_.keeps == 0)
            if (std::string what = player->check_empty(); !what.empty()) fail(what);
    }
    server_.for_each_peer([&](net::PeerId peer) {
        const auto stats = server_.stats(peer).state;
        totals_.empty_records += stats.empty_records;
        totals_.records += stats.records_sent;
        totals_.full_records += stats.full_records;
        // Empty deltas are for values that return to what the peer has. The worlds provoke some.
        if (plan_.is_quiet && stats.empty_records > 20 + stats.records_sent / 8)
            fail("many empty deltas: " + std::to_string(stats.empty_records) + " of " +
                 std::to_string(stats.records_sent));
        if (stats.pending != 0) fail("acknowledged, but records are pending");
        if (stats.slots_used != history_.alive().size())
            fail("slots were not freed: " + std::to_string(stats.slots_used) + " for " +
                 std::to_string(history_.alive().size()) + " entities");
    });
    if (plan_.is_quiet) check_quiet();
    if (plan_.is_quiet || plan_.is_reordered) check_nothing_repaired();
}

/// Without loss the server names only baselines that the clients have, also if datagrams overtake each other.
void Simulation::check_nothing_repaired() {
    for (const auto& player : players_) {
        const auto& stats = player->client().receiver().stats();
        if (stats.refused_packets != 0) fail("refused a packet, though none was lost");
        if (stats.rebases != 0) fail("requested a full record, though no packet was lost");
    }
}

/// In a quiet simulation nothing was dropped, lost or refused.
void Simulation::check_quiet() {
    const auto check_drops = [this](const net::DropCounters& drops, const std::string& side) {
        for (std::size_t i = 0; i < drops.counts.size(); ++i)
            if (drops.counts[i] != 0)
                fail(side + " dropped a datagram: " + std::string(net::describe(static_cast<net::Drop>(i))));
    };
    const auto check = [&](const net::ConnectionStats& stats, const std::string& side) {
        check_drops(stats.drops, side);
        if (stats.packets_lost != 0) fail(side + " declared packets lost");
        if (stats.payloads_withheld != 0) fail(side + " refused a payload");
        if (stats.messages_refused != 0) fail(side + " refused a message");
    };
    check_drops(server_.host().endpoint_stats().drops, "the host");
    server_.for_each_peer([&](net::PeerId peer) { check(server_.host().stats(peer), "the server"); });
    for (const auto& player : players_) {
        // A client repeats its request after 200 ms. On a long path it then gets a second answer.
        net::DropCounters drops = player->client().endpoint().endpoint_stats().drops;
        drops[net::Drop::unexpected] = 0;
        check_drops(drops, "the endpoint of a client");
        check(player->client().stats(), "a client");
        if (player->joins() != 1) fail("a client joined again");
    }
}

void Simulation::step(bool ticks) {
    now_ += frame_;
    for (const auto& player : players_)
        player->deliver_up(now_, [&](const net::Address& from, std::span<const std::byte> bytes) {
            server_.host().receive(from, bytes, now_);
        });
    if (ticks) {
        record(server_.tick(now_));
    } else {
        server_.resend(now_);
    }
    check_slots();
}

/// No peer gets more entity slots than its client takes.
void Simulation::check_slots() {
    server_.for_each_peer([&](net::PeerId peer) {
        const auto stats = server_.stats(peer).state;
        totals_.waits += stats.waiting != 0;
        for (const auto& player : players_)
            if (player->address() == server_.host().address(peer) &&
                stats.slots_used > player->client().receiver().options().max_slots)
                fail("a peer has more entity slots than its client takes");
    });
}

void Simulation::record(replication::Tick tick) {
    const replication::Sender& sender = server_.sender();
    const NameOf name_of = [&](ecs::Entity entity) -> std::uint64_t { return sender.net_id(entity); };
    std::vector<std::pair<std::uint32_t, Snapshot>> entities;
    for (const ecs::Entity entity : director_.entities())
        if (world_.has<replication::Replicated>(entity))
            entities.emplace_back(sender.net_id(entity), snapshot_of(world_, ids_, entity, name_of));
    const auto sum = hash_.of_server(sender.shadow());
    if (tick % 8 == 0 && !sender.is_consistent()) fail("the sender is not consistent");
    if (tick % 8 == 0 && !is_consistent(server_.host())) fail("the host is not consistent");
    if (sum.entities != entities.size()) fail("the server's hash counts another number of entities");
    if (!history_.record(tick, entities, sum.hash)) fail("a net id is 0, or was used twice");
}

bool Simulation::is_everyone_complete() const {
    std::size_t peers = 0;
    server_.for_each_peer([&](net::PeerId) { peers += 1; });
    if (peers != players_.size()) return false;  // one side does not know yet that the connection ended
    for (const auto& player : players_)
        if (!player->is_complete(history_.last_change())) return false;
    return true;
}

bool Simulation::is_everyone_complete_at(replication::Tick tick) const {
    return std::all_of(players_.begin(), players_.end(),
                       [&](const auto& player) { return player->is_complete_at(tick); });
}

Simulation::Totals Simulation::totals() const {
    Totals totals = totals_;
    for (const auto& player : players_) add(totals, *player);
    totals.moves = server_.host().endpoint_stats().moves;
    totals.turnovers = director_.turnovers();
    return totals;
}

void Simulation::add(Totals& totals, const Player& player) const {
    totals.versions_checked += player.versions_checked();
    totals.replicas_checked += player.replicas_checked();
    totals.neighbours_checked += player.neighbours_checked();
    totals.worlds_checked += player.worlds_checked();
    totals.complete_checks += player.complete_checks();
    totals.joins += player.joins();
    const auto& stats = player.client().receiver().stats();
    totals.refused += stats.refused_packets;
    totals.rebases += stats.rebases;
    totals.stale += stats.stale_records;
    totals.suppressed += stats.suppressed;
    const auto& link = player.up().stats();
    totals.lost += link.lost + link.lost_in_bursts;
    totals.duplicated += link.duplicated;
    totals.reordered += link.reordered;
    totals.corrupted += link.corrupted;
    totals.large_messages += player.chat().larges();
    totals.quiet_players += plan_.is_quiet;
    totals.overtaken_players += plan_.is_reordered;
    totals.players_in_order += player.keeps_order();
}

}  // namespace shoal::sim
