#pragma once
// Endpoints on a simulated network with a virtual clock, for tests of net/.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "net/client.h"
#include "net/connection.h"
#include "net/host.h"
#include "net/socket/bad_network.h"
#include "tests/net/support/consistency.h"
#include "tests/net/support/handshake_packets.h"
#include "tests/net/support/server_key.h"

namespace shoal::net::impl {

using namespace std::chrono_literals;

inline std::span<const std::byte> as_bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
}
inline std::string as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Seed seed_of(std::uint64_t number) {
    Seed seed{};
    std::memcpy(seed.data(), &number, sizeof number);
    return seed;
}

/// Endless state: as much as its share, but at most `most`.
inline std::size_t fill(PayloadTurn& turn, std::size_t most = kMaxPayloadBytes) {
    const std::size_t size = std::min(most, turn.share);
    std::memset(turn.room.data(), 's', size);
    return size;
}

/// Records all calls, and checks the order that Handler states.
class Recorder : public Handler {
public:
    void on_connected(PeerId peer) override {
        EXPECT_FALSE(disconnects.contains(peer));
        EXPECT_TRUE(connects.insert({peer, true}).second);
        admitted.erase(peer);
        newest = peer;
    }
    void on_disconnected(PeerId peer, DisconnectReason reason, std::string_view text) override {
        EXPECT_TRUE(disconnects.insert({peer, {reason, std::string(text)}}).second) << "reported twice";
        last_reason = reason;
        last_text = text;
        if (on_end) on_end();
    }
    bool on_payload(PeerId peer, std::uint64_t number, std::span<const std::byte> bytes, Time) override {
        EXPECT_TRUE(is_connected(peer));
        payloads.push_back({number, as_text(bytes)});
        return !(withhold && withhold(number));
    }
    void on_message(PeerId peer, Channel channel, std::span<const std::byte> bytes) override {
        EXPECT_TRUE(is_connected(peer));
        messages.push_back({channel, as_text(bytes)});
    }
    void on_fate(PeerId peer, const PacketFate& fate) override {
        EXPECT_FALSE(disconnects.contains(peer));
        fates.push_back(fate);
    }
    bool on_admit(const Admission& admission, std::string& refusal) override {
        admissions += 1;
        last_admitted = admission.peer;
        last_hello = as_text(admission.hello);
        last_schema_matches = admission.schema_matches;
        last_has_room = admission.has_room;
        refusal = refusal_text;
        if (on_admission) on_admission(admission);
        if (admits && admission.schema_matches) {
            EXPECT_TRUE(admitted.insert(admission.peer).second);
        }
        return admits;
    }
    void on_never_connected(PeerId peer) override {
        EXPECT_EQ(admitted.erase(peer), 1u);
        never_connected.push_back(peer);
    }

    /// Writes what send() queued, one payload per call.
    std::size_t write_payload(PeerId peer, PayloadTurn& turn) override {
        turns += 1;
        EXPECT_FALSE(turn.room.size() > kMaxPayloadBytes || turn.share > turn.room.size());
        EXPECT_GE(turn.share, kMinPayloadBytes);
        const auto waiting = to_send.find(peer);
        if (waiting == to_send.end() || waiting->second.empty()) return source ? source(peer, turn) : 0;
        if (!turn.may_be_large && waiting->second.front().size() > turn.room.size()) return 0;
        written = std::move(waiting->second.front());
        waiting->second.pop_front();
        written_number = turn.packet_number;
        if (written.size() > turn.room.size()) {
            turn.large = as_bytes(written);
            return written.size();
        }
        std::memcpy(turn.room.data(), written.data(), written.size());
        return written.size();
    }
    /// Flushes the endpoint or connection with this payload, which must not be empty. Returns the packet
    /// number, or 0 if write_payload was not called; then the payload is discarded.
    template <class Sender>
    std::uint64_t send(Sender& sender, PeerId peer, std::span<const std::byte> payload, Time now) {
        EXPECT_FALSE(payload.empty());
        std::deque<std::string>& waiting = to_send[peer];
        EXPECT_TRUE(waiting.empty());
        waiting.push_back(as_text(payload));
        sender.flush(now);
        if (!waiting.empty()) {
            waiting.clear();
            return 0;
        }
        return written_number;
    }

    bool is_connected(PeerId peer) const { return connects.contains(peer) && !disconnects.contains(peer); }
    std::vector<std::string> texts(Channel channel) const {
        std::vector<std::string> result;
        for (const auto& [on, text] : messages) {
            if (on == channel) result.push_back(text);
        }
        return result;
    }

    std::map<PeerId, bool> connects;
    std::map<PeerId, std::pair<DisconnectReason, std::string>> disconnects;
    std::vector<std::pair<std::uint64_t, std::string>> payloads;
    std::vector<std::pair<Channel, std::string>> messages;
    std::vector<PacketFate> fates;
    std::map<PeerId, std::deque<std::string>> to_send;
    std::string written;  // the last payload written, and its number
    std::uint64_t written_number = 0;
    int turns = 0;                                            // number of calls of write_payload
    std::function<std::size_t(PeerId, PayloadTurn&)> source;  // writes payloads if send() queued none
    PeerId newest, last_admitted;
    DisconnectReason last_reason = DisconnectReason::closed;
    std::string last_text;
    std::string last_hello;
    std::string refusal_text;
    bool last_schema_matches = false, last_has_room = false;
    std::set<PeerId> admitted;  // by on_admit; neither on_connected nor on_never_connected followed yet
    std::vector<PeerId> never_connected;
    bool admits = true;
    int admissions = 0;
    bool (*withhold)(std::uint64_t number) = nullptr;
    std::function<void()> on_end;                        // called at the end of on_disconnected
    std::function<void(const Admission&)> on_admission;  // called in on_admit
};

/// A connection whose handler is this recorder, with the calls of its owner.
inline std::uint64_t send(Recorder& recorder, Connection& connection, std::span<const std::byte> payload,
                          Time now) {
    return recorder.send(connection, connection.session().peer, payload, now);
}

/// A sink that stores the datagrams.
struct Wire : Sink {
    void send(const Address& to, std::span<const std::byte> datagram) override {
        sent.push_back({to, {datagram.begin(), datagram.end()}});
        bytes += datagram.size();
    }
    std::deque<std::pair<Address, std::vector<std::byte>>> sent;
    std::size_t bytes = 0;
};

/// A network: every endpoint has an address, and all share one link conditioner per direction. step()
/// advances the clock.
class World {
public:
    explicit World(const LinkConfig& link = {}, std::uint64_t seed = 1) : up(link, seed), down(link, ~seed) {}

    Host& add_host(const HostConfig& config) {
        host = std::make_unique<Host>(config, server, host_sink);
        return *host;
    }
    struct Player {
        Player(World& world, const ClientConfig& config, const Address& at)
            : address(at), sink(world, at), client(config, recorder, sink) {}
        struct Up : Sink {
            Up(World& in, const Address& at) : world(in), address(at) {}
            void send(const Address& to, std::span<const std::byte> datagram) override {
                Request request;
                if (!read(datagram, request)) nonce = request.client_nonce;
                world.up.push(address, to, datagram, world.now);
            }
            World& world;
            Address address;
            std::uint64_t nonce = 0;  // of the last request
        };
        /// Changes the client's address, as a router or another network does.
        void move(const Address& to) { address = sink.address = to; }

        Address address;
        /// Sends from the client to its server; see Recorder::send.
        std::uint64_t send(std::string_view payload, Time at) {
            return recorder.send(client, client.server(), as_bytes(payload), at);
        }

        Recorder recorder;
        Up sink;
        Client client;
    };
    Player& add_client(const ClientConfig& config, std::uint16_t port = 5000) {
        players.push_back(std::make_unique<Player>(*this, config, Address::ipv4(10, 0, 0, 1, port)));
        return *players.back();
    }
    void remove_clients() { players.clear(); }

    /// Sends from the server to a client; see Recorder::send.
    std::uint64_t send(PeerId to, std::string_view payload) {
        return server.send(*host, to, as_bytes(payload), now);
    }

    /// Delivers datagrams, then updates and flushes all endpoints.
    void step(Duration tick = 10ms) {
        now += tick;
        const bool is_turn_of_clients = now >= next_client_tick_;
        if (is_turn_of_clients) next_client_tick_ = now + client_tick;
        while (up.pop(now, incoming_)) {
            if (host) host->receive(incoming_.from, incoming_.bytes, now);
        }
        while (is_turn_of_clients && down.pop(now, incoming_)) {
            for (const auto& player : players) {
                if (player->address == incoming_.to)
                    player->client.receive(incoming_.from, incoming_.bytes, now);
            }
        }
        if (host) {
            host->update(now);
            if (server_tick) server_tick();
            host->flush(now);
        }
        for (const auto& player : players) {
            if (!is_turn_of_clients) break;
            player->client.update(now);
            player->client.flush(now);
            EXPECT_TRUE(is_consistent(player->client));
        }
        EXPECT_TRUE(!host || is_consistent(*host));
    }
    void run(Duration duration, Duration tick = 10ms) {
        for (const Time end = now + duration; now < end;) step(tick);
    }

    Time now = 1000s;
    Duration client_tick{0};  // time between the turns of the clients; 0: they have one in each step
    std::function<void()> server_tick;  // called between update and flush
    LinkConditioner up, down;
    Address server_address = Address::ipv4(10, 0, 0, 100, 7777);
    Recorder server;
    std::unique_ptr<Host> host;
    std::vector<std::unique_ptr<Player>> players;

private:
    struct Down : Sink {
        explicit Down(World& in) : world(in) {}
        void send(const Address& to, std::span<const std::byte> datagram) override {
            world.down.push(world.server_address, to, datagram, world.now);
        }
        World& world;
    };
    Down host_sink{*this};
    LinkConditioner::Datagram incoming_;
    Time next_client_tick_{0};
};

/// A config for sealed connections; see insecure().
inline HostConfig host_config(std::uint64_t seed = 7) {
    HostConfig config;
    config.protocol_id = 0xC0FFEE;
    config.schema_hash = 0x5C4E;
    config.seed = seed_of(seed);
    config.max_peers_per_ip = 0;  // the simulated players share an address
    give_key(config);
    return config;
}
inline ClientConfig client_config(std::uint64_t seed = 70) {
    ClientConfig config;
    config.protocol_id = 0xC0FFEE;
    config.schema_hash = 0x5C4E;
    config.seed = seed_of(seed);
    give_key(config);
    return config;
}
/// A client's half of a handshake: writes connects, and opens the answers.
class Visitor {
public:
    explicit Visitor(std::uint64_t nonce, const ClientHello& hello = {0x5C4E, 1, {}, {}},
                     Security security = Security::sealed, const PublicKey& server = public_key(server_key()))
        : nonce_(nonce),
          security_(security),
          server_(security == Security::sealed ? server : public_key(insecure_server_key())) {
        write(hello, client_hello_);
    }
    /// Returns a connect for a cookie; the same cookie gives the same connect. Its message is part of this
    /// visitor.
    Connect connect(std::uint64_t cookie) {
        Seed ephemeral = seed_of(nonce_ + 1);
        std::memcpy(ephemeral.data() + 8, &cookie, sizeof cookie);
        ephemeral_ = SecretKey(ephemeral);
        noise_.emplace(handshake_prologue(0xC0FFEE, security_, nonce_, cookie), server_);
        std::copy(client_hello_.begin(), client_hello_.end(), noise_payload(message_).begin());
        EXPECT_TRUE(noise_->write(ephemeral_, message_));
        return {kWireVersion, nonce_, 0xC0FFEE, cookie, message_};
    }
    /// Returns the verdict in an answer to the last connect, if the answer is authentic. Call it once per
    /// connect. The verdict's text is part of this visitor.
    std::optional<Verdict> open(std::span<const std::byte> datagram) {
        Answer answer;
        if (!noise_ || read(datagram, answer) || answer.client_nonce != nonce_) return std::nullopt;
        answer_.assign(answer.message.begin(), answer.message.end());
        Verdict verdict;
        if (!noise_->read(ephemeral_, answer_) || !read(noise_payload(answer_), verdict)) return std::nullopt;
        return verdict;
    }
    NoiseKeys keys() const { return noise_->split(); }

private:
    std::uint64_t nonce_;
    Security security_;
    PublicKey server_;
    std::optional<NoiseExchange> noise_;
    SecretKey ephemeral_;
    std::array<std::byte, kClientHelloBytes> client_hello_{};
    std::array<std::byte, kConnectMessageBytes> message_{};
    std::vector<std::byte> answer_;
};

/// An attacker who sees a client's requests, and answers each with forged cookies before the server does.
struct CookieForger {
    CookieForger(World& in, World::Player& player, const ClientConfig&, int per_request)
        : world(in),
          victim(player),
          forged(per_request),
          random(seed_of(player.address.port + std::uint64_t(in.now.count()))) {
        world.server_tick = [this] { forge(); };
    }
    void forge() {
        const std::uint64_t answered = world.host->endpoint_stats().cookies_sent;
        std::array<std::byte, kMaxDatagramBytes> buffer;
        for (; seen < answered; ++seen)
            for (int i = 0; i < forged; ++i)
                victim.client.receive(world.server_address,
                                      write(CookieReply{victim.sink.nonce, random.next()}, buffer),
                                      world.now);
    }
    World& world;
    World::Player& victim;
    int forged;
    Entropy random;
    std::uint64_t seen = 0;
};

/// The same config for insecure connections.
template <class Config>
Config insecure(Config config) {
    config.security = Security::insecure;
    return config;
}

/// A world with one connected client. The links have the given config after the handshake.
struct ConnectedWorld : World {
    explicit ConnectedWorld(const LinkConfig& link = {}, std::uint64_t seed = 1,
                            const ConnectionConfig& connection = {}, std::uint64_t server_first = 1,
                            std::uint64_t client_first = 1)
        : World({}, seed) {
        HostConfig for_host = host_config(seed);
        for_host.connection = connection;
        for_host.connection.first_packet_number = server_first;
        const bool is_insecure = seed % 7 == 0;
        add_host(is_insecure ? insecure(for_host) : for_host);
        ClientConfig for_client = client_config(seed + 1);
        for_client.connection = connection;
        for_client.connection.first_packet_number = client_first;
        Player& player = add_client(is_insecure ? insecure(for_client) : for_client);
        player.client.connect(server_address, {}, now);
        for (int i = 0; i < 10 && server.connects.empty(); ++i) step();
        EXPECT_EQ(server.connects.size(), 1u);
        up.set_config(link);
        down.set_config(link);
    }
    /// Sends a payload to the client, or from it.
    std::uint64_t send_down(std::string_view payload) { return send(peer(), payload); }
    std::uint64_t send_up(std::string_view payload) { return player().send(payload, now); }
    Player& player() { return *players[0]; }
    Client& client() { return players[0]->client; }
    PeerId peer() const { return server.newest; }
};

}  // namespace shoal::net::impl
