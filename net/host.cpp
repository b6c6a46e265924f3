#include "host.h"

namespace shoal::net::impl {
namespace {

// The number of a challenge is valid for one to two of these: longer than the longest round trip.
constexpr Duration kChallengeSlice = std::chrono::seconds(2);
// A peer with two addresses may have left both if no ack came for this time, or longer if acks take longer.
// One lost packet is no reason: of two addresses one may be an attacker's, and so may the third.
constexpr Duration kUnheard = std::chrono::milliseconds(500);

}  // namespace

Host::Host(const HostConfig& config, Handler& handler, Sink& sink)
    : config_(config),
      handler_(handler),
      sink_(sink),
      has_seed_(!config.seed.is_missing()),
      entropy_(config.seed.take()),
      gate_(config_, has_seed_ && (config.security == Security::insecure || !is_missing(config.key)), handler,
            sink, entropy_, stats_),
      challenges_{entropy_.next_sip_key(), kChallengeSlice} {
    assert(has_seed_ && "HostConfig::seed is missing, or another Host took it: see fill_random");
    assert((config.security == Security::insecure || !is_missing(config.key)) &&
           "HostConfig::key is missing: see server_key.h");
}

Host::~Host() = default;

void Host::receive(const Address& from, std::span<const std::byte> datagram, Time now) {
    const std::optional<PacketKind> kind = kind_of(datagram);
    if (!kind) return;
    switch (*kind) {
        case PacketKind::request:
        case PacketKind::connect:
            return gate_.receive(*kind, from, datagram, now);
        case PacketKind::data:
        case PacketKind::disconnect:
        case PacketKind::echo:
        case PacketKind::probe:
            return receive_packet(from, datagram, now);
        default:
            return count(Drop::wrong_direction);
    }
}

void Host::update(Time now) {
    assert(now >= Time(0));
    gate_.update(now);
    // After a pause of this program, the packets that peers sent meanwhile may be lost or still arrive.
    const Duration keep_alive = config_.connection.keep_alive;
    if (now - updated_ >= keep_alive) awake_since_ = now;
    updated_ = now;
    for (std::unique_ptr<Peer>& peer : peers_) {
        if (!peer) continue;
        peer->connection.update(now);
        note_end(*peer);
        const Duration silence = std::min(peer->connection.stats().silence, now - awake_since_);
        if (silence >= 2 * keep_alive) gate_.note_silent(peer->id());
        if (!peer->connection.is_finished()) continue;
        gate_.release(peer->id());
        peer.reset();
    }
}

void Host::flush(Time now) {
    if (peers_.empty()) return;
    constexpr double kSavedAllowance_s = 0.05;
    const double limit = static_cast<double>(config_.max_bytes_per_second);
    const double earned = limit * std::chrono::duration<double>(now - flushed_).count();
    allowance_ = std::min(allowance_ + earned, std::max(limit * kSavedAllowance_s, 2.0 * kMaxDatagramBytes));
    flushed_ = now;
    // Each flush begins with another peer, because the first one gets more.
    const std::size_t first = next_first_ % peers_.size();
    next_first_ = first + 1;
    bool is_first_denied = true, is_any_waiting = true;
    for (bool is_first_round = true; is_any_waiting; is_first_round = false) {
        is_any_waiting = false;
        for (std::size_t i = 0; i < peers_.size(); ++i) {
            const std::size_t index = (first + i) % peers_.size();
            if (!peers_[index] || (!is_first_round && !peers_[index]->is_waiting)) continue;
            const bool is_allowed = limit == 0 || allowance_ > 0;
            if (!is_allowed && is_first_denied) next_first_ = index;
            is_first_denied &= is_allowed;
            take_turn(*peers_[index], is_allowed, is_first_round, now);
            is_any_waiting |= peers_[index]->is_waiting;
        }
    }
}

/// One turn of a peer in a flush(). With a limit for all peers, peers that wait send one packet in a turn,
/// and all get the same number of bytes. Source: see scheduler.h.
void Host::take_turn(Peer& peer, bool is_allowed, bool is_first, Time now) {
    constexpr double kTurnBytes = 100;
    const bool is_limited = config_.max_bytes_per_second != 0;
    if (is_allowed) peer.credit = std::min(peer.credit + kTurnBytes, kTurnBytes);
    const bool may_send = is_allowed && (!is_limited || peer.credit > 0);
    if (is_allowed && !may_send && !is_first) return;  // still waiting
    if (is_first) peer.turns = 0;
    const std::uint64_t before = peer.connection.stats().bytes_sent;
    const std::uint32_t most = !may_send ? 0 : is_limited ? 1 : 0xFFFF'FFFF;
    const bool has_more = peer.connection.flush(now, most, peer.turns);
    const auto sent = static_cast<double>(peer.connection.stats().bytes_sent - before);
    peer.turns += may_send;
    peer.credit -= sent;
    allowance_ -= sent;
    peer.is_waiting = is_allowed && (has_more || !may_send);
}

void Host::disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now,
                      Duration deliver_for) {
    Endpoint::disconnect(peer, reason, text, now, deliver_for);
    if (connection_of(peer)) note_end(*at(peer.index()));
}

const Address& Host::address(PeerId peer) const {
    static const Address kNowhere;
    const Connection* const connection = connection_of(peer);
    return connection ? connection->path().address() : kNowhere;
}

void Host::shut_down(std::string_view text, Time now, Duration deliver_for) {
    is_shut_down_ = true;
    shut_down_text_ = text;
    gate_.shut_down();
    for (const auto& peer : peers_)
        if (peer) disconnect(peer->id(), DisconnectReason::shut_down, text, now, deliver_for);
}

std::uint32_t Host::peer_count() const {
    return static_cast<std::uint32_t>(std::count_if(peers_.begin(), peers_.end(), [](const auto& peer) {
        return peer && peer->connection.is_open() && peer->connection.is_announced();
    }));
}

bool Host::is_idle() const {
    return (is_shut_down_ || !gate_.has_pending()) &&
           std::none_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer != nullptr; });
}

Connection* Host::connection_of(PeerId peer) const {
    Peer* const found = at(peer.index());
    return found && found->id() == peer ? &found->connection : nullptr;
}

void Host::receive_packet(const Address& from, std::span<const std::byte> datagram, Time now) {
    Peer* const peer = peer_for(from, datagram, now);
    if (!peer) return;
    Packet packet;
    const Connection::Arrival arrival = peer->connection.open(datagram, packet, now);
    const bool is_fresh = arrival == Connection::Arrival::fresh;
    if (arrival != Connection::Arrival::dropped)
        locate(*peer, from, datagram.size(), packet, is_fresh && peer->connection.is_newest(packet), now);
    if (is_fresh) peer->connection.apply(packet, now);
    note_end(*peer);
}

/// Follows a peer to another address. Called for each authentic packet and each copy of one.
void Host::locate(Peer& peer, const Address& from, std::size_t bytes, const Packet& packet, bool is_newest,
                  Time now) {
    Path& path = peer.connection.path();
    path.heard(from, is_newest, now);
    if (!path.is_alone(from)) {
        const bool is_overdue = peer.connection.is_ack_overdue(now, kUnheard);
        const std::uint32_t id = peer.connection_id;
        if (packet.kind == PacketKind::echo) {
            if (challenges_.is_valid(from, id, packet.challenge, now) && path.prove(from, is_overdue, now))
                peer.connection.ping(now);
        } else if (path.wants_challenge(from, bytes, is_overdue, entropy_.next(), now)) {
            peer.connection.challenge(from, challenges_.make(from, id, now), now);
        }
    }
    if (!path.has_left(peer.home, now)) return;
    stats_.moves += 1;
    // If only the port changed, the path is most likely the same, and its estimates stay.
    if (path.address().ip != peer.home.ip) peer.connection.restart(now);
    peer.home = path.address();
    gate_.set_home(peer.id(), peer.home);
}

/// Returns the peer that sent this packet. The first packet of a pending client makes it a peer. Returns null
/// if there is no peer, or if the packet needs no further work.
Host::Peer* Host::peer_for(const Address& from, std::span<const std::byte> datagram, Time now) {
    // If the id is cut off, this is 0, and read_envelope() fails here or in Connection::open().
    const std::uint32_t id = ByteReader(datagram.subspan(1)).u32();
    Peer* const peer = at(gate_.index_of(id));
    if (peer && peer->connection_id == id) return peer;
    const std::optional<Envelope> envelope = read_envelope(datagram, true);
    const Gate::Pending* const pending = envelope ? gate_.find(id) : nullptr;
    if (pending) return confirm(*pending, *envelope, datagram, now);
    count(envelope ? Drop::unknown_connection : Drop::truncated);
    if (envelope && envelope->kind == PacketKind::probe) gate_.send_reset(from, id, envelope->reset_salt);
    return nullptr;
}

/// Makes a pending client a peer if its first packet has a valid tag, which the sender of a replayed connect
/// cannot make. Only a silent peer is replaced: an attacker may share or read its address.
Host::Peer* Host::confirm(const Gate::Pending& pending, const Envelope& envelope,
                          std::span<const std::byte> datagram, Time now) {
    const Session session = pending.session;
    const PacketCipher cipher = pending.cipher;
    PacketCipher trial = cipher;
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const std::span<std::byte> copy = std::span(buffer).first(datagram.size());
    std::ranges::copy(datagram, copy.begin());
    const std::uint64_t number =
        expand_number(envelope.truncated_number, envelope.number_bytes, session.receive_first);
    if (!trial.open(number, envelope.key_phase, copy, envelope.body_offset, now, Duration(0))) {
        count(Drop::bad_tag);
        return nullptr;
    }
    if (envelope.kind == PacketKind::disconnect) {
        gate_.release(session.peer);
        return nullptr;
    }
    if (const PeerId former = gate_.former_of(session.peer); former && !is_shut_down_) {
        // At the same address, a disconnect packet would reach the new client.
        Peer& silent = *at(former.index());
        close(silent, DisconnectReason::replaced, {}, silent.home != session.address, now);
    }
    const std::optional<std::string_view> why_full = gate_.confirm(session.peer);
    const std::uint32_t index = session.peer.index();
    if (index >= peers_.size()) peers_.resize(index + std::size_t{1});
    peers_[index].reset(new Peer{envelope.connection_id, session.address,
                                 Connection(config_.connection, session, cipher, handler_, sink_, now)});
    Peer& peer = *peers_[index];
    if (is_shut_down_) close(peer, DisconnectReason::shut_down, shut_down_text_, true, now);
    if (why_full) close(peer, DisconnectReason::refused_full, *why_full, true, now);
    if (!peer.connection.is_open()) return nullptr;
    peer.connection.announce();
    return &peer;
}

void Host::close(Peer& peer, DisconnectReason reason, std::string_view text, bool tell_peer, Time now) {
    peer.connection.close(reason, text, tell_peer, now);
    note_end(peer);
}

/// If the peer's connection is closed, the peer no longer counts against the limits.
void Host::note_end(Peer& peer) {
    if (!peer.connection.is_open()) gate_.leave(peer.id());
}

}  // namespace shoal::net::impl
