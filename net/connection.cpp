#include "connection.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace shoal::net {
namespace {

// Disconnect packets: two at once, in case nobody flushes any more, then two more.
constexpr std::uint8_t kLastWords = 4;
constexpr Duration kLastWordInterval = std::chrono::milliseconds(100);

/// Bytes that waiting messages may take from the payload.
constexpr std::size_t kMessageShare = kMaxPayloadBytes - kMinPayloadBytes;
/// All that wait are urgent if they are no more than this.
constexpr std::size_t kUrgentBytes = 200;

/// Packets in a row that carry the same acks: one that is lost must not keep the other side waiting.
constexpr std::uint32_t kAckCopies = 3;
/// Packets that want an ack, at most, before one is sent without waiting for a flush.
constexpr std::uint32_t kPacketsPerAck = 32;
constexpr std::size_t kIpUdpBytes = 28;
/// A ping or acks alone, at most.
constexpr std::size_t kSmallPacketBytes = kMaxHeaderBytes + kMaxTagBytes;

/// The other side's reason, as far as it is one that only that side can know.
DisconnectReason heard_reason(DisconnectReason said, bool is_from_server) {
    switch (said) {
        case DisconnectReason::protocol_error:
        case DisconnectReason::exhausted:
            return said;
        case DisconnectReason::shut_down:
        case DisconnectReason::kicked:
        case DisconnectReason::timed_out:  // it did not hear us
        case DisconnectReason::refused_full:
        case DisconnectReason::refused:
            return is_from_server ? said : DisconnectReason::closed_by_peer;
        default:
            return DisconnectReason::closed_by_peer;
    }
}

}  // namespace

Connection::Connection(const ConnectionConfig& config, const Session& session, const PacketCipher& cipher,
                       Handler& handler, Sink& sink, Time now)
    : config_(config),
      session_(session),
      path_(session.address),
      cipher_(cipher),
      handler_(handler),
      sink_(sink),
      sent_(session.send_first, config.max_open_packets),
      rate_(config.first_bytes_per_second, config.max_bytes_per_second, now, stats_),
      received_(session.receive_first),
      outbox_(session.send_first, config.message_queue_bytes),
      inbox_(session.receive_first),
      created_(now),
      last_received_(now) {
    assert(config.max_open_packets >= 32 && config.max_open_packets <= 32768);
    assert(config.keep_alive < config.timeout);
    assert(config.max_packets_per_flush >= 1);
    assert(config.repeat_share >= 0 && config.repeat_share <= 1);
    outbox_.set_repeat_share(config.repeat_share);
}

bool Connection::open(std::span<const std::byte> datagram, Packet& packet, Time now) {
    const std::optional<Envelope> envelope = read_envelope(datagram, session_.receive_id);
    if (!envelope || datagram.size() < envelope->body_offset + 1 + cipher_.tag_bytes()) {
        count(Drop::truncated);
        return false;
    }
    if (!is_open_) {
        count(Drop::closed);
        return false;
    }
    packet.number =
        expand_number(envelope->truncated_number, envelope->number_bytes, received_.newest_arrived() + 1);
    const std::span<std::byte> copy = std::span(packet.buffer).first(datagram.size());
    std::copy(datagram.begin(), datagram.end(), copy.begin());
    if (!cipher_.open(packet.number, envelope->key_phase, copy, envelope->body_offset, now,
                      3 * sent_.retransmission_timeout(stats_))) {
        count(Drop::bad_tag);
        return false;
    }
    const AckWindow::State state = received_.state(packet.number);
    if (state != AckWindow::State::fresh) {
        count(state == AckWindow::State::duplicate ? Drop::duplicate : Drop::stale);
        return false;
    }
    bool is_good = read_body(copy.first(copy.size() - cipher_.tag_bytes()), *envelope,
                             inbox_.expected_id(packet.number), packet);
    if (is_good && packet.kind == PacketKind::data) {
        is_good = sent_.plausible(packet.acks) && inbox_.plausible(packet) &&
                  (!packet.is_fragment || incoming_.plausible(packet, session_.receive_first));
    }
    if (!is_good) {
        count(Drop::malformed);
        close(DisconnectReason::protocol_error, "malformed packet", true, now);
        return false;
    }
    return true;
}

bool Connection::moves(const Address& from, const Packet& packet) const {
    return from != path_.address() && packet.number > received_.newest_arrived();
}

void Connection::follow(const Address& from, const Packet& packet, Time now) {
    if (from != path_.address()) return;
    path_.received(packet.datagram.size() + cipher_.tag_bytes());
    // If the first challenge was lost this is long ago; later samples mend that.
    const Time challenged = path_.first_challenged();
    if (packet.kind != PacketKind::echo || !path_.echoed(packet.challenge.number)) return;
    // After RFC 9000, section 9.4.
    sent_.restart(now - challenged, stats_);
    rate_.restart(now);
}

void Connection::apply(const Packet& packet, Time now) {
    assert(is_open_);
    is_order_broken_ |= packet.number != received_.newest_arrived() + 1;
    received_.arrive(packet.number);
    stats_.packets_received += 1;
    stats_.bytes_received += packet.datagram.size() + cipher_.tag_bytes();
    last_received_ = now;
    if (packet.kind == PacketKind::disconnect) {
        close(heard_reason(packet.reason, !session_.receive_id), packet.text, false, now);
        return;
    }
    if (packet.kind == PacketKind::challenge) echo_ = packet.challenge.number;
    sent_.acknowledge(packet.acks, now, stats_);
    report_fates(now);
    for (std::size_t i = 0; i < packet.message_count && is_open_; ++i) deliver(packet, packet.frames[i]);
    if (!is_open_ || !take_payload(packet, now) || !is_open_) return;
    received_.accept(packet.number);
    if (received_.newest_accepted() == packet.number) newest_accepted_at_ = now;
    if (packet.wants_ack()) {
        if (acks_wanted_ == 0) ack_wanted_since_ = now;
        acks_wanted_ += 1;
        acks_to_send_ = kAckCopies;
    }
    // A flush may be far away, and one ack names 65 packets: each should be in two, as acks get lost.
    if (acks_wanted_ >= kPacketsPerAck && path_.allows(kSmallPacketBytes)) send_packet({}, now);
}

void Connection::announce() {
    assert(is_open_ && !is_announced_);
    is_announced_ = true;
    handler_.on_connected(session_.peer);
}

void Connection::update(Time now) {
    if (!is_open_) return;
    sent_.update(now, stats_);
    report_fates(now);
    report(outgoing_.update(sent_.next_number()));
    rate_.update(now, sent_.answer_timeout(stats_), stats_);
    cipher_.update(now);
    if (is_open_ && now - last_received_ >= config_.timeout) {
        close(DisconnectReason::timed_out, {}, true, now);
    }
    if (is_open_ && sent_.next_number() - session_.send_first >= config_.max_packets) {
        close(DisconnectReason::exhausted, {}, true, now);
    }
}

void Connection::flush(Time now) {
    if (!is_open_) {
        send_last_words(now);
        return;
    }
    prove_path(now);
    send_fragments(now);
    bool has_sent = sent_.any_open() && sent_.newest_sent() == now;
    for (std::uint32_t i = 0; i < config_.max_packets_per_flush && sent_.has_room(); ++i) {
        const Outbox::Terms terms = message_terms(false, now);
        if (!outbox_.has_ready(terms) && (has_sent || !outbox_.has_repeats(terms))) break;
        const std::size_t waiting = outbox_.ready_bytes();
        const bool is_urgent = waiting > 0 && waiting <= kUrgentBytes;
        if (!(is_urgent ? rate_.may_send_urgent() : rate_.may_send())) break;
        if (!path_.allows(kMaxDatagramBytes)) break;
        if (send_packet({.messages = true}, now) == 0) break;
        has_sent = true;
        state_lead_ = 0;
    }
    // An answer is overdue: ask once more, for the answer tells about all the packets before.
    const Duration timeout =
        rate_.is_broken() ? rate_.probe_interval() : sent_.retransmission_timeout(stats_);
    const bool is_overdue = (sent_.any_open() || rate_.is_broken()) && now - sent_.newest_sent() >= timeout;
    // Packets that carry only acks do not measure the path: a side that has nothing to say pings too.
    const bool is_quiet = now - std::max(sent_.newest_sent(), created_) >= config_.keep_alive;
    if ((is_overdue || is_quiet) && sent_.has_room() && path_.allows(kSmallPacketBytes)) ping(now);
    if (!received_.has_acks()) acks_wanted_ = 0;  // what they were for is too far behind
    const bool is_ack_late = acks_wanted_ > 0 && now - ack_wanted_since_ >= config_.max_ack_delay;
    const bool is_ack_urgent = acks_wanted_ >= 2 || (acks_wanted_ > 0 && is_order_broken_);
    if ((is_ack_urgent || is_ack_late) && path_.allows(kSmallPacketBytes)) send_packet({}, now);
}

std::size_t Connection::payload_capacity() const {
    return outgoing_.is_leaving() ? 0 : packet_capacity();
}

std::size_t Connection::packet_capacity() const {
    if (!is_open_ || !sent_.has_room() || !rate_.may_send() || !path_.allows(kMaxDatagramBytes)) return 0;
    // Budget for a packet of messages alone, which leaves with the flush. Then it is the state's turn again.
    if (state_lead_ >= kMaxDatagramBytes && outbox_.needs_own_packet(kMessageShare)) return 0;
    return kMaxPayloadBytes - std::min(outbox_.ready_bytes(), kMessageShare);
}

std::uint64_t Connection::send_payload(std::span<const std::byte> payload, std::uint64_t cookie, Time now) {
    if (payload_capacity() == 0 || payload.size() > kMaxLargePayloadBytes) return 0;
    if (payload.size() <= kMaxPayloadBytes) {
        return send_packet({.messages = true, .has_payload = true, .payload = payload, .cookie = cookie},
                           now);
    }
    const std::uint64_t number = sent_.next_number();
    outgoing_.start(payload, number, cookie);
    send_fragments(now);
    return number;
}

void Connection::send_fragments(Time now) {
    while (outgoing_.can_continue(sent_.next_number())) {
        const std::size_t room = packet_capacity();
        if (room == 0) return;
        const OutgoingPayload::Piece piece = outgoing_.take(sent_.next_number(), room);
        send_packet({.messages = true,
                     .has_payload = true,
                     .payload = piece.bytes,
                     .cookie = piece.payload_number,
                     .fragment = &piece.fragment},
                    now);
    }
}

SendResult Connection::send_message(const Delivery& how, std::span<const std::byte> message) {
    if (!is_open_) return SendResult::not_connected;
    const std::size_t most = how.channel == Channel::reliable ? kMaxReliableBytes : kMaxMessageBytes;
    if (message.size() > most || !outbox_.could_hold(message.size())) return SendResult::too_large;
    return outbox_.push(how, message) ? SendResult::queued : SendResult::queue_full;
}

void Connection::close(DisconnectReason reason, std::string_view text, bool tell_peer, Time now) {
    if (!is_open_) return;
    is_open_ = false;
    reason_ = reason;
    text_ = text.substr(0, kMaxReasonBytes);
    if (tell_peer) {
        last_words_left_ = kLastWords;
        next_last_word_ = now;
        send_last_words(now);
        next_last_word_ = now;
        send_last_words(now);
    } else {
        cipher_.forget_send_key();
    }
    cipher_.forget_receive_keys();
    sent_.lose_all(stats_);
    report_fates(now);
    while (const std::optional<PacketFate> fate = outgoing_.lose()) report(fate);
    if (is_announced_) {
        handler_.on_disconnected(session_.peer, reason, text_);
    }
}

std::uint64_t Connection::send_packet(const Contents& contents, Time now) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    ByteWriter out(buffer);
    const std::uint64_t number = sent_.next_number();
    const Acks acknowledged = acks(now);
    const std::size_t header_bytes = begin(out, PacketKind::data, now);
    const std::size_t flags_at = out.size();
    out.u8(0);
    write_acks(out, acknowledged);
    if (contents.has_payload) note_lead(contents.payload.size());
    std::uint32_t carried = Outbox::kNone;
    bool has_messages = false;
    if (contents.messages) {
        const std::size_t head_bytes = contents.fragment ? fragment_head_bytes(*contents.fragment) : 0;
        const std::size_t reserved = head_bytes + contents.payload.size() + cipher_.tag_bytes();
        assert(out.room() >= reserved);
        const std::size_t before = out.size();
        carried = outbox_.write(out, out.room() - reserved, message_terms(contents.has_payload, now), stats_);
        has_messages = out.size() > before;
        if (!has_messages && !contents.has_payload) return 0;
    }
    if (contents.fragment) write_fragment_head(out, *contents.fragment);
    out.bytes(contents.payload);
    out.patch_u8(flags_at, data_flags(acknowledged, contents.ping || contents.fragment, has_messages,
                                      contents.has_payload));
    const std::span<const std::byte> datagram = seal(out, header_bytes);

    if (contents.ping || has_messages || contents.has_payload) {
        SentPackets::Settled packet;
        packet.fate.cookie = contents.cookie;
        packet.has_payload = contents.has_payload;
        packet.is_fragment = contents.fragment != nullptr;
        packet.carried = carried;
        sent_.sent_tracked(packet, datagram.size(), now, stats_);
        rate_.on_sent(datagram.size(), now, stats_);
    } else {
        sent_.sent_untracked();
        rate_.on_sent_untracked(datagram.size());
    }
    if (acknowledged.present) {
        acks_wanted_ = 0;
        is_order_broken_ = false;
        acks_to_send_ -= 1;
    }
    put(datagram);
    return number;
}

void Connection::note_lead(std::size_t payload_bytes) {
    state_lead_ = outbox_.needs_own_packet(kMessageShare) ? state_lead_ + payload_bytes : 0;
}

std::size_t Connection::begin(ByteWriter& out, PacketKind kind, Time now) {
    const std::uint64_t number = sent_.next_number();
    const bool key_phase = cipher_.prepare(number, sent_.newest_acked(), config_.key_life, now);
    write_envelope(out, kind, key_phase, session_.send_id, number,
                   number_bytes(number, sent_.newest_acked()));
    return out.size();
}

std::span<const std::byte> Connection::seal(ByteWriter& out, std::size_t header_bytes) const {
    const std::span<std::byte> packet = out.append(cipher_.tag_bytes());
    cipher_.seal(sent_.next_number(), packet, header_bytes);
    return packet;
}

void Connection::put(std::span<const std::byte> datagram) {
    stats_.packets_sent += 1;
    stats_.bytes_sent += datagram.size();
    outbox_.paid(datagram.size() + kIpUdpBytes);
    path_.sent(datagram.size());
    sink_.send(path_.address(), datagram);
}

Acks Connection::acks(Time now) const {
    Acks result;
    if (acks_to_send_ == 0 || !received_.has_acks()) return result;
    result.present = true;
    result.newest = static_cast<std::uint16_t>(received_.newest_accepted());
    result.bits = received_.ack_bits();
    result.delay = now - newest_accepted_at_;
    return result;
}

Outbox::Terms Connection::message_terms(bool beside_payload, Time now) const {
    // Bulk leaves half of the fates to the others, too, and takes no byte that is only for what is urgent.
    const bool has_room_for_bulk = sent_.open_packets() < config_.max_open_packets / 2 && rate_.may_send();
    return {now, stats_.loss, beside_payload, has_room_for_bulk};
}

void Connection::report_fates(Time now) {
    SentPackets::Settled packet;
    while (sent_.next_settled(packet)) {
        rate_.on_news(packet, now, stats_);
        if (packet.is_late) continue;
        outbox_.settle(packet.carried, packet.fate.delivered);
        if (packet.is_fragment) {
            report(outgoing_.settle(packet.fate.cookie, packet.fate.delivered, packet.fate.rtt));
        } else if (packet.has_payload) {
            report(packet.fate);
        }
    }
}

void Connection::report(const std::optional<PacketFate>& fate) {
    if (fate) handler_.on_fate(session_.peer, *fate);
}

bool Connection::take_payload(const Packet& packet, Time now) {
    if (packet.is_fragment) return take_fragment(packet, now);
    if (packet.has_payload) return take_payload(packet.number, packet.payload, now);
    handler_.on_packet(session_.peer, packet.number);
    return true;
}

bool Connection::take_payload(std::uint64_t number, std::span<const std::byte> payload, Time now) {
    const bool is_accepted = handler_.on_payload(session_.peer, number, payload, now);
    stats_.payloads_withheld += !is_accepted;
    return is_accepted;
}

bool Connection::take_fragment(const Packet& packet, Time now) {
    switch (incoming_.arrive(packet, stats_)) {
        case IncomingPayload::Arrival::outdated:
            return false;
        case IncomingPayload::Arrival::complete: {
            const bool is_accepted = take_payload(incoming_.number(), incoming_.whole(), now);
            incoming_.finish();
            if (!is_accepted) return false;
            break;
        }
        case IncomingPayload::Arrival::kept:
            break;
    }
    // The number of the first one is that of the payload.
    if (packet.fragment.index > 0 && is_open_) handler_.on_packet(session_.peer, packet.number);
    return true;
}

void Connection::deliver(const Packet& packet, const Frame& frame) {
    switch (inbox_.arrive(packet, frame)) {
        case Inbox::Arrival::known:
            stats_.messages_duplicated += 1;
            return;
        case Inbox::Arrival::outdated:
            stats_.messages_outdated += 1;
            return;
        case Inbox::Arrival::kept:
            break;
        case Inbox::Arrival::now:
            hand_over(frame.channel, packet.bytes(frame));
            break;
        case Inbox::Arrival::whole:
            hand_over(Channel::reliable, inbox_.whole());
            break;
    }
    if (frame.channel != Channel::reliable) return;
    std::array<std::byte, kMaxMessageBytes> buffer;
    while (is_open_) {
        const std::optional<std::span<const std::byte>> next = inbox_.take_ready(buffer);
        if (!next) break;
        hand_over(Channel::reliable, *next);
    }
}

void Connection::hand_over(Channel channel, std::span<const std::byte> message) {
    stats_.messages_received += 1;
    handler_.on_message(session_.peer, channel, message);
}

void Connection::send_last_words(Time now) {
    if (last_words_left_ == 0 || now < next_last_word_) return;
    last_words_left_ -= 1;
    next_last_word_ = now + kLastWordInterval;
    if (path_.allows(kSmallPacketBytes + text_.size())) {
        std::array<std::byte, 1 + kMaxReasonBytes> body;
        ByteWriter out(body);
        out.u8(static_cast<std::uint8_t>(reason_));
        out.bytes(std::as_bytes(std::span(text_)));
        send_bare(PacketKind::disconnect, out.written(), now);
    }
    if (last_words_left_ == 0) cipher_.forget_send_key();
}

/// Proves an address: that of the other side, or ours to it. First of all that a flush sends.
void Connection::prove_path(Time now) {
    const Challenge challenge = path_.challenge();
    const std::size_t bytes = 1u + number_bytes(sent_.next_number(), sent_.newest_acked()) + 8 +
                              (challenge.reset_token ? sizeof(ResetToken) : 0) + cipher_.tag_bytes();
    if (path_.is_challenge_due(bytes, now, sent_.retransmission_timeout(stats_))) {
        std::array<std::byte, 8 + sizeof(ResetToken)> body;
        ByteWriter out(body);
        out.u64(challenge.number);
        if (challenge.reset_token) out.bytes(*challenge.reset_token);
        send_bare(PacketKind::challenge, out.written(), now);
        path_.challenged(now);
    }
    if (echo_) {
        std::array<std::byte, 8> body;
        ByteWriter(body).u64(*echo_);
        send_bare(PacketKind::echo, body, now);
        echo_.reset();
    }
}

void Connection::send_bare(PacketKind kind, std::span<const std::byte> body, Time now) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    ByteWriter out(buffer);
    const std::size_t header_bytes = begin(out, kind, now);
    out.bytes(body);
    const std::span<const std::byte> datagram = seal(out, header_bytes);
    sent_.sent_untracked();
    rate_.on_sent_untracked(datagram.size());
    put(datagram);
}

}  // namespace shoal::net
