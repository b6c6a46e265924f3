#include <chrono>
#include <iostream>
#include <string_view>

#include "net/client.h"
#include "net/socket/socket.h"
#include "net/socket/system_random.h"

using namespace shoal::net;

Time my_clock() {
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

int fail(std::string_view what, std::string_view why) {
    std::cerr << what << ": " << why << '\n';
    return 1;
}

struct Game : Handler {
    Endpoint* client = nullptr;
    bool has_echo = false;
    void on_connected(PeerId server) override {
        const std::string_view text = "hello, shoal";
        const auto bytes = std::as_bytes(std::span(text));
        const SendResult result = client->send_message(server, Channel::reliable, bytes);
        if (result != SendResult::queued) std::cerr << "cannot send\n";
    }
    void on_message(PeerId, Channel, std::span<const std::byte> bytes) override {
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        std::cout << "echo: " << text << '\n';
        has_echo = true;
    }
    void on_disconnected(PeerId, DisconnectReason reason, std::string_view) override {
        std::cerr << "the end: " << describe(reason) << '\n';
    }
};

int main(int count, char** arguments) {
    Result<Socket> socket = Socket::open(Address::any_ipv4(0));
    if (!socket) return fail("socket", describe(socket.error()));
    const auto server_key = parse_public_key(count > 1 ? arguments[1] : "");
    if (!server_key) return fail("usage", "echo_client KEY, the 64 digits that the server prints");
    ClientConfig config;
    config.protocol_id = 0x6563'686f;
    config.server_key = *server_key;
    if (!fill_random(config.seed)) return fail("seed", "the system has no random bytes");
    Game game;
    Client client(config, game, socket.value());
    game.client = &client;
    client.connect(Address::ipv4(127, 0, 0, 1, 7777), {}, my_clock());  // resolve() takes names
    while (!client.is_idle()) {  // idle: the connection failed or was closed
        const Time now = my_clock();
        receive_all(socket.value(), client, now);
        client.update(now);
        if (game.has_echo) client.disconnect(client.server(), DisconnectReason::closed, "", now);
        client.flush(now);
        wait_readable(socket.value(), std::chrono::milliseconds(10));
    }
    return game.has_echo ? 0 : 1;
}
