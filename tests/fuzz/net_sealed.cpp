// Passes any bytes, sealed with the right keys, to a connected host or client. The naive decoder gives the
// expected result: applied completely; dropped; or the end of the connection as protocol_error, with nothing
// delivered. The first byte of an input chooses target and cipher; then follow operations with their
// arguments.

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>

#include "net/bytes.h"
#include "net/crypto/entropy.h"
#include "tests/fuzz/net_parts.h"
#include "tests/net/support/handshake_packets.h"
#include "tests/net/support/naive_decoder.h"

using namespace shoal::net::impl;
using namespace shoal::net::impl::fuzz;
using namespace std::chrono_literals;

namespace {

const Address kPeer = Address::ipv4(10, 0, 0, 1, 1000);
constexpr std::uint64_t kProtocol = 0xC0FFEE;
constexpr std::uint64_t kNonce = 77;

/// The other side: after the handshake it has the keys, and sends any bytes.
struct Insider {
    std::optional<PacketCipher> cipher;
    std::optional<naive::Decoder> decoder;
    std::optional<std::uint32_t> connection_id;
    std::uint64_t first = 1;
    std::uint64_t newest = 0;  // its newest packet number
};

void take_keys(Insider& insider, bool is_sealed, const NoiseKeys& keys, bool to_server) {
    const SecretKey& send = to_server ? keys.to_responder : keys.to_initiator;
    const SecretKey& receive = to_server ? keys.to_initiator : keys.to_responder;
    const Security security = is_sealed ? Security::sealed : Security::insecure;
    insider.cipher = PacketCipher(security, kProtocol, send, receive, insider.first, Time(0));
    insider.decoder = is_sealed ? naive::Decoder::sealed(kProtocol, to_server, insider.first, send)
                                : naive::Decoder::insecure(kProtocol, to_server, insider.first, send);
}

SecretKey ephemeral() {
    Bytes32 bytes{};
    bytes[3] = std::byte(9);
    return SecretKey(bytes);
}

SecretKey key_of_server(bool is_sealed) {
    return is_sealed ? server_key() : insecure_server_key();
}

/// An insider that is a client.
void enter(Host& host, const Caught& from_host, bool is_sealed, Insider& insider, Time now) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const Security security = is_sealed ? Security::sealed : Security::insecure;
    host.receive(kPeer, write(Request{kWireVersion, kNonce, kProtocol, security}, buffer), now);
    CookieReply cookie;
    CHECK(!read(from_host.sent.back().second, cookie));
    std::array<std::byte, kConnectMessageBytes> message{};
    write(ClientHello{0x5C4E, insider.first, {}, {}}, noise_payload(message).first<kClientHelloBytes>());
    const PublicKey known = public_key(key_of_server(is_sealed));
    NoiseExchange noise(handshake_prologue(kProtocol, security, kNonce, cookie.cookie), known);
    CHECK(noise.write(ephemeral(), message));
    host.receive(kPeer, write(Connect{kWireVersion, kNonce, kProtocol, cookie.cookie, message}, buffer), now);
    Answer answer;
    CHECK(!read(from_host.sent.back().second, answer));
    Datagram copy(answer.message.begin(), answer.message.end());
    CHECK(noise.read(ephemeral(), copy));
    Verdict verdict;
    CHECK(read(noise_payload(copy), verdict) && verdict.is_accepted);
    insider.connection_id = verdict.connection_id;
    take_keys(insider, is_sealed, noise.split(), true);
}

/// An insider that is a server.
void accept(Client& client, const Caught& from_client, bool is_sealed, Insider& insider, Time now) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const Security security = is_sealed ? Security::sealed : Security::insecure;
    client.connect(kPeer, {}, now);
    client.flush(now);
    Request request;
    CHECK(!read(from_client.sent.back().second, request));
    const std::uint64_t nonce = request.client_nonce;
    client.receive(kPeer, write(CookieReply{nonce, 1}, buffer), now);
    Connect connect;
    CHECK(!read(from_client.sent.back().second, connect));
    std::array<std::byte, kMaxVerdictBytes> verdict;
    const std::size_t size = write(Verdict{true, insider.first, 5, 0, 0, {}, 0, {}}, verdict);
    Datagram body(kNoiseKeyBytes);
    body.insert(body.end(), verdict.begin(), verdict.begin() + std::ptrdiff_t(size));
    body.resize(size + kNoiseOverheadBytes);
    const SecretKey key = key_of_server(is_sealed);
    NoiseExchange noise(handshake_prologue(kProtocol, security, nonce, 1), public_key(key));
    Datagram message(connect.message.begin(), connect.message.end());
    CHECK(noise.read(key, message));
    CHECK(noise.write(ephemeral(), body));
    take_keys(insider, is_sealed, noise.split(), false);
    client.receive(kPeer, write(Answer{nonce, 1, body}, buffer), now);
}

class Talk {
public:
    explicit Talk(std::span<const std::byte> input) : in_(input) {
        const unsigned kind = in_.u8();
        const bool is_sealed = kind & 1;
        constexpr std::uint64_t kFirsts[] = {1, 250, 65'500, (1ull << 32) - 5};
        insider_.first = kFirsts[kind >> 2 & 3];
        insider_.newest = insider_.first - 1;
        if (kind & 2) {
            auto host = std::make_unique<Host>(fuzz_config<HostConfig>(is_sealed, 1), log_, caught_);
            enter(*host, caught_, is_sealed, insider_, now_);
            host_ = host.get();
            target_ = std::move(host);
        } else {
            auto client = std::make_unique<Client>(fuzz_config<ClientConfig>(is_sealed, 2), log_, caught_);
            accept(*client, caught_, is_sealed, insider_, now_);
            peer_ = client->server();
            target_ = std::move(client);
        }
        has_keys_to_turn_ = is_sealed;
        if (kind & 16) {
            say(Datagram{std::byte(2)}, PacketKind::data, insider_.newest + 1, 4);  // a ping
            talk(false);
        }
        while (in_.remaining() > 0 && !is_over_) step();
    }

private:
    PeerId peer() const { return host_ ? PeerId{0x10000} : peer_; }

    void talk(bool with_large) {
        constexpr std::byte kText[2] = {std::byte('a'), std::byte('b')};
        static const Datagram large(5'000, std::byte('l'));
        (void)target_->send_message(peer(), Channel::reliable, kText);
        if (with_large) (void)target_->send_message(peer(), unordered(), large);
        log_.to_send = {with_large ? large : Datagram(kText, kText + 2)};
        target_->flush(now_);
    }

    void step() {
        const unsigned op = in_.u8();
        if (op % 8 == 0) {
            now_ += std::chrono::milliseconds(in_.u8());
            target_->update(now_);
            talk(op & 16);
            target_->flush(now_);
            is_over_ = host_ && host_->is_idle();  // a silent peer times out
            for (const auto& event : log_.events) is_over_ = is_over_ || event.first == "disconnected";
            return;
        }
        if (op % 8 == 1 && has_keys_to_turn_) {
            (void)insider_.cipher->prepare(insider_.newest, ~0ull, {0, Duration(0)}, now_);
            phase_ = !phase_;
        }
        const unsigned jump = in_.u8();
        std::uint64_t number = insider_.newest + 1;
        if (jump >= 192) number += std::uint64_t(jump - 192) * jump;
        if (jump >= 128 && jump < 192 && number > jump - 127u) number -= jump - 127u;
        std::size_t size = in_.u8();
        if (op & 16) size += in_.u8() * 4u;
        const auto raw = in_.bytes(std::min({size, in_.remaining(), std::size_t(1100)}));
        Datagram body(raw.begin(), raw.end());
        if (body.empty()) body.push_back(std::byte(0));
        // Random fragments, pieces of messages and acks are rarely plausible.
        if (op % 8 == 2 && body.size() >= 3) {
            body[0] = std::byte(10);
            body[1] &= std::byte(0x83);
            body[2] = body[1] & std::byte(3);
            if (body[1] < std::byte(128)) body.resize(3 + kFragmentBytes);
        } else if (op % 8 == 3 && body.size() >= 3) {
            body[0] = std::byte(4);                                 // messages
            body[1] = std::byte(0x17) | (body[1] & std::byte(64));  // a piece with a next one
            body.resize(3 + kMaxMessageBytes);
        } else if ((op & 32) && body.size() >= 3) {
            body[0] |= std::byte(1);
            const std::uint64_t ack = next_number() - std::to_integer<unsigned>(body[1]) % 4;
            ByteWriter(std::span(body).subspan(1, 2)).u16(ack & 0xFFFF);
        }
        const PacketKind of_path = host_ ? PacketKind::echo : PacketKind::challenge;
        const PacketKind other = op & 16 ? of_path : PacketKind::disconnect;
        say(body, op & 8 && op & 64 ? other : PacketKind::data, number,
            static_cast<std::uint8_t>(op & 128 ? 4 : 1 + jump % 4));
    }

    void say(const Datagram& body, PacketKind kind, std::uint64_t number, std::uint8_t bytes) {
        std::array<std::byte, kMaxDatagramBytes> buffer;
        ByteWriter out(buffer);
        write_envelope(out, kind, phase_, insider_.connection_id, number, bytes);
        const std::size_t header_bytes = out.size();
        out.bytes(body);
        const std::span<std::byte> packet = out.append(insider_.cipher->tag_bytes());
        insider_.cipher->seal(number, packet, header_bytes);
        const Datagram exact(packet.begin(), packet.end());
        naive::Packet expected;
        const naive::Decoder::Verdict verdict = insider_.decoder->decode(exact, expected);
        insider_.newest = std::max(insider_.newest, number);
        ConnectionStats before = target_->stats(peer());
        const std::uint64_t next = next_number();
        log_.events.clear();
        target_->receive(kPeer, exact, now_);
        if (target_->stats(peer()).drops[Drop::early] > before.drops[Drop::early]) {
            before = target_->stats(peer());
            now_ += AckWindow::kGap;  // the model has no clock: it takes every number at once
            target_->receive(kPeer, exact, now_);
        }
        judge(verdict, expected, before, next);
    }

    /// Returns the number of the last packet that the target sent, plus 1. The first number is 1.
    std::uint64_t next_number() {
        for (; read_ < caught_.sent.size(); ++read_) {
            const Datagram& datagram = caught_.sent[read_].second;
            const std::optional<Envelope> envelope = read_envelope(datagram, host_ == nullptr);
            const bool is_of_connection =
                envelope && (envelope->kind == PacketKind::data || envelope->kind == PacketKind::disconnect ||
                             envelope->kind >= PacketKind::challenge);
            if (!is_of_connection) continue;
            const std::uint64_t number =
                expand_number(envelope->truncated_number, envelope->number_bytes, next_number_);
            CHECK(number >= next_number_);
            for (; next_number_ < number; ++next_number_) left_out_ = {next_number_, left_out_[0]};
            next_number_ += 1;
        }
        return next_number_;
    }

    void judge(naive::Decoder::Verdict verdict, const naive::Packet& expected, const ConnectionStats& before,
               std::uint64_t next_number) {
        const ConnectionStats& after = target_->stats(peer());
        const bool is_applied = after.packets_received == before.packets_received + 1;
        const bool is_malformed = after.drops[Drop::malformed] > before.drops[Drop::malformed];
        if (host_ && !target_->is_connected(peer()) && log_.events.empty() && after.drops.total() == 0) {
            is_over_ = true;  // still pending, or ended by a disconnect packet before it was confirmed
            return;
        }
        CHECK(after.drops.total() - before.drops.total() == (is_applied ? 0u : 1u));
        if (is_applied) {
            CHECK(verdict == naive::Decoder::Verdict::good);
            return judge_applied(expected, before, next_number);
        }
        if (!is_malformed) {
            const bool is_key_forgotten = after.drops[Drop::bad_tag] > before.drops[Drop::bad_tag];
            CHECK(verdict == naive::Decoder::Verdict::dropped || (is_key_forgotten && has_keys_to_turn_));
            // An authentic packet confirms the client, also one with a number from before the first.
            for (const auto& event : log_.events) CHECK(event.first == "connected");
            is_over_ = verdict != naive::Decoder::Verdict::dropped;  // their states differ now
            return;
        }
        is_over_ = true;
        CHECK(!target_->is_connected(peer()));
        for (const auto& [what, text] : log_.events)
            CHECK(what == "connected" || what == "lost" || what == "disconnected");
        if (!log_.events.empty()) CHECK(log_.last_reason == DisconnectReason::protocol_error);
        if (verdict == naive::Decoder::Verdict::malformed) return;  // `expected` is incomplete
        CHECK(verdict == naive::Decoder::Verdict::good);
        CHECK(!is_plausible(expected, next_number) || has_reliable(expected));
    }

    static bool has_reliable(const naive::Packet& packet) {
        return std::any_of(packet.messages.begin(), packet.messages.end(),
                           [](const naive::Message& message) { return message.channel == 2; });
    }
    /// Returns whether the acks name only packets that the target sent, and neither of the two numbers that
    /// it skipped last. Its first number was 1.
    bool is_plausible(const naive::Packet& packet, std::uint64_t next_number) const {
        if (!packet.has_acks || packet.is_disconnect) return true;
        if (next_number <= 1) return false;
        const std::uint64_t newest = next_number - 1 - ((next_number - 1 - packet.ack) & 0xFFFF);
        if (newest < 1 || newest >= next_number) return false;
        for (const std::uint64_t number : left_out_) {
            if (number == 0 || number > newest || newest - number > 64) continue;
            if (number == newest || packet.ack_bits[newest - number - 1]) return false;
        }
        return true;
    }

    std::ptrdiff_t count(std::string_view what) const {
        return std::count_if(log_.events.begin(), log_.events.end(),
                             [&](const auto& event) { return event.first == what; });
    }

    /// A packet whose reliable ids are too far ahead is not acknowledged, and its payload is not delivered.
    bool was_refused(const naive::Packet& expected, const ConnectionStats& before) const {
        const ConnectionStats& after = target_->stats(peer());
        const std::uint64_t withheld = after.payloads_withheld - before.payloads_withheld;
        const bool is_refused =
            after.messages_refused > before.messages_refused || (withheld > 0 && count("payload") == 0);
        if (!is_refused) return false;
        constexpr std::uint64_t kMaxLeap = 256;  // always possible
        CHECK(std::any_of(
            expected.messages.begin(), expected.messages.end(), [&](const naive::Message& message) {
                return message.channel == 2 && !message.is_parity && message.id >= insider_.first + kMaxLeap;
            }));
        CHECK(withheld == (expected.has_payload ? 1u : 0u));
        return true;
    }

    void judge_applied(const naive::Packet& expected, const ConnectionStats& before,
                       std::uint64_t next_number) {
        if (expected.is_disconnect) {
            is_over_ = true;
            CHECK(!target_->is_connected(peer()));
            return;
        }
        // A target before on_connected has sent no packet.
        CHECK(is_plausible(expected, next_number));
        CHECK(count("disconnected") == 0);
        CHECK(target_->is_connected(peer()));
        const bool is_refused = was_refused(expected, before);
        is_over_ = is_refused && expected.is_fragment;  // the decoder keeps the fragment
        const bool is_heard =
            !is_refused && (expected.is_fragment ? expected.large.has_value() : expected.has_payload);
        CHECK(count("payload") == (is_heard ? 1 : 0));
        if (is_heard) {
            CHECK(log_.events.back().first == "payload");
            const naive::Bytes& payload = expected.is_fragment ? *expected.large : expected.payload;
            CHECK(std::ranges::equal(std::as_bytes(std::span(log_.events.back().second)), payload));
        }
        std::vector<std::string> unreliable, heard;
        for (const naive::Message& message : expected.messages)
            if (message.channel == 0)
                unreliable.emplace_back(reinterpret_cast<const char*>(message.bytes.data()),
                                        message.bytes.size());
        for (const auto& [what, text] : log_.events)
            if (what == "unreliable") heard.push_back(text);
        CHECK(heard == unreliable);
    }

    ByteReader in_;
    Log log_;
    Caught caught_;
    Insider insider_;
    std::unique_ptr<Endpoint> target_;
    Host* host_ = nullptr;
    PeerId peer_;
    Time now_ = 100s;
    bool phase_ = false;
    bool has_keys_to_turn_ = false;
    bool is_over_ = false;
    std::size_t read_ = 0;  // of the datagrams in caught_
    std::uint64_t next_number_ = 1;
    std::array<std::uint64_t, 2> left_out_{};  // last numbers that the target skipped; 0: none
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2 || size > 8192) return 0;
    Talk all_of_it(std::as_bytes(std::span(data, size)));
    return 0;
}
