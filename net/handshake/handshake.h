#pragma once
// The packets before a connection exists, the cookie that makes them stateless, and what is inside those
// that a way in may seal.
//
//   client                          server
//   request (1,200 B)       ->                      nothing is remembered
//                           <-      cookie          proves the client's address when it comes back
//   connect (1,200 B)       ->                      cookie valid: introduction opened, application asked
//                           <-      answer          the verdict: a slot, or why not
//   first data packet       ->                      confirmed: on_connected
//
// Instead of a cookie or an answer the server may send a refusal, in the clear: a hint, which anyone who
// sees the request can forge.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "../socket/address.h"
#include "../endpoint.h"
#include "../crypto/noise.h"
#include "../packet.h"
#include "reset.h"
#include "../crypto/siphash.h"
#include "token.h"

namespace shoal::net {

constexpr std::uint8_t kWireVersion = 4;
constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kIntroductionBytes = 1117;  // padded with zeros
constexpr std::size_t kIntroductionHeadBytes = 8 + 8 + 2;
constexpr std::size_t kConnectBodyBytes = kIntroductionBytes + kNoiseOverheadBytes;
constexpr std::size_t kMaxVerdictBytes = 1 + 8 + kMaxReasonBytes;
constexpr std::size_t kMaxAnswerBodyBytes = kMaxVerdictBytes + kNoiseOverheadBytes;

/// How a client comes in; what the bodies of connect and answer are.
enum class Way : std::uint8_t {
    insecure,  // introduction and zeros; the server's nonce and the verdict
    key,       // the two messages of a Noise exchange around introduction and verdict
    token,     // a sealed token, and the same around a shorter introduction; as with `key`
};

/// Version and nonce stand in the same place in every handshake packet of every version.
struct Request {
    std::uint8_t version = kWireVersion;
    std::uint64_t client_nonce = 0;
    std::uint64_t protocol_id = 0;
};
struct CookieReply {
    std::uint64_t client_nonce = 0;
    std::uint64_t cookie = 0;
};
struct Connect {
    std::uint8_t version = kWireVersion;
    std::uint64_t client_nonce = 0;
    std::uint64_t protocol_id = 0;
    Way way = Way::key;  // of strangers: any value
    std::uint64_t cookie = 0;
    std::span<const std::byte> body;  // kConnectBodyBytes; when read, into the datagram
};
struct Answer {
    std::uint64_t client_nonce = 0;
    std::span<const std::byte> body;  // at most kMaxAnswerBodyBytes; when read, into the datagram
};
struct Refuse {
    std::uint64_t client_nonce = 0;
    // or refused_key, refused_security, refused_token
    DisconnectReason reason = DisconnectReason::refused_protocol;
};

using DatagramBuffer = std::span<std::byte, kMaxDatagramBytes>;

/// Each writes a whole datagram and returns the part used.
std::span<const std::byte> write(const Request& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const CookieReply& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const Connect& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const Answer& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const Refuse& packet, DatagramBuffer buffer);

/// Each fills `packet` and returns nothing, or returns why the datagram must be dropped. Of a Request or
/// Connect of another version only version and nonce are read.
std::optional<Drop> read(std::span<const std::byte> datagram, Request& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, CookieReply& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, Connect& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, Answer& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, Refuse& packet);

/// What a client says of itself.
struct Introduction {
    std::uint64_t schema_hash = 0;
    std::uint64_t first_packet_number = 0;  // the client's; 1 to 2^62
    std::span<const std::byte> hello;       // when read, into what was read
};
/// What the server makes of it.
struct Verdict {
    bool is_accepted = false;
    std::uint64_t first_packet_number = 0;                // accepted: the server's; 1 to 2^62
    std::uint32_t connection_id = 0;                      // accepted
    ResetToken reset_token{};                             // accepted; insecure: zeros, and never sent
    DisconnectReason reason = DisconnectReason::refused;  // or refused_schema, refused_full, refused_token
    std::uint64_t schema_hash = 0;                        // refused: the server's
    std::string_view text;                                // refused; when read, into what was read
};

/// Fills the buffer: kIntroductionBytes, or what a token leaves of them.
void write(const Introduction& introduction, std::span<std::byte> buffer);
/// Returns the size.
std::size_t write(const Verdict& verdict, std::span<std::byte, kMaxVerdictBytes> buffer);
/// False if it is not what write() produces.
[[nodiscard]] bool read(std::span<const std::byte> bytes, Introduction& introduction);
[[nodiscard]] bool read(std::span<const std::byte> bytes, Verdict& verdict);

/// What both sides know of a handshake and say in the clear: the keys depend on it.
std::array<std::byte, 18> handshake_prologue(std::uint64_t protocol_id, Way way, std::uint64_t client_nonce);

/// The body of a connect by token. The Noise message fills what the token leaves.
struct TokenBody {
    std::span<const std::byte> sealed;
    std::span<std::byte> message;
};
/// Puts a token, at most kMaxSealedTokenBytes, into a body, and says where the message goes.
TokenBody begin_token_body(std::span<const std::byte> sealed, std::span<std::byte> body);
/// Nothing if the sizes make no sense. What `sealed` says is for open_token to judge.
std::optional<TokenBody> split_token_body(std::span<std::byte> body);

/// The prologue of this way has all but the message. Of the cookie, too, which holds for the client's address
/// only: so the message cannot be sent from another one, to use up the token there.
struct TokenPrologue {
    std::array<std::byte, 18 + 8 + kMaxSealedTokenBytes> buffer;
    std::size_t size;
    operator std::span<const std::byte>() const { return std::span(buffer).first(size); }
};
TokenPrologue token_prologue(std::uint64_t protocol_id, std::uint64_t client_nonce, std::uint64_t cookie,
                             std::span<const std::byte> sealed);

/// Never 0. Good for the eight-second slice of time it was made in and for the next one.
std::uint64_t make_cookie(const SipKey& key, const Address& client, std::uint64_t client_nonce, Time now);
bool is_cookie_valid(const SipKey& key, const Address& client, std::uint64_t client_nonce,
                     std::uint64_t cookie, Time now);

struct InsecureKeys {
    SipKey client_to_server;
    SipKey server_to_client;
};
/// From fresh numbers of both sides, so that neither a replayed packet nor a restart repeats a key. They
/// are no secret: the numbers travel in the clear.
InsecureKeys derive_insecure_keys(std::uint64_t protocol_id, std::uint64_t schema_hash,
                                  std::uint64_t client_nonce, std::uint64_t server_nonce,
                                  std::uint32_t connection_id);

}  // namespace shoal::net
