// The snippets of net/README.md and net/ALONE.md, which tests/snippets.sh takes from the pages, give the
// results that the pages state. tests/vendor.sh builds and runs the two programs of demo/echo.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/client.h"
#include "net/host.h"
#include "net/socket/bad_network.h"
#include "net/socket/network_thread.h"
#include "net/socket/socket.h"
#include "tests/net/support/server_key.h"

using namespace shoal::net;
using namespace std::chrono_literals;

namespace {

struct Heard {
    std::vector<PeerId> connected;
    int payloads = 0, messages = 0, fates = 0, steps = 0;
};
Heard heard;
bool my_game_runs = true;

Time my_clock() {
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}
void my_simulation_step() {
    heard.steps += 1;
}
void my_wait_for_the_next_tick() {
    my_game_runs = heard.steps < 3;
}
void my_slow_peer(PeerId) {}

/// Something to send every other time.
std::span<const std::byte> my_state_for(PeerId, std::uint64_t, std::size_t share) {
    static const std::vector<std::byte> state(100);
    static int asked = 0;
    return std::span(state).first(++asked % 2 ? std::min(share, state.size()) : 0);
}

#include "readme/net/alone/a_game_with_state_1.inc"

void Game::on_connected(PeerId peer) {
    heard.connected.push_back(peer);
}
void Game::on_disconnected(PeerId, DisconnectReason, std::string_view) {}
void Game::on_message(PeerId, Channel, std::span<const std::byte>) {
    heard.messages += 1;
}
bool Game::on_payload(PeerId, std::uint64_t, std::span<const std::byte>, Time) {
    heard.payloads += 1;
    return true;
}
void Game::on_fate(PeerId, const PacketFate&) {
    heard.fates += 1;
}

/// The handler of a server whose clients have tokens.
struct Gatekeeper : Handler {
#include "readme/net/alone/a_game_with_state_4.inc"
    bool is_welcome(std::uint64_t client_id, std::span<const std::byte> claims) {
        return client_id == 42 && claims.empty();
    }
};

template <class Config>
Config config_of(std::uint8_t seed) {
    Config config;
    config.protocol_id = 7;
    config.seed[0] = std::byte(seed);
    give_key(config);
    return config;
}

int fail(std::string_view, std::string_view) {
    return 1;
}

/// Does not end, like the loop of the page: compiled only.
[[maybe_unused]] int play_with_a_thread(Result<Socket> socket, const HostConfig& config, Game& game) {
#include "readme/net/alone/sockets_and_threads_1.inc"
}

}  // namespace

TEST(Readme, TheLoopOfAServerAndABadNetworkUseASocket) {
    heard = {};
    Result<Socket> opened = Socket::open(Address::ipv4(127, 0, 0, 1, 0));
    ASSERT_TRUE(opened);
    Socket& socket = opened.value();
    Game game;
    Host host(config_of<HostConfig>(1), game, socket);
#include "readme/net/alone/a_game_with_state_2.inc"
    EXPECT_EQ(heard.steps, 3);

    const ClientConfig config = config_of<ClientConfig>(2);
    const std::uint64_t seed = 1;
    const Time now = my_clock();
#include "readme/net/a_bad_network_1.inc"
    EXPECT_EQ(network.out().config().latency, 50ms);
}

TEST(Readme, TwoEndpointsOfOneProgramTalkOverABadNetwork) {
    heard = {};
    const HostConfig host_config = config_of<HostConfig>(1);
    const ClientConfig client_config = config_of<ClientConfig>(2);
    const Address server_address = Address::ipv4(10, 0, 0, 1, 7777);
    const Address client_address = Address::ipv4(10, 0, 0, 2, 5000);
    const std::uint64_t seed = 1;
    Game game, player;
#include "readme/net/a_bad_network_2.inc"
    ASSERT_EQ(heard.connected.size(), 2u);
    EXPECT_GT(heard.payloads, 1000);
    EXPECT_GT(heard.fates, 1000);

    const PeerId peer = heard.connected[0] == client.server() ? heard.connected[1] : heard.connected[0];
    const std::string text = "hello";
#include "readme/net/messages_1.inc"
    EXPECT_EQ(result, SendResult::queued);
    for (Time now = 10s; now < 11s; now += 10ms) {
        network.receive_all(server_address, host, now), network.receive_all(client_address, client, now);
        host.update(now), client.update(now);
        host.flush(now), client.flush(now);
    }
    EXPECT_EQ(heard.messages, 1);
}

TEST(Readme, AClientWithATokenIsAdmitted) {
    heard = {};
    Bytes32 bytes{};
    bytes[0] = std::byte(9);
    const SecretKey key_shared_with_backend(bytes);
    const Address my_public_address = Address::ipv4(10, 0, 0, 1, 7777);
    const Address client_address = Address::ipv4(10, 0, 0, 2, 5000);
    const std::uint64_t unix_time_at_my_zero = 1000;
    const TokenRequest request{
        7, 42, 1030, std::span(&my_public_address, 1), {}, public_key(impl::server_key())};
    const auto token = issue_token(request, key_shared_with_backend, Bytes32{});
    ASSERT_TRUE(token);
    BadNetwork network({}, 1);
    Gatekeeper gatekeeper;
    Game player;
    HostConfig config = config_of<HostConfig>(1);
    Client client(config_of<ClientConfig>(2), player, network.at(client_address));
    const std::vector<std::byte> hello;
    Time now{0};
#include "readme/net/alone/a_game_with_state_3.inc"
    Host host(config, gatekeeper, network.at(my_public_address));
    for (; now < 1s; now += 10ms) {
        network.receive_all(my_public_address, host, now), network.receive_all(client_address, client, now);
        host.update(now), client.update(now);
        host.flush(now), client.flush(now);
    }
    EXPECT_EQ(heard.connected, std::vector<PeerId>{client.server()});
}
