#include "packet.h"

namespace shoal::net::impl {
namespace {

constexpr unsigned kAckGroupShift = 4;  // bit of the first group in the flags; set: the group follows
constexpr unsigned kAckGroups = 4;      // groups of 16 ack bits each
constexpr std::uint64_t kFullGroup = 0xFFFF;
constexpr Duration kDelayUnit{256};

// Head of a fragment.
constexpr unsigned kIndexBits = 127;
constexpr unsigned kIsLastFragment = 128;

// Head of a run of messages.
constexpr unsigned kChannelBits = 3;
constexpr unsigned kReliableGoesOn = 3;  // other values are those of Channel
constexpr unsigned kIsLastRun = 4;
constexpr unsigned kHasCount = 8;
constexpr unsigned kIdBytesShift = 4;      // two bits: Run::id_bytes, 0 to 2
constexpr unsigned kPredecessorShift = 6;  // two bits: a Predecessor
enum Predecessor : unsigned { kNoPredecessor, kMessageBefore, kDistanceFollows, kIsParity };

bool has_envelope(PacketKind kind) {
    return kind >= PacketKind::data && kind != PacketKind::reset;
}

bool read_acks(ByteReader& in, unsigned flags, Acks& acks) {
    acks = {};
    acks.present = flags & kHasAcks;
    if (!acks.present) return flags >> kAckGroupShift == 0;
    acks.newest = in.u16();
    acks.delay = in.u8() * kDelayUnit;
    for (unsigned group = 0; group < kAckGroups; ++group) {
        const bool is_present = flags >> (kAckGroupShift + group) & 1;
        const std::uint64_t bits = is_present ? in.u16() : kFullGroup;
        if (is_present && bits == kFullGroup) return false;  // a sender must omit a group of ones
        acks.bits |= bits << (16 * group);
    }
    return in.ok();
}

// Short numbers: 0-127 in one byte; else in two: the low seven bits with bit 7 set, then the other bits.
std::size_t short_number_bytes(std::size_t value) {
    return value < 128 ? 1 : 2;
}

void write_short_number(ByteWriter& out, std::size_t value) {
    assert(value < 128 * 256);
    if (value < 128) return out.u8(value);
    out.u8((value & 127) | 128);
    out.u8(value >> 7);
}

/// Returns false if a byte is missing, or if two bytes hold a number that fits in one.
bool read_short_number(ByteReader& in, std::uint16_t& value) {
    const unsigned low = in.u8();
    const unsigned high = low >= 128 ? in.u8() : 0u;
    value = static_cast<std::uint16_t>((low & 127) | high << 7);
    return in.ok() && (low < 128 || high > 0);
}

bool read_fragment_head(ByteReader& in, Fragment& fragment) {
    const unsigned head = in.u8();
    fragment.index = head & kIndexBits;
    fragment.is_last = head & kIsLastFragment;
    if (fragment.index >= kMaxFragments || (fragment.index == 0 && fragment.is_last)) return false;
    return read_short_number(in, fragment.distance) && fragment.distance >= fragment.index;
}

/// The head of a reliable run begins with a count, which the caller has read. Reads the rest of the head.
bool read_reliable(ByteReader& in, unsigned predecessor, std::uint64_t expected_id, std::uint64_t& next_id,
                   Run& run) {
    if (run.id_bytes > 2 || (run.id_bytes == 0 && next_id == 0)) return false;
    run.is_parity = predecessor == kIsParity;
    const auto truncated = static_cast<std::uint32_t>(in.uint(run.id_bytes));
    if (run.id_bytes > 0) next_id = expand_number(truncated, run.id_bytes, expected_id);
    if (run.is_parity && run.id_bytes == 0) {  // the parity's id is one less than the last id so far
        run.first_id = next_id - std::min<std::uint64_t>(next_id, 2);
    } else {
        run.first_id = next_id;
        next_id += run.count;
    }
    if (run.is_parity) return run.first_id >= 2 && run.count == 1 && !run.goes_on;
    run.distance = predecessor == kMessageBefore ? 1 : 0;
    return predecessor != kDistanceFollows ||
           (read_short_number(in, run.distance) && run.distance >= 2 && run.distance < kReliableWindow);
}

/// `next_id`: one more than the last reliable id of this packet so far; 0: none yet.
bool read_run(ByteReader& in, bool has_payload, std::uint64_t expected_id, std::uint64_t& next_id, Run& run) {
    const unsigned head = in.u8();
    run.goes_on = (head & kChannelBits) == kReliableGoesOn;
    run.channel = run.goes_on ? Channel::reliable : static_cast<Channel>(head & kChannelBits);
    run.is_last = head & kIsLastRun;
    run.fills_packet = run.is_last && !has_payload;
    if (head & kHasCount) run.count = in.u8();
    if ((head & kHasCount) && run.count < 2) return false;
    run.id_bytes = head >> kIdBytesShift & 3;
    const unsigned predecessor = head >> kPredecessorShift;
    if (run.channel == Channel::reliable) {
        if (!read_reliable(in, predecessor, expected_id, next_id, run)) return false;
    } else if (run.id_bytes != 0 || predecessor != kNoPredecessor) {
        return false;
    }
    if (run.goes_on) {
        run.size = kMaxMessageBytes;
        return in.ok();
    }
    if (!run.fills_packet) return read_short_number(in, run.size) && run.size <= kMaxMessageBytes;
    const std::size_t keys = run.channel == Channel::sequenced ? run.count : 0u;
    if (!in.ok() || in.remaining() < keys || (in.remaining() - keys) % run.count != 0) return false;
    run.size = static_cast<std::uint16_t>((in.remaining() - keys) / run.count);
    return run.size <= kMaxMessageBytes;
}

bool read_messages(ByteReader& in, std::size_t base, std::uint64_t expected_id, Packet& packet) {
    std::uint64_t next_id = 0;
    for (Run run; !run.is_last;) {
        run = {};
        if (!read_run(in, packet.has_payload, expected_id, next_id, run)) return false;
        if (packet.message_count + run.count > kMaxMessagesPerPacket) return false;
        if (run.is_parity && run.size > kMaxRepeatedBytes) return false;
        if (run.size == 0 && run.count > 1) return false;  // empty messages: many callbacks for few bytes
        for (unsigned i = 0; i < run.count; ++i) {
            const std::uint8_t key = run.channel == Channel::sequenced ? in.u8() : std::uint8_t(0);
            const auto offset = static_cast<std::uint16_t>(base + in.position());
            packet.frames[packet.message_count++] = {run.first_id + i, offset, run.size,    run.distance,
                                                     run.channel,      key,    run.goes_on, run.is_parity};
            in.bytes(run.size);
            if (!in.ok()) return false;
        }
    }
    return true;
}

}  // namespace

std::optional<PacketKind> read_kind(std::byte first) {
    const unsigned value = std::to_integer<unsigned>(first);
    const unsigned kind = value >> 3 & 15;
    if ((value & 0x80) == 0 || kind >= static_cast<unsigned>(PacketKind::count_)) return std::nullopt;
    const PacketKind result = static_cast<PacketKind>(kind);
    if (!has_envelope(result) && (value & 7) != 0) return std::nullopt;
    return result;
}

std::uint8_t number_bytes(std::uint64_t number, std::uint64_t acked) {
    assert(number > acked);
    // n bytes are enough if `number` differs from the number that the receiver expects by less than half of
    // 2^(8n). If the receiver expects a lower number, that is at least acked + 1: the difference is less than
    // half of `range`. If it expects a higher number, that is at most number + 65, because packets may arrive
    // up to 64 numbers late: one byte is enough.
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

void write_envelope(ByteWriter& out, PacketKind kind, bool key_phase,
                    std::optional<std::uint32_t> connection_id, std::uint64_t number, std::uint8_t bytes) {
    assert(bytes >= 1 && bytes <= 4);
    out.u8(0x80u | static_cast<unsigned>(kind) << 3 | (key_phase ? 4u : 0u) | (bytes - 1u));
    if (connection_id) out.u32(*connection_id);
    out.uint(number, bytes);
}

std::optional<Envelope> read_envelope(std::span<const std::byte> datagram, bool with_connection_id) {
    ByteReader in(datagram);
    const unsigned first = in.u8();
    const std::optional<PacketKind> kind = read_kind(std::byte(first));
    if (!kind || !has_envelope(*kind)) return std::nullopt;
    Envelope envelope;
    envelope.kind = *kind;
    envelope.key_phase = first & 4;
    envelope.number_bytes = (first & 3) + 1;
    if (with_connection_id) envelope.connection_id = in.u32();
    envelope.truncated_number = static_cast<std::uint32_t>(in.uint(envelope.number_bytes));
    if (*kind == PacketKind::probe) envelope.reset_salt = in.u64();
    envelope.body_offset = static_cast<std::uint8_t>(in.position());
    // At least one byte of the body and the tag follow.
    return in.ok() && in.remaining() >= 1 + kInsecureTagBytes ? std::optional(envelope) : std::nullopt;
}

unsigned write_acks(ByteWriter& out, const Acks& acks) {
    if (!acks.present) return 0;
    unsigned flags = kHasAcks;
    out.u16(acks.newest);
    out.u8(static_cast<std::uint64_t>(std::clamp<Duration::rep>(acks.delay / kDelayUnit, 0, 255)));
    for (unsigned group = 0; group < kAckGroups; ++group) {
        const std::uint64_t bits = acks.bits >> (16 * group) & kFullGroup;
        if (bits == kFullGroup) continue;
        flags |= 1u << (kAckGroupShift + group);
        out.u16(bits);
    }
    return flags;
}

void write_fragment_head(ByteWriter& out, const Fragment& fragment) {
    assert(fragment.index < kMaxFragments && fragment.distance >= fragment.index);
    out.u8(fragment.index | (fragment.is_last ? kIsLastFragment : 0));
    write_short_number(out, fragment.distance);
}

std::size_t run_bytes(const Run& run) {
    return 1 + (run.count > 1 ? 1u : 0u) + run.id_bytes +
           (run.distance > 1 ? short_number_bytes(run.distance) : 0) +
           (run.fills_packet || run.goes_on ? 0 : short_number_bytes(run.size));
}

void write_run(ByteWriter& out, const Run& run) {
    assert(run.count >= 1 && run.size <= kMaxMessageBytes && run.distance < kReliableWindow);
    assert(run.is_last || !run.fills_packet);
    assert(!run.goes_on || run.size == kMaxMessageBytes);
    const unsigned predecessor = run.is_parity      ? kIsParity
                                 : run.distance > 1 ? kDistanceFollows
                                                    : unsigned(run.distance);
    const unsigned channel = run.goes_on ? kReliableGoesOn : static_cast<unsigned>(run.channel);
    out.u8(channel | (run.is_last ? kIsLastRun : 0) | (run.count > 1 ? kHasCount : 0) |
           unsigned(run.id_bytes) << kIdBytesShift | predecessor << kPredecessorShift);
    if (run.count > 1) out.u8(run.count);
    if (run.id_bytes > 0) out.uint(run.first_id, run.id_bytes);
    if (run.distance > 1) write_short_number(out, run.distance);
    if (!run.fills_packet && !run.goes_on) write_short_number(out, run.size);
}

bool read_body(std::span<const std::byte> datagram, const Envelope& envelope, std::uint64_t expected_id,
               Packet& packet) {
    packet.datagram = datagram;
    packet.kind = envelope.kind == PacketKind::probe ? PacketKind::data : envelope.kind;
    ByteReader in(datagram.subspan(envelope.body_offset));
    if (packet.kind == PacketKind::disconnect) {
        packet.reason = static_cast<DisconnectReason>(in.u8());
        const std::span<const std::byte> text = in.rest();
        packet.text = {reinterpret_cast<const char*>(text.data()), text.size()};
        return in.ok() && packet.reason <= kLastDisconnectReason && text.size() <= kMaxReasonBytes;
    }
    if (packet.kind != PacketKind::data) {
        packet.challenge = in.u64();
        return in.ok() && in.remaining() == 0;
    }
    const unsigned flags = in.u8();
    packet.has_payload = flags & kHasPayload;
    packet.is_fragment = (flags & kHasFragment) == kHasFragment;
    packet.ping = (flags & kIsPing) && !packet.is_fragment;
    packet.message_count = 0;
    if (!read_acks(in, flags, packet.acks)) return false;
    if ((flags & kHasMessages) && !read_messages(in, envelope.body_offset, expected_id, packet)) return false;
    if (packet.is_fragment && !read_fragment_head(in, packet.fragment)) return false;
    if (packet.has_payload) packet.payload = in.rest();
    const std::size_t size = packet.payload.size();
    if (packet.is_fragment &&
        (packet.fragment.is_last ? size == 0 || size > kFragmentBytes : size != kFragmentBytes))
        return false;
    return in.ok() && in.remaining() == 0;
}

}  // namespace shoal::net::impl
