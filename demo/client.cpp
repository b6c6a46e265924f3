// The client: draws the arena of the server, and steers one creature. It has a loop of its own in place of
// ClientRunner, to hash the world at each complete tick and to run many clients; see README.md.

#include "replication/client.h"
#include "flags.h"
#include "hash_log.h"
#include "moves.h"
#include "net/socket/bad_network.h"
#include "net/socket/key_file.h"
#include "process.h"
#include "terminal.h"
#include "text.h"
#include "view.h"
#include "world_check.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>

namespace shoal::demo {
namespace {

using namespace std::chrono_literals;

constexpr net::Duration kTextStays = 8s;  // how long a text of a player is shown
constexpr net::Duration kReasonStays = 2s;
constexpr net::Duration kLongSilence = 1500ms;  // of the server, until the player is told
constexpr net::Duration kFrame = 33ms;
constexpr net::Duration kLongestWait = 10ms;  // Client::update() is needed every 20 ms

struct Options {
    std::string connect, name = "guest", hash_log, key, token_file;
    double seconds = 0, latency_ms = 0, jitter_ms = 0, loss = 0, duplicate = 0, reorder = 0, corrupt = 0;
    std::uint64_t seed = random_number(), bots = 0;
    bool headless = false, insecure = false, is_old = false, floods = false;
    net::PublicKey server_key{};
    std::optional<net::ClientToken> token;
};

Flags make_flags(Options& options) {
    Flags flags(
        "usage: client [flags]\nShows the arena of a server, and steers a creature in it.\n"
        "W A S D or arrows steer, space stops, F shoots, 1 to 5 throw bait, Enter says something,\n"
        "q quits.\n");
    flags.text("--connect", options.connect, "HOST:PORT of the server (127.0.0.1:40000, or the token's)");
    flags.text("--name", options.name, "of your creature, at most 16 letters (guest)");
    flags.real("--seconds", options.seconds, 0, 100'000, "leaves after this time; 0: when stopped (0)");
    flags.text("--hash-log", options.hash_log,
               "file to write a hash of the world to, for each complete tick");
    flags.text("--key", options.key,
               "public key that the server prints (that of the server on this machine)");
    flags.text("--token", options.token_file, "FILE with a token from the backend; - is standard input");
    flags.toggle("--insecure", options.insecure, "does not encrypt packets; the server needs --insecure too");
    flags.toggle("--old", options.is_old, "plays as the first version of the game, without players' colours");
    flags.toggle("--headless", options.headless, "prints a status line every second, and draws nothing");
    flags.whole("--bots", options.bots, 0, 1000,
                "plays this number of creatures at random, draws nothing, and compares their worlds (0)");
    flags.toggle("--flood", options.floods,
                 "the bots send messages as fast as they can; the server kicks them for that");
    flags.real("--latency-ms", options.latency_ms, 0, 10'000,
               "simulates a bad network; delay in each direction (0)");
    flags.real("--jitter-ms", options.jitter_ms, 0, 10'000, "  greatest difference from that delay (0)");
    flags.real("--loss", options.loss, 0, 1, "  share of datagrams that are lost (0)");
    flags.real("--duplicate", options.duplicate, 0, 1, "  share that arrives twice (0)");
    flags.real("--reorder", options.reorder, 0, 1, "  share that arrives after later ones (0)");
    flags.real("--corrupt", options.corrupt, 0, 1, "  share with flipped bits or without its end (0)");
    flags.whole("--seed", options.seed, 0, UINT64_MAX, "  of its random numbers (random)");
    return flags;
}

net::Duration microseconds(double milliseconds) {
    return net::Duration(static_cast<std::int64_t>(milliseconds * 1000));
}

net::LinkConfig link_config(const Options& options) {
    net::LinkConfig config;
    config.latency = microseconds(options.latency_ms);
    config.spread = microseconds(options.jitter_ms);
    config.loss = options.loss;
    config.duplicate = options.duplicate;
    config.reorder = options.reorder;
    config.corrupt = options.corrupt;
    return config;
}

/// Everything but the terminal: the world, the client that updates it, and the player's own creature.
class Game final : private replication::ClientListener {
public:
    Game(const Options& options, net::Sink& sink)
        : name_(printable(options.name)),
          schema_(arena_schema(options.is_old ? GameVersion::first : GameVersion::second)),
          client_(world_, schema_, sink, client_options(options), this),
          is_checked_(options.bots > 0) {
        load_reefs(world_);
        client_.on_step(step_moves);
        client_.on<Say>([this](const Say& say, const replication::Call& call) {
            const Name* name = world_.try_get<Name>(call.player);
            show((name ? name->text : call.player ? "somebody" : "server") + ": " + say.text, kTextStays);
        });
        client_.on<Checksum>([this](const Checksum& server, const replication::MessageInfo&) {
            if (is_checked_) check_.hear(server);
        });
        client_.on_rejected<Shoot>(
            [this](const Shoot&, std::string_view why) { show_rejected("no shot", why); });
        client_.on_rejected<Throw>(
            [this](const Throw&, std::string_view why) { show_rejected("no throw", why); });
        client_.on_rejected<Say>(
            [this](const Say&, std::string_view why) { show_rejected("nobody hears you", why); });
        client_.on_refused<Name>(
            [this](ecs::Entity, std::string_view why) { show_rejected("another name, please", why); });
    }

    bool open_log(const std::string& path) { return log_.open(path); }
    bool close_log() { return !log_.is_open() || log_.close(); }

    void connect(const net::Servers& servers, const std::optional<net::ClientToken>& token) {
        if (token) {
            client_.connect(servers, *token);
        } else {
            client_.connect(servers);
        }
    }
    void leave(net::Time now) { client_.disconnect(now); }

    void receive_all(net::Socket& socket, net::BadNetwork& network, net::Time now) {
        while (network.receive_all(socket, client_.endpoint(), now, 1) > 0)
            if (log_.is_open() || is_checked_) update(now);  // after each datagram, to see each complete tick
    }
    void update(net::Time now) {
        client_.input(Steer{direction_});
        client_.update(now);
        if (own_creature() != named_) {  // the first creature, or a new one after a death
            named_ = own_creature();
            if (named_) world_.set(named_, Name{name_});
        }
        if (client_.is_connected()) stats_ = client_.stats();
        if (own_creature()) {
            updates_ += 1;
            predicting_updates_ += client_.is_predicting();
        }
        if (log_.is_open()) log_.write_complete(hash_, client_.receiver());
        if (is_checked_) check_.note(hash_, client_.receiver());
    }

    void steer(Direction direction) {
        direction_ = direction;
        if (direction != Direction::none) aim_ = direction;
    }
    /// Shoots where the creature swims, or swam last.
    void shoot() { client_.act(Shoot{aim_}); }
    void throw_bait(int power) { client_.act(Throw{aim_, power}); }

    /// Calls fn(entity, position) for each entity, with the position to draw it at.
    template <class Fn>
    void each_shown(Fn&& fn) {
        client_.each_shown<Position>(fn);
    }

    void say(const std::string& text) { client_.act(Say{text}); }
    /// Sends as many messages as the queue takes. The server has no use for them.
    void flood() {
        while (client_.send(Checksum{}) == net::SendResult::queued) {
        }
    }
    /// Returns the text of the last line. For some seconds: what a player said, or why an action was
    /// rejected. Otherwise: how far the client has come in joining, or `status` when it plays.
    std::string news(const std::string& status, net::Time now) const {
        if (now < heard_until_) return heard_;
        switch (client_.phase()) {
            case replication::Phase::disconnected:
                return "connecting ...";
            case replication::Phase::waiting:
                return "waiting for the server ...";
            case replication::Phase::loading:
                return "loading ...";
            case replication::Phase::resuming:
                return "coming back ...";
            case replication::Phase::playing:
            case replication::Phase::away:  // only on a server
                break;
        }
        if (stats_.silence < kLongSilence) return status;
        return "nothing from the server for " + std::to_string(stats_.silence / 1s) + " s";
    }

    ecs::World& world() { return world_; }
    /// Null while the player has none.
    ecs::Entity own_creature() const { return client_.player(); }
    /// Number of creatures whose Colour this client knows.
    std::uint32_t coloured_count() const { return coloured_.count(); }
    const replication::Receiver& receiver() const { return client_.receiver(); }
    /// The statistics of the connection. After its end, the last ones.
    const net::ConnectionStats& stats() const { return stats_; }
    const auto& action_stats() const { return client_.action_stats(); }
    const WorldCheck& check() const { return check_; }
    const replication::PredictionStats& prediction_stats() const { return client_.prediction_stats(); }
    /// How many updates there were while the player had a creature, and how many of these predicted it.
    std::uint64_t updates() const { return updates_; }
    std::uint64_t predicting_updates() const { return predicting_updates_; }
    bool has_joined() const { return joined_at_.has_value(); }
    net::Time joined_at() const { return joined_at_.value_or(now()); }
    /// Why the connection ended; nothing before its end.
    const std::optional<net::DisconnectReason>& end() const { return end_; }
    const std::string& end_text() const { return client_.failure(); }

private:
    static replication::ClientOptions client_options(const Options& from) {
        replication::ClientOptions options;
        options.net.protocol_id = kProtocolId;
        options.net.seed = fresh_seed();
        options.net.server_key = from.server_key;
        // The client must show the world as of one tick, to hash it. An interpolated world is a mixture of
        // ticks.
        options.receiver.interpolate = from.hash_log.empty() && from.bots == 0;
        if (from.insecure) options.net.security = net::Security::insecure;
        return options;
    }

    void show(const std::string& text, net::Duration time) {
        heard_ = printable(text);
        heard_until_ = now() + time;
    }
    /// Shows a reason only if none is shown. The client drops the actions after a rejected one, too; their
    /// reason says nothing new.
    void show_rejected(const std::string& what, std::string_view why) {
        if (now() >= rejected_until_) show(what + ": " + std::string(why), kReasonStays);
        rejected_until_ = now() + kReasonStays;
    }

    void on_join() override { joined_at_ = now(); }
    void on_leave(net::DisconnectReason reason, std::string_view) override { end_ = reason; }

    std::string name_;
    ecs::Entity named_;  // the creature that has the name
    ecs::World world_;
    mutable ecs::Query<ecs::With<Colour>> coloured_{world_};
    replication::Schema schema_;
    replication::Client client_;
    replication::WorldHash hash_{world_, schema_};
    HashLog log_;
    WorldCheck check_;
    std::uint64_t updates_ = 0, predicting_updates_ = 0;
    bool is_checked_;
    net::ConnectionStats stats_;
    Direction direction_ = Direction::none, aim_ = Direction::right;
    std::string heard_;  // what a player said last, or why an action was rejected
    net::Time heard_until_{0}, rejected_until_{0};
    std::optional<net::Time> joined_at_;
    std::optional<net::DisconnectReason> end_;
};

/// The status line of the connection, with rates of the last second.
struct Status {
    double in_kBps = 0, out_kBps = 0;
    net::Time next = now() + 1s;
    Meter in, out;

    /// Returns whether a second has passed.
    bool sample(const Game& game, net::Time now) {
        if (now < next) return false;
        in_kBps = in.sample(game.stats().bytes_received, now);
        out_kBps = out.sample(game.stats().bytes_sent, now);
        next += 1s;
        return true;
    }

    std::string line(const Game& game) const {
        const net::ConnectionStats& stats = game.stats();
        const auto ms = [](net::Duration time) { return static_cast<double>(time.count()) / 1000; };
        std::array<char, 300> text;
        std::snprintf(text.data(), text.size(),
                      "entities=%u tick=%u rtt=%.1fms jitter=%.1fms loss=%.1f%% in=%.1fkB/s out=%.1fkB/s "
                      "of %.0fkB/s repeats=%llu drops=%llu mispredictions=%llu",
                      game.receiver().entity_count(), game.receiver().newest_tick().value_or(0),
                      ms(stats.rtt), ms(stats.jitter), stats.loss * 100, in_kBps, out_kBps, stats.rate / 1000,
                      static_cast<unsigned long long>(stats.messages_repeated),
                      static_cast<unsigned long long>(stats.drops.total()),
                      static_cast<unsigned long long>(game.prediction_stats().mispredictions));
        return text.data();
    }
};

/// Draws the arena and reads keys. Uses the whole terminal until it is destroyed.
class Display {
public:
    explicit Display(ecs::World& world) : view_(world) {}

    /// Returns false if the user quits.
    bool update(Game& game, const std::string& status, net::Time now) {
        if (line_ && terminal_.read_line(*line_, kMaxSayBytes)) {
            if (!line_->empty()) game.say(*line_);
            line_.reset();
        }
        for (const Key key : line_ ? std::vector<Key>() : terminal_.keys()) {
            if (key == Key::quit) return false;
            if (key == Key::talk) {
                line_.emplace();
                break;
            }
            if (key == Key::shoot) {
                game.shoot();
                continue;
            }
            if (key >= Key::throw_1) {
                game.throw_bait(1 + static_cast<int>(key) - static_cast<int>(Key::throw_1));
                continue;
            }
            constexpr std::array kDirections = {Direction::up, Direction::down, Direction::left,
                                                Direction::right, Direction::none};
            game.steer(kDirections[static_cast<std::size_t>(key)]);
        }
        if (now < next_frame_) return true;
        next_frame_ = std::max(next_frame_ + kFrame, now);
        game.each_shown([this](ecs::Entity entity, const Position& at) { view_.move(entity, at); });
        const Terminal::Size size = terminal_.size();
        screen_.resize(size.columns, size.rows);
        view_.draw(screen_, game.own_creature(), line_ ? "say: " + *line_ + "_" : game.news(status, now));
        terminal_.write(screen_.update());
        return true;
    }

private:
    Terminal terminal_;
    Screen screen_;
    View view_;
    std::optional<std::string> line_;  // the text that the user types
    net::Time next_frame_{0};
};

/// Runs until the user quits, options.seconds have passed, or the connection ends. Returns whether it drew
/// on a terminal.
bool run(const Options& options, net::Socket& socket, net::BadNetwork& network, Game& game) {
    std::optional<Display> display;
    if (!options.headless && Terminal::is_present()) display.emplace(game.world());
    Status status;
    const net::Time end =
        options.seconds > 0 ? now() + microseconds(options.seconds * 1000) : net::Time::max();
    while (!should_stop() && !game.end() && now() < end) {
        const net::Time time = now();
        game.receive_all(socket, network, time);
        game.update(time);
        network.flush(time);
        const bool is_new_second = status.sample(game, time);
        if (display && !display->update(game, status.line(game), time)) break;
        if (!display && is_new_second) {
            std::printf("%s\n", game.news(status.line(game), time).c_str());
            std::fflush(stdout);
        }
        wait(socket, network.next_due(time + kLongestWait));
    }
    return display.has_value();
}

/// Disconnects, and waits until the disconnect packets have left the simulated network.
void leave(const Options& options, net::Socket& socket, net::BadNetwork& network, Game& game) {
    game.leave(now());
    const net::Time last = now() + 300ms + microseconds(options.latency_ms + options.jitter_ms);
    for (net::Time time = now(); time < last; time = now()) {
        game.receive_all(socket, network, time);
        game.update(time);
        network.flush(time);
        wait(socket, network.next_due(time + kLongestWait));
    }
}

/// A socket for IPv6 and IPv4, or only for IPv4 if the system has no IPv6.
net::Result<net::Socket> open_socket() {
    net::Result<net::Socket> socket = net::Socket::open(net::Address::any(0));
    return socket ? std::move(socket) : net::Socket::open(net::Address::any_ipv4(0));
}

/// Many clients in one program, each with a socket and a bad network of its own. Each plays at random.
class Bots {
public:
    /// Returns false if there are not enough sockets.
    bool connect(const Options& options, const net::Servers& servers) {
        for (std::uint64_t i = 0; i < options.bots; ++i) {
            auto socket = open_socket();
            if (!socket) return false;
            Options own = options;
            own.name = "bot" + std::to_string(i);
            own.seed += i;
            bots_.push_back(std::make_unique<Bot>(own, std::move(socket.value())));
            bots_.back()->game.connect(servers, {});
        }
        return true;
    }

    /// Plays for this time, 0: without end, or until all connections have ended. In the last second the bots
    /// rest.
    void play(double seconds, bool floods) {
        const net::Time end = seconds > 0 ? now() + microseconds(seconds * 1000) : net::Time::max();
        const auto plays = [](const auto& bot) { return !bot->game.end(); };
        while (!should_stop() && now() < end && std::ranges::any_of(bots_, plays)) {
            serve();
            const bool is_resting = now() > end - 1s;
            for (const auto& bot : bots_) {
                if (floods && bot->game.has_joined() && now() > bot->game.joined_at() + 1s) bot->game.flood();
                if (is_resting) bot->game.steer(Direction::none);
                if (!is_resting && now() >= bot->next_move) move(*bot);
            }
        }
    }

    /// Prints the sums over all bots. Returns an empty text, or what went wrong.
    std::string report() const {
        std::uint64_t actions = 0, rejected = 0, predictions = 0, mispredictions = 0, checks = 0,
                      divergences = 0, lost = 0, unchecked = 0, updates = 0, predicting = 0;
        std::string why_lost;
        for (const auto& bot : bots_) {
            const Game& game = bot->game;
            actions += game.action_stats().done;
            rejected += game.action_stats().rejected + game.action_stats().dropped;
            predictions += game.prediction_stats().checks;
            mispredictions += game.prediction_stats().mispredictions;
            updates += game.updates();
            predicting += game.predicting_updates();
            checks += game.check().compared();
            divergences += game.check().divergences();
            if (!game.has_joined() || (game.end() && game.end() != net::DisconnectReason::shut_down)) {
                lost += 1;
                if (!game.end_text().empty()) why_lost = ": " + game.end_text();
            }
            unchecked += game.check().compared() == 0;
        }
        const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
        std::printf(
            "bots=%zu actions=%llu rejected=%llu mispredictions=%llu predictions=%llu checks=%llu "
            "divergences=%llu lost=%llu predicting=%.1f\n",
            bots_.size(), number(actions), number(rejected), number(mispredictions), number(predictions),
            number(checks), number(divergences), number(lost),
            100.0 * static_cast<double>(predicting) /
                static_cast<double>(std::max<std::uint64_t>(updates, 1)));
        if (divergences > 0) return "worlds differ from the server's";
        if (lost > 0) return std::to_string(lost) + " bots could not join or lost the server" + why_lost;
        if (unchecked > 0) return std::to_string(unchecked) + " bots never compared their worlds";
        return {};
    }

    void leave(const Options& options) {
        for (const auto& bot : bots_)
            if (!bot->game.end()) bot->game.leave(now());
        const net::Time last = now() + 300ms + microseconds(options.latency_ms + options.jitter_ms);
        while (now() < last) serve();
    }

private:
    struct Bot {
        Bot(const Options& options, net::Socket&& own_socket)
            : socket(std::move(own_socket)),
              network(socket, link_config(options), options.seed),
              game(options, network),
              random(options.seed) {}

        net::Socket socket;
        net::BadNetwork network;
        Game game;
        std::mt19937_64 random;
        net::Time next_move{0};
    };

    /// Serves the network of all bots, and then waits.
    void serve() {
        net::Time next = now() + kLongestWait / 2;
        for (const auto& bot : bots_) {
            const net::Time time = now();
            bot->game.receive_all(bot->socket, bot->network, time);
            bot->game.update(time);
            bot->network.flush(time);
            next = bot->network.next_due(next);
        }
        wait(bots_.front()->socket, next);
    }

    static void move(Bot& bot) {
        const auto below = [&](std::uint64_t limit) { return bot.random() % limit; };
        bot.next_move = now() + std::chrono::milliseconds(50 + below(400));
        const std::uint64_t choice = below(100);
        if (choice < 50) {
            bot.game.steer(static_cast<Direction>(below(5)));
        } else if (choice < 92) {
            bot.game.shoot();
        } else if (choice < 97) {
            bot.game.throw_bait(1 + static_cast<int>(below(kMaxPower)));
        } else {
            bot.game.say("blub");
        }
    }

    std::vector<std::unique_ptr<Bot>> bots_;
};

int run_bots(const Options& options, const net::Servers& servers) {
    Bots bots;
    catch_signals();
    if (!bots.connect(options, servers)) return fail("client", "cannot open so many sockets", 1);
    bots.play(options.seconds, options.floods);
    const std::string why = bots.report();
    bots.leave(options);
    return why.empty() ? 0 : fail("client", why, 1);
}

void print_summary(const Options& options, const Game& game, net::Time left_at) {
    const double stay_s = std::max(0.001, std::chrono::duration<double>(left_at - game.joined_at()).count());
    const net::ConnectionStats& stats = game.stats();
    std::printf("summary entities=%u kB/s=%.1f rtt_ms=%.1f coloured=%u name=%s\n",
                game.receiver().entity_count(), static_cast<double>(stats.bytes_received) / stay_s / 1000,
                static_cast<double>(stats.rtt.count()) / 1000, game.coloured_count(),
                printable(options.name).c_str());
}

/// Prints why the connection ended, and returns the exit code.
int exit_code(const Options& options, const Game& game) {
    using enum net::DisconnectReason;
    if (!game.has_joined() && game.end() != closed)
        return fail("client", "cannot connect to " + options.connect + ": " + game.end_text(), 1);
    if (!game.has_joined() && !should_stop())
        return fail("client", "cannot connect to " + options.connect + ": no answer so far", 1);
    if (game.end() == closed) return 0;
    if (game.end() != shut_down) return fail("client", "lost the server: " + game.end_text(), 1);
    std::printf("%s\n", printable(game.end_text()).c_str());
    return 0;
}

/// Sets the token or the server's key. Returns one line that says why this failed, or nothing.
std::string find_key(Options& options, std::string_view argv0) {
    if (!options.token_file.empty()) {
        auto [token, why] = net::read_token(options.token_file);
        options.token = std::move(token);
        return why;
    }
    if (!options.key.empty()) {
        const auto key = net::parse_public_key(options.key);
        if (!key) return "--key needs 64 hexadecimal digits, not '" + options.key + "'";
        options.server_key = *key;
        return {};
    }
    const auto [key, why] = net::read_public_key(beside(argv0, "server.pub"));
    if (!key) return why + "; a server on another machine prints the argument of --key";
    options.server_key = *key;
    return {};
}

int main(std::string_view argv0, std::span<const char* const> arguments) {
    Options options;
    Flags flags = make_flags(options);
    const Flags::Outcome outcome = flags.parse(arguments);
    if (outcome == Flags::Outcome::help) return std::printf("%s", flags.help().c_str()) < 0;
    if (outcome == Flags::Outcome::bad) return fail("client", flags.error(), 2);
    if (options.name.size() > kMaxNameBytes) return fail("client", "--name has at most 16 letters", 2);
    if (options.insecure + !options.key.empty() + !options.token_file.empty() > 1)
        return fail("client", "--key, --token and --insecure cannot be combined", 2);
    if (options.floods && options.bots == 0) return fail("client", "--flood needs --bots", 2);
    if (options.bots > 0 && (!options.token_file.empty() || !options.hash_log.empty()))
        return fail("client", "--bots cannot be combined with --token or --hash-log", 2);
    if (!options.insecure) {
        if (const std::string why = find_key(options, argv0); !why.empty())
            return fail("client", why, options.key.empty() ? 1 : 2);
    }
    if (options.connect.empty())
        options.connect = options.token ? options.token->servers.front().to_string() : "127.0.0.1";
    auto addresses = net::resolve(options.connect, kDefaultPort);
    if (addresses.error() == net::NetError::bad_address)
        return fail("client", "--connect needs HOST:PORT, not '" + options.connect + "'", 2);
    if (!addresses) return fail("client", "cannot find " + options.connect, 1);
    if (options.bots > 0) return run_bots(options, addresses.value());
    auto socket = open_socket();
    if (!socket)
        return fail("client", "cannot open a socket: " + std::string(net::describe(socket.error())), 1);

    net::BadNetwork network(socket.value(), link_config(options), options.seed);
    Game game(options, network);
    if (!options.hash_log.empty() && !game.open_log(options.hash_log))
        return fail("client", "cannot write " + options.hash_log, 1);
    catch_signals();
    game.connect(addresses.value(), options.token);
    const bool has_display = run(options, socket.value(), network, game);
    const net::Time left_at = now();
    if (!game.end()) leave(options, socket.value(), network, game);
    if (!has_display && game.has_joined()) print_summary(options, game, left_at);
    if (!game.close_log()) return fail("client", "cannot write " + options.hash_log, 1);
    return exit_code(options, game);
}

}  // namespace
}  // namespace shoal::demo

int main(int count, char** arguments) {
    return shoal::demo::main(count > 0 ? arguments[0] : "",
                             {arguments + 1, static_cast<std::size_t>(count > 0 ? count - 1 : 0)});
}
