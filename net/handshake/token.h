#pragma once
// Connect tokens: a game's backend decides who may play on which servers, and the servers need not ask it.
//
//   backend                 client                        server
//   issue_token      ->     passes `sealed` on,    ->     open_token, TokenHistory
//     (over HTTPS)          encrypted for the server
//
// Backend and servers share one secret 32-byte key. Anyone who can open tokens can issue them, so servers run
// by others need a backend key of their own. Whoever has a token can use it once: send it to the client
// encrypted. WIRE.md has the bytes.

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "../crypto/primitives.h"
#include "../socket/address.h"

namespace shoal::net::impl {

constexpr std::size_t kMaxTokenServers = 8;
constexpr std::size_t kMaxClaimsBytes = 256;
constexpr std::size_t kMaxSealedTokenBytes = 474;  // 66, claims, 7 per IPv4 server, 19 per IPv6 server
constexpr std::size_t kMaxClientTokenBytes = 678;

/// The contents of a token, as the backend states them.
struct TokenRequest {
    std::uint64_t protocol_id = 0;  // as in HostConfig
    std::uint64_t client_id = 0;    // the backend's name for the player
    std::uint64_t expires_s = 0;    // Unix time; the token is valid before it. Half a minute ahead is enough.
    std::span<const Address> servers{};   // 1 to kMaxTokenServers, as clients reach them; port not 0, scope 0
    std::span<const std::byte> claims{};  // for the server's application, at most kMaxClaimsBytes
    PublicKey server_key{};               // public key of all these servers; see server_key.h
};

/// The token as the client gets it. `sealed` is secret: wipe the results of write() and to_text() after use.
struct ClientToken {
    std::uint64_t protocol_id = 0;
    std::uint64_t expires_s = 0;    // Unix time
    std::vector<Address> servers;   // 1 to kMaxTokenServers
    PublicKey server_key{};         // public key of the servers
    std::vector<std::byte> sealed;  // only servers can open it; at most kMaxSealedTokenBytes
};

/// `fresh`: 32 random bytes, different for each call (see fill_random); even if they repeat, tokens of
/// different requests have different keys. Returns nothing if the request is invalid.
std::optional<ClientToken> issue_token(const TokenRequest& request, const SecretKey& backend_key,
                                       const Bytes32& fresh);

std::span<const std::byte> write(const ClientToken& token, std::span<std::byte, kMaxClientTokenBytes> buffer);
/// Accepts exactly the output of write(). Does not check `sealed`, which only a server can open.
std::optional<ClientToken> read_client_token(std::span<const std::byte> bytes);

/// The bytes of write() as hexadecimal digits, at most 1,356 of them. Other users of a machine can often read
/// its command lines: pass the text through a pipe or a file instead.
std::string to_text(const ClientToken& token);
std::optional<ClientToken> parse_client_token(std::string_view text);

/// Unpredictable, and different for every token.
using TokenId = std::array<std::byte, 24>;

struct TokenContents {
    TokenId id{};
    std::uint64_t client_id = 0;
    std::uint64_t expires_s = 0;    // Unix time
    std::vector<std::byte> claims;  // at most kMaxClaimsBytes; as trustworthy as the backend
};

/// Why a token is not valid, in the order of the checks.
enum class [[nodiscard]] TokenError : std::uint8_t{
    malformed,       // not a token, or of another version
    forged,          // not sealed with this key, or modified
    other_protocol,  // for another game; authentic, as in all cases below
    other_server,   expired,
    used,          // this server accepted the token before
    history_full,  // TokenHistory has no room to remember the token
};
std::string_view describe(TokenError error);

/// Fills `contents` and returns nothing; or returns why the token is not valid, and leaves `contents`
/// undefined. `servers`: addresses and ports under which clients reach this server; the token must contain
/// one of them. Scopes are ignored. To change the backend key: if the result is `forged`, try the old key.
[[nodiscard]] std::optional<TokenError> open_token(std::span<const std::byte> sealed,
                                                   const SecretKey& backend_key, std::uint64_t protocol_id,
                                                   std::span<const Address> servers, std::uint64_t now_s,
                                                   TokenContents& contents);

/// Remembers used tokens until they expire, 80 bytes each. A token may be used once per server process.
class TokenHistory {
public:
    /// `capacity`: more than the tokens used per second, times their life in seconds; at least 1.
    explicit TokenHistory(std::uint32_t capacity) : capacity_(capacity > 0 ? capacity : 1) {}

    /// Remembers the token, or returns why it is not valid: expired, used or history_full. Call it for opened
    /// tokens only. If the Unix time `now_s` decreases, the highest counts: no token becomes valid again.
    [[nodiscard]] std::optional<TokenError> use(const TokenId& id, std::uint64_t expires_s,
                                                std::uint64_t now_s);
    /// Undoes use().
    void forget(const TokenId& id, std::uint64_t expires_s) { used_.erase({expires_s, id}); }

    std::size_t size() const { return used_.size(); }

private:
    std::size_t capacity_;
    std::set<std::pair<std::uint64_t, TokenId>> used_;  // expiry (Unix time in s) and id of each token
    std::uint64_t now_s_ = 0;                           // the highest now_s so far
};

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::ClientToken, impl::describe, impl::issue_token, impl::kMaxClaimsBytes, impl::kMaxTokenServers,
    impl::parse_client_token, impl::to_text, impl::TokenError, impl::TokenRequest;
}  // namespace shoal::net
