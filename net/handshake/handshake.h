#pragma once
// The packets before a connection exists, the cookie that makes them stateless, and what client and server
// say of themselves inside them. Source of the exchange: Noise NK, see crypto/noise.h.
//
//   client                          server
//   request (1,200 B)       ->                      nothing is remembered
//                           <-      cookie          proves the client's address when it comes back
//   connect (1,200 B)       ->                      cookie valid: introduction opened, application asked
//                           <-      answer          the verdict: a place, or why not
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

#include "../crypto/noise.h"
#include "../crypto/siphash.h"
#include "../endpoint.h"
#include "../socket/address.h"
#include "reset.h"
#include "token.h"

namespace shoal::net {

constexpr std::uint8_t kWireVersion = 5;
/// Kind, version, nonce, protocol id, cookie: what is in front of a connect's message.
constexpr std::size_t kConnectHeadBytes = 1 + 1 + 8 + 8 + 8;
constexpr std::size_t kConnectMessageBytes = kMaxDatagramBytes - kConnectHeadBytes;
constexpr std::size_t kIntroductionBytes = kConnectMessageBytes - kNoiseOverheadBytes;  // padded with zeros
constexpr std::size_t kAcceptanceBytes = 1 + 8 + 4 + 16;
constexpr std::size_t kMaxVerdictBytes = 1 + 8 + kMaxReasonBytes;
constexpr std::size_t kMaxAnswerMessageBytes = kMaxVerdictBytes + kNoiseOverheadBytes;
constexpr std::size_t kAnswerHeadBytes = 1 + 1 + 8 + 8;
static_assert(kIntroductionBytes == 8 + 8 + 2 + kMaxSealedTokenBytes + 2 + kMaxTokenHelloBytes);
static_assert(kMaxHelloBytes <= kIntroductionBytes - (8 + 8 + 2 + 2));

/// Version and nonce stand in the same place in every handshake packet of every version.
struct Request {
    std::uint8_t version = kWireVersion;
    std::uint64_t client_nonce = 0;
    std::uint64_t protocol_id = 0;
    Security security = Security::sealed;  // of strangers: any value
};
struct CookieReply {
    std::uint64_t client_nonce = 0;
    std::uint64_t cookie = 0;
};
struct Connect {
    std::uint8_t version = kWireVersion;
    std::uint64_t client_nonce = 0;
    std::uint64_t protocol_id = 0;
    std::uint64_t cookie = 0;
    std::span<const std::byte> message;  // kConnectMessageBytes; when read, into the datagram
};
struct Answer {
    std::uint64_t client_nonce = 0;
    std::uint64_t cookie = 0;            // that of the connect
    std::span<const std::byte> message;  // at most kMaxAnswerMessageBytes; when read, into the datagram
};
struct Refuse {
    std::uint64_t client_nonce = 0;
    // or refused_key, refused_security
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
    std::span<const std::byte> token;       // sealed; none: empty. When read, into what was read, like:
    std::span<const std::byte> hello;  // at most kMaxHelloBytes; with a token, at most what fits beside it
};
/// What the server makes of it.
struct Verdict {
    bool is_accepted = false;
    std::uint64_t first_packet_number = 0;                // if accepted: the server's; 1 to 2^62
    std::uint32_t connection_id = 0;                      // accepted
    ResetToken reset_token{};                             // accepted
    DisconnectReason reason = DisconnectReason::refused;  // or refused_schema, refused_full, refused_token
    std::uint64_t schema_hash = 0;                        // refused: the server's
    std::string_view text;                                // refused; when read, into what was read
};

void write(const Introduction& introduction, std::span<std::byte, kIntroductionBytes> buffer);
/// Returns the size.
std::size_t write(const Verdict& verdict, std::span<std::byte, kMaxVerdictBytes> buffer);
/// False if it is not what write() produces.
[[nodiscard]] bool read(std::span<const std::byte> bytes, Introduction& introduction);
[[nodiscard]] bool read(std::span<const std::byte> bytes, Verdict& verdict);

/// What both sides know of a handshake and say in the clear: the keys depend on it. The cookie holds for the
/// client's address and some seconds only; so does, therefore, the message made with it.
std::array<std::byte, 26> handshake_prologue(std::uint64_t protocol_id, Security security,
                                             std::uint64_t client_nonce, std::uint64_t cookie);

/// Never 0. Good for the eight-second slice of time it was made in and for the next one.
std::uint64_t make_cookie(const SipKey& key, const Address& client, std::uint64_t client_nonce, Time now);
bool is_cookie_valid(const SipKey& key, const Address& client, std::uint64_t client_nonce,
                     std::uint64_t cookie, Time now);

}  // namespace shoal::net
