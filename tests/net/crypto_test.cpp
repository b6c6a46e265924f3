#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Includes the source in another namespace, because the vectors of RFC 8439 test internal functions.
// crypto_portable_test.cpp includes this file and runs all its tests again.
#ifndef shoal
#define shoal shoal_native
#endif
#include "net/crypto/primitives.cpp"

namespace shoal::net::impl {
namespace {

/// XORs the key stream from block `counter` on into `text`.
void chacha20(const SecretKey& key, const Nonce& nonce, std::uint32_t counter, std::span<std::byte> text) {
    Wiped<KeyStream>(key, nonce, counter).xor_into(text);
}

Tag poly1305(const SecretKey& key, std::span<const std::byte> bytes) {
    Wiped<Poly1305> poly(key.bytes().data());
    poly.update(bytes, false);
    return poly.tag();
}

using Buffer = std::vector<std::byte>;  // of exact size, so that a sanitizer reports reads beyond it

Buffer hex(std::string_view digits) {
    Buffer bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(std::byte(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
    return bytes;
}

std::string to_hex(std::span<const std::byte> bytes) {
    std::string digits;
    for (const std::byte byte : bytes)
        for (const unsigned nibble : {unsigned(byte) >> 4, unsigned(byte) & 15})
            digits += "0123456789abcdef"[nibble];
    return digits;
}

Buffer text(std::string_view letters) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(letters));
    return Buffer(bytes.begin(), bytes.end());
}

Buffer joined(std::initializer_list<std::span<const std::byte>> parts) {
    Buffer all;
    for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

/// Returns `count` bytes: `first`, `first` + 1, ...
Buffer ramp(std::size_t count, std::size_t first = 0) {
    Buffer bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = std::byte((first + i) & 0xFF);
    return bytes;
}

template <std::size_t size>
std::array<std::byte, size> fixed(const Buffer& bytes) {
    std::array<std::byte, size> result{};
    EXPECT_EQ(bytes.size(), size);
    std::copy_n(bytes.begin(), std::min(size, bytes.size()), result.begin());
    return result;
}
SecretKey key_of(const Buffer& bytes) {
    return SecretKey(fixed<32>(bytes));
}
SecretKey key_of(std::string_view digits) {
    return key_of(hex(digits));
}
Nonce nonce_of(std::string_view digits) {
    return fixed<12>(hex(digits));
}

// The texts of RFC 8439.
constexpr std::string_view kSunscreen =
    "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen "
    "would be it.";
constexpr std::string_view kSubmission =
    "Any submission to the IETF intended by the Contributor for publication as all or part of an IETF "
    "Internet-Draft or RFC and any statement made within the context of an IETF activity is considered an "
    "\"IETF Contribution\". Such statements include oral statements in IETF sessions, as well as written "
    "and electronic communications made at any time or place, which are addressed to";
constexpr std::string_view kJabberwocky =
    "'Twas brillig, and the slithy toves\nDid gyre and gimble in the wabe:\nAll mimsy were the borogoves,\n"
    "And the mome raths outgrabe.";
constexpr std::string_view kJabberwockyKey =
    "1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0";

std::string stream(std::string_view key, std::string_view nonce, std::uint32_t counter, Buffer bytes) {
    chacha20(key_of(key), nonce_of(nonce), counter, bytes);
    return to_hex(bytes);
}

const std::string kZeroKey(64, '0');
const std::string kZeroNonce(24, '0');
const std::string kKeyOne = std::string(62, '0') + "01";
const std::string kNonceTwo = std::string(22, '0') + "02";

// RFC 8439, sections 2.3.2, 2.6.2, A.1 and A.4.
TEST(Crypto, ChaCha20BlocksMatchVectors) {
    const std::string ramp_key = to_hex(ramp(32)), ramp_key_80 = to_hex(ramp(32, 0x80));
    EXPECT_EQ(stream(ramp_key, "000000090000004a00000000", 1, Buffer(64)),
              "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
              "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e");
    EXPECT_EQ(stream(kZeroKey, kZeroNonce, 0, Buffer(64)),
              "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
              "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586");
    EXPECT_EQ(stream(kZeroKey, kZeroNonce, 1, Buffer(64)),
              "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
              "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f");
    EXPECT_EQ(stream(kKeyOne, kZeroNonce, 1, Buffer(64)),
              "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
              "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0");
    EXPECT_EQ(stream("00ff" + std::string(60, '0'), kZeroNonce, 2, Buffer(64)),
              "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
              "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096");
    EXPECT_EQ(stream(kZeroKey, kNonceTwo, 0, Buffer(64)),
              "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
              "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d");
    // One-time keys of Poly1305: the first half of block 0.
    EXPECT_EQ(stream(ramp_key_80, "000000000001020304050607", 0, Buffer(32)),
              "8ad5a08b905f81cc815040274ab29471a833b637e3fd0da508dbb8e2fdd1a646");
    EXPECT_EQ(stream(kKeyOne, kNonceTwo, 0, Buffer(32)),
              "ecfa254f845f647473d3cb140da9e87606cb33066c447b87bc2666dde3fbb739");
    EXPECT_EQ(stream(kJabberwockyKey, kNonceTwo, 0, Buffer(32)),
              "965e3bc6f9ec7ed9560808f4d229f94b137ff275ca9b3fcbdd59deaad23310ae");
}

// RFC 8439, sections 2.4.2 and A.2.
TEST(Crypto, ChaCha20TextsMatchVectors) {
    EXPECT_EQ(
        stream(to_hex(ramp(32)), "000000000000004a00000000", 1, text(kSunscreen)),
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0bf91b65c5524733ab8f593dabcd62b357"
        "1639d624e65152ab8f530c359f0861d807ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
        "5af90bbf74a35be6b40b8eedf2785e42874d");
    EXPECT_EQ(
        stream(kKeyOne, kNonceTwo, 1, text(kSubmission)),
        "a3fbf07df3fa2fde4f376ca23e82737041605d9f4f4f57bd8cff2c1d4b7955ec2a97948bd3722915c8f3d337f7d37005"
        "0e9e96d647b7c39f56e031ca5eb6250d4042e02785ececfa4b4bb5e8ead0440e20b6e8db09d881a7c6132f420e527950"
        "42bdfa7773d8a9051447b3291ce1411c680465552aa6c405b7764d5e87bea85ad00f8449ed8f72d0d662ab052691ca66"
        "424bc86d2df80ea41f43abf937d3259dc4b2d0dfb48a6c9139ddd7f76966e928e635553ba76c5c879d7b35d49eb2e62b"
        "0871cdac638939e25e8a1e0ef9d5280fa8ca328b351c3c765989cbcf3daa8b6ccc3aaf9f3979c92b3720fc88dc95ed84"
        "a1be059c6499b9fda236e7e818b04b0bc39c1e876b193bfe5569753f88128cc08aaa9b63d1a16f80ef2554d7189c411f"
        "5869ca52c5b83fa36ff216b9c1d30062bebcfd2dc5bce0911934fda79a86f6e698ced759c3ff9b6477338f3da4f9cd85"
        "14ea9982ccafb341b2384dd902f3d1ab7ac61dd29c6f21ba5b862f3730e37cfdc4fd806c22f221");
    EXPECT_EQ(
        stream(kJabberwockyKey, kNonceTwo, 42, text(kJabberwocky)),
        "62e6347f95ed87a45ffae7426f27a1df5fb69110044c0d73118effa95b01e5cf166d3df2d721caf9b21e5fb14c616871"
        "fd84c54f9d65b283196c7fe4f60553ebf39c6402c42234e32a356b3e764312a61a5532055716ead6962568f87d3f3f77"
        "04c6a8d1bcd1bf4d50d6154b6da731b187b58dfd728afa36757a797ac188d1");
}

// RFC 8439, sections 2.5.2 and A.3. From the fifth on, those of A.3 test carries and the last reduction.
TEST(Crypto, Poly1305MatchesVectors) {
    const std::string zeros(32, '0'), ones(32, 'f'), one = "01" + std::string(30, '0');
    const std::string two = "02" + std::string(30, '0'), four = "01000000000000000400000000000000";
    const std::string tail = "36e5f6b5c5e06070f0efca96227a863e";
    const struct {
        std::string key;
        Buffer message;
        std::string tag;
    } kVectors[] = {
        {"85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b",
         text("Cryptographic Forum Research Group"), "a8061dc1305136c6c22b8baf0c0127a9"},
        {kZeroKey, Buffer(64), zeros},
        {zeros + tail, text(kSubmission), tail},
        {tail + zeros, text(kSubmission), "f3477e7cd95417af89a6b8794c310cf0"},
        {std::string(kJabberwockyKey), text(kJabberwocky), "4541669a7eaaee61e708dc7cbcc5eb62"},
        {two + zeros, hex(ones), "03" + std::string(30, '0')},
        {two + ones, hex(two), "03" + std::string(30, '0')},
        {one + zeros, hex(ones + "f0" + std::string(30, 'f') + "11" + std::string(30, '0')),
         "05" + std::string(30, '0')},
        {one + zeros, hex(ones + "fbfefefefefefefefefefefefefefefe" + "01010101010101010101010101010101"),
         zeros},
        {two + zeros, hex("fd" + std::string(30, 'f')), "fa" + std::string(30, 'f')},
        {four + zeros,
         hex("e33594d7505e43b900000000000000003394d7505e4379cd01000000000000000000000000000000000000000000000"
             "001000000000000000000000000000000"),
         "14000000000000005500000000000000"},
        {four + zeros,
         hex("e33594d7505e43b900000000000000003394d7505e4379cd01000000000000000000000000000000000000000000000"
             "0"),
         "13" + std::string(30, '0')},
    };
    for (const auto& vector : kVectors)
        EXPECT_EQ(to_hex(poly1305(key_of(vector.key), vector.message)), vector.tag) << vector.key;
}

// With r = 1 the sum after the third block is 2^130 + 2^128 - 1: its reduction carries into the top limb
// again. No vector of the RFC has this case. In the other blocks bit 128 matters: 2 * 2^130 - 1 is 9.
TEST(Crypto, Poly1305CarriesOutOfItsReduction) {
    const Buffer ones(32, std::byte(0xFF)), one = hex("01000000000000000000000000000000");
    EXPECT_EQ(to_hex(poly1305(key_of(joined({one, Buffer(16)})), joined({ones, one, Buffer(48)}))),
              "09000000000000000000000000000000");
}

// RFC 8439, sections 2.8.2 and A.5.
TEST(Crypto, SealAndOpenMatchVectors) {
    Tag tag;
    Buffer sealed = text(kSunscreen);
    const SecretKey ramp_key = key_of(ramp(32, 0x80));
    const Nonce nonce = nonce_of("070000004041424344454647");
    const Buffer associated = hex("50515253c0c1c2c3c4c5c6c7");
    seal(ramp_key, nonce, associated, sealed, tag);
    EXPECT_EQ(
        to_hex(sealed),
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b"
        "1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
        "3ff4def08e4b7a9de576d26586cec64b6116");
    EXPECT_EQ(to_hex(tag), "1ae10b594f09e26a7e902ecbd0600691");
    EXPECT_TRUE(open(ramp_key, nonce, associated, sealed, tag));
    EXPECT_EQ(sealed, text(kSunscreen));

    Buffer received =
        hex("64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e382d26b0"
            "bdb7b73c321b0100d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c855"
            "9797a06ef4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4b9166c767b804d46a59b5216cde7a4e9"
            "9040c5a40433225ee282a1b0a06c523eaf4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a"
            "0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a6727627097a1049e617d91d361094fa68f0ff77987130"
            "305beaba2eda04df997b714d6c6f2c29a6ad5cb4022b02709b");
    EXPECT_TRUE(open(key_of(kJabberwockyKey), nonce_from(0x0807060504030201), hex("f33388860000000000004e91"),
                     received, fixed<16>(hex("eead9d67890cbb22392336fea1851f38"))));
    EXPECT_EQ(
        received,
        text("Internet-Drafts are draft documents valid for a maximum of six months and may be updated, "
             "replaced, or obsoleted by other documents at any time. It is inappropriate to use "
             "Internet-Drafts as reference material or to cite them other than as /\xe2\x80\x9cwork in "
             "progress./\xe2\x80\x9d"));
}

TEST(Crypto, NonceOfANumberIsLittleEndianAfterFourZeros) {
    EXPECT_EQ(to_hex(nonce_from(0x0102030405060708)), "000000000807060504030201");
}

TEST(Crypto, EveryLengthRoundTrips) {
    const SecretKey key = key_of(kJabberwockyKey);
    for (std::size_t size = 0; size <= 1200; ++size) {
        const Buffer plain = ramp(size, size), associated = ramp(size % 40);
        Buffer sealed = plain;
        Tag tag;
        seal(key, nonce_from(size), associated, sealed, tag);
        if (size >= 8) {
            ASSERT_NE(sealed, plain);
        }
        ASSERT_TRUE(open(key, nonce_from(size), associated, sealed, tag)) << size;
        ASSERT_EQ(sealed, plain) << size;
    }
}

// Goal: only unchanged sealed bytes open, and a failed attempt does not change the buffer.
TEST(Crypto, EveryFlippedBitIsRefusedAndLeavesTheBuffer) {
    for (const std::size_t size : {0u, 1u, 16u, 33u, 200u, 300u}) {
        SecretKey key = key_of(kJabberwockyKey);
        Nonce nonce = nonce_from(77);
        Buffer associated = ramp(21), sealed = ramp(size);
        Tag tag;
        seal(key, nonce, associated, sealed, tag);
        const auto refuses_flips = [&](std::span<std::byte> part, const char* name) {
            for (std::size_t bit = 0; bit < part.size() * 8; ++bit) {
                part[bit / 8] ^= std::byte(1 << bit % 8);
                const Buffer before = sealed;
                ASSERT_FALSE(open(key, nonce, associated, sealed, tag)) << name << " bit " << bit;
                ASSERT_EQ(sealed, before) << name << " bit " << bit;
                part[bit / 8] ^= std::byte(1 << bit % 8);
            }
        };
        refuses_flips(sealed, "text");
        refuses_flips(tag, "tag");
        refuses_flips(associated, "associated");
        refuses_flips(nonce, "nonce");
        refuses_flips(key.bytes(), "key");
        EXPECT_TRUE(open(key, nonce, associated, sealed, tag));
    }
}

TEST(Crypto, ABoundaryMovedBetweenTextAndAssociatedIsRefused) {
    const SecretKey key = key_of(kJabberwockyKey);
    Buffer sealed = ramp(32);
    Tag tag;
    seal(key, nonce_from(1), {}, sealed, tag);
    Buffer rest(sealed.begin() + 16, sealed.end());
    EXPECT_FALSE(open(key, nonce_from(1), std::span(sealed).first(16), rest, tag));
    Buffer shorter(sealed.begin(), sealed.end() - 1);
    EXPECT_FALSE(open(key, nonce_from(1), {}, shorter, tag));
    Buffer longer = joined({sealed, Buffer(1)});
    EXPECT_FALSE(open(key, nonce_from(1), {}, longer, tag));
}

// The model: a direct implementation of RFC 8439.
void model_chacha20(std::span<const std::byte> key, std::span<const std::byte> nonce, std::uint32_t counter,
                    std::span<std::byte> bytes) {
    const auto word = [](std::span<const std::byte> from, std::size_t i) {
        std::uint32_t value = 0;
        for (std::size_t k = 4; k-- > 0;) value = value << 8 | std::uint32_t(from[4 * i + k]);
        return value;
    };
    for (std::size_t at = 0; at < bytes.size(); at += 64, ++counter) {
        std::uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
        for (std::size_t i = 0; i < 8; ++i) start[4 + i] = word(key, i);
        start[12] = counter;
        for (std::size_t i = 0; i < 3; ++i) start[13 + i] = word(nonce, i);
        std::uint32_t s[16];
        std::copy_n(start, 16, s);
        const auto quarter = [&](int a, int b, int c, int d) {
            const auto turn = [](std::uint32_t& x, int n) { x = x << n | x >> (32 - n); };
            s[a] += s[b], s[d] ^= s[a], turn(s[d], 16);
            s[c] += s[d], s[b] ^= s[c], turn(s[b], 12);
            s[a] += s[b], s[d] ^= s[a], turn(s[d], 8);
            s[c] += s[d], s[b] ^= s[c], turn(s[b], 7);
        };
        for (int round = 0; round < 10; ++round) {
            quarter(0, 4, 8, 12), quarter(1, 5, 9, 13), quarter(2, 6, 10, 14), quarter(3, 7, 11, 15);
            quarter(0, 5, 10, 15), quarter(1, 6, 11, 12), quarter(2, 7, 8, 13), quarter(3, 4, 9, 14);
        }
        for (std::size_t i = 0; i < 64 && at + i < bytes.size(); ++i)
            bytes[at + i] ^= std::byte((s[i / 4] + start[i / 4]) >> (8 * (i % 4)) & 0xFF);
    }
}

/// A number below 2^160, with slow addition and multiplication modulo 2^130 - 5.
struct Big {
    std::array<std::uint32_t, 5> words{};

    static Big from(std::span<const std::byte> bytes) {
        Big number;
        for (std::size_t i = 0; i < bytes.size(); ++i)
            number.words[i / 4] |= std::uint32_t(bytes[i]) << (8 * (i % 4));
        return number;
    }
    friend Big operator+(const Big& a, const Big& b) {
        Big sum;
        std::uint64_t carry = 0;
        for (std::size_t i = 0; i < 5; ++i) {
            carry += std::uint64_t(a.words[i]) + b.words[i];
            sum.words[i] = std::uint32_t(carry & 0xFFFFFFFF);
            carry >>= 32;
        }
        return sum;
    }
    /// For numbers below twice the modulus. Adding 5 carries into bit 130 exactly if the number is at least
    /// 2^130 - 5.
    Big reduced() const {
        Big less = *this + Big{{5}};
        if (less.words[4] < 4) return *this;
        less.words[4] -= 4;
        return less;
    }
    friend Big operator*(const Big& a, const Big& b) {
        Big product;
        for (std::size_t bit = 160; bit-- > 0;) {
            product = (product + product).reduced();
            if (b.words[bit / 32] >> (bit % 32) & 1) product = (product + a).reduced();
        }
        return product;
    }
};

Buffer model_poly1305(std::span<const std::byte> key, std::span<const std::byte> message) {
    Buffer clamped(key.begin(), key.begin() + 16);
    for (const std::size_t i : {3u, 7u, 11u, 15u}) clamped[i] &= std::byte(15);
    for (const std::size_t i : {4u, 8u, 12u}) clamped[i] &= std::byte(252);
    Big sum;
    for (std::size_t at = 0; at < message.size(); at += 16) {
        const auto block = message.subspan(at, std::min<std::size_t>(16, message.size() - at));
        const Buffer marked = joined({block, hex("01")});
        sum = (sum + Big::from(marked)).reduced() * Big::from(clamped);
    }
    sum = sum + Big::from(key.subspan(16, 16));
    Buffer tag;
    for (std::size_t i = 0; i < 16; ++i) tag.push_back(std::byte(sum.words[i / 4] >> (8 * (i % 4)) & 0xFF));
    return tag;
}

Buffer random_bytes(std::mt19937& random, std::size_t size) {
    Buffer bytes(size);
    for (std::byte& byte : bytes) byte = std::byte(random() & 0xFF);
    // Carries go through long runs of ones.
    if (random() % 4 == 0) std::fill_n(bytes.begin(), size / 2, std::byte(0xFF));
    return bytes;
}

// Goal: batches of blocks, incomplete last blocks and unaligned addresses equal the model.
TEST(Crypto, MatchesModelForRandomLengths) {
    const std::uint32_t seed = 4711;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    for (int step = 0; step < 300; ++step) {
        const Buffer key_bytes = random_bytes(random, 32), nonce_bytes = random_bytes(random, 12);
        const SecretKey key = key_of(key_bytes);
        const Nonce nonce = fixed<12>(nonce_bytes);
        const Buffer associated = random_bytes(random, random() % 50);
        const std::size_t misaligned = random() % 16, size = random() % (step % 2 == 0 ? 1201 : 140);
        Buffer buffer = random_bytes(random, misaligned + size);
        const std::span<std::byte> bytes = std::span(buffer).subspan(misaligned);

        Buffer expected(bytes.begin(), bytes.end());
        ASSERT_EQ(to_hex(poly1305(key, bytes)), to_hex(model_poly1305(key_bytes, expected))) << size;

        model_chacha20(key_bytes, nonce_bytes, 1, expected);
        Buffer one_time_key(32);
        model_chacha20(key_bytes, nonce_bytes, 0, one_time_key);
        Buffer sizes(16);
        sizes[0] = std::byte(associated.size());
        sizes[8] = std::byte(size & 0xFF);
        sizes[9] = std::byte(size >> 8);
        const Buffer tagged = joined({associated, Buffer((16 - associated.size() % 16) % 16), expected,
                                      Buffer((16 - size % 16) % 16), sizes});
        Tag tag;
        seal(key, nonce, associated, bytes, tag);
        ASSERT_TRUE(std::ranges::equal(bytes, expected)) << size;
        ASSERT_EQ(to_hex(tag), to_hex(model_poly1305(one_time_key, tagged))) << size;

        const auto counter = static_cast<std::uint32_t>(random());
        chacha20(key, nonce, counter, bytes);
        model_chacha20(key_bytes, nonce_bytes, counter, expected);
        ASSERT_TRUE(std::ranges::equal(bytes, expected)) << size;
    }
}

PublicKey public_key_of(std::string_view digits) {
    return fixed<32>(hex(digits));
}

std::string agreed(const SecretKey& private_key, const PublicKey& public_key) {
    SecretKey shared;
    EXPECT_TRUE(x25519(shared, private_key, public_key));
    return to_hex(shared.bytes());
}

// RFC 7748, sections 5.2 and 6.1.
TEST(Crypto, X25519MatchesVectors) {
    EXPECT_EQ(agreed(key_of("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
                     public_key_of("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")),
              "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
    EXPECT_EQ(agreed(key_of("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d"),
                     public_key_of("e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493")),
              "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957");

    const SecretKey alice = key_of("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
    const SecretKey bob = key_of("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
    EXPECT_EQ(to_hex(x25519_public_key(alice)),
              "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
    EXPECT_EQ(to_hex(x25519_public_key(bob)),
              "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
    const std::string secret = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
    EXPECT_EQ(agreed(alice, x25519_public_key(bob)), secret);
    EXPECT_EQ(agreed(bob, x25519_public_key(alice)), secret);
}

// RFC 7748, section 5.2: 1 and 1,000 iterations.
TEST(Crypto, X25519MatchesItsIteratedVector) {
    SecretKey scalar = key_of("09" + std::string(62, '0'));
    PublicKey point = public_key_of("09" + std::string(62, '0'));
    for (int i = 1; i <= 1000; ++i) {
        const PublicKey next = fixed<32>(Buffer(scalar.bytes().begin(), scalar.bytes().end()));
        ASSERT_TRUE(x25519(scalar, scalar, point));
        point = next;
        if (i == 1) {
            EXPECT_EQ(to_hex(scalar.bytes()),
                      "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
        }
    }
    EXPECT_EQ(to_hex(scalar.bytes()), "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
}

/// Returns 2^power + plus or 2^255 - 2^power + plus, with a small plus: carries and borrows through all
/// limbs.
PublicKey near_power(std::size_t power, bool below_top, int plus) {
    Buffer bytes(33);
    const auto add = [&](std::size_t at, int value) {
        for (; value != 0 && at < bytes.size(); ++at) {
            value += int(bytes[at]);
            bytes[at] = std::byte(value & 0xFF);
            value >>= 8;
        }
    };
    if (below_top) add(31, 1 << 7);
    add(power / 8, below_top ? -(1 << power % 8) : 1 << power % 8);
    add(0, plus);
    bytes.pop_back();
    return fixed<32>(bytes);
}

// Goal: unreduced points, limbs full of ones, and the ignored top bit give the right results.
// Method: a hash over all results; the expected one was computed with the formulas of RFC 7748 in Python.
TEST(Crypto, X25519MatchesBigNumbersAtTheEdges) {
    std::vector<PublicKey> points;
    for (int n = 0; n < 40; ++n) points.push_back(near_power(0, false, n - 1));
    for (int n = -40; n < 0; ++n) points.push_back(near_power(0, true, n + 1));
    for (const std::size_t power : {51u, 102u, 153u, 204u})
        for (const bool below_top : {false, true})
            for (const int plus : {-1, 0, 1}) points.push_back(near_power(power, below_top, plus));
    Buffer results;
    for (const SecretKey& scalar : {SecretKey(), key_of(std::string(64, 'f')), key_of(ramp(32))}) {
        for (PublicKey point : points) {
            for (int top = 0; top < 2; ++top) {
                SecretKey shared;
                const bool good = x25519(shared, scalar, point);
                EXPECT_EQ(good, to_hex(shared.bytes()) != std::string(64, '0'));
                results = joined({results, shared.bytes()});
                point[31] ^= std::byte(128);
            }
        }
    }
    EXPECT_EQ(to_hex(blake2s(results)), "dae8bcacb8bbb8e822d62cb516f5ff3133550096f31f645c8b5ce30e437d860b");
}

// The points of low order, reduced and not: they give the same result with every private key.
TEST(Crypto, X25519RejectsPointsOfLowOrder) {
    for (const char* point : {
             "0000000000000000000000000000000000000000000000000000000000000000",
             "0100000000000000000000000000000000000000000000000000000000000000",
             "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
             "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
             "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
             "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
         }) {
        PublicKey public_key = public_key_of(point);
        for (int top = 0; top < 2; ++top) {
            SecretKey shared = key_of(ramp(32));
            EXPECT_FALSE(x25519(shared, key_of(kJabberwockyKey), public_key)) << point;
            EXPECT_EQ(to_hex(shared.bytes()), std::string(64, '0'));
            public_key[31] ^= std::byte(128);
        }
    }
}

// RFC 7693, appendix B, and the reference's known answers, keyed: key and message 00 01 02 ...
TEST(Crypto, Blake2sMatchesVectors) {
    EXPECT_EQ(to_hex(blake2s(text("abc"))),
              "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982");
    const Buffer key = ramp(32);
    const char* kKeyed[] = {"48a8997da407876b3d79c0d92325ad3b89cbb754d86ab71aee047ad345fd2c49",
                            "40d15fee7c328830166ac3f918650f807e7e01e177258cdc0a39b11f598066f1",
                            "6bb71300644cd3991b26ccd4d274acd1adeab8b1d7914546c1198bbe9fc9d803",
                            "1d220dbe2ee134661fdf6d9e74b41704710556f2f6e5a091b227697445dbea6b"};
    for (std::size_t size = 0; size < 4; ++size)
        EXPECT_EQ(to_hex(blake2s(ramp(size), key)), kKeyed[size]) << size;
    EXPECT_EQ(to_hex(blake2s(ramp(255), key)),
              "3fb735061abc519dfe979e54c1ee5bfad0a9d858b3315bad34bde999efd724dd");
}

// Hashes over the hashes of all messages 00 01 02 ... of 0 to 255 bytes. Expected values: Python's hashlib.
TEST(Crypto, Blake2sMatchesAnotherImplementationAtEveryLength) {
    Buffer keyed, plain;
    for (std::size_t size = 0; size < 256; ++size) {
        keyed = joined({keyed, blake2s(ramp(size), ramp(32))});
        plain = joined({plain, blake2s(ramp(size))});
    }
    EXPECT_EQ(to_hex(blake2s(keyed)), "2582f7b18a91f66ef22aa9455384ada69b2590306a6470ee8588df75ee982f02");
    EXPECT_EQ(to_hex(blake2s(plain)), "6d86d20a9d486cc270bc10f4523a3e811f7f88636204b0a9a76277823b30b672");
}

// Expected values: Python's hmac with hashlib's BLAKE2s.
TEST(Crypto, HkdfMatchesAnotherImplementation) {
    SecretKey outputs[3] = {key_of(ramp(32))};
    hkdf(outputs[0], ramp(50, 100), outputs);  // as in Noise, one output is the input
    EXPECT_EQ(to_hex(outputs[0].bytes()), "37f059bb1da97ac4fb74043c3d7befe83a688ccf1ebf27573464a15d6e92992b");
    EXPECT_EQ(to_hex(outputs[1].bytes()), "7dd7d13ee0d023e5756c27b2a1aee871341654294d978e59395b001bd4ec7f02");
    EXPECT_EQ(to_hex(outputs[2].bytes()), "eb43cedd3f5c1328e539dbb39c46fef7cec02d6bce7389862d2af76dae53b463");
    hkdf(key_of(ramp(32)), {}, std::span(outputs).first(2));
    EXPECT_EQ(to_hex(outputs[0].bytes()), "7a38c34bf2b8738d7374ca77c44ecb309a11d2b2528304fa86052c365e722624");
    EXPECT_EQ(to_hex(outputs[1].bytes()), "1a17621f346abdc520746a9fb64d8eb03231d674fc15687537b0780fd9c060fd");
}

/// Noise's SymmetricState, for a whole handshake.
struct Noise {
    Bytes32 hash;
    SecretKey keys[2];  // chaining key, cipher key
    std::uint64_t number = 0;

    explicit Noise(std::string_view name) : hash(blake2s(text(name))), keys{SecretKey(hash), SecretKey()} {}
    void mix_hash(std::span<const std::byte> bytes) { hash = blake2s(joined({hash, bytes})); }
    void mix_agreed(const SecretKey& private_key, const SecretKey& other) {
        SecretKey shared;
        ASSERT_TRUE(x25519(shared, private_key, x25519_public_key(other)));
        hkdf(keys[0], shared.bytes(), keys);
        number = 0;
    }
    std::string encrypt_and_hash(std::string_view payload) {
        Buffer sealed = hex(payload);
        Tag tag;
        seal(keys[1], nonce_from(number++), hash, sealed, tag);
        sealed = joined({sealed, tag});
        mix_hash(sealed);
        return to_hex(sealed);
    }
};

// All primitives together. Source: test vectors of cacophony, a Haskell implementation of Noise.
TEST(Crypto, ReproducesAPublishedNoiseHandshake) {
    const SecretKey client = key_of("e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1");
    const SecretKey client_once = key_of("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a");
    const SecretKey server = key_of("4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893");
    const SecretKey server_once = key_of("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b");
    Noise noise("Noise_KK_25519_ChaChaPoly_BLAKE2s");  // 33 letters: longer than a hash, so it is hashed
    noise.mix_hash(hex("4a6f686e2047616c74"));
    noise.mix_hash(x25519_public_key(client));
    noise.mix_hash(x25519_public_key(server));

    noise.mix_hash(x25519_public_key(client_once));
    noise.mix_agreed(client_once, server);
    noise.mix_agreed(client, server);
    EXPECT_EQ(to_hex(x25519_public_key(client_once)),
              "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944");
    EXPECT_EQ(noise.encrypt_and_hash("4c756477696720766f6e204d69736573"),
              "266a5f53784aa3becb0f7485c2759c328937867a4cbaafef07422b0725e098be");

    noise.mix_hash(x25519_public_key(server_once));
    noise.mix_agreed(server_once, client_once);
    noise.mix_agreed(server_once, client);
    EXPECT_EQ(noise.encrypt_and_hash("4d757272617920526f746862617264"),
              "008aeea5d76d6abcbab87a18502c8a8352d9933ac11e2a7d228038d721e31e");

    SecretKey transport[2];
    hkdf(noise.keys[0], {}, transport);
    const auto sealed = [&](std::size_t direction, std::string_view payload) {
        Buffer message = hex(payload);
        Tag tag;
        seal(transport[direction], nonce_from(0), {}, message, tag);
        return to_hex(joined({message, tag}));
    };
    EXPECT_EQ(sealed(0, "462e20412e20486179656b"), "5f92113edf78c3e56e6d67201f5f9e0c8f2930c3e1ffb64ede0358");
    EXPECT_EQ(sealed(1, "4361726c204d656e676572"), "30ebbd9cdcef7f40d99c8cd11e880dac28f5c9e5032c1059b3b56a");
}

TEST(Crypto, ComparesEveryByte) {
    const Buffer a = ramp(40);
    EXPECT_TRUE(equal_in_constant_time(a, a));
    EXPECT_TRUE(equal_in_constant_time({}, {}));
    EXPECT_FALSE(equal_in_constant_time(a, std::span(a).first(39)));
    for (std::size_t bit = 0; bit < 40 * 8; ++bit) {
        Buffer b = a;
        b[bit / 8] ^= std::byte(1 << bit % 8);
        EXPECT_FALSE(equal_in_constant_time(a, b)) << bit;
    }
}

TEST(Crypto, AKeyWipesItselfAndOnlyItself) {
    alignas(SecretKey) std::byte memory[sizeof(SecretKey)];
    SecretKey* key = new (memory) SecretKey(fixed<32>(ramp(32, 1)));
    const SecretKey copy = *key;
    EXPECT_EQ(to_hex(memory), to_hex(ramp(32, 1)));
    key->~SecretKey();
    EXPECT_EQ(to_hex(memory), std::string(64, '0'));
    EXPECT_EQ(to_hex(copy.bytes()), to_hex(ramp(32, 1)));
}

}  // namespace
}  // namespace shoal::net::impl
