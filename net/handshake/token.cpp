#include "token.h"

#include <algorithm>
#include <cassert>

#include "../bytes.h"
#include "server_key.h"

namespace shoal::net {
namespace {

constexpr std::uint8_t kTokenVersion = 2;
constexpr std::size_t kIdBytes = sizeof(TokenId);
constexpr std::size_t kServerBytesIpv4 = 1 + 4 + 2;
constexpr std::size_t kServerBytesIpv6 = 1 + 16 + 2;
constexpr std::size_t kMaxServerListBytes = 1 + kMaxTokenServers * kServerBytesIpv6;
constexpr std::size_t kClearBytes = 1 + kIdBytes;
constexpr std::size_t kFixedSecretBytes = 8 + 8 + 8;
constexpr std::size_t kMaxSecretBytes = kFixedSecretBytes + kMaxServerListBytes + kMaxClaimsBytes;
constexpr std::size_t kMinSealedTokenBytes =
    kClearBytes + kFixedSecretBytes + 1 + kServerBytesIpv4 + kTagBytes;
static_assert(kMaxSealedTokenBytes == kClearBytes + kMaxSecretBytes + kTagBytes);
static_assert(kMaxClientTokenBytes == 1 + 8 + 8 + kKeyBytes + kMaxServerListBytes + 2 + kMaxSealedTokenBytes);

// What a key derived from the backend's is for.
constexpr std::string_view kIssueLabel = "shoal token: new";
constexpr std::string_view kSealLabel = "shoal token: box";

/// Wipes a buffer of secrets at the end of a function.
struct WipeAtExit {
    std::span<std::byte> bytes;
    ~WipeAtExit() { wipe(bytes); }
};

/// The same place, as others see it.
bool is_same_server(const Address& a, const Address& b) {
    return a.family == b.family && a.ip == b.ip && a.port == b.port;
}

bool is_server(const Address& address) {
    return address.family != Address::Family::none && address.port != 0 && address.scope == 0;
}

// Server list.
//   bytes  field    meaning
//   1      count    1 to 8
//   1      family   for each: 4 or 6
//   4, 16  ip       network order
//   2      port     not 0
// Rejected: another count or family; port 0; IPv6 that maps IPv4 (Address stores it as IPv4).

void write_servers(ByteWriter& out, std::span<const Address> servers) {
    out.u8(servers.size());
    for (const Address& server : servers) {
        const bool is_ipv4 = server.family == Address::Family::ipv4;
        out.u8(is_ipv4 ? 4 : 6);
        out.bytes(std::as_bytes(std::span(server.ip)).first(is_ipv4 ? 4 : 16));
        out.u16(server.port);
    }
}

/// Returns how many there are; 0 if they make no sense.
std::size_t read_servers(ByteReader& in, std::array<Address, kMaxTokenServers>& servers) {
    const std::size_t count = in.u8();
    if (count > kMaxTokenServers) return 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint8_t family = in.u8();
        if (family != 4 && family != 6) return 0;
        std::array<std::uint8_t, 16> ip{};
        const std::span<const std::byte> source = in.bytes(family == 4 ? 4 : 16);
        if (!source.empty()) std::memcpy(ip.data(), source.data(), source.size());
        const std::uint16_t port = in.u16();
        servers[i] = family == 4 ? Address::ipv4(ip[0], ip[1], ip[2], ip[3], port) : Address::ipv6(ip, port);
        if (!in.ok() || port == 0 || (servers[i].family == Address::Family::ipv4) != (family == 4)) return 0;
    }
    return count;
}

/// The key under which one token is sealed, and nothing else: its nonce can always be zero.
Key box_key(const Key& backend_key, std::span<const std::byte, kIdBytes> id) {
    std::array<std::byte, kSealLabel.size() + kIdBytes> input;
    ByteWriter out(input);
    out.bytes(std::as_bytes(std::span(kSealLabel)));
    out.bytes(id);
    Key keys[2];
    hkdf(backend_key, input, keys);
    return keys[0];
}

}  // namespace

// Sealed token, little-endian.
//   byte  size    field        meaning
//   0     1       version      2; covered by the tag
//   1     24      id           the salt of the key that seals the rest: HKDF-BLAKE2s(backend key,
//                              "shoal token: box", id), first output, nonce 0
//   25    8       protocol id
//   33    8       client id
//   41    8       expiry       Unix time in seconds
//   49    8-153   servers      as above
//   ...   0-256   claims
//   ...   16      tag          ChaCha20-Poly1305
// Rejected: under 73 or over 474 bytes; unknown version; tag; bad servers; longer claims.
//
// The id is the first output of HKDF-BLAKE2s(backend key, "shoal token: new", fresh, bytes 25 on). Thus equal
// ids, which would mean equal seal keys, mean equal contents.

std::optional<ClientToken> issue_token(const TokenRequest& request, const Key& backend_key,
                                       const Bytes32& fresh) {
    if (request.servers.empty() || request.servers.size() > kMaxTokenServers ||
        !std::all_of(request.servers.begin(), request.servers.end(), is_server) ||
        request.claims.size() > kMaxClaimsBytes || is_missing(request.server_key)) {
        return std::nullopt;
    }
    constexpr std::size_t kPrefixBytes = kIssueLabel.size() + sizeof(Bytes32);
    std::array<std::byte, kPrefixBytes + kMaxSecretBytes> buffer;
    const WipeAtExit wipe_buffer{buffer};
    ByteWriter out(buffer);
    out.bytes(std::as_bytes(std::span(kIssueLabel)));
    out.bytes(fresh);
    out.u64(request.protocol_id);
    out.u64(request.client_id);
    out.u64(request.expires_s);
    write_servers(out, request.servers);
    out.bytes(request.claims);
    Key derived[2];
    hkdf(backend_key, out.written(), derived);

    ClientToken token;
    token.protocol_id = request.protocol_id;
    token.expires_s = request.expires_s;
    token.servers.assign(request.servers.begin(), request.servers.end());
    token.server_key = request.server_key;
    const std::span<std::byte> secret = std::span(buffer).subspan(kPrefixBytes, out.size() - kPrefixBytes);
    const std::span<const std::byte, kIdBytes> id = derived[0].bytes().first<kIdBytes>();
    Tag tag;
    const std::byte version{kTokenVersion};
    seal(box_key(backend_key, id), nonce_from(0), std::span(&version, 1), secret, tag);
    std::array<std::byte, kMaxSealedTokenBytes> whole;
    ByteWriter sealed(whole);
    sealed.bytes(std::span(&version, 1));
    sealed.bytes(id);
    sealed.bytes(secret);
    sealed.bytes(tag);
    token.sealed.assign(sealed.written().begin(), sealed.written().end());
    return token;
}

std::optional<TokenError> open_token(std::span<const std::byte> sealed, const Key& backend_key,
                                     std::uint64_t protocol_id, std::span<const Address> servers,
                                     std::uint64_t now_s, TokenContents& contents) {
    if (sealed.size() < kMinSealedTokenBytes || sealed.size() > kMaxSealedTokenBytes ||
        sealed[0] != std::byte{kTokenVersion}) {
        return TokenError::malformed;
    }
    const std::span<const std::byte, kIdBytes> id = sealed.subspan<1, kIdBytes>();
    std::array<std::byte, kMaxSecretBytes> buffer;
    const std::span<std::byte> secret = std::span(buffer).first(sealed.size() - kClearBytes - kTagBytes);
    std::copy_n(sealed.begin() + kClearBytes, secret.size(), secret.begin());
    const WipeAtExit wipe_buffer{secret};
    if (!open(box_key(backend_key, id), nonce_from(0), sealed.first(1), secret, sealed.last<kTagBytes>())) {
        return TokenError::forged;
    }

    ByteReader in(secret);
    const std::uint64_t token_protocol_id = in.u64();
    const std::uint64_t client_id = in.u64();
    const std::uint64_t expires_s = in.u64();
    std::array<Address, kMaxTokenServers> token_servers;
    const std::size_t server_count = read_servers(in, token_servers);
    const std::span<const std::byte> claims = in.rest();
    if (server_count == 0 || claims.size() > kMaxClaimsBytes) return TokenError::malformed;
    std::copy(id.begin(), id.end(), contents.id.begin());
    contents.client_id = client_id;
    contents.expires_s = expires_s;
    contents.claims.assign(claims.begin(), claims.end());
    if (token_protocol_id != protocol_id) return TokenError::other_protocol;
    const auto end = token_servers.begin() + std::ptrdiff_t(server_count);
    if (std::find_first_of(token_servers.begin(), end, servers.begin(), servers.end(), is_same_server) == end)
        return TokenError::other_server;
    return now_s >= expires_s ? std::optional(TokenError::expired) : std::nullopt;
}

std::string_view describe(TokenError error) {
    switch (error) {
        case TokenError::malformed:
            return "not a connect token";
        case TokenError::forged:
            return "connect token not sealed with our key";
        case TokenError::other_protocol:
            return "connect token for another game";
        case TokenError::other_server:
            return "connect token for another server";
        case TokenError::expired:
            return "connect token expired";
    }
    return "unknown error";
}

// Client token, little-endian.
//   byte  size     field        meaning
//   0     1        version      2
//   1     8        protocol id
//   9     8        expiry       Unix time in seconds
//   17    32       server key   public
//   49    8-153    servers      as above
//   ...   2        sealed size  73 to 474
//   ...   73-474   sealed
// Rejected: unknown version; bad servers; another sealed size; bytes missing or left over.

std::span<const std::byte> write(const ClientToken& token,
                                 std::span<std::byte, kMaxClientTokenBytes> buffer) {
    assert(!token.servers.empty() && token.servers.size() <= kMaxTokenServers);
    assert(token.sealed.size() >= kMinSealedTokenBytes && token.sealed.size() <= kMaxSealedTokenBytes);
    ByteWriter out(buffer);
    out.u8(kTokenVersion);
    out.u64(token.protocol_id);
    out.u64(token.expires_s);
    out.bytes(token.server_key);
    write_servers(out, token.servers);
    out.u16(token.sealed.size());
    out.bytes(token.sealed);
    return out.written();
}

std::optional<ClientToken> read_client_token(std::span<const std::byte> bytes) {
    ByteReader in(bytes);
    if (in.u8() != kTokenVersion) return std::nullopt;
    ClientToken token;
    token.protocol_id = in.u64();
    token.expires_s = in.u64();
    const std::span<const std::byte> key = in.bytes(kKeyBytes);
    std::copy(key.begin(), key.end(), token.server_key.begin());
    std::array<Address, kMaxTokenServers> servers;
    const std::size_t server_count = read_servers(in, servers);
    const std::size_t sealed_bytes = in.u16();
    if (server_count == 0 || sealed_bytes < kMinSealedTokenBytes || sealed_bytes > kMaxSealedTokenBytes)
        return std::nullopt;
    const std::span<const std::byte> sealed = in.bytes(sealed_bytes);
    if (!in.ok() || in.remaining() != 0) return std::nullopt;
    token.servers.assign(servers.begin(), servers.begin() + std::ptrdiff_t(server_count));
    token.sealed.assign(sealed.begin(), sealed.end());
    return token;
}

namespace {

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

}  // namespace

std::string to_text(const ClientToken& token) {
    std::array<std::byte, kMaxClientTokenBytes> buffer;
    const WipeAtExit wipe_buffer{buffer};
    const std::span<const std::byte> bytes = write(token, buffer);
    std::string text;
    text.reserve((bytes.size() * 8 + 5) / 6);  // so that it never moves and leaves a copy of the key behind
    std::uint32_t bits = 0;
    unsigned held = 0;  // low bits of `bits` not yet written
    for (const std::byte byte : bytes) {
        bits = bits << 8 | std::uint32_t(byte);
        for (held += 8; held >= 6;) {
            held -= 6;
            text += kBase64Digits[bits >> held & 63];
        }
    }
    if (held > 0) text += kBase64Digits[bits << (6 - held) & 63];
    return text;
}

std::optional<ClientToken> parse_client_token(std::string_view text) {
    std::array<std::byte, kMaxClientTokenBytes> buffer;
    const WipeAtExit wipe_buffer{buffer};
    if (text.size() > (buffer.size() * 8 + 5) / 6) return std::nullopt;
    std::size_t size = 0;
    std::uint32_t bits = 0;
    unsigned held = 0;
    for (const char letter : text) {
        const std::size_t digit = kBase64Digits.find(letter);
        if (digit == kBase64Digits.npos) return std::nullopt;
        bits = bits << 6 | std::uint32_t(digit);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        buffer[size++] = std::byte(bits >> held & 0xFF);
    }
    // Refuses a spare digit or nonzero spare bits: each token has exactly one text.
    if (held >= 6 || (bits & ((1u << held) - 1)) != 0) return std::nullopt;
    return read_client_token(std::span(buffer).first(size));
}

TokenHistory::TokenHistory(std::uint32_t capacity)
    : capacity_(std::max(capacity, 1u)), sweep_at_(std::min<std::size_t>(capacity_, 1024)) {}

TokenUse TokenHistory::use(const TokenId& id, std::uint64_t expires_s, std::uint64_t now_s) {
    now_s_ = std::max(now_s_, now_s);
    if (expires_s <= now_s_) return TokenUse::expired;
    const auto known = expiries_s_.find(id);
    if (known != expiries_s_.end() && known->second > now_s_) return TokenUse::used;
    if (expiries_s_.size() >= sweep_at_ && swept_s_ != now_s_) {
        std::erase_if(expiries_s_, [&](const auto& entry) { return entry.second <= now_s_; });
        sweep_at_ = std::clamp<std::size_t>(2 * expiries_s_.size(), std::min<std::size_t>(capacity_, 1024),
                                            capacity_);
        swept_s_ = now_s_;
    }
    if (expiries_s_.size() >= capacity_) return TokenUse::full;
    expiries_s_[id] = expires_s;
    return TokenUse::first;
}

/// Ids are outputs of a keyed hash, so their first bytes spread well.
std::size_t TokenHistory::Hash::operator()(const TokenId& id) const {
    return load<std::size_t>(id.data());
}

}  // namespace shoal::net
