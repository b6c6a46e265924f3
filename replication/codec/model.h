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

namespace shoal::replication::impl {

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

/// Probability, in 1/256 and not 0, that the decision of each slot is 1. The built-in model, which serves
/// every schema, has kModelSlots. A trained model has slots after them, for each component that is not
/// empty, in the order of the schema:
///   4 in place of those from kChangedSlot on; then for each group, and after all groups for each part
///   16 in place of those from kDiffersSlot on; then for a group
///     of reals: 4 in place of those from kByBitsSlot on
///     of symbols of 2 to 10 bits: 3 for each prefix, see Decisions::symbol()
///     of longer symbols: 2 for each bit
using CodecModel = std::vector<std::uint8_t>;
using ModelView = std::span<const std::uint8_t>;  // empty: plain bits

/// Trained models have the numbers 1 to kMaxModel, in turn.
inline constexpr std::uint8_t kMaxModel = 3;
inline constexpr std::size_t kMaxModelBytes = 8'192;  // of write_model()

/// How often the decision of each slot was 0 and 1.
using DecisionCounts = std::vector<std::array<std::uint32_t, 2>>;

/// The probabilities that a model can have.
inline constexpr std::uint8_t kProbabilities[64] = {
    1,   2,   2,   2,   3,   3,   4,   4,   5,   6,   7,   8,   10,  11,  13,  15,
    18,  21,  24,  28,  33,  38,  44,  50,  57,  65,  73,  82,  92,  102, 112, 123,
    133, 144, 154, 164, 174, 183, 191, 199, 206, 212, 218, 223, 228, 232, 235, 238,
    241, 243, 245, 246, 248, 249, 250, 251, 252, 252, 253, 253, 254, 254, 254, 255};

extern const std::array<std::uint8_t, kModelSlots> kBuiltInModel;

/// Returns a trained model that has learned nothing.
CodecModel untrained_model(const Schema& schema);

/// Moves the probability of each slot that was counted `enough` times to the share of ones.
void train(CodecModel& model, const DecisionCounts& counts, std::uint64_t enough = 12);

/// Writes the hash of the schema, and the slots in which a model differs from untrained_model().
std::vector<std::byte> write_model(ModelView model, const Schema& schema);
/// Any bytes are safe: returns nothing if they are invalid or too many, or of another schema.
std::optional<CodecModel> read_model(std::span<const std::byte> bytes, const Schema& schema);

}  // namespace shoal::replication::impl
