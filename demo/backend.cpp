// Plays the part of a game's backend, which knows the players: issues a connect token for one of them.

#include "arena.h"
#include "flags.h"
#include "net/socket/key_file.h"
#include "process.h"

#include <array>
#include <cstdio>
#include <optional>

#include "net/handshake/token.h"

namespace shoal::demo {
namespace {

struct Options {
    std::string server = "127.0.0.1:40000", key;
    std::uint64_t player = 1, seconds = 60;
};

Flags make_flags(Options& options) {
    Flags flags(
        "usage: backend [flags] > FILE\n"
        "Prints a token. It lets one client join a server that was started with --tokens, once.\n");
    flags.text("--server", options.server, "ADDRESS:PORT under which clients reach it (127.0.0.1:40000)");
    flags.text("--key", options.key,
               "public key that the server prints (that of the server on this machine)");
    flags.whole("--player", options.player, 0, UINT64_MAX, "number of the player (1)");
    flags.whole("--seconds", options.seconds, 1, 86'400, "until the token expires (60)");
    return flags;
}

int main(std::string_view argv0, std::span<const char* const> arguments) {
    Options options;
    Flags flags = make_flags(options);
    const Flags::Outcome outcome = flags.parse(arguments);
    if (outcome == Flags::Outcome::help) return std::printf("%s", flags.help().c_str()) < 0;
    if (outcome == Flags::Outcome::bad) return fail("backend", flags.error(), 2);
    const auto server = net::Address::parse(options.server, kDefaultPort);
    if (!server) return fail("backend", "--server needs ADDRESS:PORT, not '" + options.server + "'", 2);
    const auto [key, why] = net::load_or_make_private_key(beside(argv0, kBackendKeyFile));
    if (!key) return fail("backend", why, 1);

    std::optional<net::PublicKey> server_key = net::parse_public_key(options.key);
    if (!options.key.empty() && !server_key)
        return fail("backend", "--key needs 64 hexadecimal digits, not '" + options.key + "'", 2);
    if (!server_key) {
        const auto [own, why_not] = net::load_or_make_private_key(beside(argv0, kServerKeyFile));
        if (!own) return fail("backend", why_not, 1);
        server_key = net::public_key(*own);
    }

    const std::array servers = {server.value()};
    const auto token = net::issue_token({.protocol_id = kProtocolId,
                                         .client_id = options.player,
                                         .expires_s = unix_time_s() + options.seconds,
                                         .servers = servers,
                                         .server_key = *server_key},
                                        *key, fresh_seed());
    if (!token) return fail("backend", "clients cannot reach " + options.server, 2);
    return std::printf("%s\n", net::to_text(*token).c_str()) < 0;
}

}  // namespace
}  // namespace shoal::demo

int main(int count, char** arguments) {
    return shoal::demo::main(count > 0 ? arguments[0] : "",
                             {arguments + 1, static_cast<std::size_t>(count > 0 ? count - 1 : 0)});
}
