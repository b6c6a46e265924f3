// Measures what messages cost on this machine: CPU time, bytes, latency, memory. CPU time is measured
// alternately with that of plain sockets, in the same run.
//
//   build/bench/net [--mode lock|two|wire|lat|xfer|mem|idle|connect] [--kind raw|unreliable|reliable]
//                   [--size N] [--batch N] [--round N] [--seconds S] [--reps R] [--plain]
//                   [--tick] [--virtual | --real] [--loss P --delay-ms D --jitter-ms J] [--seed N]
//                   [--repeats SHARE]
//                   [--connect-via PORT --port PORT] [--connections N]
//
// Without --mode: all modes with suitable kinds, sizes and batches, in less than a minute.
// --plain: insecure connections, whose packets have a tag but are not encrypted.
//
//   lock  one thread on CPU 1 runs client and server. A round: the client sends --round messages (64), with a
//         flush after each --batch; the server is updated until it has them all; its acks are sent. CPU time
//         of the process, system calls included, per message delivered. 0.3 S to warm up, then S seconds.
//         raw: 64 times sendto, then 64 times recvfrom.
//   two   two processes, client on CPU 0, server on CPU 1, at most 512 messages in flight; the raw sender
//         has no such limit. Messages per second vary much on a shared machine: compare CPU time.
//   wire  60 Hz, --batch messages per tick, client to server, from second 5 to second 15. Bytes on the wire,
//         with 28 bytes of IPv4 and UDP per datagram.
//   lat   60 Hz, --batch messages per tick, 1,200 ticks. Time from sending to on_message. 5 % loss,
//         50 +- 10 ms in each direction, order kept. Both sides are updated every millisecond, or with --tick
//         only at 60 Hz. The first repetition has --seed (1), each next one the next seed. --repeats: part of
//         all bytes for repeats of reliable messages (0.5).
//   xfer  1 MiB in messages of --size bytes (1,000, at most 256,000), with the same loss and latency, on
//         a new connection.
//   mem   memory of a server process with --connections idle connections (1,000): growth since before
//         the Host was made.
//   idle  CPU time of the same server at 60 Hz, without that of the clients.
//   connect
//         whole handshakes, and each datagram that strangers can send to server or client: CPU time without
//         sockets, the best of seven runs of 400.
//
// wire, lat and xfer use a LinkConditioner per direction and a virtual clock: no sockets, and the same
// results each time. --real: sockets and the real clock, with the same conditioners before the sockets.
// --connect-via: real, without conditioners, over a UDP proxy that forwards to --port.
//
//   net.<mode>.<kind>.<size>.<what>=        median of the repetitions; with .min and .max if it varies
//   net.<mode>.<kind>.<size>x<batch>.<what>=
//   raw.<mode>.<size>.cpu_us_per_message=   one datagram over plain sockets
//     ratio                    CPU time per message divided by that of a raw datagram, median of the turns
//     own_us_per_message       lock: CPU time minus that of as many raw datagrams as were sent
//     overhead_bytes_per_message, reverse_...   wire bytes minus the message; bytes in the other direction
//
// Results of other libraries with the same definitions, with g++ 12 -O2 on 2 CPUs of an AMD EPYC. yojimbo
// encrypts; its batch of 1,000 B is 7. The machine's speed varies by half from hour to hour: if raw differs
// from the first line, compare ratios, such as 3.52 / 2.92.
//
//                                                          ENet 1.3.17    yojimbo 1.9.1
//     raw.lock.32 | 1000                us/datagram        2.92 | 2.98
//     lock unreliable 32x1 | 32x64      us/message         3.41 | 0.233    14.9 | 0.541
//     lock reliable 32x1 | 32x64        us/message         3.52 | 0.375    16.6 | 0.575
//     lock unreliable 1000x1 | 1000x64  us/message         3.57 | 3.47     18.7 | 8.57
//     lock reliable 1000x1 | 1000x64    us/message         3.57 | 3.54     20.1 | 8.86
//     two reliable 32                   us, tx + rx        0.243 + 0.205   8.8 + 9.6
//     two unreliable 32                 us, tx + rx        0.169 + 0.174   0.39 + 1.16
//     wire reliable 32x1 | 32x10        overhead bytes     39.1 | 9.5      55.0 | 6.5
//     wire unreliable 32x1 | 32x10      overhead bytes     40.5 | 11.2     53.0 | 6.2
//     lat reliable 64                   p50, p95, p99 ms   55, 183, 388    55, 152, 176
//                                       wire bytes         113             165
//     lat reliable 64 --tick            p50, p95, p99 ms   67, 333, 517    83, 183, 200
//     xfer                              seconds            2.24            5.98
//     mem                               bytes, resident    1,000           150,000
//     idle                              % of a CPU         2.3             3.9, of 64 connections

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/net_connect.h"
#include "tests/bench/net_crowd.h"
#include "tests/bench/net_flood.h"
#include "tests/bench/net_stream.h"

namespace {

using namespace net_bench;

struct Options {
    std::string mode;  // empty: all
    std::optional<Kind> kind;
    std::optional<std::size_t> size, batch, round;
    std::optional<double> duration_s;
    int repetitions = 3;
    std::uint32_t connections = 1000;
    std::optional<double> loss, delay_ms, jitter_ms;
    bool is_virtual = false, is_real = false;
    Pace pace;

    bool wants(std::string_view name) const { return mode.empty() || mode == name; }
    bool wants(Kind which) const { return !kind || *kind == which; }
    Duration duration() const { return from_seconds(duration_s.value_or(mode.empty() ? 0.3 : 1.0)); }
};

template <class T>
T number(const std::string& flag, const std::string& text, T least, T most) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most)) {
        char range[64];
        std::snprintf(range, sizeof range, "%.10g to %.10g", static_cast<double>(least),
                      static_cast<double>(most));
        fail(flag + " needs a number, " + range + ", not '" + text + "'");
    }
    return value;
}

Kind parse_kind(const std::string& text) {
    for (const Kind kind : {Kind::raw, Kind::unreliable, Kind::reliable})
        if (text == name(kind)) return kind;
    fail("--kind is raw, unreliable or reliable");
}

std::string parse_mode(const std::string& text) {
    for (const std::string_view mode : {"lock", "two", "wire", "lat", "xfer", "mem", "idle", "connect"})
        if (text == mode) return text;
    fail("--mode is lock, two, wire, lat, xfer, mem, idle or connect");
}

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string flag = argv[i];
        bool is_switch = true;
        if (flag == "--plain")
            options.pace.setup.is_plain = true;
        else if (flag == "--tick")
            options.pace.only_ticks = true;
        else if (flag == "--virtual")
            options.is_virtual = true;
        else if (flag == "--real")
            options.is_real = true;
        else
            is_switch = false;
        if (is_switch) continue;
        const std::string value = i + 1 < argc ? argv[i + 1] : "";
        const auto count = [&](std::size_t least, std::size_t most) {
            return number(flag, value, least, most);
        };
        const auto real = [&](double least, double most) { return number(flag, value, least, most); };
        const auto port = [&] { return static_cast<std::uint16_t>(count(1, 65535)); };
        if (flag == "--mode")
            options.mode = parse_mode(value);
        else if (flag == "--kind")
            options.kind = parse_kind(value);
        else if (flag == "--size")
            options.size = count(1, net::kMaxReliableBytes);
        else if (flag == "--batch")
            options.batch = count(1, 512);
        else if (flag == "--round")
            options.round = count(1, 1024);
        else if (flag == "--seconds")
            options.duration_s = real(0.01, 3600);
        else if (flag == "--reps")
            options.repetitions = static_cast<int>(count(1, 1000));
        else if (flag == "--connections")
            options.connections = static_cast<std::uint32_t>(count(1, 20'000));
        else if (flag == "--loss")
            options.loss = real(0, 0.9);
        else if (flag == "--delay-ms")
            options.delay_ms = real(0, 10'000);
        else if (flag == "--jitter-ms")
            options.jitter_ms = real(0, 10'000);
        else if (flag == "--repeats")
            options.pace.setup.repeat_share = real(0, 1);
        else if (flag == "--seed")
            options.pace.impairment.seed = count(1, 1'000'000'000);
        else if (flag == "--connect-via")
            options.pace.proxy_port = port();
        else if (flag == "--port")
            options.pace.port = port();
        else
            fail("unknown flag " + flag);
        i += 1;
    }
    const bool is_proxied = options.pace.proxy_port != 0;
    const bool is_impaired = options.loss || options.delay_ms || options.jitter_ms;
    const bool is_paced = options.mode == "wire" || options.mode == "lat" || options.mode == "xfer";
    if (is_proxied != (options.pace.port != 0)) fail("--connect-via and --port go together");
    if (is_proxied && !is_paced) fail("--connect-via goes with --mode wire, lat or xfer");
    if (is_proxied && is_impaired)
        fail("with --connect-via the proxy impairs: no --loss, --delay-ms, --jitter-ms");
    if (options.is_virtual && (options.is_real || is_proxied))
        fail("--virtual goes without --real and --connect-via");
    if (options.mode == "wire" && is_impaired) fail("--mode wire has no impairment");
    if (options.kind == Kind::raw && !options.mode.empty() && options.mode != "lock" && options.mode != "two")
        fail("--kind raw goes with --mode lock or two");
    if (options.kind == Kind::unreliable && options.mode == "xfer") fail("--mode xfer is reliable");
    if (options.mode != "xfer" && options.size.value_or(0) > net::kMaxMessageBytes)
        fail("--size is at most 1000, with --mode xfer 256000");
    if (options.mode == "lat" && options.size && *options.size < 8)
        fail("--mode lat needs a --size of at least 8");

    Impairment& impairment = options.pace.impairment;
    if (!is_proxied) {
        impairment.loss = options.loss.value_or(0.05);
        impairment.delay_ms = options.delay_ms.value_or(50);
        impairment.jitter_ms = options.jitter_ms.value_or(std::min(10.0, impairment.delay_ms));
        if (impairment.jitter_ms > impairment.delay_ms) fail("--jitter-ms is at most --delay-ms");
    }
    options.pace.is_simulated = !options.is_real && !is_proxied;
    return options;
}

std::vector<std::size_t> choice(const std::optional<std::size_t>& asked, std::vector<std::size_t> otherwise) {
    return asked ? std::vector<std::size_t>{*asked} : otherwise;
}

std::string key(const char* mode, const Load& load, bool with_batch) {
    std::string text = std::string("net.") + mode + "." + name(load.kind) + "." + std::to_string(load.size);
    if (with_batch) text += "x" + std::to_string(load.batch);
    return text;
}

std::string text_of(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", value < 10 ? 3 : value < 1000 ? 1 : 0, value);
    return text;
}

void print(const std::string& what, double value) {
    std::printf("%s=%s\n", what.c_str(), text_of(value).c_str());
}

/// Prints the median, and the range if there is one. `of` returns the value of a measurement.
template <class T, class Of>
void print(const std::string& what, const std::vector<T>& runs, Of&& of) {
    std::vector<double> values;
    for (const T& run : runs) values.push_back(std::invoke(of, run));
    std::sort(values.begin(), values.end());
    print(what, values[values.size() / 2]);
    if (text_of(values.front()) == text_of(values.back())) return;
    print(what + ".min", values.front());
    print(what + ".max", values.back());
}

struct Turn {
    Cost raw, ours;
};

/// Only mode two measures the sides separately.
bool has_ends(const Cost& cost) {
    return cost.tx_us > 0;
}

void print_raw(const std::string& raw, const std::vector<Cost>& costs) {
    print(raw + ".cpu_us_per_message", costs, &Cost::cpu_us);
    if (!has_ends(costs[0])) return;
    print(raw + ".tx_us_per_message", costs, &Cost::tx_us);
    print(raw + ".rx_us_per_message", costs, &Cost::rx_us);
    print(raw + ".arrived", costs, &Cost::arrived);
}

void print_turns(const std::string& ours, const std::vector<Turn>& turns, std::size_t size) {
    const auto of = [](double Cost::*what) { return [what](const Turn& turn) { return turn.ours.*what; }; };
    print(ours + ".cpu_us_per_message", turns, of(&Cost::cpu_us));
    print(ours + ".ratio", turns, [](const Turn& turn) { return turn.ours.cpu_us / turn.raw.cpu_us; });
    print(ours + ".messages_per_s", turns, of(&Cost::per_second));
    print(ours + ".arrived", turns, of(&Cost::arrived));
    if (has_ends(turns[0].ours)) {
        print(ours + ".tx_us_per_message", turns, of(&Cost::tx_us));
        print(ours + ".rx_us_per_message", turns, of(&Cost::rx_us));
        return;
    }
    print(ours + ".own_us_per_message", turns,
          [](const Turn& turn) { return turn.ours.cpu_us - turn.ours.datagrams * turn.raw.cpu_us; });
    print(ours + ".datagrams_per_message", turns, of(&Cost::datagrams));
    print(ours + ".wire_bytes_per_message", turns, of(&Cost::wire_bytes));
    print(ours + ".overhead_bytes_per_message", turns,
          [&](const Turn& turn) { return turn.ours.wire_bytes - static_cast<double>(size); });
}

/// Common part of lock and two. Each measurement follows one of plain sockets, half as long, because the
/// speed of a shared machine changes from second to second.
template <class Raw, class Ours>
void run_flood(const Options& options, const char* mode, const std::vector<std::size_t>& batches, Raw&& raw,
               Ours&& ours) {
    for (const std::size_t size : choice(options.size, {32, 1000})) {
        std::vector<Load> loads;
        for (const Kind kind : {Kind::unreliable, Kind::reliable})
            for (const std::size_t batch : batches)
                if (options.wants(kind)) loads.push_back({kind, size, batch});
        std::vector<Cost> bare;
        std::vector<std::vector<Turn>> turns(loads.size());
        for (int repetition = 0; repetition < options.repetitions; ++repetition) {
            if (loads.empty()) bare.push_back(raw(size, options.duration()));
            for (std::size_t i = 0; i < loads.size(); ++i) {
                bare.push_back(raw(size, options.duration() / 2));
                turns[i].push_back({bare.back(), ours(loads[i], options.duration())});
            }
        }
        print_raw(std::string("raw.") + mode + "." + std::to_string(size), bare);
        for (std::size_t i = 0; i < loads.size(); ++i) print_turns(key(mode, loads[i], true), turns[i], size);
        std::fflush(stdout);
    }
}

Setup flood_setup(const Options& options) {
    Setup setup = options.pace.setup;
    setup.is_flood = true;
    return setup;
}

void run_lock(const Options& options) {
    const Setup setup = flood_setup(options);
    run_flood(
        options, "lock", choice(options.batch, {1, 64}),
        [](std::size_t size, Duration duration) { return lock_raw(size, 64, duration); },
        [&](const Load& load, Duration duration) {
            return lock(setup, load, options.round.value_or(std::max<std::size_t>(64, load.batch)), duration);
        });
}

void run_two(const Options& options) {
    const Setup setup = flood_setup(options);
    run_flood(options, "two", choice(options.batch, {64}), two_raw,
              [&](const Load& load, Duration duration) { return two(setup, load, duration); });
}

void run_wire(const Options& options) {
    Pace pace = options.pace;
    pace.impairment = {};
    for (const std::size_t size : choice(options.size, {32}))
        for (const Kind kind : {Kind::unreliable, Kind::reliable})
            for (const std::size_t batch : choice(options.batch, {1, 10})) {
                if (!options.wants(kind)) continue;
                const Load load{kind, size, batch};
                const WireCost cost = wire(pace, load);
                const std::string ours = key("wire", load, true);
                print(ours + ".wire_bytes_per_message", cost.bytes);
                print(ours + ".overhead_bytes_per_message", cost.bytes - static_cast<double>(size));
                print(ours + ".reverse_bytes_per_message", cost.reverse_bytes);
                print(ours + ".reverse_datagrams_per_message", cost.reverse_datagrams);
                std::fflush(stdout);
            }
}

/// One run per repetition, each with the next seed. The seed of a proxy is unknown.
template <class Measure>
auto with_seeds(const Options& options, Pace pace, Measure&& measure) {
    std::vector<decltype(measure(pace))> runs;
    for (int repetition = 0; repetition < options.repetitions; ++repetition) {
        runs.push_back(measure(pace));
        pace.impairment.seed += 1;
    }
    return runs;
}

void run_latency(const Options& options, bool only_ticks) {
    Pace pace = options.pace;
    pace.only_ticks = only_ticks;
    const Load load{options.kind.value_or(Kind::reliable), options.size.value_or(64),
                    options.batch.value_or(1)};
    const auto runs = with_seeds(options, pace, [&](const Pace& with) { return latency(with, load); });
    const std::string ours = key("lat", load, load.batch > 1) + (only_ticks ? ".tick" : "");
    print(ours + ".latency_ms.p50", runs, &Latency::p50);
    print(ours + ".latency_ms.p95", runs, &Latency::p95);
    print(ours + ".latency_ms.p99", runs, &Latency::p99);
    print(ours + ".latency_ms.max", runs, &Latency::max);
    print(ours + ".arrived", runs, &Latency::arrived);
    print(ours + ".wire_bytes_per_message", runs, &Latency::wire_bytes);
    print(ours + ".overhead_bytes_per_message", runs,
          [&](const Latency& run) { return run.wire_bytes - static_cast<double>(load.size); });
    std::fflush(stdout);
}

void run_transfer(const Options& options, bool only_ticks) {
    Pace pace = options.pace;
    pace.only_ticks = only_ticks;
    const Load load{Kind::reliable, options.size.value_or(1000), 1};
    const auto runs = with_seeds(options, pace, [&](const Pace& with) { return transfer(with, load); });
    const std::string ours = key("xfer", load, false) + (only_ticks ? ".tick" : "");
    print(ours + ".seconds", runs, &Transfer::seconds);
    print(ours + ".wire_bytes", runs, &Transfer::wire_bytes);
    std::fflush(stdout);
}

/// Memory needs only one repetition. CPU time is measured once, for a longer time.
void run_crowd(const Options& options, bool is_memory) {
    const Duration duration =
        is_memory ? Duration(0) : from_seconds(options.duration_s.value_or(options.mode.empty() ? 2 : 5));
    const CrowdCost cost = in_child([&] { return crowd(options.pace.setup, options.connections, duration); });
    const std::string count = std::to_string(options.connections);
    if (is_memory) {
        print("net.mem.idle." + count + ".rss_bytes_per_connection", cost.memory.resident);
        print("net.mem.idle." + count + ".heap_bytes_per_connection", cost.memory.heap);
    } else {
        print("net.idle." + count + ".cpu_percent", cost.cpu_percent);
    }
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const Options options = parse(argc, argv);
    const bool is_raw = options.kind == Kind::raw;
    // In a new process.
    if (options.wants("mem") && !is_raw) run_crowd(options, true);
    if (options.wants("lock")) run_lock(options);
    if (options.wants("two")) run_two(options);
    if (is_raw) return 0;
    if (options.wants("wire")) run_wire(options);
    const bool is_default = options.mode.empty();
    if (options.wants("lat")) {
        run_latency(options, options.pace.only_ticks);
        if (is_default && !options.pace.only_ticks) run_latency(options, true);
    }
    if (options.wants("xfer")) run_transfer(options, options.pace.only_ticks);
    if (options.wants("idle")) run_crowd(options, false);
    if (options.wants("connect")) connect_mode::run();
    return 0;
}
