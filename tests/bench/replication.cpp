// Measures what players who see a part of a world cost a server. Entities walk at 5 m/s and turn at random,
// in a square sized so that each player sees `visible` of them within 60 m. Viewpoints are entities. Payloads
// are acknowledged after 20 to 200 ms or lost. Eight of the peers are real receivers, whose worlds are
// compared with the server's.
//
//   build/bench/replication [--peers N] [--entities N] [--moving N] [--visible N] [--ticks N] [--loss L]
//   [--rate HZ]
//                           [--jumps N]     of N viewpoints jump anywhere in each tick
//                           [--within S]    fresh_within() of all entities; 0: no goals
//
//   replication.server_us_per_tick.p50|p99   CPU time of a tick: update(), encode(), on_fate(), sealing,
//   sending replication.update_us_per_tick           median CPU time of Sender::update()
//   replication.shadow_us_per_tick           the same without peers and without a grid
//   replication.scope_us_per_tick            the same of a Scope alone: changes, cells, the rule, the
//   audience replication.choose_encode_us_per_tick    of encode() for all peers
//   replication.receive_us_per_tick          of on_fate()
//   replication.seal_us_per_tick             of sealing the payloads
//   replication.send_us_per_tick             of sending them, to a socket of this machine
//   replication.wire_us_per_tick             of both: what the same datagrams take without replication
//   replication.ratio_to_wire                server_us_per_tick.p50 by wire_us_per_tick
//   replication.bytes_per_peer_per_tick      payloads, with 28 bytes of UDP and IP and 24 of header and tag
//   replication.crossings_per_tick           pairs of peer and entity that began or ceased to be seen
//   replication.seen_per_peer                mean number of entities that a peer sees
//   replication.staleness_ticks.p99          age of the versions that the receivers have of entities
//   replication.goals_missed                 records sent later than --within says, of all peers
//   replication.cache_hit_rate               part of the records whose bits were encoded for another peer
//   replication.bytes_memory_per_peer        memory of a sender's peer, with its part of the audience
//   replication.bytes_memory_per_entity      of a sender without peers and grid: the image, and past versions
//   replication.client_ns_per_record         CPU time of receive() and apply()

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "net/crypto/packet_cipher.h"
#include "net/socket/socket.h"
#include "replication/receive/receiver.h"
#include "replication/send/sender.h"
#include "replication/world_hash.h"
#include "tests/support/allocations.h"

namespace {

using namespace shoal;
using namespace shoal::replication::all;

struct Spot {
    float x = 0, y = 0, height = 0;
};
struct Heading {
    float degrees = 0;
};
struct Health {
    std::uint8_t points = 100;
};

struct Options {
    double peers = 1'000, entities = 10'000, moving = 10'000, visible = 200, ticks = 60, loss = 0.01,
           rate = 30, jumps = 0, within = 0;
};

double cpu_us() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}
template <class Fn>
double us_of(Fn&& fn) {
    const double start = cpu_us();
    fn();
    return cpu_us() - start;
}
double percentile(std::vector<double> all, double part) {
    if (all.empty()) return 0;
    std::sort(all.begin(), all.end());
    return all[std::min(all.size() - 1, static_cast<std::size_t>(part * static_cast<double>(all.size())))];
}

constexpr double kRadius = 60;

Schema schema_of(double side, double within, bool has_grid) {
    Schema schema;
    schema.component<Spot>("spot", field(&Spot::x, quantised(0, side, 0.01)),
                           field(&Spot::y, quantised(0, side, 0.01)),
                           field(&Spot::height, quantised(0, 10, 0.01)));
    schema.component<Heading>("heading", quantised(0, 360, 1));
    if (within > 0) {
        schema.component<Health>("health", fresh_within(std::chrono::duration<double>(within)));
    } else {
        schema.component<Health>("health");
    }
    if (has_grid)
        schema.grid<Spot>({.radius = kRadius}, [](const Spot& at) { return GridPlace{at.x, at.y}; });
    return schema;
}

/// Keeps an audience as a sender does, without slots and records.
struct ScopeAlone {
    ScopeAlone(ecs::World& world, const Schema& schema, const Shadow& shadow)
        : shadow_(shadow),
          scope(world, schema, shadow, audience, [](std::uint32_t, ecs::Entity) { return false; }) {}

    void update(std::uint32_t peers) {
        audience.resize(shadow_.index_count());
        scope.update(peers);
        scope.take_touched(touched);
        for (const PeerEntry pair : touched) {
            const bool sees = scope.sees(pair.peer, shadow_[pair.entry].entity);
            if (sees == audience.has(pair.entry, pair.peer)) continue;
            sees ? audience.add(pair.entry, {pair.peer, 0}) : audience.remove(pair.entry, pair.peer);
            crossings += 1;
        }
    }

    const Shadow& shadow_;
    Audience audience;
    std::vector<PeerEntry> touched;
    Scope scope;
    std::uint64_t crossings = 0;
};

struct Packet {
    std::uint64_t number;
    Tick due;
    bool is_lost;
    std::vector<std::byte> bytes;  // only for real receivers
};
struct Peer {
    Sender::Peer number = 0;
    Tick delay = 0;
    std::uint64_t next = 1;
    std::deque<Packet> flight;
    std::unique_ptr<ecs::World> world;
    std::unique_ptr<Receiver> receiver;
    std::unique_ptr<WorldHash> hash;
};

class Meadow {
public:
    explicit Meadow(const Options& options)
        : options_(options),
          side_(std::sqrt(options.entities * 3.14159265 * kRadius * kRadius / options.visible)),
          schema_(schema_of(side_, options.within, true)),
          bare_(schema_of(side_, options.within, false)),
          sender_(world_, schema_, sender_options()),
          alone_(std::make_unique<Sender>(world_, bare_, sender_options())),
          scope_(world_, schema_, sender_.shadow()),
          server_hash_(world_, schema_) {
        const auto count = static_cast<std::uint32_t>(options.entities);
        for (std::uint32_t i = 0; i < count; ++i)
            entities_.push_back(world_.spawn(Spot{number(side_), number(side_), 1}, Heading{number(360)},
                                             Health{}, Replicated{}));
        for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(options.peers); ++i) add_peer(i);
    }

    void run() {
        for (int i = 0; i < static_cast<int>(options_.ticks) + 20; ++i) tick(i >= 20);
        print();
    }

private:
    SenderOptions sender_options() const {
        SenderOptions out;
        out.tick_hz = options_.rate;
        return out;
    }
    float number(double most) {
        return static_cast<float>(std::uniform_real_distribution<double>(0, most)(random_));
    }

    void add_peer(std::uint32_t i) {
        Peer& peer = peers_.emplace_back();
        peer.number = sender_.add_peer();
        peer.delay = static_cast<Tick>(std::lround((20 + number(180)) * options_.rate / 1000));
        const ecs::Entity from = entities_[i % entities_.size()];
        sender_.scope().view_from(peer.number, from);
        scope_.scope.view_from(peer.number, from);
        if (i >= 8) return;
        peer.world = std::make_unique<ecs::World>();
        peer.receiver = std::make_unique<Receiver>(*peer.world, schema_);
        peer.hash = std::make_unique<WorldHash>(*peer.world, schema_);
    }

    void walk() {
        const auto moving =
            std::min<std::size_t>(entities_.size(), static_cast<std::size_t>(options_.moving));
        for (std::size_t i = 0; i < moving; ++i) {
            float degrees = world_.get<Heading>(entities_[i]).degrees;
            if (random_() % 30 == 0) world_.set(entities_[i], Heading{degrees = number(360)});
            const double angle = degrees * 3.14159265 / 180, far = 5 / options_.rate;
            const bool jumps = i < static_cast<std::size_t>(options_.jumps);
            world_.patch<Spot>(entities_[i], [&](Spot& at) {
                const auto moved = [&](float from, double by) {
                    return jumps ? number(side_) : static_cast<float>(std::fmod(from + by + side_, side_));
                };
                at.x = moved(at.x, far * std::cos(angle));
                at.y = moved(at.y, far * std::sin(angle));
            });
        }
    }

    void tick(bool is_measured) {
        walk();
        tick_ += 1;
        const double shadow = us_of([&] { alone_->update(tick_); });
        const double update = us_of([&] { sender_.update(tick_); });
        const std::uint64_t crossings = scope_.crossings;
        const double scope = us_of([&] { scope_.update(static_cast<std::uint32_t>(peers_.size())); });
        double encode = 0, receive = 0;
        Wire wire;
        for (Peer& peer : peers_) {
            encode += send(peer, wire, is_measured);
            receive += arrive(peer, is_measured);
        }
        if (!is_measured) return;
        shadow_.push_back(shadow);
        update_.push_back(update);
        scope_us_.push_back(scope);
        encode_.push_back(encode);
        receive_.push_back(receive);
        seal_.push_back(wire.seal);
        send_.push_back(wire.send);
        wire_.push_back(wire.seal + wire.send);
        server_.push_back(update + encode + receive + wire.seal + wire.send);
        crossings_ += scope_.crossings - crossings;
    }

    struct Wire {
        double seal = 0, send = 0;
    };

    double send(Peer& peer, Wire& wire, bool is_measured) {
        std::byte room[1300];
        double us = 0;
        while (true) {
            std::span<const std::byte> payload;
            us += us_of(
                [&] { payload = sender_.encode(peer.number, peer.next, 1150, std::span(room).subspan(8)); });
            if (payload.empty()) return us;
            peer.flight.push_back({peer.next, tick_ + peer.delay, number(1) < options_.loss, {}});
            if (peer.receiver) peer.flight.back().bytes.assign(payload.begin(), payload.end());
            if (is_measured) bytes_ += static_cast<double>(payload.size()) + 28 + 24;
            const std::size_t bytes = 8 + payload.size() + cipher_.tag_bytes();
            const std::span<std::byte> datagram = std::span(room).first(std::min(bytes, sizeof room));
            wire.seal += us_of([&] { cipher_.seal(peer.next, datagram, 8); });
            wire.send += us_of([&] { from_.send(to_address_, datagram); });
            peer.next += 1;
        }
    }

    double arrive(Peer& peer, bool is_measured) {
        double us = 0;
        bool is_any = false;
        while (!peer.flight.empty() && !is_newer(peer.flight.front().due, tick_)) {
            const Packet packet = std::move(peer.flight.front());
            peer.flight.pop_front();
            if (peer.receiver && !packet.is_lost) {
                const std::uint64_t before = peer.receiver->stats().records;
                client_us_ += us_of([&] {
                    if (peer.receiver->receive(packet.number, packet.bytes) != Receiver::Verdict::accepted)
                        refused_ += 1;
                });
                client_records_ += static_cast<double>(peer.receiver->stats().records - before);
            }
            us += us_of([&] { sender_.on_fate(peer.number, packet.number, !packet.is_lost); });
            is_any = true;
        }
        if (!peer.receiver || !is_any) return us;
        client_us_ += us_of([&] { peer.receiver->apply(); });
        if (is_measured) note_age(peer);
        return us;
    }

    /// Every entity moves in each tick, so a version's age is how far it is behind.
    void note_age(const Peer& peer) {
        const Tick newest = peer.receiver->newest_tick().value_or(tick_);
        peer.receiver->for_each_entity([&](NetId net_id, ecs::Entity) {
            if (const auto shown = peer.receiver->shown(net_id)) ages_.push_back(newest - shown->tick);
        });
    }

    /// Without movement and losses, until all has arrived: the worlds are equal then.
    bool verify() {
        options_.loss = 0;
        for (int i = 0; i < 60; ++i) {
            tick_ += 1;
            sender_.update(tick_);
            Wire wire;
            for (Peer& peer : peers_) {
                if (!peer.receiver) continue;
                sender_.request_marker(peer.number);
                send(peer, wire, false);
                arrive(peer, false);
            }
        }
        for (const Peer& peer : peers_)
            if (peer.receiver &&
                (!peer.receiver->complete() || peer.hash->of_client(*peer.receiver).hash !=
                                                   server_hash_.of_peer(sender_, peer.number).hash))
                return false;
        return true;
    }

    void print() {
        double seen = 0;
        for (const Peer& peer : peers_) seen += sender_.stats(peer.number).slots_used;
        const double peers = static_cast<double>(peers_.size());
        std::printf("replication.server_us_per_tick.p50=%.0f\nreplication.server_us_per_tick.p99=%.0f\n",
                    percentile(server_, 0.5), percentile(server_, 0.99));
        std::printf("replication.update_us_per_tick=%.0f\nreplication.shadow_us_per_tick=%.0f\n",
                    percentile(update_, 0.5), percentile(shadow_, 0.5));
        std::printf("replication.scope_us_per_tick=%.0f\nreplication.choose_encode_us_per_tick=%.0f\n",
                    percentile(scope_us_, 0.5), percentile(encode_, 0.5));
        const double wire = percentile(wire_, 0.5);
        std::printf("replication.receive_us_per_tick=%.0f\nreplication.wire_us_per_tick=%.0f\n",
                    percentile(receive_, 0.5), wire);
        std::printf("replication.seal_us_per_tick=%.0f\nreplication.send_us_per_tick=%.0f\n",
                    percentile(seal_, 0.5), percentile(send_, 0.5));
        std::printf("replication.ratio_to_wire=%.1f\n", percentile(server_, 0.5) / std::max(wire, 1.0));
        std::printf("replication.bytes_per_peer_per_tick=%.0f\n", bytes_ / peers / options_.ticks);
        std::printf("replication.crossings_per_tick=%.0f\n",
                    static_cast<double>(crossings_) / options_.ticks);
        std::printf("replication.seen_per_peer=%.1f\n", seen / peers);
        std::printf("replication.staleness_ticks.p99=%.0f\n", percentile(ages_, 0.99));
        std::uint64_t missed = 0;
        for (const Peer& peer : peers_) missed += sender_.stats(peer.number).goals_missed;
        const DeltaCache::Uses uses = sender_.cache_uses();
        std::printf("replication.goals_missed=%llu\nreplication.cache_hit_rate=%.3f\n",
                    static_cast<unsigned long long>(missed),
                    static_cast<double>(uses.found) / std::max(1.0, static_cast<double>(uses.asked)));
        std::printf("replication.client_ns_per_record=%.0f\n",
                    client_us_ * 1000 / std::max(1.0, client_records_));
        std::printf("replication.worlds_equal=%s\n", verify() && refused_ == 0 ? "yes" : "NO");
        const double before = static_cast<double>(test::held_bytes());
        for (const Peer& peer : peers_) sender_.remove_peer(peer.number);
        const double without_peers = static_cast<double>(test::held_bytes());
        alone_.reset();
        const double without_sender = static_cast<double>(test::held_bytes());
        std::printf("replication.bytes_memory_per_peer=%.0f\n",
                    (before - without_peers + seen * sizeof(Audience::Viewer)) / std::max(1.0, peers));
        std::printf("replication.bytes_memory_per_entity=%.0f\n",
                    (without_peers - without_sender) / options_.entities);
    }

    Options options_;
    double side_;
    std::mt19937 random_{1};
    Schema schema_, bare_;
    ecs::World world_;
    Sender sender_;
    std::unique_ptr<Sender> alone_;
    ScopeAlone scope_;
    WorldHash server_hash_;
    std::vector<ecs::Entity> entities_;
    std::vector<Peer> peers_;
    net::all::PacketCipher cipher_{net::Security::sealed,
                                   1,
                                   net::all::SecretKey(net::all::Bytes32{std::byte(1)}),
                                   net::all::SecretKey(net::all::Bytes32{std::byte(2)}),
                                   1,
                                   net::Time(0)};
    net::all::Socket from_ = std::move(net::all::Socket::open(net::all::Address::any_ipv4(0)).value());
    net::all::Socket to_ =
        std::move(net::all::Socket::open(net::all::Address::ipv4(127, 0, 0, 1, 0)).value());
    net::all::Address to_address_ = to_.local_address().value();
    Tick tick_ = 0;
    std::vector<double> shadow_, update_, scope_us_, encode_, receive_, seal_, send_, wire_, server_, ages_;
    double bytes_ = 0, client_us_ = 0, client_records_ = 0;
    std::uint64_t crossings_ = 0, refused_ = 0;
};

bool parse(int count, char** words, Options& options) {
    for (int i = 1; i < count; i += 2) {
        const std::string_view name = words[i];
        double* const value = name == "--peers"      ? &options.peers
                              : name == "--entities" ? &options.entities
                              : name == "--moving"   ? &options.moving
                              : name == "--visible"  ? &options.visible
                              : name == "--ticks"    ? &options.ticks
                              : name == "--loss"     ? &options.loss
                              : name == "--rate"     ? &options.rate
                              : name == "--jumps"    ? &options.jumps
                              : name == "--within"   ? &options.within
                                                     : nullptr;
        if (!value || i + 1 == count) return false;
        const char* const end = words[i + 1] + std::strlen(words[i + 1]);
        const auto [rest, error] = std::from_chars(words[i + 1], end, *value);
        if (error != std::errc{} || rest != end || *value < 0) return false;
    }
    return options.entities >= 1 && options.ticks >= 1 && options.visible >= 1 && options.rate >= 1;
}

}  // namespace

int main(int count, char** words) {
    Options options;
    if (!parse(count, words, options)) {
        std::fprintf(stderr,
                     "usage: replication [--peers N] [--entities N] [--moving N] [--visible N] [--ticks N] "
                     "[--loss L] [--rate HZ] [--jumps N] [--within S]\n");
        return 2;
    }
    Meadow(options).run();
}
