#include "token.h"

#include "../bytes.h"
#include "server_key.h"

namespace shoal::net::impl {
namespace {

constexpr std::byte kTokenVersion{2};
constexpr std::size_t kIdBytes = sizeof(TokenId);
constexpr std::size_t kClearBytes = 1 + kIdBytes;
constexpr std::size_t kFixedSecretBytes = 8 + 8 + 8;
constexpr std::size_t kMinServersBytes = 1 + (1 + 4 + 2);
constexpr std::size_t kMaxServersBytes = 1 + kMaxTokenServers * (1 + 16 + 2);
constexpr std::size_t kMaxSecretBytes = kFixedSecretBytes + kMaxServersBytes + kMaxClaimsBytes;
constexpr std::size_t kMinSealedTokenBytes = kClearBytes + kFixedSecretBytes + kMinServersBytes + kTagBytes;
static_assert(kMaxSealedTokenBytes == kClearBytes + kMaxSecretBytes + kTagBytes);
static_assert(kMaxClientTokenBytes == 1 + 8 + 8 + kKeyBytes + kMaxServersBytes + 2 + kMaxSealedTokenBytes);

// Labels: the purpose of a key derived from the backend key.
constexpr std::string_view kIssueLabel = "shoal token: new";
constexpr std::string_view kSealLabel = "shoal token: box";

/// Wipes a buffer of secrets at the end of a function.
struct WipeAtExit {
    std::span<std::byte> bytes;
    ~WipeAtExit() { wipe(bytes); }
};

bool is_server(const Address& address) {
    return address.family != Address::Family::none && address.port != 0 && address.scope == 0;
}

void write_servers(ByteWriter& out, std::span<const Address> servers) {
    out.u8(servers.size());
    for (const Address& server : servers) {
        const bool is_ipv4 = server.family == Address::Family::ipv4;
        out.u8(is_ipv4 ? 4 : 6);
        out.bytes(std::as_bytes(std::span(server.ip)).first(is_ipv4 ? 4 : 16));
        out.u16(server.port);
    }
}

/// Reads a list from write_servers(), and calls `found` with each server. Returns false if there are no
/// servers, more than kMaxTokenServers, or an invalid one; `found` may have been called before.
template <class Found>
bool read_servers(ByteReader& in, Found found) {
    const std::size_t count = in.u8();
    if (count == 0 || count > kMaxTokenServers) return false;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint8_t family = in.u8();
        if (family != 4 && family != 6) return false;
        std::array<std::uint8_t, 16> ip{};
        std::ranges::copy(in.bytes(family == 4 ? 4 : 16), std::as_writable_bytes(std::span(ip)).begin());
        const std::uint16_t port = in.u16();
        const Address server =
            family == 4 ? Address::ipv4(ip[0], ip[1], ip[2], ip[3], port) : Address::ipv6(ip, port);
        const bool is_mapped = family == 6 && server.family == Address::Family::ipv4;
        if (!in.ok() || port == 0 || is_mapped) return false;
        found(server);
    }
    return true;
}

/// The key that seals one token and nothing else, so its nonce can be zero.
SecretKey box_key(const SecretKey& backend_key, std::span<const std::byte, kIdBytes> id) {
    std::array<std::byte, kSealLabel.size() + kIdBytes> input;
    ByteWriter out(input);
    out.bytes(std::as_bytes(std::span(kSealLabel)));
    out.bytes(id);
    SecretKey keys[2];
    hkdf(backend_key, input, keys);
    return keys[0];
}

}  // namespace

std::optional<ClientToken> issue_token(const TokenRequest& request, const SecretKey& backend_key,
                                       const Bytes32& fresh) {
    if (request.servers.empty() || request.servers.size() > kMaxTokenServers ||
        !std::ranges::all_of(request.servers, is_server) || request.claims.size() > kMaxClaimsBytes ||
        is_missing(request.server_key)) {
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
    // The id is derived from all bytes written so far. So tokens with different contents have different ids,
    // and each is sealed with another key.
    SecretKey derived[2];
    hkdf(backend_key, out.written(), derived);
    const std::span<const std::byte> secret = out.written().subspan(kPrefixBytes);

    ClientToken token{request.protocol_id, request.expires_s, {}, request.server_key, {}};
    token.servers.assign(request.servers.begin(), request.servers.end());
    std::array<std::byte, kMaxSealedTokenBytes> whole;
    ByteWriter sealed(whole);
    sealed.bytes(std::span(&kTokenVersion, 1));
    sealed.bytes(derived[0].bytes().first<kIdBytes>());
    sealed.bytes(secret);
    Tag tag;
    seal(box_key(backend_key, std::span(whole).subspan<1, kIdBytes>()), nonce_from(0),
         std::span(&kTokenVersion, 1), std::span(whole).subspan(kClearBytes, secret.size()), tag);
    sealed.bytes(tag);
    token.sealed.assign(sealed.written().begin(), sealed.written().end());
    return token;
}

std::optional<TokenError> open_token(std::span<const std::byte> sealed, const SecretKey& backend_key,
                                     std::uint64_t protocol_id, std::span<const Address> servers,
                                     std::uint64_t now_s, TokenContents& contents) {
    if (sealed.size() < kMinSealedTokenBytes || sealed.size() > kMaxSealedTokenBytes ||
        sealed[0] != kTokenVersion) {
        return TokenError::malformed;
    }
    const std::span<const std::byte, kIdBytes> id = sealed.subspan<1, kIdBytes>();
    std::array<std::byte, kMaxSecretBytes> buffer;
    const std::span<std::byte> secret = std::span(buffer).first(sealed.size() - kClearBytes - kTagBytes);
    std::copy_n(sealed.begin() + kClearBytes, secret.size(), secret.begin());
    const WipeAtExit wipe_buffer{secret};
    if (!open(box_key(backend_key, id), nonce_from(0), sealed.first(1), secret, sealed.last<kTagBytes>()))
        return TokenError::forged;

    ByteReader in(secret);
    const std::uint64_t token_protocol_id = in.u64();
    const std::uint64_t client_id = in.u64();
    const std::uint64_t expires_s = in.u64();
    bool is_for_us = false;
    const bool has_servers = read_servers(in, [&](const Address& server) {
        is_for_us |= std::ranges::any_of(servers, [&](const Address& ours) {
            return ours.family == server.family && ours.ip == server.ip && ours.port == server.port;
        });
    });
    const std::span<const std::byte> claims = in.rest();
    if (!has_servers || claims.size() > kMaxClaimsBytes) return TokenError::malformed;
    std::ranges::copy(id, contents.id.begin());
    contents.client_id = client_id;
    contents.expires_s = expires_s;
    contents.claims.assign(claims.begin(), claims.end());
    if (token_protocol_id != protocol_id) return TokenError::other_protocol;
    if (!is_for_us) return TokenError::other_server;
    return now_s >= expires_s ? std::optional(TokenError::expired) : std::nullopt;
}

std::string_view describe(TokenError error) {
    static constexpr std::string_view kTexts =
        "not a connect token|connect token not sealed with our key|connect token for another game|"
        "connect token for another server|connect token expired|connect token used before|"
        "too many connect tokens at once";
    return part_of(kTexts, std::size_t(error));
}

std::span<const std::byte> write(const ClientToken& token,
                                 std::span<std::byte, kMaxClientTokenBytes> buffer) {
    assert(!token.servers.empty() && token.servers.size() <= kMaxTokenServers);
    assert(token.sealed.size() >= kMinSealedTokenBytes && token.sealed.size() <= kMaxSealedTokenBytes);
    ByteWriter out(buffer);
    out.bytes(std::span(&kTokenVersion, 1));
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
    const std::byte version{in.u8()};
    ClientToken token;
    token.protocol_id = in.u64();
    token.expires_s = in.u64();
    std::ranges::copy(in.bytes(kKeyBytes), token.server_key.begin());
    const bool has_servers =
        read_servers(in, [&](const Address& server) { token.servers.push_back(server); });
    const std::size_t sealed_bytes = in.u16();
    const std::span<const std::byte> sealed = in.rest();
    if (!in.ok() || version != kTokenVersion || !has_servers || sealed.size() != sealed_bytes ||
        sealed_bytes < kMinSealedTokenBytes || sealed_bytes > kMaxSealedTokenBytes)
        return std::nullopt;
    token.sealed.assign(sealed.begin(), sealed.end());
    return token;
}

std::string to_text(const ClientToken& token) {
    std::array<std::byte, kMaxClientTokenBytes> buffer;
    const WipeAtExit wipe_buffer{buffer};
    return hex_of(write(token, buffer));
}

std::optional<ClientToken> parse_client_token(std::string_view text) {
    std::array<std::byte, kMaxClientTokenBytes> buffer;
    const WipeAtExit wipe_buffer{buffer};
    const std::span<std::byte> bytes = std::span(buffer).first(std::min(text.size() / 2, buffer.size()));
    return read_hex(text, bytes) ? read_client_token(bytes) : std::nullopt;
}

std::optional<TokenError> TokenHistory::use(const TokenId& id, std::uint64_t expires_s, std::uint64_t now_s) {
    now_s_ = std::max(now_s_, now_s);
    while (!used_.empty() && used_.begin()->first <= now_s_) used_.erase(used_.begin());
    if (expires_s <= now_s_) return TokenError::expired;
    if (used_.contains({expires_s, id})) return TokenError::used;
    if (used_.size() >= capacity_) return TokenError::history_full;
    used_.emplace(expires_s, id);
    return std::nullopt;
}

}  // namespace shoal::net::impl
