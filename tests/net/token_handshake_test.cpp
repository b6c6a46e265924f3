// Which clients are accepted with a connect token, and which are not.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/net/support/addresses.h"
#include "tests/net/support/world.h"
#include "tests/support/allocations.h"

namespace shoal::net::impl {
namespace {

using Datagram = std::vector<std::byte>;

constexpr std::uint64_t kZero_s = 1'700'000'000;  // Unix time at Time zero
constexpr std::uint64_t kNow_s = kZero_s + 100;   // Unix time when a Desk is made

SecretKey backend_key() {
    return SecretKey(seed_of(0xBAC));
}

/// Returns a request for a token. Each one is different.
struct Wish {
    std::uint64_t protocol_id = 0xC0FFEE;
    std::uint64_t expires_s = kNow_s + 30;
    std::vector<Address> servers = {kServer};
    std::string claims = "red team";
    SecretKey key = backend_key();

    ClientToken token() const {
        static std::uint64_t fresh = 0;
        const TokenRequest request{
            protocol_id, 42, expires_s, servers, as_bytes(claims), public_key(server_key())};
        const auto issued = issue_token(request, key, seed_of(++fresh));
        EXPECT_TRUE(issued);
        return issued ? *issued : ClientToken{};
    }
};

/// The config of a host that requires tokens.
HostConfig token_host() {
    HostConfig config = host_config();
    config.tokens.backend_key = backend_key();
    config.tokens.servers = {Address::ipv4(192, 0, 2, 1, 7777), kServer};
    config.tokens.unix_time_s = kZero_s;
    config.max_handshakes_per_s_per_ip = 60'000;  // no limit in these tests
    config.max_handshakes_per_s = 10'000'000;
    return config;
}

/// Stores the contents of the token.
struct Doorman : Recorder {
    bool on_admit(const Admission& admission, std::string& refusal) override {
        had_token = admission.has_token;
        client_id = admission.client_id;
        claims = as_text(admission.claims);
        return Recorder::on_admit(admission, refusal);
    }
    bool had_token = false;
    std::uint64_t client_id = 0;
    std::string claims;
};

struct Visit {
    explicit Visit(const Address& at = kAlice, std::uint64_t seed = 70, const ClientConfig* config = nullptr)
        : address(at), client(config ? *config : client_config(seed), recorder, wire) {}
    Address address;
    Wire wire;
    Recorder recorder;
    Client client;
};

/// A host, and visitors whose datagrams the test delivers.
struct Desk {
    explicit Desk(const HostConfig& config = token_host()) : host(config, doorman, wire) {}

    Datagram take(Wire& from) {
        EXPECT_FALSE(from.sent.empty());
        if (from.sent.empty()) return {};
        Datagram bytes = std::move(from.sent.front().second);
        from.sent.pop_front();
        return bytes;
    }
    void to_host(const Address& from, const Datagram& bytes) {
        const Datagram exact(bytes);
        const std::size_t before = wire.bytes;
        host.receive(from, exact, now);
        EXPECT_LE(wire.bytes - before, exact.size()) << "amplification";
    }
    void settle(Visit& visit) {
        while (!wire.sent.empty() || !visit.wire.sent.empty()) {
            if (!visit.wire.sent.empty()) to_host(visit.address, take(visit.wire));
            if (!wire.sent.empty()) visit.client.receive(kServer, take(wire), now);
        }
    }
    /// Runs until the client is connected or refused.
    void connect(Visit& visit, const ClientToken& token) {
        visit.client.connect(kServer, token, as_bytes("hello"), now);
        finish(visit);
    }
    void finish(Visit& visit) {
        for (int i = 0; i <= 10; ++i) {  // until refusals are believed
            visit.client.flush(now);
            settle(visit);
            if (visit.client.state() != Client::State::connecting) return;
            now += 500ms;
            visit.client.update(now);
        }
    }
    /// Runs to the client's first connect, and returns it.
    Datagram knock(Visit& visit, const ClientToken& token) {
        visit.client.connect(kServer, token, as_bytes("hello"), now);
        visit.client.flush(now);
        to_host(visit.address, take(visit.wire));
        visit.client.receive(kServer, take(wire), now);
        return take(visit.wire);
    }
    /// A client with this token is answered, but another one takes the last seat before it, and leaves again.
    void lose_the_last_seat(Visit& visit, const ClientToken& token) {
        to_host(visit.address, knock(visit, token));
        const Datagram answer = take(wire);
        Visit other;
        connect(other, Wish().token());
        visit.client.receive(kServer, answer, now);
        host.receive(visit.address, take(visit.wire), now);
        settle(visit);
        EXPECT_EQ(visit.recorder.last_reason, DisconnectReason::refused_full);
        other.client.disconnect(other.client.server(), DisconnectReason::closed, "", now);
        settle(other);
    }
    void expect_refused(const Visit& visit, DisconnectReason reason, std::string_view text) {
        EXPECT_EQ(visit.client.state(), Client::State::idle);
        EXPECT_EQ(visit.recorder.last_reason, reason);
        EXPECT_EQ(visit.recorder.last_text, text);
        EXPECT_EQ(visit.recorder.disconnects.size(), 1u);
    }

    Time now = 100s;
    Wire wire;
    Doorman doorman;
    Host host;
};

TEST(TokenHandshake, ATokenConnectsOnce) {
    Desk desk;
    const ClientToken token = Wish().token();
    Visit alice;
    desk.connect(alice, token);
    EXPECT_EQ(alice.client.state(), Client::State::connected);
    EXPECT_TRUE(desk.host.is_connected(desk.doorman.newest));
    EXPECT_TRUE(desk.doorman.had_token);
    EXPECT_EQ(desk.doorman.client_id, 42u);
    EXPECT_EQ(desk.doorman.claims, "red team");
    EXPECT_EQ(desk.doorman.last_hello, "hello");
    desk.doorman.send(desk.host, desk.doorman.newest, as_bytes("state"), desk.now);
    alice.recorder.send(alice.client, alice.client.server(), as_bytes("input"), desk.now);
    desk.settle(alice);
    EXPECT_EQ(alice.recorder.payloads.size(), 1u);
    EXPECT_EQ(desk.doorman.payloads.size(), 1u);

    // The same token from another client, and from the same one.
    Visit mallory(kMallory, 71), again(kAlice, 72);
    desk.connect(mallory, token);
    desk.expect_refused(mallory, DisconnectReason::refused_token, "connect token used before");
    desk.connect(again, token);
    desk.expect_refused(again, DisconnectReason::refused_token, "connect token used before");
    EXPECT_EQ(describe(DisconnectReason::refused_token), "refused: no valid connect token");
    EXPECT_EQ(desk.doorman.admissions, 1) << "on_admit is called once per token";
    EXPECT_EQ(alice.client.state(), Client::State::connected);
}

TEST(TokenHandshake, RefusalsSayWhy) {
    Wish expired, elsewhere, other_game, forged;
    expired.expires_s = kNow_s;
    elsewhere.servers = {Address::ipv4(10, 0, 0, 100, 7778), Address::ipv4(10, 0, 0, 101, 7777)};
    other_game.protocol_id = 0xC0FFEF;
    forged.key = SecretKey(seed_of(1));
    const std::pair<Wish, std::string_view> cases[] = {{expired, "connect token expired"},
                                                       {elsewhere, "connect token for another server"},
                                                       {other_game, "connect token for another game"},
                                                       {forged, "connect token not sealed with our key"}};
    for (const auto& [wish, text] : cases) {
        Desk desk;
        Visit alice;
        desk.connect(alice, wish.token());
        desk.expect_refused(alice, DisconnectReason::refused_token, text);
        EXPECT_EQ(desk.doorman.admissions, 0);
        EXPECT_TRUE(desk.host.is_idle());
    }
    Desk desk;
    Visit alice;
    Wish just_in_time;
    just_in_time.expires_s = kNow_s + 1;
    desk.now += 999ms;
    desk.connect(alice, just_in_time.token());
    EXPECT_EQ(alice.client.state(), Client::State::connected);
}

// Goal: a connect with any changed bit is refused, and does not use up the token.
TEST(TokenHandshake, DamageToAnyBitOfAConnectIsRefused) {
    Desk desk;
    Visit alice;
    const ClientToken token = Wish().token();
    const Datagram connect = desk.knock(alice, token);
    for (std::size_t bit = 8; bit < connect.size() * 8; ++bit) {
        if (bit > 140 * 8 && bit % 31 != 0) continue;  // a sample of the sealed client hello
        Datagram damaged = connect;
        damaged[bit / 8] ^= std::byte(1u << bit % 8);
        const std::uint64_t answers = desk.host.endpoint_stats().answers_sent;
        desk.to_host(kAlice, damaged);
        ASSERT_EQ(desk.host.endpoint_stats().answers_sent, answers) << bit;
        ASSERT_TRUE(desk.host.is_idle()) << bit;
    }
    EXPECT_EQ(desk.doorman.admissions, 0);
    desk.wire.sent.clear();
    desk.to_host(kAlice, connect);
    desk.settle(alice);
    EXPECT_EQ(alice.client.state(), Client::State::connected);
}

// The token is in the sealed part of the connect, so that nobody on the path can read it.
TEST(TokenHandshake, TheTokenIsNotReadableOnThePath) {
    Desk desk;
    Visit alice;
    const ClientToken token = Wish().token();
    const Datagram connect = desk.knock(alice, token);
    EXPECT_EQ(connect.size(), kMaxDatagramBytes);
    for (std::size_t at = 0; at + 8 <= token.sealed.size(); ++at) {
        const auto part = std::span(token.sealed).subspan(at, 8);
        const auto found = std::search(connect.begin(), connect.end(), part.begin(), part.end());
        ASSERT_EQ(found, connect.end()) << at;
    }
}

// An attacker who copies a connect cannot send it from another address with a cookie of its own, to use up
// the token or to repeat the hello.
TEST(TokenHandshake, AConnectCannotBeMovedToAnotherAddress) {
    Desk desk;
    Visit alice;
    const Datagram bytes = desk.knock(alice, Wish().token());
    Connect connect;
    ASSERT_FALSE(read(bytes, connect));
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const auto request = write(Request{kWireVersion, connect.client_nonce, 0xC0FFEE}, buffer);
    desk.to_host(kMallory, {request.begin(), request.end()});
    CookieReply reply;
    ASSERT_FALSE(read(desk.take(desk.wire), reply));
    connect.cookie = reply.cookie;
    const auto moved = write(connect, buffer);
    desk.to_host(kMallory, {moved.begin(), moved.end()});
    EXPECT_EQ(desk.host.endpoint_stats().drops[Drop::bad_tag], 1u);
    desk.wire.sent.clear();
    desk.to_host(kAlice, bytes);
    desk.settle(alice);
    EXPECT_EQ(alice.client.state(), Client::State::connected);
}

TEST(TokenHandshake, LostAnswersDoNotUseUpTheToken) {
    Desk desk;
    Visit alice;
    desk.now = 103'500ms;  // half a second before the cookies change
    const ClientToken token = Wish().token();
    const Datagram first = desk.knock(alice, token);
    desk.to_host(kAlice, first);
    const Datagram answer = desk.take(desk.wire);
    desk.to_host(kAlice, first);
    EXPECT_EQ(desk.take(desk.wire), answer);
    // The client repeats its connect, then requests another cookie and makes a new connect.
    Datagram second;
    int repeats = 0;
    while (desk.now < 108s && (second.empty() || second == first)) {
        desk.now += 10ms;
        desk.host.update(desk.now);
        alice.client.update(desk.now);
        alice.client.flush(desk.now);
        if (alice.wire.sent.empty()) continue;
        Datagram bytes = desk.take(alice.wire);
        repeats += bytes == first;
        desk.to_host(kAlice, bytes);
        if (read_kind(bytes[0]) == PacketKind::connect) {
            EXPECT_EQ(desk.take(desk.wire), answer);
            continue;
        }
        alice.client.receive(kServer, desk.take(desk.wire), desk.now);
        second = desk.take(alice.wire);
        desk.to_host(kAlice, second);
    }
    EXPECT_EQ(repeats, 4);
    ASSERT_FALSE(second.empty());
    EXPECT_NE(second, first) << "another cookie gives another connect";
    desk.settle(alice);
    EXPECT_EQ(alice.client.state(), Client::State::connected);
    EXPECT_EQ(desk.doorman.admissions, 1);
    desk.host.update(desk.now);
    EXPECT_TRUE(desk.host.is_connected(desk.doorman.newest));
}

TEST(TokenHandshake, TokensArriveThroughHeavyLoss) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(seed);
        LinkConfig link;
        link.latency = 50ms;
        link.jitter = 30ms;
        link.loss = 0.3;
        link.duplicate = 0.1;
        World world(link, seed);
        world.add_host(token_host());
        Wish wish;
        wish.expires_s = kZero_s + 1030;
        auto& player = world.add_client(client_config(seed));
        player.client.connect(world.server_address, wish.token(), {}, world.now);
        world.run(10s);
        EXPECT_EQ(player.client.state(), Client::State::connected) << player.recorder.last_text;
        EXPECT_EQ(world.server.admissions, 1);
    }
}

// Each cookie has a connect of its own, and the server may answer an earlier one.
TEST(TokenHandshake, ForgedCookiesDoNotKeepAClientOut) {
    for (const int forged : {4, 10, 30}) {
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
            SCOPED_TRACE(testing::Message() << forged << " forged, seed " << seed);
            LinkConfig link;
            link.latency = 150ms;
            World world(link, seed);
            world.add_host(token_host());
            Wish wish;
            wish.expires_s = kZero_s + 1030;
            const ClientConfig config = client_config(seed);
            auto& player = world.add_client(config);
            CookieForger forger(world, player, config, forged);
            player.client.connect(world.server_address, wish.token(), {}, world.now);
            while (player.client.state() == Client::State::connecting) world.step();
            ASSERT_EQ(player.client.state(), Client::State::connected) << player.recorder.last_text;
            EXPECT_EQ(world.server.admissions, 1);
        }
    }
}

TEST(TokenHandshake, AHostAcceptsOnlyTheClientsOfItsConfig) {
    const auto visit = [](const HostConfig& at, const ClientConfig& config, bool has_token) {
        Desk desk(at);
        Visit alice(kAlice, 70, &config);
        if (has_token) {
            alice.client.connect(kServer, Wish().token(), {}, desk.now);
        } else {
            alice.client.connect(kServer, {}, desk.now);
        }
        desk.finish(alice);
        if (alice.client.state() == Client::State::connected) return std::string("in");
        return std::string(describe(alice.recorder.last_reason)) + ", " + alice.recorder.last_text;
    };
    const auto either = [] {
        HostConfig config = token_host();
        config.tokens.is_required = false;
        return config;
    };
    const std::string in = "in";
    EXPECT_EQ(visit(either(), client_config(), true), in);
    EXPECT_EQ(visit(either(), client_config(), false), in);
    const std::string no_token = std::string(describe(DisconnectReason::refused_token)) + ", ";
    const std::string no_mix = std::string(describe(DisconnectReason::refused_security)) + ", ";
    EXPECT_EQ(visit(either(), insecure(client_config()), false), no_mix + "the server wants sealed packets");
    EXPECT_EQ(visit(token_host(), client_config(), false), no_token + "the server wants a connect token");
    EXPECT_EQ(visit(host_config(), client_config(), true), no_token + "this server takes no connect tokens");
    // An insecure host accepts only insecure clients, and no tokens.
    EXPECT_EQ(visit(insecure(either()), client_config(), true), no_mix + "the server is insecure");
    EXPECT_EQ(visit(insecure(either()), client_config(), false), no_mix + "the server is insecure");
    EXPECT_EQ(visit(insecure(either()), insecure(client_config()), false), in);
    EXPECT_EQ(visit(insecure(token_host()), insecure(client_config()), false), in)
        << "it ignores the token config";
    // A client with a token always uses sealed packets, and takes the server's key from the token.
    ClientConfig keyless = insecure(client_config());
    keyless.server_key = {};
    EXPECT_EQ(visit(token_host(), keyless, true), in);
}

TEST(TokenHandshake, AServerWithTooManyRememberedTokensAdmitsNobody) {
    HostConfig config = token_host();
    config.tokens.max_remembered = 1;
    Desk desk(config);
    Visit alice, bob(kMallory, 71), later(kMallory, 72);
    desk.connect(alice, Wish().token());
    EXPECT_EQ(alice.client.state(), Client::State::connected);
    Wish lasting;
    lasting.expires_s = kNow_s + 100;
    const ClientToken token = lasting.token();
    desk.connect(bob, token);
    desk.expect_refused(bob, DisconnectReason::refused_token, "too many connect tokens at once");
    desk.now += 30s;
    desk.connect(later, token);
    EXPECT_EQ(later.client.state(), Client::State::connected) << "the token was not used up";
}

TEST(TokenHandshake, AFullServerOrAnotherSchemaDoesNotUseTheToken) {
    HostConfig config = token_host();
    config.max_peers = 1;
    Desk desk(config);
    const ClientToken token = Wish().token();
    Visit alice, bob(kMallory, 71), again(kMallory, 72);
    desk.connect(alice, Wish().token());
    desk.connect(bob, token);
    desk.expect_refused(bob, DisconnectReason::refused_full, "");
    alice.client.disconnect(alice.client.server(), DisconnectReason::closed, "", desk.now);
    desk.settle(alice);
    ClientConfig other = client_config(73);
    other.schema_hash += 1;
    Visit old(kMallory, 73, &other);
    desk.doorman.refusal_text = "Health differs";
    desk.connect(old, token);
    desk.expect_refused(old, DisconnectReason::refused_schema, "Health differs");
    desk.connect(again, token);
    EXPECT_EQ(again.client.state(), Client::State::connected);
}

// Goal: a full server asks the application, which can make room for a player that comes back. If it does not,
// the token stays valid. The silent peer of the same client id leaves its seat without being asked.
TEST(TokenHandshake, APlayerWithATokenGetsTheSeatOfItsFormerConnection) {
    HostConfig config = token_host();
    config.max_peers = 1;
    World world;
    world.now = 100s;
    Host& host = world.add_host(config);
    Recorder& game = world.server;
    const auto enter = [&](std::uint16_t port, const ClientToken& token) -> World::Player& {
        auto& player = world.add_client(client_config(port), port);
        player.client.connect(world.server_address, token, {}, world.now);
        world.run(100ms);
        return player;
    };
    enter(5000, Wish().token());
    const PeerId former = game.newest;
    ASSERT_TRUE(host.is_connected(former));
    const ClientToken token = Wish().token();
    EXPECT_EQ(enter(5001, token).recorder.last_reason, DisconnectReason::refused_full);
    EXPECT_FALSE(game.last_has_room);
    EXPECT_EQ(game.never_connected.size(), 1u);
    game.on_admission = [&](const Admission& admission) {
        if (!admission.has_room) host.disconnect(former, DisconnectReason::replaced, {}, world.now);
    };
    auto& again = enter(5002, token);
    EXPECT_TRUE(again.client.is_connected(again.client.server())) << again.recorder.last_text;
    EXPECT_EQ(game.disconnects.at(former).first, DisconnectReason::replaced);
    // From another machine, after the program ended without a word.
    game.on_admission = {};
    world.remove_clients();
    world.run(2500ms);
    auto& third = world.add_client(client_config(5003), 5003);
    third.move(Address::ipv4(10, 0, 0, 77, 5003));
    third.client.connect(world.server_address, Wish().token(), {}, world.now);
    world.run(100ms);
    EXPECT_TRUE(third.client.is_connected(third.client.server()));
    EXPECT_TRUE(game.last_has_room);
    EXPECT_EQ(game.disconnects.size(), 2u);
}

// Goal: when two clients take the last seat, the one that comes later can use its token again.
TEST(TokenHandshake, AClientThatNeverConnectedCanUseItsTokenAgain) {
    HostConfig config = token_host();
    config.max_peers = 1;
    Desk desk(config);
    const ClientToken token = Wish().token();
    Visit bob(kMallory, 71), again(kMallory, 72);
    desk.lose_the_last_seat(bob, token);
    desk.connect(again, token);
    EXPECT_EQ(again.client.state(), Client::State::connected);
    EXPECT_EQ(desk.doorman.never_connected.size(), 1u);
}

// The former place of the client is freed while the client is pending again with the same token.
TEST(TokenHandshake, AFormerPlaceDoesNotTakeTheTokenWithIt) {
    HostConfig config = token_host();
    config.max_peers = 1;
    Desk desk(config);
    const ClientToken token = Wish().token();
    Visit bob(kMallory, 71), again(kMallory, 72), twin(kMallory, 73);
    desk.lose_the_last_seat(bob, token);
    desk.to_host(kMallory, desk.knock(again, token));
    desk.wire.sent.clear();  // the answer is lost
    EXPECT_TRUE(is_consistent(desk.host));
    for (int i = 0; i < 10; ++i) {
        desk.now += 100ms;
        desk.host.update(desk.now);
        desk.host.flush(desk.now);
    }
    desk.wire.sent.clear();
    EXPECT_TRUE(is_consistent(desk.host));
    const EndpointStats before = desk.host.endpoint_stats();
    desk.to_host(kMallory, desk.knock(twin, token));
    EXPECT_EQ(desk.host.endpoint_stats().answers_sent, before.answers_sent + 1) << "it is repeated";
    EXPECT_EQ(desk.host.endpoint_stats().refusals_sent, before.refusals_sent);
}

TEST(TokenHandshake, TheLargestTokenLeavesRoomForAHello) {
    Wish wish;
    wish.claims.assign(kMaxClaimsBytes, 'c');
    wish.servers = {kServer};
    for (std::uint8_t i = 1; i < kMaxTokenServers; ++i)
        wish.servers.push_back(Address::ipv6({0x20, 1, 0xd, 0xb8, i}, 7777));
    wish.servers[0] = Address::ipv6({0x20, 1, 0xd, 0xb8}, 7777);
    HostConfig config = token_host();
    config.tokens.servers = {wish.servers.back()};
    Desk desk(config);
    const ClientToken token = wish.token();
    ASSERT_EQ(token.sealed.size(), kMaxSealedTokenBytes);
    const std::string hello(kMaxTokenHelloBytes, 'h');
    Visit alice;
    alice.client.connect(kServer, token, as_bytes(hello), desk.now);
    desk.finish(alice);
    EXPECT_EQ(alice.client.state(), Client::State::connected);
    EXPECT_EQ(desk.doorman.last_hello, hello);
    EXPECT_EQ(desk.doorman.claims, wish.claims);
}

std::uint64_t cookie_for(Desk& desk, const Address& from, std::uint64_t nonce) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const auto request = write(Request{kWireVersion, nonce, 0xC0FFEE}, buffer);
    desk.to_host(from, {request.begin(), request.end()});
    CookieReply reply;
    EXPECT_FALSE(read(desk.take(desk.wire), reply));
    return reply.cookie;
}

/// Makes a connect by hand.
Datagram connect_by_hand(std::span<const std::byte> token, std::uint64_t cookie, std::uint64_t nonce) {
    Visitor visitor(nonce, {0x5C4E, 1, token, {}});
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const auto bytes = write(visitor.connect(cookie), buffer);
    return {bytes.begin(), bytes.end()};
}

// Bytes that are not a token cause a refusal, and nothing else.
TEST(TokenHandshake, RandomBytesInPlaceOfATokenAreRefused) {
    Desk desk;
    for (const std::size_t size : {1u, 72u, 73u, unsigned(kMaxSealedTokenBytes)}) {
        const Datagram nonsense(size, std::byte(2));
        Visitor visitor(size, {0x5C4E, 1, nonsense, {}});
        std::array<std::byte, kMaxDatagramBytes> buffer;
        const auto bytes = write(visitor.connect(cookie_for(desk, kMallory, size)), buffer);
        desk.to_host(kMallory, {bytes.begin(), bytes.end()});
        const auto verdict = visitor.open(desk.take(desk.wire));
        ASSERT_TRUE(verdict);
        EXPECT_EQ(verdict->reason, DisconnectReason::refused_token);
        EXPECT_EQ(verdict->text, size < 73 ? "not a connect token" : "connect token not sealed with our key");
    }
    EXPECT_TRUE(desk.host.is_idle());
    EXPECT_EQ(desk.doorman.admissions, 0);
}

// A client that is refused causes no allocation.
TEST(TokenHandshake, RefusalsDoNotAllocate) {
    struct Silence : Sink {
        void send(const Address&, std::span<const std::byte>) override { sent += 1; }
        int sent = 0;
    } silence;
    Handler nobody;
    Desk desk;  // to get a cookie: the same seed gives the same cookies
    Host host(token_host(), nobody, silence);
    Wish wish, expired;
    expired.expires_s = 1;
    const ClientToken token = wish.token();
    ClientToken changed = token;
    changed.sealed.back() ^= std::byte(1);
    const auto receive = [&](const ClientToken& with, const Address& from, std::uint64_t nonce) {
        const Datagram bytes = connect_by_hand(with.sealed, cookie_for(desk, from, nonce), nonce);
        const std::size_t before = test::allocations();
        host.receive(from, bytes, desk.now);
        return test::allocations() - before;
    };
    EXPECT_EQ(receive(expired.token(), kMallory, 1), 0u);
    EXPECT_EQ(receive(changed, kMallory, 2), 0u);
    EXPECT_GT(receive(token, kAlice, 3), 0u) << "the entry of the used token";
    EXPECT_EQ(receive(token, kAlice, 3), 0u) << "a repeated connect";
    EXPECT_EQ(receive(token, kMallory, 4), 0u) << "a used token";
    EXPECT_EQ(silence.sent, 5);
}

}  // namespace
}  // namespace shoal::net::impl
