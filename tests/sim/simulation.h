#pragma once
// One server and some clients with a virtual clock and a simulated bad network. All versions and worlds of
// the clients are compared with the server's history.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/socket/bad_network.h"
#include "replication/server.h"
#include "replication/world_hash.h"
#include "tests/sim/chat.h"
#include "tests/sim/game.h"
#include "tests/sim/history.h"
#include "tests/sim/player.h"

namespace shoal::sim {

/// Everything that one seed decides.
struct Plan {
    std::uint64_t seed = 0;
    double tick_hz = 60;
    std::uint32_t busy_ticks = 260;
    double rest_s = 15;         // limit of the time at the end in which all clients become complete
    std::uint32_t keeps = ~0u;  // most entities that are left at the beginning of that time
    double kicks = 0.002;       // chance per tick that the server disconnects a player
    double crashes = 0;         // chance per tick that a new player takes the place and address of another
    bool interpolates = false;  // clients show entities with a Position as of their render time
    bool is_quiet = false;      // see make_quiet()
    bool is_reordered = false;  // see make_reordered()
    Director::Style style;
    replication::ServerOptions server;
    std::vector<Player::Plan> players;
};
Plan plan_of(std::uint64_t seed);
/// The network only delays datagrams, and every player stays: nothing needs to be repeated or refused.
void make_quiet(Plan& plan);
/// Like make_quiet(), but datagrams overtake each other by a few ticks.
void make_reordered(Plan& plan);

class Simulation final : private replication::ServerListener {
public:
    explicit Simulation(const Plan& plan);
    ~Simulation() override;

    /// Returns the first error; empty if there was none.
    std::string run();

    struct Totals {
        std::uint64_t versions_checked = 0, worlds_checked = 0, complete_checks = 0;
        std::uint64_t joins = 0, refused = 0, rebases = 0, stale = 0, suppressed = 0, empty_records = 0;
        std::uint64_t moves = 0;  // how often a peer changed its address
        std::uint64_t large_messages = 0;
        std::uint64_t lost = 0, duplicated = 0, reordered = 0, corrupted = 0;
        std::uint64_t quiet_players = 0, players_in_order = 0;  // see make_quiet() and Player::keeps_order()
        std::uint64_t overtaken_players = 0;                    // see make_reordered()
        std::uint64_t replicas_checked = 0, neighbours_checked = 0;
        std::uint64_t turnovers = 0, waits = 0;  // replacements of the world; ticks in which entities waited
        std::uint64_t crashes = 0;
        std::uint64_t records = 0, full_records = 0;  // sent to the peers that were there at the end
    };
    Totals totals() const;

private:
    struct Sink final : net::Sink {
        explicit Sink(Simulation& in) : simulation(in) {}
        void send(const net::Address& to, std::span<const std::byte> datagram) override;
        Simulation& simulation;
    };

    void on_join(net::PeerId peer) override { chats_[peer] = {}; }
    void on_leave(net::PeerId, net::DisconnectReason reason, std::string_view text) override;
    void on_message(net::PeerId peer, net::Channel, std::span<const std::byte> bytes) override {
        if (std::string what = chats_[peer].hear(bytes); !what.empty()) fail("the server got " + what);
    }

    void speak();
    void replace(std::size_t index, std::uint32_t frame);
    void add(Totals& totals, const Player& player) const;
    void check_slots();
    void check_nothing_repaired();
    bool has_everyone_heard_all() const;
    void step(bool ticks);
    void exchange();
    void record(replication::Tick tick);
    bool is_everyone_complete() const;
    bool is_everyone_complete_at(replication::Tick tick) const;
    void rest();
    void check_quiet();
    void fail(const std::string& what);

    Plan plan_;
    Random random_;
    net::Time now_{std::chrono::seconds(1000)};
    net::Duration frame_;
    replication::Schema schema_;
    ecs::World world_;
    std::vector<ecs::ComponentId> ids_;
    Director director_;
    Sink sink_;
    replication::Server server_;
    replication::WorldHash hash_;
    History history_;
    std::vector<std::unique_ptr<Player>> players_;
    std::map<net::PeerId, Chat> chats_;
    Random chat_random_;
    net::impl::LinkConditioner::Datagram datagram_;
    Totals totals_;  // of players that were replaced, and of the server
    std::string problem_;
};

}  // namespace shoal::sim
