#include "host.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace shoal::net {
namespace {

constexpr double kSavedAllowance_s = 0.05;

}  // namespace

struct Host::Peer {
    std::uint32_t connection_id;
    Time heard;    // its last authentic packet
    Address home;  // the last one that was proven
    Connection connection;

    PeerId id() const { return connection.session().peer; }
};

Host::Host(const HostConfig& config, Handler& handler, Sink& sink)
    : config_(config),
      handler_(handler),
      sink_(sink),
      has_seed_(!config.seed.is_missing()),
      entropy_(config.seed.take()),
      gate_(config_, has_seed_ && (config.security == Security::insecure || !is_missing(config.key)), handler,
            sink, entropy_, stats_) {
    assert(has_seed_ && "HostConfig::seed is missing, or another Host took it: see fill_random");
    assert((config.security == Security::insecure || !is_missing(config.key)) &&
           "HostConfig::key is missing: see server_key.h");
}

Host::~Host() = default;

void Host::receive(const Address& from, std::span<const std::byte> datagram, Time now) {
    if (datagram.empty()) return count(Drop::truncated);
    if (datagram.size() > kMaxDatagramBytes) return count(Drop::oversized);
    const std::optional<PacketKind> kind = read_kind(datagram[0]);
    if (!kind) return count(Drop::unknown_kind);
    switch (*kind) {
        case PacketKind::request:
            return gate_.receive_request(from, datagram, now);
        case PacketKind::connect:
            return gate_.receive_connect(from, datagram, now);
        case PacketKind::data:
        case PacketKind::disconnect:
        case PacketKind::echo:
            return receive_packet(from, datagram, now);
        default:
            return count(Drop::wrong_direction);
    }
}

void Host::update(Time now) {
    gate_.update(now);
    for (std::unique_ptr<Peer>& peer : peers_) {
        if (!peer) continue;
        peer->connection.update(now);
        note_end(*peer);
        if (!peer->connection.is_finished()) continue;
        gate_.release(peer->id());
        peer.reset();
    }
}

void Host::flush(Time now) {
    if (peers_.empty()) return;
    const double limit = static_cast<double>(config_.max_bytes_per_second);
    const double earned = limit * std::chrono::duration<double>(now - allowed_until_).count();
    allowance_ = std::min(allowance_ + earned, std::max(limit * kSavedAllowance_s, 2.0 * kMaxDatagramBytes));
    allowed_until_ = now;
    // Another one is first each time: on a shared path, and within a limit, whoever is first gets more.
    first_flushed_ = (first_flushed_ + 1) % peers_.size();
    const std::size_t first = first_flushed_;
    bool is_first_denied = true;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        const std::size_t index = (first + i) % peers_.size();
        if (!peers_[index]) continue;
        const bool is_allowed = limit == 0 || allowance_ > 0;
        if (!is_allowed && is_first_denied)
            first_flushed_ = index + peers_.size() - 1;  // the next flush goes on here
        is_first_denied &= is_allowed;
        Connection& connection = peers_[index]->connection;
        const std::uint64_t sent_before = connection.stats().bytes_sent;
        connection.flush(now, is_allowed);
        allowance_ -= static_cast<double>(connection.stats().bytes_sent - sent_before);
    }
}

void Host::disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) {
    Endpoint::disconnect(peer, reason, text, now);
    if (connection_of(peer)) note_end(*at(peer.index()));
}

const Address& Host::address(PeerId peer) const {
    static const Address kNowhere;
    const Connection* const connection = connection_of(peer);
    return connection ? connection->path().address() : kNowhere;
}

void Host::shut_down(std::string_view text, Time now) {
    is_shut_down_ = true;
    shut_down_text_ = text;
    gate_.shut_down();
    for (const std::unique_ptr<Peer>& peer : peers_)
        if (peer) close(*peer, DisconnectReason::shut_down, text, true, now);
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
    const std::optional<Envelope> envelope = read_envelope(datagram, true);
    if (!envelope) return count(Drop::truncated);
    Peer* const found = peer_for(from, *envelope, datagram, now);
    if (!found) return;
    Peer& peer = *found;
    Packet packet;
    const Connection::Arrival arrival = peer.connection.open(datagram, packet, now);
    if (arrival == Connection::Arrival::dropped) return note_end(peer);
    const bool is_fresh = arrival == Connection::Arrival::fresh;
    if (is_fresh) peer.heard = now;
    locate(peer, from, datagram.size(), packet, is_fresh && peer.connection.is_newest(packet), now);
    if (is_fresh) peer.connection.apply(packet, now);
    note_end(peer);
}

/// Follows a peer to another address. An authentic packet, or a copy of one, came from there.
void Host::locate(Peer& peer, const Address& from, std::size_t bytes, const Packet& packet, bool is_newest,
                  Time now) {
    Path& path = peer.connection.path();
    path.heard(from, is_newest, now);
    if (!path.is_proven(from)) {
        const std::uint32_t id = peer.connection_id;
        if (packet.kind == PacketKind::echo && gate_.is_challenge(id, from, packet.challenge.number, now)) {
            peer.connection.move(from, now);
        } else if (const std::size_t room = path.wants_challenge(from, bytes, now)) {
            const Challenge challenge{gate_.challenge(id, from, now), gate_.reset_token(id, from)};
            peer.connection.challenge(from, challenge, room, now);
        }
    }
    // While both addresses are in use, packets come from one and the other.
    if (path.address() == peer.home || path.second(now)) return;
    stats_.moves += 1;
    peer.home = path.address();
    gate_.settle(peer.id(), peer.home);
}

/// Whose packet this is: a peer's, or that of a pending client, who becomes one. Null if nobody's, or if it
/// was taken care of.
Host::Peer* Host::peer_for(const Address& from, const Envelope& envelope, std::span<const std::byte> datagram,
                           Time now) {
    Peer* const peer = at(gate_.index_of(envelope.connection_id));
    if (peer && peer->connection_id == envelope.connection_id) return peer;
    if (const Gate::Pending* const pending = gate_.find(envelope.connection_id))
        return confirm(*pending, envelope, datagram, now);
    count(Drop::unknown_connection);
    // A disconnect packet needs no answer: its sender has hung up.
    if (envelope.kind == PacketKind::data)
        gate_.send_reset(from, envelope.connection_id, datagram.size(), now);
    return nullptr;
}

/// Makes the connection if the packet proves that its sender holds the keys, which no replayed request can.
Host::Peer* Host::confirm(const Gate::Pending& pending, const Envelope& envelope,
                          std::span<const std::byte> datagram, Time now) {
    const PacketCipher cipher =
        PacketCipher::make(config_.security, config_.protocol_id, pending.keys.to_initiator,
                           pending.keys.to_responder, config_.connection.first_packet_number, now);
    PacketCipher trial = cipher;
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const std::span<std::byte> copy = std::span(buffer).first(datagram.size());
    std::copy(datagram.begin(), datagram.end(), copy.begin());
    const std::uint64_t number =
        expand_number(envelope.truncated_number, envelope.number_bytes, pending.first_packet_number);
    if (!trial.open(number, envelope.key_phase, copy, envelope.body_offset, now, Duration(0))) {
        count(Drop::bad_tag);
        return nullptr;
    }
    Session session;
    session.peer = pending.peer;
    session.address = pending.address;
    session.receive_id = true;
    session.send_first = config_.connection.first_packet_number;
    session.receive_first = pending.first_packet_number;
    session.salt = entropy_.next() | 1;
    const std::uint32_t connection_id = pending.connection_id;
    if (envelope.kind == PacketKind::disconnect) {
        gate_.give_up(session.peer);
        return nullptr;
    }
    const Address home = pending.address;
    replace_former(home, now);
    const std::optional<std::string_view> why_full = gate_.why_full(home, false);
    const bool is_welcome = !is_shut_down_ && !why_full;
    gate_.confirm(session.peer, is_welcome);
    const std::uint32_t index = session.peer.index();
    if (index >= peers_.size()) peers_.resize(index + std::size_t{1});
    peers_[index].reset(new Peer{connection_id, now, home,
                                 Connection(config_.connection, session, cipher, handler_, sink_, now)});
    Peer& peer = *peers_[index];
    if (is_welcome) {
        peer.connection.announce();
        return &peer;
    }
    const DisconnectReason reason =
        is_shut_down_ ? DisconnectReason::shut_down : DisconnectReason::refused_full;
    close(peer, reason, is_shut_down_ ? std::string_view(shut_down_text_) : *why_full, true, now);
    return nullptr;
}

/// Somebody came in from this address, which the cookie proved. A peer whose proven address it is may be the
/// same client, started anew; but also somebody else who reads what is sent there. So only a peer that has
/// been silent gives way.
void Host::replace_former(const Address& home, Time now) {
    const std::optional<std::uint32_t> index = gate_.at_home(home);
    Peer* const former = index ? at(*index) : nullptr;
    if (!former || now - former->heard < 2 * config_.connection.keep_alive) return;
    if (former->connection.path().address() == home)
        close(*former, DisconnectReason::replaced, {}, false, now);
}

void Host::close(Peer& peer, DisconnectReason reason, std::string_view text, bool tell_peer, Time now) {
    peer.connection.close(reason, text, tell_peer, now);
    note_end(peer);
}

/// A peer that is closed leaves room for another one.
void Host::note_end(Peer& peer) {
    if (!peer.connection.is_open()) gate_.leave(peer.id());
}

}  // namespace shoal::net
