#pragma once
// The attacks of a Battle. Several can run at once.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "net/ack_window.h"
#include "tests/net/support/battle.h"

namespace shoal::net::impl::attacks {

/// Answers each request of each player with forged packets, before the server's answer arrives.
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
    static constexpr Relay kRelays[] = {Relay::nothing, Relay::challenges, Relay::everything};
    struct Plan {
        double share = 1;  // of the packets, 0..1
        Relay relay =
            Relay::nothing;    // which datagrams to the attacker's addresses are passed on to the player
        int addresses = 1;     // each sends a copy
        Duration interval{0};  // time until other addresses replace them; 0: never
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
/// Every second copy comes half as early.
class DownRacer : public Attack {
public:
    /// Copies the first `in_a_row` packets of each `every`, and sends the copies together.
    DownRacer(const Player& victim, int every, int in_a_row = 1)
        : victim_(victim), every_(every), in_a_row_(in_a_row) {}
    void see(Battle& battle, const Sighting& sighting) override;

private:
    const Player& victim_;
    int every_, in_a_row_, count_ = 0;
    std::vector<Bytes> held_;
};

/// A real client of the attacker with any address. It reads on the path what the server sends there.
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

/// Connects from the player's address every `interval`.
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
    /// `at`: the address that sends the hello. `after`: time from seeing it to the first replay.
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

/// Relays the player's handshake through an address of the attacker, so that the server believes that the
/// player is there. Later datagrams to that address are lost.
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

/// A client at an address of the attacker that connects. Subclasses define what it does then.
class Intruder : public Attack {
public:
    explicit Intruder(const Address& at) : at_(at), source_(at) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;
    bool is_in() const { return guest_ && guest_->is_accepted(); }
    /// Sends from this address from now on, and still reads datagrams to the former address.
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

/// An intruder that acknowledges every packet 20 ms after it was sent, whether it arrived or not. It knows
/// the newest packet number, so its guesses are the best possible.
class AckLiar : public Intruder {
public:
    explicit AckLiar(const Address& at) : Intruder(at) {}
    void step(Battle& battle) override;

private:
    void hear(Battle& battle, const Sighting& sighting) override;
    std::deque<std::pair<Time, std::uint64_t>> sent_;  // packet numbers, and times to acknowledge them
};

/// A client that sends from several ports, acknowledges what it gets at any of them, and echoes challenges.
class ManyPorts : public Attack {
public:
    ManyPorts(const Address& first, int ports) : first_(first), ports_(ports) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;
    /// From now on only the first port receives; packets come from the others every `interval`.
    void forge(Time now, Duration interval) { forged_ = now, interval_ = interval; }
    /// Bytes to the forged ports since eight seconds after forge(), minus the bytes from them.
    std::uint64_t excess() const { return forged_drawn_ > forged_sent_ ? forged_drawn_ - forged_sent_ : 0; }
    std::uint64_t bytes_drawn = 0;  // to all ports, after the handshake

private:
    Address at(int port) const;
    bool is_late(const Battle& battle) const {
        return forged_ && battle.now >= *forged_ + std::chrono::seconds(8);
    }
    void send(Battle& battle, int port);

    Address first_;
    int ports_;
    std::optional<Guest> guest_;
    AckWindow received_{1};
    std::optional<Time> forged_;
    Duration interval_{0};
    Time next_{0};
    std::uint64_t forged_drawn_ = 0, forged_sent_ = 0;
};

/// Collects the packets of every player, and sends copies at once or up to two seconds later, from the
/// player's address or from addresses of the attacker's own. Relays what the server sends there.
class Observer : public Attack {
public:
    explicit Observer(std::uint64_t seed) : random_(seed) {}
    void see(Battle& battle, const Sighting& sighting) override;

private:
    static constexpr std::uint16_t kFirstPort = 7000, kPorts = 6;
    std::mt19937_64 random_;
};

/// The source of a flood: `prefixes` of these, each with any number of machines or ports.
enum class Prefix { ipv4, ipv6_64, ipv6_56, ipv6_48 };

/// Handshakes from many addresses of the attacker's own.
class Flood : public Attack {
public:
    /// How far each handshake goes. `repeated`: pending, and its connect is sent again every 3 s, in place
    /// of new handshakes.
    enum class Depth { requests, bad_connects, pending, repeated };
    struct Plan {
        Prefix prefix = Prefix::ipv6_64;
        int prefixes = 4;
        double bytes_per_second = 1'400'000;
        Depth depth = Depth::pending;
        std::optional<Address> like = {};           // one machine, this one: an IPv4 address or an IPv6 /64
        Duration duration = std::chrono::hours(1);  // since the first step
        Duration every{0};  // bursts at this interval, a tenth of it long; 0: no bursts
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
    std::multimap<Time, Sighting> repeats_;
};

/// Sends bursts of connects with valid cookies and random bytes as hello, from several machines.
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

/// Clients of one IPv4 address that connect and stay connected.
class SeatTaker : public Attack {
public:
    SeatTaker(int count, const Address& first) : count_(count), next_(first) {}
    void see(Battle& battle, const Sighting& sighting) override;
    void step(Battle& battle) override;

private:
    int count_;  // clients that have not begun
    Address next_;
    std::map<Address, OwnClient> clients_;
};

}  // namespace shoal::net::impl::attacks
