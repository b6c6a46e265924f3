#include "bits.h"

#include <algorithm>

namespace shoal::replication::impl {

// The Golomb codes are specified in ../WIRE.md.

void BitWriter::push_word(std::uint64_t next) {
    words_.push_back(last_);
    last_ = next;
    last_bits_ -= 64;
}

void BitWriter::append(const BitWriter& other, std::size_t offset, std::size_t bits) {
    assert(&other != this && offset + bits <= other.bit_count());
    const auto word = [&](std::size_t i) { return i < other.words_.size() ? other.words_[i] : other.last_; };
    const unsigned shift = offset % 64;
    for (std::size_t i = offset / 64; bits > 0; ++i) {
        const unsigned count = static_cast<unsigned>(std::min<std::size_t>(bits, 64));
        std::uint64_t chunk = word(i) >> shift;
        if (shift + count > 64) chunk |= word(i + 1) << (64 - shift);
        write(low_bits(chunk, count), count);
        bits -= count;
    }
}

void BitWriter::copy_to(std::span<std::byte> bytes) const {
    assert(bytes.size() >= byte_count());
    const std::size_t whole = words_.size() * 8;
    if constexpr (std::endian::native == std::endian::little) {
        if (whole != 0) std::memcpy(bytes.data(), words_.data(), whole);
    } else {
        for (std::size_t i = 0; i < whole; ++i)
            bytes[i] = static_cast<std::byte>(words_[i / 8] >> (i % 8 * 8) & 0xff);
    }
    for (std::size_t i = whole; i < byte_count(); ++i)
        bytes[i] = static_cast<std::byte>(last_ >> (i % 8 * 8) & 0xff);
}

void BitWriter::clear() {
    words_.clear();
    last_ = 0;
    last_bits_ = 0;
}

std::uint64_t BitReader::peek_bytes(std::size_t first) const {
    std::uint64_t ahead = 0;
    for (std::size_t i = first; i < std::min(first + 8, bytes_.size()); ++i)
        ahead |= std::to_integer<std::uint64_t>(bytes_[i]) << ((i - first) * 8);
    return ahead >> (position_ % 8);
}

std::uint32_t BitReader::read_escaped(unsigned k) {
    const std::uint32_t value = static_cast<std::uint32_t>(peek() >> kGolombEscape & 0xffffffffu);
    if (golomb_prefix(value, k) < kGolombEscape) fail();
    return take(kMaxGolombBits) ? value : 0;
}

bool BitReader::at_padding() const {
    if (!ok() || end_ - position_ >= 8) return false;
    if (position_ % 8 == 0) return true;
    return std::to_integer<unsigned>(bytes_[position_ / 8]) >> (position_ % 8) == 0;
}

}  // namespace shoal::replication::impl
