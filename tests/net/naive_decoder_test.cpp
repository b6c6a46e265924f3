// Two decoders read every packet of simulated connections: the library's, and a simple one written from
// net/WIRE.md.

#include "tests/net/support/naive_decoder.h"
#include "tests/net/support/addresses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "net/connection.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

constexpr std::uint64_t kProtocol = 0xC0FFEE, kSalt = 0x1122'3344'5566'7788;

/// What occurred, to check that the test covers everything.
struct Seen {
    std::uint64_t packets = 0, disconnects = 0, duplicates = 0, acks = 0, pings = 0, payloads = 0;
    std::uint64_t challenges = 0, echoes = 0, probes = 0;
    std::uint64_t partial_groups = 0, distances = 0, counts = 0, late_keys = 0;
    std::uint64_t pieces = 0, parities = 0, fragments = 0, late_fragments = 0, outdated = 0, larges = 0;
    std::uint64_t channels[3] = {};
};

/// Reads each datagram with both decoders before it is applied.
struct Side {
    Side(const ConnectionConfig& config, const Session& session, const PacketCipher& cipher,
         naive::Decoder second, LinkConditioner& out)
        : sink(out, session), connection(config, session, cipher, recorder, sink, 1000s), naive(second) {
        connection.announce();
    }
    struct Out : Sink {
        Out(LinkConditioner& onto, const Session& session)
            : link(onto), from(session.address == kServer ? kClient : kServer) {}
        void send(const Address& to, std::span<const std::byte> datagram) override {
            link.push(from, to, datagram, now);
        }
        LinkConditioner& link;
        Address from;
        Time now = 1000s;
    };
    Recorder recorder;
    Out sink;
    Connection connection;
    naive::Decoder naive;
    std::uint64_t challenge = 0;  // of the last one sent
};

void compare_messages(const Packet& ours, const naive::Packet& theirs, Seen& seen) {
    ASSERT_EQ(ours.message_count, theirs.messages.size());
    for (std::size_t i = 0; i < ours.message_count; ++i) {
        const Frame& frame = ours.frames[i];
        const naive::Message& message = theirs.messages[i];
        ASSERT_EQ(unsigned(frame.channel), message.channel);
        ASSERT_TRUE(std::ranges::equal(ours.bytes(frame), message.bytes));
        seen.channels[message.channel] += 1;
        if (frame.channel == Channel::sequenced) {
            ASSERT_EQ(frame.key, message.key);
        }
        if (frame.channel != Channel::reliable) continue;
        ASSERT_EQ(frame.goes_on, message.goes_on);
        ASSERT_EQ(frame.is_parity, message.is_parity);
        seen.parities += message.is_parity;
        seen.pieces += message.goes_on;
        ASSERT_EQ(frame.id, message.id);
        ASSERT_EQ(frame.distance, message.distance);
        seen.distances += message.distance > 1;
    }
    seen.counts += ours.message_count > 1;
}

void compare(const Packet& ours, const naive::Packet& theirs, Seen& seen) {
    ASSERT_EQ(ours.number, theirs.number);
    ASSERT_EQ(ours.kind == PacketKind::disconnect, theirs.is_disconnect);
    seen.packets += 1;
    if (theirs.is_disconnect) {
        seen.disconnects += 1;
        ASSERT_EQ(unsigned(ours.reason), theirs.reason);
        ASSERT_TRUE(std::ranges::equal(as_bytes(ours.text), theirs.text));
        return;
    }
    ASSERT_EQ(ours.kind == PacketKind::challenge, theirs.is_challenge);
    ASSERT_EQ(ours.kind == PacketKind::echo, theirs.is_echo);
    if (theirs.is_challenge || theirs.is_echo) {
        (theirs.is_echo ? seen.echoes : seen.challenges) += 1;
        ASSERT_EQ(ours.challenge, theirs.challenge);
        return;
    }
    if (theirs.is_probe) {
        ASSERT_EQ(theirs.reset_salt, kSalt);
        seen.probes += 1;
    }
    ASSERT_EQ(ours.ping, theirs.is_ping);
    ASSERT_EQ(ours.acks.present, theirs.has_acks);
    if (theirs.has_acks) {
        ASSERT_EQ(ours.acks.newest, theirs.ack);
        ASSERT_EQ(ours.acks.delay, Duration(theirs.ack_delay * 256));
        ASSERT_EQ(theirs.ack_bits.size(), 64u);
        for (unsigned bit = 0; bit < 64; ++bit) ASSERT_EQ(ours.acks.bits >> bit & 1, theirs.ack_bits[bit]);
        seen.partial_groups += ours.acks.bits != ~0ull;
    }
    ASSERT_EQ(ours.has_payload, theirs.has_payload);
    if (theirs.has_payload) {
        ASSERT_TRUE(std::ranges::equal(ours.payload, theirs.payload));
    }
    ASSERT_EQ(ours.is_fragment, theirs.is_fragment);
    if (theirs.is_fragment) {
        ASSERT_EQ(ours.fragment.index, theirs.fragment_index);
        ASSERT_EQ(ours.fragment.is_last, theirs.is_last_fragment);
        ASSERT_EQ(ours.fragment.distance, theirs.fragment_distance);
        seen.fragments += 1;
        seen.late_fragments += theirs.fragment_distance > theirs.fragment_index;
        seen.outdated += theirs.is_outdated;
    }
    seen.acks += theirs.has_acks;
    seen.pings += theirs.is_ping;
    seen.payloads += theirs.has_payload;
    compare_messages(ours, theirs, seen);
}

void arrive(Side& side, const Address& from, std::span<const std::byte> datagram, Time now, Seen& seen) {
    if (!side.connection.is_open()) return;  // disconnect packets are repeated
    Packet packet;
    naive::Packet naive_packet;
    const std::uint64_t bad_tags = side.connection.stats().drops[Drop::bad_tag];
    const bool is_good = side.connection.open(datagram, packet, now) == Connection::Arrival::fresh;
    const naive::Decoder::Verdict verdict = side.naive.decode(datagram, naive_packet);
    ASSERT_EQ(side.connection.stats().drops[Drop::malformed], 0u);
    ASSERT_EQ(side.connection.stats().drops[Drop::bad_tag], bad_tags);
    ASSERT_EQ(is_good, verdict == naive::Decoder::Verdict::good);
    seen.duplicates += !is_good;
    if (!is_good) return;
    compare(packet, naive_packet, seen);
    const std::size_t before = side.recorder.payloads.size();
    const std::uint64_t outdated = side.connection.stats().fragments_outdated;
    // What a host does with an echo.
    if (packet.kind == PacketKind::echo && packet.challenge == side.challenge)
        side.connection.path().prove(from, false, now);
    side.connection.apply(packet, now);
    const bool is_heard =
        naive_packet.is_fragment ? naive_packet.large.has_value() : naive_packet.has_payload;
    ASSERT_EQ(side.recorder.payloads.size() - before, is_heard ? 1u : 0u);
    ASSERT_EQ(side.connection.stats().fragments_outdated - outdated, naive_packet.is_outdated ? 1u : 0u);
    if (!naive_packet.large) return;
    ASSERT_EQ(side.recorder.payloads.back().first, naive_packet.large_number);
    ASSERT_TRUE(std::ranges::equal(as_bytes(side.recorder.payloads.back().second), *naive_packet.large));
    seen.larges += 1;
    const bool is_refused = side.recorder.withhold && side.recorder.withhold(naive_packet.large_number);
    if (is_refused) side.naive.refuse(naive_packet.large_number);
}

/// Sends messages and payloads of all kinds.
void talk(Side& side, std::mt19937_64& random, Time now) {
    Connection& connection = side.connection;
    const auto text = [&](std::size_t most) {
        std::vector<std::byte> bytes(random() % (most + 1));
        for (std::byte& byte : bytes) byte = std::byte(random() & 0xFF);
        return bytes;
    };
    for (std::uint64_t n = random() % 4; n > 0; --n) {
        std::size_t most = random() % 20 == 0 ? 1000 : random() % 5 == 0 ? 200 : 8;
        Delivery how = Channel::unreliable;
        switch (random() % 6) {
            case 0:
                how = latest_of(static_cast<std::uint8_t>(random() % 256));
                break;
            case 1:
                how = Channel::reliable;
                break;
            case 2:
                how = unordered();
                break;
            case 3:
                how = ordered_by(static_cast<std::uint32_t>(random() % 40));
                break;
            default:
                break;
        }
        if (how.channel == Channel::reliable && random() % 20 == 0) most = 5'000;
        if (random() % 3 == 0) how = how.with(random() % 2 ? Weight::bulk : Weight::urgent);
        for (std::uint64_t copies = random() % 5; copies > 0; --copies)
            (void)connection.send_message(how, text(most));
    }
    std::vector<std::byte> payload = text(random() % 4 ? 140 : kMaxPayloadBytes);
    if (random() % 6 == 0) payload = text(random() % 2 ? 2'500 : 10'000);
    if (random() % 3 != 0 && !payload.empty()) send(side.recorder, connection, payload, now);
}

void deliver_all(LinkConditioner& link, Side& to, Time now, Seen& seen) {
    LinkConditioner::Datagram datagram;
    while (link.pop(now, datagram)) {
        ASSERT_NO_FATAL_FAILURE(arrive(to, datagram.from, datagram.bytes, now, seen));
    }
}

void converse(std::uint64_t seed, Seen& seen) {
    std::mt19937_64 random(seed);
    constexpr std::uint64_t kFirstNumbers[] = {1,         190, 65'400, (1ull << 24) - 90, (1ull << 32) - 90,
                                               1ull << 62};
    const std::uint64_t up_first = kFirstNumbers[random() % 6], down_first = kFirstNumbers[random() % 6];
    LinkConfig link_config;
    link_config.latency = Duration(random() % 60'000);
    link_config.jitter = Duration(random() % 20'000);
    link_config.loss = double(random() % 25) / 100;
    link_config.burst = seed % 3 == 0 ? 0.02 : 0;
    link_config.duplicate = 0.05;
    link_config.reorder = seed % 2 == 0 ? 0.1 : 0;
    LinkConditioner up(link_config, seed), down(link_config, ~seed);

    const SecretKey up_key(seed_of(random())), down_key(seed_of(random()));
    const bool is_sealed = seed % 4 != 0;
    const Security security = is_sealed ? Security::sealed : Security::insecure;
    ConnectionConfig config;
    config.key_life.packets = 100 + random() % 200;
    Session at_client{PeerId{1}, kServer, std::uint32_t(random()), false, up_first, down_first, kSalt};
    Session at_server{PeerId{1}, kClient, std::nullopt, true, down_first, up_first};
    Side client(config, at_client, {security, kProtocol, up_key, down_key, up_first, 1000s},
                is_sealed ? naive::Decoder::sealed(kProtocol, false, down_first, down_key)
                          : naive::Decoder::insecure(kProtocol, false, down_first, down_key),
                up);
    Side server(config, at_server, {security, kProtocol, down_key, up_key, down_first, 1000s},
                is_sealed ? naive::Decoder::sealed(kProtocol, true, up_first, up_key)
                          : naive::Decoder::insecure(kProtocol, true, up_first, up_key),
                down);
    // Some payloads are refused, so that acks have gaps.
    server.recorder.withhold = [](std::uint64_t number) { return number % 11 == 3; };

    Time now = 1000s;
    for (int tick = 0; tick < 600; ++tick) {
        now += 16ms;
        client.sink.now = server.sink.now = now;
        ASSERT_NO_FATAL_FAILURE(deliver_all(up, server, now, seen));
        ASSERT_NO_FATAL_FAILURE(deliver_all(down, client, now, seen));
        if (tick % 60 == 0) {  // as the host does for a packet from a new address
            client.sink.from.port += 1;
            server.challenge = random();
            server.connection.challenge(client.sink.from, server.challenge, now);
        }
        for (Side* side : {&client, &server}) {
            side->connection.update(now);
            if (tick % 100 < 80) talk(*side, random, now);
            side->connection.flush(now);
        }
        ASSERT_TRUE(client.connection.is_open() && server.connection.is_open());
    }
    if (is_sealed) seen.late_keys += client.naive.keys_used() + server.naive.keys_used() - 2;
    client.connection.close(DisconnectReason::closed, "the end", true, now);
    now += 1s;
    ASSERT_NO_FATAL_FAILURE(deliver_all(up, server, now, seen));
}

// Goal: the library writes what WIRE.md states, and both decoders read the same.
// Method: seeded connections with all channels, weights, sizes (large payloads, too) and faults, sealed and
// insecure, with numbers near a wraparound, key updates every few hundred packets, and changing addresses;
// both decoders read each arrival.
TEST(NaiveDecoder, AgreesWithTheLibraryOnEveryPacket) {
    Seen seen;
    for (std::uint64_t seed = 1; seed <= 72; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        converse(seed, seen);
        if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
    EXPECT_GT(seen.packets, 10'000u);
    for (const std::uint64_t count :
         {seen.disconnects, seen.duplicates, seen.acks,      seen.pings,          seen.payloads,
          seen.challenges,  seen.echoes,     seen.probes,    seen.partial_groups, seen.distances,
          seen.counts,      seen.late_keys,  seen.fragments, seen.late_fragments, seen.outdated,
          seen.larges,      seen.parities,   seen.pieces,    seen.channels[0],    seen.channels[1],
          seen.channels[2]})
        EXPECT_GT(count, 10u);
    RecordProperty("packets", std::to_string(seen.packets));
}

// Goal: both decoders refuse the same bodies.
// Method: random contents of data packets with a valid tag, for connections that have sent 200 packets.
TEST(NaiveDecoder, AgreesWithTheLibraryOnRandomBodies) {
    std::mt19937_64 random(3);
    int good = 0;
    for (int round = 0; round < 100'000; ++round) {
        std::vector<std::byte> body(1 + random() % 26);
        for (std::byte& byte : body) byte = std::byte(random() & random() & 0xFF);
        std::array<std::byte, kMaxDatagramBytes> buffer;
        ByteWriter out(buffer);
        const PacketKind kind = random() % 20 == 0   ? PacketKind::disconnect
                                : random() % 20 == 0 ? PacketKind::challenge
                                                     : PacketKind::data;
        write_envelope(out, kind, false, std::nullopt, 9, 1);
        const std::size_t header_bytes = out.size();
        out.bytes(body);
        const SecretKey key(seed_of(1));
        const PacketCipher cipher(Security::insecure, kProtocol, key, key, 1, 0s);
        const std::span<std::byte> datagram = out.append(kInsecureTagBytes);
        cipher.seal(9, datagram, header_bytes);
        Packet ours;
        naive::Packet theirs;
        auto decoder = naive::Decoder::insecure(kProtocol, false, 5, key);
        const auto envelope = read_envelope(datagram, false);
        ASSERT_TRUE(envelope.has_value());
        ours.number = 9;
        const bool is_good =
            read_body(datagram.first(datagram.size() - kInsecureTagBytes), *envelope, 5, ours) &&
            (!ours.is_fragment || IncomingPayload().plausible(ours, 5));
        const auto verdict = decoder.decode(datagram, theirs);
        ASSERT_EQ(is_good, verdict == naive::Decoder::Verdict::good) << "round " << round;
        ASSERT_NE(verdict, naive::Decoder::Verdict::dropped);
        Seen seen;
        if (is_good) {
            ASSERT_NO_FATAL_FAILURE(compare(ours, theirs, seen));
        }
        good += is_good;
    }
    EXPECT_GT(good, 2'000);
}

}  // namespace
}  // namespace shoal::net::impl
