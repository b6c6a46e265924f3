#include "net/handshake/token.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace shoal::net::impl {
namespace {

using Buffer = std::vector<std::byte>;  // of exact size, so that a sanitizer reports reads beyond it

constexpr std::uint64_t kGame = 0x1122334455667788;
constexpr std::uint64_t kExpiry = 1'800'000'000;

Bytes32 ramp(unsigned first) {
    Bytes32 bytes;
    for (unsigned i = 0; i < 32; ++i) bytes[i] = std::byte(first + i);
    return bytes;
}

Address ipv6(std::uint8_t last, std::uint16_t port, std::uint32_t scope = 0) {
    return Address::ipv6({0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}, port, scope);
}

Buffer text(std::string_view letters) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(letters));
    return Buffer(bytes.begin(), bytes.end());
}

bool contains(std::span<const std::byte> all, std::span<const std::byte> part) {
    return std::search(all.begin(), all.end(), part.begin(), part.end()) != all.end();
}

void expect_same(const ClientToken& a, const ClientToken& b) {
    EXPECT_EQ(a.protocol_id, b.protocol_id);
    EXPECT_EQ(a.expires_s, b.expires_s);
    EXPECT_EQ(a.servers, b.servers);
    EXPECT_EQ(a.server_key, b.server_key);
    EXPECT_EQ(a.sealed, b.sealed);
}

Buffer bytes_of(const ClientToken& token) {
    std::array<std::byte, kMaxClientTokenBytes> buffer;
    const std::span<const std::byte> bytes = write(token, buffer);
    return Buffer(bytes.begin(), bytes.end());
}

/// A small token, with its request and keys.
struct Issued {
    SecretKey backend_key{ramp(1)};
    std::vector<Address> servers = {Address::ipv4(203, 0, 113, 7, 40000), ipv6(1, 7777)};
    Buffer claims = text("red team");
    TokenRequest request{kGame, 42, kExpiry, servers, claims, ramp(0xA0)};

    ClientToken token(unsigned fresh = 0x60) const {
        std::optional<ClientToken> issued = issue_token(request, backend_key, ramp(fresh));
        EXPECT_TRUE(issued);
        return issued ? *issued : ClientToken{};
    }
    std::optional<TokenError> open(const Buffer& sealed, TokenContents& contents) const {
        return open_token(sealed, backend_key, kGame, std::span(servers).first(1), kExpiry - 1, contents);
    }
};

TEST(Token, BackendClientAndServerAgree) {
    const Issued issued;
    const ClientToken token = issued.token();
    EXPECT_EQ(token.protocol_id, kGame);
    EXPECT_EQ(token.expires_s, kExpiry);
    EXPECT_EQ(token.servers, issued.servers);
    TokenContents contents;
    ASSERT_EQ(issued.open(token.sealed, contents), std::nullopt);
    EXPECT_EQ(contents.client_id, 42u);
    EXPECT_EQ(contents.expires_s, kExpiry);
    EXPECT_EQ(contents.claims, issued.claims);
    EXPECT_EQ(token.server_key, ramp(0xA0));
    EXPECT_TRUE(std::equal(contents.id.begin(), contents.id.end(), token.sealed.begin() + 1));

    const std::optional<ClientToken> read = read_client_token(bytes_of(token));
    ASSERT_TRUE(read);
    expect_same(*read, token);
    const std::optional<ClientToken> parsed = parse_client_token(to_text(token));
    ASSERT_TRUE(parsed);
    expect_same(*parsed, token);
}

// Goal: the format and the derivation of every key are as documented.
// Method: bytes made by a program in another language, from WIRE.md.
TEST(Token, MatchesIndependentBytes) {
    const std::string_view digits =
        "02887766554433221100d2496b00000000a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf02"
        "04cb007107409c0620010db8000000000000000000000001611e6400020bcc19f05e61e726bcf329d09bc0f0dc36a8104435"
        "4c2865191b67e470ec9865d7408704c2d64857ab842d31e31d0fcd93815139b90f903b97420c4926dcd16320a298d75f9652"
        "8673594b7e4a93e0b4bd529eadcd0dc8b7c8c25328504d3d2620a0b4";
    Buffer expected;
    for (std::size_t i = 0; i < digits.size(); i += 2)
        expected.push_back(std::byte(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
    const ClientToken token = Issued().token();
    EXPECT_EQ(bytes_of(token), expected);
    EXPECT_TRUE(to_text(token).starts_with("02887766554433221100d2496b00000000a0a1a2a3a4"));
}

TEST(Token, LargestFitsItsLimits) {
    Issued issued;
    issued.servers.clear();
    for (std::uint8_t i = 0; i < kMaxTokenServers; ++i) issued.servers.push_back(ipv6(i, 1 + i));
    issued.claims.assign(kMaxClaimsBytes, std::byte('c'));
    issued.request.servers = issued.servers;
    issued.request.claims = issued.claims;
    const ClientToken token = issued.token();
    EXPECT_EQ(token.sealed.size(), kMaxSealedTokenBytes);
    EXPECT_LE(token.sealed.size(), 512u);
    EXPECT_EQ(bytes_of(token).size(), kMaxClientTokenBytes);
    EXPECT_EQ(to_text(token).size(), 1356u);
    TokenContents contents;
    ASSERT_EQ(issued.open(token.sealed, contents), std::nullopt);
    EXPECT_EQ(contents.claims, issued.claims);
    const std::optional<ClientToken> parsed = parse_client_token(to_text(token));
    ASSERT_TRUE(parsed);
    expect_same(*parsed, token);

    // One byte more is refused before decryption.
    Buffer longer = token.sealed;
    longer.push_back(std::byte(0));
    EXPECT_EQ(issued.open(longer, contents), TokenError::malformed);
}

TEST(Token, SmallestWorks) {
    Issued issued;
    issued.request.claims = {};
    issued.request.servers = std::span(issued.servers).first(1);
    const ClientToken token = issued.token();
    EXPECT_EQ(token.sealed.size(), 73u);
    TokenContents contents;
    contents.claims = text("of another one");
    ASSERT_EQ(issued.open(token.sealed, contents), std::nullopt);
    EXPECT_TRUE(contents.claims.empty());
    const std::optional<ClientToken> read = read_client_token(bytes_of(token));
    ASSERT_TRUE(read);
    expect_same(*read, token);
}

TEST(Token, RequestOutsideItsLimitsIsNotIssued) {
    const Issued issued;
    const auto is_issued = [&](const std::vector<Address>& servers, std::size_t claims_bytes) {
        const Buffer claims(claims_bytes);
        return issue_token({kGame, 42, kExpiry, servers, claims, ramp(2)}, issued.backend_key, ramp(1))
            .has_value();
    };
    const Address good = ipv6(1, 1);
    EXPECT_TRUE(is_issued({good}, kMaxClaimsBytes));
    EXPECT_FALSE(is_issued({good}, kMaxClaimsBytes + 1));
    EXPECT_TRUE(is_issued(std::vector<Address>(kMaxTokenServers, good), 0));
    EXPECT_FALSE(is_issued(std::vector<Address>(kMaxTokenServers + 1, good), 0));
    EXPECT_FALSE(is_issued({}, 0));
    EXPECT_FALSE(is_issued({good, Address{}}, 0));
    EXPECT_FALSE(is_issued({ipv6(1, 0)}, 0));
    EXPECT_FALSE(is_issued({ipv6(1, 1, 3)}, 0));
    TokenRequest keyless = issued.request;
    keyless.server_key = {};
    EXPECT_FALSE(issue_token(keyless, issued.backend_key, ramp(1)));
}

TEST(Token, EachFlippedBitIsRefused) {
    const Issued issued;
    const Buffer sealed = issued.token().sealed;
    TokenContents contents;
    contents.client_id = 7;
    for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
        Buffer changed = sealed;
        changed[bit / 8] ^= std::byte(1u << bit % 8);
        ASSERT_EQ(issued.open(changed, contents), bit < 8 ? TokenError::malformed : TokenError::forged)
            << "bit " << bit;
    }
    EXPECT_EQ(contents.client_id, 7u);
    EXPECT_TRUE(contents.claims.empty());
}

TEST(Token, EachTruncatedPrefixIsRefused) {
    const Issued issued;
    const ClientToken token = issued.token();
    const Buffer bytes = bytes_of(token);
    const std::string letters = to_text(token);
    TokenContents contents;
    for (std::size_t size = 0; size < token.sealed.size(); ++size) {
        const Buffer prefix(token.sealed.begin(), token.sealed.begin() + std::ptrdiff_t(size));
        ASSERT_EQ(issued.open(prefix, contents), size < 73 ? TokenError::malformed : TokenError::forged);
    }
    for (std::size_t size = 0; size < bytes.size(); ++size)
        ASSERT_FALSE(read_client_token(Buffer(bytes.begin(), bytes.begin() + std::ptrdiff_t(size)))) << size;
    for (std::size_t size = 0; size < letters.size(); ++size)
        ASSERT_FALSE(parse_client_token(std::string(letters, 0, size))) << size;
    Buffer longer = bytes;
    longer.push_back(std::byte(0));
    EXPECT_FALSE(read_client_token(longer));
}

// Goal: invalid contents, sealed with the backend's key, are refused.
// Method: a second implementation of sealing, from WIRE.md.
TEST(Token, SealedInvalidContentsAreRefused) {
    const Issued issued;
    const auto open_sealed = [&](const Buffer& servers, std::size_t claims_bytes) {
        Buffer label = text("shoal token: box");
        label.resize(label.size() + 24);
        SecretKey keys[2];
        hkdf(issued.backend_key, label, keys);
        Buffer secret(24);
        for (unsigned i = 0; i < 8; ++i) secret[i] = std::byte(kGame >> 8 * i & 0xFF);
        secret[16] = std::byte(1);  // expires at 1
        secret.insert(secret.end(), servers.begin(), servers.end());
        secret.resize(secret.size() + claims_bytes);
        Tag tag;
        Buffer sealed = {std::byte(2)};
        seal(keys[0], nonce_from(0), sealed, secret, tag);
        sealed.resize(1 + 24);
        sealed.insert(sealed.end(), secret.begin(), secret.end());
        sealed.insert(sealed.end(), tag.begin(), tag.end());
        TokenContents contents;
        return open_token(sealed, issued.backend_key, kGame, issued.servers, 0, contents);
    };
    const auto list = [](std::initializer_list<unsigned> values) {
        Buffer bytes;
        for (const unsigned value : values) bytes.push_back(std::byte(value));
        return bytes;
    };
    const Buffer good = list({1, 4, 203, 0, 113, 7, 0x40, 0x9C});
    EXPECT_EQ(open_sealed(good, 0), std::nullopt);
    EXPECT_EQ(open_sealed(good, kMaxClaimsBytes), std::nullopt);
    EXPECT_EQ(open_sealed(good, kMaxClaimsBytes + 1), TokenError::malformed);
    EXPECT_EQ(open_sealed(list({0, 4, 203, 0, 113, 7, 0x40, 0x9C}), 0), TokenError::malformed);
    EXPECT_EQ(open_sealed(list({2, 4, 203, 0, 113, 7, 0x40, 0x9C}), 0), TokenError::malformed);
    EXPECT_EQ(open_sealed(list({9, 4, 203, 0, 113, 7, 0x40, 0x9C}), 200), TokenError::malformed);
    EXPECT_EQ(open_sealed(list({1, 5, 203, 0, 113, 7, 0x40, 0x9C}), 0), TokenError::malformed);
    EXPECT_EQ(open_sealed(list({1, 6, 203, 0, 113, 7, 0x40, 0x9C}), 0), TokenError::malformed);
    EXPECT_EQ(open_sealed(list({1, 4, 203, 0, 113, 7, 0, 0}), 0), TokenError::malformed);
}

TEST(Token, OtherBackendKeyIsRefused) {
    const Issued issued;
    TokenContents contents;
    EXPECT_EQ(open_token(issued.token().sealed, SecretKey(ramp(2)), kGame, issued.servers, 0, contents),
              TokenError::forged);
}

TEST(Token, ExpiresAtTheSecondItNames) {
    Issued issued;
    TokenContents contents;
    const auto open_at = [&](const ClientToken& token, std::uint64_t now_s) {
        return open_token(token.sealed, issued.backend_key, kGame, issued.servers, now_s, contents);
    };
    const ClientToken token = issued.token();
    EXPECT_EQ(open_at(token, 0), std::nullopt);
    EXPECT_EQ(open_at(token, kExpiry - 1), std::nullopt);
    EXPECT_EQ(open_at(token, kExpiry), TokenError::expired);
    EXPECT_EQ(open_at(token, kExpiry + 1), TokenError::expired);
    EXPECT_EQ(open_at(token, ~0ull), TokenError::expired);
    issued.request.expires_s = 0;
    EXPECT_EQ(open_at(issued.token(), 0), TokenError::expired);
    issued.request.expires_s = ~0ull;
    EXPECT_EQ(open_at(issued.token(), ~0ull - 1), std::nullopt);
    EXPECT_EQ(open_at(issued.token(), ~0ull), TokenError::expired);
}

TEST(Token, IsValidForItsServersOnly) {
    const Issued issued;  // for 203.0.113.7:40000 and [2001:db8::1]:7777
    const ClientToken token = issued.token();
    TokenContents contents;
    const auto open_at = [&](std::vector<Address> servers) {
        return open_token(token.sealed, issued.backend_key, kGame, servers, 0, contents);
    };
    EXPECT_EQ(open_at({issued.servers[0]}), std::nullopt);
    EXPECT_EQ(open_at({issued.servers[1]}), std::nullopt);
    EXPECT_EQ(open_at({ipv6(9, 9), issued.servers[1]}), std::nullopt);
    EXPECT_EQ(open_at({ipv6(1, 7777, 3)}), std::nullopt);  // the IPv6 scope is local to a machine
    EXPECT_EQ(open_at({}), TokenError::other_server);
    EXPECT_EQ(open_at({Address{}}), TokenError::other_server);
    EXPECT_EQ(open_at({Address::ipv4(203, 0, 113, 7, 40001)}), TokenError::other_server);
    EXPECT_EQ(open_at({Address::ipv4(203, 0, 113, 8, 40000)}), TokenError::other_server);
    EXPECT_EQ(open_at({ipv6(1, 7778)}), TokenError::other_server);
    EXPECT_EQ(open_at({ipv6(2, 7777)}), TokenError::other_server);
    // An IPv6 address with the bytes of the IPv4 address.
    EXPECT_EQ(open_at({Address::ipv6({203, 0, 113, 7}, 40000)}), TokenError::other_server);
}

TEST(Token, IsValidForItsProtocolOnly) {
    const Issued issued;
    TokenContents contents;
    EXPECT_EQ(open_token(issued.token().sealed, issued.backend_key, kGame + 1, {}, ~0ull, contents),
              TokenError::other_protocol);
}

// Goal: if a random source repeats its bytes, tokens stay secure.
TEST(Token, TheSameRandomBytesGiveAnotherTokenForAnotherRequest) {
    const Issued issued;
    std::vector<Issued> others(5);
    others[0].request.client_id = 43;
    others[1].request.expires_s += 1;
    others[2].request.protocol_id += 1;
    others[3].claims = text("red teaM");
    others[3].request.claims = others[3].claims;
    others[4].request.servers = std::span(others[4].servers).first(1);
    std::set<Buffer> ids;
    const auto insert = [&](const ClientToken& token) {
        return ids.emplace(token.sealed.begin() + 1, token.sealed.begin() + 25).second;
    };
    EXPECT_TRUE(insert(issued.token()));
    EXPECT_FALSE(insert(issued.token()));  // the same token
    for (const Issued& other : others) EXPECT_TRUE(insert(other.token()));
    EXPECT_TRUE(insert(issued.token(0x61)));
}

TEST(Token, TheServersPartIsNotReadable) {
    Issued issued;
    issued.request.client_id = 0x0123456789ABCDEF;
    const ClientToken token = issued.token();
    const Buffer bytes = bytes_of(token);
    Buffer client_id(8);
    for (unsigned i = 0; i < 8; ++i) client_id[i] = std::byte(issued.request.client_id >> 8 * i & 0xFF);
    EXPECT_FALSE(contains(bytes, client_id));
    EXPECT_FALSE(contains(bytes, text("red")));
    EXPECT_FALSE(contains(bytes, issued.backend_key.bytes()));
    EXPECT_FALSE(contains(bytes, ramp(0x60)));
}

TEST(Token, ReadRefusesBytesThatWriteNeverMakes) {
    const Buffer bytes = bytes_of(Issued().token());
    const auto is_read_with = [&](std::size_t at, unsigned value) {
        Buffer changed = bytes;
        changed[at] = std::byte(value);
        return read_client_token(changed).has_value();
    };
    EXPECT_TRUE(is_read_with(0, 2));
    EXPECT_FALSE(is_read_with(0, 1));
    EXPECT_FALSE(is_read_with(0, 3));
    for (const unsigned count : {0u, 1u, 3u, 8u, 9u, 255u}) EXPECT_FALSE(is_read_with(49, count)) << count;
    for (const unsigned family : {0u, 5u, 6u, 255u}) EXPECT_FALSE(is_read_with(50, family)) << family;
    EXPECT_FALSE(is_read_with(76, 99));  // a stated size less and greater than the real one
    EXPECT_FALSE(is_read_with(76, 101));
    Buffer no_port = bytes;
    no_port[55] = no_port[56] = std::byte(0);
    EXPECT_FALSE(read_client_token(no_port));
    Buffer mapped = bytes;  // ::ffff:x.x.x.x has another form
    std::fill_n(mapped.begin() + 58, 10, std::byte(0));
    std::fill_n(mapped.begin() + 68, 2, std::byte(0xFF));
    EXPECT_FALSE(read_client_token(mapped));
}

TEST(Token, TextIsHexadecimalDigitsAndNothingElse) {
    const ClientToken token = Issued().token();
    const std::string letters = to_text(token);
    ASSERT_EQ(letters.size(), 2 * bytes_of(token).size());
    EXPECT_EQ(letters.find_first_not_of("0123456789abcdef"), letters.npos);
    EXPECT_FALSE(parse_client_token(letters + "0"));
    EXPECT_FALSE(parse_client_token(letters + "00"));
    EXPECT_FALSE(parse_client_token(letters + "\n"));
    EXPECT_FALSE(parse_client_token(" " + letters));
    EXPECT_FALSE(parse_client_token("0x" + letters));
    // In the sealed part, which may contain any bytes.
    for (const std::size_t place : {letters.size() - 2, letters.size() - 1}) {
        unsigned accepted = 0;
        for (int letter = -128; letter < 128; ++letter) {
            std::string changed = letters;
            changed[place] = char(letter);
            accepted += parse_client_token(changed).has_value() ? 1 : 0;
        }
        EXPECT_EQ(accepted, 10u + 6u + 6u) << "digits, and letters in both cases";
    }
    EXPECT_FALSE(parse_client_token(""));
    EXPECT_FALSE(parse_client_token(std::string(1357, '0')));
    EXPECT_FALSE(parse_client_token(std::string(1358, '0')));
    EXPECT_FALSE(parse_client_token(std::string(100'000, '0')));
}

TEST(Token, DescribesEachReason) {
    std::set<std::string_view> phrases;
    for (const TokenError error :
         {TokenError::malformed, TokenError::forged, TokenError::other_protocol, TokenError::other_server,
          TokenError::expired, TokenError::used, TokenError::history_full})
        EXPECT_TRUE(phrases.insert(describe(error)).second);
}

TokenId id_of(std::uint64_t number) {
    TokenId id{};
    // Few different first bytes, so that the other bytes matter.
    for (std::size_t i = 0; i < 8; ++i) id[i < 1 ? i : i + 8] = std::byte(number >> 8 * i & 0xFF);
    return id;
}

TEST(TokenHistory, TakesEachTokenOnce) {
    TokenHistory history(10);
    EXPECT_EQ(history.use(id_of(1), 100, 50), std::nullopt);
    EXPECT_EQ(history.use(id_of(1), 100, 50), TokenError::used);
    EXPECT_EQ(history.use(id_of(257), 100, 50), std::nullopt);
    EXPECT_EQ(history.use(id_of(1), 100, 99), TokenError::used);
    EXPECT_EQ(history.use(id_of(1), 100, 100), TokenError::expired);
}

TEST(TokenHistory, RefusesWhenFullAndForgetsTheExpired) {
    TokenHistory history(3);
    EXPECT_EQ(history.use(id_of(1), 100, 0), std::nullopt);
    EXPECT_EQ(history.use(id_of(2), 356, 0), std::nullopt);  // later than 1
    EXPECT_EQ(history.use(id_of(3), 101, 0), std::nullopt);
    EXPECT_EQ(history.use(id_of(4), 900, 99), TokenError::history_full);
    EXPECT_EQ(history.use(id_of(1), 100, 99), TokenError::used);  // the history is full, but it is known
    EXPECT_EQ(history.use(id_of(4), 900, 100), std::nullopt);
    EXPECT_EQ(history.use(id_of(5), 900, 100), TokenError::history_full);
    EXPECT_EQ(history.use(id_of(2), 356, 355), TokenError::used);
    EXPECT_EQ(history.use(id_of(6), ~0ull, ~0ull - 1), std::nullopt);  // the greatest values
    EXPECT_EQ(history.size(), 1u);
    EXPECT_EQ(history.use(id_of(7), ~0ull, ~0ull), TokenError::expired);
}

TEST(TokenHistory, AClockSetBackMakesNoUsedTokenValid) {
    TokenHistory history(4);
    EXPECT_EQ(history.use(id_of(1), 100, 90), std::nullopt);
    EXPECT_EQ(history.use(id_of(2), 200, 100), std::nullopt);  // 1 is forgotten
    EXPECT_EQ(history.use(id_of(1), 100, 90), TokenError::expired);
    EXPECT_EQ(history.use(id_of(2), 200, 90), TokenError::used);
}

// Goal: the history equals a map, also with capacity 1 and tokens with long lives.
// Method: seeded ids from a small pool; a clock that stops, steps, jumps, and sometimes goes back.
TEST(TokenHistory, MatchesMapModel) {
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        const std::uint32_t capacity = seed % 4 == 0 ? 1 : std::uint32_t(1 + random() % 100);
        const std::uint64_t longest_life = seed % 2 == 0 ? 40 : 2000;
        TokenHistory history(capacity);
        std::map<TokenId, std::uint64_t> model;
        std::uint64_t now = random() % 2 == 0 ? 0 : kExpiry;
        std::uint64_t newest = 0;
        std::set<std::optional<TokenError>> answers;
        for (int step = 0; step < 4000; ++step) {
            const unsigned dice = unsigned(random() % 200);
            if (dice < 40) now += 1;
            if (dice == 40) now += random() % 1000;
            if (dice == 41) now -= std::min<std::uint64_t>(now, random() % 20);
            newest = std::max(newest, now);
            std::erase_if(model, [&](const auto& entry) { return entry.second <= newest; });

            TokenId id = id_of(random() % (capacity * 4));
            std::uint64_t expires = now + random() % longest_life;
            if (const auto known = model.find(id); known != model.end()) expires = known->second;
            std::optional<TokenError> expected;
            if (expires <= newest)
                expected = TokenError::expired;
            else if (model.count(id) != 0)
                expected = TokenError::used;
            else if (model.size() == capacity)
                expected = TokenError::history_full;
            else
                model[id] = expires;
            ASSERT_EQ(history.use(id, expires, now), expected) << "step " << step;
            ASSERT_EQ(history.size(), model.size()) << "step " << step;
            answers.insert(expected);
        }
        EXPECT_EQ(answers.size(), 4u) << "the test covers every answer";
    }
}

// However many tokens are used, only those that have not expired are stored.
TEST(TokenHistory, RemembersOnlyTokensThatHaveNotExpired) {
    TokenHistory history(1'000'000);
    for (std::uint64_t i = 0; i < 200'000; ++i) {
        EXPECT_EQ(history.use(id_of(i), i / 50 + 30, i / 50), std::nullopt);
        ASSERT_LE(history.size(), 30u * 50 + 50);
    }
}

}  // namespace
}  // namespace shoal::net::impl
