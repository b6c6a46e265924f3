#pragma once
// Reads and writes little-endian numbers and bytes in a fixed buffer. Writers assert that there is room;
// readers check, because their bytes may come from anybody.

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>

namespace shoal::net::impl {

// load() reads and store() writes a little-endian number at any address, aligned or not. On a little-endian
// processor they use memcpy, because g++ -O2 does not compile the loops to a single load or store.
template <class Word>
Word load(const std::byte* bytes) {
    Word word = 0;
    if constexpr (std::endian::native == std::endian::little)
        std::memcpy(&word, bytes, sizeof(Word));
    else
        for (std::size_t i = 0; i < sizeof(Word); ++i) word |= Word(bytes[i]) << (8 * i);
    return word;
}
template <class Word>
void store(std::byte* bytes, Word word) {
    if constexpr (std::endian::native == std::endian::little)
        std::memcpy(bytes, &word, sizeof(Word));
    else
        for (std::size_t i = 0; i < sizeof(Word); ++i) bytes[i] = std::byte(word >> (8 * i) & 0xFF);
}

/// Appends to a buffer that the caller owns. The buffer must be large enough.
class ByteWriter {
public:
    explicit ByteWriter(std::span<std::byte> buffer) : buffer_(buffer) {}

    /// Writes the low `width` bytes of `value`; width 1 to 8.
    void uint(std::uint64_t value, std::size_t width) {
        assert(width >= 1 && width <= 8 && width <= room());
        for (std::size_t i = 0; i < width; ++i) buffer_[size_ + i] = std::byte(value >> (8 * i) & 0xFF);
        size_ += width;
    }
    void u8(std::uint64_t value) { store(claim(1).data(), static_cast<std::uint8_t>(value)); }
    void u16(std::uint64_t value) { store(claim(2).data(), static_cast<std::uint16_t>(value)); }
    void u32(std::uint64_t value) { store(claim(4).data(), static_cast<std::uint32_t>(value)); }
    void u64(std::uint64_t value) { store(claim(8).data(), value); }

    void bytes(std::span<const std::byte> source) {
        const std::span<std::byte> target = claim(source.size());
        if (!source.empty()) std::memcpy(target.data(), source.data(), source.size());
    }
    /// Returns the next `size` bytes for the caller to fill.
    std::span<std::byte> claim(std::size_t size) {
        assert(size <= room());
        size_ += size;
        return buffer_.subspan(size_ - size, size);
    }
    /// Like claim(), but returns the buffer from its start to the end of the claimed bytes.
    std::span<std::byte> append(std::size_t size) {
        claim(size);
        return buffer_.first(size_);
    }
    /// Appends zeros until size() is `size`. Requires size() <= `size`.
    void pad_to(std::size_t size) { std::ranges::fill(claim(size - size_), std::byte(0)); }
    /// Overwrites the byte at `position`, which was written earlier.
    void patch_u8(std::size_t position, std::uint64_t value) {
        assert(position < size_);
        buffer_[position] = std::byte(value & 0xFF);
    }

    std::size_t size() const { return size_; }
    std::size_t room() const { return buffer_.size() - size_; }
    std::span<const std::byte> written() const { return buffer_.first(size_); }

private:
    std::span<std::byte> buffer_;
    std::size_t size_ = 0;
};

/// Reads from a buffer that the caller owns. A read past the end returns zero or an empty span; from then on
/// every read does, and ok() is false.
class ByteReader {
public:
    explicit ByteReader(std::span<const std::byte> buffer) : buffer_(buffer) {}

    std::uint64_t uint(std::size_t width) {
        const std::span<const std::byte> source = bytes(width);
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < source.size(); ++i) value |= std::uint64_t(source[i]) << (8 * i);
        return value;
    }
    std::uint8_t u8() { return word<std::uint8_t>(); }
    std::uint16_t u16() { return word<std::uint16_t>(); }
    std::uint32_t u32() { return word<std::uint32_t>(); }
    std::uint64_t u64() { return word<std::uint64_t>(); }

    /// Returns a view of the next `size` bytes, or an empty span if fewer remain.
    std::span<const std::byte> bytes(std::size_t size) {
        if (!ok_ || size > remaining()) {
            ok_ = false;
            return {};
        }
        position_ += size;
        return buffer_.subspan(position_ - size, size);
    }
    std::span<const std::byte> rest() { return bytes(remaining()); }

    bool ok() const { return ok_; }
    std::size_t position() const { return position_; }
    std::size_t remaining() const { return buffer_.size() - position_; }

private:
    template <class Word>
    Word word() {
        const std::span<const std::byte> source = bytes(sizeof(Word));
        return source.empty() ? Word(0) : load<Word>(source.data());
    }

    std::span<const std::byte> buffer_;
    std::size_t position_ = 0;
    bool ok_ = true;
};

}  // namespace shoal::net::impl
