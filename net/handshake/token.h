#pragma once
// Connect tokens: a game's backend says who may play where, and the servers need not ask it.
//
//   backend                 client                        server
//   issue_token      ->     keeps the token key,
//     (over HTTPS)          passes `sealed` on     ->     open_token, proof of the key, TokenHistory
//
// Backend and servers share one 32-byte key; nobody else has it. `sealed` may travel in clear.
//
// In the handshake the token key is the psk of Noise NNpsk0; a server's public key has no part in it. The
// connect packet carries `sealed` in clear, covered by the prologue together with
// protocol id and cookie, beside the first message (psk, e). That message's tag proves that its sender has
// the token key and not just a copy of `sealed`, and, through the cookie, that he sent it from where he is;
// the answer's tag proves that the server could open the token.
// Keys come from the psk and fresh ephemeral keys of both sides, new ones for each attempt, so that a token
// used again, here or at another server, cannot repeat a (key, nonce). A stolen backend key opens nothing
// recorded earlier but tokens and first messages.
//
// A server checks, in this order: the cookie; whether address and client nonce are those of a peer it has,
// then it repeats its answer and asks no further; open_token; the first message's tag; whether it has a free
// slot; TokenHistory::use. Asking the history before the tag would let whoever saw `sealed` on the wire burn
// the token; before the slot, a full server would. The application comes last, and hears of each token once.
//
// Who can open tokens can issue them: servers run by others need a backend key of their own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../socket/address.h"
#include "../crypto/primitives.h"

namespace shoal::net {

constexpr std::size_t kMaxTokenServers = 8;
constexpr std::size_t kMaxClaimsBytes = 256;
constexpr std::size_t kMaxSealedTokenBytes = 506;  // 98, claims, 7 per IPv4 and 19 per IPv6 server
constexpr std::size_t kMaxClientTokenBytes = 710;

/// What the backend vouches for.
struct TokenRequest {
    std::uint64_t protocol_id = 0;        // as in HostConfig
    std::uint64_t client_id = 0;          // the backend's name for the player
    std::uint64_t expires_s = 0;          // Unix time; the token is good before it. Half a minute is plenty.
    std::span<const Address> servers{};   // 1 to kMaxTokenServers, as clients reach them; no port 0, no scope
    std::span<const std::byte> claims{};  // for the server's application, at most kMaxClaimsBytes
};

/// What the client gets. The key is secret: hand it over encrypted, and wipe what write() and to_text()
/// made. The rest is not.
struct ClientToken {
    std::uint64_t protocol_id = 0;
    std::uint64_t expires_s = 0;    // Unix time
    std::vector<Address> servers;   // 1 to kMaxTokenServers
    Key key;                        // shared with those servers
    std::vector<std::byte> sealed;  // for them; at most kMaxSealedTokenBytes
};

/// `fresh` is 32 random bytes that no other call had (see make_seed). They are mixed with the backend key
/// and the whole request, so even a broken random source repeats no key for another request and tells
/// strangers none. Nothing when the request is outside its limits.
std::optional<ClientToken> issue_token(const TokenRequest& request, const Key& backend_key,
                                       const Bytes32& fresh);

/// Returns the part used.
std::span<const std::byte> write(const ClientToken& token, std::span<std::byte, kMaxClientTokenBytes> buffer);
/// Accepts exactly what write() writes. Says nothing about `sealed`, which only a server can judge.
std::optional<ClientToken> read_client_token(std::span<const std::byte> bytes);

/// The same bytes as base64url without padding (RFC 4648): letters, digits, - and _; at most 947 of them.
/// Other users of a machine can often read command lines: prefer a pipe or a file where that matters.
std::string to_text(const ClientToken& token);
std::optional<ClientToken> parse_client_token(std::string_view text);

/// Unpredictable, and different for every token.
using TokenId = std::array<std::byte, 24>;

struct TokenContents {
    TokenId id{};
    std::uint64_t client_id = 0;
    std::uint64_t expires_s = 0;    // Unix time
    Key key;                        // shared with the client
    std::vector<std::byte> claims;  // at most kMaxClaimsBytes; as trustworthy as the backend
};

/// Why a token is no good, in the order of the checks.
enum class TokenError : std::uint8_t {
    malformed,       // not a token, or one of another version
    forged,          // not sealed with this key, or changed since
    other_protocol,  // authentic from here on
    other_server,
    expired,
};
std::string_view describe(TokenError error);
/// Whether it comes from the backend nevertheless.
constexpr bool is_authentic(TokenError error) {
    return error >= TokenError::other_protocol;
}

/// Returns nothing, or why the token is no good. Fills `contents` whenever it is authentic, so that a refusal
/// can be sealed with its key; else leaves it as it was. `servers`: the addresses, port included, under which
/// clients reach this server (usually one, or one per family); one of them must be in the token. Scopes are
/// ignored. To change the backend key, try the old one upon `forged` until the last of its tokens has
/// expired.
[[nodiscard]] std::optional<TokenError> open_token(std::span<const std::byte> sealed, const Key& backend_key,
                                                   std::uint64_t protocol_id,
                                                   std::span<const Address> servers, std::uint64_t now_s,
                                                   TokenContents& contents);

enum class [[nodiscard]] TokenUse : std::uint8_t{
    first,  // remembered; let the client in
    used,   // was here before
    expired,
    full,  // `capacity` tokens are remembered, none has expired; let nobody in
};

/// Makes tokens single-use: remembers each until it expires. One per server process; a restart forgets, and
/// so a token may be used once per server and run. A client whose connection failed after its token was used
/// asks the backend for another one.
/// Allocates when created (about 48 bytes per token), then never. Each call takes constant time on average,
/// and 256 steps more per 256 s that passed; a token is looked at once more per 256 s of its life.
/// Ids must come from open_token: chosen ones could make the table slow.
class TokenHistory {
public:
    /// Tokens used per second times seconds they live, and some to spare; 1 to 2^24.
    explicit TokenHistory(std::uint32_t capacity);

    /// Only for clients that proved that they have the token key, and not for the repeats of a connect
    /// packet: the caller knows those by address and client nonce. Unix time; if `now_s` goes back it counts
    /// as standing still, so no forgotten token becomes good again.
    TokenUse use(const TokenId& id, std::uint64_t expires_s, std::uint64_t now_s);

    std::uint32_t size() const { return size_; }
    std::uint32_t capacity() const { return static_cast<std::uint32_t>(entries_.size()); }
    bool is_consistent() const;

private:
    static constexpr std::uint32_t kNone = 0xFFFFFFFF;
    static constexpr std::size_t kSeconds = 256;

    struct Entry {
        TokenId id{};
        std::uint64_t expires_s = 0;
        std::uint32_t next_in_bucket = kNone;
        std::uint32_t next_in_second = kNone;  // of the free ones, too
    };

    void forget_expired(std::uint64_t now_s);
    void remove_from_bucket(std::uint32_t index);
    std::uint32_t& bucket_of(const TokenId& id);

    std::vector<Entry> entries_;
    std::vector<std::uint32_t> buckets_;             // by id, a power of two; first entry or kNone
    std::array<std::uint32_t, kSeconds> seconds_{};  // by expiry modulo kSeconds; first entry or kNone
    std::uint32_t free_ = kNone;
    std::uint32_t size_ = 0;
    std::uint64_t now_s_ = 0;  // nothing remembered expires before or at it
};

}  // namespace shoal::net
