#include "connector.h"

#include "../client.h"

namespace shoal::net::impl {
namespace {

constexpr Duration kFirstBackoff = std::chrono::milliseconds(200);
constexpr Duration kMaxBackoff = std::chrono::milliseconds(300);
// A refusal is believed only after this time, if no cookie comes; else after so many tries of each. Anyone
// who sees our requests can forge refusals.
constexpr Duration kHintPatience = std::chrono::seconds(1);
constexpr int kTriesBeforeHint = 3;
constexpr int kEnoughHints = 3;  // the right server, too, refuses packets that were damaged on their way
/// If only one cookie came, another one is requested after this many connects, because the first may have
/// expired. Until it comes, the first is tried on.
constexpr int kConnectsPerCookie = 4;
/// Pause between tries of different cookies of one request. Each try is a connect of 1,200 bytes: by forged
/// cookies strangers can make the client send 30 kB/s to the server.
constexpr Duration kCookieInterval = std::chrono::milliseconds(40);
/// Enough to read the answers to the connects of the last 1.3 s. A forged answer costs one key agreement.
constexpr std::size_t kMaxExchanges = 32;

}  // namespace

void Connector::begin(const Servers& servers, const ClientToken* token, std::span<const std::byte> hello,
                      Time now) {
    end();
    is_active_ = true;
    assert(!servers.addresses.empty());
    servers_ = servers.addresses;
    errors_.assign(servers_.size(), NetError::none);
    next_server_ = 0;
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
    if (!fault_.empty()) return;
    const std::span<const std::byte> sealed = token ? std::span(token->sealed) : std::span<std::byte>();
    write(ClientHello{config_.schema_hash, config_.connection.first_packet_number, sealed, hello},
          client_hello_);
}

/// Returns why no attempt is possible, or an empty text.
std::string_view Connector::fault_of(const ClientToken* token, std::span<const std::byte> hello) const {
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

void Connector::end() {
    is_active_ = false;
    cookies_.clear();
    exchanges_.clear();
    wipe(client_hello_);
}

Connector::Outcome Connector::fail(DisconnectReason reason, std::string_view text) {
    end();
    return {.verdict = {.reason = reason, .text = text}, .server = {}, .keys = {}};
}

std::optional<Connector::Outcome> Connector::receive(PacketKind kind, const Address& from,
                                                     std::span<const std::byte> datagram, Time now) {
    const auto server = std::ranges::find(servers_, from);
    const std::size_t index = static_cast<std::size_t>(server - servers_.begin());
    const bool is_expected = is_active_ && fault_.empty();
    if (!is_expected || server == servers_.end()) {
        count(is_expected ? Drop::wrong_address : Drop::unexpected);
        return std::nullopt;
    }
    stats_.handshake_bytes_received += datagram.size();
    if (kind == PacketKind::answer) return receive_answer(index, datagram);
    if (kind == PacketKind::cookie) receive_cookie(index, datagram, now);
    if (kind == PacketKind::refuse) receive_refusal(datagram, now);
    return std::nullopt;
}

void Connector::flush(Time now) {
    if (is_active_ && fault_.empty() && now >= next_send_) send_next(now);
}

std::optional<Connector::Outcome> Connector::update(Time now) {
    if (!is_active_) return std::nullopt;
    if (!fault_.empty()) return fail(DisconnectReason::misconfigured, fault_);
    // An address that turns out to be unreachable gives its turn to the next, once.
    for (std::size_t i = 0; i < servers_.size(); ++i)
        if (note_error(i) && cookies_.came() == 0 && round_ < servers_.size()) next_send_ = now;
    const bool can_send =
        std::ranges::any_of(errors_, [](NetError e) { return e != NetError::wrong_family; });
    const bool is_over = now - started_ >= config_.connect_timeout || !can_send;
    if (hint_ && (is_over ? does_hint_explain() : believes_hint(now))) {
        const std::string_view text = *hint_ != DisconnectReason::refused_security ? ""
                                      : security_ == Security::insecure ? "the server wants sealed packets"
                                                                        : "the server is insecure";
        return fail(*hint_, text);
    }
    if (!is_over) return std::nullopt;
    error_text_ = why_unreachable();
    return fail(DisconnectReason::unreachable, error_text_);
}

/// Returns whether there is a new reason why packets to this address fail.
bool Connector::note_error(std::size_t server) {
    const NetError error = sink_.error_to(servers_[server]);
    const bool is_new = error != NetError::none && errors_[server] == NetError::none;
    if (error != NetError::none) errors_[server] = error;
    return is_new;
}

std::string Connector::why_unreachable() const {
    std::string text;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
        if (errors_[i] == NetError::none) continue;
        if (!text.empty()) text += "; ";
        text += servers_[i].to_string() + ": ";
        text += describe(errors_[i]);
    }
    return text.empty() && !exchanges_.empty() ? "it did not accept in time" : text;
}

/// Returns whether the refusals explain that no answer came: one came for every three connect packets. A
/// server with another key refuses all of them, the right one only damaged ones.
bool Connector::does_hint_explain() const {
    return connects_ == 0 || 3 * hints_ >= connects_;
}

/// Returns whether to believe refusals before connect_timeout, which needs kEnoughHints of them. Without any
/// cookie, they are believed after kHintPatience. With cookies, they are believed after half of
/// connect_timeout, if does_hint_explain() and every cookie was tried kTriesBeforeHint times.
bool Connector::believes_hint(Time now) const {
    if (hints_ < kEnoughHints) return false;
    if (exchanges_.empty()) return cookies_.came() == 0 && now - hinted_ >= kHintPatience;
    return does_hint_explain() && !cookies_.has_more() && now - started_ >= config_.connect_timeout / 2 &&
           std::ranges::all_of(exchanges_,
                               [](const Exchange& exchange) { return exchange.tries >= kTriesBeforeHint; });
}

void Connector::send_next(Time now) {
    if (const auto cookie = cookies_.take(entropy_.next())) {
        repeats_ = 0;
        backoff_ = kFirstBackoff;
        if (begin_exchange(*cookie)) send_connect(now);
    } else {
        const bool has_cookie = !exchanges_.empty();
        if (has_cookie) send_connect(now);
        if (!has_cookie || cookies_.came() != 1 || repeats_ > kConnectsPerCookie) send_request(now);
    }
}

void Connector::send_request(Time now) {
    cookies_.clear();
    round_ += 1;
    wait(backoff_, now);
    for (std::size_t tried = 0; tried < servers_.size(); ++tried) {
        const std::size_t server = next_server_;
        next_server_ = (next_server_ + 1) % servers_.size();
        send({.kind = PacketKind::request, .security = security_}, server);
        if (!note_error(server)) return;
    }
}

/// Makes the exchange of this cookie the last in exchanges_. A cookie keeps its exchange and message until
/// kMaxExchanges others were tried. Each exchange has an ephemeral key of its own, because a key must not be
/// used with two prologues. Returns false if the server's public key is a low-order point.
bool Connector::begin_exchange(const Cookie& cookie) {
    if (const auto known = find(cookie); known != exchanges_.end()) {
        std::rotate(known, known + 1, exchanges_.end());
        return true;
    }
    if (exchanges_.size() == kMaxExchanges) exchanges_.erase(exchanges_.begin());
    const auto prologue = handshake_prologue(config_.protocol_id, security_, nonce_, cookie.number);
    exchanges_.push_back({cookie, entropy_.next_key(), NoiseExchange(prologue, server_key_)});
    Exchange& exchange = exchanges_.back();
    std::ranges::copy(client_hello_, noise_payload(exchange.message).begin());
    if (exchange.noise.write(exchange.ephemeral, exchange.message)) return true;
    wipe(exchange.message);
    fault_ = "the server's public key is none";
    return false;
}

void Connector::send_connect(Time now) {
    Exchange& exchange = exchanges_.back();
    exchange.tries += 1;
    exchange.round = round_;
    repeats_ += 1;
    connects_ += 1;
    connect_sent_ = now;
    send({.kind = PacketKind::connect, .cookie = exchange.cookie.number, .message = exchange.message},
         exchange.cookie.from);
    wait(cookies_.has_more() ? kCookieInterval : backoff_, now);
}

/// The next packet follows after this time, or when a cookie comes.
void Connector::wait(Duration time, Time now) {
    next_send_ = now + time;
    backoff_ = std::min(backoff_ * 3 / 2, kMaxBackoff);
}

void Connector::send(HandshakePacket packet, std::size_t server) {
    packet.client_nonce = nonce_;
    packet.protocol_id = config_.protocol_id;
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const std::span<const std::byte> datagram = write(packet, buffer);
    stats_.handshake_bytes_sent += datagram.size();
    errors_[server] = NetError::none;
    sink_.send(servers_[server], datagram);
}

void Connector::receive_cookie(std::size_t from, std::span<const std::byte> datagram, Time now) {
    HandshakePacket reply{.kind = PacketKind::cookie};
    if (const std::optional<Drop> drop = read(datagram, reply)) return count(*drop);
    const Cookie cookie(reply.cookie, from);
    const auto known = find(cookie);
    const bool is_tried = known != exchanges_.end() && known->round == round_;
    if (reply.client_nonce != nonce_ || is_tried || cookies_.has(cookie)) return count(Drop::unexpected);
    const bool is_first = cookies_.came() == 0;
    cookies_.add(cookie, entropy_.next());
    if (!cookies_.has_more()) return;
    next_send_ = is_first ? now : std::min(next_send_, std::max(now, connect_sent_ + kCookieInterval));
    if (is_first) send_next(now);
}

void Connector::receive_refusal(std::span<const std::byte> datagram, Time now) {
    HandshakePacket refusal{.kind = PacketKind::refuse};
    if (const std::optional<Drop> drop = read(datagram, refusal)) return count(*drop);
    const bool is_other_reason = hint_ && refusal.reason != hint_;
    if (refusal.client_nonce != nonce_ || is_other_reason) return count(Drop::unexpected);
    if (!hint_) hinted_ = now;
    hint_ = refusal.reason;
    hints_ += 1;
}

std::optional<Connector::Outcome> Connector::receive_answer(std::size_t from,
                                                            std::span<const std::byte> datagram) {
    const auto drop = [&](Drop reason) {
        count(reason);
        return std::nullopt;
    };
    HandshakePacket answer{.kind = PacketKind::answer};
    if (const std::optional<Drop> reason = read(datagram, answer)) return drop(*reason);
    const auto exchange = find({answer.cookie, from});
    if (answer.client_nonce != nonce_ || exchange == exchanges_.end()) return drop(Drop::unexpected);
    const std::span<std::byte> message = std::span(answer_).first(answer.message.size());
    std::ranges::copy(answer.message, message.begin());
    if (!exchange->noise.read(exchange->ephemeral, message)) return drop(Drop::bad_tag);
    Outcome outcome;
    if (!read(noise_payload(message), outcome.verdict)) return drop(Drop::bad_handshake);
    outcome.keys = exchange->noise.split();
    outcome.server = servers_[from];
    end();
    return outcome;
}

std::vector<Connector::Exchange>::iterator Connector::find(const Cookie& cookie) {
    return std::ranges::find(exchanges_, cookie, &Exchange::cookie);
}

}  // namespace shoal::net::impl
