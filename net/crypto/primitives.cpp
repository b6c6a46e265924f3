#include "primitives.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "../bytes.h"

namespace shoal::net::impl {
namespace {

using Bytes = std::span<const std::byte>;

// Two types that a compiler may have: 128-bit numbers, and vectors of four words. Without them the ciphers
// take three times as long. tests/net/crypto_portable_test.cpp tests the replacements.
#ifdef __SIZEOF_INT128__

__extension__ using Wide = unsigned __int128;
using Lanes = std::uint32_t __attribute__((vector_size(16)));

Wide multiply(std::uint64_t a, std::uint64_t b) {
    return Wide(a) * b;
}
template <int count>
Lanes rotate_bits(Lanes a) {
    return a << count | a >> (32 - count);
}

#else

struct Wide {
    std::uint64_t low, high;
    Wide(std::uint64_t with_low, std::uint64_t with_high = 0) : low(with_low), high(with_high) {}
    explicit operator std::uint64_t() const { return low; }
    friend Wide operator+(Wide a, Wide b) {
        const std::uint64_t sum = a.low + b.low;
        return {sum, a.high + b.high + (sum < a.low)};
    }
    /// Shifts by 1 to 64 bits. The upper half of the result is zero, because it is not needed.
    friend Wide operator>>(Wide a, int count) {
        return count == 64 ? a.high : a.high << (64 - count) | a.low >> count;
    }
};

Wide multiply(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
    const std::uint64_t bottom = a0 * b0;
    const std::uint64_t middle = a1 * b0 + (bottom >> 32);
    const std::uint64_t other = a0 * b1 + (middle & 0xFFFFFFFF);
    return {other << 32 | (bottom & 0xFFFFFFFF), a1 * b1 + (middle >> 32) + (other >> 32)};
}

struct Lanes {
    std::uint32_t lane[4];
    std::uint32_t operator[](std::size_t i) const { return lane[i]; }
    friend Lanes operator+(Lanes a, Lanes b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]}; }
    friend Lanes operator^(Lanes a, Lanes b) { return {a[0] ^ b[0], a[1] ^ b[1], a[2] ^ b[2], a[3] ^ b[3]}; }
};

template <int count>
Lanes rotate_bits(Lanes a) {
    return {std::rotl(a[0], count), std::rotl(a[1], count), std::rotl(a[2], count), std::rotl(a[3], count)};
}

#endif

std::uint64_t low(Wide a) {
    return static_cast<std::uint64_t>(a);
}
std::uint64_t high(Wide a) {
    return low(a >> 64);
}

/// Lane i gets the value of lane (i + count) modulo 4.
template <std::size_t count>
Lanes rotate_lanes(Lanes a) {
    return Lanes{a[count % 4], a[(count + 1) % 4], a[(count + 2) % 4], a[(count + 3) % 4]};
}

Lanes load_lanes(const std::byte* bytes) {
    using Word = std::uint32_t;
    return Lanes{load<Word>(bytes), load<Word>(bytes + 4), load<Word>(bytes + 8), load<Word>(bytes + 12)};
}

/// A T with a destructor that overwrites the object with zeros.
template <class T>
class Wiped : public T {
public:
    using T::T;
    Wiped() = default;
    Wiped(const Wiped&) = delete;
    Wiped& operator=(const Wiped&) = delete;
    ~Wiped() { wipe(std::as_writable_bytes(std::span(this, 1))); }
};

// ChaCha20. A block is a square of 4 x 4 words; a Lanes is one row. Several independent blocks are computed
// together, to keep the processor busy.

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kBatchBlocks = 4;

struct Block {
    Lanes a, b, c, d;

    void quarter_rounds() {
        a = a + b, d = rotate_bits<16>(d ^ a);
        c = c + d, b = rotate_bits<12>(b ^ c);
        a = a + b, d = rotate_bits<8>(d ^ a);
        c = c + d, b = rotate_bits<7>(b ^ c);
    }
    void double_round() {
        quarter_rounds();
        b = rotate_lanes<1>(b), c = rotate_lanes<2>(c), d = rotate_lanes<3>(d);
        quarter_rounds();
        b = rotate_lanes<3>(b), c = rotate_lanes<2>(c), d = rotate_lanes<1>(d);
    }
};

void store_sum(std::byte* bytes, Lanes a, Lanes b) {
    const Lanes sum = a + b;
    if constexpr (std::endian::native == std::endian::little)
        std::memcpy(bytes, &sum, 16);
    else
        for (std::size_t i = 0; i < 4; ++i) store(bytes + 4 * i, std::uint32_t(sum[i]));
}

void xor_bytes(std::byte* bytes, const std::byte* stream, std::size_t size) {
    std::size_t i = 0;
    for (; i + 8 <= size; i += 8)
        store(bytes + i, load<std::uint64_t>(bytes + i) ^ load<std::uint64_t>(stream + i));
    for (; i < size; ++i) bytes[i] ^= stream[i];
}

class KeyStream {
public:
    KeyStream(const SecretKey& key, const Nonce& nonce, std::uint32_t counter)
        // The constants spell "expand 32-byte k".
        : start_{Lanes{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, load_lanes(key.bytes().data()),
                 load_lanes(key.bytes().data() + 16),
                 Lanes{counter, load<std::uint32_t>(nonce.data()), load<std::uint32_t>(nonce.data() + 4),
                       load<std::uint32_t>(nonce.data() + 8)}} {}

    /// Returns the first block of the key stream, valid until the next call. Also computes the next blocks,
    /// as many as a text of `size` bytes needs, or as many as fit into bytes_.
    const std::byte* first_block(std::size_t size) {
        refill(kBlockBytes + size);
        used_ = kBlockBytes;
        return bytes_;
    }
    void xor_into(std::span<std::byte> text) {
        while (!text.empty()) {
            if (used_ == end_) refill(text.size());
            const std::size_t size = std::min(text.size(), end_ - used_);
            xor_bytes(text.data(), bytes_ + used_, size);
            used_ += size;
            text = text.subspan(size);
        }
    }

private:
    void refill(std::size_t size) { size > 2 * kBlockBytes ? fill<0, 1, 2, 3>() : fill<0, 1>(); }
    template <std::uint32_t... index>
    void fill() {
        const Block start = start_;
        Block blocks[] = {{start.a, start.b, start.c, start.d + Lanes{index, 0, 0, 0}}...};
        for (int i = 0; i < 10; ++i) (blocks[index].double_round(), ...);
        ((store_sum(bytes_ + index * kBlockBytes, blocks[index].a, start.a),
          store_sum(bytes_ + index * kBlockBytes + 16, blocks[index].b, start.b),
          store_sum(bytes_ + index * kBlockBytes + 32, blocks[index].c, start.c),
          store_sum(bytes_ + index * kBlockBytes + 48, blocks[index].d, start.d + Lanes{index, 0, 0, 0})),
         ...);
        start_.d = start.d + Lanes{sizeof...(index), 0, 0, 0};
        used_ = 0;
        end_ = sizeof...(index) * kBlockBytes;
    }

    Block start_;  // ChaCha20 input block of the next fill()
    std::size_t used_ = 0, end_ = 0;
    std::byte bytes_[kBatchBlocks * kBlockBytes];
};

/// Adds b1:b0 to the two-word number a1:a0. Returns the carry.
std::uint64_t add(std::uint64_t& a0, std::uint64_t& a1, std::uint64_t b0, std::uint64_t b1) {
    a0 += b0;
    const std::uint64_t sum = a1 + b1;
    a1 = sum + (a0 < b0);
    return std::uint64_t(sum < b1) + (a1 < sum);
}

/// Poly1305 with an accumulator of 64 + 64 + 3 bits.
class Poly1305 {
public:
    explicit Poly1305(const std::byte* key)
        : r0_(load<std::uint64_t>(key) & 0x0ffffffc0fffffff),
          r1_(load<std::uint64_t>(key + 8) & 0x0ffffffc0ffffffc),
          pad0_(load<std::uint64_t>(key + 16)),
          pad1_(load<std::uint64_t>(key + 24)) {}

    /// Adds whole blocks of 16 bytes. `top` is bit 128 of each.
    void blocks(Bytes bytes, std::uint64_t top);
    /// Adds `bytes`. If `is_padded`, zeros complete the last block. Otherwise `bytes` end the message, and a
    /// byte 1 follows them in the last block.
    void update(Bytes bytes, bool is_padded) {
        const std::size_t whole = bytes.size() / 16 * 16;
        blocks(bytes.first(whole), 1);
        if (whole == bytes.size()) return;
        std::byte block[16] = {};
        std::copy(bytes.begin() + std::ptrdiff_t(whole), bytes.end(), block);
        if (!is_padded) block[bytes.size() - whole] = std::byte(1);
        blocks(block, is_padded);
    }
    Tag tag() const {
        // If h + 5 reaches 2^130, then h >= 2^130 - 5, and the remainder is h + 5 - 2^130.
        std::uint64_t h0 = h0_, h1 = h1_;
        const std::uint64_t keep = ((h2_ + add(h0, h1, 5, 0)) >> 2) - 1;  // all ones if h < 2^130 - 5
        h0 = (h0_ & keep) | (h0 & ~keep);
        h1 = (h1_ & keep) | (h1 & ~keep);
        add(h0, h1, pad0_, pad1_);
        Tag tag;
        store(tag.data(), h0);
        store(tag.data() + 8, h1);
        return tag;
    }

private:
    std::uint64_t r0_, r1_, pad0_, pad1_;
    std::uint64_t h0_ = 0, h1_ = 0, h2_ = 0;
};

void Poly1305::blocks(Bytes bytes, std::uint64_t top) {
    const std::uint64_t r0 = r0_, r1 = r1_;
    // r1 * 2^128 modulo 2^130 - 5, that is r1 / 4 * 5; exact, because the lowest two bits of r1 are zero.
    const std::uint64_t s1 = r1 + (r1 >> 2);
    std::uint64_t h0 = h0_, h1 = h1_, h2 = h2_;
    for (std::size_t i = 0; i < bytes.size(); i += 16) {
        // h2 <= 4 here, at most 6 after the addition: no sum of products overflows.
        h2 += add(h0, h1, load<std::uint64_t>(&bytes[i]), load<std::uint64_t>(&bytes[i + 8])) + top;
        const Wide product0 = multiply(h0, r0) + multiply(h1, s1);
        const Wide product1 = multiply(h0, r1) + multiply(h1, r0) + h2 * s1 + high(product0);
        const std::uint64_t product2 = h2 * r0 + high(product1);
        h0 = low(product0);
        h1 = low(product1);
        // The bits from bit 130 on, times five, are added at the bottom: 2^130 is 5 modulo 2^130 - 5.
        h2 = (product2 & 3) + add(h0, h1, (product2 >> 2) + (product2 & ~std::uint64_t(3)), 0);
    }
    h0_ = h0;
    h1_ = h1;
    h2_ = h2;
}

Tag aead_tag(Poly1305& poly, Bytes associated, Bytes text) {
    poly.update(associated, true);
    poly.update(text, true);
    std::byte sizes[16];
    store(sizes, std::uint64_t(associated.size()));
    store(sizes + 8, std::uint64_t(text.size()));
    poly.blocks(sizes, 1);
    return poly.tag();
}

// Numbers modulo 2^255 - 19, as five limbs of 51 bits each. Between operations a limb may have a few bits
// more.

constexpr std::uint64_t kLimbMask = (std::uint64_t(1) << 51) - 1;

struct Field {
    std::uint64_t limb[5];
};

Field operator+(const Field& a, const Field& b) {
    return {{a.limb[0] + b.limb[0], a.limb[1] + b.limb[1], a.limb[2] + b.limb[2], a.limb[3] + b.limb[3],
             a.limb[4] + b.limb[4]}};
}

/// Adds 2 * (2^255 - 19) first, so that no limb becomes negative. The limbs of b must be those of a product,
/// below 2^51 + 2^20.
Field operator-(const Field& a, const Field& b) {
    constexpr std::uint64_t kLow = 2 * (kLimbMask - 18), kHigh = 2 * kLimbMask;
    return {{a.limb[0] + kLow - b.limb[0], a.limb[1] + kHigh - b.limb[1], a.limb[2] + kHigh - b.limb[2],
             a.limb[3] + kHigh - b.limb[3], a.limb[4] + kHigh - b.limb[4]}};
}

/// Reduces five sums, each below 2^115, to limbs below 2^51, except the second limb: below 2^51 + 2^20.
Field carried(const Wide& t0, const Wide& t1, const Wide& t2, const Wide& t3, const Wide& t4) {
    const Wide u1 = t1 + low(t0 >> 51), u2 = t2 + low(u1 >> 51), u3 = t3 + low(u2 >> 51);
    const Wide u4 = t4 + low(u3 >> 51);
    const Wide u0 = multiply(low(u4 >> 51), 19) + (low(t0) & kLimbMask);  // 2^255 is 19 modulo 2^255 - 19
    return {{low(u0) & kLimbMask, (low(u1) & kLimbMask) + low(u0 >> 51), low(u2) & kLimbMask,
             low(u3) & kLimbMask, low(u4) & kLimbMask}};
}

/// Requires limbs of the factors below 2^54.
Field operator*(const Field& f, const Field& g) {
    const auto [a0, a1, a2, a3, a4] = f.limb;
    const auto [b0, b1, b2, b3, b4] = g.limb;
    const std::uint64_t c1 = 19 * b1, c2 = 19 * b2, c3 = 19 * b3, c4 = 19 * b4;
    return carried(
        multiply(a0, b0) + multiply(a1, c4) + multiply(a2, c3) + multiply(a3, c2) + multiply(a4, c1),
        multiply(a0, b1) + multiply(a1, b0) + multiply(a2, c4) + multiply(a3, c3) + multiply(a4, c2),
        multiply(a0, b2) + multiply(a1, b1) + multiply(a2, b0) + multiply(a3, c4) + multiply(a4, c3),
        multiply(a0, b3) + multiply(a1, b2) + multiply(a2, b1) + multiply(a3, b0) + multiply(a4, c4),
        multiply(a0, b4) + multiply(a1, b3) + multiply(a2, b2) + multiply(a3, b1) + multiply(a4, b0));
}

Field times(const Field& f, std::uint64_t factor) {
    return carried(multiply(f.limb[0], factor), multiply(f.limb[1], factor), multiply(f.limb[2], factor),
                   multiply(f.limb[3], factor), multiply(f.limb[4], factor));
}

Field squared(const Field& f, int count = 1) {
    Field result = f;
    for (int i = 0; i < count; ++i) {
        const auto [a0, a1, a2, a3, a4] = result.limb;
        const std::uint64_t d0 = 2 * a0, d1 = 2 * a1, c3 = 19 * a3, c4 = 19 * a4;
        result = carried(multiply(a0, a0) + multiply(d1, c4) + multiply(2 * a2, c3),
                         multiply(d0, a1) + multiply(2 * a2, c4) + multiply(a3, c3),
                         multiply(d0, a2) + multiply(a1, a1) + multiply(2 * a3, c4),
                         multiply(d0, a3) + multiply(d1, a2) + multiply(a4, c4),
                         multiply(d0, a4) + multiply(d1, a3) + multiply(a2, a2));
    }
    return result;
}

/// Returns z^(2^255 - 21), the inverse of z, or 0 for 0. Below, "run" n means z^(2^n - 1): n ones in binary.
Field inverted(const Field& z) {
    const Field z2 = squared(z);
    const Field z9 = squared(z2, 2) * z;
    const Field z11 = z9 * z2;
    const Field run5 = squared(z11) * z9;
    const Field run10 = squared(run5, 5) * run5;
    const Field run20 = squared(run10, 10) * run10;
    const Field run40 = squared(run20, 20) * run20;
    const Field run50 = squared(run40, 10) * run10;
    const Field run100 = squared(run50, 50) * run50;
    const Field run200 = squared(run100, 100) * run100;
    const Field run250 = squared(run200, 50) * run50;
    return squared(run250, 5) * z11;
}

Field load_field(const std::byte* bytes) {
    const std::uint64_t w0 = load<std::uint64_t>(bytes), w1 = load<std::uint64_t>(bytes + 8);
    const std::uint64_t w2 = load<std::uint64_t>(bytes + 16), w3 = load<std::uint64_t>(bytes + 24);
    return {{w0 & kLimbMask, (w0 >> 51 | w1 << 13) & kLimbMask, (w1 >> 38 | w2 << 26) & kLimbMask,
             (w2 >> 25 | w3 << 39) & kLimbMask, w3 >> 12 & kLimbMask}};
}

/// Writes f, reduced below 2^255 - 19. Requires limbs as small as those of a product.
void store_field(std::byte* bytes, const Field& f) {
    Field t = f;
    std::uint64_t excess = 19;  // after the loop: 1 if t is 2^255 - 19 or more, else 0
    for (const std::uint64_t limb : t.limb) excess = (limb + excess) >> 51;
    std::uint64_t carry = 19 * excess;
    for (std::uint64_t& limb : t.limb) {
        limb += carry;
        carry = limb >> 51;
        limb &= kLimbMask;
    }
    store(bytes, t.limb[0] | t.limb[1] << 51);
    store(bytes + 8, t.limb[1] >> 13 | t.limb[2] << 38);
    store(bytes + 16, t.limb[2] >> 26 | t.limb[3] << 25);
    store(bytes + 24, t.limb[3] >> 39 | t.limb[4] << 12);
}

/// Exchanges a and b if `bit` is 1, in constant time.
void swap_if(std::uint64_t bit, Field& a, Field& b) {
    for (std::size_t i = 0; i < 5; ++i) {
        const std::uint64_t difference = (a.limb[i] ^ b.limb[i]) & (0 - bit);
        a.limb[i] ^= difference;
        b.limb[i] ^= difference;
    }
}

/// The x coordinates of two neighbouring multiples of a point, as fractions x / z.
struct Ladder {
    Field x2{{1}}, z2{{0}}, x3, z3{{1}};

    void swap(std::uint64_t bit) {
        swap_if(bit, x2, x3);
        swap_if(bit, z2, z3);
    }
    /// One step of the loop in RFC 7748, section 5, with the names used there. `x1`: x coordinate of the
    /// difference of the two points.
    void step(const Field& x1) {
        const Field a = x2 + z2, b = x2 - z2, c = x3 + z3, d = x3 - z3;
        const Field aa = squared(a), bb = squared(b), e = aa - bb;
        const Field da = d * a, cb = c * b;
        x3 = squared(da + cb);
        z3 = x1 * squared(da - cb);
        x2 = aa * bb;
        z2 = e * (aa + times(e, 121665));
    }
};

// BLAKE2s.

constexpr std::array<std::uint32_t, 8> kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

struct Blake2s {
    std::array<std::uint32_t, 8> state = kStart;
    std::uint64_t total = 0;  // bytes hashed so far
    std::byte buffer[64] = {};
    std::size_t buffered = 0;

    void compress(std::uint32_t last_block);
};

void Blake2s::compress(std::uint32_t last_block) {
    static constexpr std::uint8_t kOrder[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
        {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
        {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
        {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
        {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
        {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    };
    total += buffered;
    buffered = 0;
    Wiped<std::array<std::uint32_t, 16>> m, v;
    for (std::size_t i = 0; i < 16; ++i) m[i] = load<std::uint32_t>(buffer + 4 * i);
    std::copy(state.begin(), state.end(), v.begin());
    std::copy(kStart.begin(), kStart.end(), v.begin() + 8);
    v[12] ^= static_cast<std::uint32_t>(total);
    v[13] ^= static_cast<std::uint32_t>(total >> 32);
    v[14] ^= last_block;
    for (const auto& order : kOrder) {
        for (std::size_t i = 0; i < 8; ++i) {  // four columns of v, then four diagonals
            const std::size_t turn = i / 4, column = i % 4;
            std::uint32_t& a = v[column];
            std::uint32_t& b = v[4 + (column + turn) % 4];
            std::uint32_t& c = v[8 + (column + 2 * turn) % 4];
            std::uint32_t& d = v[12 + (column + 3 * turn) % 4];
            a += b + m[order[2 * i]], d = std::rotr(d ^ a, 16);
            c += d, b = std::rotr(b ^ c, 12);
            a += b + m[order[2 * i + 1]], d = std::rotr(d ^ a, 8);
            c += d, b = std::rotr(b ^ c, 7);
        }
    }
    for (std::size_t i = 0; i < 8; ++i) state[i] ^= v[i] ^ v[i + 8];
}

/// BLAKE2s of the concatenated parts.
void hash_parts(std::span<std::byte, 32> result, Bytes key, std::initializer_list<Bytes> parts) {
    assert(key.size() <= 32);
    Wiped<Blake2s> hash;
    hash.state[0] ^= 0x01010020 ^ static_cast<std::uint32_t>(key.size() << 8);
    std::copy(key.begin(), key.end(), hash.buffer);
    hash.buffered = key.empty() ? 0 : sizeof hash.buffer;
    for (Bytes part : parts) {
        while (!part.empty()) {
            // A full buffer waits for the next byte, because the last block is compressed in another way.
            if (hash.buffered == sizeof hash.buffer) hash.compress(0);
            const std::size_t size = std::min(part.size(), sizeof hash.buffer - hash.buffered);
            std::copy_n(part.begin(), size, hash.buffer + hash.buffered);
            hash.buffered += size;
            part = part.subspan(size);
        }
    }
    std::fill(hash.buffer + hash.buffered, std::end(hash.buffer), std::byte(0));
    hash.compress(0xFFFFFFFF);
    for (std::size_t i = 0; i < 8; ++i) store(result.data() + 4 * i, hash.state[i]);
}

/// HMAC of `first` followed by `second`.
SecretKey hmac(const SecretKey& key, Bytes first, Bytes second) {
    Wiped<std::array<std::byte, 64>> block;
    block.fill(std::byte(0));
    std::copy(key.bytes().begin(), key.bytes().end(), block.begin());
    const auto padded = [&](std::uint8_t pad) {
        for (std::byte& byte : block) byte ^= std::byte(pad);
        return Bytes(block);
    };
    SecretKey inner, outer;
    hash_parts(inner.bytes(), {}, {padded(0x36), first, second});
    hash_parts(outer.bytes(), {}, {padded(0x36 ^ 0x5c), inner.bytes()});
    return outer;
}

/// Marks bytes that code may branch on: the result of a check, or a decrypted text. Does nothing, except in
/// `make secrets`, which reports branches on all other secrets.
void declassify([[maybe_unused]] Bytes bytes) {
#ifdef SHOAL_DECLASSIFY
    SHOAL_DECLASSIFY(bytes.data(), bytes.size());
#endif
}
bool declassified(bool outcome) {
    declassify(std::as_bytes(std::span(&outcome, 1)));
    return outcome;
}

}  // namespace

void wipe(std::span<std::byte> bytes) {
    // The compiler cannot remove a call through a volatile pointer.
    static void* (*const volatile set_memory)(void*, int, std::size_t) = std::memset;
    if (!bytes.empty()) set_memory(bytes.data(), 0, bytes.size());
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) {
    if (a.size() != b.size()) return false;
    std::byte difference{};
    for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
    return difference == std::byte(0);
}

void seal(const SecretKey& key, const Nonce& nonce, std::span<const std::byte> associated,
          std::span<std::byte> text, std::span<std::byte, kTagBytes> tag) {
    Wiped<KeyStream> stream(key, nonce, 0);
    Wiped<Poly1305> poly(stream.first_block(text.size()));
    stream.xor_into(text);
    const Tag made = aead_tag(poly, associated, text);
    std::copy(made.begin(), made.end(), tag.begin());
}

bool open(const SecretKey& key, const Nonce& nonce, std::span<const std::byte> associated,
          std::span<std::byte> text, std::span<const std::byte, kTagBytes> tag) {
    Wiped<KeyStream> stream(key, nonce, 0);
    Wiped<Poly1305> poly(stream.first_block(text.size()));
    if (!declassified(equal_in_constant_time(aead_tag(poly, associated, text), tag))) return false;
    stream.xor_into(text);
    declassify(text);
    return true;
}

PublicKey x25519_public_key(const SecretKey& private_key) {
    SecretKey result;
    (void)x25519(result, private_key, {std::byte(9)});  // never false: the base point has a large order
    PublicKey public_key;
    std::copy(result.bytes().begin(), result.bytes().end(), public_key.begin());
    return public_key;
}

bool x25519(SecretKey& shared, const SecretKey& private_key, const PublicKey& public_key) {
    SecretKey scalar = private_key;
    scalar.bytes()[0] &= std::byte(248);
    scalar.bytes()[31] = (scalar.bytes()[31] & std::byte(127)) | std::byte(64);

    const Field x1 = load_field(public_key.data());
    Wiped<Ladder> ladder;
    ladder.x3 = x1;
    std::uint64_t swapped = 0;
    for (std::size_t bit = 255; bit-- > 0;) {
        const std::uint64_t one = std::uint64_t(scalar.bytes()[bit / 8]) >> (bit % 8) & 1;
        ladder.swap(swapped ^ one);
        swapped = one;
        ladder.step(x1);
    }
    // The lowest bit of the scalar is zero, so the last swap was already undone.
    store_field(shared.bytes().data(), ladder.x2 * inverted(ladder.z2));
    return !declassified(equal_in_constant_time(shared.bytes(), Bytes32{}));
}

Bytes32 blake2s(std::span<const std::byte> bytes, std::span<const std::byte> key) {
    Bytes32 hash;
    hash_parts(hash, key, {bytes});
    return hash;
}

SecretKey derived_key(const SecretKey& from, std::span<const std::byte> purpose) {
    SecretKey key;
    hash_parts(key.bytes(), from.bytes(), {purpose});
    return key;
}

void hkdf(const SecretKey& chaining_key, std::span<const std::byte> input, std::span<SecretKey> outputs) {
    assert(outputs.size() == 2 || outputs.size() == 3);
    const SecretKey temporary = hmac(chaining_key, input, {});
    Bytes previous;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const std::byte number[] = {static_cast<std::byte>(i + 1)};
        outputs[i] = hmac(temporary, previous, number);
        previous = outputs[i].bytes();
    }
}

}  // namespace shoal::net::impl
