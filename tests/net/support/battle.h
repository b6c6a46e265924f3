#pragma once
// A simulated path between a server and its players, with a virtual clock. The attacker sees every datagram
// when it is sent, and injects any datagram with any address, but cannot drop or delay one, and has no key.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "net/client.h"
#include "net/host.h"
#include "net/socket/bad_network.h"
#include "tests/net/support/guest.h"

namespace shoal::net::impl::attacks {

/// Latency between the attacker and the server, in each direction.
constexpr Duration kOwnLatency = std::chrono::milliseconds(2);

/// A datagram that the attacker sees.
struct Sighting {
    Address from, to;
    Bytes bytes;
};

struct PlayerPath {
    Duration round_trip = std::chrono::milliseconds(50);
    double loss = 0;  // 0..1, in each direction
};

class Battle;

/// One kind of attack. Attacks act through Battle::inject().
class Attack {
public:
    virtual ~Attack() = default;
    virtual void see(Battle&, const Sighting&) {}
    virtual void step(Battle&) {}
};

/// The events of an endpoint's handler.
class Witness : public Handler {
public:
    void on_connected(PeerId peer) override;
    void on_disconnected(PeerId peer, DisconnectReason reason, std::string_view text) override;
    void on_message(PeerId peer, Channel channel, std::span<const std::byte> bytes) override;
    bool on_admit(const Admission& admission, std::string& refusal) override;

    std::vector<PeerId> connected;  // in the order of on_connected; without those that ended
    std::vector<std::pair<DisconnectReason, std::string>> ends;
    std::map<std::string, int> hellos;  // from on_admit, with their number
    std::uint64_t connects = 0, messages = 0;
    std::uint64_t unreliable = 0;                         // part of `messages`
    std::function<void(std::string_view message)> hears;  // a reliable message
};

/// A client with a path of its own. Connected players and the server send each other a numbered message every
/// 100 ms.
class Player {
public:
    Player(Battle& battle, int number, const Address& at, const PlayerPath& path);

    void connect();
    bool is_connected() { return client_->is_connected(client_->server()); }
    /// Changes the client's address, as a router or another network does.
    void move(const Address& to) { address = to; }
    /// Ends the process without a disconnect packet.
    void die() { client_.reset(); }
    bool is_alive() const { return client_ != nullptr; }
    Client& client() { return *client_; }
    /// The reason why the client's only attempt or connection ended.
    std::optional<DisconnectReason> end() const;
    /// Longest time without a message since the connection began, up to now. 0 before it began.
    Duration silence_at_client() const;
    Duration silence_at_server() const;
    /// Number of messages that arrived twice, out of order, or after a gap, on either side.
    int disorders() const { return at_client_.disorders + at_server_.disorders; }

    const int number;
    Address address;
    PlayerPath path;
    Witness witness;
    Time began{0};                // time of connect()
    std::optional<Time> entered;  // time of on_connected
    std::optional<Time> heard;    // time of the first message at the server

private:
    friend class Battle;
    /// The messages that one side gets from the other: numbers without gaps, at regular times.
    struct Ear {
        std::optional<Time> last;
        std::optional<std::uint64_t> last_number;
        Duration longest{0};
        int disorders = 0;  // numbers that do not follow the previous one
        void expect(Time now);
        void hear(Time now, std::uint64_t next);
    };
    struct Out : Sink {
        void send(const Address& to, std::span<const std::byte> datagram) override;
        Battle* battle = nullptr;
        Player* player = nullptr;
    };

    Battle& battle_;
    Out out_;
    std::unique_ptr<Client> client_;
    LinkConditioner up_, down_;
    Ear at_client_, at_server_;
};

/// One server, its players, and attacks on the path. Events happen in the order of their times; endpoints
/// tick every 10 ms.
class Battle {
public:
    explicit Battle(std::uint64_t seed);
    Battle(std::uint64_t seed, HostConfig config);

    /// Adds a player that connects at once. Each player has its own IPv4 address, unless `at` is given.
    Player& enter(const PlayerPath& path, std::optional<Address> at = {});
    Player& enter(Duration round_trip) { return enter(PlayerPath{round_trip, 0}); }
    /// The same, and runs until the player is connected.
    Player& enter_and_wait(const PlayerPath& path, std::optional<Address> at = {});
    Player& enter_and_wait(Duration round_trip) { return enter_and_wait(PlayerPath{round_trip, 0}); }

    template <class T, class... Arguments>
    T& add(Arguments&&... arguments) {
        attacks_.push_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
        return static_cast<T&>(*attacks_.back());
    }
    /// Delivers a datagram of the attacker after `delay`.
    void inject(const Address& from, const Address& to, Bytes bytes, Duration delay);
    /// Delay of a forged reply or a copy. It arrives `lead` before the genuine datagram, or as early as
    /// possible.
    Duration reply_delay(const Player& player) const;
    Duration copy_delay(const Player& player) const;

    void run(Duration duration);
    /// Runs until the condition is true, at most `longest`. Returns whether it is true.
    bool run_until(const std::function<bool()>& condition, Duration longest);

    /// Largest number of bytes sent to an unproven address, minus the bytes that came from there. An address
    /// is unproven if neither a connect nor an echo came from it.
    std::uint64_t amplified_bytes() const { return amplified_; }
    /// Starts the server again, with a config.
    void start_host(HostConfig& config);
    /// Shows a datagram to all attacks.
    void seen(const Sighting& sighting);
    /// Returns the running player at an address; null if there is none.
    Player* player_at(const Address& address);

    Address server = Address::ipv4(10, 0, 0, 100, 7777);
    std::mt19937_64 random;
    Time now = std::chrono::seconds(1000);
    Duration lead = std::chrono::hours(1);  // how early copies arrive; default: earliest
    Duration tick = std::chrono::milliseconds(10);
    bool talks = true;                  // the server and the players send messages every 100 ms
    std::function<void()> server_tick;  // before the server flushes
    Witness at_server;
    std::unique_ptr<Host> host;
    std::vector<std::unique_ptr<Player>> players;
    std::uint64_t injected = 0;                     // datagrams
    std::vector<std::pair<Time, Sighting>> record;  // every datagram to the server, if records
    bool records = false;

private:
    struct HostSink : Sink {
        void send(const Address& to, std::span<const std::byte> datagram) override;
        Battle* battle = nullptr;
    };
    /// Bytes of datagrams from an address, and to it.
    struct Account {
        bool is_proven = false;
        std::uint64_t paid = 0, spent = 0;
    };
    void step();
    bool deliver_next(Time until);
    void deliver(const Address& from, const Address& to, const Bytes& bytes);
    void talk();

    HostSink host_sink_;
    std::vector<std::unique_ptr<Attack>> attacks_;
    std::multimap<Time, Sighting> injections_;
    LinkConditioner::Datagram incoming_;
    Time next_talk_{0};
    std::uint64_t said_ = 0;
    std::map<Address, Account> accounts_;
    std::uint64_t amplified_ = 0;
};

}  // namespace shoal::net::impl::attacks
