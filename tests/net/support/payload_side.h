#pragma once
// One side of a connection that sends or receives payloads, and contents for them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "net/connection.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {

/// First packet numbers, some just before a wraparound.
inline constexpr std::uint64_t kPayloadStarts[] = {
    1, 200, 65'500, (1ull << 24) - 60, (1ull << 32) - 60, (1ull << 62) - 60};
inline const Address kSomewhere = Address::ipv4(1, 2, 3, 4, 5);

inline std::string noise(std::size_t size, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string text(size, '\0');
    for (char& letter : text) letter = static_cast<char>(random() & 0xFF);
    return text;
}
/// One side of an insecure connection. The test delivers its datagrams.
struct PayloadSide : Recorder {
    PayloadSide(bool is_first, std::uint64_t first_number, std::uint64_t peer_first_number,
                const ConnectionConfig& config = {})
        : connection(config, session(first_number, peer_first_number), cipher(is_first), *this, wire, 1000s) {
        connection.announce();
    }
    static Session session(std::uint64_t first, std::uint64_t peer_first) {
        return {PeerId{0x10000}, kSomewhere, std::nullopt, false, first, peer_first};
    }
    static PacketCipher cipher(bool is_first) {
        const SecretKey up(Bytes32{std::byte(1)}), down(Bytes32{std::byte(2)});
        return {Security::insecure, 77, is_first ? up : down, is_first ? down : up, 1, 0s};
    }
    void feed(const std::vector<std::byte>& bytes, Time now) {
        const std::vector<std::byte> exact(bytes);
        Packet packet;
        if (connection.open(exact, packet, now) == Connection::Arrival::fresh) connection.apply(packet, now);
    }
    std::vector<std::vector<std::byte>> take() {
        std::vector<std::vector<std::byte>> result;
        for (auto& [to, bytes] : wire.sent) result.push_back(std::move(bytes));
        wire.sent.clear();
        return result;
    }
    Wire wire;
    Connection connection;
};

}  // namespace shoal::net::impl
