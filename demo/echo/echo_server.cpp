#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

#include "net/host.h"
#include "net/socket/socket.h"
#include "net/socket/system_random.h"

using namespace shoal::net;

// Time in microseconds since any epoch; never negative, and it must never decrease.
Time my_clock() {
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

int fail(std::string_view what, std::string_view why) {
    std::cerr << what << ": " << why << '\n';
    return 1;
}

// The server's private key: made once, in a file that only the server can read. Clients need the public key.
std::optional<SecretKey> load_or_make_key(const std::string& path) {
    std::string text;
    if (std::ifstream old_file{path}) return old_file >> text ? parse_private_key(text) : std::nullopt;
    SecretKey key;
    if (!fill_random(key.bytes())) return {};
    std::ofstream file(path);
    std::error_code error;
    std::filesystem::permissions(path, std::filesystem::perms(0600), error);
    if (error || !(file << to_secret_text(key) << std::endl)) return {};
    return key;
}

struct Game : Handler {
    Endpoint* host = nullptr;
    void on_connected(PeerId peer) override { std::cerr << "peer " << peer.index() << " is here\n"; }
    void on_disconnected(PeerId peer, DisconnectReason reason, std::string_view) override {
        std::cerr << "peer " << peer.index() << " is gone: " << describe(reason) << '\n';
    }
    void on_message(PeerId peer, Channel channel, std::span<const std::byte> bytes) override {
        const SendResult result = host->send_message(peer, channel, bytes);
        if (result != SendResult::queued) std::cerr << "no room for an echo\n";
    }
};

volatile std::sig_atomic_t must_stop = 0;
void stop(int) {
    must_stop = 1;
}

int main() {
    Result<Socket> socket = Socket::open(Address::any_ipv4(7777));
    if (!socket) return fail("port 7777", describe(socket.error()));
    const std::optional<SecretKey> key = load_or_make_key("server.key");
    if (!key) return fail("server.key", "not a key, or cannot be read or written");
    HostConfig config;
    config.protocol_id = 0x6563'686f;  // names the game; any number, the same on both sides
    config.key = *key;
    if (!fill_random(config.seed)) return fail("seed", "the system has no random bytes");
    Game game;
    Host host(config, game, socket.value());
    game.host = &host;
    std::cout << to_text(public_key(*key)) << std::endl;
    std::signal(SIGINT, stop);
    std::signal(SIGTERM, stop);
    while (!must_stop || !host.is_idle()) {  // after Ctrl-C: run until every client was told
        const Time now = my_clock();
        receive_all(socket.value(), host, now);  // handler calls happen in here ...
        host.update(now);                        // ... and in here
        if (must_stop) host.shut_down("the server ends", now);
        host.flush(now);  // what the handler queued leaves
        wait_readable(socket.value(), std::chrono::milliseconds(10));
    }
}
