#include "reset.h"

#include <algorithm>
#include <string_view>

#include "../bytes.h"
#include "../packet.h"

namespace shoal::net {

std::span<const std::byte> write(const Reset& packet, std::span<std::byte, kResetBytes> buffer) {
    ByteWriter out(buffer);
    out.u8(0x80u | static_cast<unsigned>(PacketKind::reset) << 3);
    out.u32(packet.connection_id);
    out.bytes(packet.token);
    return out.written();
}

std::optional<Drop> read(std::span<const std::byte> datagram, Reset& packet) {
    if (datagram.size() < kResetBytes) return Drop::truncated;
    if (datagram.size() > kResetBytes) return Drop::oversized;
    ByteReader in(datagram);
    if (read_kind(std::byte(in.u8())) != PacketKind::reset) return Drop::unknown_kind;
    packet.connection_id = in.u32();
    const std::span<const std::byte> token = in.rest();
    std::copy(token.begin(), token.end(), packet.token.begin());
    return std::nullopt;
}

Key derive_reset_key(const Key& private_key, const PublicKey& public_key, std::uint64_t server_id) {
    static constexpr std::string_view kLabel = "shoal reset";
    std::array<std::byte, kLabel.size() + sizeof(PublicKey) + 8> text;
    ByteWriter out(text);
    out.bytes(std::as_bytes(std::span(kLabel)));
    out.bytes(public_key);
    out.u64(server_id);
    Bytes32 hash = blake2s(text, private_key.bytes());
    const Key key(hash);
    wipe(hash);
    return key;
}

ResetToken make_reset_token(const Key& reset_key, std::uint64_t protocol_id, std::uint32_t connection_id,
                            const Address& client) {
    std::array<std::byte, 8 + 4 + 1 + 4 + 2 + 16> text;
    ByteWriter out(text);
    out.u64(protocol_id);
    out.u32(connection_id);
    out.u8(static_cast<unsigned>(client.family));
    out.u32(client.scope);
    out.u16(client.port);
    out.bytes(std::as_bytes(std::span(client.ip)));
    const Bytes32 hash = blake2s(text, reset_key.bytes());
    ResetToken token;
    std::copy_n(hash.begin(), token.size(), token.begin());
    return token;
}

}  // namespace shoal::net
