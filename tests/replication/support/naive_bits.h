#pragma once
// Numbers and bits of the second decoder, see naive_decoder.h.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace naive_replication {

// Numbers

/// Returns the number of bits of a value without leading zeros.
inline unsigned width_of(std::uint64_t value) {
    unsigned width = 0;
    for (; value != 0; value /= 2) ++width;
    return width;
}

inline std::uint32_t zigzag(std::uint32_t d) {
    return (d << 1) ^ ((d >> 31) != 0 ? 0xffffffffu : 0u);
}
/// The number whose zigzag is `code`.
inline std::uint32_t unzigzag(std::uint32_t code) {
    return (code >> 1) ^ (code % 2 != 0 ? 0xffffffffu : 0u);
}

/// Reads bits from the front. After a refusal all reads return 0.
class Bits {
public:
    explicit Bits(std::span<const std::byte> bytes) {
        for (const std::byte byte : bytes)
            for (unsigned bit = 0; bit < 8; ++bit)
                bits_.push_back((std::to_integer<unsigned>(byte) >> bit & 1) != 0);
    }

    bool ok() const { return why_.empty(); }
    const std::string& why() const { return why_; }
    /// Returns false.
    bool refuse(std::string_view why) {
        if (ok()) why_ = why;
        return false;
    }
    std::size_t left() const { return bits_.size() - at_; }

    std::uint64_t number(unsigned count) {
        std::uint64_t value = 0;
        if (model_ != nullptr) {
            for (unsigned i = 0; i < count; ++i) value = 2 * value + decide(range_ / 2);
            return ok() ? value : 0;
        }
        for (unsigned i = 0; i < count && ok(); ++i) {
            if (at_ == bits_.size()) {
                refuse("the payload ends early");
            } else if (bits_[at_++]) {
                value |= std::uint64_t{1} << i;
            }
        }
        return ok() ? value : 0;
    }
    bool bit() { return number(1) != 0; }
    /// A decision with a probability.
    bool bit(unsigned slot) {
        if (model_ == nullptr) return bit();
        const std::uint64_t ones = range_ / 256 * model_[slot];
        return decide(range_ - ones, ones);
    }
    bool in_string() const { return model_ != nullptr; }

    /// "Range coder"
    void begin_string(const std::uint8_t* model) {
        model_ = model;
        low_ = 0;
        range_ = ~std::uint64_t{0};
        window_ = 0;
        pulled_ = at_;
        for (int i = 0; i < 64; ++i) pull();
    }
    void end_string() {
        model_ = nullptr;
        pulled_ -= 64;
        for (unsigned count = 1; count < 64; ++count) {
            const std::uint64_t size = std::uint64_t{1} << (64 - count), gap = (size - low_ % size) % size;
            if (size > range_ || gap > range_ - size) continue;
            if ((window_ - low_ - gap) / size != 0) refuse("the end of a string");
            at_ = pulled_ + count;
            if (at_ > bits_.size()) {
                at_ = bits_.size();
                refuse("a string ends early");
            }
            return;
        }
    }

    /// "Residual": a zigzag.
    std::uint32_t residual(unsigned k, unsigned table, unsigned start, unsigned sign) {
        if (model_ == nullptr) return golomb(k);
        const unsigned first = 24 * table;
        const auto slot = [&](unsigned c) { return first + 4 + (c < 19 ? c : 19); };
        unsigned c = start;
        if (bit(first + 3)) {
            while (c < 32 && bit(slot(c))) ++c;
        } else if (c > 0) {
            for (--c; c > 0 && bit(slot(c));) --c;
        }
        std::uint64_t size = c > 0 ? 1 : 0;
        if (c >= 2) {
            const unsigned mantissa = 2920 + 4 * (c < 21 ? c : 21);
            size = 2 * size + bit(mantissa);
            if (c >= 3) size = 2 * size + bit(mantissa + 1 + size % 2);
            if (c > 3) size = (size << (c - 3)) | number(c - 3);
        }
        if (size == 0) return 0;
        const bool is_negative = bit(first + sign);
        if (size > 0x80000000u || (size == 0x80000000u && !is_negative))
            refuse("a difference of 2^31 or more");
        return static_cast<std::uint32_t>(2 * size - is_negative);
    }

    std::uint32_t golomb(unsigned k) {
        unsigned p = 0;
        while (p < 12 && bit()) ++p;
        std::uint64_t value;
        if (p == 12) {
            value = number(32);
            if (ok() && width_of((value >> k) + 1) - 1 <= 11) refuse("an escape without need");
        } else {
            value = number(p + k) + (((std::uint64_t{1} << p) - 1) << k);
            if (value >> 32 != 0) refuse("a number of 2^32 or more");
        }
        return ok() ? static_cast<std::uint32_t>(value) : 0;
    }

private:
    void pull() {
        window_ = 2 * window_ + (pulled_ < bits_.size() && bits_[pulled_]);
        ++pulled_;
    }
    bool decide(std::uint64_t zeros) { return decide(zeros, zeros); }
    bool decide(std::uint64_t zeros, std::uint64_t ones) {
        const bool value = window_ - low_ >= zeros;
        if (value) low_ += zeros;
        range_ = value ? ones : zeros;
        if (range_ >> 32 == 0) {
            for (int i = 0; i < 32; ++i) pull();
            low_ <<= 32;
            range_ <<= 32;
        }
        return value && ok();
    }

    std::vector<bool> bits_;
    std::size_t at_ = 0;
    std::string why_;
    const std::uint8_t* model_ = nullptr;  // in a string of the range coder
    std::uint64_t low_ = 0, range_ = 0, window_ = 0;
    std::size_t pulled_ = 0;
};

}  // namespace naive_replication
