#pragma once
// The packets before a connection exists, the cookie that makes them stateless, and the keys they agree on.
//
//   client                          server
//   request (1,200 B)       ->                      nothing is remembered
//                           <-      cookie          proves the client's address when it comes back
//   connect (1,200 B)       ->                      cookie valid: application asked, slot taken
//                           <-      accept / refuse
//   first data packet       ->                      confirmed: on_connected

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "address.h"
#include "endpoint.h"
#include "packet.h"
#include "siphash.h"

namespace shoal::net {

constexpr std::uint8_t kWireVersion = 1;

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
    std::uint64_t schema_hash = 0;
    std::uint64_t cookie = 0;
    std::uint64_t first_packet_number = 0;  // the client's; 1 to 2^62
    std::span<const std::byte> hello;       // into the datagram
};
struct Accept {
    std::uint64_t client_nonce = 0;
    std::uint64_t server_nonce = 0;
    std::uint64_t first_packet_number = 0;  // the server's; 1 to 2^62
    std::uint32_t connection_id = 0;
};
struct Refuse {
    std::uint64_t client_nonce = 0;
    DisconnectReason reason = DisconnectReason::refused;
    std::uint64_t schema_hash = 0;  // the server's
    std::string_view text;          // into the datagram
};

using DatagramBuffer = std::span<std::byte, kMaxDatagramBytes>;

/// Each writes a whole datagram and returns the part used.
std::span<const std::byte> write(const Request& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const CookieReply& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const Connect& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const Accept& packet, DatagramBuffer buffer);
std::span<const std::byte> write(const Refuse& packet, DatagramBuffer buffer);

/// Each fills `packet` and returns nothing, or returns why the datagram must be dropped. Of a Request or
/// Connect of another version only version and nonce are read.
std::optional<Drop> read(std::span<const std::byte> datagram, Request& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, CookieReply& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, Connect& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, Accept& packet);
std::optional<Drop> read(std::span<const std::byte> datagram, Refuse& packet);

/// Never 0. Good for the eight-second slice of time it was made in and for the next one.
std::uint64_t make_cookie(const SipKey& key, const Address& client, std::uint64_t client_nonce, Time now);
bool is_cookie_valid(const SipKey& key, const Address& client, std::uint64_t client_nonce,
                     std::uint64_t cookie, Time now);

struct SessionKeys {
    SipKey client_to_server;
    SipKey server_to_client;
};
/// From fresh numbers of both sides, so that neither a replayed packet nor a restart repeats a key.
SessionKeys derive_keys(std::uint64_t protocol_id, std::uint64_t schema_hash, std::uint64_t client_nonce,
                        std::uint64_t server_nonce, std::uint32_t connection_id);

}  // namespace shoal::net
