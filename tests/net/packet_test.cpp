#include "net/packet.h"

#include <gtest/gtest.h>

#include <random>

#include "net/connection.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

std::string hex_of(std::span<const std::byte> bytes) {
    std::string result;
    for (const std::byte byte : bytes) {
        char digits[4];
        std::snprintf(digits, sizeof digits, "%02x ", std::to_integer<unsigned>(byte));
        result += digits;
    }
    if (!result.empty()) result.pop_back();
    return result;
}

// A receiver reconstructs every truncated number, if it has received up to any number between `acked` and 64
// after the packet.
TEST(PacketNumber, IsReconstructedNearEachWraparound) {
    std::mt19937_64 random(1);
    for (const std::uint64_t wrap : {1ull << 8, 1ull << 16, 1ull << 24, 1ull << 32, 1ull << 40, 1ull << 62}) {
        for (int round = 0; round < 20'000; ++round) {
            const std::uint64_t number = wrap - 150 + random() % 300;
            const std::uint64_t open = 1 + (random() % 4 == 0 ? random() % 3'000'000 : random() % 130);
            const std::uint64_t acked = number > open ? number - open : 0;
            const std::uint8_t bytes = number_bytes(number, acked);
            const std::uint32_t truncated = static_cast<std::uint32_t>(number & ((1ull << (8 * bytes)) - 1));
            const std::uint64_t expected = acked + 1 + random() % (number - acked + 65);
            ASSERT_EQ(expand_number(truncated, bytes, expected), number)
                << "acked " << acked << " expected " << expected;
        }
    }
}

TEST(PacketNumber, TakesOneByteOnAPathWithoutLoss) {
    EXPECT_EQ(number_bytes(1000, 873), 1);
    EXPECT_EQ(number_bytes(1000, 872), 2);
    EXPECT_EQ(number_bytes(100'000, 1), 3);
    EXPECT_EQ(number_bytes(10'000'000, 1), 4);
}

TEST(Packet, UnknownKindBytesAreRejected) {
    int known = 0;
    for (unsigned value = 0; value < 256; ++value) known += read_kind(std::byte(value)).has_value();
    EXPECT_EQ(
        known,
        6 + 5 * 4 * 2);  // six kinds of the handshake; five kinds with four number sizes and a key phase
    EXPECT_EQ(read_kind(std::byte(0x80)), PacketKind::request);
    EXPECT_EQ(read_kind(std::byte(0xAB)), PacketKind::data);
}

/// One side of a connection with known keys.
struct CipherSide {
    CipherSide(Security security, std::optional<std::uint32_t> send_id, std::uint64_t first,
               std::uint64_t peer_first) {
        Session session;
        session.peer = PeerId{0x10000};
        session.send_id = send_id;
        session.receive_id = !send_id;
        session.send_first = first;
        session.reset_salt = 0x1122'3344'5566'7788;
        session.receive_first = peer_first;
        connection.emplace(ConnectionConfig{}, session, cipher(security, send_id.has_value(), first),
                           recorder, wire, 0ms);
        connection->announce();
    }
    static PacketCipher cipher(Security security, bool is_client, std::uint64_t first) {
        constexpr std::uint64_t kProtocolId = 0x0123456789ABCDEF;
        Bytes32 up, down;
        up.fill(std::byte(1));
        down.fill(std::byte(2));
        if (security == Security::insecure) {
            up = {std::byte(1)}, up[8] = std::byte(2);
            down = {std::byte(3)}, down[8] = std::byte(4);
        }
        return {security, kProtocolId, SecretKey(is_client ? up : down), SecretKey(is_client ? down : up),
                first,    0ms};
    }
    std::vector<std::byte> take() {
        std::vector<std::byte> bytes = wire.sent.front().second;
        wire.sent.pop_front();
        return bytes;
    }
    bool feed(std::span<const std::byte> bytes, Time now) {
        const std::vector<std::byte> exact(bytes.begin(), bytes.end());
        Packet packet;
        if (connection->open(exact, packet, now) != Connection::Arrival::fresh) return false;
        connection->apply(packet, now);
        return true;
    }
    Wire wire;
    Recorder recorder;
    std::optional<Connection> connection;
};

// The wire format: these bytes must not change without a new kWireVersion. The tags are from a second
// implementation.
TEST(Packet, InsecureBytesOfEachKindAreFixed) {
    CipherSide client(Security::insecure, 0xAABB0001, 300, 7);
    CipherSide server(Security::insecure, std::nullopt, 7, 300);

    // data: ping
    client.connection->ping(0ms);
    const auto ping = client.take();
    EXPECT_EQ(hex_of(ping), "a8 01 00 bb aa 2c 02 6c 41 39 e4 f8 f0 16 5b");
    ASSERT_TRUE(server.feed(ping, 0ms));

    // data: acks with delay, a reliable and an unreliable message, a payload
    (void)server.connection->send_message(Channel::reliable, as_bytes("rel"));
    (void)server.connection->send_message(Channel::unreliable, as_bytes("un"));
    send(server.recorder, *server.connection, as_bytes("state"), 3ms);
    const auto full = server.take();
    EXPECT_EQ(hex_of(full),
              "a8 07 0d 2c 01 0b 00 02 75 6e 56 07 03 72 65 6c 73 74 61 74 65 09 67 ea e5 e8 3f 25 a7");

    // data: a lost packet in the middle makes a group of ack bits
    client.connection->ping(4ms);
    client.connection->ping(4ms);
    client.take();
    ASSERT_TRUE(server.feed(client.take(), 4ms));
    server.connection->flush(4ms);
    const auto gap = server.take();
    EXPECT_EQ(hex_of(gap), "a8 08 11 2e 01 00 fe ff a0 b6 b2 c6 a6 fc 0b fb");

    // data: only acks
    ASSERT_TRUE(client.feed(full, 5ms));
    client.connection->flush(25ms);
    const auto acks = client.take();
    EXPECT_EQ(hex_of(acks), "a8 01 00 bb aa 2f 01 07 00 4e 30 82 c0 d6 98 5c b9 5a");

    // disconnect
    server.connection->close(DisconnectReason::kicked, "bye", true, 30ms);
    const auto disconnect = server.take();
    EXPECT_EQ(hex_of(disconnect), "b0 09 03 62 79 65 f7 59 88 10 30 fc 6b 83");
}

// data: a payload in two fragments, one byte too large for one packet
TEST(Packet, FragmentBytesAreFixed) {
    CipherSide server(Security::insecure, std::nullopt, 7, 300);
    send(server.recorder, *server.connection, as_bytes(std::string(kMaxPayloadBytes + 1, 'x')), 0ms);
    const auto first = server.take();
    EXPECT_EQ(hex_of(std::span(first).first(6)), "a8 07 0a 00 00 78");
    EXPECT_EQ(hex_of(std::span(first).last(9)), "78 ad 01 bb a5 ca c9 83 6e");
    EXPECT_EQ(first.size(), 5 + kFragmentBytes + kInsecureTagBytes);
    const auto second = server.take();
    EXPECT_EQ(hex_of(std::span(second).first(6)), "a8 08 0a 81 01 78");
    EXPECT_EQ(second.size(), 5 + kMaxPayloadBytes + 1 - kFragmentBytes + kInsecureTagBytes);
}

TEST(Packet, InsecureBytesOfChallengesAreFixed) {
    CipherSide client(Security::insecure, 0xAABB0001, 300, 7);
    CipherSide server(Security::insecure, std::nullopt, 7, 300);
    const Address elsewhere = Address::ipv4(1, 2, 3, 4, 5);
    client.connection->ping(0ms);
    client.connection->ping(0ms);
    client.wire.sent.clear();
    constexpr std::uint64_t kNumber = 0x1122'3344'5566'7788;
    server.connection->challenge(elsewhere, kNumber, 0ms);
    const auto challenge = server.take();
    EXPECT_EQ(hex_of(challenge), "c0 07 88 77 66 55 44 33 22 11 4b c5 fd e2 8b 9b 65 41");
    ASSERT_TRUE(client.feed(challenge, 0ms));
    client.connection->flush(0ms);
    EXPECT_EQ(hex_of(client.take()), "c8 01 00 bb aa 2e 88 77 66 55 44 33 22 11 53 d5 26 dd f1 8c 30 02");
}

// A ping of a client that misses acks, with the salt of its connection.
TEST(Packet, BytesOfAProbeAreFixed) {
    CipherSide client(Security::insecure, 0xAABB0001, 300, 7);
    client.connection->ping(0ms);
    const auto ping = client.take();
    client.connection->update(600ms);
    client.connection->flush(600ms);
    const auto probe = client.take();
    EXPECT_EQ(hex_of(probe), "d0 01 00 bb aa 2d 88 77 66 55 44 33 22 11 02 7d c2 d3 ba 7b 65 a2 eb");
    EXPECT_EQ(probe.size(), ping.size() + 8);
}

// The same packets sealed: the header is not encrypted, the rest is, and the tag has 16 bytes.
TEST(Packet, SealedBytesAreFixed) {
    CipherSide client(Security::sealed, 0xAABB0001, 300, 7);
    CipherSide server(Security::sealed, std::nullopt, 7, 300);
    client.connection->ping(0ms);
    const auto ping = client.take();
    EXPECT_EQ(hex_of(ping), "a8 01 00 bb aa 2c b3 1b 26 ef 00 c4 ba 67 85 c4 08 1f a5 fa 4e fe 75");
    ASSERT_TRUE(server.feed(ping, 0ms));
    send(server.recorder, *server.connection, as_bytes("state"), 3ms);
    const auto state = server.take();
    EXPECT_EQ(hex_of(state),
              "a8 07 81 5e 3c 2e 67 7e 31 61 77 28 8b 66 8b 3e cc 03 70 66 a4 12 e1 e0 85 5e 92");
    ASSERT_TRUE(client.feed(state, 3ms));
    EXPECT_EQ(client.recorder.payloads.at(0).second, "state");
    server.connection->close(DisconnectReason::kicked, "bye", true, 30ms);
    EXPECT_EQ(hex_of(server.take()), "b0 08 76 8e 8e 92 41 08 dc 2f 4d 9f 1f 3e 93 11 ae 97 28 1d c5 64");
}

// Goal: any acks are read as they were written, and take no byte of bits if nothing is missing.
TEST(Packet, AcksAreReadAsTheyWereWritten) {
    std::mt19937_64 random(3);
    for (int round = 0; round < 5000; ++round) {
        Acks acks;
        acks.present = true;
        acks.newest = static_cast<std::uint16_t>(random());
        acks.bits = random() % 2 ? ~0ull : ~(1ull << random() % 64) & ~(random() & random() & random());
        acks.delay = Duration(256 * (random() % 256));
        std::array<std::byte, 64> buffer;
        ByteWriter out(buffer);
        write_envelope(out, PacketKind::data, false, std::nullopt, 9, 1);
        out.u8(0);
        out.patch_u8(2, write_acks(out, acks));
        EXPECT_EQ(acks.bits == ~0ull, out.size() == 6u);
        const std::vector<std::byte> clear(out.written().begin(), out.written().end());
        out.u64(0);
        const auto envelope = read_envelope(out.written(), false);
        ASSERT_TRUE(envelope);
        Packet packet;
        ASSERT_TRUE(read_body(clear, *envelope, 1, packet));
        EXPECT_EQ(packet.acks.newest, acks.newest);
        EXPECT_EQ(packet.acks.bits, acks.bits);
        EXPECT_EQ(packet.acks.delay, acks.delay);
    }
}

}  // namespace
}  // namespace shoal::net::impl
