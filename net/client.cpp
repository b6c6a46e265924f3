#include "client.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace shoal::net {
namespace {

constexpr Duration kFirstBackoff = std::chrono::milliseconds(200);
constexpr Duration kMaxBackoff = std::chrono::milliseconds(800);
constexpr int kConnectsPerCookie = 4;  // then the cookie may have expired: ask for another

}  // namespace

Client::Client(const ClientConfig& config, Handler& handler, Sink& sink)
    : config_(config), handler_(handler), sink_(sink), entropy_(config.seed) {}

Client::~Client() = default;

PeerId Client::connect(const Address& server, std::span<const std::byte> hello, Time now) {
    assert(state() == State::idle || state() == State::closing);
    assert(hello.size() <= kMaxHelloBytes);
    connection_.reset();
    generation_ = static_cast<std::uint16_t>(generation_ == 0xFFFF ? 1 : generation_ + 1);
    peer_ = PeerId{std::uint32_t(generation_) << 16};
    server_ = server;
    hello_.assign(hello.begin(), hello.end());
    nonce_ = entropy_.next();
    cookie_ = 0;
    server_schema_hash_ = 0;
    connecting_ = true;
    give_up_ = now + config_.connect_timeout;
    next_attempt_ = now;
    backoff_ = kFirstBackoff;
    return peer_;
}

void Client::receive(const Address& from, std::span<const std::byte> datagram, Time now) {
    if (datagram.empty()) return count(Drop::truncated);
    if (datagram.size() > kMaxDatagramBytes) return count(Drop::oversized);
    const std::optional<PacketKind> kind = read_kind(datagram[0]);
    if (!kind) return count(Drop::unknown_kind);
    if (from != server_) return count(Drop::wrong_address);
    switch (*kind) {
        case PacketKind::request:
        case PacketKind::connect:
            return count(Drop::wrong_direction);
        case PacketKind::data:
        case PacketKind::disconnect:
            break;
        default:
            return receive_reply(*kind, datagram, now);
    }
    if (!connection_) return count(Drop::unknown_connection);
    Packet packet;
    if (connection_->open(datagram, packet, now)) connection_->apply(packet, now);
}

void Client::update(Time now) {
    if (connecting_ && now >= give_up_) {
        fail(DisconnectReason::unreachable, cookie_ == 0 ? "" : "it did not accept in time");
    } else if (connection_) {
        connection_->update(now);
    }
}

void Client::flush(Time now) {
    if (connecting_) {
        if (now >= next_attempt_) send_handshake(now);
    } else if (connection_) {
        connection_->flush(now);
    }
}

bool Client::is_connected(PeerId peer) const {
    return peer == peer_ && connection_ && connection_->is_open();
}

std::size_t Client::payload_capacity(PeerId peer) const {
    return is_connected(peer) ? connection_->payload_capacity() : 0;
}

std::uint64_t Client::next_packet_number(PeerId peer) const {
    return is_connected(peer) ? connection_->next_packet_number() : 0;
}

std::uint64_t Client::send_payload(PeerId peer, std::span<const std::byte> payload, std::uint64_t cookie,
                                   Time now) {
    return is_connected(peer) ? connection_->send_payload(payload, cookie, now) : 0;
}

SendResult Client::send_message(PeerId peer, Channel channel, std::span<const std::byte> message) {
    return is_connected(peer) ? connection_->send_message(channel, message) : SendResult::not_connected;
}

void Client::disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) {
    if (peer != peer_) return;
    if (connecting_) return fail(reason, text);
    if (connection_) connection_->close(reason, text, true, now);
}

const ConnectionStats& Client::stats(PeerId peer) const {
    static constexpr ConnectionStats kNone;
    return peer == peer_ && connection_ ? connection_->stats() : kNone;
}

Client::State Client::state() const {
    if (connecting_) return State::connecting;
    if (!connection_ || connection_->is_finished()) return State::idle;
    return connection_->is_open() ? State::connected : State::closing;
}

void Client::send_handshake(Time now) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    if (cookie_ != 0 && connects_sent_ == kConnectsPerCookie) cookie_ = 0;
    std::span<const std::byte> datagram;
    if (cookie_ == 0) {
        datagram = write(Request{kWireVersion, nonce_, config_.protocol_id}, buffer);
    } else {
        connects_sent_ += 1;
        datagram = write(Connect{kWireVersion, nonce_, config_.protocol_id, config_.schema_hash, cookie_,
                                 config_.connection.first_packet_number, hello_},
                         buffer);
    }
    next_attempt_ = now + backoff_;
    backoff_ = std::min(backoff_ * 3 / 2, kMaxBackoff);
    stats_.handshake_bytes_sent += datagram.size();
    sink_.send(server_, datagram);
}

void Client::fail(DisconnectReason reason, std::string_view text) {
    connecting_ = false;
    handler_.on_disconnected(peer_, reason, text);
}

void Client::receive_reply(PacketKind kind, std::span<const std::byte> datagram, Time now) {
    if (!connecting_) return count(Drop::unexpected);
    stats_.handshake_bytes_received += datagram.size();
    if (kind == PacketKind::accept) return receive_accept(datagram, now);
    if (kind == PacketKind::cookie) {
        CookieReply reply;
        if (const std::optional<Drop> drop = read(datagram, reply)) return count(*drop);
        if (reply.client_nonce != nonce_ || cookie_ != 0) return count(Drop::unexpected);
        cookie_ = reply.cookie;
        connects_sent_ = 0;
        backoff_ = kFirstBackoff;
        return send_handshake(now);
    }
    Refuse refusal;
    if (const std::optional<Drop> drop = read(datagram, refusal)) return count(*drop);
    if (refusal.client_nonce != nonce_) return count(Drop::unexpected);
    server_schema_hash_ = refusal.schema_hash;
    fail(refusal.reason, refusal.text);
}

void Client::receive_accept(std::span<const std::byte> datagram, Time now) {
    Accept accept;
    if (const std::optional<Drop> drop = read(datagram, accept)) return count(*drop);
    if (accept.client_nonce != nonce_) return count(Drop::unexpected);
    const SessionKeys keys = derive_keys(config_.protocol_id, config_.schema_hash, nonce_,
                                         accept.server_nonce, accept.connection_id);
    Session session;
    session.peer = peer_;
    session.address = server_;
    session.protocol_id = config_.protocol_id;
    session.send_id = accept.connection_id;
    session.send_key = keys.client_to_server;
    session.receive_key = keys.server_to_client;
    session.send_first = config_.connection.first_packet_number;
    session.receive_first = accept.first_packet_number;
    connection_ = std::make_unique<Connection>(config_.connection, session, handler_, sink_, now);
    connecting_ = false;
    connection_->ping(now);  // the server counts us in when it hears from us
    connection_->announce();
}

}  // namespace shoal::net
