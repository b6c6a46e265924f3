#pragma once
// The packets before and after a connection: the handshake with its cookie, and the reset. WIRE.md has the
// bytes. Sources: Noise NK, see crypto/noise.h; RFC 9000, section 10.3, for the reset.
//
//   client                          server
//   request (1,200 B)       ->                      nothing is remembered
//                           <-      cookie          proves the client's address when it comes back
//   connect (1,200 B)       ->                      cookie valid: client hello opened, application asked
//                           <-      answer          the verdict: accepted, or why not
//   first data packet       ->                      confirmed: on_connected
//
// Instead of a cookie or an answer the server may send a refusal in the clear. It is only a hint: anyone who
// sees the request can forge it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "../crypto/noise.h"
#include "../crypto/siphash.h"
#include "../packet.h"
#include "token.h"

namespace shoal::net {

constexpr std::uint8_t kWireVersion = 5;
/// Kind, version, nonce, protocol id, cookie: what is in front of a connect's message.
constexpr std::size_t kConnectHeadBytes = 1 + 1 + 8 + 8 + 8;
constexpr std::size_t kConnectMessageBytes = kMaxDatagramBytes - kConnectHeadBytes;
constexpr std::size_t kClientHelloBytes = kConnectMessageBytes - kNoiseOverheadBytes;  // padded with zeros
constexpr std::size_t kAcceptanceBytes = 1 + 8 + 4 + sizeof(ResetToken);
constexpr std::size_t kMaxVerdictBytes = 1 + 8 + kMaxReasonBytes;
constexpr std::size_t kMaxAnswerMessageBytes = kMaxVerdictBytes + kNoiseOverheadBytes;
constexpr std::size_t kResetBytes = 1 + 4 + sizeof(ResetToken);
static_assert(kClientHelloBytes == 8 + 8 + 2 + kMaxSealedTokenBytes + 2 + kMaxTokenHelloBytes);
static_assert(kMaxHelloBytes <= kClientHelloBytes - (8 + 8 + 2 + 2));

/// A packet of the handshake. Its kind decides which of the fields it has. Version and nonce stand in the
/// same place in every version.
struct HandshakePacket {
    PacketKind kind = PacketKind::request;  // or cookie, connect, answer, refuse
    std::uint8_t version = kWireVersion;
    std::uint64_t client_nonce = 0;
    std::uint64_t protocol_id = 0;         // request, connect
    std::uint64_t cookie = 0;              // connect, answer; cookie: not 0
    Security security = Security::sealed;  // request; when read: any value
    // connect: kConnectMessageBytes; answer: at most kMaxAnswerMessageBytes. When read, into the datagram.
    std::span<const std::byte> message{};
    DisconnectReason reason = DisconnectReason::refused_protocol;  // refuse; or refused_key, refused_security
};
/// What a server answers to packets of a connection that it does not know, most likely because it was
/// restarted. Only the owner of its private key can compute the token, and the client was given it, in
/// secret, when it connected or changed its address. So the client need not wait for its timeout.
struct Reset {
    std::uint32_t connection_id = 0;
    ResetToken token{};
};

using DatagramBuffer = std::span<std::byte, kMaxDatagramBytes>;

/// Writes a whole datagram and returns the part used.
std::span<const std::byte> write(const HandshakePacket& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const Reset& packet, DatagramBuffer buffer);
/// Fills `packet`, which says what kind is expected, and returns nothing; or returns why the datagram must be
/// dropped. Of a request or connect of another version only version and nonce have a meaning.
std::optional<Drop> read(std::span<const std::byte> datagram, HandshakePacket& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, Reset& packet);

/// What the client says under the server's key. When read, the spans are views into what was read.
struct ClientHello {
    std::uint64_t schema_hash = 0;
    std::uint64_t first_packet_number = 0;  // the client's; 1 to 2^62
    std::span<const std::byte> token;       // sealed; none: empty
    std::span<const std::byte> hello;       // at most kMaxHelloBytes; with a token, what fits beside it
};
/// What the server replies.
struct Verdict {
    bool is_accepted = false;
    // If accepted:
    std::uint64_t first_packet_number = 0;  // the server's; 1 to 2^62
    std::uint32_t connection_id = 0;
    ResetToken reset_token{};
    // If refused:
    DisconnectReason reason = DisconnectReason::refused;  // or refused_schema, refused_full, refused_token
    std::uint64_t schema_hash = 0;                        // the server's
    std::string_view text;                                // when read, into what was read
};

void write(const ClientHello& hello, std::span<std::byte, kClientHelloBytes> buffer);
/// Returns the size.
std::size_t write(const Verdict& verdict, std::span<std::byte, kMaxVerdictBytes> buffer);
/// False if it is not what write() produces.
[[nodiscard]] bool read(std::span<const std::byte> bytes, ClientHello& hello);
[[nodiscard]] bool read(std::span<const std::byte> bytes, Verdict& verdict);

/// What both sides know of a handshake and say in the clear: the keys depend on it. The cookie holds for the
/// client's address and some seconds only; so does, therefore, the message made with it.
std::array<std::byte, 26> handshake_prologue(std::uint64_t protocol_id, Security security,
                                             std::uint64_t client_nonce, std::uint64_t cookie);

/// Never 0. Good for the eight-second slice of time it was made in and for the next one.
std::uint64_t make_cookie(const SipKey& key, const Address& client, std::uint64_t client_nonce, Time now);
bool is_cookie_valid(const SipKey& key, const Address& client, std::uint64_t client_nonce,
                     std::uint64_t cookie, Time now);

/// The same after a restart with the same private key and server id. Servers that share the key need an id
/// each: else one of them would make the tokens of another one's connections.
Key derive_reset_key(const Key& private_key, const PublicKey& public_key, std::uint64_t server_id);
/// For one connection, as long as its client stays at this address.
ResetToken make_reset_token(const Key& reset_key, std::uint64_t protocol_id, std::uint32_t connection_id,
                            const Address& client);

}  // namespace shoal::net
