#include "connector.h"

#include <algorithm>
#include <cassert>

#include "../client.h"

namespace shoal::net {
namespace {

constexpr Duration kFirstBackoff = std::chrono::milliseconds(200);
constexpr Duration kMaxBackoff = std::chrono::milliseconds(800);
/// How long a refusal waits, while no cookie came. Whoever sees our requests can forge one.
constexpr Duration kHintPatience = std::chrono::seconds(1);
/// Tries of each cookie before a refusal is believed, if cookies came.
constexpr int kTriesBeforeHint = 3;
constexpr int kConnectsPerCookie = 4;  // then the cookie may have expired: ask for another
/// Between cookies that answer the same request. Each draws a connect of 1,200 bytes, so that strangers, with
/// whatever they forge, can have us send 30 kB/s, to the server.
constexpr Duration kCookieInterval = std::chrono::milliseconds(40);
/// Whose answers are understood: those of the last 1.3 s. A forged answer costs one key agreement.
constexpr std::size_t kMaxExchanges = 32;

}  // namespace

void Connector::begin(const Address& server, const ClientToken* token, std::span<const std::byte> hello,
                      std::string_view fault, Time now) {
    end();
    is_active_ = true;
    server_ = server;
    fault_ = fault;
    hint_.reset();
    hints_ = connects_ = 0;
    nonce_ = entropy_.next();
    round_ = 0;
    started_ = next_send_ = now;
    backoff_ = kFirstBackoff;
    security_ = token ? Security::sealed : config_.security;
    server_key_ = token                           ? token->server_key
                  : security_ == Security::sealed ? config_.server_key
                                                  : public_key(insecure_server_key());
    if (!fault.empty()) return;
    const std::span<const std::byte> sealed = token ? std::span(token->sealed) : std::span<std::byte>();
    write(Introduction{config_.schema_hash, config_.connection.first_packet_number, sealed, hello},
          introduction_);
}

void Connector::end() {
    is_active_ = false;
    cookies_.clear();
    exchanges_.clear();
    wipe(introduction_);
}

std::optional<Connector::Outcome> Connector::receive(PacketKind kind, std::span<const std::byte> datagram,
                                                     Time now) {
    if (!is_active_ || !fault_.empty()) {
        count(Drop::unexpected);
        return std::nullopt;
    }
    stats_.handshake_bytes_received += datagram.size();
    if (kind == PacketKind::answer) return receive_answer(datagram);
    if (kind == PacketKind::cookie) {
        receive_cookie(datagram, now);
    } else {
        receive_refusal(datagram, now);
    }
    return std::nullopt;
}

std::optional<Connector::Outcome> Connector::update(Time now) {
    if (!is_active_) return std::nullopt;
    if (!fault_.empty()) return fail(DisconnectReason::misconfigured, fault_);
    const bool is_over = now - started_ >= config_.connect_timeout;
    if (hint_ && (is_over ? does_hint_explain() : believes_hint(now))) return fail(*hint_, text_of(*hint_));
    if (!is_over) return std::nullopt;
    return fail(DisconnectReason::unreachable, exchanges_.empty() ? "" : "it did not accept in time");
}

void Connector::flush(Time now) {
    if (!is_active_ || !fault_.empty() || now < next_send_) return;
    if (const auto cookie = cookies_.take(entropy_.next())) {
        repeats_ = 0;
        backoff_ = kFirstBackoff;
        return send_connect(exchange_for(*cookie), now);
    }
    const bool repeats = cookies_.is_single() && !exchanges_.empty() && repeats_ < kConnectsPerCookie;
    if (repeats) return send_connect(exchanges_.back(), now);
    send_request(now);
}

void Connector::receive_cookie(std::span<const std::byte> datagram, Time now) {
    CookieReply reply;
    if (const std::optional<Drop> drop = read(datagram, reply)) return count(*drop);
    const Exchange* const known = find(reply.cookie);
    const bool is_tried = known && known->round == round_;
    if (reply.client_nonce != nonce_ || is_tried || cookies_.has(reply.cookie))
        return count(Drop::unexpected);
    const bool is_first = !cookies_.has_any();
    cookies_.add(reply.cookie, entropy_.next());
    if (!cookies_.has_more()) return;
    next_send_ = is_first ? now : std::min(next_send_, std::max(now, connect_sent_ + kCookieInterval));
    if (is_first) flush(now);
}

void Connector::receive_refusal(std::span<const std::byte> datagram, Time now) {
    Refuse refusal;
    if (const std::optional<Drop> drop = read(datagram, refusal)) return count(*drop);
    if (refusal.client_nonce != nonce_) return count(Drop::unexpected);
    if (refusal.reason == hint_) hints_ += 1;
    if (hint_) return count(Drop::unexpected);
    hint_ = refusal.reason;
    hints_ = 1;
    hinted_ = now;
}

std::optional<Connector::Outcome> Connector::receive_answer(std::span<const std::byte> datagram) {
    const auto drop = [&](Drop reason) {
        count(reason);
        return std::nullopt;
    };
    Answer answer;
    if (const std::optional<Drop> why = read(datagram, answer)) return drop(*why);
    Exchange* const exchange = find(answer.cookie);
    if (answer.client_nonce != nonce_ || !exchange) return drop(Drop::unexpected);
    const std::span<std::byte> message = std::span(answer_).first(answer.message.size());
    std::copy(answer.message.begin(), answer.message.end(), message.begin());
    if (!exchange->noise.read(message)) return drop(Drop::bad_tag);
    Outcome outcome;
    if (!read(noise_payload(message), outcome.verdict)) return drop(Drop::bad_handshake);
    outcome.keys = exchange->noise.split();
    end();
    return outcome;
}

Connector::Exchange* Connector::find(std::uint64_t cookie) {
    const auto found = std::find_if(exchanges_.begin(), exchanges_.end(),
                                    [&](const Exchange& exchange) { return exchange.cookie == cookie; });
    return found == exchanges_.end() ? nullptr : &*found;
}

void Connector::send_request(Time now) {
    cookies_.clear();
    round_ += 1;
    std::array<std::byte, kMaxDatagramBytes> buffer;
    send(write(Request{kWireVersion, nonce_, config_.protocol_id, security_}, buffer));
    next_send_ = now + backoff_;
    backoff_ = std::min(backoff_ * 3 / 2, kMaxBackoff);
}

/// Of a cookie that was here before, the same: never one ephemeral key with two prologues, nor two messages
/// for one cookie.
Connector::Exchange& Connector::exchange_for(std::uint64_t cookie) {
    if (Exchange* const known = find(cookie)) {
        std::rotate(exchanges_.begin() + (known - exchanges_.data()),
                    exchanges_.begin() + (known - exchanges_.data()) + 1, exchanges_.end());
        return exchanges_.back();
    }
    if (exchanges_.size() == kMaxExchanges) exchanges_.erase(exchanges_.begin());
    const auto prologue = handshake_prologue(config_.protocol_id, security_, nonce_, cookie);
    const Key ephemeral = entropy_.next_key();
    exchanges_.push_back({cookie, ephemeral, NoiseInitiator(prologue, server_key_, ephemeral)});
    return exchanges_.back();
}

void Connector::send_connect(Exchange& exchange, Time now) {
    std::array<std::byte, kConnectMessageBytes> message;
    std::copy(introduction_.begin(), introduction_.end(), noise_payload(message).begin());
    const auto prologue = handshake_prologue(config_.protocol_id, security_, nonce_, exchange.cookie);
    exchange.noise = NoiseInitiator(prologue, server_key_, exchange.ephemeral);
    if (!exchange.noise.write(message)) {
        wipe(message);
        fault_ = "the server's public key is none";
        return;
    }
    std::array<std::byte, kMaxDatagramBytes> buffer;
    send(write(Connect{kWireVersion, nonce_, config_.protocol_id, exchange.cookie, message}, buffer));
    exchange.tries += 1;
    exchange.round = round_;
    repeats_ += 1;
    connects_ += 1;
    connect_sent_ = now;
    next_send_ = now + (cookies_.has_more() ? kCookieInterval : backoff_);
    backoff_ = std::min(backoff_ * 3 / 2, kMaxBackoff);
}

void Connector::send(std::span<const std::byte> datagram) {
    stats_.handshake_bytes_sent += datagram.size();
    sink_.send(server_, datagram);
}

bool Connector::does_hint_explain() const {
    return connects_ == 0 || 3 * hints_ >= connects_;
}

/// Before any cookie, after a second without one. Once a server answers, a refusal only explains why half of
/// the time passed in vain, although every cookie was tried again and again.
bool Connector::believes_hint(Time now) const {
    if (exchanges_.empty()) return !cookies_.has_any() && now - hinted_ >= kHintPatience;
    return does_hint_explain() && !cookies_.has_more() && now - started_ >= config_.connect_timeout / 2 &&
           std::all_of(exchanges_.begin(), exchanges_.end(),
                       [](const Exchange& exchange) { return exchange.tries >= kTriesBeforeHint; });
}

Connector::Outcome Connector::fail(DisconnectReason reason, std::string_view text) {
    Outcome outcome;
    outcome.verdict.reason = reason;
    outcome.verdict.text = text;
    end();
    return outcome;
}

std::string_view Connector::text_of(DisconnectReason hint) const {
    if (hint != DisconnectReason::refused_security) return {};
    return security_ == Security::insecure ? "the server wants sealed packets" : "the server is insecure";
}

}  // namespace shoal::net
