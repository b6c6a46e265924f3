#include "connection.h"

namespace shoal::net::impl {
namespace {

// Two disconnect packets at once, as the application may stop calling flush(), then two more.
constexpr std::uint8_t kDisconnects = 4;
constexpr Duration kDisconnectInterval = std::chrono::milliseconds(100);

/// While the rate allows no packet, urgent and normal messages may be sent from the reserve of the Budget, if
/// at most this many bytes of them are queued.
constexpr std::size_t kUrgentBytes = 200;

constexpr std::uint32_t kAckCopies = 3;       // packets in a row with the same acks, in case some get lost
constexpr std::uint32_t kPacketsPerAck = 32;  // that want an ack: then it does not wait for a flush
constexpr std::size_t kIpUdpBytes = 28;
/// Distance between skipped packet numbers: kMinSkip plus a random number below kSkipRange.
constexpr std::uint64_t kMinSkip = 256, kSkipRange = 1024;

/// Returns the reason from a disconnect packet, or closed_by_peer if the other side may not give that reason.
DisconnectReason heard_reason(DisconnectReason said, bool is_from_server) {
    using enum DisconnectReason;
    const auto is_one_of = [said](auto... reasons) { return ((said == reasons) || ...); };
    const bool is_of_server = is_one_of(shut_down, kicked, replaced, refused_full, refused);
    const bool is_of_any = is_one_of(protocol_error, exhausted, timed_out);
    return is_of_any || (is_from_server && is_of_server) ? said : closed_by_peer;
}

std::string disconnect_body(DisconnectReason reason, std::string_view text) {
    return static_cast<char>(reason) + std::string(text.substr(0, kMaxReasonBytes));
}

}  // namespace

struct Connection::Draft {
    std::array<std::byte, kMaxDatagramBytes> buffer;  // not initialised, like payload_room
    ByteWriter out{buffer};
    std::uint64_t number = 0;
    std::size_t header_bytes = 0;  // size of the envelope; in data packets the flags follow it
    unsigned flags = 0;
    SentPackets::Content content;
    std::optional<Fragment> fragment;
    std::span<const std::byte> payload;
    std::array<std::byte, kMaxPayloadBytes> payload_room;  // for the handler; later copied to `out`
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
    scheduler_.set_shares(options.shares);
}

Connection::Arrival Connection::open(std::span<const std::byte> datagram, Packet& packet, Time now) {
    const auto drop = [&](Drop reason) {
        stats_.drops[reason] += 1;
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
    const AckWindow::State state = received_.state(packet.number, now);
    if (state == AckWindow::State::stale) return drop(Drop::stale);
    if (state == AckWindow::State::early) {
        received_.drop_early(packet.number);
        return drop(Drop::early);
    }
    if (state == AckWindow::State::duplicate) {
        stats_.drops[Drop::duplicate] += 1;
        packet.kind = envelope->kind;
        const bool is_read = packet.kind != PacketKind::echo || read_body(clear, *envelope, 0, packet);
        return is_read ? Arrival::copy : Arrival::dropped;
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

// Source: RFC 9000, section 9.4: rate and round-trip time are measured anew on another path.
void Connection::restart(Time now) {
    sent_.restart(stats_);
    rate_.restart(now);
}

void Connection::apply(const Packet& packet, Time now) {
    assert(is_open_);
    is_order_broken_ |= packet.number != received_.newest_arrived() + 1;
    received_.arrive(packet.number, now);
    stats_.packets_received += 1;
    stats_.bytes_received += packet.datagram.size() + cipher_.tag_bytes();
    stats_.silence = Duration(0);
    last_received_ = now;
    queue_.set_time(now);
    if (packet.kind == PacketKind::disconnect)
        return close(heard_reason(packet.reason, !session_.receive_id), packet.text, false, now);
    if (packet.kind == PacketKind::challenge) send_number(PacketKind::echo, packet.challenge, now);
    sent_.acknowledge(packet.acks, now, stats_);
    report_fates(now);
    const bool has_room = inbox_.has_room(packet);
    for (std::size_t i = 0; i < packet.message_count && is_open_; ++i) {
        // The sender repeats the messages that are refused.
        const bool is_refused = !has_room && !inbox_.is_next(packet.frames[i]);
        stats_.messages_refused += is_refused;
        if (!is_refused) deliver(packet, packet.frames[i]);
    }
    stats_.payloads_withheld += !has_room && packet.has_payload;
    if (!has_room || !is_open_ || !take_payload(packet, now) || !is_open_) return;
    received_.accept(packet.number, now);
    if (packet.wants_ack()) {
        if (acks_wanted_ == 0) ack_wanted_since_ = now;
        acks_wanted_ += 1;
        acks_to_send_ = kAckCopies;
    }
    // The next flush may be far away, so acks do not wait for it. One ack names 65 packets: with an ack after
    // each 32 packets, each packet is named by two acks, one of which may get lost.
    if (acks_wanted_ >= kPacketsPerAck) send_small(PacketKind::data, {}, now);
}

void Connection::announce() {
    assert(is_open_ && !is_announced_);
    is_announced_ = true;
    handler_.on_connected(session_.peer);
}

void Connection::update(Time now) {
    if (!is_open_) return;
    queue_.set_time(now);
    sent_.update(now, stats_);
    report_fates(now);
    report(outgoing_.update(sent_.next_number()));
    rate_.update(now, sent_.answer_timeout(stats_), stats_);
    cipher_.update(now);
    stats_.silence = now - last_received_;
    if (stats_.silence >= config_.timeout) close(DisconnectReason::timed_out, why_silent(now), true, now);
    if (leaves_at_ && (queue_.is_empty() || now >= *leaves_at_))
        close(DisconnectReason(disconnect_[0]), std::string(disconnect_, 1), true, now);
    const std::uint64_t sent = sent_.next_number() - session_.send_first;
    if (sent >= config_.max_packets) close(DisconnectReason::exhausted, {}, true, now);
}

bool Connection::flush(Time now, std::uint32_t most, std::uint32_t already) {
    if (!is_open_) {
        if (disconnects_left_ > 0 && now >= next_disconnect_) send_disconnect(now);
        return false;
    }
    queue_.drop_old(config_.max_message_age, now);
    rate_.on_denied(most == 0 ? RateLimit::host : RateLimit::application);
    bool asks = true;
    std::uint32_t left = config_.max_packets_per_flush - std::min(config_.max_packets_per_flush, already);
    const bool has_more = most > 0 && most < left;
    left = std::min(left, most);
    while (left > 0 && sent_.has_room() && send_contents(asks, now)) left -= 1;
    if (left > 0 && !sent_.has_room()) rate_.on_denied(RateLimit::packets);
    // If acks are overdue, a ping asks for one, which also names earlier packets that arrived.
    const Duration timeout =
        rate_.is_broken() ? rate_.probe_interval() : sent_.retransmission_timeout(stats_);
    const bool is_waiting = sent_.open_packets() > 0 || rate_.is_broken();
    const bool is_overdue = is_waiting && now - sent_.newest_sent() >= timeout;
    // A packet with only acks is not acknowledged and measures nothing.
    const bool is_quiet = now - std::max(sent_.newest_sent(), created_) >= config_.keep_alive;
    // Perhaps the server was restarted, or this client has a new address.
    const bool must_probe = session_.send_id && is_ack_overdue(now) && now - probed_ >= timeout;
    if (is_overdue || is_quiet || must_probe) ping(now);
    if (!received_.has_acks()) acks_wanted_ = 0;  // all accepted packets are too old for an ack
    const bool is_ack_late = acks_wanted_ > 0 && now - ack_wanted_since_ >= config_.max_ack_delay;
    const bool is_ack_urgent = acks_wanted_ >= 2 || (acks_wanted_ > 0 && is_order_broken_);
    if (is_ack_urgent || is_ack_late) send_small(PacketKind::data, {}, now);
    queue_.count(stats_);
    return has_more && left == 0;
}

bool Connection::send_contents(bool& asks, Time now) {
    const SendQueue::Waiting urgent = queue_.waiting(Weight::urgent), normal = queue_.waiting(Weight::normal);
    const std::size_t bytes = urgent.bytes + normal.bytes;
    const bool may_send = rate_.may_send();
    if (!may_send && !(bytes > 0 && bytes <= kUrgentBytes && rate_.may_send_urgent())) return false;
    SendQueue::Terms terms{now, stats_.loss, false, false};
    // Bulk messages never use the reserve, and wait while half of max_open_packets are in flight.
    terms.bulk = may_send && sent_.open_packets() < config_.max_open_packets / 2;
    const bool is_first = sent_.open_packets() == 0 || sent_.newest_sent() != now;
    const bool has_messages =
        bytes > 0 || (terms.bulk && queue_.waiting(Weight::bulk)) || (is_first && queue_.has_repeats(terms));
    const bool has_payload = may_send && (asks || outgoing_.can_continue(sent_.next_number()));
    if (!has_messages && !has_payload) return false;

    Draft draft;
    // Without messages, asks the handler first: usually it has no payload, and then no packet is written.
    if (!has_messages) {
        write_payload(draft, scheduler_.begin(kMaxPayloadBytes, urgent, normal, true), asks, now);
        if (!draft.content.has_payload) return false;
    }
    begin(draft, PacketKind::data, now);
    const std::size_t room = draft.out.room() - cipher_.tag_bytes();
    const std::size_t share = has_messages ? scheduler_.begin(room, urgent, normal, has_payload) : 0;
    if (share > 0) write_payload(draft, share, asks, now);
    terms.beside_payload = draft.content.has_payload;
    SendQueue::Draft messages(room - draft.payload.size() - (draft.fragment ? kMaxFragmentHeadBytes : 0));
    scheduler_.fill(messages, queue_, terms);
    if (messages.empty() && !terms.beside_payload) return false;
    if (!messages.empty()) draft.flags |= kHasMessages;
    if (terms.beside_payload) draft.flags |= draft.fragment ? kHasFragment : kHasPayload;
    draft.content.carried = queue_.write(draft.out, messages, terms, stats_);
    if (draft.fragment) write_fragment_head(draft.out, *draft.fragment);
    draft.out.bytes(draft.payload);
    finish(draft, now);
    return true;
}

void Connection::write_payload(Draft& draft, std::size_t share, bool& asks, Time now) {
    const bool has_fragment = outgoing_.can_continue(sent_.next_number());
    const bool asks_now = asks && (!has_fragment || is_turn_of_handler_);
    is_turn_of_handler_ = false;  // if the handler writes nothing, a fragment is sent now
    if (asks_now) ask_for_payload(draft, share, asks, now);
    if (!draft.content.has_payload && outgoing_.can_continue(sent_.next_number())) {
        const OutgoingPayload::Piece piece = outgoing_.take(sent_.next_number());
        draft.payload = piece.bytes;
        draft.fragment = piece.fragment;
        draft.content.has_payload = draft.content.is_fragment = 1;
        draft.content.distance = piece.fragment.distance;
        draft.content.index = piece.fragment.index;
        is_turn_of_handler_ = true;
    }
    scheduler_.payload_took(draft.payload.size());
}

/// The handler writes a payload, begins a large one, or has none: then it is not asked again in this flush.
void Connection::ask_for_payload(Draft& draft, std::size_t share, bool& asks, Time now) {
    PayloadTurn turn{sent_.next_number(), draft.payload_room, share, now, !outgoing_.is_open()};
    const std::size_t size = handler_.write_payload(session_.peer, turn);
    if (turn.large.empty()) {
        assert(size <= turn.room.size());
        draft.payload = turn.room.first(std::min(size, turn.room.size()));
        draft.content.has_payload = asks = !draft.payload.empty();
        return;
    }
    const bool is_legal = turn.may_be_large && !outgoing_.is_open() && turn.large.size() > kMaxPayloadBytes &&
                          turn.large.size() <= kMaxLargePayloadBytes;
    assert(is_legal);
    if (is_legal) {
        outgoing_.start(turn.large, sent_.next_number());
    } else {
        asks = false;
    }
}

SendResult Connection::send_message(const Delivery& how, std::span<const std::byte> message) {
    if (!is_open_ || leaves_at_) return SendResult::not_connected;
    const std::size_t most = how.channel == Channel::reliable ? kMaxReliableBytes : kMaxMessageBytes;
    if (message.size() > most || !queue_.could_hold(message.size())) return SendResult::too_large;
    const bool is_queued = queue_.push(how, message);
    const std::uint64_t dropped_before = stats_.messages_dropped;
    queue_.count(stats_);
    if (!is_queued) return SendResult::queue_full;
    return stats_.messages_dropped > dropped_before ? SendResult::replaced_oldest : SendResult::queued;
}

void Connection::leave(DisconnectReason reason, std::string_view text, Time now, Duration deliver_for) {
    if (deliver_for <= Duration(0) || !is_open_) return close(reason, text, true, now);
    leaves_at_ = std::min(leaves_at_.value_or(now + deliver_for), now + deliver_for);
    disconnect_ = disconnect_body(reason, text);
}

void Connection::close(DisconnectReason reason, std::string_view text, bool tell_peer, Time now) {
    if (!is_open_) return;
    is_open_ = false;
    std::string whole(text);
    const NetError error = sink_.error_to(path_.address());
    if (reason == DisconnectReason::timed_out && error != NetError::none) {
        whole += session_.receive_id ? "; datagrams of the server: " : "; datagrams of the client: ";
        whole += describe(error);
    }
    disconnect_ = disconnect_body(reason, whole);
    // A client that connects again says nothing: the server replaces the former connection itself.
    if (reason == DisconnectReason::replaced && !session_.receive_id) tell_peer = false;
    disconnects_left_ = tell_peer ? kDisconnects : 0;
    if (!tell_peer) cipher_.forget_send_key();
    for (int i = 0; i < 2 && tell_peer; ++i) send_disconnect(now);
    cipher_.forget_receive_keys();
    sent_.lose_all(stats_);
    report_fates(now);
    report(outgoing_.lose());
    if (is_announced_)
        handler_.on_disconnected(session_.peer, reason, std::string_view(disconnect_).substr(1));
}

void Connection::ping(Time now) {
    const bool is_probe = session_.send_id && is_ack_overdue(now);
    if (is_probe) probed_ = now;
    const unsigned flags = sent_.has_room() ? kIsPing : 0;
    if (is_probe || flags) send_small(is_probe ? PacketKind::probe : PacketKind::data, {}, now, flags);
}

void Connection::send_number(PacketKind kind, std::uint64_t number, Time now, const Address* elsewhere) {
    std::array<std::byte, 8> body;
    ByteWriter(body).u64(number);
    send_small(kind, body, now, 0, elsewhere);
}

void Connection::send_small(PacketKind kind, std::span<const std::byte> body, Time now, unsigned flags,
                            const Address* elsewhere) {
    Draft draft;
    begin(draft, kind, now);
    draft.flags |= flags;
    draft.out.bytes(body);
    finish(draft, now, elsewhere);
}

void Connection::send_disconnect(Time now) {
    disconnects_left_ -= 1;
    next_disconnect_ = now + kDisconnectInterval;
    send_small(PacketKind::disconnect, std::as_bytes(std::span(disconnect_)), now);
    if (disconnects_left_ == 0) cipher_.forget_send_key();
}

void Connection::begin(Draft& draft, PacketKind kind, Time now) {
    const std::uint64_t number = draft.number = sent_.next_number(), acked = sent_.newest_acked();
    const bool key_phase = cipher_.prepare(number, acked, config_.key_life, now);
    write_envelope(draft.out, kind, key_phase, session_.send_id, number, number_bytes(number, acked));
    if (kind == PacketKind::probe) draft.out.u64(session_.reset_salt);
    draft.header_bytes = draft.out.size();
    if (kind != PacketKind::data && kind != PacketKind::probe) return;
    draft.out.u8(0);  // flags
    if (acks_to_send_ > 0) draft.flags = write_acks(draft.out, received_.acks(now));
}

void Connection::finish(Draft& draft, Time now, const Address* elsewhere) {
    assert(draft.number == sent_.next_number() && "write_payload() called a function that sends");
    if (draft.flags != 0) draft.out.patch_u8(draft.header_bytes, draft.flags);
    const std::span<std::byte> datagram = draft.out.append(cipher_.tag_bytes());
    cipher_.seal(sent_.next_number(), datagram, draft.header_bytes);
    if (draft.flags & (kIsPing | kHasMessages | kHasPayload)) {
        sent_.sent_tracked(draft.content, datagram.size(), now, stats_);
        rate_.on_sent(datagram.size(), now, stats_);
    } else {
        sent_.sent_untracked();
        rate_.on_sent_untracked(datagram.size());
    }
    if (draft.flags & kHasAcks) {
        acks_wanted_ = 0;
        is_order_broken_ = false;
        acks_to_send_ -= 1;
    }
    skip_number();
    queue_.paid(datagram.size() + kIpUdpBytes);
    stats_.packets_sent += 1;
    if (elsewhere) {
        stats_.bytes_sent += datagram.size();
        return sink_.send(*elsewhere, datagram);
    }
    const std::size_t copies = path_.each_in_use(now, [&](const Address& to) { sink_.send(to, datagram); });
    stats_.bytes_sent += copies * datagram.size();
    if (copies > 1) rate_.on_copy(datagram.size(), stats_);
}

void Connection::skip_number() {
    const std::uint64_t next = sent_.next_number();
    if (session_.salt == 0 || next < next_skip_) return;
    const bool is_first = next_skip_ == 0;
    if (!is_first) sent_.skip();
    const std::uint64_t random = siphash({session_.salt, 0}, {next}) % kSkipRange;
    next_skip_ = next + 1 + (is_first ? random / 4 : kMinSkip + random);
}

void Connection::report_fates(Time now) {
    SentPackets::News news;
    while (sent_.next_news(news)) {
        rate_.on_news(news, now, stats_);
        if (news.is_late) continue;
        queue_.on_fate(news.content.carried, news.fate.delivered);
        if (news.content.is_fragment) {
            report(outgoing_.on_fate(news.fate.number - news.content.distance, news.content.index,
                                     news.fate.delivered, news.fate.rtt));
        } else if (news.content.has_payload) {
            report(news.fate);
        }
    }
}

void Connection::report(const std::optional<PacketFate>& fate) {
    if (fate) handler_.on_fate(session_.peer, *fate);
}

bool Connection::take_payload(const Packet& packet, Time now) {
    if (!packet.has_payload) return true;
    std::uint64_t number = packet.number;
    std::span<const std::byte> payload = packet.payload;
    if (packet.is_fragment) {
        const IncomingPayload::Arrival arrival = incoming_.arrive(packet, stats_);
        if (arrival != IncomingPayload::Arrival::complete) return arrival == IncomingPayload::Arrival::kept;
        number = incoming_.number();
        payload = incoming_.whole();
    }
    const bool is_accepted = handler_.on_payload(session_.peer, number, payload, now);
    stats_.payloads_withheld += !is_accepted;
    if (packet.is_fragment) incoming_.finish(is_accepted);
    return is_accepted;
}

void Connection::deliver(const Packet& packet, const Frame& frame) {
    const auto hand_over = [&](std::span<const std::byte> message) {
        stats_.messages_received += 1;
        handler_.on_message(session_.peer, frame.channel, message);
    };
    const Inbox::Arrival arrival = inbox_.arrive(packet, frame);
    stats_.messages_duplicated += arrival == Inbox::Arrival::known && !frame.is_parity;
    stats_.messages_outdated += arrival == Inbox::Arrival::outdated;
    if (arrival == Inbox::Arrival::now) hand_over(packet.bytes(frame));
    if (arrival == Inbox::Arrival::whole) hand_over(inbox_.whole());
    if (arrival == Inbox::Arrival::known || frame.channel != Channel::reliable) return;
    std::array<std::byte, kMaxMessageBytes> buffer;
    std::optional<std::span<const std::byte>> next;
    while (is_open_ && (next = inbox_.take_ready(buffer))) hand_over(*next);
}

std::string Connection::why_silent(Time now) const {
    const auto tenths = (now - last_received_) / std::chrono::milliseconds(100);
    std::string text = session_.receive_id ? "the server heard nothing from the client for "
                                           : "the client heard nothing from the server for ";
    return text + std::to_string(tenths / 10) + '.' + std::to_string(tenths % 10) + " s";
}

}  // namespace shoal::net::impl
