#include "bits.h"

#include <algorithm>

namespace shoal::replication {

// Golomb code of order k:
//   bits     field    meaning
//   p + 1    prefix   p ones, then a zero; p is 0 to 11
//   p + k    rest     value - ((2^p - 1) << k)
// or, if p would be 12 or more (escape): 12 ones, then the value in 32 bits.
// Rejected: an escape for a value with p below 12; a value of more than 32 bits.

void BitWriter::write_golomb(std::uint32_t value, unsigned k) {
    assert(k < 32);
    const std::uint64_t shifted = (std::uint64_t{value} >> k) + 1;
    const unsigned prefix = static_cast<unsigned>(std::bit_width(shifted)) - 1;
    if (prefix >= kGolombEscape) {
        write((1u << kGolombEscape) - 1, kGolombEscape);
        write(value, 32);
        return;
    }
    write((1u << prefix) - 1, prefix + 1);
    const std::uint64_t rest = value - (((std::uint64_t{1} << prefix) - 1) << k);
    const unsigned width = prefix + k;
    write(static_cast<std::uint32_t>(rest & 0xffffffffu), std::min(width, 32u));
    if (width > 32) write(static_cast<std::uint32_t>(rest >> 32), width - 32);
}

void BitWriter::append(const BitWriter& other, std::size_t offset, std::size_t bits) {
    assert(&other != this && offset + bits <= other.bit_count_);
    while (bits > 0) {
        const unsigned take = static_cast<unsigned>(std::min<std::size_t>(bits, 32));
        const unsigned shift = offset % 64;
        std::uint64_t chunk = other.words_[offset / 64] >> shift;
        if (shift + take > 64) chunk |= other.words_[offset / 64 + 1] << (64 - shift);
        write(static_cast<std::uint32_t>(chunk & ((std::uint64_t{1} << take) - 1)), take);
        offset += take;
        bits -= take;
    }
}

void BitWriter::copy_to(std::span<std::byte> bytes) const {
    assert(bytes.size() >= byte_count());
    for (std::size_t i = 0; i < byte_count(); ++i)
        bytes[i] = static_cast<std::byte>(words_[i / 8] >> (i % 8 * 8) & 0xff);
}

void BitWriter::clear() {
    const std::size_t used = std::min(bit_count_ / 64 + 2, words_.size());
    std::fill_n(words_.begin(), used, std::uint64_t{0});
    bit_count_ = 0;
}

std::uint32_t BitReader::read(unsigned bits) {
    assert(bits <= 32);
    if (position_ + bits > bytes_.size() * 8) ok_ = false;
    if (!ok_) return 0;
    const std::size_t first = position_ / 8;
    const std::size_t last = std::min(first + 5, bytes_.size());
    std::uint64_t chunk = 0;
    for (std::size_t i = first; i < last; ++i)
        chunk |= std::to_integer<std::uint64_t>(bytes_[i]) << ((i - first) * 8);
    chunk >>= position_ % 8;
    position_ += bits;
    return static_cast<std::uint32_t>(chunk & ((std::uint64_t{1} << bits) - 1));
}

std::uint32_t BitReader::read_golomb(unsigned k) {
    assert(k < 32);
    unsigned prefix = 0;
    while (prefix < kGolombEscape && read_bool()) ++prefix;
    if (prefix == kGolombEscape) {
        const std::uint32_t value = read(32);
        if (golomb_bits(value, k) != kGolombEscape + 32) fail();
        return ok_ ? value : 0;
    }
    const unsigned width = prefix + k;
    std::uint64_t rest = read(std::min(width, 32u));
    if (width > 32) rest |= std::uint64_t{read(width - 32)} << 32;
    const std::uint64_t value = rest + (((std::uint64_t{1} << prefix) - 1) << k);
    if (value > 0xffffffffu) fail();
    return ok_ ? static_cast<std::uint32_t>(value) : 0;
}

bool BitReader::at_padding() const {
    if (!ok_ || bytes_.size() * 8 - position_ >= 8) return false;
    if (position_ % 8 == 0) return true;
    return std::to_integer<unsigned>(bytes_[position_ / 8]) >> (position_ % 8) == 0;
}

}  // namespace shoal::replication
