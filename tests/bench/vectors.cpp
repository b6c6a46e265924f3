// Measures the deltas of a vector: an inventory of 40 elements, and usual changes of it.
//
//   build/bench/vectors
//
//   vectors.full_bits             the inventory without a baseline
//   vectors.element_bits          mean of one element in it
//   vectors.<change>_bits         the delta of the entity after the change: image without record header
//   vectors.<change>_bytes        the same in bytes, rounded up
//   vectors.<change>_ns           CPU time to write the delta
//   vectors.random_<count>_ns     CPU time to write the delta of a vector of <count> elements that are all
//   new
//   vectors.names_full_bits       40 strings of 17 letters without a baseline
//   vectors.name_<change>_bits    the delta after a change of one of the strings; also _bytes and _ns
// Numbers of elements are those of the changed vector's baseline.

#include <ctime>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "replication/codec/codec.h"
#include "replication/history/shadow.h"

namespace {

using namespace shoal;
using namespace shoal::replication::impl;

struct Item {
    std::uint16_t kind = 0;
    std::uint8_t count = 0;
};
struct Inventory {
    std::vector<Item> items;
};

double cpu_ns() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

std::vector<Item> random_items(std::size_t count, std::mt19937& random) {
    std::vector<Item> items(count);
    for (Item& item : items)
        item = {static_cast<std::uint16_t>(random() % 1'000), static_cast<std::uint8_t>(1 + random() % 99)};
    return items;
}

struct Names {
    std::vector<std::string> list;
};

void describe(Schema& schema, const Inventory&) {
    schema.component<Inventory>("inventory", field(&Inventory::items, max_length(4'000)));
}
void describe(Schema& schema, const Names&) {
    schema.component<Names>("names",
                            element(&Names::list, max_length(60), inner<std::string>(max_length(40))));
}
template <class T>
const Schema& schema_of() {
    static const Schema schema = [] {
        Schema out;
        describe(out, T{});
        return out;
    }();
    return schema;
}

/// Two versions of an entity that has only an inventory, or only names.
class Versions {
public:
    template <class T>
    Versions(T before, T now) : schema_(schema_of<T>()), shadow_(world_, schema_, 100) {
        const ecs::Entity entity = world_.spawn(std::move(before), Replicated{});
        shadow_.update(1);
        world_.set(entity, std::move(now));
        shadow_.update(2);
    }

    std::size_t full_bits() const { return measure_image(schema_, Image{}, at(1)); }
    std::size_t delta_bits() const { return measure_image(schema_, at(1), at(2)); }
    double delta_ns(int rounds) {
        double best = 1e18;
        for (int round = 0; round < rounds; ++round) {
            out_.clear();
            const double start = cpu_ns();
            write_image(schema_, at(1), at(2), out_);
            best = std::min(best, cpu_ns() - start);
        }
        return best;
    }

private:
    Image at(Tick tick) const { return shadow_[0].versions.at(tick)->image; }

    const Schema& schema_;
    ecs::World world_;
    Shadow shadow_;
    BitWriter out_;
};

void print(const std::string& name, Versions versions) {
    const std::size_t bits = versions.delta_bits();
    std::printf("vectors.%s_bits=%zu\nvectors.%s_bytes=%zu\nvectors.%s_ns=%.0f\n", name.c_str(), bits,
                name.c_str(), (bits + 7) / 8, name.c_str(), versions.delta_ns(1'000));
}

}  // namespace

int main() {
    std::mt19937 random(1);
    const std::vector<Item> items = random_items(40, random);
    const auto changed = [&](const std::string& name, auto&& change) {
        std::vector<Item> now = items;
        change(now);
        print(name, Versions(Inventory{items}, Inventory{now}));
    };
    const std::size_t full_bits = Versions(Inventory{items}, Inventory{}).full_bits();
    std::printf("vectors.full_bits=%zu\nvectors.element_bits=%.1f\n", full_bits,
                static_cast<double>(full_bits) / static_cast<double>(items.size()));
    changed("one_count", [](auto& now) { now[20].count += 1; });
    changed("one_element", [&](auto& now) { now[20] = random_items(1, random)[0]; });
    changed("two_counts", [](auto& now) { now[1].count += 1, now[38].count += 1; });
    changed("two_elements",
            [&](auto& now) { now[1] = random_items(1, random)[0], now[38] = random_items(1, random)[0]; });
    changed("all_counts",
            [](auto& now) { std::for_each(now.begin(), now.end(), [](Item& i) { i.count += 1; }); });
    changed("swap", [](auto& now) { std::swap(now[3], now[36]); });
    changed("move", [](auto& now) { std::rotate(now.begin() + 5, now.begin() + 6, now.begin() + 30); });
    changed("insertion", [&](auto& now) { now.insert(now.begin() + 20, random_items(1, random)[0]); });
    changed("erasure", [](auto& now) { now.erase(now.begin() + 20); });
    changed("append", [&](auto& now) { now.push_back(random_items(1, random)[0]); });
    changed("change_and_append", [&](auto& now) {
        now[5].count += 1;
        now.push_back(random_items(1, random)[0]);
    });
    changed("erase_and_change", [](auto& now) {
        now.erase(now.begin());
        now.back().count += 1;
    });
    changed("three_insertions", [&](auto& now) {
        for (const int at : {35, 20, 5}) now.insert(now.begin() + at, random_items(1, random)[0]);
    });
    changed("clear", [](auto& now) { now.clear(); });
    for (const std::size_t count : {40u, 400u, 4'000u}) {
        const Inventory before{random_items(count, random)};
        Versions versions(before, Inventory{random_items(count, random)});
        std::printf("vectors.random_%zu_ns=%.0f\n", count, versions.delta_ns(100));
    }
    Names names;
    for (int i = 0; i < 40; ++i) names.list.push_back("player number " + std::to_string(100 + i));
    std::printf("vectors.names_full_bits=%zu\n", Versions(names, Names{}).full_bits());
    const auto renamed = [&](const std::string& name, auto&& change) {
        Names now = names;
        change(now.list);
        print("name_" + name, Versions(names, now));
    };
    renamed("letter", [](auto& now) { now[20].back() = 'x'; });
    renamed("other", [](auto& now) { now[20] = "another wolf here"; });
    renamed("longer", [](auto& now) { now[20] += " and his friends"; });
    renamed("insertion", [](auto& now) { now.insert(now.begin() + 20, "another wolf here"); });
    renamed("erasure", [](auto& now) { now.erase(now.begin() + 20); });
    renamed("erase_and_letter", [](auto& now) {
        now.erase(now.begin() + 3);
        now[36].back() = 'x';
    });
}
