#pragma once
// Coders of decisions. A format is one function template over a coder: the same traversal writes, reads and
// measures it.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "../schema/lanes.h"
#include "bits.h"
#include "model.h"

namespace shoal::replication::impl {

inline constexpr unsigned kSymbolOrder = 3;

/// A coder of bits: it has no use for probabilities.
template <class Self>
struct BitCoder {
    bool flag(bool value, unsigned) { return static_cast<Self*>(this)->flag(value); }
    std::uint32_t symbol(std::uint32_t value, std::optional<std::uint32_t>, const Lane& lane, unsigned) {
        Self& self = *static_cast<Self*>(this);
        return lane.bounded ? self.fixed(value, lane.bits) : self.golomb(value, kSymbolOrder);
    }
    std::uint32_t residual(std::uint32_t folded, unsigned k, const Residual&) {
        return static_cast<Self*>(this)->golomb(folded, k);
    }
};

/// Codes one decision per call. A coder that writes or measures takes the decision from the argument and
/// returns it; a coder that reads ignores the argument and returns the decision that it reads. Only a reader
/// can fail: it then returns 0 from every later call, and ok() is false for good.
template <class C>
concept Coder = requires(C& coder, std::uint32_t value, unsigned n, bool flag, const Residual& of,
                         std::optional<std::uint32_t> base, const Lane& lane) {
    { C::kReads } -> std::convertible_to<bool>;
    { coder.fixed(value, n) } -> std::same_as<std::uint32_t>;  // `value` in n bits, 0..32
    { coder.flag(flag) } -> std::same_as<bool>;
    { coder.flag(flag, n) } -> std::same_as<bool>;  // with the probability in slot n of a CodecModel
    { coder.golomb(value, n) } -> std::same_as<std::uint32_t>;  // Golomb code of order n, 0..31
    // A symbol of at least two bits. `base`: its value in the baseline. n: its first slot, or 0.
    { coder.symbol(value, base, lane, n) } -> std::same_as<std::uint32_t>;
    { coder.residual(value, n, of) } -> std::same_as<std::uint32_t>;  // zigzag of a difference
    { coder.ok() } -> std::same_as<bool>;
    coder.fail();
};

class BitEncoder : public BitCoder<BitEncoder> {
public:
    using BitCoder::flag;
    static constexpr bool kReads = false;
    explicit BitEncoder(BitWriter& out) : out_(out) {}

    std::uint32_t fixed(std::uint32_t value, unsigned bits) { return out_.write(value, bits), value; }
    bool flag(bool value) { return out_.write_bool(value), value; }
    std::uint32_t golomb(std::uint32_t value, unsigned k) { return out_.write_golomb(value, k), value; }
    bool ok() const { return true; }
    void fail() {}

private:
    BitWriter& out_;
};

class BitDecoder : public BitCoder<BitDecoder> {
public:
    using BitCoder::flag;
    static constexpr bool kReads = true;
    explicit BitDecoder(BitReader& in) : in_(in) {}

    std::uint32_t fixed(std::uint32_t, unsigned bits) { return in_.read(bits); }
    bool flag(bool) { return in_.read_bool(); }
    std::uint32_t golomb(std::uint32_t, unsigned k) { return in_.read_golomb(k); }
    bool ok() const { return in_.ok(); }
    void fail() { in_.fail(); }

private:
    BitReader& in_;
};

/// Counts the bits that BitEncoder would write.
class BitCounter : public BitCoder<BitCounter> {
public:
    using BitCoder::flag;
    static constexpr bool kReads = false;

    std::uint32_t fixed(std::uint32_t value, unsigned bits) { return bits_ += bits, value; }
    bool flag(bool value) { return bits_ += 1, value; }
    std::uint32_t golomb(std::uint32_t value, unsigned k) { return bits_ += golomb_bits(value, k), value; }
    bool ok() const { return true; }
    void fail() {}

    std::size_t bits() const { return bits_; }

private:
    std::size_t bits_ = 0;
};

}  // namespace shoal::replication::impl
