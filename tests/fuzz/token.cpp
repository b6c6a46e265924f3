// Reads random bytes as tokens, changed tokens, and tokens with random contents sealed by a second
// implementation. The first byte of an input chooses among these.

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "net/bytes.h"
#include "net/handshake/token.h"

using namespace shoal::net::impl;

namespace {

using Buffer = std::vector<std::byte>;

void check(bool is_true, const char* claim) {
    if (is_true) return;
    std::fprintf(stderr, "not true: %s\n", claim);
    std::abort();
}
#define CHECK(claim) check(claim, #claim)

SecretKey backend_key() {
    Bytes32 bytes;
    bytes.fill(std::byte(7));
    return SecretKey(bytes);
}

const std::vector<Address>& servers() {
    static const std::vector<Address> list = {Address::ipv4(203, 0, 113, 7, 40000),
                                              Address::ipv6({0x20, 1, 0xd, 0xb8}, 7777)};
    return list;
}

/// Checks that a token that was read is written as the same bytes and the same text.
void client_bytes(std::span<const std::byte> input) {
    const std::optional<ClientToken> token = read_client_token(input);
    if (!token) return;
    std::array<std::byte, kMaxClientTokenBytes> buffer;
    CHECK(std::ranges::equal(write(*token, buffer), input));
    CHECK(parse_client_token(to_text(*token)).has_value());
}

void client_text(std::span<const std::byte> input) {
    const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
    const std::optional<ClientToken> token = parse_client_token(text);
    if (!token) return;
    std::string lower(text);
    for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    CHECK(to_text(*token) == lower);
}

void stranger(std::span<const std::byte> input) {
    TokenContents contents;
    const auto error = open_token(input, backend_key(), 1, servers(), 1000, contents);
    CHECK(error == TokenError::malformed || error == TokenError::forged);
}

/// A valid token with claims from the input, and then changed or cut: each edit is a position and a mask.
void mutated(std::span<const std::byte> input) {
    ByteReader in(input);
    const std::size_t claims_bytes = in.u8();
    const std::span<const std::byte> claims = in.bytes(std::min(claims_bytes, in.remaining()));
    const auto token =
        issue_token({1, 2, 1001, servers(), claims, PublicKey{std::byte(1)}}, backend_key(), Bytes32{});
    CHECK(token.has_value());
    Buffer sealed = token->sealed;
    while (in.remaining() >= 3) {
        const std::size_t at = in.u16() % (sealed.size() + 1);
        const std::byte mask{in.u8()};
        if (at < sealed.size())
            sealed[at] ^= mask;
        else if (unsigned(mask) < 128)
            sealed.push_back(mask);
        else if (sealed.size() > 1)
            sealed.pop_back();
    }
    TokenContents contents;
    const auto error = open_token(sealed, backend_key(), 1, servers(), 1000, contents);
    CHECK(error.has_value() == (sealed != token->sealed));
    if (error)
        CHECK(error == TokenError::malformed || error == TokenError::forged);
    else
        CHECK(std::ranges::equal(contents.claims, claims) && contents.client_id == 2);
}

/// Seals the input as a token. Protocol id and expiry decide which results are possible.
void sealed_nonsense(std::span<const std::byte> input) {
    TokenId id{};
    std::array<std::byte, 16 + sizeof id> label{};
    std::memcpy(label.data(), "shoal token: box", 16);
    SecretKey keys[2];
    hkdf(backend_key(), label, keys);
    Buffer text(input.begin(), input.end());
    Tag tag;
    const std::byte version{2};
    seal(keys[0], nonce_from(0), std::span(&version, 1), text, tag);
    Buffer sealed = {version};
    sealed.insert(sealed.end(), id.begin(), id.end());
    sealed.insert(sealed.end(), text.begin(), text.end());
    sealed.insert(sealed.end(), tag.begin(), tag.end());
    TokenContents contents;
    const auto error = open_token(sealed, backend_key(), 1, servers(), 1000, contents);
    CHECK(error != TokenError::forged);
    ByteReader in(input);
    const bool is_protocol = in.u64() == 1;
    in.u64();
    const std::uint64_t expires_s = in.u64();
    if (error == TokenError::other_protocol) CHECK(!is_protocol);
    if (error == TokenError::expired) CHECK(is_protocol && expires_s <= 1000);
    if (error) return;
    CHECK(is_protocol && contents.expires_s == expires_s && expires_s > 1000);
    CHECK(contents.claims.size() <= kMaxClaimsBytes && contents.claims.size() < input.size());
    CHECK(std::ranges::equal(contents.claims, input.last(contents.claims.size())));
}

/// Three bytes per step: id, life, time that passes.
void history(std::span<const std::byte> input) {
    ByteReader in(input);
    const std::uint32_t capacity = 1 + in.u8() % 32;
    TokenHistory history(capacity);
    std::set<std::pair<std::uint64_t, TokenId>> model;  // the expiry of an id is derived from the id
    std::uint64_t now_s = 0;
    while (in.remaining() >= 3) {
        TokenId id{};
        const std::uint8_t name = in.u8();
        id[0] = std::byte(name % 4);
        id[20] = std::byte(name);
        const std::uint64_t life_s = std::uint64_t(in.u8()) * 3;
        const std::uint8_t passing = in.u8();
        now_s += passing < 200 ? passing / 50 : passing * 8u;
        std::erase_if(model, [&](const auto& entry) { return entry.first <= now_s; });
        const std::pair entry(now_s + life_s, id);
        std::optional<TokenError> expected;
        if (life_s == 0)
            expected = TokenError::expired;
        else if (model.contains(entry))
            expected = TokenError::used;
        else if (model.size() == capacity)
            expected = TokenError::history_full;
        else
            model.insert(entry);
        CHECK(history.use(id, now_s + life_s, now_s) == expected);
        CHECK(history.size() == model.size());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    // A copy of exact size, so that a sanitizer reports reads beyond it.
    const Buffer input(reinterpret_cast<const std::byte*>(data) + 1,
                       reinterpret_cast<const std::byte*>(data) + size);
    constexpr void (*kTargets[])(std::span<const std::byte>) = {client_bytes, client_text,     stranger,
                                                                mutated,      sealed_nonsense, history};
    kTargets[data[0] % std::size(kTargets)](input);
    return 0;
}
