// Trains the model of the range coder on traffic, and writes it as a header, as codec/built_in_model.h.
//
//   build/bench/train --recording FILE... [-o MODEL]
//
// It encodes traffic for one client, and counts how each decision is made: the cubes of each recording (see
// trace_file.h), acknowledged 1, 3 and 6 frames later, a made-up match (train_match.h), and the demo with 150
// creatures. The counts of match and demo are halved. Prints the bytes of a frame with the built-in model.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "demo/moves.h"
#include "demo/simulation.h"
#include "replication/send/sender.h"
#include "tests/bench/trace_world.h"
#include "tests/bench/train_match.h"

namespace {

using namespace shoal;
using replication::impl::CodecModel;
using replication::impl::DecisionCounts;
using replication::impl::kBuiltInModel;
using replication::impl::kModelSlots;
using replication::impl::kResidualSlots;
using Counts = std::vector<std::array<double, 2>>;  // by slot

constexpr double kEnough = 50;  // a slot with fewer decisions borrows from its neighbours

/// Returns the counts of the slots that do not depend on the schema, with those of the slots in their place.
Counts folded(const DecisionCounts& counts, const replication::Schema& schema) {
    using namespace replication::impl;
    Counts out(kModelSlots);
    const auto add = [&](unsigned from, unsigned to, unsigned count) {
        for (unsigned i = 0; i < count; ++i)
            for (unsigned value = 0; value < 2; ++value) out[to + i][value] += counts[from + i][value];
    };
    add(0, 0, kModelSlots);
    for (const SchemaComponent& component : schema.components()) {
        const unsigned first = kModelSlots + component.first_slot;
        add(first, kChangedSlot, kChangedSlots);
        for (const LaneGroup& group : component.layout.groups()) {
            add(first + group.slot, kDiffersSlot, kDiffersSlots);
            if (component.layout.lanes()[group.first].kind == LaneKind::real)
                add(first + group.slot + kDiffersSlots, kByBitsSlot, 4);
        }
        for (const Part& part : component.layout.parts()) add(first + part.slot, kDiffersSlot, kDiffersSlots);
    }
    return out;
}

/// Encodes `frames` frames of a world for a peer that acknowledges each one `distance(frame)` frames later.
Counts count(const char* name, ecs::World& world, const replication::Schema& schema, double hz,
             std::size_t frames, const std::function<void(std::size_t)>& step,
             const std::function<std::size_t(std::size_t)>& distance) {
    if (!schema.error().empty()) std::printf("%s: %s\n", name, schema.error().c_str()), std::exit(2);
    replication::impl::SenderOptions options;
    options.tick_hz = hz;
    options.learn_every = 1;
    replication::impl::Sender sender(world, schema, options);
    const auto peer = sender.add_peer();
    std::deque<std::pair<std::size_t, std::uint64_t>> sent;  // frame, packet
    std::uint64_t number = 0;
    std::size_t bytes = 0;
    std::vector<std::byte> room(32'000);
    for (std::size_t frame = 0; frame < frames; ++frame) {
        step(frame);
        for (; !sent.empty() && sent.front().first + distance(frame) <= frame; sent.pop_front())
            sender.on_fate(peer, sent.front().second, true);
        sender.update(static_cast<replication::Tick>(frame + 1));
        const std::size_t size = sender.encode(peer, ++number, room.size(), room).size();
        bytes += size;
        if (size > 0) sent.push_back({frame, number});
    }
    std::printf("train.%s.bytes_per_frame=%.1f\n", name,
                static_cast<double>(bytes) / static_cast<double>(frames));
    return folded(sender.models().learned(), schema);
}

void add(Counts& to, const Counts& counts, double weight) {
    for (unsigned i = 0; i < kModelSlots; ++i)
        for (unsigned value = 0; value < 2; ++value) to[i][value] += weight * counts[i][value];
}

/// The counts of a slot, and, if they are few, of the same decision in residual tables of close scales.
std::array<double, 2> counts_near(const Counts& counts, unsigned slot) {
    std::array<double, 2> out = counts[slot];
    const unsigned table = slot / kResidualSlots, at = slot % kResidualSlots, first = table / 20 * 20;
    if (table >= 80) return out;
    for (unsigned d = 1; d < 20 && out[0] + out[1] < kEnough; ++d)
        for (const int step : {-1, 1}) {
            const int other = static_cast<int>(table) + step * static_cast<int>(d);
            // The slots of classes move with the scale.
            const int place = static_cast<int>(at) + (at >= 4 ? step * static_cast<int>(d) : 0);
            if (other < static_cast<int>(first) || other >= static_cast<int>(first) + 20) continue;
            if (place < (at >= 4 ? 4 : 0) || place >= static_cast<int>(kResidualSlots)) continue;
            for (unsigned value = 0; value < 2; ++value)
                out[value] += counts[static_cast<unsigned>(other) * kResidualSlots +
                                     static_cast<unsigned>(place)][value] /
                              d;
        }
    return out;
}

std::string fit(const Counts& counts) {
    std::string out;
    for (unsigned slot = 0; slot < kModelSlots; ++slot) {
        const auto [zeros, ones] = counts_near(counts, slot);
        unsigned best = 31;
        double least = 1e300;
        for (unsigned i = 0; zeros + ones >= 1 && i < 64; ++i) {
            const double p = replication::impl::kProbabilities[i] / 256.0;
            const double bits = -(zeros + 0.4) * std::log2(1 - p) - (ones + 0.4) * std::log2(p);
            if (bits < least) least = bits, best = i;
        }
        char letter = static_cast<char>('#' + best);
        letter = static_cast<char>(letter + (letter >= '?'));
        out += static_cast<char>(letter + (letter >= '\\'));
    }
    return out;
}

void write(const std::string& table, const std::string& path) {
    FILE* const file = std::fopen(path.c_str(), "w");
    if (!file) std::printf("cannot write %s\n", path.c_str()), std::exit(2);
    std::fputs(
        "#pragma once\n// Written by build/bench/train.\n\nnamespace shoal::replication::impl {\n\n"
        "// One character for each slot of a CodecModel: the index of its probability, from '#' on, without "
        "'?' and the\n// backslash.\ninline constexpr char kTable[] =\n",
        file);
    for (std::size_t i = 0; i < table.size(); i += 104)
        std::fprintf(file, "    \"%s\"%s\n", table.substr(i, 104).c_str(), i + 104 < table.size() ? "" : ";");
    std::fputs("\n}  // namespace shoal::replication::impl\n", file);
    std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> recordings;
    std::string path;
    for (int i = 1; i < argc; ++i) {
        const std::string flag = argv[i];
        if (flag == "-o" && i + 1 < argc)
            path = argv[++i];
        else if (flag != "--recording")
            recordings.push_back(flag);
    }
    Counts total(kModelSlots);
    for (const std::string& recording : recordings) {
        for (const std::size_t distance : {1u, 3u, 6u}) {
            auto cubes = trace::load_cubes(recording);
            if (!cubes) return std::printf("cannot read '%s' as cubes\n", recording.c_str()), 2;
            trace::CubesWorkload workload(std::move(*cubes));
            ecs::World world;
            replication::Schema schema;
            workload.describe(schema);
            const auto counts = count(
                "cubes", world, schema, 60, workload.frame_count(),
                [&](std::size_t frame) { workload.apply(world, frame); },
                [&](std::size_t) { return distance; });
            add(total, counts, 1);
        }
    }
    for (const unsigned seed : {1u, 2u, 3u, 4u}) {
        ecs::World world;
        replication::Schema schema;
        train::Match::describe(schema);
        train::Match match(world, seed);
        const auto counts = count(
            "match", world, schema, train::Match::kHz, 9'000, [&](std::size_t) { match.step(); },
            [&](std::size_t frame) { return seed + frame / 100 % 3; });
        add(total, counts, 0.5);
    }
    {
        ecs::World world;
        const replication::Schema schema = demo::arena_schema();
        demo::load_reefs(world);
        demo::Simulation simulation(world, 150, 1);
        const auto counts = count(
            "demo", world, schema, 30, 3'000, [&](std::size_t) { simulation.step(1 / 30.0f); },
            [&](std::size_t frame) { return 1 + frame / 100 % 6; });
        add(total, counts, 0.5);
    }
    if (!path.empty()) write(fit(total), path);
    return 0;
}
