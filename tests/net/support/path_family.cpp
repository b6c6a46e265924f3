// All simulated paths for the rate controller.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tests/net/support/paths.h"

namespace shoal::net::impl::paths {
namespace {

std::string text(double value) {
    return std::to_string(std::llround(value));
}

struct Kind {
    const char* name;
    double Jitter::*spread_ms;
};
constexpr std::array<Kind, 3> kKinds{{{"in_order", &Jitter::in_order_ms},
                                      {"out_of_order", &Jitter::out_of_order_ms},
                                      {"correlated", &Jitter::correlated_ms}}};
constexpr std::array<double, 8> kRtts{1, 10, 50, 120, 250, 500, 1000, 1500};

/// A path with `capacity` kB/s towards the client and a queue of `queue_ms` at that rate. Its flow wants
/// three times the capacity.
PathSpec narrow(const std::string& group, const std::string& name, double capacity, double queue_ms,
                double rtt_ms) {
    PathSpec path;
    path.group = group;
    path.name = "c" + text(capacity) + "." + name;
    path.demand = 3'000 * capacity;
    path.down_ms = path.up_ms = rtt_ms / 2;
    path.down.bytes_per_second = 1'000 * capacity;
    path.down.queue_bytes = capacity * queue_ms;
    return path;
}

/// Three demands for each path without a bottleneck.
void add_free(std::vector<PathSpec>& family, const std::string& group, const std::string& name,
              const PathSpec& base) {
    for (const double demand : {20.0, 80.0, 400.0}) {
        PathSpec path = base;
        path.group = group;
        path.name = name + ".d" + text(demand);
        path.demand = 1'000 * demand;
        family.push_back(path);
    }
}

void add_free(std::vector<PathSpec>& family) {
    for (const double rtt : kRtts) {
        PathSpec path;
        path.down_ms = path.up_ms = rtt / 2;
        add_free(family, "free.clean", "rtt" + text(rtt), path);
    }
    for (const Kind& kind : kKinds) {
        for (const double jitter : {5.0, 15.0, 30.0, 40.0, 80.0}) {
            PathSpec path;
            path.down_ms = path.up_ms = std::max(jitter, 50.0);
            path.jitter.*kind.spread_ms = jitter;
            add_free(family, "free.jitter", std::string(kind.name) + ".j" + text(jitter), path);
        }
    }
    for (const double rtt : {40.0, 120.0}) {
        PathSpec path;
        path.down_ms = path.up_ms = rtt / 2;
        path.jitter.pause_every_s = 1;
        add_free(family, "free.pauses", "rtt" + text(rtt), path);
    }
    for (const double grant : {10.0, 20.0, 40.0}) {
        PathSpec path;
        path.down_ms = path.up_ms = 20;
        path.jitter.grant_ms = grant;
        add_free(family, "free.grants", "g" + text(grant), path);
    }
    for (const double rtt : {20.0, 100.0, 250.0}) {
        PathSpec path;
        path.down_ms = path.up_ms = rtt / 2;
        for (const double loss : {5.0, 10.0, 20.0, 30.0}) {
            path.loss = loss / 100;
            add_free(family, "free.loss", "random" + text(loss) + ".rtt" + text(rtt), path);
        }
        path.loss_burst = 8;
        for (const double loss : {5.0, 10.0, 20.0}) {
            path.loss = loss / 100;
            add_free(family, "free.loss", "burst" + text(loss) + ".rtt" + text(rtt), path);
        }
    }
    for (const Kind& kind : {kKinds[0], kKinds[1]}) {
        PathSpec path;
        path.down_ms = path.up_ms = 50;
        path.loss = 0.2;
        path.jitter.*kind.spread_ms = 40;
        add_free(family, "free.loss_jitter", kind.name, path);
    }
    PathSpec slow_back;
    slow_back.down_ms = 10;
    slow_back.up_ms = 150;
    add_free(family, "free.asym", "up150", slow_back);
    PathSpec narrow_back;
    narrow_back.up = {.bytes_per_second = 10'000, .queue_bytes = 10'000};
    add_free(family, "free.asym", "up10kB", narrow_back);
}

void add_events(std::vector<PathSpec>& family) {
    for (const double from : kRtts) {
        for (const double to : kRtts) {
            if (from == to) continue;
            PathSpec path;
            path.group = "free.jump";
            path.name = text(from) + "to" + text(to);
            path.down_ms = path.up_ms = from / 2;
            path.latency_changes = {{10, to / 2}};
            path.event_s = 10;
            path.duration_s = 30;
            family.push_back(path);
        }
    }
    for (const double length : {0.3, 2.0, 8.0}) {
        for (const bool is_server : {true, false}) {
            PathSpec path;
            path.group = "free.stall";
            path.name = std::string(is_server ? "server" : "client") + text(1000 * length) + "ms";
            (is_server ? path.server_stall_s : path.client_stall_s) = length;
            path.event_s = path.stall_at_s + length;
            path.duration_s = 30;
            family.push_back(path);
        }
    }
}

void add_tight(std::vector<PathSpec>& family) {
    for (const double capacity : {10.0, 40.0, 200.0, 1000.0, 2000.0}) {
        for (const double queue : {100.0, 300.0, 1000.0}) {
            for (const double rtt : {10.0, 50.0, 200.0}) {
                const std::string name = "q" + text(queue) + ".rtt" + text(rtt);
                family.push_back(narrow("tight.clean", name, capacity, queue, rtt));
                if (capacity != 200) continue;
                family.push_back(narrow("tight.clean", name + ".d80", capacity, queue, rtt));
                family.back().demand = 80'000;
            }
        }
    }
    for (const double capacity : {200.0, 1000.0})
        for (const double queue : {20.0, 30.0, 50.0})
            family.push_back(narrow("tight.shallow", "q" + text(queue), capacity, queue, 50));
    for (const double capacity : {40.0, 200.0, 1000.0}) {
        for (const double burst : {5'000.0, 20'000.0, 50 * capacity}) {
            const std::string name = burst == 50 * capacity ? "b50ms" : "b" + text(burst / 1000) + "kB";
            family.push_back(narrow("tight.policer", name, capacity, 0, 50));
            family.back().down.policer_bytes = burst;
        }
        for (const Kind& kind : kKinds) {
            for (const double jitter : {15.0, 40.0, 80.0}) {
                const std::string name = std::string(kind.name) + ".j" + text(jitter);
                family.push_back(narrow("tight.jitter", name, capacity, 300, 2 * std::max(jitter, 50.0)));
                family.back().jitter.*kind.spread_ms = jitter;
            }
        }
        family.push_back(narrow("tight.pauses", "rtt100", capacity, 300, 100));
        family.back().jitter.pause_every_s = 1;
        for (const double grant : {10.0, 20.0, 40.0}) {
            family.push_back(narrow("tight.grants", "g" + text(grant), capacity, 300, 100));
            family.back().jitter.grant_ms = grant;
        }
        for (const double loss : {5.0, 20.0}) {
            family.push_back(narrow("tight.loss", "random" + text(loss), capacity, 300, 100));
            family.back().loss = loss / 100;
        }
        family.push_back(narrow("tight.jump", "200to600", capacity, 300, 200));
        family.back().latency_changes = {{20, 300}};
        family.back().event_s = 20;
    }
}

void add_flows(std::vector<PathSpec>& family) {
    for (const std::string group : {"flows.two", "flows.two_late", "flows.eight"}) {
        for (const double capacity : {80.0, 400.0, 2000.0}) {
            if (group == "flows.eight" && capacity == 80) continue;
            for (const std::string name : {"q300", "q30", "jitter30"}) {
                PathSpec path = narrow(group, name, capacity, name == "q30" ? 30 : 300, 50);
                path.flows = group == "flows.eight" ? 8 : 2;
                if (group == "flows.two_late") path.last_joins_s = 10;
                if (name == "jitter30") {
                    path.jitter.in_order_ms = 30;
                    path.down_ms = path.up_ms = 30;
                }
                family.push_back(path);
            }
        }
    }
    for (const double capacity : {200.0, 1000.0}) {
        for (const double queue : {50.0, 100.0, 200.0, 1000.0}) {
            family.push_back(narrow("flows.cubic", "q" + text(queue), capacity, queue, 50));
            family.back().has_cubic = true;
        }
    }
}

void add_changes(std::vector<PathSpec>& family) {
    for (const double capacity : {400.0, 2000.0}) {
        for (const double queue : {50.0, 300.0}) {
            for (const double demand : {1.0, 2.0}) {
                const std::string name =
                    "to" + text(capacity / 10) + ".q" + text(queue) + ".d" + text(capacity * demand);
                PathSpec path = narrow("change.drop", name, capacity, queue, 50);
                path.demand = 1'000 * capacity * demand;
                path.down.changes = {{20, 100 * capacity}};
                path.event_s = 20;
                family.push_back(path);
            }
        }
    }
    for (const double capacity : {40.0, 200.0}) {
        for (const double queue : {50.0, 100.0}) {  // ms at the new capacity, ten times that at the old one
            PathSpec path = narrow("change.rise", "to" + text(10 * capacity) + ".q" + text(queue), capacity,
                                   10 * queue, 50);
            path.demand = 30'000 * capacity;
            path.down.changes = {{20, 10'000 * capacity}};
            path.event_s = 20;
            family.push_back(path);
        }
    }
}

}  // namespace

std::vector<PathSpec> family() {
    std::vector<PathSpec> result;
    add_free(result);
    add_events(result);
    add_tight(result);
    add_flows(result);
    add_changes(result);
    return result;
}

}  // namespace shoal::net::impl::paths
