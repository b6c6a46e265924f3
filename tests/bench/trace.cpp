// Replays a recorded workload through a World, Sender, connection and Receiver. Compares the two worlds bit
// by bit whenever the client is complete.
//
//   build/bench/trace --format cubes|q3 FILE [--distance D] [--loss P] [--seed S] [--frames N] [--udp]
//                      [--coding range|bits] [--model FILE] [--save-model FILE]
//
//   trace.frames                            frames replayed
//   trace.frames_compared                   frames at which the client was complete: the worlds were compared
//   trace.mismatches                        compared frames at which the worlds differed
//   trace.bytes_per_frame.mean|median|p99   state payload with its header
//   trace.datagram_bytes_per_frame.mean     all datagrams to the client, with 28 B of IP and UDP each
//   trace.encode_us_per_frame               CPU time of the server: update the shadow, encode, send
//   trace.decode_us_per_frame               CPU time of the client: receive, decode, apply to the world
//   trace.allocations_per_frame             of both sides, in the second half of the frames
// With --save-model the server learns from each frame, and writes its model at the end. With --model the
// server and the client begin with the model of an earlier run. Byte counts do not include frames without a
// baseline. The exit code is 1 after a mismatch.

#include <ctime>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>

#include "net/socket/socket.h"
#include "replication/client.h"
#include "replication/server.h"
#include "tests/bench/trace_world.h"
#include "tests/net/support/server_key.h"
#include "tests/support/allocations.h"

namespace {

using namespace shoal;
using trace::Workload;

struct Options {
    std::string format, file;
    std::size_t distance = 6;
    double loss = 0;
    std::uint64_t seed = 1;
    std::size_t frames = SIZE_MAX;
    bool udp = false;
    replication::Coding coding = replication::Coding::range;
    std::string model, save_model;
};

[[noreturn]] void fail(const std::string& why) {
    std::fprintf(stderr, "trace: %s\n", why.c_str());
    std::exit(2);
}

template <class T>
T number(const std::string& flag, const std::string& text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        fail(flag + " needs a number, not '" + text + "'");
    return value;
}

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string flag = argv[i];
        if (flag == "--udp") {
            options.udp = true;
            continue;
        }
        if (flag.substr(0, 2) != "--") {
            options.file = flag;
            continue;
        }
        if (i + 1 == argc) fail(flag + " needs a value");
        const std::string value = argv[++i];
        if (flag == "--format")
            options.format = value;
        else if (flag == "--coding")
            options.coding = value == "bits" ? replication::Coding::bits : replication::Coding::range;
        else if (flag == "--model")
            options.model = value;
        else if (flag == "--save-model")
            options.save_model = value;
        else if (flag == "--distance")
            options.distance = number<std::size_t>(flag, value);
        else if (flag == "--loss")
            options.loss = number<double>(flag, value);
        else if (flag == "--seed")
            options.seed = number<std::uint64_t>(flag, value);
        else if (flag == "--frames")
            options.frames = number<std::size_t>(flag, value);
        else
            fail("unknown flag " + flag);
    }
    if (options.file.empty()) fail("which file?");
    if (options.distance < 1 || options.distance > 30) fail("--distance is 1 to 30");
    if (!(options.loss >= 0 && options.loss < 1)) fail("--loss is 0 to less than 1");
    return options;
}

std::unique_ptr<Workload> load(const Options& options) {
    if (options.format == "cubes") {
        auto loaded = trace::load_cubes(options.file);
        if (!loaded) fail("cannot read '" + options.file + "' as cubes");
        return std::make_unique<trace::CubesWorkload>(std::move(*loaded));
    }
    if (options.format != "q3") fail("--format is cubes or q3");
    auto loaded = trace::load_quake(options.file);
    if (!loaded) fail("cannot read '" + options.file + "' as q3");
    return std::make_unique<trace::QuakeWorkload>(std::move(*loaded));
}

double cpu_us() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct Held {
    std::size_t frame = 0;  // the frame after which it was sent
    std::size_t size = 0;
    std::array<std::byte, net::kMaxDatagramBytes> bytes;
};

/// One direction: stores datagrams until they are delivered, in memory or over a pair of real sockets; loses
/// some.
class Link final : public net::Sink {
public:
    Link(const Options& options, std::uint64_t stream, net::Address from, net::Socket* sender,
         net::Socket* receiver)
        : random_(options.seed * 2 + stream),
          loss_(options.loss),
          from_(from),
          sender_(sender),
          receiver_(receiver) {
        queue_.resize(64);  // more than are under way at a time
    }

    void send(const net::Address& to, std::span<const std::byte> datagram) override {
        bytes_ += datagram.size() + 28;
        to_ = to;
        if (lossy && std::uniform_real_distribution<>(0, 1)(random_) < loss_) return;
        if (held_ == queue_.size()) queue_.emplace_back();
        Held& held = queue_[held_++];
        held.frame = frame;
        held.size = datagram.size();
        std::copy(datagram.begin(), datagram.end(), held.bytes.begin());
    }

    /// Delivers the datagrams that were sent at or before `frame`.
    void carry(std::ptrdiff_t last_frame, net::Endpoint& to, net::Time now) {
        std::size_t count = 0;
        while (count < held_ && static_cast<std::ptrdiff_t>(queue_[count].frame) <= last_frame) ++count;
        for (std::size_t i = 0; i < count; ++i) {
            const std::span<const std::byte> datagram(queue_[i].bytes.data(), queue_[i].size);
            if (!sender_) {
                to.receive(from_, datagram, now);
                continue;
            }
            sender_->send(to_, datagram);
            std::array<std::byte, net::kMaxDatagramBytes + 1> buffer;
            net::Address sender;
            for (int tries = 0; tries < 1'000'000; ++tries) {
                net::Result<std::size_t> size = receiver_->receive(buffer, sender);
                if (!size) continue;  // loopback is fast, but may need several calls
                to.receive(sender, std::span(buffer).first(size.value()), now);
                break;
            }
        }
        std::rotate(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count),
                    queue_.begin() + static_cast<std::ptrdiff_t>(held_));
        held_ -= count;
    }

    std::uint64_t bytes() const { return bytes_; }
    std::size_t frame = 0;
    bool lossy = false;

private:
    std::mt19937_64 random_;
    double loss_;
    net::Address from_, to_;
    net::Socket* sender_;
    net::Socket* receiver_;
    std::vector<Held> queue_;
    std::size_t held_ = 0;
    std::uint64_t bytes_ = 0;
};

struct Result {
    std::size_t frames = 0, compared = 0, mismatches = 0;
    bool last_compared = false;
    std::vector<double> bytes;
    double datagram_bytes = 0, encode_us = 0, decode_us = 0;
    std::size_t allocations = 0, allocation_frames = 0;
};

bool worlds_equal(const Workload& workload, const replication::Sender& sender, const ecs::World& replica,
                  const replication::Receiver& receiver) {
    std::uint32_t count = 0;
    for (std::size_t number = 0; number < workload.entities().size(); ++number) {
        const ecs::Entity entity = workload.entities()[number];
        if (!entity) continue;
        ++count;
        if (!workload.equals(replica, receiver.entity(sender.net_id(entity)), number)) return false;
    }
    return count == receiver.entity_count();
}

Result replay(Workload& workload, const Options& options) {
    replication::Schema schema;
    workload.describe(schema);
    if (!schema.error().empty()) fail(schema.error());

    std::optional<net::Socket> server_socket, client_socket;
    net::Address server_address = net::Address::ipv4(127, 0, 0, 1, 1), client_address = server_address;
    client_address.port = 2;
    if (options.udp) {
        net::Result<net::Socket> a = net::Socket::open(net::Address::ipv4(127, 0, 0, 1, 0));
        net::Result<net::Socket> b = net::Socket::open(net::Address::ipv4(127, 0, 0, 1, 0));
        if (!a || !b) fail("no loopback sockets");
        server_socket = std::move(a.value());
        client_socket = std::move(b.value());
        server_address = server_socket->local_address().value();
        client_address = client_socket->local_address().value();
    }
    net::Socket* const server_end = options.udp ? &*server_socket : nullptr;
    net::Socket* const client_end = options.udp ? &*client_socket : nullptr;
    Link down(options, 0, server_address, server_end, client_end);
    Link up(options, 1, client_address, client_end, server_end);

    ecs::World world, replica;
    replication::ServerOptions server_options;
    server_options.sender.tick_hz = workload.frames_per_second();
    server_options.sender.coding = options.coding;
    server_options.renew_model_s = 0;
    if (!options.save_model.empty()) server_options.sender.learn_every = 1;
    server_options.host.connection.first_bytes_per_second = 1'000'000'000;
    server_options.host.connection.max_bytes_per_second = 1'000'000'000;
    server_options.host.seed[0] = std::byte{1};
    give_key(server_options.host);
    replication::ClientOptions client_options;
    client_options.net.seed[0] = std::byte{2};
    give_key(client_options.net);
    replication::Server server(world, schema, down, server_options);
    replication::Client client(replica, schema, up, client_options);

    const net::Duration step(static_cast<std::int64_t>(1e6 / workload.frames_per_second()));
    net::Time now = step;
    if (!options.model.empty()) {
        const auto model = trace::read_file(options.model);
        if (!model || !server.load_model(std::as_bytes(std::span(*model)))) fail("no model of this schema");
    }
    client.connect(server_address);
    for (int i = 0; i < 60 && !client.is_connected(); ++i) {
        now += step;
        client.update(now);
        up.carry(0, server.host(), now);
        server.poll(now);
        down.carry(0, client.endpoint(), now);
    }
    client.update(now);
    up.carry(0, server.host(), now);
    for (int i = 0; i < 60 && !options.model.empty(); ++i) {  // until the client has the model
        now += step;
        server.tick(now);
        down.carry(0, client.endpoint(), now);
        client.update(now);
        up.carry(0, server.host(), now);
    }
    if (!client.is_connected()) fail("the client could not connect");

    Result result;
    result.frames = std::min(options.frames, workload.frame_count());
    up.lossy = down.lossy = true;
    net::PeerId peer;
    server.for_each_peer([&](net::PeerId id) { peer = id; });
    const std::array<std::byte, 1> input{};
    replication::Tick changed = 0;  // the last tick in which an entity changed
    const auto run_frame = [&](std::size_t frame, std::ptrdiff_t acked, bool counted) {
        up.frame = down.frame = frame;
        now += step;
        up.carry(acked, server.host(), now);
        const std::uint64_t bytes_before = server.stats(peer).state.state_bytes;
        const std::uint64_t datagram_bytes_before = down.bytes();
        const double start = cpu_us();
        const replication::Tick tick = server.tick(now);
        const double encoded = cpu_us();
        const replication::impl::Shadow& shadow = server.sender().shadow();
        if (!shadow.opened().empty() || !shadow.changed().empty() || !shadow.closed().empty()) changed = tick;
        down.carry(static_cast<std::ptrdiff_t>(frame), client.endpoint(), now);
        static_cast<void>(client.send_message(net::Channel::unreliable, input));  // as the input of a player
        client.update(now);
        const double decoded = cpu_us();
        if (counted) {
            result.bytes.push_back(static_cast<double>(server.stats(peer).state.state_bytes - bytes_before));
            result.datagram_bytes += static_cast<double>(down.bytes() - datagram_bytes_before);
        }
        result.encode_us += encoded - start;
        result.decode_us += decoded - encoded;
        if (!client.is_connected()) fail("connection lost: " + client.failure());
        // In a frame without changes nothing is sent, and the state of the last change is still valid.
        const auto complete = client.receiver().complete();
        return complete && !replication::is_newer(changed, complete->tick);
    };
    const auto compare = [&] {
        result.compared += 1;
        result.mismatches += !worlds_equal(workload, server.sender(), replica, client.receiver());
    };
    result.bytes.reserve(result.frames);
    for (std::size_t frame = 0; frame < result.frames; ++frame) {
        const std::size_t allocations = test::allocations();
        workload.apply(world, frame);
        const bool complete =
            run_frame(frame, workload.acked_at(frame, options.distance), workload.is_counted(frame));
        if (frame >= result.frames / 2) {
            result.allocations += test::allocations() - allocations;
            result.allocation_frames += 1;
        }
        result.last_compared = complete;
        if (complete) compare();
    }
    // Lost changes of the last frames are sent again while the world does not change.
    for (std::size_t extra = 0; extra < 400 && !result.last_compared; ++extra) {
        const std::size_t frame = result.frames + extra;
        result.last_compared = run_frame(frame, static_cast<std::ptrdiff_t>(frame) - 6, false);
        if (result.last_compared) compare();
    }
    if (!options.save_model.empty()) {
        if (!server.renew_model()) fail("too little traffic for a model");
        const std::vector<std::byte> model = server.save_model();
        std::ofstream(options.save_model, std::ios::binary)
            .write(reinterpret_cast<const char*>(model.data()), static_cast<std::streamsize>(model.size()));
        std::printf("trace.model_bytes=%zu\n", model.size());
    }
    return result;
}

double percentile(std::vector<double> values, double part) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1,
                           static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse(argc, argv);
    const std::unique_ptr<Workload> workload = load(options);
    const Result result = replay(*workload, options);
    double sum = 0;
    for (const double bytes : result.bytes) sum += bytes;
    const double counted = static_cast<double>(std::max<std::size_t>(1, result.bytes.size()));
    const double frames = static_cast<double>(std::max<std::size_t>(1, result.frames));
    std::printf("trace.frames=%zu\n", result.frames);
    std::printf("trace.frames_compared=%zu\n", result.compared);
    std::printf("trace.mismatches=%zu\n", result.mismatches);
    std::printf("trace.bytes_per_frame.mean=%.1f\n", sum / counted);
    std::printf("trace.bytes_per_frame.median=%.0f\n", percentile(result.bytes, 0.5));
    std::printf("trace.bytes_per_frame.p99=%.0f\n", percentile(result.bytes, 0.99));
    std::printf("trace.datagram_bytes_per_frame.mean=%.1f\n", result.datagram_bytes / counted);
    std::printf("trace.encode_us_per_frame=%.1f\n", result.encode_us / frames);
    std::printf("trace.decode_us_per_frame=%.1f\n", result.decode_us / frames);
    std::printf("trace.allocations_per_frame=%.3f\n",
                static_cast<double>(result.allocations) /
                    static_cast<double>(std::max<std::size_t>(1, result.allocation_frames)));
    if (!result.last_compared) std::fprintf(stderr, "trace: the last frame never became complete\n");
    return result.mismatches == 0 && result.last_compared ? 0 : 1;
}
