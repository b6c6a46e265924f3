#include "host.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace shoal::net {
namespace {

// Slots for handshakes and last words, beside those of the peers.
constexpr std::uint32_t kSpareSlots = 16;
// A restarted client, and late duplicates of its requests, may share an address for a moment.

}  // namespace

struct Host::Peer {
    Address address;
    std::uint64_t client_nonce;
    std::uint64_t server_nonce;
    std::uint32_t connection_id;
    Connection connection;
};

Host::Host(const HostConfig& config, Handler& handler, Sink& sink)
    : config_(config),
      handler_(handler),
      sink_(sink),
      entropy_(config.seed),
      cookie_key_(entropy_.next_key()) {
    assert(config.max_peers >= 1 && config.max_peers <= 60'000);
    const std::uint32_t slots = config.max_peers + config.max_peers / 16 + kSpareSlots;
    assert(slots <= 0x10000);
    peers_.resize(slots);
    generations_.resize(slots);
}

Host::~Host() = default;

void Host::receive(const Address& from, std::span<const std::byte> datagram, Time now) {
    if (datagram.empty()) return count(Drop::truncated);
    if (datagram.size() > kMaxDatagramBytes) return count(Drop::oversized);
    const std::optional<PacketKind> kind = read_kind(datagram[0]);
    if (!kind) return count(Drop::unknown_kind);
    switch (*kind) {
        case PacketKind::request:
            return receive_request(from, datagram, now);
        case PacketKind::connect:
            return receive_connect(from, datagram, now);
        case PacketKind::data:
        case PacketKind::disconnect:
            return receive_packet(from, datagram, now);
        default:
            return count(Drop::wrong_direction);
    }
}

void Host::update(Time now) {
    for (std::unique_ptr<Peer>& peer : peers_) {
        if (!peer) continue;
        Connection& connection = peer->connection;
        connection.update(now);
        const bool is_pending = connection.is_open() && !connection.is_announced();
        if (is_pending && now - connection.created() >= config_.handshake_timeout) {
            stats_.handshakes_expired += 1;
            connection.close(DisconnectReason::timed_out, {}, false, now);
        }
        if (connection.is_finished()) peer.reset();
    }
}

void Host::flush(Time now) {
    for (const std::unique_ptr<Peer>& peer : peers_) {
        // Nothing is sent to a pending peer but its acceptance, on demand.
        if (peer && (peer->connection.is_announced() || !peer->connection.is_open()))
            peer->connection.flush(now);
    }
}

bool Host::is_connected(PeerId peer) const {
    const Peer* found = find(peer);
    return found && found->connection.is_open() && found->connection.is_announced();
}

std::size_t Host::payload_capacity(PeerId peer) const {
    return is_connected(peer) ? find(peer)->connection.payload_capacity() : 0;
}

std::uint64_t Host::next_packet_number(PeerId peer) const {
    return is_connected(peer) ? find(peer)->connection.next_packet_number() : 0;
}

std::uint64_t Host::send_payload(PeerId peer, std::span<const std::byte> payload, std::uint64_t cookie,
                                 Time now) {
    return is_connected(peer) ? find(peer)->connection.send_payload(payload, cookie, now) : 0;
}

SendResult Host::send_message(PeerId peer, Channel channel, std::span<const std::byte> message) {
    if (!is_connected(peer)) return SendResult::not_connected;
    return find(peer)->connection.send_message(channel, message);
}

void Host::disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) {
    if (is_connected(peer)) find(peer)->connection.close(reason, text, true, now);
}

const ConnectionStats& Host::stats(PeerId peer) const {
    static constexpr ConnectionStats kNone;
    const Peer* const found = find(peer);
    return found ? found->connection.stats() : kNone;
}

const Address& Host::address(PeerId peer) const {
    assert(find(peer));
    return find(peer)->address;
}

void Host::shut_down(std::string_view text, Time now) {
    is_shut_down_ = true;
    for (const std::unique_ptr<Peer>& peer : peers_) {
        if (peer) peer->connection.close(DisconnectReason::shut_down, text, true, now);
    }
}

std::uint32_t Host::peer_count() const {
    return static_cast<std::uint32_t>(std::count_if(peers_.begin(), peers_.end(), [](const auto& peer) {
        return peer && peer->connection.is_open() && peer->connection.is_announced();
    }));
}

bool Host::is_idle() const {
    return std::none_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer != nullptr; });
}

void Host::receive_request(const Address& from, std::span<const std::byte> datagram, Time now) {
    Request request;
    if (const std::optional<Drop> drop = read(datagram, request)) return count(*drop);
    stats_.handshake_bytes_received += datagram.size();
    if (request.version != kWireVersion || request.protocol_id != config_.protocol_id) {
        return refuse(from, request.client_nonce, DisconnectReason::refused_protocol, {});
    }
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const std::uint64_t cookie = make_cookie(cookie_key_, from, request.client_nonce, now);
    stats_.cookies_sent += 1;
    reply(from, write(CookieReply{request.client_nonce, cookie}, buffer));
}

void Host::receive_connect(const Address& from, std::span<const std::byte> datagram, Time now) {
    Connect connect;
    if (const std::optional<Drop> drop = read(datagram, connect)) return count(*drop);
    stats_.handshake_bytes_received += datagram.size();
    if (connect.version != kWireVersion || connect.protocol_id != config_.protocol_id) {
        return refuse(from, connect.client_nonce, DisconnectReason::refused_protocol, {});
    }
    if (!is_cookie_valid(cookie_key_, from, connect.client_nonce, connect.cookie, now)) {
        return count(Drop::bad_cookie);
    }
    // From here on the sender's address is proven.
    for (const std::unique_ptr<Peer>& peer : peers_) {
        if (!peer || peer->address != from || peer->client_nonce != connect.client_nonce) continue;
        if (!peer->connection.is_open()) return count(Drop::closed);
        return accept(*peer);  // our answer was lost, or his request came twice
    }
    admit(from, connect, now);
}

void Host::admit(const Address& from, const Connect& connect, Time now) {
    if (is_shut_down_) {
        return refuse(from, connect.client_nonce, DisconnectReason::refused, "the server shuts down");
    }
    // Only who has gone on counts as a peer: who never does takes a spare slot, until another needs it.
    std::uint32_t others = 0;
    std::uint32_t pending_here = 0;
    std::unique_ptr<Peer>* oldest_pending = nullptr;
    for (std::unique_ptr<Peer>& peer : peers_) {
        if (!peer || !peer->connection.is_open()) continue;
        if (peer->connection.is_announced()) {
            others += peer->address != from;
            continue;
        }
        pending_here += peer->address.ip == from.ip && peer->address.family == from.family;
        if (!oldest_pending || peer->connection.created() < (*oldest_pending)->connection.created())
            oldest_pending = &peer;
    }
    const bool schema_matches = connect.schema_hash == config_.schema_hash;
    if (schema_matches && others >= config_.max_peers) {
        return refuse(from, connect.client_nonce, DisconnectReason::refused_full, {});
    }
    if (pending_here >= config_.max_pending_per_ip) return count(Drop::too_many_attempts);
    std::optional<std::uint32_t> slot = free_slot();
    if (!slot && oldest_pending) {
        stats_.handshakes_expired += 1;
        oldest_pending->reset();
        slot = static_cast<std::uint32_t>(oldest_pending - peers_.data());
    }
    if (!slot) return count(Drop::too_many_attempts);

    std::string refusal;
    const bool is_welcome =
        handler_.on_admit({from, connect.schema_hash, schema_matches, connect.hello}, refusal);
    if (!schema_matches) {
        return refuse(from, connect.client_nonce, DisconnectReason::refused_schema, refusal);
    }
    if (!is_welcome) return refuse(from, connect.client_nonce, DisconnectReason::refused, refusal);

    generations_[*slot] =
        static_cast<std::uint16_t>(generations_[*slot] == 0xFFFF ? 1 : generations_[*slot] + 1);
    next_slot_ = *slot + 1;
    const std::uint64_t server_nonce = entropy_.next();
    const std::uint32_t connection_id = *slot | static_cast<std::uint32_t>(entropy_.next() << 16);
    const SessionKeys keys = derive_keys(config_.protocol_id, config_.schema_hash, connect.client_nonce,
                                         server_nonce, connection_id);
    Session session;
    session.peer = PeerId{*slot | std::uint32_t(generations_[*slot]) << 16};
    session.address = from;
    session.protocol_id = config_.protocol_id;
    session.receive_id = true;
    session.send_key = keys.server_to_client;
    session.receive_key = keys.client_to_server;
    session.send_first = config_.connection.first_packet_number;
    session.receive_first = connect.first_packet_number;
    peers_[*slot].reset(new Peer{from, connect.client_nonce, server_nonce, connection_id,
                                 Connection(config_.connection, session, handler_, sink_, now)});
    accept(*peers_[*slot]);
}

void Host::receive_packet(const Address& from, std::span<const std::byte> datagram, Time now) {
    const std::optional<Envelope> envelope = read_envelope(datagram, true);
    if (!envelope) return count(Drop::truncated);
    const std::uint32_t slot = envelope->connection_id & 0xFFFF;
    if (slot >= peers_.size() || !peers_[slot] || peers_[slot]->connection_id != envelope->connection_id) {
        return count(Drop::unknown_connection);
    }
    Peer& peer = *peers_[slot];
    if (peer.address != from) return count(Drop::wrong_address);
    Packet packet;
    if (!peer.connection.open(datagram, packet, now)) return;
    if (!peer.connection.is_announced() && packet.kind == PacketKind::data && !confirm(peer, now)) return;
    peer.connection.apply(packet, now);
}

/// The peer has proven that it holds the keys, which no replayed request can. False if it was closed.
bool Host::confirm(Peer& peer, Time now) {
    for (const std::unique_ptr<Peer>& other : peers_) {
        if (!other || other.get() == &peer || other->address != peer.address) continue;
        other->connection.close(DisconnectReason::replaced, {}, false, now);
    }
    if (peer_count() >= config_.max_peers) {
        peer.connection.close(DisconnectReason::refused_full, {}, true, now);
        return false;
    }
    peer.connection.announce();
    return peer.connection.is_open();
}

void Host::accept(const Peer& peer) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    stats_.accepts_sent += 1;
    reply(peer.address, write(Accept{peer.client_nonce, peer.server_nonce,
                                     config_.connection.first_packet_number, peer.connection_id},
                              buffer));
}

void Host::refuse(const Address& to, std::uint64_t client_nonce, DisconnectReason reason,
                  std::string_view text) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    stats_.refusals_sent += 1;
    reply(to,
          write(Refuse{client_nonce, reason, config_.schema_hash, text.substr(0, kMaxReasonBytes)}, buffer));
}

void Host::reply(const Address& to, std::span<const std::byte> datagram) {
    stats_.handshake_bytes_sent += datagram.size();
    sink_.send(to, datagram);
}

Host::Peer* Host::find(PeerId peer) const {
    const std::uint32_t slot = peer.index();
    if (slot >= peers_.size() || !peers_[slot] || peers_[slot]->connection.session().peer != peer)
        return nullptr;
    return peers_[slot].get();
}

std::optional<std::uint32_t> Host::free_slot() {
    // Round robin, so that a slot, and with it a PeerId, rests as long as possible.
    const std::uint32_t slots = static_cast<std::uint32_t>(peers_.size());
    for (std::uint32_t i = 0; i < slots; ++i) {
        const std::uint32_t slot = (next_slot_ + i) % slots;
        if (!peers_[slot]) return slot;
    }
    return std::nullopt;
}

}  // namespace shoal::net
