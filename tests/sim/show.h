#pragma once
// A server whose entities move along known curves, and one client that draws them, with a virtual clock and a
// simulated path between the two.

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "net/socket/bad_network.h"
#include "replication/client.h"
#include "replication/server.h"

namespace shoal::sim {

struct Place {
    float x = 0, y = 0;
};
struct Fenced {
    float x = 0;
};
struct Crane {
    float angle = 0, length = 0;
    std::string text;
};
inline Crane mix_cranes(const Crane& a, const Crane& b, float t) {
    return {a.angle + (b.angle - a.angle) * t, a.length, "from " + a.text + " " + b.text};
}
struct Heading {
    float radians = 0;
};
struct Rotation {
    float x = 0, y = 0, z = 0, w = 1;
};
struct Points {
    std::int32_t value = 0;
};
struct Rides {
    static constexpr auto relation = ecs::exclusive | ecs::destroy_with_target;
};

inline constexpr double kPlaceStep = 0.01;

inline replication::Schema show_schema() {
    using namespace replication;
    Schema schema;
    schema.component<Place>("place", quantised(-500, 500, kPlaceStep), linear());
    schema.component<Fenced>("fenced", linear(2));
    schema.component<Crane>("crane", shown_by(mix_cranes));
    schema.component<Heading>("heading", angle(16), angular());
    schema.component<Rotation>("rotation", smallest_three(12), slerp());
    schema.component<Points>("points");
    schema.pair<Rides>("rides");
    return schema;
}

class Show {
public:
    struct Path {
        double latency_ms = 75, jitter_ms = 30, loss = 0.05;  // each way; jitter: +- so much
    };

    explicit Show(const Path& with, std::uint64_t seed = 1, double tick_hz = 60, bool interpolate = true,
                  replication::Tick first_tick = 1)
        : path(with),
          tick_us(static_cast<std::int64_t>(std::llround(1e6 / tick_hz))),
          up(link_config(with), seed * 2 + 1),
          down(link_config(with), seed * 2 + 2),
          server(world, schema, server_sink, server_options(seed, tick_hz, first_tick)),
          client(mirror, schema, client_sink, client_options(seed, interpolate)) {
        client.connect(kServer);
    }

    static net::LinkConfig link_config(const Path& path) {
        net::LinkConfig config;
        config.latency = net::Duration(static_cast<std::int64_t>(path.latency_ms * 1000));
        config.spread = net::Duration(static_cast<std::int64_t>(path.jitter_ms * 1000));
        config.loss = path.loss;
        return config;
    }
    void set_path(const Path& other) {
        path = other;
        up.set_config(link_config(other));
        down.set_config(link_config(other));
    }

    /// Runs until `ms` have passed: on_tick(tick) before each tick of the server, on_frame() after each
    /// update of the client.
    void run(double ms) {
        const net::Time end = now + net::Duration(static_cast<std::int64_t>(ms * 1000));
        while (now < end) {
            now = std::min({end, next_tick, next_frame});
            if (now == next_tick) {
                next_tick += net::Duration(tick_us);
                while (up.pop(now, datagram)) server.host().receive(datagram.from, datagram.bytes, now);
                const replication::Tick tick = server.current_tick() + 1;
                if (on_tick) on_tick(tick);
                const replication::Tick ticked = server.tick(now);
                tick_times[ticked] = now;
                if (!origin) origin = {ticked, now};
            }
            if (now == next_frame) {
                next_frame += frame;
                while (down.pop(now, datagram)) client.endpoint().receive(datagram.from, datagram.bytes, now);
                client.update(now);
                if (on_frame) on_frame();
            }
        }
    }

    /// The tick that the client shows, with its fraction, as a distance from the server's first tick.
    double shown() const {
        const replication::RenderTime time = client.render_time().value_or(replication::RenderTime{});
        return static_cast<double>(static_cast<std::int32_t>(time.tick - origin->first)) +
               static_cast<double>(time.fraction);
    }
    /// How late the client shows the server's state, less the mean latency of the path, in milliseconds.
    double delay_ms() const {
        const double shown_us =
            static_cast<double>(origin->second.count()) + shown() * static_cast<double>(tick_us);
        return (static_cast<double>(now.count()) - shown_us) / 1000 - path.latency_ms;
    }
    /// The same for the newest state that has arrived.
    double newest_delay_ms() const {
        const auto newest = tick_times.find(client.receiver().newest_tick().value_or(0));
        const net::Time sent = newest == tick_times.end() ? now : newest->second;
        return static_cast<double>((now - sent).count()) / 1000 - path.latency_ms;
    }

    ecs::Entity replica(ecs::Entity entity) {
        return client.receiver().entity(server.sender().net_id(entity));
    }

    inline static const net::Address kServer = net::Address::ipv4(10, 0, 0, 1, 7000);
    inline static const net::Address kClient = net::Address::ipv4(10, 0, 1, 1, 9000);

private:
    struct ServerSink final : net::Sink {
        explicit ServerSink(Show& in) : show(in) {}
        void send(const net::Address& to, std::span<const std::byte> bytes) override {
            if (!show.is_cut) show.down.push(kServer, to, bytes, show.now);
        }
        Show& show;
    };
    struct ClientSink final : net::Sink {
        explicit ClientSink(Show& in) : show(in) {}
        void send(const net::Address& to, std::span<const std::byte> bytes) override {
            show.up.push(kClient, to, bytes, show.now);
        }
        Show& show;
    };
    static net::Seed seed_of(std::uint64_t number) {
        net::Seed seed{};
        std::memcpy(seed.data(), &number, sizeof number);
        return seed;
    }
    static replication::ServerOptions server_options(std::uint64_t seed, double tick_hz,
                                                     replication::Tick first) {
        replication::ServerOptions options;
        options.host.security = net::Security::insecure;
        options.host.seed = seed_of(seed * 3 + 1);
        options.sender.tick_hz = tick_hz;
        options.first_tick = first;
        return options;
    }
    static replication::ClientOptions client_options(std::uint64_t seed, bool interpolate) {
        replication::ClientOptions options;
        options.net.security = net::Security::insecure;
        options.net.seed = seed_of(seed * 3 + 2);
        options.receiver.interpolate = interpolate;
        return options;
    }

public:
    Path path;
    std::int64_t tick_us;
    net::Time now{std::chrono::seconds(100)};
    net::Time next_tick = now, next_frame = now + net::Duration(3'001);
    net::Duration frame{8'000};
    bool is_cut = false;  // the server's datagrams are lost
    std::function<void(replication::Tick)> on_tick;
    std::function<void()> on_frame;
    net::impl::LinkConditioner up, down;
    net::impl::LinkConditioner::Datagram datagram;
    std::map<replication::Tick, net::Time> tick_times;
    std::optional<std::pair<replication::Tick, net::Time>> origin;  // of the first tick
    replication::Schema schema = show_schema();
    ecs::World world, mirror;
    ServerSink server_sink{*this};
    ClientSink client_sink{*this};
    replication::Server server;
    replication::Client client;
};

}  // namespace shoal::sim
