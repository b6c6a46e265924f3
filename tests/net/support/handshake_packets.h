#pragma once
// One type per handshake packet, for tests that write and read them.

#include "net/handshake/handshake.h"

namespace shoal::net::impl {

struct Request : HandshakePacket {
    Request() : HandshakePacket{PacketKind::request} {}
    Request(unsigned of_version, std::uint64_t nonce, std::uint64_t protocol, Security is = Security::sealed)
        : Request() {
        version = static_cast<std::uint8_t>(of_version);
        client_nonce = nonce;
        protocol_id = protocol;
        security = is;
    }
};
struct CookieReply : HandshakePacket {
    explicit CookieReply(std::uint64_t nonce = 0, std::uint64_t with = 0)
        : HandshakePacket{PacketKind::cookie} {
        client_nonce = nonce;
        cookie = with;
    }
};
struct Connect : HandshakePacket {
    Connect() : HandshakePacket{PacketKind::connect} {}
    Connect(unsigned of_version, std::uint64_t nonce, std::uint64_t protocol, std::uint64_t with,
            std::span<const std::byte> bytes)
        : Connect() {
        version = static_cast<std::uint8_t>(of_version);
        client_nonce = nonce;
        protocol_id = protocol;
        cookie = with;
        message = bytes;
    }
};
struct Answer : HandshakePacket {
    explicit Answer(std::uint64_t nonce = 0, std::uint64_t with = 0, std::span<const std::byte> bytes = {})
        : HandshakePacket{PacketKind::answer} {
        client_nonce = nonce;
        cookie = with;
        message = bytes;
    }
};
struct Refuse : HandshakePacket {
    explicit Refuse(std::uint64_t nonce = 0, DisconnectReason why = DisconnectReason::refused_protocol)
        : HandshakePacket{PacketKind::refuse} {
        client_nonce = nonce;
        reason = why;
    }
};

}  // namespace shoal::net::impl
