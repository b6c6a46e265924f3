#include "tests/net/support/guest.h"

#include <algorithm>
#include <array>

#include "tests/net/support/world.h"

namespace shoal::net::impl::attacks {
namespace {

using namespace std::chrono_literals;
using Buffer = std::array<std::byte, kMaxDatagramBytes>;

}  // namespace

// --- Packets of the handshake ---

std::optional<PacketKind> kind_of(std::span<const std::byte> datagram) {
    return datagram.empty() ? std::nullopt : read_kind(datagram[0]);
}

bool is_handshake(std::span<const std::byte> datagram) {
    const auto kind = kind_of(datagram);
    return kind && datagram.size() >= 10 && *kind <= PacketKind::refuse;
}

std::uint64_t nonce_of(std::span<const std::byte> datagram) {
    return ByteReader(datagram.subspan(2)).u64();
}

std::optional<std::uint64_t> cookie_in(std::span<const std::byte> datagram) {
    CookieReply reply;
    if (kind_of(datagram) != PacketKind::cookie || read(datagram, reply)) return std::nullopt;
    return reply.cookie;
}

Bytes make_request(std::uint64_t nonce) {
    Buffer buffer;
    return copy_of(write(Request{kWireVersion, nonce, host_config().protocol_id, Security::sealed}, buffer));
}

Bytes forge_cookie(std::uint64_t nonce, std::uint64_t cookie) {
    Buffer buffer;
    return copy_of(write(CookieReply{nonce, cookie}, buffer));
}

Bytes forge_refuse(std::uint64_t nonce, DisconnectReason reason) {
    Buffer buffer;
    return copy_of(write(Refuse{nonce, reason}, buffer));
}

Bytes forge_answer(std::uint64_t nonce, std::mt19937_64& random) {
    std::array<std::byte, kNoiseOverheadBytes + kAcceptanceBytes> message;
    for (std::byte& byte : message) byte = std::byte(random() & 0xFF);
    Buffer buffer;
    return copy_of(write(Answer{nonce, random() | 1, message}, buffer));
}

Bytes forge_connect(std::span<const std::byte> cookie, std::mt19937_64& random) {
    std::array<std::byte, kConnectMessageBytes> message;
    for (std::byte& byte : message) byte = std::byte(random() & 0xFF);
    const Connect connect{kWireVersion, nonce_of(cookie), host_config().protocol_id, *cookie_in(cookie),
                          message};
    Buffer buffer;
    return copy_of(write(connect, buffer));
}

Bytes copy_with_cookie(std::span<const std::byte> connect, std::uint64_t cookie) {
    Connect packet;
    if (read(connect, packet)) return {};
    packet.cookie = cookie;
    Buffer buffer;
    return copy_of(write(packet, buffer));
}

// --- Guest ---

Bytes Guest::connect(std::uint64_t cookie) {
    static const PublicKey known = public_key(server_key());
    const HostConfig host = host_config();
    std::array<std::byte, kConnectMessageBytes> message{};
    write(ClientHello{host.schema_hash, 1, {}, {}}, noise_payload(message).first<kClientHelloBytes>());
    const auto prologue = handshake_prologue(host.protocol_id, Security::sealed, nonce_, cookie);
    noise_.emplace(prologue, known);
    if (!noise_->write(SecretKey(seed_of(secret_)), message)) return {};
    Buffer buffer;
    return copy_of(write(Connect{kWireVersion, nonce_, host.protocol_id, cookie, message}, buffer));
}

bool Guest::read_answer(std::span<const std::byte> datagram, Time now) {
    Answer answer;
    if (!noise_ || cipher_ || kind_of(datagram) != PacketKind::answer || read(datagram, answer)) return false;
    Bytes body = copy_of(answer.message);
    Verdict verdict;
    if (!noise_->read(SecretKey(seed_of(secret_)), body) || !read(noise_payload(body), verdict) ||
        !verdict.is_accepted)
        return false;
    const NoiseKeys keys = noise_->split();
    cipher_ = PacketCipher(Security::sealed, host_config().protocol_id, keys.to_responder, keys.to_initiator,
                           next_number_, now);
    connection_id_ = verdict.connection_id;
    server_newest_ = verdict.first_packet_number - 1;
    return true;
}

Bytes Guest::packet(const Contents& contents) {
    Buffer buffer;
    ByteWriter out(buffer);
    out.u8(0);
    out.patch_u8(0, write_acks(out, contents.acks) | (contents.ping ? kIsPing : 0u) |
                        (contents.runs.empty() ? 0u : kHasMessages));
    out.bytes(contents.runs);
    return seal(PacketKind::data, out.written());
}

Bytes Guest::empty_messages(std::uint8_t count) {
    Buffer buffer;
    ByteWriter out(buffer);
    write_run(out, {.is_last = true, .fills_packet = true, .count = count});
    return copy_of(out.written());
}

Bytes Guest::reliable_message(std::uint64_t id, std::uint16_t distance, std::size_t size) {
    Buffer buffer;
    ByteWriter out(buffer);
    Run run;
    run.channel = Channel::reliable;
    run.is_last = run.fills_packet = true;
    run.id_bytes = 2;
    run.distance = distance;
    run.size = std::uint16_t(size);
    run.first_id = id;
    write_run(out, run);
    Bytes result = copy_of(out.written());
    result.resize(result.size() + size);
    return result;
}

Bytes Guest::seal(PacketKind kind, std::span<const std::byte> body) {
    Buffer buffer;
    ByteWriter out(buffer);
    write_envelope(out, kind, false, connection_id_, next_number_, 4);
    const std::size_t head = out.written().size();
    out.bytes(body);
    const auto packet = std::span(buffer).first(out.written().size() + cipher_->tag_bytes());
    cipher_->seal(next_number_++, packet, head);
    return copy_of(packet);
}

std::optional<Bytes> Guest::open(std::span<const std::byte> datagram, Time now) {
    const auto envelope = read_envelope(datagram, false);
    if (!cipher_ || !envelope || datagram.size() < envelope->body_offset + 1u + cipher_->tag_bytes())
        return std::nullopt;
    const std::uint64_t number =
        expand_number(envelope->truncated_number, envelope->number_bytes, server_newest_ + 1);
    Bytes copy = copy_of(datagram);
    if (!cipher_->open(number, envelope->key_phase, copy, envelope->body_offset, now, 1s))
        return std::nullopt;
    server_newest_ = std::max(server_newest_, number);
    return Bytes(copy.begin() + envelope->body_offset,
                 copy.end() - static_cast<std::ptrdiff_t>(cipher_->tag_bytes()));
}

std::optional<Bytes> Guest::echo(std::span<const std::byte> datagram, Time now) {
    if (kind_of(datagram) != PacketKind::challenge) return std::nullopt;
    const std::optional<Bytes> body = open(datagram, now);
    if (!body || body->size() < 8) return std::nullopt;
    return seal(PacketKind::echo, std::span(*body).first(8));
}

std::optional<std::uint64_t> Guest::read_number(std::span<const std::byte> datagram, Time now) {
    const auto envelope = read_envelope(datagram, false);
    if (!envelope || !open(datagram, now)) return std::nullopt;
    return expand_number(envelope->truncated_number, envelope->number_bytes, server_newest_);
}

}  // namespace shoal::net::impl::attacks
