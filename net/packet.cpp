#include "packet.h"

#include <bit>
#include <cassert>

namespace shoal::net {
namespace {

// Flags of a data packet.
constexpr std::uint8_t kHasAcks = 1;
constexpr std::uint8_t kIsPing = 2;
constexpr std::uint8_t kHasMessages = 4;
constexpr std::uint8_t kHasPayload = 8;
constexpr unsigned kAckGroupShift = 4;  // the upper four bits
constexpr unsigned kAckGroups = 4;      // of 16 acks each
constexpr std::uint16_t kFullGroup = 0xFFFF;

constexpr Duration kDelayUnit{256};

std::uint16_t ack_group(const Acks& acks, unsigned group) {
    return static_cast<std::uint16_t>(acks.bits >> (16 * group));
}

std::uint8_t ack_group_mask(const Acks& acks) {
    unsigned mask = 0;
    for (unsigned group = 0; group < kAckGroups; ++group) {
        if (acks.present && ack_group(acks, group) != kFullGroup) mask |= 1u << group;
    }
    return static_cast<std::uint8_t>(mask << kAckGroupShift);
}

bool read_acks(ByteReader& in, std::uint8_t flags, Acks& acks) {
    acks = {};
    acks.present = flags & kHasAcks;
    const unsigned mask = flags >> kAckGroupShift;
    if (!acks.present) return mask == 0;
    acks.newest = in.u16();
    acks.delay = in.u8() * kDelayUnit;
    for (unsigned group = 0; group < kAckGroups; ++group) {
        const std::uint16_t bits = mask >> group & 1 ? in.u16() : kFullGroup;
        if ((mask >> group & 1) && bits == kFullGroup) return false;  // should have been left out
        acks.bits |= std::uint64_t(bits) << (16 * group);
    }
    return in.ok();
}

bool read_frames(ByteReader& in, std::size_t base, Packet& packet) {
    packet.frame_count = in.u8();
    if (packet.frame_count == 0) return false;
    for (std::size_t i = 0; i < packet.frame_count; ++i) {
        Frame& frame = packet.frames[i];
        const std::uint8_t channel = in.u8();
        if (channel > static_cast<std::uint8_t>(Channel::reliable)) return false;
        frame.channel = static_cast<Channel>(channel);
        frame.id = frame.channel == Channel::reliable ? in.u16() : std::uint16_t(0);
        std::size_t size = in.u8();
        if (size >= 128) {
            size = (size & 127) | std::size_t(in.u8()) << 7;
            if (size < 128) return false;  // one byte would have done
        }
        if (size > kMaxMessageBytes) return false;
        frame.size = static_cast<std::uint16_t>(size);
        frame.offset = static_cast<std::uint16_t>(base + in.position());
        in.bytes(size);
        if (!in.ok()) return false;
    }
    return true;
}

}  // namespace

std::optional<PacketKind> read_kind(std::byte first) {
    const unsigned value = std::to_integer<unsigned>(first);
    const unsigned kind = value >> 3 & 15;
    if ((value & 0x84) != 0x80 || kind >= static_cast<unsigned>(PacketKind::count_)) return std::nullopt;
    // Only packets of a connection have a number, and thus a number size.
    if (kind < static_cast<unsigned>(PacketKind::data) && (value & 3) != 0) return std::nullopt;
    return static_cast<PacketKind>(kind);
}

std::uint8_t number_bytes(std::uint64_t number, std::uint64_t acked) {
    assert(number > acked);
    // The receiver expects something from acked + 1 to number + 65 (packets may arrive 64 late). A number is
    // found within half its range on either side of that: half of one byte, 128, is enough behind us.
    const std::uint64_t range = (number - acked) * 2;
    std::uint8_t bytes = 1;
    while (bytes < 4 && range >> (8 * bytes) != 0) ++bytes;
    return bytes;
}

std::uint64_t expand_number(std::uint32_t truncated, std::uint8_t bytes, std::uint64_t expected) {
    assert(bytes >= 1 && bytes <= 4);
    const std::uint64_t range = 1ull << (8 * bytes);
    const std::uint64_t candidate = (expected & ~(range - 1)) | truncated;
    if (candidate + range / 2 <= expected) return candidate + range;
    if (candidate > expected + range / 2 && candidate >= range) return candidate - range;
    return candidate;
}

void write_envelope(ByteWriter& out, PacketKind kind, std::optional<std::uint32_t> connection_id,
                    std::uint64_t number, std::uint8_t bytes) {
    assert(bytes >= 1 && bytes <= 4);
    out.u8(0x80u | static_cast<unsigned>(kind) << 3 | (bytes - 1u));
    if (connection_id) out.u32(*connection_id);
    out.uint(number & ((1ull << (8 * bytes)) - 1), bytes);
}

std::optional<Envelope> read_envelope(std::span<const std::byte> datagram, bool with_connection_id) {
    ByteReader in(datagram);
    Envelope envelope;
    const std::byte first{in.u8()};
    if (!in.ok()) return std::nullopt;
    const std::optional<PacketKind> kind = read_kind(first);
    if (!kind || *kind < PacketKind::data) return std::nullopt;
    envelope.kind = *kind;
    envelope.number_bytes = static_cast<std::uint8_t>((std::to_integer<unsigned>(first) & 3) + 1);
    if (with_connection_id) envelope.connection_id = in.u32();
    envelope.truncated_number = static_cast<std::uint32_t>(in.uint(envelope.number_bytes));
    envelope.body_offset = static_cast<std::uint8_t>(in.position());
    if (!in.ok() || in.remaining() < 1 + kTagBytes) return std::nullopt;  // flags or reason, and the tag
    return envelope;
}

void write_acks(ByteWriter& out, const Acks& acks) {
    if (!acks.present) return;
    out.u16(acks.newest);
    out.u8(static_cast<std::uint64_t>(std::clamp<Duration::rep>(acks.delay / kDelayUnit, 0, 255)));
    for (unsigned group = 0; group < kAckGroups; ++group) {
        if (ack_group(acks, group) != kFullGroup) out.u16(ack_group(acks, group));
    }
}

std::uint8_t data_flags(const Acks& acks, bool ping, bool messages, bool payload) {
    return static_cast<std::uint8_t>((acks.present ? kHasAcks : 0) | (ping ? kIsPing : 0) |
                                     (messages ? kHasMessages : 0) | (payload ? kHasPayload : 0) |
                                     ack_group_mask(acks));
}

std::size_t frame_bytes(Channel channel, std::size_t size) {
    return 1 + (channel == Channel::reliable ? 2u : 0u) + (size < 128 ? 1u : 2u) + size;
}

void write_frame(ByteWriter& out, Channel channel, std::uint16_t id, std::span<const std::byte> message) {
    assert(message.size() <= kMaxMessageBytes);
    out.u8(static_cast<std::uint8_t>(channel));
    if (channel == Channel::reliable) out.u16(id);
    if (message.size() < 128) {
        out.u8(message.size());
    } else {
        out.u8((message.size() & 127) | 128);
        out.u8(message.size() >> 7);
    }
    out.bytes(message);
}

bool read_body(std::span<const std::byte> datagram, const Envelope& envelope, Packet& packet) {
    packet.datagram = datagram;
    packet.kind = envelope.kind;
    ByteReader in(datagram.subspan(envelope.body_offset, datagram.size() - envelope.body_offset - kTagBytes));
    if (envelope.kind == PacketKind::disconnect) {
        const std::uint8_t reason = in.u8();
        const std::span<const std::byte> text = in.rest();
        if (reason > static_cast<std::uint8_t>(DisconnectReason::refused)) return false;
        if (text.size() > kMaxReasonBytes) return false;
        packet.reason = static_cast<DisconnectReason>(reason);
        packet.text = {reinterpret_cast<const char*>(text.data()), text.size()};
        return in.ok();
    }
    const std::uint8_t flags = in.u8();
    packet.ping = flags & kIsPing;
    if (!read_acks(in, flags, packet.acks)) return false;
    packet.frame_count = 0;
    if ((flags & kHasMessages) && !read_frames(in, envelope.body_offset, packet)) return false;
    packet.has_payload = flags & kHasPayload;
    if (packet.has_payload) packet.payload = in.rest();
    return in.ok() && in.remaining() == 0;
}

std::uint64_t packet_tag(const SipKey& key, std::uint64_t protocol_id, std::uint64_t number,
                         std::span<const std::byte> packet) {
    return siphash(key, {protocol_id, number}, packet);
}

bool is_tag_valid(const SipKey& key, std::uint64_t protocol_id, std::uint64_t number,
                  std::span<const std::byte> datagram) {
    assert(datagram.size() > kTagBytes);
    ByteReader tag(datagram.last(kTagBytes));
    const std::uint64_t expected =
        packet_tag(key, protocol_id, number, datagram.first(datagram.size() - kTagBytes));
    return (expected ^ tag.u64()) == 0;  // one comparison of whole words leaks no position
}

}  // namespace shoal::net
