#pragma once
// Probabilities of the decisions in an image, for a range coder. See README.md.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shoal::replication::all {

class Schema;

/// How decisions become bits.
enum class Coding : std::uint8_t {
    bits,   // each in a whole number of bits
    range,  // by a range coder: fewer bytes, but more time
};

/// The slots that do not depend on the schema. Each residual table has kResidualSlots slots: three of the
/// sign, that of the first decision about the class, and one for each class.
inline constexpr unsigned kResidualSlots = 24, kResidualTables = 120, kLastClass = 19;
inline constexpr unsigned kUsualSlot = kResidualTables * kResidualSlots, kShapeSlot = kUsualSlot + 8,
                          kChangedSlot = kShapeSlot + 4, kDiffersSlot = kChangedSlot + 4,
                          kByBitsSlot = kDiffersSlot + 16, kMantissaSlot = kByBitsSlot + 8,
                          kModelSlots = kMantissaSlot + 4 * 22;

/// What is known of a difference before it is coded.
struct Residual {
    unsigned table;  // below kResidualTables
    unsigned start;  // the class that is most likely, roughly; at most kLastClass
    unsigned sign;   // 0 if the change that is expected is zero, 1 if it is positive, 2 if it is negative

    /// Of a predicted quantity; see trend_order().
    static Residual predicted(unsigned expected, unsigned last, std::uint32_t factor, unsigned sign) {
        const unsigned scale = (std::min)((expected + last + 1) / 3, kLastClass);
        const unsigned reach = (std::min)(static_cast<unsigned>(std::bit_width(factor >> 7)), 3u);
        return {20 * reach + scale, scale, sign};
    }
    /// Of a quantity that would have a Golomb code of this order.
    static Residual plain(unsigned order) { return {80 + (std::min)(order, 15u), (std::min)(order, 15u), 0}; }
    /// Of a whole number in a float whose expected change has `width` bits.
    static Residual whole(unsigned width, unsigned sign) {
        return {96 + (std::min)(width, 20u), (std::min)(width / 2, kLastClass), sign};
    }
    static Residual first_whole() { return {117, 0, 0}; }
    static Residual bits(bool moves) { return {118u + moves, 16, 0}; }
};

/// Returns Residual::sign for an expected change.
inline unsigned sign_of(std::uint32_t change) {
    return change == 0 ? 0 : 1 + (change >> 31);
}

/// Probability, in 1/256, that the decision of each slot is 1. After kModelSlots it has the slots of each
/// component of the schema, in order:
///   kChangedSlots                in place of those from kChangedSlot on
///   each group                   kDiffersSlots in place of those from kDiffersSlot on, then
///     reals                      4 in place of those from kByBitsSlot on
///     a symbol of 2 to 10 bits   3 for each prefix: it is not that of the baseline; else the bit there is 0;
///     1 a longer symbol            2 for each bit, the lowest one first: whether it differs from 0; from 1
///   each part                    kDiffersSlots in place of those from kDiffersSlot on
using CodecModel = std::vector<std::uint8_t>;

/// Trained models have the numbers 1 to kMaxModel, in turn.
inline constexpr std::uint8_t kMaxModel = 3;

/// How often the decision of each slot was 0 and 1.
using DecisionCounts = std::vector<std::array<std::uint32_t, 2>>;

/// The probabilities that a model can have.
inline constexpr std::uint8_t kProbabilities[64] = {
    1,   2,   2,   2,   3,   3,   4,   4,   5,   6,   7,   8,   10,  11,  13,  15,
    18,  21,  24,  28,  33,  38,  44,  50,  57,  65,  73,  82,  92,  102, 112, 123,
    133, 144, 154, 164, 174, 183, 191, 199, 206, 212, 218, 223, 228, 232, 235, 238,
    241, 243, 245, 246, 248, 249, 250, 251, 252, 252, 253, 253, 254, 254, 254, 255};

/// The first kModelSlots of the model that serves every schema.
extern const std::array<std::uint8_t, kModelSlots> kBuiltInModel;

/// Returns kBuiltInModel, with slots for the components.
CodecModel built_in_model(const Schema& schema);

/// Moves the probability of each slot that was counted often to the share of ones, and halves its counts.
void train(CodecModel& model, DecisionCounts& counts);

/// Writes the slots in which a model differs from built_in_model(), and reads them. Any bytes are safe:
/// returns nothing if they are invalid.
std::vector<std::byte> write_model(const CodecModel& model, const Schema& schema);
std::optional<CodecModel> read_model(std::span<const std::byte> bytes, const Schema& schema);

}  // namespace shoal::replication::all
