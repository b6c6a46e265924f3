// The server: simulates the arena and replicates it to the clients. It has a loop of its own in place of
// ServerRunner, for flags that a runner has no options for; see README.md.

#include "replication/server.h"
#include "flags.h"
#include "fleet.h"
#include "hash_log.h"
#include "moves.h"
#include "net/socket/key_file.h"
#include "players.h"
#include "process.h"
#include "world_check.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

namespace shoal::demo {
namespace {

using namespace std::chrono_literals;

struct Options {
    std::uint64_t port = kDefaultPort, entities = 200, rate = 30, seed = random_number(), metrics = 0;
    std::string bind = "127.0.0.1", hash_log, tokens, why, fleet, record;
    double seconds = 0, settle = 0, view = 0, drain = 0;
    bool headless = false, insecure = false, metrics_log = false;
    net::SecretKey key;
    net::TokenConfig token_config;
};

Flags make_flags(Options& options) {
    Flags flags(
        "usage: server [flags]\nSimulates an arena of creatures, which clients can watch and join.\n");
    flags.whole("--port", options.port, 0, 65'535, "UDP port; 0 picks a free one (40000)");
    flags.text("--bind", options.bind, "local address: 0.0.0.0 for all IPv4, [::] for all (127.0.0.1)");
    flags.whole("--entities", options.entities, 0, 20'000, "creatures without players (200)");
    flags.whole("--rate", options.rate, 1, 240, "ticks per second (30)");
    flags.real("--seconds", options.seconds, 0, 100'000, "ends after this time; 0: when stopped (0)");
    flags.real("--settle", options.settle, 0, 100'000,
               "in the last of these seconds the world does not change (0)");
    flags.whole("--seed", options.seed, 0, UINT64_MAX, "of the simulation (random)");
    flags.text("--hash-log", options.hash_log, "file to write a hash of the world to, for each tick");
    flags.text("--record", options.record, "file to record the game to, for replay; see replay --help");
    flags.real("--view", options.view, 0, 100'000,
               "players see only what is within this distance, and --hash-log writes a file for each player, "
               "FILE.1 for the first that played; 0: they see everything (0)");
    flags.text("--why", options.why,
               "name of a player: prints each second why others see its creature, or not");
    flags.text("--tokens", options.tokens,
               "ADDRESS:PORT of this server; clients need a token for it, see backend --help");
    flags.toggle("--insecure", options.insecure, "does not encrypt packets; clients need --insecure too");
    flags.toggle("--headless", options.headless, "prints a new status line every second");
    flags.real("--drain", options.drain, 0, 100'000,
               "after SIGINT or SIGTERM, players play on for this time, and nobody can join; a second signal "
               "ends it (0)");
    flags.text("--fleet", options.fleet,
               "agones:PORT of its SDK server on this machine, or agones: AGONES_SDK_HTTP_PORT or 9358; "
               "tells it that the server is ready and healthy, and how many play");
    flags.whole("--metrics", options.metrics, 1, 65'535,
                "TCP port on 127.0.0.1 that answers GET /metrics as Prometheus reads it (none)");
    flags.toggle("--metrics-log", options.metrics_log, "prints the metrics as one line every second");
    return flags;
}

net::Duration seconds(double count) {
    return std::chrono::duration_cast<net::Duration>(std::chrono::duration<double>(count));
}

/// Prints status lines. On a terminal each one replaces the last one.
class Status {
public:
    explicit Status(bool headless) : in_place_(!headless && isatty(STDOUT_FILENO)) {}

    void print(const replication::Server& server, std::size_t players, std::uint32_t entities,
               net::Time now) {
        std::uint64_t in = 0, out = 0, drops = server.host().endpoint_stats().drops.total();
        server.for_each_peer([&](net::PeerId peer) {
            const net::ConnectionStats& stats = server.host().stats(peer);
            in += stats.bytes_received;
            out += stats.bytes_sent;
            drops += stats.drops.total();
        });
        const int length =
            std::printf("%stick=%u entities=%u players=%zu in=%.1fkB/s out=%.1fkB/s drops=%llu",
                        in_place_ ? "\r" : "", server.current_tick(), entities, players, in_.sample(in, now),
                        out_.sample(out, now), static_cast<unsigned long long>(drops));
        // Spaces overwrite the rest of a longer last line: not every console has an escape sequence for
        // this.
        std::printf("%*s%s", in_place_ ? std::max(0, last_length_ - length) : 0, "", in_place_ ? "" : "\n");
        std::fflush(stdout);
        last_length_ = length;
    }

    /// Prints a line above the status line.
    void say(const std::string& line) {
        std::printf("%s%-*s\n", in_place_ ? "\r" : "", in_place_ ? last_length_ : 0, line.c_str());
        std::fflush(stdout);
    }

    void finish() const {
        if (in_place_) std::printf("\n");
    }

private:
    bool in_place_;
    int last_length_ = 0;
    Meter in_, out_;
};

/// Everything but the socket. World and simulation do not use the network.
struct Game {
    Game(const Options& options, net::Sink& sink)
        : schema(arena_schema(GameVersion::second, options.view)),
          simulation(world, static_cast<std::uint32_t>(options.entities), options.seed),
          server(world, schema, sink, server_options(options), &players) {
        players.listen(server);
        server.on_step([this](const replication::Step& step) {
            if (is_still) return;
            step_moves(step);
            simulation.step(step.dt);
        });
    }

    static replication::ServerOptions server_options(const Options& options) {
        replication::ServerOptions out;
        out.host.protocol_id = kProtocolId;
        out.host.seed = fresh_seed();
        out.host.key = options.key;
        out.host.tokens = options.token_config;
        if (options.insecure) out.host.security = net::Security::insecure;
        out.sender.tick_hz = static_cast<double>(options.rate);
        return out;
    }

    ecs::World world;
    replication::Schema schema;
    Simulation simulation;
    Players players{simulation};
    bool is_still = false;  // at the end nothing moves, see --settle
    replication::Server server;
    replication::WorldHash hash{world, schema};
    ecs::Query<ecs::With<replication::Replicated>> replicated{world};
};

/// Writes hash logs, and sends the clients hashes to compare with theirs.
class Hashes {
public:
    explicit Hashes(const Options& options) : file_(options.hash_log), has_view_(options.view > 0) {}

    /// Returns false if a file cannot be written.
    bool open() {
        if (file_.empty()) return true;
        return has_view_ ? HashLog().open(file_ + ".1") : log_.open(file_);
    }
    bool close() {
        bool is_good = !log_.is_open() || log_.close();
        for (auto& [player, log] : logs_) is_good = log.close() && is_good;
        return is_good;
    }
    void note(Game& game, replication::Tick tick) {
        const bool is_checked = tick % WorldCheck::kEvery == 0;
        if (file_.empty() && !is_checked) return;
        if (has_view_) return note_each(game, tick, is_checked);
        const replication::WorldHash::Sum sum = game.hash.of_server(game.server.sender().shadow());
        if (log_.is_open()) log_.write(tick, sum);
        if (is_checked) game.server.send_all(WorldCheck::checksum(tick, sum));
    }

private:
    void note_each(Game& game, replication::Tick tick, bool is_checked) {
        game.server.for_each_peer([&](replication::PlayerId player) {
            // A client has the whole world, and logs it, a little before it plays.
            const replication::Phase phase = game.server.phase(player);
            const bool is_playing = phase == replication::Phase::playing;
            if (!is_playing && phase != replication::Phase::loading) return;
            const replication::WorldHash::Sum sum = game.server.view(player).hash(game.hash);
            if (is_checked && is_playing) game.server.send(player, WorldCheck::checksum(tick, sum));
            if (file_.empty()) return;
            const auto [log, is_new] = logs_.try_emplace(player);
            if (is_new) log->second.open(file_ + "." + std::to_string(logs_.size()));
            log->second.write(tick, sum);  // close() says whether it could be written
        });
    }

    std::string file_;  // empty: no log
    bool has_view_;
    HashLog log_;
    std::map<replication::PlayerId, HashLog> logs_;  // with --view
};

/// Appends each tick to a file, so that a crash leaves a recording.
class Film {
public:
    /// Returns false if the file cannot be written.
    bool open(const std::string& path, replication::Server& server) {
        if (path.empty()) return true;
        out_.open(path, std::ios::trunc | std::ios::binary);
        server.record();
        return out_.good();
    }
    /// Returns a complaint if the recording ends before the server.
    std::string note(replication::Server& server) {
        const std::span<const std::byte> bytes = server.recorded();
        out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        out_.flush();
        const bool was_good = std::exchange(is_good_, out_.good() && !bytes.empty());
        if (is_good_ || !was_good) return {};
        server.stop_recording();
        return out_.good() ? "the recording is full" : "the recording cannot be written";
    }
    bool is_open() const { return out_.is_open(); }

private:
    std::ofstream out_;
    bool is_good_ = true;
};

/// What the server tells those who run it.
struct Operations {
    Operations(std::uint16_t agones_port, const Game& game) {
        if (agones_port == 0) return;
        char schema[17];
        std::snprintf(schema, sizeof schema, "%016llx", static_cast<unsigned long long>(game.schema.hash()));
        agones.emplace(agones_port, schema, net::HostConfig().max_peers);
    }

    /// The names are part of the interface: dashboards and alarms use them.
    std::array<Metric, 9> metrics_of(const Game& game, const net::Socket& socket,
                                     std::uint32_t entities) const {
        const auto number = [](auto value) { return static_cast<double>(value); };
        const net::SocketStats& stats = socket.stats();
        return {{
            {"shoal_players", "gauge", "Players that play.", number(game.players.count())},
            {"shoal_entities", "gauge", "Entities that replicate.", number(entities)},
            {"shoal_draining", "gauge", "1: nobody can join, and the server ends soon.", number(is_draining)},
            {"shoal_ticks_total", "counter", "Ticks.", number(game.server.current_tick())},
            {"shoal_tick_seconds_total", "counter", "Time spent in ticks.",
             std::chrono::duration<double>(in_ticks).count()},
            {"shoal_pauses_total", "counter", "Delays of more than 250 ms; their ticks are skipped.",
             number(pauses)},
            {"shoal_received_bytes_total", "counter", "Bytes in datagrams received.",
             number(stats.bytes_received)},
            {"shoal_sent_bytes_total", "counter", "Bytes in datagrams sent.", number(stats.bytes_sent)},
            {"shoal_strays_total", "counter", "Datagrams dropped that belong to no connection.",
             number(game.server.host().endpoint_stats().drops.total())},
        }};
    }

    std::optional<Agones> agones;
    MetricsServer metrics;
    net::Duration in_ticks{0};
    std::uint64_t pauses = 0;
    bool is_draining = false;
};

/// Prints for each player why it sees the creature of the player with this name.
void print_why(Status& status, Game& game, const std::string& name) {
    ecs::Query<const Name, ecs::With<Player>> named(game.world);
    named.each([&](ecs::Entity creature, const Name& its) {
        if (its.text != name) return;
        game.server.for_each_peer([&](replication::PlayerId player) {
            const Name* const viewer = game.world.try_get<Name>(game.server.player(player));
            status.say((viewer ? viewer->text : std::string("?")) + " and " + name + ": " +
                       replication::describe(game.server.view(player).why(creature)));
        });
    });
}

/// Runs the ticks. Returns true after options.seconds, false if the user stopped the program.
bool run(const Options& options, net::Socket& socket, Game& game, Hashes& hashes, Film& film,
         Operations& operations) {
    Status status(options.headless);
    const net::Time start = now();
    net::Time end = options.seconds > 0 ? start + seconds(options.seconds) : net::Time::max();
    const net::Time still = end - seconds(options.seconds > 0 ? options.settle : 0);
    const net::Duration period = seconds(1.0 / static_cast<double>(options.rate));
    net::Time next_tick = start, next_status = start + 1s;
    const auto is_stopped = [&] { return stop_signals() > (operations.is_draining ? 1 : 0); };
    const auto metrics = [&] { return operations.metrics_of(game, socket, game.replicated.count()); };

    while (next_tick < end) {
        net::Time time = now();
        while (time < next_tick && !is_stopped()) {  // serves the network until the next tick
            wait(socket, std::min(next_tick, time + 10ms));
            time = now();
            net::receive_all(socket, game.server.host(), time);
            game.server.poll(time);
        }
        if (is_stopped()) {
            if (operations.is_draining || options.drain == 0) break;
            operations.is_draining = true;
            end = std::min(end, time + seconds(options.drain));
            game.players.close();
            game.server.act(Say{"this server stops soon"});
            status.say("draining: nobody can join");
        }
        if (operations.is_draining && game.server.host().peer_count() == 0) break;
        game.is_still = time >= still;
        if (!game.is_still) game.players.step(game.server);
        const replication::Tick tick = game.server.tick(time);
        hashes.note(game, tick);
        if (film.is_open())
            if (const std::string why = film.note(game.server); !why.empty()) status.say(why);
        for (const std::string& complaint : game.players.take_complaints()) status.say(complaint);
        if (time >= next_status) {
            if (!options.why.empty()) print_why(status, game, options.why);
            status.print(game.server, game.players.count(), game.replicated.count(), time);
            if (options.metrics_log) status.say(to_line(metrics()));
            next_status += 1s;
        }
        if (operations.agones) {
            operations.agones->poll(time, game.players.count());
            if (const std::string news = operations.agones->take_news(); !news.empty()) status.say(news);
        }
        operations.metrics.poll(time, [&] { return to_text(metrics()); });
        operations.in_ticks += now() - time;
        next_tick += period;             // not now + period: delays would add up
        if (time > next_tick + 250ms) {  // after a long pause, skips the missed ticks
            next_tick = time;
            ++operations.pauses;
        }
    }
    status.finish();
    return !should_stop();
}

/// After a complete run, waits at most two seconds until every client has the last tick. Then disconnects
/// the clients, and tells Agones, for at most a second.
void finish(net::Socket& socket, Game& game, std::optional<Agones>& agones, bool is_complete) {
    replication::Server& server = game.server;
    const net::Time patience = now() + 2s;
    while (is_complete && !should_stop() && !server.is_settled() && now() < patience) {
        server.resend(now());
        wait(socket, now() + 10ms);
        net::receive_all(socket, server.host(), now());
    }
    server.host().shut_down(is_complete ? "its time is over" : "it was stopped", now());
    if (agones) agones->shut_down();
    const auto is_done = [&] { return server.host().is_idle() && (!agones || agones->is_shut_down()); };
    for (const net::Time last = now() + (agones ? 1s : 300ms); now() < last && !is_done();) {
        server.poll(now());
        if (agones) agones->poll(now(), 0);
        wait(socket, now() + 20ms);
        net::receive_all(socket, server.host(), now());
    }
}

/// Sets options.token_config. Returns one line that says why this failed, or nothing.
std::string find_backend_key(Options& options, const net::Address& reached_at, std::string_view argv0) {
    auto [key, why] = net::load_or_make_private_key(beside(argv0, kBackendKeyFile));
    if (!key) return why;
    const auto up_s =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now()).count());
    options.token_config.backend_key = *key;
    options.token_config.servers = {reached_at};
    options.token_config.unix_time_s = unix_time_s() - up_s;
    return {};
}

/// Sets options.key from the file beside the program, and writes the public key to the file that clients
/// read. Returns one line that says why this failed, or nothing.
std::string find_key(Options& options, std::string_view argv0) {
    auto [key, why] = net::load_or_make_private_key(beside(argv0, kServerKeyFile));
    if (!key) return why;
    options.key = *key;
    const std::string path = beside(argv0, "server.pub");
    return net::write_public_key(path, net::public_key(options.key)) ? "" : "cannot write " + path;
}

void print_start(const Options& options, const net::Address& address) {
    std::printf("listening on %s with %llu creatures, %llu ticks per second, seed %llu\n",
                address.to_string().c_str(), static_cast<unsigned long long>(options.entities),
                static_cast<unsigned long long>(options.rate), static_cast<unsigned long long>(options.seed));
    if (options.insecure) {
        std::printf("insecure: packets are not encrypted\n");
    } else if (!options.tokens.empty()) {
        std::printf("clients need a token from backend --server %s\n", options.tokens.c_str());
    } else {
        std::printf("clients on other machines need --key %s\n",
                    net::to_text(net::public_key(options.key)).c_str());
    }
    std::fflush(stdout);
}

int main(std::string_view argv0, std::span<const char* const> arguments) {
    Options options;
    Flags flags = make_flags(options);
    const Flags::Outcome outcome = flags.parse(arguments);
    if (outcome == Flags::Outcome::help) return std::printf("%s", flags.help().c_str()) < 0;
    if (outcome == Flags::Outcome::bad) return fail("server", flags.error(), 2);
    net::Result<net::Address> address = net::Address::parse(options.bind);
    if (!address || address.value().port != 0)
        return fail("server", "--bind needs an address without port, not '" + options.bind + "'", 2);
    address.value().port = static_cast<std::uint16_t>(options.port);

    const char* const agones_environment = std::getenv("AGONES_SDK_HTTP_PORT");
    const std::uint16_t agones_at = agones_port(options.fleet, agones_environment);
    if (options.fleet == "agones" && agones_at == 0)
        return fail("server",
                    "AGONES_SDK_HTTP_PORT must be a port, not '" + std::string(agones_environment) + "'", 2);
    if (!options.fleet.empty() && agones_at == 0)
        return fail("server", "--fleet needs agones or agones:PORT, not '" + options.fleet + "'", 2);

    if (options.insecure && !options.tokens.empty())
        return fail("server", "--tokens and --insecure cannot be combined", 2);
    if (!options.insecure) {
        const auto reached_at = net::Address::parse(options.tokens);
        if (!options.tokens.empty() && (!reached_at || reached_at.value().port == 0))
            return fail("server", "--tokens needs ADDRESS:PORT, not '" + options.tokens + "'", 2);
        std::string why = find_key(options, argv0);
        if (why.empty() && reached_at) why = find_backend_key(options, reached_at.value(), argv0);
        if (!why.empty()) return fail("server", why, 1);
    }
    Hashes hashes(options);
    if (!hashes.open()) return fail("server", "cannot write " + options.hash_log, 1);
    net::Result<net::Socket> socket = net::Socket::open(address.value());
    if (!socket) {
        const std::string why(net::describe(socket.error()));
        return fail("server", "cannot listen on " + address.value().to_string() + ": " + why, 1);
    }
    catch_signals();

    Game game(options, socket.value());
    Film film;
    if (!film.open(options.record, game.server)) return fail("server", "cannot write " + options.record, 1);
    Operations operations(agones_at, game);
    if (options.metrics != 0 && !operations.metrics.listen(static_cast<std::uint16_t>(options.metrics)))
        return fail("server", "cannot listen on 127.0.0.1:" + std::to_string(options.metrics), 1);
    if (auto local = socket.value().local_address()) address = local;
    print_start(options, address.value());
    const bool is_complete = run(options, socket.value(), game, hashes, film, operations);
    finish(socket.value(), game, operations.agones, is_complete);
    if (!hashes.close()) return fail("server", "cannot write " + options.hash_log, 1);
    return 0;
}

}  // namespace
}  // namespace shoal::demo

int main(int count, char** arguments) {
    return shoal::demo::main(count > 0 ? arguments[0] : "",
                             {arguments + 1, static_cast<std::size_t>(count > 0 ? count - 1 : 0)});
}
