#pragma once
// Plays a game by itself, to find its mistakes: a server and clients in one process, in virtual time, over
// bad networks. For tests.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../client.h"
#include "../server.h"

namespace shoal::replication::impl {

/// Random numbers from a seed, the same on every platform.
class Dice {
public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next();
    /// Returns 0 to n - 1. Requires n >= 1.
    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(next() % n); }
    /// Returns true with this probability.
    bool chance(double probability) { return static_cast<double>(next() >> 11) < probability * 0x1p53; }

private:
    std::uint64_t state_;
};

/// The first mistake that a rehearsal found.
struct RehearsalFault {
    std::uint64_t seed = 0;
    Tick tick = 0;          // of the server
    std::string component;  // or action, "actions", "connection", "entities", "memory"
    std::string what;
    std::string command;  // shows it again; empty without RehearsalOptions::command
    /// All of it in one line.
    std::string text() const;
};

struct RehearsalOptions {
    /// As in the game. The rehearsal itself sets keys and seeds, check_every, the functions for mistakes,
    /// connection.timeout and keep_alive, and join.resume_time.
    ServerOptions server = {};
    ClientOptions client = {};
    double frame_hz = 60;                          // frames of a client per second; > 0
    std::uint32_t players = 3;                     // most clients at a time; 1 to 200
    std::uint32_t rounds = 2;                      // how often all players join and leave; >= 1
    net::Duration play = std::chrono::seconds(7);  // length of a round, without its end
    /// Each n-th seed is played twice, and both runs must be the same; 0: none.
    std::uint64_t repeat_every = 4;
    Tick check_every = 3;  // see ClientOptions::check_every; 0: never
    /// A command that plays the seed which is appended to it, for example "./rehearse ".
    std::string command = {};
    /// Names that are not checked, see RehearsalFault::component.
    std::vector<std::string> ignored = {};
    /// Says which entities may be left on the server when all players have left. Without it: as many as
    /// before the first player.
    std::function<bool(const ecs::World&, ecs::Entity)> may_stay = {};
    /// Returns how many bytes the program holds; requires rounds >= 3. It is a mistake if the third and each
    /// later round add more than memory_growth, and the round before did, too. Without the function, memory
    /// is not checked.
    std::function<std::size_t()> memory = {};
    std::size_t memory_growth = std::size_t{64} << 10;
};

/// Runs the set-up functions of a game, and lets clients join, leave, crash, lose their connection and come
/// back. Everything follows from the seed. Not thread-safe. README.md lists what is checked.
class Rehearsal {
public:
    /// What a set-up function tells about its side.
    class Side {
    public:
        /// Adds a rule: fn(Entity, const T&) returns a text that says what is wrong, or an empty one. It is
        /// called for all entities with a T, after each tick of the server or update of the client.
        template <class T, class Fn>
        void always(ecs::World& world, Fn fn) {
            rules_.push_back([query = std::make_shared<ecs::Query<const T>>(world), fn = std::move(fn)] {
                Broken broken;
                query->each([&](ecs::Entity entity, const T& value) {
                    broken.why = fn(entity, value);
                    return broken.why.empty();
                });
                broken.component = &type_address<T>;
                return broken;
            });
        }

    protected:
        friend class RehearsalRun;
        struct Broken {
            const void* component = nullptr;
            std::string why;  // empty: nothing is wrong
        };
        std::vector<std::function<Broken()>> rules_;
    };
    class Host : public Side {};
    class Player : public Side {
    public:
        explicit Player(std::uint64_t seed) : dice(seed) {}
        Dice dice;  // decides what the player does
        /// Says how many calls of the client's handlers of T, an action, the game has used: count() is
        /// compared with the number of calls after each update. Without other checks a handler that drops an
        /// event would not be found.
        template <class T, class Fn>
        void handles(Client& client, Fn count) {
            const auto calls = std::make_shared<std::uint64_t>(0);
            client.on<T>([calls](const T&, const Call&) { *calls += 1; });
            handled_.push_back({&type_address<T>, calls, std::move(count)});
        }

    private:
        friend class RehearsalRun;
        struct Handled {
            const void* action;
            std::shared_ptr<std::uint64_t> calls;
            std::function<std::uint64_t()> count;
        };
        std::vector<Handled> handled_;
    };

    /// The set-up of a server sets its handlers, as a game does before ServerRunner::run(), and returns the
    /// function that it would give to run(), or an empty one. What this function holds lives as long as the
    /// server. World and server outlive it.
    using SetUpServer = std::function<std::function<void()>(ecs::World&, Server&, Host&)>;
    /// The same for a client. The function that it returns is called in each frame, and presses what
    /// Player::dice says.
    using SetUpClient = std::function<std::function<void()>(ecs::World&, Client&, Player&)>;

    Rehearsal(Schema schema, SetUpServer server, SetUpClient client, RehearsalOptions options = {})
        : schema_(std::move(schema)),
          server_(std::move(server)),
          client_(std::move(client)),
          options_(std::move(options)) {}

    /// Says that clients predict these components of their player's entities exactly, as long as inputs and
    /// actions arrive in time, and except for teleports.
    template <class... Ts>
    void deterministic() {
        (deterministic_.push_back(&type_address<Ts>), ...);
    }
    /// Says that each of these actions reaches each player that plays exactly once.
    template <class... Ts>
    void exactly_once() {
        (once_.push_back({&type_address<Ts>,
                          [](Client& client, const std::function<void(const Call&)>& fn) {
                              client.on<Ts>([fn](const Ts&, const Call& call) { fn(call); });
                          }}),
         ...);
    }

    /// Plays the game with one seed, until the end or the first mistake.
    std::optional<RehearsalFault> run(std::uint64_t seed);
    /// Plays the seeds from `first` on, until the first mistake.
    std::optional<RehearsalFault> run(std::uint64_t first, std::uint64_t count);

private:
    friend class RehearsalRun;
    struct Once {
        const void* action;
        std::function<void(Client&, const std::function<void(const Call&)>&)> listen;
    };

    Schema schema_;
    SetUpServer server_;
    SetUpClient client_;
    RehearsalOptions options_;
    std::vector<const void*> deterministic_;
    std::vector<Once> once_;
};

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::Dice, impl::Rehearsal, impl::RehearsalFault, impl::RehearsalOptions;
}  // namespace shoal::replication
