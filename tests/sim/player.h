#pragma once
// One client of a simulation: its world, its network, its random behaviour, and the checks of what it has.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "net/socket/bad_network.h"
#include "replication/client.h"
#include "replication/world_hash.h"
#include "tests/sim/chat.h"
#include "tests/sim/game.h"
#include "tests/sim/history.h"

namespace shoal::sim {

inline const net::Address kServerAddress = net::Address::ipv4(10, 0, 0, 1, 7000);

class Player final : private replication::ClientListener {
public:
    /// ReceiverOptions::max_versions that no plan reaches: more ticks than an acknowledgement takes.
    static constexpr std::uint32_t kEnoughVersions = 128;

    struct Plan {
        net::LinkConfig up, down;
        net::Duration calm_latency = std::chrono::milliseconds(20);  // of both directions after calm()
        std::uint32_t joins_at = 0;                                  // tick
        double leaves = 0;      // chance per tick that it disconnects, to join again later
        double partitions = 0;  // chance per tick that a direction, or both, begins to lose everything
        double sleeps = 0;      // chance per tick that it does not update for up to 20 ticks
        double moves = 0;       // chance per tick that its address changes
        double destroys = 0;    // chance per tick that the game destroys a replica
        replication::ClientOptions options;
    };

    Player(std::size_t index, const Plan& plan, std::uint64_t seed, const replication::Schema& schema);
    ~Player() override;

    const net::Address& address() const { return address_; }
    net::impl::LinkConditioner& down() { return down_; }
    /// Calls use(from, bytes) for each datagram that arrives at the server by `now`.
    template <class Use>
    void deliver_up(net::Time now, Use&& use) {
        while (up_.pop(now, datagram_)) use(datagram_.from, datagram_.bytes);
    }

    /// Receives, acts at random, updates the client and checks it. Returns what is wrong, or nothing.
    std::string step(net::Time now, std::uint32_t frame, const History& history);

    /// Ends the faults of the network and the random behaviour.
    void calm();
    bool is_complete(replication::Tick last_change) const;
    bool is_complete_at(replication::Tick tick) const;
    std::string state() const;

    /// Checks that only the game's own entities are left, and that each replica that the game destroyed was
    /// counted. Returns what is wrong, or nothing.
    std::string check_empty() const;

    /// Whether no datagram from the server overtakes another one.
    bool keeps_order() const { return plan_.down.reorder == 0; }
    /// Checks that the receiver refused and requested nothing that this plan does not explain. Returns what
    /// is wrong, or nothing.
    std::string check_repairs() const;

    /// The server may have dropped this client, and all its disconnect packets may get lost.
    void may_be_forgotten() { may_be_forgotten_ = true; }

    const replication::Client& client() const { return client_; }
    const Chat& chat() const { return chat_; }
    const net::impl::LinkConditioner& up() const { return up_; }
    std::uint64_t versions_checked() const { return versions_checked_; }
    std::uint64_t replicas_checked() const { return replicas_checked_; }
    std::uint64_t neighbours_checked() const { return neighbours_checked_; }
    std::uint64_t worlds_checked() const { return worlds_checked_; }
    std::uint64_t complete_checks() const { return complete_checks_; }
    std::uint64_t joins() const { return joins_; }
    std::uint64_t moves() const { return moves_; }

private:
    struct Sink final : net::Sink {
        explicit Sink(Player& in) : player(in) {}
        void send(const net::Address&, std::span<const std::byte> datagram) override {
            player.up_.push(player.address_, kServerAddress, datagram, player.now_);
        }
        Player& player;
    };

    void on_join() override {
        joins_ += 1;
        chat_ = {};
    }
    void on_message(net::Channel, std::span<const std::byte> bytes) override {
        if (std::string what = chat_.hear(bytes); !what.empty()) fail(what);
    }
    void on_leave(net::DisconnectReason reason, std::string_view text) override;

    void connect_hooks();
    void on_value(std::size_t component, ecs::Entity entity, const void* value, bool added);
    void misbehave(std::uint32_t frame);
    void check_versions(const History& history);
    bool was_checked(std::uint32_t slot, std::uint32_t net_id, replication::Tick tick);
    void check_told();
    std::optional<replication::impl::Version> due(std::uint32_t net_id) const;
    std::string compare_to_due(ecs::Entity entity, std::uint64_t which) const;
    void check_neighbour(ecs::Entity entity);
    void check_replicas();
    void check_complete(const History& history);
    Snapshot handles_of(ecs::Entity entity, std::size_t component) const;
    void fail(const std::string& what);

    const replication::Schema& schema_;
    Plan plan_;
    Random random_, chat_random_;
    Chat chat_;  // reset with each connection
    net::Address address_;
    net::Time now_{0};
    net::impl::LinkConditioner up_, down_;
    net::impl::LinkConditioner::Datagram datagram_;
    Sink sink_;

    ecs::World world_;
    std::vector<ecs::ComponentId> ids_;
    std::vector<ecs::Entity> own_;
    replication::Client client_;
    replication::WorldHash hash_;
    std::vector<ecs::Hook> hooks_;

    bool wants_in_ = false;
    bool is_calm_ = false;
    bool may_be_forgotten_ = false;
    std::uint32_t joins_at_;
    std::uint32_t sleeps_until_ = 0;
    std::uint32_t up_cut_until_ = 0, down_cut_until_ = 0;

    // The values that hooks saw last, with references as handles.
    std::map<std::pair<ecs::Entity, std::size_t>, Snapshot> told_;
    std::map<ecs::Entity, std::vector<ecs::ComponentId>>
        spawned_;  // components that the first hook saw, of entities spawned in this step
    std::set<ecs::Entity> known_;
    bool is_applying_ = false;

    struct Checked {
        std::uint32_t slot, net_id;
        replication::Tick tick;
    };
    std::vector<Checked> checked_, checking_;  // versions kept at the last check; at this one
    std::size_t next_checked_ = 0;             // in checked_
    std::unordered_map<std::uint32_t, replication::Tick> newest_;  // by net id: the newest version
    // By net id: the version that check_replicas() found in the world.
    std::unordered_map<std::uint32_t, std::optional<replication::Tick>> written_;
    std::set<ecs::Entity> neighbours_;   // that check_neighbour() saw in this step
    std::set<std::uint32_t> destroyed_;  // net ids, of this connection
    std::uint64_t destroyed_count_ = 0;
    bool has_checked_ = false;
    replication::Tick complete_checked_ = 0;
    std::uint64_t replicas_checked_ = 0, neighbours_checked_ = 0;
    std::uint64_t versions_checked_ = 0, worlds_checked_ = 0, complete_checks_ = 0, joins_ = 0;
    std::uint64_t moves_ = 0;
    std::string problem_;
};

}  // namespace shoal::sim
