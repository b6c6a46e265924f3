// What a modified client can cost the server, over a simulated network. One line for each attack:
//
//   build/bench/attacks [--seconds N]
//
//   attack=NAME
//   worst_tick_ms, mean_tick_ms  CPU time of the server in a tick, with the datagrams that came before it
//   plain_tick_ms, plain_worst_tick_ms  the same without the attacker
//   attacker_bytes               bytes that the attacker sent
//   cpu_us_per_byte              CPU time that the attacker cost, for each of its bytes
//   memory_kB                    by how much more the heap of the program grew than without the attacker
//   honest_kB_s, plain_kB_s      what an honest player got, with and without the attacker
//   end                          how the attacker's connection ended

#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/socket/bad_network.h"
#include "replication/client.h"
#include "replication/message.h"
#include "replication/server.h"

namespace {

using namespace shoal;
using namespace shoal::replication::impl;

struct Spot {
    std::int32_t x = 0, y = 0;
};
struct Cargo {
    std::vector<std::uint32_t> crates;
};
struct Shout {
    std::string text;
};
struct Note {
    std::string text;
};

Schema town() {
    Schema out;
    out.component<Spot>("spot");
    out.component<Cargo>("cargo", field(&Cargo::crates, max_length(1'000)));
    out.action<Shout>("shout", field(&Shout::text, max_length(500)), independent());
    out.message<Note>("note", field(&Note::text, max_length(200'000)));
    return out;
}

double cpu_ms() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

double heap_kB() {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd) / 1024;
}

struct Guest {
    Guest(const Schema& schema, net::Sink& sink, net::Address address, const ClientOptions& options)
        : at(address), client(world, schema, sink, options) {}
    net::Address at;
    ecs::World world;
    Client client;
};

struct Town {
    explicit Town(std::uint64_t limit) : server(world, schema, network.at(at_server), options(limit)) {}
    static net::SecretKey key() { return net::SecretKey(net::Bytes32{std::byte(2)}); }
    static ServerOptions options(std::uint64_t limit) {
        ServerOptions options;
        options.host.seed = net::Seed{std::byte(1)};
        options.host.key = key();
        options.host.max_bytes_per_second = limit;
        return options;
    }
    Guest& join() {
        const auto n = static_cast<std::uint8_t>(10 + guests.size());
        ClientOptions options;
        options.net.seed = net::Seed{std::byte(n)};
        options.net.server_key = net::public_key(key());
        const net::Address address = net::Address::ipv4(10, 0, 0, n, 5000);
        guests.push_back(std::make_unique<Guest>(schema, network.at(address), address, options));
        guests.back()->client.connect(at_server);
        return *guests.back();
    }
    /// Returns the CPU time of the server.
    double tick() {
        now += std::chrono::microseconds(16'667);
        const double before = cpu_ms();
        network.receive_all(at_server, server.host(), now);
        server.tick(now);
        const double cost = cpu_ms() - before;
        for (const auto& guest : guests) {
            network.receive_all(guest->at, guest->client.endpoint(), now);
            guest->client.update(now);
        }
        return cost;
    }

    Schema schema = town();
    const net::Address at_server = net::Address::ipv4(10, 0, 0, 1, 7000);
    net::BadNetwork network{net::LinkConfig{}, 1};
    ecs::World world;
    Server server;
    std::vector<std::unique_ptr<Guest>> guests;
    net::Time now{std::chrono::seconds(5)};
};

struct Attack {
    const char* name;
    int moving = 0, large = 0;                      // entities of the world: small ones that move, large ones
    std::function<void(Town&, Guest&)> begin = {};  // once the attacker plays, or, if it joins late, at once
    std::function<void(Town&, Guest&, int)> tick = {};  // before each tick of the attack
    bool joins_late = false;
    std::uint64_t limit = 0;  // HostConfig::max_bytes_per_second
    int accomplices = 0;      // further attackers
};

struct Result {
    double mean_ms = 0, worst_ms = 0, memory_kB = 0, honest_kB_s = 0, attacker_bytes = 0;
    std::string end = "plays";
};

Result play(const Attack& attack, int ticks, bool is_attacked) {
    Town town(attack.limit);
    std::vector<ecs::Entity> moving;
    for (int i = 0; i < attack.moving; ++i) moving.push_back(town.world.spawn(Spot{i, 0}, Replicated{}));
    std::uint32_t random = 1;
    for (int i = 0; i < attack.large; ++i) {
        Cargo cargo;
        for (int n = 0; n < 500; ++n) cargo.crates.push_back(random = random * 1'664'525 + 1'013'904'223);
        town.world.spawn(std::move(cargo), Replicated{});
    }
    Guest& honest = town.join();
    std::vector<Guest*> attackers;
    const auto add = [&] {
        for (int i = 0; i <= attack.accomplices && is_attacked; ++i) attackers.push_back(&town.join());
    };
    if (!attack.joins_late) add();
    for (int i = 0; i < 1'200; ++i) town.tick();
    if (attack.joins_late) add();
    for (Guest* const one : attackers)
        if (attack.begin) attack.begin(town, *one);
    const double heap = heap_kB();
    const auto received = [&] { return static_cast<double>(honest.client.stats().bytes_received); };
    const double before = received();
    Result result;
    for (int i = 0; i < ticks; ++i) {
        for (const ecs::Entity entity : moving)
            town.world.patch<Spot>(entity, [&](Spot& spot) { spot.y = i; });
        for (Guest* const one : attackers)
            if (attack.tick) attack.tick(town, *one, i);
        const double cost = town.tick();
        result.mean_ms += cost / ticks;
        result.worst_ms = std::max(result.worst_ms, cost);
        result.memory_kB = std::max(result.memory_kB, heap_kB() - heap);
    }
    result.honest_kB_s = (received() - before) / 1e3 / (ticks / 60.0);
    for (Guest* const one : attackers) {
        result.attacker_bytes += static_cast<double>(one->client.stats().bytes_sent);
        if (!one->client.is_connected()) result.end = one->client.failure();
    }
    return result;
}

void be_silent(Town& town, Guest& guest) {
    town.network.in(guest.at).set_config({.loss = 1});  // hears nothing, so it acknowledges nothing
}

const Attack kAttacks[] = {
    {.name = "large_payload_not_acked",
     .moving = 10,
     .large = 2'000,
     .tick =
         [](Town& town, Guest& guest, int) {
             if (guest.client.is_connected()) be_silent(town, guest);
         },
     .joins_late = true},
    {.name = "honest_joiner_200_kB_s",
     .moving = 10,
     .large = 2'000,
     .begin = [](Town& town,
                 Guest& guest) { town.network.in(guest.at).set_config({.bytes_per_second = 200'000}); },
     .joins_late = true},
    {.name = "silent_client", .moving = 10'000, .begin = be_silent},
    {.name = "rebases_for_ever",
     .moving = 500,
     .tick =
         [](Town&, Guest& guest, int i) {
             Rebase rebase;
             for (std::uint32_t n = 0; n < Rebase::kMax; ++n)
                 rebase.entity_slots.push_back((static_cast<std::uint32_t>(i) * 64 + n) % 500);
             static_cast<void>(guest.client.endpoint().send_message(guest.client.endpoint().server(),
                                                                    net::unordered(), write_control(rebase)));
         },
     .limit = 500'000},
    {.name = "action_flood",
     .moving = 10,
     .tick =
         [](Town&, Guest& guest, int) {
             for (std::size_t n = 0; n < 100; ++n) guest.client.act(Shout{std::string(n % 400, 'a')});
         }},
    {.name = "events_for_a_slow_player",
     .moving = 10,
     .begin = [](Town& town,
                 Guest&) { town.network.in(town.guests[0]->at).set_config({.bytes_per_second = 50'000}); },
     .tick = [](Town&, Guest& guest, int) { guest.client.act(Shout{std::string(500, 'a')}); },
     .accomplices = 1},
    {.name = "messages_of_all_sizes",
     .moving = 10,
     .tick =
         [](Town&, Guest& guest, int i) {
             const auto size = static_cast<std::size_t>(1) << (i % 17);
             guest.client.send(Note{std::string(size, 'n')});
         }},
};

}  // namespace

int main(int count, char** arguments) {
    int seconds = 10;
    for (int i = 1; i + 1 < count; ++i)
        if (arguments[i] == std::string_view("--seconds"))
            std::from_chars(arguments[i + 1], arguments[i + 1] + std::strlen(arguments[i + 1]), seconds);
    for (const Attack& attack : kAttacks) {
        const Result plain = play(attack, seconds * 60, false), result = play(attack, seconds * 60, true);
        const double cost_ms = (result.mean_ms - plain.mean_ms) * seconds * 60;
        std::printf(
            "attack=%s worst_tick_ms=%.2f mean_tick_ms=%.3f plain_tick_ms=%.3f plain_worst_tick_ms=%.2f "
            "attacker_bytes=%.0f "
            "cpu_us_per_byte=%.2f memory_kB=%.0f honest_kB_s=%.1f plain_kB_s=%.1f end=\"%s\"\n",
            attack.name, result.worst_ms, result.mean_ms, plain.mean_ms, plain.worst_ms,
            result.attacker_bytes, 1e3 * std::max(0.0, cost_ms) / std::max(1.0, result.attacker_bytes),
            result.memory_kB - plain.memory_kB, result.honest_kB_s, plain.honest_kB_s, result.end.c_str());
        std::fflush(stdout);
    }
}
