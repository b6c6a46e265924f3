// Runs the rate controller of net/ over a family of simulated paths: a server sends state to its clients for
// a minute of virtual time per path and seed. The same seeds give the same output. tests/net/support/paths.h
// defines the paths and the measurements.
//
//   build/bench/paths [--only PREFIX[,PREFIX...]] [--seeds FIRST:COUNT] [--duration S] [--part I/N]
//                     [--jobs N] [--each] [--table] [--list]
//
// --only: paths whose group.name begins with PREFIX. --seeds: default 1:3. --duration: default 60; some paths
// have a duration of their own. --part 2/3: the second of every three paths, to run several processes.
// --jobs: threads, default 1. --each: also a line per seed. --table: instead a row per path. --list: only the
// names. CPU time is printed to standard error.
//
//   paths.<group>.<name>.<metric>.<median|worst|best>=   over the seeds
//   paths.<group>.<name>.<metric>.seed<N>=               with --each
//   paths.<group>.all.<metric>.<median|p10|worst>=       over all paths and seeds; p10: the worst tenth
//   paths.<group>.all.fair=                              share of runs in which each of two flows has 40 to
//                                                        60 %, of eight 50 to 170 % of an equal share
//
//   good     goodput divided by the target, from second 3 on. The target is the demand minus the loss, and
//            the goodput is the state that was accepted. If the flows want more than the link carries, the
//            target is its capacity, and the goodput the bytes of datagrams that it passed.
//   first    the same, seconds 3 to 5; minute: the same, from the start to the end
//   when     seconds until goodput over a sliding second first reached 85 % of the target; at least 1
//   q50 ...  waiting time in the bottleneck, ms, from second 3 on
//   drop     share of datagrams that the bottleneck dropped, from second 10 on
//   msg50 .. age of the server's reliable messages at delivery, ms; up99: of the clients' messages
//   gap      longest time without accepted state, ms, from second 3 on
//   low, high  smallest and largest share of a flow; 1 is fair
//   ours     share of the bytes that do not belong to the CUBIC flow
//   resume   seconds from the event (jump, end of a stall, change) until goodput over a second is at least
//            50 % of the target for good
//   settled  seconds from the event until the wait is under 100 ms, and in the median of the second after
//   rise     seconds from the event until goodput over a second is 85 % of the new target; at least 1
//   cut      1: a connection ended

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/net/support/paths.h"

namespace {

using namespace shoal::net::impl::paths;

struct Options {
    std::vector<std::string> only;
    std::uint64_t first_seed = 1;
    std::size_t seeds = 3;
    double duration_s = 60;
    std::size_t part = 1, parts = 1, jobs = 1;
    bool each = false, table = false, list = false;
};

struct Metric {
    const char* name;
    double (*of)(const Outcome&);
    bool more_is_better;
};
constexpr std::array kMetrics{
    Metric{"good", [](const Outcome& o) { return o.good; }, true},
    Metric{"first", [](const Outcome& o) { return o.first; }, true},
    Metric{"minute", [](const Outcome& o) { return o.minute; }, true},
    Metric{"when", [](const Outcome& o) { return o.when_s; }, false},
    Metric{"q50", [](const Outcome& o) { return o.q50_ms; }, false},
    Metric{"q99", [](const Outcome& o) { return o.q99_ms; }, false},
    Metric{"qmax", [](const Outcome& o) { return o.qmax_ms; }, false},
    Metric{"drop", [](const Outcome& o) { return o.drop; }, false},
    Metric{"msg50", [](const Outcome& o) { return o.msg50_ms; }, false},
    Metric{"msg99", [](const Outcome& o) { return o.msg99_ms; }, false},
    Metric{"up99", [](const Outcome& o) { return o.up99_ms; }, false},
    Metric{"gap", [](const Outcome& o) { return o.gap_ms; }, false},
    Metric{"low", [](const Outcome& o) { return o.lowest_share(); }, true},
    Metric{"high", [](const Outcome& o) { return o.highest_share(); }, false},
    Metric{"ours", [](const Outcome& o) { return o.ours; }, true},
    Metric{"resume", [](const Outcome& o) { return o.resume_s; }, false},
    Metric{"settled", [](const Outcome& o) { return o.settled_s; }, false},
    Metric{"rise", [](const Outcome& o) { return o.rise_s; }, false},
    Metric{"cut", [](const Outcome& o) { return o.is_cut ? 1.0 : 0.0; }, false},
};

const Metric& metric(std::string_view name) {
    return *std::find_if(kMetrics.begin(), kMetrics.end(), [&](const Metric& m) { return m.name == name; });
}

/// Measured values, sorted from best to worst.
std::vector<double> values(const Metric& metric, const std::vector<Outcome>& outcomes) {
    std::vector<double> result;
    for (const Outcome& outcome : outcomes)
        if (const double value = metric.of(outcome); !std::isnan(value)) result.push_back(value);
    std::sort(result.begin(), result.end());
    if (metric.more_is_better) std::reverse(result.begin(), result.end());
    return result;
}

double median(const std::vector<double>& sorted) {
    return sorted.empty() ? kNone : sorted[sorted.size() / 2];
}
double worst(const std::vector<double>& sorted) {
    return sorted.empty() ? kNone : sorted.back();
}
double worst_tenth(const std::vector<double>& sorted) {
    return sorted.empty() ? kNone : sorted[sorted.size() - 1 - sorted.size() / 10];
}

bool is_fair(const Outcome& outcome) {
    const bool is_pair = outcome.shares.size() == 2;
    return outcome.lowest_share() >= (is_pair ? 0.8 : 0.5) &&
           outcome.highest_share() <= (is_pair ? 1.2 : 1.7);
}

struct Row {
    PathSpec path;
    std::vector<Outcome> outcomes;  // one per seed
};

void measure(std::vector<Row>& rows, const Options& options) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        for (;;) {
            const std::size_t i = next++;
            if (i >= rows.size() * options.seeds) return;
            Row& row = rows[i / options.seeds];
            const std::size_t seed = i % options.seeds;
            row.outcomes[seed] = run(row.path, options.first_seed + seed, options.duration_s);
        }
    };
    for (Row& row : rows) row.outcomes.resize(options.seeds);
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < options.jobs; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
}

void print_row(const Row& row, const Options& options) {
    const std::string key = "paths." + row.path.group + "." + row.path.name + ".";
    for (const Metric& each : kMetrics) {
        const std::vector<double> sorted = values(each, row.outcomes);
        if (sorted.empty()) continue;
        std::printf("%s%s.median=%.4g\n%s%s.worst=%.4g\n%s%s.best=%.4g\n", key.c_str(), each.name,
                    median(sorted), key.c_str(), each.name, worst(sorted), key.c_str(), each.name,
                    sorted.front());
        if (!options.each) continue;
        for (std::size_t i = 0; i < row.outcomes.size(); ++i) {
            std::printf("%s%s.seed%llu=%.4g\n", key.c_str(), each.name,
                        static_cast<unsigned long long>(options.first_seed + i), each.of(row.outcomes[i]));
        }
    }
}

std::vector<std::string> groups(const std::vector<Row>& rows) {
    std::vector<std::string> result;
    for (const Row& row : rows)
        if (std::find(result.begin(), result.end(), row.path.group) == result.end())
            result.push_back(row.path.group);
    return result;
}

std::vector<Outcome> outcomes_of(const std::vector<Row>& rows, const std::string& group) {
    std::vector<Outcome> result;
    for (const Row& row : rows)
        if (row.path.group == group) result.insert(result.end(), row.outcomes.begin(), row.outcomes.end());
    return result;
}

double fair_part(const std::vector<Outcome>& outcomes) {
    const auto fair = std::count_if(outcomes.begin(), outcomes.end(), is_fair);
    return static_cast<double>(fair) / static_cast<double>(outcomes.size());
}

void print_group(const std::string& group, const std::vector<Outcome>& outcomes) {
    for (const Metric& each : kMetrics) {
        const std::vector<double> sorted = values(each, outcomes);
        if (sorted.empty()) continue;
        const std::string key = "paths." + group + ".all." + each.name;
        std::printf("%s.median=%.4g\n%s.p10=%.4g\n%s.worst=%.4g\n", key.c_str(), median(sorted), key.c_str(),
                    worst_tenth(sorted), key.c_str(), worst(sorted));
    }
    if (!outcomes.front().shares.empty())
        std::printf("paths.%s.all.fair=%.4g\n", group.c_str(), fair_part(outcomes));
}

/// Returns a number as text, or a dash if there is none.
std::string cell(double value, const char* format) {
    if (std::isnan(value)) return "-";
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), format, value);
    return text.data();
}

void print_table_head() {
    std::printf("%-40s %5s %5s %5s %5s %5s %5s %5s %6s %6s %6s %6s %6s %6s %5s %5s %6s %6s %5s\n", "path",
                "good", "worst", "first", "worst", "min", "when", "q50", "q99", "q99w", "drop", "msg99",
                "gap", "gapw", "low", "ours", "resume", "settle", "rise");
}

/// Prints a line of medians and worst values; for a group the limit of the worst tenth instead of the worst.
void print_table_line(const std::string& name, const std::vector<Outcome>& outcomes, bool is_group) {
    const auto middle = [&](const char* what, const char* format) {
        return cell(median(values(metric(what), outcomes)), format);
    };
    const auto bad = [&](const char* what, const char* format) {
        const std::vector<double> sorted = values(metric(what), outcomes);
        return cell(is_group ? worst_tenth(sorted) : worst(sorted), format);
    };
    std::printf(
        "%-40s %5s %5s %5s %5s %5s %5s %5s %6s %6s %6s %6s %6s %6s %5s %5s %6s %6s %5s\n", name.c_str(),
        middle("good", "%.2f").c_str(), bad("good", "%.2f").c_str(), middle("first", "%.2f").c_str(),
        bad("first", "%.2f").c_str(), middle("minute", "%.2f").c_str(), middle("when", "%.1f").c_str(),
        middle("q50", "%.0f").c_str(), middle("q99", "%.0f").c_str(), bad("q99", "%.0f").c_str(),
        middle("drop", "%.3f").c_str(), middle("msg99", "%.0f").c_str(), middle("gap", "%.0f").c_str(),
        bad("gap", "%.0f").c_str(), bad("low", "%.2f").c_str(), middle("ours", "%.2f").c_str(),
        bad("resume", "%.2f").c_str(), bad("settled", "%.2f").c_str(), bad("rise", "%.2f").c_str());
}

void print_table(const std::vector<Row>& rows) {
    print_table_head();
    for (const Row& row : rows) print_table_line(row.path.group + "." + row.path.name, row.outcomes, false);
    std::printf("\nGroups: median, and the worst tenth instead of the worst.\n");
    print_table_head();
    for (const std::string& group : groups(rows)) {
        const std::vector<Outcome> outcomes = outcomes_of(rows, group);
        print_table_line(group, outcomes, true);
        if (!outcomes.front().shares.empty())
            std::printf("%-40s %5.2f of the runs are fair\n", group.c_str(), fair_part(outcomes));
    }
}

template <class Number>
bool parse(std::string_view text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

/// Reads two numbers with `separator` between them.
template <class First, class Second>
bool parse(std::string_view text, char separator, First& first, Second& second) {
    const std::size_t at = text.find(separator);
    return at != text.npos && parse(text.substr(0, at), first) && parse(text.substr(at + 1), second);
}

std::optional<Options> parse(int count, char** arguments) {
    Options options;
    for (int i = 1; i < count; ++i) {
        const std::string_view flag = arguments[i];
        if (flag == "--each" || flag == "--table" || flag == "--list") {
            (flag == "--each" ? options.each : flag == "--table" ? options.table : options.list) = true;
            continue;
        }
        if (++i == count) return std::nullopt;
        std::string_view value = arguments[i];
        bool is_good = false;
        if (flag == "--only") {
            while (!value.empty()) {
                const std::size_t end = std::min(value.find(','), value.size());
                options.only.emplace_back(value.substr(0, end));
                value.remove_prefix(std::min(end + 1, value.size()));
            }
            is_good = true;
        } else if (flag == "--seeds") {
            is_good = parse(value, ':', options.first_seed, options.seeds) && options.seeds > 0;
        } else if (flag == "--duration") {
            is_good = parse(value, options.duration_s) && options.duration_s >= 10;
        } else if (flag == "--part") {
            is_good = parse(value, '/', options.part, options.parts) && options.part >= 1 &&
                      options.part <= options.parts;
        } else if (flag == "--jobs") {
            is_good = parse(value, options.jobs) && options.jobs >= 1;
        }
        if (!is_good) return std::nullopt;
    }
    return options;
}

bool is_wanted(const PathSpec& path, const Options& options) {
    const std::string name = path.group + "." + path.name;
    return options.only.empty() ||
           std::any_of(options.only.begin(), options.only.end(),
                       [&](const std::string& prefix) { return name.starts_with(prefix); });
}

}  // namespace

int main(int count, char** arguments) {
    const std::optional<Options> options = parse(count, arguments);
    if (!options) {
        std::fprintf(stderr, "usage: see tests/bench/paths.cpp\n");
        return 2;
    }
    std::vector<Row> rows;
    std::size_t number = 0;
    for (const PathSpec& path : family()) {
        if (!is_wanted(path, *options)) continue;
        if (number++ % options->parts != options->part - 1) continue;
        if (options->list) std::printf("%s.%s\n", path.group.c_str(), path.name.c_str());
        rows.push_back({path, {}});
    }
    if (options->list || rows.empty()) return 0;
    measure(rows, *options);
    if (options->table) {
        print_table(rows);
    } else {
        for (const Row& row : rows) print_row(row, *options);
        for (const std::string& group : groups(rows)) print_group(group, outcomes_of(rows, group));
    }
    const double cpu = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    std::fprintf(stderr, "%zu paths, %zu seeds, %.1f s of CPU\n", rows.size(), options->seeds, cpu);
}
