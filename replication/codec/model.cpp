#include "model.h"

#include <algorithm>
#include <utility>

#include "../schema/schema.h"
#include "bits.h"
#include "built_in_model.h"

namespace shoal::replication::impl {
namespace {

static_assert(sizeof kTable == kModelSlots + 1);

constexpr unsigned kGapOrder = 1;
constexpr std::uint8_t kFlips = 51;  // a fifth

constexpr std::array<std::uint8_t, kModelSlots> unpacked() {
    std::array<std::uint8_t, kModelSlots> model{};
    for (unsigned i = 0; i < kModelSlots; ++i)
        model[i] = kProbabilities[kTable[i] - '#' - (kTable[i] > '?') - (kTable[i] > '\\')];
    return model;
}

/// Fills the slots of the prefixes of a symbol.
void fill_tree(const Lane& lane, std::uint8_t* slot) {
    for (unsigned prefix = 1; prefix < 1u << lane.bits; ++prefix) {
        const unsigned left = lane.bits + 1u - static_cast<unsigned>(std::bit_width(prefix));
        const bool is_zero = (prefix & (prefix - 1)) == 0;
        *slot++ = !lane.bounded && is_zero && left > 3 ? 64 : 128;
        // Each bit is as likely as the others to be the first one that differs from the baseline.
        *slot++ = static_cast<std::uint8_t>((std::min)(256 / left, 255u));
        *slot++ = static_cast<std::uint8_t>((std::max)(256 - 256 / left, 1u));
    }
}

}  // namespace

constinit const std::array<std::uint8_t, kModelSlots> kBuiltInModel = unpacked();

CodecModel untrained_model(const Schema& schema) {
    CodecModel model(kBuiltInModel.begin(), kBuiltInModel.end());
    const auto copy = [&](unsigned from, unsigned count) {
        model.insert(model.end(), kBuiltInModel.begin() + from, kBuiltInModel.begin() + from + count);
    };
    for (const SchemaComponent& component : schema.components()) {
        if (!component.layout.empty()) copy(kChangedSlot, kChangedSlots);
        for (const LaneGroup& group : component.layout.groups()) {
            const Lane& lane = component.layout.lanes()[group.first];
            copy(kDiffersSlot, kDiffersSlots);
            if (lane.kind == LaneKind::real) {
                copy(kByBitsSlot, 4);
                continue;
            }
            model.resize(model.size() + lane_slots(lane), kFlips);
            if (lane_slots(lane) != 0 && lane.bits <= kTreeBits)
                fill_tree(lane, model.data() + model.size() - lane_slots(lane));
        }
        for (std::size_t i = 0; i < component.layout.parts().size(); ++i) copy(kDiffersSlot, kDiffersSlots);
    }
    return model;
}

void train(CodecModel& model, const DecisionCounts& counts, std::uint64_t enough) {
    for (std::size_t i = 0; i < model.size(); ++i) {
        const auto [zeros, ones] = counts[i];
        const std::uint64_t sum = std::uint64_t{zeros} + ones;
        if (sum < enough) continue;
        const std::uint64_t p =
            (256 * std::uint64_t{ones} + 4 * std::uint64_t{model[i]} + sum / 2) / (sum + 4);
        model[i] = static_cast<std::uint8_t>(std::clamp<std::uint64_t>(p, 1, 255));
    }
}

std::vector<std::byte> write_model(ModelView model, const Schema& schema) {
    const CodecModel untrained = untrained_model(schema);
    BitWriter out;
    for (const unsigned shift : {0u, 32u}) out.write(static_cast<std::uint32_t>(schema.hash() >> shift), 32);
    std::size_t next = 0;
    for (std::size_t i = 0; i < model.size(); ++i) {
        if (model[i] == untrained[i]) continue;
        out.write_golomb(static_cast<std::uint32_t>(i - next), kGapOrder);
        out.write(model[i], 8);
        next = i + 1;
    }
    out.write_golomb(static_cast<std::uint32_t>(model.size() - next), kGapOrder);
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    return bytes;
}

std::optional<CodecModel> read_model(std::span<const std::byte> bytes, const Schema& schema) {
    if (bytes.size() > kMaxModelBytes) return std::nullopt;
    BitReader in(bytes);
    for (const unsigned shift : {0u, 32u})
        if (in.read(32) != static_cast<std::uint32_t>(schema.hash() >> shift)) return std::nullopt;
    CodecModel model = untrained_model(schema);
    for (std::size_t next = 0;; ++next) {
        const std::size_t gap = in.read_golomb(kGapOrder), left = model.size() - next;
        if (!in.ok() || gap > left) return std::nullopt;
        if (gap == left) break;
        next += gap;
        model[next] = static_cast<std::uint8_t>(in.read(8));
        if (model[next] == 0) return std::nullopt;
    }
    return in.at_padding() ? std::optional(std::move(model)) : std::nullopt;
}

}  // namespace shoal::replication::impl
