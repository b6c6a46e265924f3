#pragma once
// Handshake packets that a test writes, forged or copied; and a client that is not a net::Client.

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "net/crypto/packet_cipher.h"
#include "net/handshake/handshake.h"

namespace shoal::net::impl::attacks {

using Bytes = std::vector<std::byte>;

inline Bytes copy_of(std::span<const std::byte> bytes) {
    return {bytes.begin(), bytes.end()};
}

// --- Packets of the handshake ---

std::optional<PacketKind> kind_of(std::span<const std::byte> datagram);
bool is_handshake(std::span<const std::byte> datagram);
/// Requires is_handshake().
std::uint64_t nonce_of(std::span<const std::byte> datagram);
/// The cookie in a cookie packet; nothing in any other datagram.
std::optional<std::uint64_t> cookie_in(std::span<const std::byte> datagram);
Bytes make_request(std::uint64_t nonce);
Bytes forge_cookie(std::uint64_t nonce, std::uint64_t cookie);
Bytes forge_refuse(std::uint64_t nonce, DisconnectReason reason);
/// An answer that no key of the client opens.
Bytes forge_answer(std::uint64_t nonce, std::mt19937_64& random);
/// A connect packet for a cookie packet, with random bytes as hello. Requires cookie_in(cookie).
Bytes forge_connect(std::span<const std::byte> cookie, std::mt19937_64& random);
/// A copy of a connect packet with another cookie and the same hello.
Bytes copy_with_cookie(std::span<const std::byte> connect, std::uint64_t cookie);

// --- A client that is not a net::Client ---

/// A client of the attacker, with any nonce, any address, and packets that no correct client sends. It has
/// the server's public key.
class Guest {
public:
    Guest(std::uint64_t nonce, std::uint64_t secret) : nonce_(nonce), secret_(secret) {}

    Bytes request() const { return make_request(nonce_); }
    Bytes connect(std::uint64_t cookie);
    /// Returns true if the datagram is the server's answer to connect() and accepts the client.
    bool read_answer(std::span<const std::byte> datagram, Time now);
    bool is_accepted() const { return cipher_.has_value(); }

    /// Contents of a packet of the connection.
    struct Contents {
        Acks acks = {};
        bool ping = false;
        std::span<const std::byte> runs = {};  // bytes of messages, as in write_run()
    };
    /// The next packet. Requires is_accepted().
    Bytes packet(const Contents& contents);
    /// The echo of a challenge, or nothing if the datagram is not one.
    std::optional<Bytes> echo(std::span<const std::byte> datagram, Time now);
    /// The number of a packet of the server, or nothing if it does not open.
    std::optional<std::uint64_t> read_number(std::span<const std::byte> datagram, Time now);

    /// The last run of a packet: `count` empty messages, unreliable.
    static Bytes empty_messages(std::uint8_t count);
    /// The last run of a packet: one reliable message of `size` bytes; its id is `id`, and it waits for the
    /// message `distance` before.
    static Bytes reliable_message(std::uint64_t id, std::uint16_t distance, std::size_t size);

private:
    Bytes seal(PacketKind kind, std::span<const std::byte> body);
    std::optional<Bytes> open(std::span<const std::byte> datagram, Time now);

    std::uint64_t nonce_, secret_;
    std::optional<NoiseExchange> noise_;
    std::optional<PacketCipher> cipher_;
    std::uint32_t connection_id_ = 0;
    std::uint64_t next_number_ = 1, server_newest_ = 0;
};

}  // namespace shoal::net::impl::attacks
