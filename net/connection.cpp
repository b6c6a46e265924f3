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

}  // namespace

Connection::Connection(const ConnectionConfig& config, const Session& session, Handler& handler, Sink& sink,
                       Time now)
    : config_(config),
      session_(session),
      handler_(handler),
      sink_(sink),
      sent_(session.send_first, config.max_open_packets),
      received_(session.receive_first),
      unreliable_(config.message_queue_bytes),
      reliable_sender_(static_cast<std::uint16_t>(session.send_first), config.message_queue_bytes),
      reliable_receiver_(static_cast<std::uint16_t>(session.receive_first)),
      created_(now),
      last_received_(now) {
    assert(config.max_open_packets >= 32 && config.max_open_packets <= 32768);
    assert(config.keep_alive < config.timeout);
    assert(config.max_packets_per_flush >= 1);
}

bool Connection::open(std::span<const std::byte> datagram, Packet& packet, Time now) {
    const std::optional<Envelope> envelope = read_envelope(datagram, session_.receive_id);
    if (!envelope) {
        count(Drop::truncated);
        return false;
    }
    packet.number =
        expand_number(envelope->truncated_number, envelope->number_bytes, received_.newest_arrived() + 1);
    if (!is_tag_valid(session_.receive_key, session_.protocol_id, packet.number, datagram)) {
        count(Drop::bad_tag);
        return false;
    }
    if (!is_open_) {
        count(Drop::closed);
        return false;
    }
    const AckWindow::State state = received_.state(packet.number);
    if (state != AckWindow::State::fresh) {
        count(state == AckWindow::State::duplicate ? Drop::duplicate : Drop::stale);
        return false;
    }
    bool is_good = read_body(datagram, *envelope, packet);
    if (is_good && packet.kind == PacketKind::data) {
        is_good = sent_.plausible(packet.acks);
        for (std::size_t i = 0; i < packet.frame_count && is_good; ++i) {
            const Frame& frame = packet.frames[i];
            is_good = frame.channel != Channel::reliable || reliable_receiver_.plausible(frame.id);
        }
    }
    if (!is_good) {
        count(Drop::malformed);
        close(DisconnectReason::protocol_error, "malformed packet", true, now);
        return false;
    }
    return true;
}

void Connection::apply(const Packet& packet, Time now) {
    assert(is_open_);
    received_.arrive(packet.number);
    stats_.packets_received += 1;
    stats_.bytes_received += packet.datagram.size();
    last_received_ = now;
    if (packet.kind == PacketKind::disconnect) {
        const bool is_plain = packet.reason == DisconnectReason::closed;
        close(is_plain ? DisconnectReason::closed_by_peer : packet.reason, packet.text, false, now);
        return;
    }
    sent_.acknowledge(packet.acks, now, stats_);
    report_fates();
    for (std::size_t i = 0; i < packet.frame_count && is_open_; ++i) deliver(packet, packet.frames[i]);
    if (packet.has_payload && is_open_) {
        if (!handler_.on_payload(session_.peer, packet.number, packet.payload, now)) {
            stats_.payloads_withheld += 1;
            return;
        }
    }
    if (!packet.has_payload && is_open_) handler_.on_packet(session_.peer, packet.number);
    if (!is_open_) return;
    received_.accept(packet.number);
    if (received_.newest_accepted() == packet.number) newest_accepted_at_ = now;
    if (packet.wants_ack()) {
        if (acks_wanted_ == 0) ack_wanted_since_ = now;
        acks_wanted_ += 1;
    }
}

void Connection::announce() {
    assert(is_open_ && !is_announced_);
    is_announced_ = true;
    handler_.on_connected(session_.peer);
}

void Connection::update(Time now) {
    if (!is_open_) return;
    sent_.update(now, stats_);
    report_fates();
    if (is_open_ && now - last_received_ >= config_.timeout) {
        close(DisconnectReason::timed_out, {}, true, now);
    }
}

void Connection::flush(Time now) {
    if (!is_open_) {
        send_last_words(now);
        return;
    }
    for (std::uint32_t i = 0; i < config_.max_packets_per_flush && has_messages() && sent_.has_room(); ++i) {
        send_packet({.messages = true}, now);
    }
    // An answer is overdue: ask once more, for the answer tells about all the packets before.
    const Duration timeout = sent_.retransmission_timeout(stats_);
    const bool is_overdue = sent_.any_open() && now - sent_.newest_sent() >= timeout;
    // Packets that carry only acks do not measure the path: a side that has nothing to say pings too.
    const bool is_quiet = now - std::max(sent_.newest_sent(), created_) >= config_.keep_alive;
    if ((is_overdue || is_quiet) && sent_.has_room()) {
        ping(now);
    }
    const bool is_ack_late = acks_wanted_ > 0 && now - ack_wanted_since_ >= config_.max_ack_delay;
    if (acks_wanted_ >= 2 || is_ack_late) send_packet({}, now);
}

std::size_t Connection::payload_capacity() const {
    if (!is_open_ || !sent_.has_room()) return 0;
    std::size_t messages = 0;
    for (std::size_t i = 0; i < unreliable_.size() && messages < kMessageShare; ++i) {
        messages += frame_bytes(Channel::unreliable, unreliable_[i].size());
    }
    for (auto next = reliable_sender_.next_pending(0, true); next && messages < kMessageShare;
         next = reliable_sender_.next_pending(*next + 1, true)) {
        messages += frame_bytes(Channel::reliable, reliable_sender_.message(*next).size());
    }
    return kMaxPayloadBytes - std::min(messages == 0 ? 0 : messages + 1, kMessageShare);
}

std::uint64_t Connection::send_payload(std::span<const std::byte> payload, std::uint64_t cookie, Time now) {
    assert(payload.size() <= kMaxPayloadBytes);
    if (!is_open_ || !sent_.has_room() || payload.size() > kMaxPayloadBytes) return 0;
    return send_packet({.messages = true, .has_payload = true, .payload = payload, .cookie = cookie}, now);
}

SendResult Connection::send_message(Channel channel, std::span<const std::byte> message) {
    if (!is_open_) return SendResult::not_connected;
    if (message.size() > kMaxMessageBytes) return SendResult::too_large;
    const bool is_queued =
        channel == Channel::reliable ? reliable_sender_.push(message) : unreliable_.push(message);
    return is_queued ? SendResult::queued : SendResult::queue_full;
}

void Connection::close(DisconnectReason reason, std::string_view text, bool tell_peer, Time now) {
    if (!is_open_) return;
    is_open_ = false;
    reason_ = reason;
    text_bytes_ = static_cast<std::uint8_t>(std::min(text.size(), kMaxReasonBytes));
    std::copy_n(text.data(), text_bytes_, text_.data());
    if (tell_peer) {
        last_words_left_ = kLastWords;
        next_last_word_ = now;
        send_last_words(now);
        next_last_word_ = now;
        send_last_words(now);
    }
    sent_.lose_all(stats_);
    report_fates();
    if (is_announced_) {
        handler_.on_disconnected(session_.peer, reason, std::string_view(text_.data(), text_bytes_));
    }
}

std::uint64_t Connection::send_packet(const Contents& contents, Time now) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    ByteWriter out(buffer);
    const std::uint64_t number = sent_.next_number();
    const Acks acknowledged = acks(now);
    begin(out, PacketKind::data);
    const std::size_t flags_at = out.size();
    out.u8(0);
    write_acks(out, acknowledged);
    bool has_reliable = false;
    bool has_messages = false;
    if (contents.messages) {
        const std::size_t reserved = contents.payload.size() + kTagBytes;
        assert(out.room() >= reserved);
        const std::size_t before = out.size();
        write_messages(out, out.room() - reserved, contents.has_payload, has_reliable);
        has_messages = out.size() > before;
    }
    out.bytes(contents.payload);
    out.patch_u8(flags_at, data_flags(acknowledged, contents.ping, has_messages, contents.has_payload));
    const std::span<const std::byte> datagram = seal(out);

    if (contents.ping || has_messages || contents.has_payload) {
        SentPackets::Settled packet;
        packet.fate.cookie = contents.cookie;
        packet.has_payload = contents.has_payload;
        packet.has_reliable = has_reliable;
        sent_.sent_tracked(packet, datagram.size(), now, stats_);
    } else {
        sent_.sent_untracked();
    }
    acks_wanted_ = 0;
    put(datagram);
    return number;
}

void Connection::begin(ByteWriter& out, PacketKind kind) const {
    const std::uint64_t number = sent_.next_number();
    write_envelope(out, kind, session_.send_id, number, number_bytes(number, sent_.newest_acked()));
}

std::span<const std::byte> Connection::seal(ByteWriter& out) const {
    out.u64(packet_tag(session_.send_key, session_.protocol_id, sent_.next_number(), out.written()));
    return out.written();
}

void Connection::put(std::span<const std::byte> datagram) {
    stats_.packets_sent += 1;
    stats_.bytes_sent += datagram.size();
    sink_.send(session_.address, datagram);
}

Acks Connection::acks(Time now) const {
    Acks result;
    if (!received_.has_acks()) return result;
    result.present = true;
    result.newest = static_cast<std::uint16_t>(received_.newest_accepted());
    result.bits = received_.ack_bits();
    result.delay = now - newest_accepted_at_;
    return result;
}

std::uint8_t Connection::write_messages(ByteWriter& out, std::size_t room, bool beside_payload,
                                        bool& has_reliable) {
    const std::size_t end = out.size() + room;
    const std::uint64_t number = sent_.next_number();
    const std::size_t count_at = out.size();
    std::uint8_t frames = 0;
    std::size_t cursor = 0;
    if (room <= 1) return 0;
    const auto fits = [&](Channel channel, std::size_t size) {
        const std::size_t start = frames == 0 ? count_at + 1 : out.size();
        return frames < kMaxFramesPerPacket && start + frame_bytes(channel, size) <= end;
    };
    const auto begin_frame = [&] {
        if (frames == 0) out.u8(0);
        frames += 1;
        stats_.messages_sent += 1;
    };
    // In turn, so that neither channel starves the other.
    bool took = true;
    while (took) {
        took = false;
        const std::optional<std::size_t> next = reliable_sender_.next_pending(cursor, beside_payload);
        if (next && fits(Channel::reliable, reliable_sender_.message(*next).size())) {
            begin_frame();
            write_frame(out, Channel::reliable, reliable_sender_.id(*next), reliable_sender_.message(*next));
            if (reliable_sender_.sent(*next, number)) stats_.messages_repeated += 1;
            has_reliable = true;
            cursor = *next + 1;
            took = true;
        }
        if (!unreliable_.empty() && fits(Channel::unreliable, unreliable_[0].size())) {
            begin_frame();
            write_frame(out, Channel::unreliable, 0, unreliable_[0]);
            unreliable_.pop();
            took = true;
        }
    }
    if (frames > 0) out.patch_u8(count_at, frames);
    return frames;
}

void Connection::report_fates() {
    SentPackets::Settled packet;
    while (sent_.next_settled(packet)) {
        if (packet.has_reliable) {
            if (packet.fate.delivered) {
                reliable_sender_.delivered(packet.fate.number);
            } else {
                reliable_sender_.lost(packet.fate.number);
            }
        }
        if (packet.has_payload) handler_.on_fate(session_.peer, packet.fate);
    }
}

void Connection::deliver(const Packet& packet, const Frame& frame) {
    if (frame.channel == Channel::unreliable) {
        stats_.messages_received += 1;
        handler_.on_message(session_.peer, Channel::unreliable, packet.bytes(frame));
        return;
    }
    switch (reliable_receiver_.arrive(frame.id, packet.bytes(frame))) {
        case ReliableReceiver::Arrival::duplicate:
            stats_.messages_duplicated += 1;
            return;
        case ReliableReceiver::Arrival::later:
            return;
        case ReliableReceiver::Arrival::now:
            break;
    }
    stats_.messages_received += 1;
    handler_.on_message(session_.peer, Channel::reliable, packet.bytes(frame));
    while (is_open_) {
        const std::optional<std::span<const std::byte>> next = reliable_receiver_.take_next();
        if (!next) break;
        stats_.messages_received += 1;
        handler_.on_message(session_.peer, Channel::reliable, *next);
    }
}

void Connection::send_last_words(Time now) {
    if (last_words_left_ == 0 || now < next_last_word_) return;
    last_words_left_ -= 1;
    next_last_word_ = now + kLastWordInterval;
    std::array<std::byte, kMaxDatagramBytes> buffer;
    ByteWriter out(buffer);
    begin(out, PacketKind::disconnect);
    out.u8(static_cast<std::uint8_t>(reason_));
    out.bytes(std::as_bytes(std::span(text_).first(text_bytes_)));
    const std::span<const std::byte> datagram = seal(out);
    sent_.sent_untracked();
    put(datagram);
}

}  // namespace shoal::net
