#pragma once
// A server and some players who steer, over a simulated network. Server ticks and the frames of each client
// have times of their own.

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "net/socket/bad_network.h"
#include "replication/client.h"
#include "replication/server.h"
#include "tests/net/support/server_key.h"

namespace shoal::sim {

struct Spot {
    float x = 0, y = 0;
};
struct Speed {
    float x = 0, y = 0;
};
struct Dashes {
    std::uint32_t count = 0;
};
struct Helm {
    std::int8_t x = 0, y = 0;
    replication::Press dash;
};

inline replication::Schema play_schema(bool is_quantised = true) {
    using namespace replication;
    Schema schema;
    schema.component<Spot>("spot", quantised(-50, 50, 0.01), predicted(), linear());
    schema.component<Speed>("speed", quantised(-60, 60, 0.1), predicted());
    schema.component<Dashes>("dashes", predicted());
    schema.input<Helm>("helm", bounded(-1, 1));
    if (is_quantised) schema.quantise_authority();
    return schema;
}

/// What server and clients compute alike.
inline void sail(const replication::Step& step) {
    step.each<Speed, Dashes, const Helm>([](Speed& speed, Dashes& dashes, const Helm& helm) {
        const float fast = helm.dash ? 45.0f : 8.0f;
        dashes.count += helm.dash.count;
        speed = {speed.x * 0.8f + static_cast<float>(helm.x) * fast * 0.2f,
                 speed.y * 0.8f + static_cast<float>(helm.y) * fast * 0.2f};
    });
    step.each<Spot, const Speed>([&](Spot& spot, const Speed& speed) {
        spot = {std::clamp(spot.x + speed.x * step.dt, -50.0f, 50.0f),
                std::clamp(spot.y + speed.y * step.dt, -50.0f, 50.0f)};
    });
}

class PlaySession {
public:
    struct Player {
        Player(const net::Address& at, const replication::Schema& schema, net::BadNetwork& network,
               const replication::ClientOptions& options)
            : address(at), client(world, schema, network.at(at), options) {}
        net::Address address;
        ecs::World world;
        replication::Client client;
        net::Time next_frame{0};
        net::Duration frame{16'667};
        std::function<void(Player&)> on_frame;  // before each update()
        std::uint64_t presses = 0;
    };

    PlaySession(replication::Schema schema, const net::LinkConfig& link, std::size_t count,
                std::uint64_t seed = 1, std::uint64_t bytes_per_second = 0,
                const replication::ClientOptions& client_options = {},
                net::Duration tick = net::Duration(16'667))
        : schema_(std::move(schema)),
          network_(link, seed),
          random(static_cast<std::uint32_t>(seed)),
          tick_every(tick),
          server(world, schema_, network_.at(at_server_), server_options(bytes_per_second, tick),
                 &listener_) {
        for (std::size_t i = 0; i < count; ++i) {
            replication::ClientOptions options = client_options;
            options.net.protocol_id = 5;
            options.net.seed = seed_of(10 + i);
            give_key(options.net);
            const auto host = static_cast<std::uint8_t>(10 + i);
            players.push_back(std::make_unique<Player>(net::Address::ipv4(10, 0, 0, host, 5000), schema_,
                                                       network_, options));
            Player& player = *players.back();
            player.client.on_step(sail);
            player.next_frame = now + std::chrono::microseconds(3'000 + 5'000 * i);
            player.client.connect(at_server_);
        }
        server.on_step(sail);
    }

    /// Runs until this much time has passed.
    void run(net::Duration time) {
        const net::Time end = now + time;
        while (true) {
            Player* next = nullptr;
            for (const auto& player : players)
                if (!next || player->next_frame < next->next_frame) next = player.get();
            const net::Time tick_at = std::max(next_tick, hung_until_);
            const bool is_tick = !next || tick_at <= next->next_frame;
            const net::Time at = is_tick ? tick_at : next->next_frame;
            if (at > end) break;
            now = at;
            is_tick ? tick() : frame(*next);
        }
        now = end;
    }

    /// The server does nothing for this time, and then makes up for the ticks that it missed.
    void hang(net::Duration time) { hung_until_ = now + time; }

    void set_link(const net::LinkConfig& link) {
        network_.in(at_server_).set_config(link);
        for (const auto& player : players) network_.in(player->address).set_config(link);
    }

    /// Only the paths to the players.
    void set_downlink(const net::LinkConfig& link) {
        for (const auto& player : players) network_.in(player->address).set_config(link);
    }

    const net::Address& at_server() const { return at_server_; }

    /// The player's ship on the client, and on the server; null if it has none.
    ecs::Entity replica(const Player& player) const {
        const std::vector<ecs::Entity> mine = player.client.mine();
        return mine.empty() ? ecs::Entity{} : mine[0];
    }
    ecs::Entity ship(const Player& player) const {
        return server.sender().shadow().entity_of(player.client.receiver().net_id(replica(player)));
    }
    replication::InputStats input_stats(const Player& player) const {
        return server.stats(server.owner(ship(player))).inputs;
    }

    /// Whether the client has the server's values of its ship.
    template <class T>
    bool agrees(const Player& player, bool (*equal)(const T&, const T&)) const {
        const T* ours = world.try_get<T>(ship(player));
        const T* theirs = player.world.try_get<T>(replica(player));
        return ours && theirs ? equal(*ours, *theirs) : !ours && !theirs;
    }
    bool agrees(const Player& player) const {
        return agrees<Spot>(player,
                            [](const Spot& a, const Spot& b) {
                                return std::abs(a.x - b.x) < 0.011f && std::abs(a.y - b.y) < 0.011f;
                            }) &&
               agrees<Dashes>(player, [](const Dashes& a, const Dashes& b) { return a.count == b.count; });
    }

    /// Steers at random: another direction now and then, sometimes a dash.
    static std::function<void(Player&)> wander(std::uint64_t seed) {
        return
            [random = std::mt19937(static_cast<std::uint32_t>(seed)), helm = Helm{}](Player& player) mutable {
                if (random() % 20 == 0) {
                    helm.x = static_cast<std::int8_t>(random() % 3) - 1;
                    helm.y = static_cast<std::int8_t>(random() % 3) - 1;
                }
                helm.dash = random() % 50 == 0;
                if (player.client.predicted_tick()) player.presses += helm.dash.count;
                player.client.input(helm);
            };
    }

private:
    struct Listener final : replication::ServerListener {
        explicit Listener(PlaySession& of) : session(of) {}
        void on_join(net::PeerId id) override {
            const ecs::Entity ship =
                session.world.spawn(Spot{}, Speed{}, Dashes{}, Helm{}, replication::Replicated{});
            session.server.give(id, ship);
        }
        PlaySession& session;
    };

    static net::Seed seed_of(std::uint64_t number) {
        net::Seed seed{};
        std::memcpy(seed.data(), &number, sizeof number);
        return seed;
    }
    static replication::ServerOptions server_options(std::uint64_t bytes_per_second, net::Duration tick) {
        replication::ServerOptions options;
        options.sender.tick_hz = 1e6 / static_cast<double>(tick.count());
        options.max_rewind_s = std::max(options.max_rewind_s, static_cast<double>(tick.count()) * 1e-5);
        if (bytes_per_second != 0) options.host.connection.max_bytes_per_second = bytes_per_second;
        options.host.protocol_id = 5;
        options.host.seed = seed_of(1);
        give_key(options.host);
        return options;
    }
    void tick() {
        network_.receive_all(at_server_, server.host(), now);
        server.tick(now);
        next_tick += tick_every;
    }
    void frame(Player& player) {
        network_.receive_all(player.address, player.client.endpoint(), now);
        if (player.on_frame) player.on_frame(player);
        player.client.update(now);
        player.next_frame += player.frame;
    }

    replication::Schema schema_;
    const net::Address at_server_ = net::Address::ipv4(10, 0, 0, 1, 7000);
    net::BadNetwork network_;
    Listener listener_{*this};
    net::Time hung_until_{0};

public:
    std::mt19937 random;
    net::Duration tick_every;
    net::Time now{std::chrono::seconds(100)}, next_tick{std::chrono::seconds(100)};
    ecs::World world;
    replication::Server server;
    std::vector<std::unique_ptr<Player>> players;
};

/// 150 ms for a round trip and its jitter of 30 ms, without the waits for ticks and frames.
inline net::LinkConfig far_away() {
    net::LinkConfig link;
    link.latency = std::chrono::milliseconds(60);
    link.jitter = std::chrono::milliseconds(30);
    link.loss = 0.05;
    return link;
}

inline net::LinkConfig steady(net::Duration latency) {
    net::LinkConfig link;
    link.latency = latency;
    return link;
}

/// How many inputs of a player were not used at their ticks.
inline std::uint64_t missed(const replication::InputStats& stats) {
    return stats.late + stats.repeated + stats.neutral;
}

}  // namespace shoal::sim
