#include "client.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace shoal::net {
namespace {

constexpr Duration kFirstBackoff = std::chrono::milliseconds(200);
constexpr Duration kMaxBackoff = std::chrono::milliseconds(800);
/// How long a refusal in the clear waits for an answer that proves it wrong. Who sees our requests could
/// forge one; he must also keep the server's answers from us.
constexpr Duration kHintPatience = std::chrono::seconds(1);
constexpr int kConnectsPerCookie = 4;  // then the cookie may have expired: ask for another
/// Between cookies that answer the same request. Each draws a connect of 1,200 bytes, so that strangers, with
/// whatever they forge, can have us send 30 kB/s, to the server.
constexpr Duration kCookieInterval = std::chrono::milliseconds(40);
/// The answer to each of these is understood: those of the last two thirds of a second. Of a forged answer
/// each costs a key agreement.
constexpr std::size_t kTokenExchanges = 16;

}  // namespace

Client::Client(const ClientConfig& config, Handler& handler, Sink& sink)
    : config_(config),
      handler_(handler),
      sink_(sink),
      entropy_(config.seed),
      has_seed_(!is_missing(config.seed)) {
    wipe(config_.seed);
}

Client::~Client() = default;

PeerId Client::connect(const Address& server, std::span<const std::byte> hello, Time now) {
    begin(server, hello, now);
    if (hello.size() > kMaxHelloBytes) return refuse("the hello is longer than 900 bytes", now);
    const bool is_introduced = introduce();
    assert(is_introduced && "ClientConfig::server_key is missing, or no key: see server_key.h");
    if (!is_introduced) return refuse("the server's public key is missing", now);
    return has_seed_ ? peer_ : refuse("the seed is missing", now);
}

PeerId Client::connect(const Address& server, const ClientToken& token, std::span<const std::byte> hello,
                       Time now) {
    begin(server, hello, now);
    token_ = token;
    if (hello.size() > kMaxTokenHelloBytes) return refuse("the hello is longer than 591 bytes", now);
    introduction_.assign(kConnectBodyBytes, std::byte(0));
    return has_seed_ ? peer_ : refuse("the seed is missing", now);
}

/// Sends nothing, and fails at the next update.
PeerId Client::refuse(std::string_view why, Time now) {
    introduction_.clear();
    hint_ = DisconnectReason::misconfigured;
    fault_ = why;
    believe_hint_at_ = now;
    return peer_;
}

void Client::begin(const Address& server, std::span<const std::byte> hello, Time now) {
    assert(state() == State::idle || state() == State::closing);
    assert(has_seed_ && "ClientConfig::seed is missing: see fill_random");
    connection_.reset();
    hello_.assign(hello.begin(), hello.end());
    generation_ = static_cast<std::uint16_t>(generation_ == 0xFFFF ? 1 : generation_ + 1);
    peer_ = PeerId{std::uint32_t(generation_) << 16};
    server_ = server;
    nonce_ = entropy_.next();
    hint_.reset();
    cookie_ = 0;
    cookies_.clear();
    exchanges_.clear();
    server_schema_hash_ = 0;
    connecting_ = true;
    give_up_ = now + config_.connect_timeout;
    next_attempt_ = now;
    backoff_ = kFirstBackoff;
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
        case PacketKind::echo:
            return count(Drop::wrong_direction);
        case PacketKind::data:
        case PacketKind::disconnect:
        case PacketKind::challenge:
            break;
        case PacketKind::reset:
            return receive_reset(datagram, now);
        default:
            return receive_reply(*kind, datagram, now);
    }
    if (!connection_) return count(Drop::unknown_connection);
    Packet packet;
    if (!connection_->open(datagram, packet, now)) return;
    if (packet.challenge.reset_token && packet.number > newest_challenge_) {
        newest_challenge_ = packet.number;
        reset_token_ = *packet.challenge.reset_token;
    }
    connection_->apply(packet, now);
}

void Client::update(Time now) {
    if (connecting_ && hint_ && (now >= believe_hint_at_ || now >= give_up_)) {
        fail(*hint_, text_of(*hint_));
    } else if (connecting_ && now >= give_up_) {
        fail(DisconnectReason::unreachable, cookie_ == 0 ? "" : "it did not accept in time");
    } else if (connection_) {
        connection_->update(now);
    }
}

std::string_view Client::text_of(DisconnectReason hint) const {
    if (hint == DisconnectReason::misconfigured) return fault_;
    if (hint == DisconnectReason::refused_security)
        return way() == Way::insecure ? "the server wants sealed packets" : "the server is insecure";
    if (hint == DisconnectReason::refused_token)
        return token_ ? "the server cannot open this connect token" : "the server wants a connect token";
    return {};
}

void Client::flush(Time now) {
    if (connecting_) {
        if (now >= next_attempt_ && !introduction_.empty()) send_handshake(now);
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

SendResult Client::send_message(PeerId peer, Delivery how, std::span<const std::byte> message) {
    return is_connected(peer) ? connection_->send_message(how, message) : SendResult::not_connected;
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
    if (const auto cookie = cookies_.take(entropy_.next())) return try_cookie(*cookie, now);
    if (cookies_.is_single() && connects_sent_ < kConnectsPerCookie) return send_connect(now);
    cookie_ = 0;
    cookies_.clear();
    std::array<std::byte, kMaxDatagramBytes> buffer;
    send_handshake_packet(write(Request{kWireVersion, nonce_, config_.protocol_id}, buffer));
    next_attempt_ = now + backoff_;
    backoff_ = std::min(backoff_ * 3 / 2, kMaxBackoff);
}

void Client::try_cookie(std::uint64_t cookie, Time now) {
    cookie_ = cookie;
    connects_sent_ = 0;
    backoff_ = kFirstBackoff;
    if (token_) introduce_with_token();
    send_connect(now);
}

void Client::send_connect(Time now) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    send_handshake_packet(
        write(Connect{kWireVersion, nonce_, config_.protocol_id, way(), cookie_, introduction_}, buffer));
    connects_sent_ += 1;
    connect_sent_ = now;
    next_attempt_ = now + (cookies_.has_more() ? kCookieInterval : backoff_);
    backoff_ = std::min(backoff_ * 3 / 2, kMaxBackoff);
}

void Client::send_handshake_packet(std::span<const std::byte> datagram) {
    stats_.handshake_bytes_sent += datagram.size();
    sink_.send(server_, datagram);
}

void Client::end_handshake() {
    connecting_ = false;
    token_.reset();
    exchanges_.clear();
    cookies_.clear();
    hello_.clear();
    introduction_.clear();
}

void Client::fail(DisconnectReason reason, std::string_view text) {
    end_handshake();
    handler_.on_disconnected(peer_, reason, text);
}

void Client::receive_reply(PacketKind kind, std::span<const std::byte> datagram, Time now) {
    if (!connecting_) return count(Drop::unexpected);
    stats_.handshake_bytes_received += datagram.size();
    if (kind == PacketKind::answer) return receive_answer(datagram, now);
    if (kind == PacketKind::cookie) return receive_cookie(datagram, now);
    Refuse refusal;
    if (const std::optional<Drop> drop = read(datagram, refusal)) return count(*drop);
    if (refusal.client_nonce != nonce_) return count(Drop::unexpected);
    if (hint_) return count(Drop::unexpected);  // the first one waits to be believed
    hint_ = refusal.reason;
    believe_hint_at_ = now + kHintPatience;
}

void Client::receive_cookie(std::span<const std::byte> datagram, Time now) {
    CookieReply reply;
    if (const std::optional<Drop> drop = read(datagram, reply)) return count(*drop);
    if (reply.client_nonce != nonce_ || introduction_.empty()) return count(Drop::unexpected);
    if (cookies_.has(reply.cookie)) return count(Drop::unexpected);
    cookies_.add(reply.cookie, entropy_.next());
    if (!cookies_.has_more()) return;
    if (cookie_ == 0) return send_handshake(now);
    next_attempt_ = std::min(next_attempt_, std::max(now, connect_sent_ + kCookieInterval));
}

void Client::receive_reset(std::span<const std::byte> datagram, Time now) {
    Reset reset;
    if (const std::optional<Drop> drop = read(datagram, reset)) return count(*drop);
    const bool is_ours = connection_ && config_.security == Security::sealed &&
                         connection_->session().send_id == reset.connection_id &&
                         equal_in_constant_time(reset.token, reset_token_);
    if (!is_ours) return count(Drop::bad_reset);
    if (!connection_->is_open()) return count(Drop::closed);
    connection_->close(DisconnectReason::server_restarted, {}, false, now);
}

void Client::receive_answer(std::span<const std::byte> datagram, Time now) {
    Answer answer;
    if (const std::optional<Drop> drop = read(datagram, answer)) return count(*drop);
    if (answer.client_nonce != nonce_) return count(Drop::unexpected);
    std::array<std::byte, kMaxAnswerBodyBytes> copy;
    const std::span<std::byte> body = std::span(copy).first(answer.body.size());
    std::copy(answer.body.begin(), answer.body.end(), body.begin());
    Verdict verdict;
    const std::optional<PacketCipher> cipher = open_answer(body, verdict, now);
    if (!cipher) return;
    if (verdict.is_accepted) return start(*cipher, verdict, now);
    server_schema_hash_ = verdict.schema_hash;
    fail(verdict.reason, verdict.text);
}

/// Prepares the body of connect. False if the server's key is none.
bool Client::introduce() {
    introduction_.assign(kConnectBodyBytes, std::byte(0));
    const std::span<std::byte> body(introduction_);
    const std::size_t offset = config_.security == Security::sealed ? kNoiseKeyBytes : 0;
    write(Introduction{config_.schema_hash, config_.connection.first_packet_number, hello_},
          body.subspan(offset).first<kIntroductionBytes>());
    if (config_.security == Security::insecure) return true;
    const auto prologue = handshake_prologue(config_.protocol_id, way(), nonce_);
    const Key ephemeral = entropy_.next_key();
    exchanges_.push_back({0, ephemeral, NoiseInitiator(prologue, config_.server_key, ephemeral)});
    return !is_missing(config_.server_key) && exchanges_.back().noise.write(body);
}

/// Prepares the body of connect for the present cookie: if that was here before, the same again.
void Client::introduce_with_token() {
    const TokenBody body = begin_token_body(token_->sealed, introduction_);
    write(Introduction{config_.schema_hash, config_.connection.first_packet_number, hello_},
          noise_payload(body.message));
    const auto found = std::find_if(exchanges_.begin(), exchanges_.end(),
                                    [&](const Exchange& exchange) { return exchange.cookie == cookie_; });
    const Key ephemeral = found == exchanges_.end() ? entropy_.next_key() : found->ephemeral;
    if (found != exchanges_.end()) {
        exchanges_.erase(found);
    } else if (exchanges_.size() == kTokenExchanges) {
        exchanges_.erase(exchanges_.begin());
    }
    const TokenPrologue prologue = token_prologue(config_.protocol_id, nonce_, cookie_, body.sealed);
    exchanges_.push_back({cookie_, ephemeral, NoiseInitiator(prologue, token_->key, ephemeral)});
    const bool is_written = exchanges_.back().noise.write(body.message);
    assert(is_written);  // there is no key of the server that could be none
    (void)is_written;
}

/// That to which `body` is the answer, having opened it; or null. The server may have accepted what came with
/// an earlier cookie.
NoiseInitiator* Client::exchange_of(std::span<std::byte> body) {
    for (std::size_t i = exchanges_.size(); i-- > 0;)
        if (exchanges_[i].noise.read(body)) return &exchanges_[i].noise;
    return nullptr;
}

/// The cipher of the connection that the verdict, if it accepts, begins. Nothing, and counts why, if this
/// is not the server's answer.
std::optional<PacketCipher> Client::open_answer(std::span<std::byte> body, Verdict& verdict, Time now) {
    ByteReader in(body);
    const bool is_sealed = way() != Way::insecure;
    const std::uint64_t server_nonce = is_sealed ? 0 : in.u64();
    NoiseInitiator* const exchange = is_sealed ? exchange_of(body) : nullptr;
    if (is_sealed && !exchange) {
        count(Drop::bad_tag);
        return std::nullopt;
    }
    if (!read(is_sealed ? noise_payload(body) : in.rest(), verdict)) {
        count(Drop::bad_handshake);
        return std::nullopt;
    }
    if (is_sealed) {
        const NoiseKeys keys = exchange->split();
        return PacketCipher::sealed(config_.protocol_id, keys.to_responder, keys.to_initiator,
                                    config_.connection.first_packet_number, now);
    }
    const InsecureKeys keys = derive_insecure_keys(config_.protocol_id, config_.schema_hash, nonce_,
                                                   server_nonce, verdict.connection_id);
    return PacketCipher::insecure(config_.protocol_id, keys.client_to_server, keys.server_to_client);
}

void Client::start(const PacketCipher& cipher, const Verdict& verdict, Time now) {
    Session session;
    session.peer = peer_;
    session.address = server_;
    session.send_id = verdict.connection_id;
    session.send_first = config_.connection.first_packet_number;
    session.receive_first = verdict.first_packet_number;
    connection_ = std::make_unique<Connection>(config_.connection, session, cipher, handler_, sink_, now);
    reset_token_ = verdict.reset_token;
    newest_challenge_ = 0;
    end_handshake();
    connection_->ping(now);  // the server counts us in when it hears from us
    connection_->announce();
}

}  // namespace shoal::net
