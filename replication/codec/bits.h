#pragma once
// Bit streams, least significant bit first, and the code of all numbers that have no fixed length.
// Source of the code: Teuhola, "A compression method for clustered bit-vectors", 1978 (exponential Golomb);
// here with an escape that limits its length.

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal::replication {

/// A sequence of bits that grows as needed. clear() keeps the memory.
class BitWriter {
public:
    /// Appends the low `bits` bits of `value`, at most 32. The other bits of `value` must be zero.
    void write(std::uint32_t value, unsigned bits) {
        assert(bits <= 32 && (bits == 32 || value >> bits == 0));
        const std::size_t word = bit_count_ / 64;
        const unsigned shift = bit_count_ % 64;
        if (word + 2 > words_.size()) words_.resize(word * 2 + 16);
        words_[word] |= std::uint64_t{value} << shift;
        if (shift + bits > 64) words_[word + 1] |= std::uint64_t{value} >> (64 - shift);
        bit_count_ += bits;
    }
    void write_bool(bool value) { write(value ? 1 : 0, 1); }

    /// Appends the exponential Golomb code of order k <= 31. It has golomb_bits(value, k) bits; small
    /// values have short codes.
    void write_golomb(std::uint32_t value, unsigned k);

    /// Appends `bits` bits of another writer, beginning with its bit `offset`.
    void append(const BitWriter& other, std::size_t offset, std::size_t bits);

    std::size_t bit_count() const { return bit_count_; }
    std::size_t byte_count() const { return (bit_count_ + 7) / 8; }

    /// Copies byte_count() bytes to the front of `bytes`, which must have room. The unused bits of the last
    /// byte are zero.
    void copy_to(std::span<std::byte> bytes) const;
    void clear();

private:
    std::vector<std::uint64_t> words_;  // all bits from bit_count_ on are zero
    std::size_t bit_count_ = 0;
};

/// Reads the bits of a BitWriter. The bytes must outlive the reader. A read past the end returns 0 and makes
/// ok() false for good: decode everything, then test ok() before you use the values.
class BitReader {
public:
    explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::uint32_t read(unsigned bits);
    bool read_bool() { return read(1) != 0; }
    std::uint32_t read_golomb(unsigned k);

    bool ok() const { return ok_; }
    void fail() { ok_ = false; }

    /// Returns whether ok() is true and at most 7 bits are left, all zero, as after BitWriter::copy_to().
    bool at_padding() const;

private:
    std::span<const std::byte> bytes_;
    std::size_t position_ = 0;  // in bits
    bool ok_ = true;
};

/// A prefix of this many ones is followed by the value itself in 32 bits.
inline constexpr unsigned kGolombEscape = 12;

constexpr unsigned golomb_bits(std::uint32_t value, unsigned k) {
    const unsigned prefix = static_cast<unsigned>(std::bit_width((std::uint64_t{value} >> k) + 1)) - 1;
    return prefix >= kGolombEscape ? kGolombEscape + 32 : 2 * prefix + 1 + k;
}
constexpr unsigned max_golomb_bits(unsigned k) {
    const unsigned longest = 2 * (kGolombEscape - 1) + 1 + k;
    return longest > kGolombEscape + 32 ? longest : kGolombEscape + 32;
}

/// Maps a signed difference to an unsigned number: 0, -1, 1, -2, 2 to 0, 1, 2, 3, 4.
constexpr std::uint32_t zigzag(std::uint32_t difference) {
    return (difference << 1) ^ (0u - (difference >> 31));
}
constexpr std::uint32_t unzigzag(std::uint32_t folded) {
    return (folded >> 1) ^ (0u - (folded & 1));
}

}  // namespace shoal::replication
