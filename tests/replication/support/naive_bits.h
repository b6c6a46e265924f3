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
    std::vector<bool> bits_;
    std::size_t at_ = 0;
    std::string why_;
};

}  // namespace naive_replication
