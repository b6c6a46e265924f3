#pragma once
// Connect tokens: a game's backend says who may play where, and the servers need not ask it.
//
//   backend                 client                        server
//   issue_token      ->     passes `sealed` on,    ->     open_token, TokenHistory
//     (over HTTPS)          encrypted for the server
//
// Backend and servers share one 32-byte key; nobody else has it. Anyone who can open tokens can issue them,
// so servers run by others need a backend key of their own. A token also tells the client the public key of
// the server. The client's first message under that key carries the sealed token, so nobody on the path sees
// it, and is bound to the client's address and to a few seconds. A token lets anyone in who has it, once:
// send it encrypted. WIRE.md has the bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../crypto/primitives.h"
#include "../socket/address.h"

namespace shoal::net {

constexpr std::size_t kMaxTokenServers = 8;
constexpr std::size_t kMaxClaimsBytes = 256;
constexpr std::size_t kMaxSealedTokenBytes = 474;  // 66, claims, 7 per IPv4 and 19 per IPv6 server
constexpr std::size_t kMaxClientTokenBytes = 678;

/// What the backend vouches for.
struct TokenRequest {
    std::uint64_t protocol_id = 0;        // as in HostConfig
    std::uint64_t client_id = 0;          // the backend's name for the player
    std::uint64_t expires_s = 0;          // Unix time; the token is good before it. Half a minute is plenty.
    std::span<const Address> servers{};   // 1 to kMaxTokenServers, as clients reach them; no port 0, no scope
    std::span<const std::byte> claims{};  // for the server's application, at most kMaxClaimsBytes
    PublicKey server_key{};               // that of all these servers; see server_key.h
};

/// What the client gets. `sealed` is secret: wipe what write() and to_text() made.
struct ClientToken {
    std::uint64_t protocol_id = 0;
    std::uint64_t expires_s = 0;    // Unix time
    std::vector<Address> servers;   // 1 to kMaxTokenServers
    PublicKey server_key{};         // theirs
    std::vector<std::byte> sealed;  // for them; at most kMaxSealedTokenBytes
};

/// `fresh` is 32 random bytes that no other call had (see fill_random). They are mixed with the backend key
/// and the whole request, so even a broken random source repeats no key for another request and tells
/// strangers none. Nothing when the request is outside its limits, or its server_key is missing.
std::optional<ClientToken> issue_token(const TokenRequest& request, const Key& backend_key,
                                       const Bytes32& fresh);

/// Returns the part used.
std::span<const std::byte> write(const ClientToken& token, std::span<std::byte, kMaxClientTokenBytes> buffer);
/// Accepts exactly what write() writes. Says nothing about `sealed`, which only a server can judge.
std::optional<ClientToken> read_client_token(std::span<const std::byte> bytes);

/// The same bytes as hexadecimal digits, at most 1,356 of them.
/// Other users of a machine can often read command lines: prefer a pipe or a file where that matters.
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

/// Why a token is no good, in the order of the checks.
enum class [[nodiscard]] TokenError : std::uint8_t{
    malformed,       // not a token, or one of another version
    forged,          // not sealed with this key, or changed since
    other_protocol,  // authentic from here on
    other_server,   expired,
    used,          // before
    history_full,  // the history can remember no more tokens
};
std::string_view describe(TokenError error);

/// Returns nothing, having filled `contents`, or why the token is no good; `contents` then says nothing.
/// `servers`: the addresses, port included, under which clients reach this server (usually one, or one per
/// family); one of them must be in the token. Scopes are ignored. To change the backend key, try the old one
/// upon `forged` until the last of its tokens has expired.
[[nodiscard]] std::optional<TokenError> open_token(std::span<const std::byte> sealed, const Key& backend_key,
                                                   std::uint64_t protocol_id,
                                                   std::span<const Address> servers, std::uint64_t now_s,
                                                   TokenContents& contents);

/// Makes tokens single-use: remembers each until it expires. One per server process; a restart forgets, and
/// so a token may be used once per server and run. A client whose connection failed after its token was used
/// asks the backend for another one. Allocates about 80 bytes for each token remembered.
class TokenHistory {
public:
    /// Tokens used per second times seconds they live, and some to spare; at least 1.
    explicit TokenHistory(std::uint32_t capacity) : capacity_(capacity > 0 ? capacity : 1) {}

    /// Remembers the token, or returns why it is no good: expired, used or history_full. Only for clients
    /// that hold the token, and not for the repeats of a connect packet. Unix time; if `now_s` goes back it
    /// counts as standing still, so no forgotten token becomes good again.
    [[nodiscard]] std::optional<TokenError> use(const TokenId& id, std::uint64_t expires_s,
                                                std::uint64_t now_s);

    /// Tokens remembered.
    std::size_t size() const { return used_.size(); }

private:
    std::size_t capacity_;
    std::set<std::pair<std::uint64_t, TokenId>> used_;  // the expiry of each, and its id
    std::uint64_t now_s_ = 0;                           // the newest time seen
};

}  // namespace shoal::net
