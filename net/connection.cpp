#include "connection.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace shoal::net {
namespace {

// Disconnect packets: two at once, in case nobody flushes any more, then two more.
constexpr std::uint8_t kDisconnects = 4;
constexpr Duration kDisconnectInterval = std::chrono::milliseconds(100);

/// Messages count as urgent if no more bytes than this wait.
constexpr std::size_t kUrgentBytes = 200;

/// Packets in a row that carry the same acks: one that is lost must not keep the other side waiting.
constexpr std::uint32_t kAckCopies = 3;
/// Packets that want an ack, at most, before one is sent without waiting for a flush.
constexpr std::uint32_t kPacketsPerAck = 32;
constexpr std::size_t kIpUdpBytes = 28;
/// From one packet number that is left out to the next.
constexpr std::uint64_t kMinSkip = 256, kSkipRange = 1024;

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

struct Connection::Draft {
    std::array<std::byte, kMaxDatagramBytes> buffer;  // left uninitialised, like `apart`
    ByteWriter out{buffer};
    std::size_t header_bytes = 0;
    std::size_t flags_at = 0;
    Acks acks;
    SentPackets::Content content;
    bool has_messages = false;
    std::optional<Fragment> fragment;
    std::span<const std::byte> payload;
    std::array<std::byte, kMaxPayloadBytes> apart;  // the payload, where messages go before it
};

Connection::Connection(const ConnectionConfig& config, const Session& session, const PacketCipher& cipher,
                       Handler& handler, Sink& sink, Time now)
    : config_(config),
      session_(session),
      path_(session.address, now),
      cipher_(cipher),
      handler_(handler),
      sink_(sink),
      sent_(session.send_first, config.max_open_packets),
      rate_(config.first_bytes_per_second, config.max_bytes_per_second, now, stats_),
      received_(session.receive_first),
      queue_(session.send_first, config.message_queue_bytes),
      scheduler_(config.shares),
      inbox_(session.receive_first),
      created_(now),
      last_received_(now) {
    assert(config.max_open_packets >= 32 && config.max_open_packets <= 32768);
    set_options(config);
    skip_number();
}

void Connection::set_options(const ConnectionOptions& options) {
    assert(options.keep_alive < options.timeout);
    assert(options.max_packets_per_flush >= 1);
    assert(options.repeat_share >= 0 && options.repeat_share <= 1);
    assert(options.shares.urgent >= 1 && options.shares.payload >= 1 && options.shares.normal >= 1);
    static_cast<ConnectionOptions&>(config_) = options;
    rate_.set_max_rate(options.max_bytes_per_second);
    queue_.set_max_bytes(options.message_queue_bytes);
    queue_.set_repeat_share(options.repeat_share);
    inbox_.set_max_bytes(options.max_incoming_bytes);
    scheduler_.set_shares(options.shares);
}

Connection::Arrival Connection::open(std::span<const std::byte> datagram, Packet& packet, Time now) {
    const auto drop = [&](Drop reason) {
        count(reason);
        return Arrival::dropped;
    };
    const std::optional<Envelope> envelope = read_envelope(datagram, session_.receive_id);
    if (!envelope || datagram.size() < envelope->body_offset + 1 + cipher_.tag_bytes())
        return drop(Drop::truncated);
    if (!is_open_) return drop(Drop::closed);
    packet.number =
        expand_number(envelope->truncated_number, envelope->number_bytes, received_.newest_arrived() + 1);
    const std::span<std::byte> copy = std::span(packet.buffer).first(datagram.size());
    std::copy(datagram.begin(), datagram.end(), copy.begin());
    if (!cipher_.open(packet.number, envelope->key_phase, copy, envelope->body_offset, now,
                      3 * sent_.retransmission_timeout(stats_))) {
        return drop(Drop::bad_tag);
    }
    const std::span<const std::byte> clear = copy.first(copy.size() - cipher_.tag_bytes());
    const AckWindow::State state = received_.state(packet.number);
    if (state == AckWindow::State::stale) return drop(Drop::stale);
    if (state == AckWindow::State::duplicate) {
        count(Drop::duplicate);
        packet.kind = envelope->kind;
        const bool is_echo = packet.kind == PacketKind::echo && read_body(clear, *envelope, 0, packet);
        return is_echo || packet.kind != PacketKind::echo ? Arrival::copy : Arrival::dropped;
    }
    bool is_good = read_body(clear, *envelope, inbox_.expected_id(packet.number), packet);
    if (is_good && packet.kind == PacketKind::data) {
        is_good = sent_.plausible(packet.acks) && inbox_.plausible(packet) &&
                  (!packet.is_fragment || incoming_.plausible(packet, session_.receive_first));
    }
    if (is_good) return Arrival::fresh;
    close(DisconnectReason::protocol_error, "malformed packet", true, now);
    return drop(Drop::malformed);
}

void Connection::challenge(const Address& to, const Challenge& challenge, std::size_t room, Time now) {
    assert(room >= Path::kMinChallengeBytes);
    std::array<std::byte, 8 + sizeof(ResetToken)> body;
    ByteWriter out(body);
    out.u64(challenge.number);
    const bool has_token = challenge.reset_token && room >= Path::kMinChallengeBytes + sizeof(ResetToken);
    if (has_token) out.bytes(*challenge.reset_token);
    Draft draft;
    const std::span<const std::byte> datagram = write_bare(draft, PacketKind::challenge, out.written(), now);
    stats_.packets_sent += 1;
    stats_.bytes_sent += datagram.size();
    sink_.send(to, datagram);
}

void Connection::move(const Address& to, Time now) {
    // If the first challenge was lost this is long ago; later samples mend that.
    const std::optional<Time> challenged = path_.challenged(to);
    if (!path_.prove(to, now)) return;
    // After RFC 9000, section 9.4.
    sent_.restart(challenged ? std::max<Duration>(now - *challenged, Duration(1)) : stats_.rtt, stats_);
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
    if (packet.kind == PacketKind::challenge && echo_count_ < echoes_.size())
        echoes_[echo_count_++] = packet.challenge.number;
    sent_.acknowledge(packet.acks, now, stats_);
    report_fates(now);
    const bool has_room = inbox_.has_room(packet);
    for (std::size_t i = 0; i < packet.message_count && is_open_; ++i) {
        // Without room, only what need not be kept; the rest comes again.
        if (has_room || inbox_.is_next(packet.frames[i])) {
            deliver(packet, packet.frames[i]);
        } else {
            stats_.messages_refused += 1;
        }
    }
    if (!has_room || !is_open_ || !take_payload(packet, now) || !is_open_) return;
    received_.accept(packet.number);
    if (received_.newest_accepted() == packet.number) newest_accepted_at_ = now;
    if (packet.wants_ack()) {
        if (acks_wanted_ == 0) ack_wanted_since_ = now;
        acks_wanted_ += 1;
        acks_to_send_ = kAckCopies;
    }
    // A flush may be far away, and one ack names 65 packets: each should be in two, as acks get lost.
    if (acks_wanted_ >= kPacketsPerAck) send_acks(false, now);
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

void Connection::flush(Time now, bool with_contents) {
    if (!is_open_) return send_disconnect(now);
    for (; echo_count_ > 0; --echo_count_) {
        std::array<std::byte, 8> body;
        ByteWriter(body).u64(echoes_[echo_count_ - 1u]);
        Draft draft;
        put(write_bare(draft, PacketKind::echo, body, now), now);
    }
    if (with_contents) flush_contents(now);
    // An answer is overdue: ask once more, for the answer tells about all the packets before.
    const Duration timeout =
        rate_.is_broken() ? rate_.probe_interval() : sent_.retransmission_timeout(stats_);
    const bool is_overdue = (sent_.any_open() || rate_.is_broken()) && now - sent_.newest_sent() >= timeout;
    // Packets that carry only acks do not measure the path: a side that has nothing to say pings too.
    const bool is_quiet = now - std::max(sent_.newest_sent(), created_) >= config_.keep_alive;
    if ((is_overdue || is_quiet) && sent_.has_room()) ping(now);
    if (!received_.has_acks()) acks_wanted_ = 0;  // what they were for is too far behind
    const bool is_ack_late = acks_wanted_ > 0 && now - ack_wanted_since_ >= config_.max_ack_delay;
    const bool is_ack_urgent = acks_wanted_ >= 2 || (acks_wanted_ > 0 && is_order_broken_);
    if (is_ack_urgent || is_ack_late) send_acks(false, now);
    note_queued();
}

void Connection::flush_contents(Time now) {
    bool asks = true;
    for (std::uint32_t i = 0; i < config_.max_packets_per_flush && sent_.has_room(); ++i)
        if (!send_contents(asks, now)) return;
}

bool Connection::send_contents(bool& asks, Time now) {
    skip_number();
    const SendQueue::Waiting urgent = queue_.waiting(Weight::urgent), normal = queue_.waiting(Weight::normal);
    const std::size_t bytes = urgent.bytes + normal.bytes;
    const bool may_send = rate_.may_send();
    if (!may_send && !(bytes > 0 && bytes <= kUrgentBytes && rate_.may_send_urgent())) return false;
    SendQueue::Terms terms{now, stats_.loss, false, false};
    // Bulk leaves half of the fates to the others, and takes no byte that is only for what is urgent.
    terms.bulk = may_send && sent_.open_packets() < config_.max_open_packets / 2;
    const bool has_bulk = terms.bulk && queue_.has_bulk();
    const bool is_first = !sent_.any_open() || sent_.newest_sent() != now;
    const bool has_messages = bytes > 0 || has_bulk || (is_first && queue_.has_repeats(terms));
    const bool asks_now = outgoing_.is_leaving() ? outgoing_.can_continue(sent_.next_number()) : asks;
    const bool has_payload = may_send && asks_now;
    if (!has_messages && !has_payload) return false;

    Draft draft;
    begin_data(draft, now);
    const std::size_t room = draft.out.room() - cipher_.tag_bytes();
    const std::size_t share = scheduler_.begin(room, urgent, normal, has_payload);
    const bool is_alone = bytes == 0 && !has_bulk && !queue_.has_copies();
    if (share > 0) write_payload(draft, share, is_alone, asks, now);
    if (!has_messages && !draft.content.has_payload) return false;
    const std::size_t head_bytes = draft.fragment ? fragment_head_bytes(*draft.fragment) : 0;
    terms.beside_payload = draft.content.has_payload;
    SendQueue::Draft messages(room - head_bytes - draft.payload.size());
    if (!is_alone) scheduler_.fill(messages, queue_, terms);
    draft.has_messages = !messages.empty();
    if (!draft.has_messages && !draft.content.has_payload) return false;
    draft.content.carried = queue_.write(draft.out, messages, terms, stats_);
    if (draft.fragment) write_fragment_head(draft.out, *draft.fragment);
    if (draft.payload.data() == draft.out.rest().data()) {
        draft.out.claim(draft.payload.size());  // written in its place
    } else {
        draft.out.bytes(draft.payload);
    }
    finish_data(draft, false, now);
    return true;
}

void Connection::write_payload(Draft& draft, std::size_t share, bool is_alone, bool& asks, Time now) {
    const std::uint64_t number = sent_.next_number();
    if (!outgoing_.is_leaving()) {
        PayloadTurn turn;
        turn.packet_number = number;
        turn.room = is_alone ? draft.out.rest().first(kMaxPayloadBytes) : std::span<std::byte>(draft.apart);
        turn.share = share;
        turn.now = now;
        const std::size_t size = handler_.write_payload(session_.peer, turn);
        if (turn.large.empty()) {
            assert(size <= turn.room.size());
            asks = size > 0;
            draft.payload = turn.room.first(std::min(size, turn.room.size()));
            draft.content.has_payload = asks;
            return scheduler_.payload_took(size);
        }
        const bool is_large =
            turn.large.size() > kMaxPayloadBytes && turn.large.size() <= kMaxLargePayloadBytes;
        assert(is_large);
        if (!is_large) {
            asks = false;
            return scheduler_.payload_took(0);
        }
        outgoing_.start(turn.large, number);
    }
    const OutgoingPayload::Piece piece = outgoing_.take(number, share);
    draft.payload = piece.bytes;
    draft.fragment = piece.fragment;
    draft.content.has_payload = draft.content.is_fragment = true;
    draft.content.distance = piece.fragment.distance;
    scheduler_.payload_took(piece.bytes.size());
}

SendResult Connection::send_message(const Delivery& how, std::span<const std::byte> message) {
    if (!is_open_) return SendResult::not_connected;
    const std::size_t most = how.channel == Channel::reliable ? kMaxReliableBytes : kMaxMessageBytes;
    if (message.size() > most || !queue_.could_hold(message.size())) return SendResult::too_large;
    const bool is_queued = queue_.push(how, message);
    note_queued();
    return is_queued ? SendResult::queued : SendResult::queue_full;
}

void Connection::close(DisconnectReason reason, std::string_view text, bool tell_peer, Time now) {
    if (!is_open_) return;
    is_open_ = false;
    reason_ = reason;
    text_ = text.substr(0, kMaxReasonBytes);
    if (tell_peer) {
        disconnects_left_ = kDisconnects;
        for (int i = 0; i < 2; ++i) {
            next_disconnect_ = now;
            send_disconnect(now);
        }
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

void Connection::send_acks(bool is_ping, Time now) {
    skip_number();
    Draft draft;
    begin_data(draft, now);
    finish_data(draft, is_ping, now);
}

void Connection::begin(Draft& draft, PacketKind kind, Time now) {
    const std::uint64_t number = sent_.next_number();
    const bool key_phase = cipher_.prepare(number, sent_.newest_acked(), config_.key_life, now);
    write_envelope(draft.out, kind, key_phase, session_.send_id, number,
                   number_bytes(number, sent_.newest_acked()));
    draft.header_bytes = draft.out.size();
}

void Connection::begin_data(Draft& draft, Time now) {
    begin(draft, PacketKind::data, now);
    draft.flags_at = draft.out.size();
    draft.out.u8(0);
    draft.acks = acks(now);
    write_acks(draft.out, draft.acks);
}

std::span<const std::byte> Connection::finish(Draft& draft) {
    const std::span<std::byte> packet = draft.out.append(cipher_.tag_bytes());
    cipher_.seal(sent_.next_number(), packet, draft.header_bytes);
    return packet;
}

void Connection::finish_data(Draft& draft, bool is_ping, Time now) {
    draft.out.patch_u8(draft.flags_at, data_flags(draft.acks, is_ping || draft.fragment, draft.has_messages,
                                                  draft.content.has_payload));
    const std::span<const std::byte> datagram = finish(draft);
    if (is_ping || draft.has_messages || draft.content.has_payload) {
        sent_.sent_tracked(draft.content, datagram.size(), now, stats_);
        rate_.on_sent(datagram.size(), now, stats_);
    } else {
        sent_.sent_untracked();
        rate_.on_sent_untracked(datagram.size());
    }
    if (draft.acks.present) {
        acks_wanted_ = 0;
        is_order_broken_ = false;
        acks_to_send_ -= 1;
    }
    put(datagram, now);
}

void Connection::put(std::span<const std::byte> datagram, Time now) {
    stats_.packets_sent += 1;
    stats_.bytes_sent += datagram.size();
    queue_.paid(datagram.size() + kIpUdpBytes);
    sink_.send(path_.address(), datagram);
    if (const Address* const second = path_.second(now)) {
        stats_.bytes_sent += datagram.size();
        rate_.on_sent_untracked(datagram.size());
        sink_.send(*second, datagram);
    }
}

/// Leaves the next packet number out if its turn has come, and chooses another one.
void Connection::skip_number() {
    if (session_.salt == 0) return;
    const std::uint64_t next = sent_.next_number();
    if (next < next_skip_ || !sent_.has_room(1)) return;  // the next packet may have to be tracked
    const bool is_first = next_skip_ == 0;
    if (!is_first) sent_.skip();
    const std::uint64_t random = siphash({session_.salt, 0}, {next}) % kSkipRange;
    next_skip_ = next + 1 + (is_first ? random / 4 : kMinSkip + random);
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

void Connection::report_fates(Time now) {
    SentPackets::News news;
    while (sent_.next_news(news)) {
        rate_.on_news(news, now, stats_);
        if (news.is_late) continue;
        queue_.settle(news.content.carried, news.fate.delivered);
        if (news.content.is_fragment) {
            report(outgoing_.settle(news.fate.number - news.content.distance, news.fate.delivered,
                                    news.fate.rtt));
        } else if (news.content.has_payload) {
            report(news.fate);
        }
    }
}

void Connection::report(const std::optional<PacketFate>& fate) {
    if (fate) handler_.on_fate(session_.peer, *fate);
}

bool Connection::take_payload(const Packet& packet, Time now) {
    if (packet.is_fragment) return take_fragment(packet, now);
    return !packet.has_payload || take_payload(packet.number, packet.payload, now);
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

void Connection::send_disconnect(Time now) {
    if (disconnects_left_ == 0 || now < next_disconnect_) return;
    disconnects_left_ -= 1;
    next_disconnect_ = now + kDisconnectInterval;
    std::array<std::byte, 1 + kMaxReasonBytes> body;
    ByteWriter out(body);
    out.u8(static_cast<std::uint8_t>(reason_));
    out.bytes(std::as_bytes(std::span(text_)));
    Draft draft;
    put(write_bare(draft, PacketKind::disconnect, out.written(), now), now);
    if (disconnects_left_ == 0) cipher_.forget_send_key();
}

std::span<const std::byte> Connection::write_bare(Draft& draft, PacketKind kind,
                                                  std::span<const std::byte> body, Time now) {
    skip_number();
    begin(draft, kind, now);
    draft.out.bytes(body);
    const std::span<const std::byte> datagram = finish(draft);
    sent_.sent_untracked();
    rate_.on_sent_untracked(datagram.size());
    return datagram;
}

void Connection::note_queued() {
    stats_.messages_queued = queue_.queued_count();
    stats_.message_bytes_queued = queue_.queued_bytes();
    stats_.messages_in_flight = queue_.in_flight_count();
}

}  // namespace shoal::net
