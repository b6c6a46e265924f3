#pragma once
// Coders that take less than a bit for a decision that is likely. Source of the idea: Martin, "Range
// encoding", 1979. See README.md.

#include "coder.h"
#include "model.h"

namespace shoal::replication::impl {

/// How numbers become decisions, for all that codes or counts them.
template <class Self>
class Decisions {
public:
    bool flag(bool value) { return self().fixed(value, 1) != 0; }
    bool flag(bool value, unsigned slot) { return self().decide(value, slot); }

    std::uint32_t golomb(std::uint32_t value, unsigned k) {
        const unsigned goal = golomb_prefix(value, k);
        unsigned prefix = 0;
        while (prefix < kGolombEscape && flag(prefix < goal)) ++prefix;
        if (prefix == kGolombEscape) {
            value = self().fixed(value, 32);
            if (golomb_prefix(value, k) < kGolombEscape) self().fail();
            return value;
        }
        const std::uint32_t first = static_cast<std::uint32_t>(((std::uint64_t{1} << prefix) - 1) << k);
        const std::uint32_t rest = self().fixed(value - first, prefix + k);
        if (first + rest < first) self().fail();
        return first + rest;
    }

    std::uint32_t symbol(std::uint32_t value, std::optional<std::uint32_t> base, const Lane& lane,
                         unsigned slot) {
        if (slot != 0 && lane.bits <= kTreeBits) return tree(value, base, lane.bits, slot);
        if (slot == 0 || !base)
            return lane.bounded ? self().fixed(value, lane.bits) : golomb(value, kSymbolOrder);
        std::uint32_t flips = 0;
        for (unsigned i = lane.bits; i-- > 0;) {
            const bool flip = ((value ^ *base) >> i & 1) != 0;
            flips = 2 * flips + self().decide(flip, slot + 2 * i + (*base >> i & 1));
        }
        return *base ^ flips;
    }

    std::uint32_t residual(std::uint32_t folded, unsigned, const Residual& of) {
        const std::uint32_t size = code_size((folded >> 1) + (folded & 1), of);
        if (size == 0) return 0;
        const bool is_negative = self().decide((folded & 1) != 0, of.table * kResidualSlots + of.sign);
        if (size > 0x8000'0000u - !is_negative) self().fail();
        return 2 * size - is_negative;
    }

private:
    Self& self() { return static_cast<Self&>(*this); }

    /// The bits of a symbol, the highest one first. Each has three slots for each prefix.
    std::uint32_t tree(std::uint32_t value, std::optional<std::uint32_t> base, unsigned bits, unsigned slot) {
        std::uint32_t prefix = 1;
        for (unsigned i = bits; i-- > 0;) {
            const unsigned old = base ? 1 + (*base >> i & 1) : 0;
            const bool bit = self().decide((value >> i & 1) != 0, slot + 3 * (prefix - 1) + old);
            if (old != 1 + unsigned{bit}) base.reset();
            prefix = 2 * prefix + bit;
        }
        return prefix - (1u << bits);
    }

    std::uint32_t code_size(std::uint32_t size, const Residual& of) {
        const unsigned goal = static_cast<unsigned>(std::bit_width(size));
        const unsigned first = of.table * kResidualSlots + 3;
        unsigned width = of.start;  // of the size: its class
        const auto slot = [&] { return first + 1 + (std::min)(width, kLastClass); };
        if (self().decide(goal >= width, first)) {
            while (width < 32 && self().decide(goal > width, slot())) ++width;
        } else if (width > 0) {
            while (--width > 0 && self().decide(goal < width, slot())) {
            }
        } else {
            self().fail();  // no writer says that a class is under 0
        }
        if (width < 2) return width;
        const unsigned mantissa = kMantissaSlot + 4 * (std::min)(width, 21u);
        const bool high = self().decide((size >> (width - 2) & 1) != 0, mantissa);
        std::uint32_t out = 2 + high;
        if (width == 2) return out;
        out = 2 * out + self().decide((size >> (width - 3) & 1) != 0, mantissa + 1 + high);
        if (width == 3) return out;
        const std::uint32_t rest = self().fixed(size & ((1u << (width - 3)) - 1), width - 3);
        return out << (width - 3) | rest;
    }
};

/// The length of the string that a range coder ends with, given the last interval.
struct RangeEnd {
    std::uint64_t bits;  // the string, from the highest bit on
    unsigned count;

    RangeEnd(std::uint64_t low, std::uint64_t range) {
        count = static_cast<unsigned>(std::countl_zero(range)) + 1;
        if (!fits(low, range)) ++count, static_cast<void>(fits(low, range));
    }

private:
    /// Returns whether all strings that begin with `count` bits are in the interval.
    bool fits(std::uint64_t low, std::uint64_t range) {
        const std::uint64_t size = std::uint64_t{1} << (64 - count), gap = (0 - low) & (size - 1);
        bits = low + gap;
        return gap <= range - size;
    }
};

inline constexpr std::uint64_t kLeastRange = std::uint64_t{1} << 32;

/// Returns the bits in reverse order.
constexpr std::uint32_t reversed(std::uint32_t x) {
    x = (x >> 16) | (x << 16);
    x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    return (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
}

class RangeEncoder : public Decisions<RangeEncoder> {
public:
    static constexpr bool kReads = false;
    RangeEncoder(BitWriter& out, ModelView model) : out_(out), model_(model.data()) {}

    bool decide(bool value, unsigned slot) {
        const std::uint64_t ones = (range_ >> 8) * model_[slot];
        range_ -= ones;
        if (value) {
            add(range_);
            range_ = ones;
        }
        if (range_ < kLeastRange) shift();
        return value;
    }
    std::uint32_t fixed(std::uint32_t value, unsigned bits) {
        for (unsigned i = bits; i-- > 0;) {
            range_ >>= 1;
            add(range_ & (0 - (std::uint64_t{value} >> i & 1)));
            if (range_ < kLeastRange) shift();
        }
        return value;
    }
    bool ok() const { return true; }
    void fail() {}

    /// Call it once, after the last decision.
    void finish() {
        const RangeEnd end(low_, range_);
        add(end.bits - low_);
        write_held();
        const std::uint64_t first = reversed(static_cast<std::uint32_t>(low_ >> 32));
        const std::uint64_t rest = reversed(static_cast<std::uint32_t>(low_));
        out_.write(low_bits(rest << 32 | first, end.count), end.count);
    }

private:
    void add(std::uint64_t more) {
        low_ += more;
        carries_ |= low_ < more;
    }
    /// Takes 32 bits from low_. They are held back, because a carry can still change them.
    [[gnu::noinline]] void shift() {
        const auto word = static_cast<std::uint32_t>(low_ >> 32);
        low_ <<= 32;
        range_ <<= 32;
        if (held_words_ == 0 || carries_ || word != 0xffffffffu) {
            write_held();
            held_ = word;
        }
        held_words_ += 1;
    }
    /// Writes the words that are held: the first one, then words of ones.
    void write_held() {
        if (held_words_ > 0) out_.write(reversed(held_ + carries_), 32);
        for (; held_words_ > 1; --held_words_) out_.write(carries_ ? 0 : 0xffffffffu, 32);
        held_words_ = 0;
        carries_ = false;
    }

    BitWriter& out_;
    const std::uint8_t* const model_;
    std::uint64_t low_ = 0, range_ = ~std::uint64_t{0};
    std::uint32_t held_ = 0;
    std::size_t held_words_ = 0;
    bool carries_ = false;
};

/// Counts the decisions that RangeEncoder codes.
class DecisionCounter : public Decisions<DecisionCounter> {
public:
    static constexpr bool kReads = false;
    explicit DecisionCounter(DecisionCounts& counts) : counts_(counts) {}

    bool decide(bool value, unsigned slot) {
        auto& counts = counts_[slot];
        if ((counts[value] += 1) >> 31 != 0) counts[0] /= 2, counts[1] /= 2;
        return value;
    }
    std::uint32_t fixed(std::uint32_t value, unsigned) { return value; }
    bool ok() const { return true; }
    void fail() {}

private:
    DecisionCounts& counts_;
};

/// Reads a string of RangeEncoder. Any bits are safe: past the end it reads zeros, and then fails.
class RangeDecoder : public Decisions<RangeDecoder> {
public:
    static constexpr bool kReads = true;
    RangeDecoder(BitReader& in, ModelView model) : in_(in), model_(model.data()) {
        shift();
        shift();
    }

    bool decide(bool, unsigned slot) {
        const std::uint64_t ones = (range_ >> 8) * model_[slot];
        range_ -= ones;
        const bool value = offset_ >= range_;
        if (value) {
            offset_ -= range_;
            range_ = ones;
        }
        if (range_ < kLeastRange) shift();
        return value;
    }
    std::uint32_t fixed(std::uint32_t, unsigned bits) {
        std::uint32_t value = 0;
        for (; bits > 0; --bits) {
            range_ >>= 1;
            const bool bit = offset_ >= range_;
            offset_ -= range_ & (0 - std::uint64_t{bit});
            value = 2 * value + bit;
            if (range_ < kLeastRange) shift();
        }
        return value;
    }
    bool ok() const { return in_.ok(); }
    void fail() {
        in_.fail();
        window_ = offset_ = 0;  // all decisions are 0 from now on
    }

    /// Leaves the reader after the string. Call it once, after the last decision.
    void finish() {
        if (offset_ >= range_) fail();
        const RangeEnd end(window_ - offset_, range_);
        in_.skip(at_ - 64 + end.count);
        if ((window_ ^ end.bits) >> (64 - end.count) != 0) fail();  // not what a writer ends with
    }

private:
    [[gnu::noinline]] void shift() {
        if (at_ >= 64 && offset_ >= range_) fail();
        const std::uint64_t word = reversed(in_.look(at_));
        window_ = window_ << 32 | word;
        offset_ = offset_ << 32 | (in_.ok() ? word : 0);
        if (at_ >= 64) range_ <<= 32;
        at_ += 32;
        if (at_ > 96 && in_.is_beyond(at_ - 96)) fail();
    }

    BitReader& in_;
    const std::uint8_t* const model_;
    std::uint64_t window_ = 0, offset_ = 0, range_ = ~std::uint64_t{0};  // offset_: window_ minus the low end
    std::size_t at_ = 0;  // bits that were read, with those of window_
};

}  // namespace shoal::replication::impl
