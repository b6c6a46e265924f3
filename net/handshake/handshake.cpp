#include "handshake.h"

#include <type_traits>

namespace shoal::net::impl {
namespace {

constexpr std::size_t kPreludeBytes = 1 + 1 + 8;  // kind, version, nonce

/// Writes numbers in the width of their type, and arrays, spans and texts as their bytes.
struct FieldWriter {
    ByteWriter out;

    void operator()(const auto&... fields) { (put(fields), ...); }
    template <class T>
    void put(const T& field) {
        if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
            out.uint(static_cast<std::uint64_t>(field), sizeof(T));
        else
            out.bytes(std::as_bytes(std::span(field)));
    }
    void sized(std::span<const std::byte> field) {
        out.u16(field.size());
        out.bytes(field);
    }
};

/// Reads the output of FieldWriter. A span or text takes all remaining bytes.
struct FieldReader {
    ByteReader in;

    void operator()(auto&... fields) { (take(fields), ...); }
    template <class T>
    void take(T& field) {
        if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
            field = static_cast<T>(in.uint(sizeof(T)));
        } else {
            const std::span<const std::byte> rest = in.rest();
            field = T(reinterpret_cast<typename T::const_pointer>(rest.data()), rest.size());
        }
    }
    void sized(std::span<const std::byte>& field) { field = in.bytes(in.u16()); }
};

// The fields in the order of the wire. `io` is a FieldWriter or a FieldReader.

/// The fields of a packet after its first byte, the kind.
void packet_fields(auto& io, auto& packet) {
    const PacketKind kind = packet.kind;
    io(packet.version, packet.client_nonce);
    if (kind == PacketKind::request) return io(packet.protocol_id, packet.security);
    if (kind == PacketKind::refuse) return io(packet.reason);
    if (kind == PacketKind::connect) io(packet.protocol_id);
    io(packet.cookie);
    if (kind != PacketKind::cookie) io(packet.message);
}
void hello_fields(auto& io, auto& hello) {
    io(hello.schema_hash, hello.first_packet_number);
    io.sized(hello.token);
    io.sized(hello.hello);
}
/// The fields of a verdict after its first byte, which is 0 if accepted, else the reason.
void verdict_fields(auto& io, auto& verdict) {
    if (verdict.is_accepted)
        io(verdict.first_packet_number, verdict.connection_id, verdict.reset_salt, verdict.reset_token);
    else
        io(verdict.schema_hash, verdict.text);
}

std::byte first_byte(PacketKind kind) {
    return std::byte(0x80u | static_cast<unsigned>(kind) << 3);
}

/// So the server's reply is never longer than the packet it replies to.
bool is_padded(const HandshakePacket& packet) {
    return packet.kind == PacketKind::request || packet.kind == PacketKind::connect;
}

bool is_one_of(DisconnectReason reason, std::initializer_list<DisconnectReason> reasons) {
    return std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
}

bool is_first_number(std::uint64_t number) {
    return number >= 1 && number <= 1ull << 62;
}

// Writers assert it, readers check it.
bool is_valid(const HandshakePacket& packet) {
    if (packet.kind == PacketKind::request) return true;
    if (packet.kind == PacketKind::connect) return packet.message.size() == kConnectMessageBytes;
    if (packet.kind == PacketKind::refuse)
        return is_one_of(packet.reason, {DisconnectReason::refused_protocol, DisconnectReason::refused_key,
                                         DisconnectReason::refused_security});
    if (packet.version != kWireVersion) return false;
    return packet.kind == PacketKind::cookie ? packet.cookie != 0
                                             : packet.message.size() <= kMaxAnswerMessageBytes;
}
bool is_valid(const ClientHello& hello) {
    return is_first_number(hello.first_packet_number) && hello.token.size() <= kMaxSealedTokenBytes &&
           hello.hello.size() <= kMaxHelloBytes;
}
bool is_valid(const Verdict& verdict) {
    if (verdict.is_accepted) return is_first_number(verdict.first_packet_number);
    return verdict.text.size() <= kMaxReasonBytes &&
           is_one_of(verdict.reason, {DisconnectReason::refused_schema, DisconnectReason::refused_full,
                                      DisconnectReason::refused, DisconnectReason::refused_token});
}

}  // namespace

std::span<const std::byte> write(const HandshakePacket& packet, DatagramBuffer buffer) {
    assert(is_valid(packet));
    FieldWriter io{ByteWriter(buffer)};
    io(first_byte(packet.kind));
    packet_fields(io, packet);
    if (is_padded(packet)) io.out.pad_to(kMaxDatagramBytes);
    return io.out.written();
}

std::optional<Drop> read(std::span<const std::byte> datagram, HandshakePacket& packet) {
    if (datagram.size() < (is_padded(packet) ? kMaxDatagramBytes : kPreludeBytes)) return Drop::truncated;
    if (datagram.size() > kMaxDatagramBytes) return Drop::oversized;
    if (datagram[0] != first_byte(packet.kind)) return Drop::unknown_kind;
    FieldReader io{ByteReader(datagram.subspan(1))};
    packet_fields(io, packet);
    const bool may_go_on = packet.kind == PacketKind::request || packet.kind == PacketKind::refuse;
    const bool is_whole = io.in.ok() && (may_go_on || io.in.remaining() == 0);
    return is_whole && is_valid(packet) ? std::nullopt : std::optional(Drop::bad_handshake);
}

std::span<const std::byte> write(const Reset& packet, DatagramBuffer buffer) {
    FieldWriter io{ByteWriter(buffer)};
    io(first_byte(PacketKind::reset), packet.connection_id, packet.token);
    return io.out.written();
}

std::optional<Drop> read(std::span<const std::byte> datagram, Reset& packet) {
    if (datagram.size() < kResetBytes) return Drop::truncated;
    if (datagram.size() > kResetBytes) return Drop::oversized;
    if (datagram[0] != first_byte(PacketKind::reset)) return Drop::unknown_kind;
    FieldReader{ByteReader(datagram.subspan(1))}(packet.connection_id, packet.token);
    return std::nullopt;
}

void write(const ClientHello& hello, std::span<std::byte, kClientHelloBytes> buffer) {
    assert(is_valid(hello));
    FieldWriter io{ByteWriter(buffer)};
    hello_fields(io, hello);
    io.out.pad_to(buffer.size());
}

bool read(std::span<const std::byte> bytes, ClientHello& hello) {
    FieldReader io{ByteReader(bytes)};
    hello_fields(io, hello);
    return io.in.ok() && bytes.size() == kClientHelloBytes && is_valid(hello);
}

std::size_t write(const Verdict& verdict, std::span<std::byte, kMaxVerdictBytes> buffer) {
    assert(is_valid(verdict));
    FieldWriter io{ByteWriter(buffer)};
    io(verdict.is_accepted ? DisconnectReason{} : verdict.reason);
    verdict_fields(io, verdict);
    return io.out.size();
}

bool read(std::span<const std::byte> bytes, Verdict& verdict) {
    FieldReader io{ByteReader(bytes)};
    io(verdict.reason);
    verdict.is_accepted = verdict.reason == DisconnectReason{};
    verdict_fields(io, verdict);
    return io.in.ok() && io.in.remaining() == 0 && is_valid(verdict);
}

std::array<std::byte, 26> handshake_prologue(std::uint64_t protocol_id, Security security,
                                             std::uint64_t client_nonce, std::uint64_t cookie) {
    std::array<std::byte, 26> prologue;
    FieldWriter{ByteWriter(prologue)}(protocol_id, kWireVersion, security, client_nonce, cookie);
    return prologue;
}

std::uint64_t AddressProof::make(const Address& client, std::uint64_t name, Time now) const {
    const std::uint64_t place = std::uint64_t(client.scope) << 32 | std::uint64_t(client.port) << 16 |
                                static_cast<std::uint64_t>(client.family);
    const auto slice_number = static_cast<std::uint64_t>(now / slice);
    const std::uint64_t number =
        siphash(key, {slice_number, name, place}, std::as_bytes(std::span(client.ip)));
    return number != 0 ? number : 1;
}

bool AddressProof::is_valid(const Address& client, std::uint64_t name, std::uint64_t number, Time now) const {
    return number == make(client, name, now) || (now >= slice && number == make(client, name, now - slice));
}

ResetKey::ResetKey(const SecretKey& private_key, const PublicKey& public_key, std::uint64_t protocol_id,
                   std::uint64_t server_id) {
    static constexpr std::string_view kLabel = "shoal reset";
    std::array<std::byte, kLabel.size() + sizeof(PublicKey) + 8 + 8> text;
    FieldWriter{ByteWriter(text)}(kLabel, public_key, protocol_id, server_id);
    const SecretKey derived = derived_key(private_key, text);
    ByteReader in(derived.bytes());
    key_.low = in.u64();
    key_.high = in.u64();
}

std::uint64_t ResetKey::make_salt(std::uint32_t connection_id, std::uint64_t random) const {
    const std::uint64_t chosen = random >> 16;
    return chosen << 16 | (siphash(key_, {1, connection_id, chosen}) & 0xFFFF);
}

std::uint64_t ResetKey::token(std::uint32_t connection_id, std::uint64_t salt) const {
    return siphash(key_, {2, connection_id, salt});
}

}  // namespace shoal::net::impl
