#pragma once
// The packets before and after a connection: the handshake with its cookie, and the reset. WIRE.md has the
// formats. Sources: Noise NK, see crypto/noise.h; RFC 9000, section 10.3, for the reset.
//
//   client                          server
//   request                 ->                      nothing is remembered
//                           <-      cookie          proves the client's address when it comes back
//   connect                 ->                      cookie valid: client hello opened, application asked
//                           <-      answer          the verdict: accepted, or why not
//   first data packet       ->                      confirmed: on_connected

#include "../crypto/noise.h"
#include "../crypto/siphash.h"
#include "../packet.h"
#include "token.h"

namespace shoal::net::impl {

constexpr std::uint8_t kWireVersion = 9;
/// Kind, version, nonce, protocol id, cookie: the bytes of a connect before its message.
constexpr std::size_t kConnectHeadBytes = 1 + 1 + 8 + 8 + 8;
constexpr std::size_t kConnectMessageBytes = kMaxDatagramBytes - kConnectHeadBytes;
constexpr std::size_t kClientHelloBytes = kConnectMessageBytes - kNoiseOverheadBytes;  // with padding (zeros)
constexpr std::size_t kAcceptanceBytes = 1 + 8 + 4 + 8 + 8;
constexpr std::size_t kMaxVerdictBytes = 1 + 8 + kMaxReasonBytes;
constexpr std::size_t kMaxAnswerMessageBytes = kMaxVerdictBytes + kNoiseOverheadBytes;
constexpr std::size_t kResetBytes = 1 + 4 + 8;
static_assert(kClientHelloBytes == 8 + 8 + 2 + kMaxSealedTokenBytes + 2 + kMaxTokenHelloBytes);
static_assert(kMaxHelloBytes <= kClientHelloBytes - (8 + 8 + 2 + 2));

/// The kind decides which fields it has. Version and nonce are at the same position in every version.
struct HandshakePacket {
    PacketKind kind = PacketKind::request;  // request, cookie, connect, answer or refuse
    std::uint8_t version = kWireVersion;
    std::uint64_t client_nonce = 0;
    std::uint64_t protocol_id = 0;         // in a request, connect
    std::uint64_t cookie = 0;              // in a packet of kind cookie (not 0), connect or answer
    Security security = Security::sealed;  // in a request; read() accepts any value
    // In a connect: kConnectMessageBytes; in an answer: at most kMaxAnswerMessageBytes. read() sets a view.
    std::span<const std::byte> message{};
    DisconnectReason reason = DisconnectReason::refused_protocol;  // in a refuse; or refused_key, _security
};
/// A server's answer to a probe of an unknown connection. Only the owner of the server's private key can
/// compute the token, from connection id and salt. The client got salt and token, encrypted, when it
/// connected, and sends the salt only when an ack is overdue: before, nobody can ask for the token.
struct Reset {
    std::uint32_t connection_id = 0;
    std::uint64_t token = 0;
};

using DatagramBuffer = std::span<std::byte, kMaxDatagramBytes>;

/// Writes a datagram and returns the part of `buffer` that was written.
std::span<const std::byte> write(const HandshakePacket& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const Reset& packet, DatagramBuffer buffer);
/// Set `packet.kind` to the expected kind before the call. Fills `packet`, or returns why the datagram must
/// be dropped. In a request or connect of another wire version only version and nonce have a meaning.
std::optional<Drop> read(std::span<const std::byte> datagram, HandshakePacket& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, Reset& packet);

/// The client's data, encrypted for the server. After read() the spans point into the bytes that were read.
struct ClientHello {
    std::uint64_t schema_hash = 0;
    std::uint64_t first_packet_number = 0;  // number of the client's first packet; 1 to 2^62
    std::span<const std::byte> token;       // sealed connect token; empty: none
    std::span<const std::byte> hello;  // at most kMaxHelloBytes, and with a token only the rest of the room
};
/// The server's decision.
struct Verdict {
    bool is_accepted = false;
    // If accepted:
    std::uint64_t first_packet_number = 0;  // number of the server's first packet; 1 to 2^62
    std::uint32_t connection_id = 0;
    std::uint64_t reset_salt = 0, reset_token = 0;
    // If refused:
    DisconnectReason reason = DisconnectReason::refused;  // also refused_schema, refused_full, refused_token
    std::uint64_t schema_hash = 0;                        // the server's schema hash
    std::string_view text;                                // after read() a view into `bytes`
};

void write(const ClientHello& hello, std::span<std::byte, kClientHelloBytes> buffer);
std::size_t write(const Verdict& verdict, std::span<std::byte, kMaxVerdictBytes> buffer);
/// Returns false if the size or a field is not valid. Padding may have any value.
[[nodiscard]] bool read(std::span<const std::byte> bytes, ClientHello& hello);
[[nodiscard]] bool read(std::span<const std::byte> bytes, Verdict& verdict);

/// Returns the unencrypted facts of a handshake that both sides must agree on; the keys depend on them.
std::array<std::byte, 26> handshake_prologue(std::uint64_t protocol_id, Security security,
                                             std::uint64_t client_nonce, std::uint64_t cookie);

/// Makes numbers that prove an address when they come back from it: cookies or challenges. Time is divided
/// into slices: a number is valid in the slice in which it was made and in the next one.
struct AddressProof {
    SipKey key;  // secret
    Duration slice;

    /// Returns a number, never 0, for this address. `name`: the client's nonce or connection id.
    std::uint64_t make(const Address& client, std::uint64_t name, Time now) const;
    bool is_valid(const Address& client, std::uint64_t name, std::uint64_t number, Time now) const;
};

/// Makes the salts and tokens of resets; the same after a restart with the same private key and server id.
/// Servers that share a private key need different ids: else one could end connections of another.
class ResetKey {
public:
    ResetKey(const SecretKey& private_key, const PublicKey& public_key, std::uint64_t protocol_id,
             std::uint64_t server_id);
    /// Returns an unpredictable salt of a new connection. `random`: an unpredictable number.
    std::uint64_t make_salt(std::uint32_t connection_id, std::uint64_t random) const;
    /// Returns whether make_salt() made it. One of 65,536 others passes: strangers without salt get no
    /// resets.
    bool is_salt(std::uint32_t connection_id, std::uint64_t salt) const {
        return make_salt(connection_id, salt) == salt;
    }
    std::uint64_t token(std::uint32_t connection_id, std::uint64_t salt) const;

private:
    SipKey key_;
};

}  // namespace shoal::net::impl
