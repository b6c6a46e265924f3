#include "tests/net/support/paths.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "net/client.h"
#include "net/host.h"
#include "tests/net/support/cubic.h"
#include "tests/net/support/links.h"
#include "tests/net/support/meters.h"

namespace shoal::net::impl::paths {
namespace {

constexpr double kSettled = 3;       // seconds; most measurements begin here
constexpr double kLateSettled = 10;  // seconds; drops, and shares of flows that joined late
constexpr std::size_t kInputBytes = 30;
constexpr double kOwedSeconds = 0.25;  // state that waits longer is replaced by newer state
constexpr double kOwedBytes = 2'400;   // at least this much may wait

Seed seed_of(std::uint64_t number) {
    Seed seed{};
    std::memcpy(seed.data(), &number, sizeof number);
    return seed;
}

std::uint64_t mix(std::uint64_t seed, std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325 ^ (seed * 0x9e3779b97f4a7c15);
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash ^ (hash >> 29);
}

double percentile(std::vector<double>& values, double part) {
    if (values.empty()) return kNone;
    const auto index = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1) + 0.5);
    std::nth_element(values.begin(), values.begin() + index, values.end());
    return values[static_cast<std::size_t>(index)];
}

double long_enough(const PathSpec& path, double duration) {
    if (path.duration_s > 0) return path.duration_s;
    const double last = std::max(path.event_s, path.last_joins_s);
    return last > 0 ? std::max(duration, last + 20) : duration;
}

/// A server, its clients and the path between them.
class Simulation {
public:
    Simulation(const PathSpec& path, std::uint64_t seed, double duration)
        : path_(path),
          duration_(long_enough(path, duration)),
          random_(mix(seed, path.group + "." + path.name)),
          down_(path.down),
          up_(path.up),
          possible_(down_.rate().at_most(std::min(wanted(), policed()))) {
        ConnectionConfig connection;
        connection.timeout = std::chrono::seconds(60);
        connection.max_open_packets = 4096;
        HostConfig config;
        config.seed = seed_of(random_.next());
        config.security = Security::insecure;
        config.max_peers = static_cast<std::uint32_t>(path.flows);
        config.max_handshakes_per_s_per_ip = config.max_peers;
        config.max_peers_per_ip = 0;
        config.connection = connection;
        host_ = std::make_unique<Host>(config, server_, server_sink_);
        next_server_tick_ = random_.uniform(0, 1 / path.tick_hz);
        for (int i = 0; i < path.flows; ++i) flows_.push_back(std::make_unique<Flow>(*this, i, connection));
    }

    Outcome run() {
        const int at_once = path_.last_joins_s > 0 ? path_.flows - 1 : path_.flows;
        for (int i = 0; i < at_once; ++i) connect(*flows_[static_cast<std::size_t>(i)]);
        while (!has_started_ || now_ < zero_ + duration_) act();
        return measure();
    }

private:
    static constexpr std::uint16_t kFirstPort = 5000;

    struct Flow final : Handler, Sink {
        Flow(Simulation& in, int number, const ConnectionConfig& connection)
            : simulation(in),
              index(number),
              down(in.path_, in.path_.down_ms, in.random_.next()),
              up(in.path_, in.path_.up_ms, in.random_.next()),
              next_tick(in.random_.uniform(0, 1 / in.path_.client_tick_hz)),
              accepted(in.duration_),
              passed(in.duration_) {
            ClientConfig config;
            config.seed = seed_of(in.random_.next());
            config.security = Security::insecure;
            config.connect_timeout = std::chrono::seconds(60);
            config.connection = connection;
            client = std::make_unique<Client>(config, *this, *this);
        }
        bool on_payload(PeerId, std::uint64_t, std::span<const std::byte> bytes, Time) override {
            accepted.add(simulation.time(), static_cast<double>(bytes.size()));
            if (!simulation.has_started_ || simulation.time() < kSettled) return true;
            longest_gap = std::max(longest_gap, simulation.time() - std::max(last_accepted, first_counted()));
            last_accepted = simulation.time();
            return true;
        }
        std::size_t write_payload(PeerId, PayloadTurn& turn) override {
            if (!std::exchange(has_input, false)) return 0;
            return simulation.write_state(turn, kInputBytes);
        }
        void on_message(PeerId, Channel, std::span<const std::byte>) override {
            from_server.arrived(simulation.time());
        }
        void on_disconnected(PeerId, DisconnectReason, std::string_view) override {
            simulation.is_cut_ = true;
        }
        void send(const Address&, std::span<const std::byte> bytes) override {
            simulation.send_up(*this, bytes);
        }
        double first_counted() const {
            return std::max(0.0, index + 1 == simulation.path_.flows ? simulation.path_.last_joins_s : 0) +
                   kSettled;
        }

        Simulation& simulation;
        int index;
        OwnLink down, up;
        std::unique_ptr<Client> client;
        Arrivals arrivals;
        double next_tick;
        PeerId peer;  // its id at the server; empty until it is connected
        double owed = 0;
        bool has_input = false;  // for the next flush
        Messages from_server, from_client;
        Series accepted, passed;  // payload bytes; datagram bytes
        double last_accepted = 0, longest_gap = 0;
    };

    struct Server final : Handler {
        explicit Server(Simulation& in) : simulation(in) {}
        void on_connected(PeerId peer) override { simulation.on_connected(peer); }
        std::size_t write_payload(PeerId peer, PayloadTurn& turn) override {
            if (!simulation.has_started_) return 0;
            double& owed = simulation.flow_at(simulation.host_->address(peer)).owed;
            const std::size_t size = simulation.write_state(turn, static_cast<std::size_t>(owed));
            owed -= static_cast<double>(size);
            return size;
        }
        void on_message(PeerId peer, Channel, std::span<const std::byte>) override {
            simulation.flow_at(simulation.host_->address(peer)).from_client.arrived(simulation.time());
        }
        void on_disconnected(PeerId, DisconnectReason, std::string_view) override {
            simulation.is_cut_ = true;
        }
        Simulation& simulation;
    };
    struct ServerSink final : Sink {
        explicit ServerSink(Simulation& in) : simulation(in) {}
        void send(const Address& to, std::span<const std::byte> bytes) override {
            simulation.send_down(simulation.flow_at(to), bytes);
        }
        Simulation& simulation;
    };

    /// Seconds since the start; negative before.
    double time() const { return now_ - zero_; }
    /// The clock of the endpoints.
    Time clock() const {
        return std::chrono::seconds(1000) + Duration(static_cast<Duration::rep>(std::llround(now_ * 1e6)));
    }
    Flow& flow_at(const Address& address) {
        return *flows_[static_cast<std::size_t>(address.port - kFirstPort)];
    }
    Address address_of(const Flow& flow) const {
        return Address::ipv4(10, 0, 0, 1, static_cast<std::uint16_t>(kFirstPort + flow.index));
    }

    void connect(Flow& flow) { flow.client->connect(server_address_, {}, clock()); }

    void on_connected(PeerId peer) {
        Flow& flow = flow_at(host_->address(peer));
        flow.peer = peer;
        connected_ += 1;
        const int at_once = path_.last_joins_s > 0 ? path_.flows - 1 : path_.flows;
        if (!has_started_ && connected_ == at_once) {
            has_started_ = true;
            zero_ = now_;
            next_sample_ = now_;
            last_server_tick_ = now_;
            if (path_.has_cubic) {
                cubic_.emplace(down_, (path_.down_ms + path_.up_ms) / 1000, random_.uniform(0, 0.1),
                               duration_);
            }
            for (const auto& other : flows_) start_messages(*other);
        } else if (has_started_) {
            start_messages(flow);
        }
    }
    void start_messages(Flow& flow) {
        if (!flow.peer) return;
        flow.from_server.start(time() + random_.uniform(0, kMessageInterval));
        flow.from_client.start(time() + random_.uniform(0, kMessageInterval));
    }

    /// During handshakes the path has no faults.
    bool is_real(const Flow& flow) const { return has_started_ && flow.peer; }

    void send_down(Flow& flow, std::span<const std::byte> bytes) {
        const auto size = static_cast<double>(bytes.size());
        if (!is_real(flow)) {
            flow.arrivals.push(now_ + flow.down.latency(time()), flow.index, bytes);
            return;
        }
        const bool is_counted = time() >= kLateSettled;
        sent_ += is_counted;
        if (flow.down.loses_next(time())) return;
        const std::optional<double> through = down_.push(time(), size);
        if (!through) {
            dropped_ += is_counted;
            return;
        }
        flow.arrivals.push(zero_ + flow.down.arrival(*through), flow.index, bytes);
        flow.passed.add(*through, size);
    }
    void send_up(Flow& flow, std::span<const std::byte> bytes) {
        if (!is_real(flow)) {
            server_arrivals_.push(now_ + flow.up.latency(time()), flow.index, bytes);
            return;
        }
        if (flow.up.loses_next(time())) return;
        const std::optional<double> through = up_.push(time(), static_cast<double>(bytes.size()));
        if (through) server_arrivals_.push(zero_ + flow.up.arrival(*through), flow.index, bytes);
    }

    /// Runs the next event.
    void act() {
        Flow* client = flows_[0].get();
        for (const auto& flow : flows_)
            if (flow->next_tick < client->next_tick) client = flow.get();
        const double cubic = cubic_ ? zero_ + cubic_->next_event() : kNever;
        now_ = std::min({next_server_tick_, client->next_tick, cubic, next_sample_});
        if (now_ == next_sample_) {
            sample();
        } else if (now_ == cubic) {
            cubic_->act(cubic_->next_event());  // exactly, where time() may be rounded
        } else if (now_ == next_server_tick_) {
            next_server_tick_ = now_ + 1 / path_.tick_hz;
            if (!stands_still(path_.server_stall_s)) tick_server();
        } else {
            client->next_tick = now_ + 1 / path_.client_tick_hz;
            if (!stands_still(path_.client_stall_s)) tick_client(*client);
        }
    }
    bool stands_still(double length) const {
        return has_started_ && time() >= path_.stall_at_s && time() < path_.stall_at_s + length;
    }

    void sample() {
        next_sample_ = now_ + kStep;
        if (down_.is_limited()) waits_.push_back(1000 * down_.wait(time()));
        if (has_joined_ || path_.last_joins_s == 0 || time() < path_.last_joins_s) return;
        has_joined_ = true;
        connect(*flows_.back());
    }

    void tick_server() {
        while (const Arrivals::Datagram* datagram = server_arrivals_.pop(now_)) {
            host_->receive(address_of(*flows_[static_cast<std::size_t>(datagram->flow)]),
                           datagram->contents(), clock());
        }
        host_->update(clock());
        if (has_started_) send_state();
        host_->flush(clock());
    }
    void send_state() {
        const double elapsed = now_ - last_server_tick_;
        last_server_tick_ = now_;
        for (const auto& each : flows_) {
            Flow& flow = *each;
            if (!flow.peer) continue;
            flow.from_server.create(time());
            flow.from_server.send(*host_, flow.peer);
            flow.owed = std::min(flow.owed + path_.demand * elapsed,
                                 std::max(path_.demand * kOwedSeconds, kOwedBytes));
        }
    }
    std::size_t write_state(PayloadTurn& turn, std::size_t most) {
        const std::size_t size = std::min(most, turn.share);
        std::copy_n(state_.begin(), size, turn.room.begin());
        return size;
    }
    void tick_client(Flow& flow) {
        Client& client = *flow.client;
        while (const Arrivals::Datagram* datagram = flow.arrivals.pop(now_))
            client.receive(server_address_, datagram->contents(), clock());
        client.update(clock());
        if (client.is_connected(client.server())) {
            if (is_real(flow)) {
                flow.from_client.create(time());
                flow.from_client.send(client, client.server());
            }
            flow.has_input = true;
        }
        client.flush(clock());
    }

    Outcome measure();
    void measure_goodput(Outcome& outcome);
    void measure_event(Outcome& outcome);
    void measure_waits(Outcome& outcome);
    void measure_messages(Outcome& outcome);

    /// Goodput of all flows: bytes of accepted state or, if the shared link limits, all bytes that it passed.
    double got(double from, double until) const {
        double sum = 0;
        for (const auto& flow : flows_)
            sum += (is_narrow() ? flow->passed : flow->accepted).between(from, until);
        return sum;
    }
    /// The goodput that the path and the demand allow.
    double target(double from, double until) const {
        return is_narrow() ? possible_.integral(from, until) : wanted() * (until - from);
    }
    /// A server that sends once per tick gets at most one bucket of whole packets per tick through a policer.
    double policed() const {
        if (path_.down.policer_bytes == 0) return kNever;
        const double packet = static_cast<double>(kMaxDatagramBytes);
        return path_.tick_hz * packet * std::floor(path_.down.policer_bytes / packet);
    }
    double wanted() const { return path_.flows * path_.demand * (1 - path_.loss); }
    /// Returns whether the flows want more than the shared link carries.
    bool is_narrow() const { return down_.is_limited() && wanted() > down_.rate().lowest(); }

    const PathSpec& path_;
    double duration_;
    Random random_;
    SharedLink down_, up_;
    Schedule possible_;  // bytes per second, if the link to the clients limits
    Server server_{*this};
    ServerSink server_sink_{*this};
    Address server_address_ = Address::ipv4(10, 0, 0, 100, 7777);
    std::unique_ptr<Host> host_;
    Arrivals server_arrivals_;
    std::vector<std::unique_ptr<Flow>> flows_;
    std::optional<Cubic> cubic_;
    std::array<std::byte, kMaxPayloadBytes> state_{};

    double now_ = 0, zero_ = kNever;
    double next_server_tick_ = 0, last_server_tick_ = 0, next_sample_ = kNever;
    bool has_started_ = false, has_joined_ = false, is_cut_ = false;
    int connected_ = 0;
    double sent_ = 0, dropped_ = 0;
    std::vector<double> waits_;  // ms, one per kStep
};

Outcome Simulation::measure() {
    for (const auto& flow : flows_) {
        flow->accepted.close();
        flow->passed.close();
    }
    if (cubic_) cubic_->passed.close();
    Outcome outcome;
    outcome.is_cut = is_cut_;
    measure_goodput(outcome);
    measure_event(outcome);
    measure_waits(outcome);
    measure_messages(outcome);
    return outcome;
}

void Simulation::measure_goodput(Outcome& outcome) {
    const double end = duration_;
    outcome.good = got(kSettled, end) / target(kSettled, end);
    outcome.first = got(kSettled, 5) / target(kSettled, 5);
    outcome.minute = got(0, end) / target(0, end);
    outcome.when_s = end;
    for (double from = 0; from + 1 <= end; from += kStep) {
        if (got(from, from + 1) < 0.85 * target(from, from + 1)) continue;
        outcome.when_s = from + 1;
        break;
    }
    outcome.gap_ms = 0;
    for (const auto& flow : flows_) {
        const double last = end - std::max(flow->last_accepted, flow->first_counted());
        outcome.gap_ms = std::max(outcome.gap_ms, 1000 * std::max(flow->longest_gap, last));
    }
    const double settled = path_.last_joins_s > 0 ? path_.last_joins_s + kLateSettled : kSettled;
    if (path_.flows > 1) {
        const double all = std::max(1.0, got(settled, end));
        for (const auto& flow : flows_) {
            const Series& series = is_narrow() ? flow->passed : flow->accepted;
            outcome.shares.push_back(series.between(settled, end) / all * path_.flows);
        }
    }
    if (cubic_) {
        const double ours = got(kLateSettled, end);
        outcome.ours = ours / (ours + cubic_->passed.between(kLateSettled, end));
    }
    if (down_.is_limited() && sent_ > 0) outcome.drop = dropped_ / sent_;
}

void Simulation::measure_event(Outcome& outcome) {
    const double event = path_.event_s, end = duration_;
    if (event == 0) return;
    outcome.resume_s = outcome.settled_s = 0;
    outcome.rise_s = end - event;
    bool has_risen = false;
    for (double until = event; until <= end; until += kStep) {
        const double goodput = got(until - 1, until);
        if (goodput < 0.5 * target(until - 1, until)) outcome.resume_s = until - event;
        const double now = is_narrow() ? possible_.at(until) : wanted();
        if (!has_risen && until >= event + 1 && goodput >= 0.85 * now) {
            outcome.rise_s = until - event;
            has_risen = true;
        }
    }
    outcome.settled_s = kNone;
    if (!down_.is_limited()) return;
    // The first time with a short wait for which the median of the next second is short, too.
    const auto second = static_cast<std::size_t>(1 / kStep);
    for (std::size_t sample = static_cast<std::size_t>(event / kStep) + second / 4;
         sample + second < waits_.size(); ++sample) {
        const auto from = waits_.begin() + static_cast<std::ptrdiff_t>(sample);
        if (*from >= 100) continue;
        std::vector<double> next(from, from + static_cast<std::ptrdiff_t>(second));
        if (percentile(next, 0.5) >= 100) continue;
        outcome.settled_s = static_cast<double>(sample) * kStep - event;
        return;
    }
    outcome.settled_s = end - event;
}

void Simulation::measure_waits(Outcome& outcome) {
    const auto skipped = static_cast<std::size_t>(kSettled / kStep);
    if (waits_.size() <= skipped || path_.down.policer_bytes > 0) return;
    std::vector<double> waits(waits_.begin() + static_cast<std::ptrdiff_t>(skipped), waits_.end());
    outcome.q50_ms = percentile(waits, 0.5);
    outcome.q99_ms = percentile(waits, 0.99);
    outcome.qmax_ms = percentile(waits, 1);
}

void Simulation::measure_messages(Outcome& outcome) {
    std::vector<double> down, up;
    for (const auto& flow : flows_) {
        flow->from_server.collect(flow->first_counted(), time(), down);
        flow->from_client.collect(flow->first_counted(), time(), up);
    }
    outcome.msg50_ms = percentile(down, 0.5);
    outcome.msg99_ms = percentile(down, 0.99);
    outcome.up99_ms = percentile(up, 0.99);
}

}  // namespace

double Outcome::lowest_share() const {
    return shares.empty() ? kNone : *std::min_element(shares.begin(), shares.end());
}

double Outcome::highest_share() const {
    return shares.empty() ? kNone : *std::max_element(shares.begin(), shares.end());
}

Outcome run(const PathSpec& path, std::uint64_t seed, double duration_s) {
    return Simulation(path, seed, duration_s).run();
}

}  // namespace shoal::net::impl::paths
