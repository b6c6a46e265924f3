// Measures what many peers cost a Sender: the passing on of changes, and memory. Peers see as many entities
// as they have slots for.
//
//   build/bench/peers [--entities N] [--peers N] [--seen N] [--ticks N]
//
//   peers.memory_bytes_per_pair     memory per peer and visible entity once all is acknowledged
//   peers.memory_bytes_per_peer     memory of a peer that sees nothing
//   peers.update_us.alone           CPU time of update() in which every entity changed, without peers
//   peers.update_us.seen            the same with peers that see `seen` entities each
//   peers.fan_out_ns_per_pair       what passing on a change to one peer that sees the entity takes
//   peers.encode_us_per_peer        CPU time of encode() until a peer has nothing left to send
// All times are the best of the ticks.

#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <vector>

#include "replication/send/sender.h"

namespace {

using namespace shoal;
using namespace shoal::replication::impl;

struct Spot {
    float x = 0, y = 0;
};

struct Options {
    std::uint32_t entities = 10'000, peers = 1'000, seen = 200, ticks = 9;
};

double cpu_us() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}
double memory() {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
}

class Crowd {
public:
    explicit Crowd(std::uint32_t entities) : sender_(world_, schema_, sender_options()) {
        for (std::uint32_t i = 0; i < entities; ++i)
            entities_.push_back(world_.spawn(Spot{static_cast<float>(i % 100), 0}, Replicated{}));
    }

    /// Every entity changes. Returns the CPU time of the update in microseconds.
    double tick() {
        tick_ += 1;
        for (const ecs::Entity entity : entities_)
            world_.patch<Spot>(entity, [&](Spot& spot) { spot.y = static_cast<float>(tick_ % 50); });
        const double start = cpu_us();
        sender_.update(tick_);
        return cpu_us() - start;
    }
    void join(std::uint32_t peers, std::uint32_t seen) {
        for (std::uint32_t i = 0; i < peers; ++i) peers_.push_back(sender_.add_peer({seen}));
    }
    /// Writes what is left to send to every peer, and acknowledges it. Returns the CPU time of encode().
    double exchange() {
        std::byte room[1200];
        double us = 0;
        for (const Sender::Peer peer : peers_) {
            const std::uint64_t first = number_;
            const double start = cpu_us();
            while (!sender_.encode(peer, number_, 1100, room).empty()) number_ += 1;
            us += cpu_us() - start;
            for (std::uint64_t number = first; number < number_; ++number)
                sender_.on_fate(peer, number, true);
        }
        return us;
    }

private:
    static Schema make_schema() {
        Schema schema;
        schema.component<Spot>("spot", quantised(0, 100, 0.01));
        return schema;
    }
    static SenderOptions sender_options() {
        SenderOptions options;
        options.heartbeat_s = 1e6;
        options.history_s = options.max_history_s = 0.05;  // the same versions with and without peers
        return options;
    }

    ecs::World world_;
    Schema schema_ = make_schema();
    Sender sender_;
    std::vector<ecs::Entity> entities_;
    std::vector<Sender::Peer> peers_;
    std::uint64_t number_ = 1;
    Tick tick_ = 0;
};

void run(const Options& options) {
    Crowd crowd(options.entities);
    double alone = 1e300, seen = 1e300, encode = 1e300;
    for (std::uint32_t i = 0; i < options.ticks; ++i) alone = std::min(alone, crowd.tick());
    const double before = memory();
    crowd.join(options.peers, options.seen);
    for (std::uint32_t i = 0; i < options.ticks; ++i) {
        crowd.exchange();
        seen = std::min(seen, crowd.tick());
        encode = std::min(encode, crowd.exchange());
    }
    const double after = memory();
    Crowd empty(0);
    empty.tick();
    const double without = memory();
    empty.join(100, 1);
    const double per_peer = (memory() - without) / 100;
    const double peers = options.peers, pairs = peers * std::min(options.seen, options.entities);
    std::printf("peers.entities=%u\npeers.peers=%u\npeers.seen=%u\n", options.entities, options.peers,
                options.seen);
    std::printf("peers.memory_bytes_per_pair=%.1f\n", (after - before - per_peer * peers) / pairs);
    std::printf("peers.memory_bytes_per_peer=%.0f\n", per_peer);
    std::printf("peers.update_us.alone=%.0f\npeers.update_us.seen=%.0f\n", alone, seen);
    std::printf("peers.fan_out_ns_per_pair=%.2f\n", (seen - alone) * 1000 / pairs);
    std::printf("peers.encode_us_per_peer=%.2f\n", encode / peers);
}

bool parse(int count, char** words, Options& options) {
    for (int i = 1; i < count; i += 2) {
        const std::string_view name = words[i];
        std::uint32_t* const value = name == "--entities" ? &options.entities
                                     : name == "--peers"  ? &options.peers
                                     : name == "--seen"   ? &options.seen
                                     : name == "--ticks"  ? &options.ticks
                                                          : nullptr;
        if (!value || i + 1 == count) return false;
        const char* const end = words[i + 1] + std::strlen(words[i + 1]);
        const auto [rest, error] = std::from_chars(words[i + 1], end, *value);
        if (error != std::errc{} || rest != end || *value == 0) return false;
    }
    return true;
}

}  // namespace

int main(int count, char** words) {
    Options options;
    if (!parse(count, words, options)) {
        std::fprintf(stderr, "usage: peers [--entities N] [--peers N] [--seen N] [--ticks N]\n");
        return 2;
    }
    run(options);
}
