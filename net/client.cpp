#include "client.h"

namespace shoal::net::impl {
Client::Client(const ClientConfig& config, Handler& handler, Sink& sink)
    : config_(config),
      handler_(handler),
      sink_(sink),
      has_seed_(!config.seed.is_missing()),
      entropy_(config.seed.take()),
      connector_(config_, has_seed_, sink, entropy_, stats_) {}

Client::~Client() = default;

PeerId Client::begin(const Servers& servers, const ClientToken* token, std::span<const std::byte> hello,
                     Time now) {
    assert(now >= Time(0));
    assert(has_seed_ && "ClientConfig::seed is missing, or another Client took it: see fill_random");
    if (is_replacing_) return {};
    is_replacing_ = true;
    disconnect(peer_, DisconnectReason::closed, {}, now);
    is_replacing_ = false;
    if (connection_) former_ = std::move(connection_);
    constexpr std::uint32_t kGeneration = 0x1'0000;
    peer_ = PeerId{peer_.value < 0xFFFF'0000 ? peer_.value + kGeneration : kGeneration};
    server_ = servers.addresses.empty() ? Address() : servers.addresses.front();
    server_schema_hash_ = 0;
    connector_.begin(servers, token, hello, now);
    return peer_;
}

void Client::receive(const Address& from, std::span<const std::byte> datagram, Time now) {
    const std::optional<PacketKind> kind = kind_of(datagram);
    if (!kind) return;
    switch (*kind) {
        case PacketKind::data:
        case PacketKind::disconnect:
        case PacketKind::challenge:
        case PacketKind::reset:
            if (from != server_) return count(Drop::wrong_address);
            return *kind == PacketKind::reset ? receive_reset(datagram, now) : receive_packet(datagram, now);
        case PacketKind::cookie:
        case PacketKind::answer:
        case PacketKind::refuse:
            if (const auto outcome = connector_.receive(*kind, from, datagram, now))
                end_attempt(*outcome, now);
            return;
        default:
            return count(Drop::wrong_direction);
    }
}

void Client::update(Time now) {
    if (former_ && former_->is_finished()) former_.reset();
    if (const auto outcome = connector_.update(now)) end_attempt(*outcome, now);
    if (connection_) connection_->update(now);
}

void Client::flush(Time now) {
    connector_.flush(now);
    if (former_) former_->flush(now);
    if (connection_) connection_->flush(now);
}

void Client::disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now,
                        Duration deliver_for) {
    if (peer != peer_ || !connector_.is_active())
        return Endpoint::disconnect(peer, reason, text, now, deliver_for);
    connector_.end();
    handler_.on_disconnected(peer_, reason, text);
}

Client::State Client::state() const {
    if (connector_.is_active()) return State::connecting;
    if (!connection_ || connection_->is_finished()) return State::idle;
    return connection_->is_open() ? State::connected : State::closing;
}

void Client::end_attempt(const Connector::Outcome& outcome, Time now) {
    const Verdict& verdict = outcome.verdict;
    if (verdict.is_accepted) {
        server_ = outcome.server;
        return open_connection(verdict, outcome.keys, now);
    }
    server_schema_hash_ = verdict.schema_hash;
    handler_.on_disconnected(peer_, verdict.reason, verdict.text);
}

void Client::open_connection(const Verdict& verdict, const NoiseKeys& keys, Time now) {
    const Session session{.peer = peer_,
                          .address = server_,
                          .send_id = verdict.connection_id,
                          .send_first = config_.connection.first_packet_number,
                          .receive_first = verdict.first_packet_number,
                          .reset_salt = verdict.reset_salt,
                          .salt = entropy_.next() | 1};
    const PacketCipher cipher(connector_.security(), config_.protocol_id, keys.to_responder,
                              keys.to_initiator, session.send_first, now);
    connection_ = std::make_unique<Connection>(config_.connection, session, cipher, handler_, sink_, now);
    reset_token_ = verdict.reset_token;
    connection_->ping(now);  // the first packet confirms the handshake to the server
    connection_->announce();
}

void Client::receive_packet(std::span<const std::byte> datagram, Time now) {
    if (!connection_) return count(Drop::unknown_connection);
    Packet packet;
    if (connection_->open(datagram, packet, now) == Connection::Arrival::fresh)
        connection_->apply(packet, now);
}

void Client::receive_reset(std::span<const std::byte> datagram, Time now) {
    Reset reset;
    if (const std::optional<Drop> drop = read(datagram, reset)) return count(*drop);
    if (!connection_ || connection_->session().send_id != reset.connection_id || reset.token != reset_token_)
        return count(Drop::bad_reset);
    if (!connection_->is_open()) return count(Drop::closed);
    connection_->close(DisconnectReason::server_restarted, {}, false, now);
}

}  // namespace shoal::net::impl
