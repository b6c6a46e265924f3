#include "client.h"

#include <algorithm>
#include <cassert>

namespace shoal::net {
namespace {

constexpr Duration kFirstBackoff = std::chrono::milliseconds(200);
constexpr Duration kMaxBackoff = std::chrono::milliseconds(800);
/// How long a refusal waits, while no cookie came. Anyone who sees our requests can forge one.
constexpr Duration kHintPatience = std::chrono::seconds(1);
/// Tries of each cookie before a refusal is believed, if cookies came.
constexpr int kTriesBeforeHint = 3;
constexpr int kConnectsPerCookie = 4;  // then the cookie may have expired: ask for another
/// Between cookies that answer the same request. Each draws a connect of 1,200 bytes: with forged ones,
/// strangers can make us send 30 kB/s to the server.
constexpr Duration kCookieInterval = std::chrono::milliseconds(40);
/// Answers to the connects of the last 1.3 s are understood. A forged answer costs one key agreement.
constexpr std::size_t kMaxExchanges = 32;

}  // namespace

Client::Client(const ClientConfig& config, Handler& handler, Sink& sink)
    : config_(config),
      handler_(handler),
      sink_(sink),
      has_seed_(!config.seed.is_missing()),
      entropy_(config.seed.take()) {}

Client::~Client() {
    end_attempt();
}

PeerId Client::begin(const Address& server, const ClientToken* token, std::span<const std::byte> hello,
                     Time now) {
    assert(state() == State::idle || state() == State::closing);
    assert(has_seed_ && "ClientConfig::seed is missing, or another Client took it: see fill_random");
    connection_.reset();
    constexpr std::uint32_t kGeneration = 0x1'0000;
    peer_ = PeerId{peer_.value < 0xFFFF'0000 ? peer_.value + kGeneration : kGeneration};
    server_ = server;
    server_schema_hash_ = 0;
    is_connecting_ = true;
    hint_.reset();
    hints_ = connects_ = round_ = 0;
    nonce_ = entropy_.next();
    started_ = next_send_ = now;
    backoff_ = kFirstBackoff;
    security_ = token ? Security::sealed : config_.security;
    server_key_ = token                           ? token->server_key
                  : security_ == Security::sealed ? config_.server_key
                                                  : public_key(insecure_server_key());
    fault_ = fault_of(token, hello);
    if (!fault_.empty()) return peer_;
    const std::span<const std::byte> sealed = token ? std::span(token->sealed) : std::span<std::byte>();
    write(ClientHello{config_.schema_hash, config_.connection.first_packet_number, sealed, hello},
          client_hello_);
    return peer_;
}

/// Why there can be no attempt to connect; empty if there can.
std::string_view Client::fault_of(const ClientToken* token, std::span<const std::byte> hello) const {
    if (!has_seed_) return "the seed is missing";
    if (token) {
        if (hello.size() > kMaxTokenHelloBytes) return "the hello is longer than 632 bytes";
        const bool is_token = !is_missing(token->server_key) && token->sealed.size() <= kMaxSealedTokenBytes;
        return is_token ? "" : "this is no connect token";
    }
    const bool has_key = config_.security == Security::insecure || !is_missing(config_.server_key);
    assert(has_key && "ClientConfig::server_key is missing: see server_key.h");
    if (hello.size() > kMaxHelloBytes) return "the hello is longer than 900 bytes";
    return has_key ? "" : "the server's public key is missing";
}

void Client::receive(const Address& from, std::span<const std::byte> datagram, Time now) {
    const std::optional<PacketKind> kind = kind_of(datagram);
    if (!kind) return;
    if (from != server_) return count(Drop::wrong_address);
    switch (*kind) {
        case PacketKind::data:
        case PacketKind::disconnect:
        case PacketKind::challenge:
            return receive_packet(datagram, now);
        case PacketKind::reset:
            return receive_reset(datagram, now);
        case PacketKind::cookie:
        case PacketKind::answer:
        case PacketKind::refuse:
            break;
        default:
            return count(Drop::wrong_direction);
    }
    if (!is_connecting_ || !fault_.empty()) return count(Drop::unexpected);
    stats_.handshake_bytes_received += datagram.size();
    if (*kind == PacketKind::cookie) return receive_cookie(datagram, now);
    if (*kind == PacketKind::answer) return receive_answer(datagram, now);
    receive_refusal(datagram, now);
}

void Client::update(Time now) {
    if (is_connecting_) check_attempt(now);
    if (connection_) connection_->update(now);
}

void Client::flush(Time now) {
    if (is_connecting_ && fault_.empty() && now >= next_send_) send_next(now);
    if (connection_) connection_->flush(now);
}

void Client::disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) {
    if (peer != peer_ || !is_connecting_) return Endpoint::disconnect(peer, reason, text, now);
    fail(reason, text);
}

Client::State Client::state() const {
    if (is_connecting_) return State::connecting;
    if (!connection_ || connection_->is_finished()) return State::idle;
    return connection_->is_open() ? State::connected : State::closing;
}

void Client::end_attempt() {
    is_connecting_ = false;
    cookies_.clear();
    exchanges_.clear();
    wipe(client_hello_);
}

void Client::fail(DisconnectReason reason, std::string_view text, std::uint64_t schema_hash) {
    end_attempt();
    server_schema_hash_ = schema_hash;
    handler_.on_disconnected(peer_, reason, text);
}

/// Ends the attempt if its time is over, or if it cannot succeed.
void Client::check_attempt(Time now) {
    if (!fault_.empty()) return fail(DisconnectReason::misconfigured, fault_);
    const bool is_over = now - started_ >= config_.connect_timeout;
    if (hint_ && (is_over ? does_hint_explain() : believes_hint(now))) {
        const std::string_view text = *hint_ != DisconnectReason::refused_security ? ""
                                      : security_ == Security::insecure ? "the server wants sealed packets"
                                                                        : "the server is insecure";
        return fail(*hint_, text);
    }
    if (is_over) fail(DisconnectReason::unreachable, exchanges_.empty() ? "" : "it did not accept in time");
}

/// Whether the refusals can be why nothing else came. A connect that was damaged on its way is refused as
/// well; a server with another key refuses each one.
bool Client::does_hint_explain() const {
    return connects_ == 0 || 3 * hints_ >= connects_;
}

/// Before any cookie, after a second without one. Once a server answers, a refusal only explains why half of
/// the time passed in vain, although every cookie was tried again and again.
bool Client::believes_hint(Time now) const {
    if (exchanges_.empty()) return cookies_.came() == 0 && now - hinted_ >= kHintPatience;
    return does_hint_explain() && !cookies_.has_more() && now - started_ >= config_.connect_timeout / 2 &&
           std::ranges::all_of(exchanges_,
                               [](const Exchange& exchange) { return exchange.tries >= kTriesBeforeHint; });
}

void Client::send_next(Time now) {
    if (const auto cookie = cookies_.take(entropy_.next())) {
        repeats_ = 0;
        backoff_ = kFirstBackoff;
        if (begin_exchange(*cookie)) send_connect(now);
    } else if (cookies_.came() == 1 && !exchanges_.empty() && repeats_ < kConnectsPerCookie) {
        send_connect(now);
    } else {
        send_request(now);
    }
}

void Client::send_request(Time now) {
    cookies_.clear();
    round_ += 1;
    send({.kind = PacketKind::request, .security = security_}, backoff_, now);
}

/// Makes the exchange of this cookie the last one. A cookie that came in an earlier round keeps its exchange:
/// one ephemeral key never serves with two prologues, and one cookie has one message.
bool Client::begin_exchange(std::uint64_t cookie) {
    if (const auto known = find(cookie); known != exchanges_.end()) {
        std::rotate(known, known + 1, exchanges_.end());
        return true;
    }
    if (exchanges_.size() == kMaxExchanges) exchanges_.erase(exchanges_.begin());
    const auto prologue = handshake_prologue(config_.protocol_id, security_, nonce_, cookie);
    exchanges_.push_back({cookie, entropy_.next_key(), NoiseExchange(prologue, server_key_)});
    Exchange& exchange = exchanges_.back();
    std::ranges::copy(client_hello_, noise_payload(exchange.message).begin());
    if (exchange.noise.write(exchange.ephemeral, exchange.message)) return true;
    wipe(exchange.message);
    fault_ = "the server's public key is none";
    return false;
}

/// Of the last exchange.
void Client::send_connect(Time now) {
    Exchange& exchange = exchanges_.back();
    exchange.tries += 1;
    exchange.round = round_;
    repeats_ += 1;
    connects_ += 1;
    connect_sent_ = now;
    send({.kind = PacketKind::connect, .cookie = exchange.cookie, .message = exchange.message},
         cookies_.has_more() ? kCookieInterval : backoff_, now);
}

/// And sends nothing more for `wait`, unless a cookie comes.
void Client::send(HandshakePacket packet, Duration wait, Time now) {
    packet.client_nonce = nonce_;
    packet.protocol_id = config_.protocol_id;
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const std::span<const std::byte> datagram = write(packet, buffer);
    next_send_ = now + wait;
    backoff_ = std::min(backoff_ * 3 / 2, kMaxBackoff);
    stats_.handshake_bytes_sent += datagram.size();
    sink_.send(server_, datagram);
}

void Client::receive_cookie(std::span<const std::byte> datagram, Time now) {
    HandshakePacket reply{.kind = PacketKind::cookie};
    if (const std::optional<Drop> drop = read(datagram, reply)) return count(*drop);
    const auto known = find(reply.cookie);
    const bool is_tried = known != exchanges_.end() && known->round == round_;
    if (reply.client_nonce != nonce_ || is_tried || cookies_.has(reply.cookie))
        return count(Drop::unexpected);
    const bool is_first = cookies_.came() == 0;
    cookies_.add(reply.cookie, entropy_.next());
    if (!cookies_.has_more()) return;
    next_send_ = is_first ? now : std::min(next_send_, std::max(now, connect_sent_ + kCookieInterval));
    if (is_first) send_next(now);
}

void Client::receive_refusal(std::span<const std::byte> datagram, Time now) {
    HandshakePacket refusal{.kind = PacketKind::refuse};
    if (const std::optional<Drop> drop = read(datagram, refusal)) return count(*drop);
    if (refusal.client_nonce != nonce_) return count(Drop::unexpected);
    if (refusal.reason == hint_) hints_ += 1;
    if (hint_) return count(Drop::unexpected);
    hint_ = refusal.reason;
    hints_ = 1;
    hinted_ = now;
}

void Client::receive_answer(std::span<const std::byte> datagram, Time now) {
    HandshakePacket answer{.kind = PacketKind::answer};
    if (const std::optional<Drop> drop = read(datagram, answer)) return count(*drop);
    const auto exchange = find(answer.cookie);
    if (answer.client_nonce != nonce_ || exchange == exchanges_.end()) return count(Drop::unexpected);
    std::array<std::byte, kMaxAnswerMessageBytes> buffer;
    const std::span<std::byte> message = std::span(buffer).first(answer.message.size());
    std::ranges::copy(answer.message, message.begin());
    if (!exchange->noise.read(exchange->ephemeral, message)) return count(Drop::bad_tag);
    Verdict verdict;
    if (!read(noise_payload(message), verdict)) return count(Drop::bad_handshake);
    if (!verdict.is_accepted) return fail(verdict.reason, verdict.text, verdict.schema_hash);
    const NoiseKeys keys = exchange->noise.split();
    end_attempt();
    open_connection(verdict, keys, now);
}

std::vector<Client::Exchange>::iterator Client::find(std::uint64_t cookie) {
    return std::ranges::find(exchanges_, cookie, &Exchange::cookie);
}

void Client::open_connection(const Verdict& verdict, const NoiseKeys& keys, Time now) {
    Session session;
    session.peer = peer_;
    session.address = server_;
    session.send_id = verdict.connection_id;
    session.send_first = config_.connection.first_packet_number;
    session.receive_first = verdict.first_packet_number;
    session.salt = entropy_.next() | 1;
    const PacketCipher cipher(security_, config_.protocol_id, keys.to_responder, keys.to_initiator,
                              session.send_first, now);
    connection_ = std::make_unique<Connection>(config_.connection, session, cipher, handler_, sink_, now);
    reset_tokens_.fill(verdict.reset_token);
    newest_challenge_ = 0;
    connection_->ping(now);  // confirms the handshake
    connection_->announce();
}

void Client::receive_packet(std::span<const std::byte> datagram, Time now) {
    if (!connection_) return count(Drop::unknown_connection);
    Packet packet;
    if (connection_->open(datagram, packet, now) != Connection::Arrival::fresh) return;
    if (packet.challenge.reset_token && packet.number > newest_challenge_) {
        newest_challenge_ = packet.number;
        const ResetToken& token = *packet.challenge.reset_token;
        if (std::find(reset_tokens_.begin(), reset_tokens_.end(), token) == reset_tokens_.end()) {
            std::copy_backward(reset_tokens_.begin() + 1, reset_tokens_.end() - 1, reset_tokens_.end());
            reset_tokens_[1] = token;
        }
    }
    connection_->apply(packet, now);
}

void Client::receive_reset(std::span<const std::byte> datagram, Time now) {
    Reset reset;
    if (const std::optional<Drop> drop = read(datagram, reset)) return count(*drop);
    bool is_ours = false;
    for (const ResetToken& token : reset_tokens_) is_ours |= equal_in_constant_time(reset.token, token);
    is_ours &= connection_ && connection_->session().send_id == reset.connection_id;
    if (!is_ours) return count(Drop::bad_reset);
    if (!connection_->is_open()) return count(Drop::closed);
    connection_->close(DisconnectReason::server_restarted, {}, false, now);
}

}  // namespace shoal::net
