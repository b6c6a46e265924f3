// The test is the peer of a connection: it writes packets byte by byte, with the right key.

#include <gtest/gtest.h>

#include <random>

#include "net/connection.h"
#include "tests/net/support/world.h"

namespace shoal::net::impl {
namespace {

/// A peer whose packets the test writes.
struct Hand {
    explicit Hand(const ConnectionConfig& config = {})
        : connection(config, session(), cipher(), recorder, wire, now) {
        connection.announce();
    }
    static Session session() {
        Session result;
        result.peer = PeerId{0x10000};
        result.address = Address::ipv4(1, 2, 3, 4, 5);
        return result;
    }
    static PacketCipher cipher(bool is_peer = false) {
        Bytes32 ours{std::byte(1)}, theirs{std::byte(2)};
        if (is_peer) std::swap(ours, theirs);
        return {Security::sealed, 77, SecretKey(ours), SecretKey(theirs), 1, 0s};
    }
    std::vector<std::byte> seal(std::uint64_t number, const std::vector<int>& body,
                                PacketKind kind = PacketKind::data) {
        std::array<std::byte, kMaxDatagramBytes> buffer;
        ByteWriter out(buffer);
        write_envelope(out, kind, false, std::nullopt, number, 1);
        const std::size_t header_bytes = out.size();
        for (const int byte : body) out.u8(unsigned(byte));
        cipher(true).seal(number, out.append(kTagBytes), header_bytes);
        return {out.written().begin(), out.written().end()};
    }
    void feed(std::uint64_t number, const std::vector<int>& body, PacketKind kind = PacketKind::data) {
        const std::vector<std::byte> bytes = seal(number, body, kind);
        Packet packet;
        if (connection.open(bytes, packet, now) == Connection::Arrival::fresh) connection.apply(packet, now);
    }
    Time now = 5s;
    Wire wire;
    Recorder recorder;
    Connection connection;
};

TEST(Connection, AMalformedAuthenticPacketEndsIt) {
    const auto fragment = [](int head, int distance, std::size_t size) {
        std::vector<int> body = {10, head, distance};
        body.resize(3 + size);
        return body;
    };
    const std::vector<std::vector<int>> bodies = {
        {1, 0, 0, 0},                        // acknowledges a packet that was never sent
        {1},                                 // acks announced, but missing
        {0x10},                              // ack bits without acks
        {4},                                 // messages announced, but missing
        {4, 7, 'a'},                         // a piece without an id
        {4, 0x14, 1, 'a'},                   // an unreliable message with an id
        {4, 0x44, 'a'},                      // an unreliable message with a predecessor
        {4, 0x15, 1, 'a'},                   // a sequenced message with an id
        {4, 5},                              // a sequenced message without a key
        {4, 0, 1, 'a'},                      // the last run is missing
        {0xC, 4, 5, 'a'},                    // message longer than the packet
        {0xC, 0, 1, 'a', 4, 1},              // the last message is missing
        {4, 0xC, 0},                         // a run of no messages
        {4, 0xC, 1, 'a'},                    // a count of one, which has a shorter form
        {4, 0xC, 2, 'a', 'b', 'c'},          // two messages of equal size in three bytes
        {4, 0xD, 3, 'a', 'b'},               // fewer bytes than messages have keys
        {0xC, 4, 0x81, 0, 'a'},              // a size in two bytes that fits in one
        {0xC, 4, 0xFF, 0x7F},                // size over the limit
        {0xC, 4, 0x80, 0xFF},                // the same
        {4, 6, 'a'},                         // reliable, continues a missing run
        {4, 0x36, 1, 'a'},                   // three bytes of id
        {4, 0x17, 1, 'a'},                   // a piece with a next piece that is not full
        {0xC, 0x17, 1, 'a'},                 // the same, beside a payload
        {4, 0x26, 1, 0x10, 'a'},             // reliable id far ahead of the window
        {4, 0xD6, 1, 'a'},                   // unknown predecessor
        {4, 0x96, 1},                        // distance announced, but missing
        {4, 0x96, 1, 1, 'a'},                // a distance that has a shorter form
        {4, 0x96, 1, 0x82, 0, 'a'},          // the same
        {4, 0x96, 1, 0x80, 0x20, 'a'},       // a distance of the window or more
        {0, 'x'},                            // bytes without the payload flag
        {10},                                // fragment announced, but missing
        {10, 0x81, 1},                       // a fragment of no bytes
        {10, 0x81},                          // the distance is missing
        {10, 0},                             // the distance of the first one is missing
        {10, 0, 0},                          // a first fragment of no bytes
        fragment(0, 1, kFragmentBytes),      // a first fragment that was sent again, before the first packet
        {10, 0x80, 0, 'a'},                  // the first fragment is the last
        fragment(2, 1, kFragmentBytes),      // fewer packets than fragments since the first
        fragment(1, 1, kFragmentBytes),      // a first fragment before the first packet
        fragment(0, 0, kFragmentBytes - 1),  // not full
        fragment(0, 0, kFragmentBytes + 1),  // more than full
        fragment(0x81, 1, kFragmentBytes + 1),  // the same, the last one
        fragment(64, 64, kFragmentBytes),       // a 65th fragment
        {10, 1, 0x81, 0, 'a'},                  // a distance in two bytes that fits in one
        {14, 4, 'a'},                           // messages before a fragment without their size
    };
    for (std::size_t i = 0; i < bodies.size(); ++i) {
        SCOPED_TRACE(i);
        Hand hand;
        hand.feed(1, bodies[i]);
        EXPECT_FALSE(hand.connection.is_open());
        EXPECT_EQ(hand.recorder.last_reason, DisconnectReason::protocol_error);
        EXPECT_EQ(hand.connection.stats().drops[Drop::malformed], 1u);
        EXPECT_TRUE(hand.recorder.messages.empty());
    }
}

// Keeping such a message would take too much memory. The sender sends it again.
TEST(Connection, APacketWithAReliableIdTooFarAheadIsNotAcknowledged) {
    Hand hand;
    hand.feed(1, {0xC, 0, 1, 'u', 0x26, 0, 3, 1, 'r', 'p'});  // unreliable, reliable with id 768, payload
    EXPECT_EQ(hand.recorder.messages.size(), 1u) << "only the unreliable one";
    EXPECT_TRUE(hand.recorder.payloads.empty());
    EXPECT_EQ(hand.connection.stats().messages_refused, 1u);
    EXPECT_EQ(hand.connection.stats().payloads_withheld, 1u);
    hand.now += 20ms;
    hand.connection.flush(hand.now);
    EXPECT_TRUE(hand.wire.sent.empty());
    hand.feed(2, {0xC, 0x26, 1, 0, 1, 'r', 'p'});  // id 1
    EXPECT_EQ(hand.recorder.messages.size(), 2u);
    EXPECT_EQ(hand.recorder.payloads.size(), 1u);
    hand.now += 20ms;
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 1u);
}

// Acks are sent before the next flush, so that at least two acks name each packet that wants one.
TEST(Connection, EachThirtyTwoPacketsAreAcknowledgedWithoutAFlush) {
    Hand hand;
    for (std::uint64_t number = 1; number <= 96; ++number) {
        hand.feed(number, {2});  // a ping
        EXPECT_EQ(hand.wire.sent.size(), number / 32);
    }
}

// The server may have been restarted, or the client may have a new address: a ping may be too short to cause
// a challenge, a probe is long enough.
TEST(Connection, AClientWithoutAcksSendsProbes) {
    Hand hand;
    Session session = Hand::session();
    session.send_id = 7;
    Connection client({}, session, Hand::cipher(), hand.recorder, hand.wire, hand.now);
    client.ping(hand.now);
    for (int i = 0; i < 100; ++i) {
        hand.now += 10ms;
        client.update(hand.now);
        client.flush(hand.now);
    }
    std::size_t pings = 0, probes = 0;
    for (const auto& [to, bytes] : hand.wire.sent) {
        const std::optional<Envelope> envelope = read_envelope(bytes, true);
        ASSERT_TRUE(envelope);
        pings += envelope->kind == PacketKind::data;
        probes += envelope->kind == PacketKind::probe;
        EXPECT_TRUE(envelope->kind == PacketKind::data || bytes.size() >= Path::kChallengeBytes);
    }
    EXPECT_GE(probes, 1u);
    EXPECT_EQ(pings, 1u) << "nothing was overdue yet";
}

TEST(Connection, PacketsTooOldToAcknowledgeAreStale) {
    Hand hand;
    hand.feed(100, {8, 'a'});
    hand.feed(36, {8, 'b'});
    hand.feed(35, {8, 'c'});
    EXPECT_EQ(hand.recorder.payloads.size(), 2u);
    EXPECT_EQ(hand.connection.stats().drops[Drop::stale], 1u);
}

TEST(Connection, EachSecondPacketIsAcknowledgedInTheNextFlush) {
    Hand hand;
    hand.feed(1, {8, 'a'});
    hand.feed(2, {8, 'b'});
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 1u);
}

// The sender learns of a loss without delay.
TEST(Connection, AGapInTheNumbersIsAcknowledgedAtOnce) {
    Hand hand;
    hand.feed(1, {8, 'a'});
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 0u);  // the ack of one packet in order may wait
    hand.now += 20ms;
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 1u);
    hand.feed(3, {8, 'c'});
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 2u);
    hand.feed(4, {8, 'd'});
    hand.connection.flush(hand.now);
    EXPECT_EQ(hand.wire.sent.size(), 2u);
}

// The ack delay is measured from the arrival of the newest packet, which the ack names first.
TEST(Connection, ALatePacketDoesNotShortenTheAckDelay) {
    Hand hand;
    Wire wire;
    Recorder recorder;
    Connection peer({}, Hand::session(), Hand::cipher(true), recorder, wire, hand.now);
    peer.announce();
    send(recorder, peer, as_bytes("late"), hand.now);
    send(recorder, peer, as_bytes("newest"), hand.now);
    const auto deliver = [&](std::size_t which) {
        Packet packet;
        ASSERT_EQ(hand.connection.open(wire.sent[which].second, packet, hand.now),
                  Connection::Arrival::fresh);
        hand.connection.apply(packet, hand.now);
    };
    deliver(1);
    hand.now += 15ms;
    deliver(0);
    hand.now += 4ms;
    hand.connection.flush(hand.now);
    ASSERT_EQ(hand.wire.sent.size(), 1u);
    Packet acks;
    ASSERT_EQ(peer.open(hand.wire.sent[0].second, acks, hand.now), Connection::Arrival::fresh);
    EXPECT_EQ(acks.acks.newest, 2u);
    EXPECT_EQ(acks.acks.bits, ~0ull);
    EXPECT_EQ(acks.acks.delay, 19ms / 256us * 256us);
}

TEST(Connection, AFlushSendsAtMostMaxPacketsPerFlush) {
    for (const std::uint32_t most : {1u, 3u, 8u}) {
        ConnectionConfig config;
        config.max_packets_per_flush = most;
        Hand hand(config);
        const std::string text(1000, 'm');
        for (int i = 0; i < 9; ++i)
            ASSERT_EQ(hand.connection.send_message(Channel::reliable, as_bytes(text)), SendResult::queued);
        hand.connection.flush(hand.now);
        EXPECT_EQ(hand.wire.sent.size(), most);
        hand.connection.flush(hand.now);
        EXPECT_EQ(hand.wire.sent.size(), std::min(2 * most, 9u));
    }
}

TEST(Connection, PacketsForAClosedConnectionAreCountedAsClosed) {
    Hand hand;
    hand.connection.close(DisconnectReason::kicked, {}, true, hand.now);
    hand.feed(1, {8, 'p'});
    hand.feed(2, {0}, PacketKind::disconnect);
    EXPECT_EQ(hand.connection.stats().drops[Drop::closed], 2u);
    EXPECT_EQ(hand.connection.stats().drops.total(), 2u);
    EXPECT_EQ(hand.connection.stats().packets_received, 0u);
    EXPECT_TRUE(hand.recorder.payloads.empty());
}

// Goal: three timeouts without an ack stop payloads and messages. Pings are sent, also if no fate is open,
// and the first answer ends the stop. Method: long keep-alive intervals, so that only the breaker causes
// pings.
TEST(Connection, PingsContinueWhileTheBreakerIsOpen) {
    ConnectionConfig config;
    config.keep_alive = 20s;
    config.timeout = 60s;
    Hand hand(config);
    const auto tick = [&] {
        hand.now += 10ms;
        hand.connection.update(hand.now);
        hand.connection.flush(hand.now);
    };
    for (int i = 0; i < 16; ++i)
        ASSERT_NE(send(hand.recorder, hand.connection, as_bytes("state"), hand.now), 0u);
    while (hand.recorder.fates.empty() || hand.connection.stats().rate_limit != RateLimit::breaker) {
        ASSERT_LT(hand.now, 15s);
        tick();
    }
    for (int second = 0; second < 10; ++second) {
        const std::uint64_t before = hand.connection.stats().packets_sent;
        for (int i = 0; i < 100; ++i) tick();
        const std::uint64_t probes = hand.connection.stats().packets_sent - before;
        EXPECT_GE(probes, second < 3 ? 0u : 1u) << "about one per second";
        EXPECT_LE(probes, 2u);
    }
    EXPECT_EQ(send(hand.recorder, hand.connection, as_bytes("state"), hand.now), 0u);
}

// Goal: no bytes, even authentic ones, break an invariant or access invalid memory.
// Method: random and changed bodies with the right key, in buffers of exact size, under sanitizers.
TEST(Connection, SurvivesRandomAuthenticBodies) {
    std::mt19937 random(5);
    std::uint64_t taken = 0;
    for (int round = 0; round < 20'000; ++round) {
        Hand hand;
        send(hand.recorder, hand.connection, as_bytes("state"), hand.now);
        (void)hand.connection.send_message(Channel::reliable, as_bytes("hello"));
        hand.connection.flush(hand.now);
        for (std::uint64_t number = 1; number <= 4 && hand.connection.is_open(); ++number) {
            std::vector<int> body(random() % 24);
            for (int& byte : body) byte = random() % 3 ? int(random() % 8) : int(random() % 256);
            if (!body.empty() && random() % 2) body[0] &= 0x0F;
            hand.feed(number, body, random() % 20 == 0 ? PacketKind::disconnect : PacketKind::data);
        }
        taken += hand.connection.stats().packets_received;
        hand.connection.close(DisconnectReason::closed, {}, false, hand.now);
        ASSERT_EQ(hand.recorder.fates.size(), 1u);
        ASSERT_EQ(hand.recorder.disconnects.size(), 1u);
    }
    EXPECT_GT(taken, 1000u);  // else the bodies are too random to reach much code
}

TEST(Connection, HandlerMayDisconnectInAnyCallback) {
    struct Quitter : Recorder {
        void maybe(int at) {
            if (where == at) connection->close(DisconnectReason::kicked, "enough", true, 6s);
        }
        bool on_payload(PeerId peer, std::uint64_t number, std::span<const std::byte> bytes,
                        Time now) override {
            maybe(0);
            return where == 0 || Recorder::on_payload(peer, number, bytes, now);
        }
        void on_message(PeerId peer, Channel channel, std::span<const std::byte> bytes) override {
            Recorder::on_message(peer, channel, bytes);
            maybe(1);
        }
        void on_fate(PeerId peer, const PacketFate& fate) override {
            Recorder::on_fate(peer, fate);
            maybe(2);
        }
        int where = 0;
        Connection* connection = nullptr;
    };
    for (int where = 0; where < 3; ++where) {
        SCOPED_TRACE(where);
        Hand hand;
        Quitter quitter;
        Connection connection({}, Hand::session(), Hand::cipher(), quitter, hand.wire, 5s);
        quitter.where = where;
        quitter.connection = &connection;
        connection.announce();
        for (int i = 0; i < 5; ++i) send(quitter, connection, as_bytes("s"), 5s);
        // Acks 1..3, carries two messages and a payload.
        const auto bytes = hand.seal(1, {0x0D, 3, 0, 0, 0x0C, 2, 1, 'a', 'b', 'p'});
        Packet packet;
        ASSERT_EQ(connection.open(bytes, packet, 6s), Connection::Arrival::fresh);
        connection.apply(packet, 6s);
        EXPECT_FALSE(connection.is_open());
        EXPECT_EQ(quitter.fates.size(), 5u);
        EXPECT_EQ(quitter.disconnects.size(), 1u);
        EXPECT_EQ(quitter.messages.size(), where == 0 ? 2u : where == 1 ? 1u : 0u);
    }
}

// Goal: a number is skipped only if the next packet can still be tracked. Method: small windows that become
// full without acks, with many salts; with some salts a number must be skipped at the last place of the
// window.
TEST(Connection, AFullWindowSkipsNoNumber) {
    ConnectionConfig config;
    config.max_open_packets = 32;
    for (std::uint64_t salt = 1; salt <= 1'500; ++salt) {
        SCOPED_TRACE(salt);
        Session session = Hand::session();
        session.salt = salt;
        Wire wire;
        Recorder recorder;
        Connection connection(config, session, Hand::cipher(), recorder, wire, 5s);
        connection.announce();
        std::vector<std::uint64_t> sent;
        recorder.source = [&](PeerId, PayloadTurn& turn) {
            sent.push_back(turn.packet_number);
            return fill(turn, 1);
        };
        connection.flush(5s);
        ASSERT_GE(sent.size(), 31u);
        ASSERT_LE(sent.back(), 32u) << "numbers since the oldest open one, with skipped ones";
        connection.close(DisconnectReason::closed, {}, false, 5s);
        ASSERT_EQ(recorder.fates.size(), sent.size());
        for (std::size_t i = 0; i < sent.size(); ++i) ASSERT_EQ(recorder.fates[i].number, sent[i]);
    }
}

}  // namespace
}  // namespace shoal::net::impl
