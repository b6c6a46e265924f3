#pragma once
// Bit streams, least significant bit first, and the code of all numbers that have no fixed length.
// Source of the code: Teuhola, "A compression method for clustered bit-vectors", 1978 (exponential Golomb);
// here with an escape that limits its length.

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace shoal::replication::impl {

/// A prefix of this many ones is followed by the value itself in 32 bits.
inline constexpr unsigned kGolombEscape = 12;
/// Length of the longest Golomb code, of any order.
inline constexpr unsigned kMaxGolombBits = kGolombEscape + 32;

/// Number of ones before the first zero in the Golomb code of order k; from kGolombEscape on an escape.
constexpr unsigned golomb_prefix(std::uint32_t value, unsigned k) {
    return static_cast<unsigned>(std::bit_width((std::uint64_t{value} >> k) + 1)) - 1;
}
constexpr unsigned golomb_bits(std::uint32_t value, unsigned k) {
    const unsigned prefix = golomb_prefix(value, k);
    return prefix >= kGolombEscape ? kMaxGolombBits : 2 * prefix + 1 + k;
}
constexpr std::uint64_t low_bits(std::uint64_t value, unsigned bits) {
    return bits == 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
}

/// A sequence of bits that grows as needed. clear() keeps the memory.
class BitWriter {
public:
    /// Appends the low `bits` bits of `value`, at most 64. The other bits of `value` must be zero.
    void write(std::uint64_t value, unsigned bits) {
        assert(bits <= 64 && low_bits(value, bits) == value);
        const unsigned used = last_bits_;
        last_bits_ += bits;
        last_ |= value << used;
        if (last_bits_ >= 64) push_word(used == 0 ? 0 : value >> (64 - used));
    }
    void write_bool(bool value) { write(value ? 1 : 0, 1); }

    /// Appends the exponential Golomb code of order k <= 31. It has golomb_bits(value, k) bits; small
    /// values have short codes.
    void write_golomb(std::uint32_t value, unsigned k) {
        assert(k < 32);
        const unsigned prefix = golomb_prefix(value, k);
        if (prefix >= kGolombEscape)
            return write(kEscape | std::uint64_t{value} << kGolombEscape, kMaxGolombBits);
        // The code is `prefix` ones, a zero, and all bits of `sum` below its highest one.
        const std::uint64_t sum = value + (std::uint64_t{1} << k);
        const unsigned bits = 2 * prefix + 1 + k;
        write((((2 * sum + 1) << prefix) - 1) ^ std::uint64_t{1} << bits, bits);
    }

    /// Appends `bits` bits of another writer, beginning with its bit `offset`.
    void append(const BitWriter& other, std::size_t offset, std::size_t bits);

    std::size_t bit_count() const { return words_.size() * 64 + last_bits_; }
    std::size_t byte_count() const { return (bit_count() + 7) / 8; }

    /// Copies byte_count() bytes to the front of `bytes`, which must have room. The unused bits of the last
    /// byte are zero.
    void copy_to(std::span<std::byte> bytes) const;
    void clear();

private:
    static constexpr std::uint64_t kEscape = (1u << kGolombEscape) - 1;

    /// Makes last_ a complete word; `next` takes its place.
    [[gnu::noinline]] void push_word(std::uint64_t next);

    std::vector<std::uint64_t> words_;  // all 64 bits are used
    std::uint64_t last_ = 0;            // the bits after words_, then zeros
    unsigned last_bits_ = 0;            // number of bits in last_, less than 64
};

/// Reads the bits of a BitWriter. The bytes must outlive the reader. A read past the end returns 0 and makes
/// ok() false for good: decode everything, then test ok() before you use the values.
class BitReader {
public:
    explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes), end_(bytes.size() * 8) {}

    /// Reads at most 32 bits.
    std::uint32_t read(unsigned bits) {
        assert(bits <= 32);
        const std::uint64_t ahead = peek();
        return take(bits) ? static_cast<std::uint32_t>(low_bits(ahead, bits)) : 0;
    }
    bool read_bool() { return read(1) != 0; }

    /// Reads a Golomb code of order k <= 31. Fails if write_golomb() writes the value with another code.
    std::uint32_t read_golomb(unsigned k) {
        assert(k < 32);
        const std::uint64_t ahead = peek();
        const unsigned prefix = static_cast<unsigned>(std::countr_one(ahead));
        if (prefix >= kGolombEscape) return read_escaped(k);
        const std::uint64_t rest = low_bits(ahead >> (prefix + 1), prefix + k);
        const std::uint64_t value = rest + (((std::uint64_t{1} << prefix) - 1) << k);
        if (value > 0xffffffffu) fail();
        return take(2 * prefix + 1 + k) ? static_cast<std::uint32_t>(value) : 0;
    }

    /// The 32 bits that begin `ahead` bits after the next one. After the last byte they are zero.
    std::uint32_t look(std::size_t ahead) const {
        BitReader later = *this;
        later.position_ += ahead;
        return static_cast<std::uint32_t>(later.peek() & 0xffffffffu);
    }
    bool is_beyond(std::size_t ahead) const { return position_ + ahead > end_; }
    void skip(std::size_t bits) { position_ += bits; }

    bool ok() const { return position_ <= end_; }
    /// Requires ok().
    std::size_t bits_read() const { return position_; }
    void fail() {
        position_ = 1;
        end_ = 0;
    }

    /// Returns whether ok() is true and at most 7 bits are left, all zero, as after BitWriter::copy_to().
    bool at_padding() const;

private:
    /// Returns the bits ahead, at least 57. After the last byte they are zero.
    std::uint64_t peek() const {
        const std::size_t first = position_ / 8;
        if constexpr (std::endian::native == std::endian::little)
            if (first + 8 <= bytes_.size()) {
                std::uint64_t ahead;
                std::memcpy(&ahead, bytes_.data() + first, 8);
                return ahead >> (position_ % 8);
            }
        return peek_bytes(first);
    }
    [[gnu::noinline]] std::uint64_t peek_bytes(std::size_t first) const;

    bool take(unsigned bits) {
        position_ += bits;
        return position_ <= end_;
    }
    [[gnu::noinline]] std::uint32_t read_escaped(unsigned k);

    std::span<const std::byte> bytes_;
    std::size_t position_ = 0;  // in bits
    std::size_t end_;           // in bits; less than position_ after a failure
};

/// Maps a signed difference to an unsigned number: 0, -1, 1, -2, 2 to 0, 1, 2, 3, 4.
constexpr std::uint32_t zigzag(std::uint32_t difference) {
    return (difference << 1) ^ (0u - (difference >> 31));
}
constexpr std::uint32_t unzigzag(std::uint32_t folded) {
    return (folded >> 1) ^ (0u - (folded & 1));
}

}  // namespace shoal::replication::impl
