// Plays a recording of the server: in the terminal, or as fast as it can to write a hash log.

#include "replication/record/replay.h"
#include "arena.h"
#include "flags.h"
#include "hash_log.h"
#include "process.h"
#include "terminal.h"
#include "view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>

namespace shoal::demo {
namespace {

using namespace std::chrono_literals;

constexpr net::Duration kFrame = 33ms;
constexpr double kJumpS = 5;

struct Options {
    std::string hash_log;
    double seek = 0, speed = 1;
    bool headless = false, is_old = false;
};

Flags make_flags(Options& options) {
    Flags flags(
        "usage: replay FILE [flags]\nPlays a file that server --record wrote.\n"
        "Space pauses, A and D or arrows go back and forth 5 seconds, 1 and 2 a tick, W and S change the\n"
        "speed, F follows the next creature, q quits.\n");
    flags.real("--seek", options.seek, 0, 1'000'000, "begins at this second of the recording (0)");
    flags.real("--speed", options.speed, 0.01, 100, "1: as it was; 0.5: half as fast (1)");
    flags.text(
        "--hash-log", options.hash_log,
        "plays without drawing and waiting, and writes a hash of the world for each tick to this file");
    flags.toggle("--headless", options.headless, "plays without drawing and waiting, and prints a summary");
    flags.toggle("--old", options.is_old, "plays as the first version of the game, without players' colours");
    return flags;
}

/// The recording with the world that it is played into.
struct Cinema {
    Cinema(std::span<const std::byte> file, bool is_old)
        : schema(arena_schema(is_old ? GameVersion::first : GameVersion::second)),
          replay(world, schema, file) {}

    double seconds(std::uint32_t ticks) const {
        return ticks * std::chrono::duration<double>(replay.tick_time()).count();
    }
    double second() const {
        return seconds(replay.tick().value_or(replay.first_tick()) - replay.first_tick());
    }
    bool seek(double second) {
        const double ticks = std::clamp(second / seconds(1) + 1e-6, 0.0, 1e9);
        return replay.seek(replay.first_tick() + static_cast<replication::Tick>(ticks));
    }

    ecs::World world;
    replication::Schema schema;
    replication::Replay replay;
};

/// Draws the recording, and reads keys. Uses the whole terminal until it is destroyed.
class Display {
public:
    Display(Cinema& cinema, double speed) : cinema_(cinema), view_(cinema.world), speed_(speed) {}

    /// Returns false if the user quits.
    bool update(net::Duration elapsed) {
        for (const Key key : terminal_.keys())
            if (!use(key)) return false;
        if (!is_paused_) cinema_.replay.play(elapsed, speed_);
        if (cinema_.replay.is_open()) draw();
        return cinema_.replay.is_open();
    }

private:
    bool use(Key key) {
        replication::Replay& replay = cinema_.replay;
        switch (key) {
            case Key::quit:
                return false;
            case Key::stop:
                is_paused_ = !is_paused_;
                break;
            case Key::left:
            case Key::right:
                cinema_.seek(cinema_.second() + (key == Key::left ? -kJumpS : kJumpS));
                break;
            case Key::up:
            case Key::down:
                speed_ = std::clamp(key == Key::up ? speed_ * 2 : speed_ / 2, 1.0 / 64, 64.0);
                break;
            case Key::throw_1:
            case Key::throw_2:
                is_paused_ = true;
                replay.step(key == Key::throw_1 ? -1 : 1);
                break;
            case Key::shoot:
                follow_next();
                break;
            default:
                break;
        }
        return true;
    }

    /// Follows the player or pike with the next net id, or the first one.
    void follow_next() {
        const replication::Receiver& receiver = cinema_.replay.receiver();
        replication::NetId next = 0, first = 0;
        receiver.for_each_entity([&](replication::NetId id, ecs::Entity entity) {
            const ecs::World& world = cinema_.world;
            if (!world.has<Player>(entity) && !world.has<Pike>(entity)) return;
            if (first == 0 || id < first) first = id;
            if (id > followed_ && (next == 0 || id < next)) next = id;
        });
        followed_ = next != 0 ? next : first;
    }

    void draw() {
        const replication::Replay& replay = cinema_.replay;
        moving_.clear();
        positions_.each([&](ecs::Entity entity, const Position& at) { moving_.emplace_back(entity, at); });
        for (const auto& [entity, at] : moving_) view_.move(entity, at);
        const Terminal::Size size = terminal_.size();
        screen_.resize(size.columns, size.rows);
        std::array<char, 200> status;
        std::snprintf(status.data(), status.size(), "%s %.1f of %.1f s  tick %u  speed %g  %s",
                      is_paused_ ? "paused" : "plays", cinema_.second(),
                      cinema_.seconds(replay.last_tick() - replay.first_tick()), replay.tick().value_or(0),
                      speed_, replay.error().c_str());
        view_.draw(screen_, replay.receiver().entity(followed_), status.data());
        terminal_.write(screen_.update());
    }

    Cinema& cinema_;
    Terminal terminal_;
    Screen screen_;
    View view_;
    ecs::Query<const Position> positions_{cinema_.world};
    std::vector<std::pair<ecs::Entity, Position>> moving_;
    double speed_;
    bool is_paused_ = false;
    replication::NetId followed_ = 0;
};

/// Plays to the end without waiting. Returns false if the log cannot be written.
bool play_at_once(Cinema& cinema, const std::string& path) {
    replication::WorldHash hash(cinema.world, cinema.schema);
    HashLog log;
    if (!path.empty() && !log.open(path)) return false;
    const auto note = [&] {
        if (log.is_open() && cinema.replay.tick())
            log.write(*cinema.replay.tick(), hash.of_client(cinema.replay.receiver()));
    };
    for (note(); !cinema.replay.at_end() && cinema.replay.step();) note();
    return !log.is_open() || log.close();
}

void draw_until_quit(Cinema& cinema, double speed) {
    Display display(cinema, speed);
    for (net::Time before = now(), time = before; !should_stop(); before = time) {
        std::this_thread::sleep_for(kFrame);
        time = now();
        if (!display.update(time - before)) return;
    }
}

int main(std::span<const char* const> arguments) {
    Options options;
    Flags flags = make_flags(options);
    const bool has_file = !arguments.empty() && std::string_view(arguments[0]).substr(0, 1) != "-";
    const Flags::Outcome outcome = flags.parse(has_file ? arguments.subspan(1) : arguments);
    if (outcome == Flags::Outcome::help) return std::printf("%s", flags.help().c_str()) < 0;
    if (outcome == Flags::Outcome::bad) return fail("replay", flags.error(), 2);
    if (!has_file) return fail("replay", "needs a file first; see --help", 2);
    const std::string path = arguments[0];
    std::ifstream in(path, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (!in.good()) return fail("replay", "cannot read " + path, 1);

    Cinema cinema(std::as_bytes(std::span(file)), options.is_old);
    replication::Replay& replay = cinema.replay;
    if (!replay.is_open()) return fail("replay", path + ": " + replay.error(), 1);
    catch_signals();
    cinema.seek(options.seek);
    if (!replay.is_open()) return fail("replay", path + ": " + replay.error(), 1);
    const bool draws = options.hash_log.empty() && !options.headless && Terminal::is_present();
    if (draws) {
        draw_until_quit(cinema, options.speed);
    } else if (!play_at_once(cinema, options.hash_log)) {
        return fail("replay", "cannot write " + options.hash_log, 1);
    }
    const double length_s = cinema.seconds(replay.last_tick() - replay.first_tick() + 1);
    std::printf("summary entities=%u ticks=%u seconds=%.1f bytes=%zu kB/minute=%.0f name=%s\n",
                replay.receiver().entity_count(), replay.last_tick() - replay.first_tick() + 1, length_s,
                file.size(), static_cast<double>(file.size()) * 60 / length_s / 1000, path.c_str());
    return replay.error().empty() ? 0 : fail("replay", path + ": " + replay.error(), 1);
}

}  // namespace
}  // namespace shoal::demo

int main(int count, char** arguments) {
    return shoal::demo::main({arguments + 1, static_cast<std::size_t>(count > 0 ? count - 1 : 0)});
}
