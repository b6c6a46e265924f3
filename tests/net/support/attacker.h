#pragma once
// A simulated attacker on the path between a server and its clients, under a virtual clock. The attacker sees
// every datagram when it is sent and injects any datagram under any address. The attacker cannot drop or
// delay a datagram and has no key. Whatever builds or parses packets of the handshake is in the first two
// sections.

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
#include "net/crypto/packet_cipher.h"
#include "net/handshake/handshake.h"
#include "net/host.h"
#include "net/socket/link_conditioner.h"

namespace shoal::net::attacks {

using Bytes = std::vector<std::byte>;

// --- Packets of the handshake ---

std::optional<PacketKind> kind_of(std::span<const std::byte> datagram);
bool is_handshake(std::span<const std::byte> datagram);
/// Requires is_handshake().
std::uint64_t nonce_of(std::span<const std::byte> datagram);
/// The cookie in a cookie packet; nothing in any other datagram.
std::optional<std::uint64_t> cookie_in(std::span<const std::byte> datagram);
Bytes make_request(std::uint64_t nonce);
Bytes forge_cookie(std::uint64_t nonce, std::uint64_t cookie);
Bytes forge_refuse(std::uint64_t nonce, DisconnectReason reason);
/// An answer that no key of the client opens.
Bytes forge_answer(std::uint64_t nonce, std::mt19937_64& random);
/// A connect packet in answer to a cookie packet, with nonsense as hello. Requires cookie_in(cookie).
Bytes forge_connect(std::span<const std::byte> cookie, std::mt19937_64& random);
/// A copy of a connect packet under another cookie: the same hello.
Bytes copy_with_cookie(std::span<const std::byte> connect, std::uint64_t cookie);

// --- A client without Client ---

/// A client of the attacker's own, by hand: any nonce, any address, and packets that no honest client sends.
/// It knows the server's public key, as everybody does.
class Guest {
public:
    Guest(std::uint64_t nonce, std::uint64_t secret) : nonce_(nonce), secret_(secret) {}

    Bytes request() const { return make_request(nonce_); }
    Bytes connect(std::uint64_t cookie);
    /// Returns true if the datagram is the server's answer to connect() and accepts.
    bool read_answer(std::span<const std::byte> datagram, Time now);
    bool is_accepted() const { return cipher_.has_value(); }

    /// What a packet of the connection carries.
    struct Contents {
        Acks acks = {};
        bool ping = false;
        std::span<const std::byte> runs = {};  // bytes of messages, as in write_run()
    };
    /// The next packet. Requires is_accepted().
    Bytes packet(const Contents& contents);
    /// The echo of a challenge, or nothing if the datagram is not one.
    std::optional<Bytes> echo(std::span<const std::byte> datagram, Time now);
    /// The number of a packet of the server, or nothing if it does not open.
    std::optional<std::uint64_t> read_number(std::span<const std::byte> datagram, Time now);

    /// The last run of a packet: `count` empty messages, unreliable.
    static Bytes empty_messages(std::uint8_t count);
    /// The last run of a packet: one reliable message of `size` bytes; its id is `id`, and it waits for the
    /// message `distance` before.
    static Bytes reliable_message(std::uint64_t id, std::uint16_t distance, std::size_t size);

private:
    Bytes seal(PacketKind kind, std::span<const std::byte> body);
    std::optional<Bytes> open(std::span<const std::byte> datagram, Time now);

    std::uint64_t nonce_, secret_;
    std::optional<NoiseInitiator> noise_;
    std::optional<PacketCipher> cipher_;
    std::uint32_t connection_id_ = 0;
    std::uint64_t next_number_ = 1, server_newest_ = 0;
};

// --- The path ---

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

/// What an endpoint's handler heard.
class Witness : public Handler {
public:
    void on_connected(PeerId peer) override;
    void on_disconnected(PeerId peer, DisconnectReason reason, std::string_view text) override;
    void on_message(PeerId peer, Channel channel, std::span<const std::byte> bytes) override;
    bool on_admit(const Admission& admission, std::string& refusal) override;

    std::vector<PeerId> connected;  // in the order of on_connected; those that ended are taken out
    std::vector<std::pair<DisconnectReason, std::string>> ends;
    std::map<std::string, int> hellos;  // of on_admit, and how often
    std::uint64_t connects = 0, messages = 0;
    std::function<void(std::string_view message)> hears;
};

/// A client with a path of its own. Connected players and the server tell each other a numbered message every
/// 100 ms.
class Player {
public:
    Player(Battle& battle, int number, const Address& at, const PlayerPath& path);

    void connect();
    bool is_connected() { return client_->is_connected(client_->server()); }
    /// As if a router had lent it another port, or it had changed networks.
    void move(const Address& to) { address = to; }
    /// The process ends and says nothing.
    void die() { client_.reset(); }
    bool is_alive() const { return client_ != nullptr; }
    Client& client() { return *client_; }
    /// The reason why the client's only attempt or connection ended.
    std::optional<DisconnectReason> end() const;
    /// Longest time without a message since the connection began, up to now. 0 before it began.
    Duration silence_at_client() const;
    Duration silence_at_server() const;
    /// Messages that came twice, out of order, or after a gap, on either side.
    int disorders() const { return at_client_.disorders + at_server_.disorders; }

    const int number;
    Address address;
    PlayerPath path;
    Witness witness;
    std::optional<Time> entered;  // time of on_connected
    std::optional<Time> heard;    // time of the first message at the server

private:
    friend class Battle;
    /// What one side hears of the other: numbers without a gap, at regular times.
    struct Ear {
        std::optional<Time> last;
        std::optional<std::uint64_t> last_number;
        Duration longest{0};
        int disorders = 0;  // numbers that do not follow the one before
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

    /// A player that connects at once. Players have an IPv4 address of their own each, unless `at` is given.
    Player& enter(const PlayerPath& path, std::optional<Address> at = {});
    Player& enter(Duration round_trip) { return enter(PlayerPath{round_trip, 0}); }
    /// A player that is connected when the function returns.
    Player& enter_and_wait(const PlayerPath& path, std::optional<Address> at = {});
    Player& enter_and_wait(Duration round_trip) { return enter_and_wait(PlayerPath{round_trip, 0}); }

    template <class T, class... Arguments>
    T& add(Arguments&&... arguments) {
        attacks_.push_back(std::make_unique<T>(std::forward<Arguments>(arguments)...));
        return static_cast<T&>(*attacks_.back());
    }
    /// Delivers a datagram of the attacker after `delay`.
    void inject(const Address& from, const Address& to, Bytes bytes, Duration delay);
    /// How long a forged reply or a copy takes: so that it is `lead` faster than the genuine datagram, or as
    /// much faster as causality allows.
    Duration reply_delay(const Player& player) const;
    Duration copy_delay(const Player& player) const;

    void run(Duration duration);
    /// Runs until the condition holds or the time is over. Returns whether it holds.
    bool run_until(const std::function<bool()>& condition, Duration longest);

    /// Largest number of bytes that an address was sent beyond those that came from there, of addresses from
    /// which neither a connect nor an echo came: nobody there has proven anything.
    std::uint64_t amplified_bytes() const { return amplified_; }
    /// Starts the server anew, from a config.
    void start_host(HostConfig& config);
    /// Shows a datagram to all attacks.
    void seen(const Sighting& sighting);
    /// The living player there; null if there is none.
    Player* player_at(const Address& address);

    Address server = Address::ipv4(10, 0, 0, 100, 7777);
    std::mt19937_64 random;
    Time now = std::chrono::seconds(1000);
    Duration lead = std::chrono::hours(1);  // of the attacker; the default is the fastest possible one
    Duration tick = std::chrono::milliseconds(10);
    bool talks = true;                  // the server and the players say something every 100 ms
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
    /// Bytes of datagrams from an address and to it.
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

// --- Attacks ---

/// Answers each request of each player with forgeries, before the server can.
class Forger : public Attack {
public:
    Forger(int cookies, int hints, int answers) : cookies_(cookies), hints_(hints), answers_(answers) {}
    void see(Battle& battle, const Sighting& sighting) override;

private:
    int cookies_, hints_, answers_;  // for each request
};

/// Sends copies of a player's packets from addresses of the attacker's own.
class Racer : public Attack {
public:
    enum class Relay { nothing, challenges, everything };
    struct Plan {
        double share = 1;              // of the packets, 0..1
        Relay relay = Relay::nothing;  // what goes on to the player of what comes to the attacker's addresses
        int addresses = 1;             // each sends a copy
        Duration interval{0};          // until other addresses take their place; 0: never
        Duration duration = std::chrono::hours(1);  // since the first step
    };
    Racer(const Player& victim, const Plan& plan) : victim_(victim), plan_(plan) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;

private:
    Address address(int index) const;

    const Player& victim_;
    Plan plan_;
    int first_ = 0;  // index of the first address in use
    std::optional<Time> next_change_, end_;
};

/// Sends a player copies of the server's packets, before the packets that the server sent earlier arrive.
class DownRacer : public Attack {
public:
    /// Copies one packet of `every`.
    DownRacer(const Player& victim, int every) : victim_(victim), every_(every) {}
    void see(Battle& battle, const Sighting& sighting) override;

private:
    const Player& victim_;
    int every_, count_ = 0;
};

/// A real client of the attacker under any address. It reads what the server sends there on the wire.
class OwnClient {
public:
    OwnClient(Battle& battle, const Address& from);
    void see(const Sighting& sighting);
    void step(Battle& battle);
    bool has_connected() const { return witness_.connects > 0; }

private:
    struct Out : Sink {
        void send(const Address& to, std::span<const std::byte> datagram) override;
        Battle* battle = nullptr;
        Address from;
    };
    Witness witness_;
    Out out_;
    Client client_;
    std::vector<Bytes> replies_;  // since the last step
};

/// Connects from the player's address, again every `interval`.
class Usurper : public Attack {
public:
    Usurper(const Player& victim, Duration interval) : victim_(victim), interval_(interval) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;
    bool has_connected() const { return client_ && client_->has_connected(); }

private:
    const Player& victim_;
    Duration interval_;
    Time next_{0};
    std::unique_ptr<OwnClient> client_;
};

/// Sends the player's hello again, under cookies for another address.
class Replayer : public Attack {
public:
    /// `at`: where the hello comes from. `after`: from when it is seen to the first replay.
    Replayer(const Player& victim, const Address& at, Duration after)
        : victim_(victim), at_(at), after_(after) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;
    int replays = 0;

private:
    const Player& victim_;
    Address at_;
    Duration after_;
    std::optional<Bytes> connect_;
    Time begin_{0}, next_{0};
};

/// Passes the player's handshake through the attacker's own address, where the server then believes the
/// player to be; what comes there later goes nowhere.
class Relayer : public Attack {
public:
    explicit Relayer(const Player& victim) : victim_(victim) {}
    void see(Battle& battle, const Sighting& sighting) override;
    bool has_answer = false;  // one was passed on

private:
    const Player& victim_;
    Address mine_ = Address::ipv4(66, 0, 0, 3, 6000);
};

/// Connects under the nonce of each of the player's requests, from the player's address, before the player
/// can.
class NonceThief : public Attack {
public:
    explicit NonceThief(const Player& victim) : victim_(victim) {}
    void see(Battle& battle, const Sighting& sighting) override;
    bool has_connected = false;  // sent a connect under the copied nonce

private:
    const Player& victim_;
    std::optional<Guest> guest_;
};

/// A guest at an address of the attacker's own that comes in. What it does then is for subclasses.
class Intruder : public Attack {
public:
    explicit Intruder(const Address& at) : at_(at), source_(at) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;
    bool is_in() const { return guest_ && guest_->is_accepted(); }
    /// Sends from there from now on, and goes on reading what comes to the address before.
    void forge_address(const Address& at) { source_ = at; }
    /// Sends a packet of the connection. Requires is_in().
    void send(Battle& battle, const Guest::Contents& contents);
    std::uint64_t bytes_sent = 0, bytes_drawn = 0;  // datagrams of the connection; to the guest's addresses

protected:
    virtual void hear(Battle&, const Sighting&) {}  // what the server sends to a guest that is in
    Guest& guest() { return *guest_; }

private:
    Address at_, source_;
    std::optional<Guest> guest_;
};

/// An intruder that acknowledges everything 20 ms after it was sent, arrived or not: the best guesser there
/// is. It knows the newest number, and does not look at the ones before.
class AckLiar : public Intruder {
public:
    explicit AckLiar(const Address& at) : Intruder(at) {}
    void step(Battle& battle) override;

private:
    void hear(Battle& battle, const Sighting& sighting) override;
    std::deque<std::pair<Time, std::uint64_t>> sent_;  // packet numbers, and when to acknowledge
};

/// Where a flood comes from: `prefixes` of these, each with any number of machines or ports.
enum class Prefix { ipv4, ipv6_64, ipv6_56, ipv6_48 };

/// Handshakes from many addresses of the attacker's own.
class Flood : public Attack {
public:
    enum class Depth { requests, bad_connects, pending };  // how far each handshake goes
    struct Plan {
        Prefix prefix = Prefix::ipv6_64;
        int prefixes = 4;
        double bytes_per_second = 1'400'000;
        Depth depth = Depth::pending;
        std::optional<Address> like = {};           // ipv4: one machine, this one
        Duration duration = std::chrono::hours(1);  // since the first step
    };
    explicit Flood(const Plan& plan) : plan_(plan) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;

private:
    Address fresh_address(Battle& battle) const;
    Plan plan_;
    double budget_ = 0;
    std::optional<Time> end_;
    std::map<Address, Guest> asking_;
};

/// Connects with valid cookies and nonsense as hello, at once from each of some machines, again and again.
class Bursts : public Attack {
public:
    /// `count` from each address every `interval`.
    Bursts(std::vector<Address> from, int count, Duration interval)
        : from_(std::move(from)), count_(count), interval_(interval), cookies_(from_.size()) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;

private:
    std::vector<Address> from_;
    int count_;
    Duration interval_;
    std::vector<std::optional<Sighting>> cookies_;  // packets
    Time next_request_{0}, next_{0};
};

/// Repeats, reflects, damages, cuts and invents datagrams, a dozen in each step.
class Vandal : public Attack {
public:
    /// `duration`: since the first step.
    explicit Vandal(std::uint64_t seed, Duration duration = std::chrono::hours(1))
        : random_(seed), duration_(duration) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;

private:
    void act(Battle& battle);
    const Sighting& any() { return seen_[random_() % seen_.size()]; }
    Address stranger();
    void damage(Bytes& bytes);
    void resize(Bytes& bytes);
    void forge_end(const Battle& battle, Sighting& packet);

    std::mt19937_64 random_;
    Duration duration_;
    std::optional<Time> end_;
    std::vector<Sighting> seen_;  // a bounded sample
};

/// Clients of one IPv4 address that come in and stay.
class SeatTaker : public Attack {
public:
    SeatTaker(int count, const Address& first) : count_(count), next_(first) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;

private:
    int count_;  // that have not begun
    Address next_;
    std::map<Address, OwnClient> clients_;
};

}  // namespace shoal::net::attacks
