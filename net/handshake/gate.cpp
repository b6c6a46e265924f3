#include "gate.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <string>

#include "../host.h"
#include "server_key.h"

namespace shoal::net {
namespace {

constexpr std::uint32_t kMaxPeers = 60'000;
constexpr std::uint32_t kMaxPending = 5'000;  // 400 bytes each
// Places for the last words of those who leave, beside a sixteenth of the peers.
constexpr std::uint32_t kLeavingPlaces = 16;
// A place rests until so many others were taken and left.
constexpr std::size_t kRestingPlaces = 16;
constexpr Duration kResetSlice = std::chrono::milliseconds(100);

std::uint32_t pending_limit(const HostConfig& config) {
    const double seconds = std::chrono::duration<double>(config.handshake_timeout).count();
    return static_cast<std::uint32_t>(
        std::clamp(config.max_handshakes_per_s * seconds, 16.0, double(kMaxPending)));
}

}  // namespace

/// A connect with a valid cookie, while it is being answered.
struct Gate::Attempt {
    Address from;
    Connect connect;
    Time now;
    std::uint64_t name;  // of the connect
    Networks networks;
    NoiseResponder noise;
    std::array<std::byte, kConnectMessageBytes> message{};
    Introduction introduction{};  // views into message
    bool has_token = false;       // an authentic one, in token_
    std::string refusal{};        // the application's words

    ~Attempt() { wipe(message); }
};

Gate::Gate(const HostConfig& config, bool is_open, Handler& handler, Sink& sink, Entropy& entropy,
           EndpointStats& stats)
    : config_(config),
      handler_(handler),
      sink_(sink),
      entropy_(entropy),
      stats_(stats),
      is_open_(is_open),
      key_(config.security == Security::sealed ? config.key : insecure_server_key()),
      public_key_(public_key(key_)),
      secret_(entropy.next_sip_key()),
      max_peers_(std::clamp(config.max_peers, 1u, kMaxPeers)),
      max_pending_(pending_limit(config)),
      max_places_(std::min(max_peers_ + max_peers_ / 16 + kLeavingPlaces + max_pending_, 0x10000u)),
      index_end_(std::bit_ceil(max_places_)) {
    // Everyone has the key of insecure servers: their resets are good within one run.
    const bool is_sealed = config.security == Security::sealed;
    reset_key_ = derive_reset_key(is_sealed ? key_ : entropy.next_key(), public_key_, config.server_id);
    if (!is_sealed || is_missing(config.tokens.backend_key)) return;
    assert(!config.tokens.servers.empty() && "TokenConfig::servers: no token is for this host");
    history_.emplace(config.tokens.max_remembered);
    token_.claims.reserve(kMaxClaimsBytes);
}

void Gate::receive_request(const Address& from, std::span<const std::byte> datagram, Time now) {
    Request request;
    if (const std::optional<Drop> drop = read(datagram, request)) return count(*drop);
    stats_.handshake_bytes_received += datagram.size();
    if (request.version != kWireVersion || request.protocol_id != config_.protocol_id)
        return hint(from, request.client_nonce, DisconnectReason::refused_protocol);
    if (!is_open_) return hint(from, request.client_nonce, DisconnectReason::refused_key);
    if (request.security != config_.security)
        return hint(from, request.client_nonce, DisconnectReason::refused_security);
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const std::uint64_t cookie = make_cookie(secret_, from, request.client_nonce, now);
    stats_.cookies_sent += 1;
    reply(from, write(CookieReply{request.client_nonce, cookie}, buffer));
}

void Gate::receive_connect(const Address& from, std::span<const std::byte> datagram, Time now) {
    Connect connect;
    if (const std::optional<Drop> drop = read(datagram, connect)) return count(*drop);
    stats_.handshake_bytes_received += datagram.size();
    if (connect.version != kWireVersion || connect.protocol_id != config_.protocol_id)
        return hint(from, connect.client_nonce, DisconnectReason::refused_protocol);
    const bool is_proven = is_cookie_valid(secret_, from, connect.client_nonce, connect.cookie, now);
    if (!is_open_ || !is_proven) return count(Drop::bad_cookie);
    const std::uint64_t name = name_of(from, connect);
    if (const auto found = attempts_.find(name); found != attempts_.end())
        return repeat_answer(from, found->second, now);
    const Networks networks = networks_of(from);
    const std::uint32_t total = std::max(config_.max_handshakes_per_s / 10, 1u);
    // A pending client outlives a round trip, however many come from its machine.
    if (!attempt_limit_.take(networks, config_.max_pending_per_ip, total, entropy_.next(), now))
        return count(Drop::too_many_attempts);

    const auto prologue =
        handshake_prologue(config_.protocol_id, config_.security, connect.client_nonce, connect.cookie);
    Attempt attempt{from, connect, now, name, networks, NoiseResponder(prologue, public_key_)};
    std::copy(connect.message.begin(), connect.message.end(), attempt.message.begin());
    if (!attempt.noise.read(key_, attempt.message)) {
        count(Drop::bad_tag);  // sealed for another key
        return hint(from, connect.client_nonce, DisconnectReason::refused_key);
    }
    if (!read(noise_payload(attempt.message), attempt.introduction)) return count(Drop::bad_handshake);
    std::optional<Verdict> verdict = judge(attempt);
    wipe(token_.claims);
    if (verdict) accept(attempt, *verdict);
}

/// Our answer was lost, or the connect came twice.
void Gate::repeat_answer(const Address& to, std::uint32_t index, Time now) {
    const Place& place = places_[index];
    if (is_shut_down_ || place.state == State::leaving) return count(Drop::closed);
    if (place.state != State::pending) return count(Drop::unexpected);
    stats_.answers_sent += 1;
    pending_[place.pending].since = now;  // for as long as the cookie holds
    reply(to, pending_[place.pending].answer);
}

/// The verdict, if the connect gets one.
std::optional<Verdict> Gate::judge(Attempt& attempt) {
    Verdict verdict;
    verdict.schema_hash = config_.schema_hash;
    const auto refuse = [&](DisconnectReason reason, std::string_view text) {
        verdict.reason = reason;
        verdict.text = text.substr(0, kMaxReasonBytes);
        return verdict;
    };
    if (const auto why = why_no_token(attempt, attempt.now))
        return refuse(DisconnectReason::refused_token, *why);
    if (is_shut_down_) return refuse(DisconnectReason::refused, "the server shuts down");
    // The same token as a client that is pending: the same one, which lost our answer and had another cookie
    // since. It knows the exchange that the answer belongs to.
    const auto same = attempt.has_token ? attempts_.find(name_of_token()) : attempts_.end();
    if (same != attempts_.end() && places_[same->second].state == State::pending) {
        repeat_answer(attempt.from, same->second, attempt.now);
        return std::nullopt;
    }
    const bool schema_matches = attempt.introduction.schema_hash == config_.schema_hash;
    if (schema_matches) {
        const bool replaces = homes_.contains(hash_of(attempt.from));
        if (const auto why = why_full(attempt.from, replaces))
            return refuse(DisconnectReason::refused_full, *why);
        if (!make_room(attempt.networks)) {
            count(Drop::too_many_attempts);
            return std::nullopt;
        }
        if (attempt.has_token) {
            if (const auto why = history_->use(token_.id, token_.expires_s, unix_time_s(attempt.now)))
                return refuse(DisconnectReason::refused_token, describe(*why));
        }
    }
    Admission admission;
    if (schema_matches) admission.peer = next_peer();
    admission.address = attempt.from;
    admission.schema_hash = attempt.introduction.schema_hash;
    admission.schema_matches = schema_matches;
    admission.hello = attempt.introduction.hello;
    if (attempt.has_token) {
        admission.has_token = true;
        admission.client_id = token_.client_id;
        admission.claims = token_.claims;
    }
    const bool is_welcome = handler_.on_admit(admission, attempt.refusal);
    if (!schema_matches) return refuse(DisconnectReason::refused_schema, attempt.refusal);
    if (!is_welcome) return refuse(DisconnectReason::refused, attempt.refusal);
    verdict.is_accepted = true;
    verdict.first_packet_number = config_.connection.first_packet_number;
    const std::uint32_t random = static_cast<std::uint32_t>(entropy_.next());
    verdict.connection_id = admission.peer.index() | (random & ~(index_end_ - 1));
    verdict.reset_token = reset_token(verdict.connection_id, attempt.from);
    return verdict;
}

/// Opens the token, if there is one. Returns why it is no good.
std::optional<std::string_view> Gate::why_no_token(Attempt& attempt, Time now) {
    const TokenConfig& tokens = config_.tokens;
    const std::span<const std::byte> sealed = attempt.introduction.token;
    if (!history_)
        return sealed.empty() ? std::nullopt : std::optional("this server takes no connect tokens");
    if (sealed.empty())
        return tokens.is_required ? std::optional("the server wants a connect token") : std::nullopt;
    if (const auto error = open_token(sealed, tokens.backend_key, config_.protocol_id, tokens.servers,
                                      unix_time_s(now), token_))
        return describe(*error);
    attempt.has_token = true;
    return std::nullopt;
}

std::optional<std::string_view> Gate::why_full(const Address& from, bool replaces) const {
    if (peers_ >= max_peers_ + replaces) return "";
    const std::uint32_t limit = config_.max_peers_per_ip;
    if (limit == 0 || from.is_loopback()) return std::nullopt;
    const bool has_room = peer_counts_.has_room(networks_of(from), std::uint64_t(limit) + replaces);
    return has_room ? std::nullopt : std::optional("too many from your address");
}

/// Room for one more pending handshake; a machine at its limit gives up its own oldest one. False if there
/// is none: those of other machines stay.
bool Gate::make_room(const Networks& networks) {
    const bool has_room = pending_.size() < max_pending_ &&
                          (!free_.empty() || places_.size() < max_places_) &&
                          pending_counts_.has_room(networks, config_.max_pending_per_ip);
    if (has_room) return true;
    const Pending* oldest = nullptr;
    for (const Pending& each : pending_)
        if (each.machine == networks.machine() && (!oldest || each.since < oldest->since)) oldest = &each;
    if (!oldest) return false;
    stats_.handshakes_expired += 1;
    give_up(oldest->peer);
    return true;
}

/// The name of the next one to be accepted.
PeerId Gate::next_peer() const {
    const bool reuses = free_.size() > kRestingPlaces || places_.size() == max_places_;
    const std::uint32_t index = reuses && !free_.empty() ? free_[0] : std::uint32_t(places_.size());
    const std::uint32_t former = index < places_.size() ? places_[index].generation : 0u;
    return PeerId{index | (former == 0xFFFF ? 1 : former + 1) << 16};
}

/// Answers, and remembers whom it accepted.
void Gate::accept(Attempt& attempt, Verdict& verdict) {
    std::array<std::byte, kMaxAnswerMessageBytes> payload;
    const std::span<std::byte> body = std::span(payload).subspan(kNoiseKeyBytes);
    const std::size_t size = write(verdict, body.first<kMaxVerdictBytes>());
    const std::span<std::byte> message = std::span(payload).first(size + kNoiseOverheadBytes);
    attempt.noise.write(entropy_.next_key(), message);
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const auto answer = write(Answer{attempt.connect.client_nonce, attempt.connect.cookie, message}, buffer);
    if (verdict.is_accepted) remember(attempt, verdict, answer);
    (verdict.is_accepted ? stats_.answers_sent : stats_.refusals_sent) += 1;
    reply(attempt.from, answer);
}

void Gate::remember(Attempt& attempt, const Verdict& verdict, std::span<const std::byte> answer) {
    const PeerId peer = next_peer();
    const std::uint32_t index = peer.index();
    if (index == places_.size()) {
        places_.emplace_back();
    } else {
        free_.pop();
    }
    Pending& pending = pending_.emplace_back();
    pending.peer = peer;
    pending.address = attempt.from;
    pending.machine = attempt.networks.machine();
    pending.connection_id = verdict.connection_id;
    pending.first_packet_number = attempt.introduction.first_packet_number;
    pending.keys = attempt.noise.split();
    pending.since = attempt.now;
    assert(answer.size() == pending.answer.size());
    std::copy(answer.begin(), answer.end(), pending.answer.begin());
    const auto generation = static_cast<std::uint16_t>(peer.value >> 16);
    const auto at = static_cast<std::uint32_t>(pending_.size() - 1);
    places_[index] = {State::pending,        generation,      at, attempt.name, 0,
                      hash_of(attempt.from), attempt.networks};
    attempts_[attempt.name] = index;
    if (attempt.has_token) attempts_[places_[index].token = name_of_token()] = index;
    pending_counts_.add(attempt.networks);
}

void Gate::send_reset(const Address& to, std::uint32_t connection_id, std::size_t bytes, Time now) {
    if (!is_open_ || bytes < kResetBytes) return;
    if (now - resets_since_ >= kResetSlice) {
        resets_since_ = now;
        resets_ = 0;
    }
    if (resets_ >= (config_.max_resets_per_s + 9) / 10) return;
    resets_ += 1;
    stats_.resets_sent += 1;
    std::array<std::byte, kResetBytes> buffer;
    sink_.send(to, write(Reset{connection_id, reset_token(connection_id, to)}, buffer));
}

ResetToken Gate::reset_token(std::uint32_t connection_id, const Address& client) const {
    return make_reset_token(reset_key_, config_.protocol_id, connection_id, client);
}

void Gate::update(Time now) {
    for (std::size_t i = pending_.size(); i-- > 0;) {
        if (now - pending_[i].since < config_.handshake_timeout) continue;
        stats_.handshakes_expired += 1;
        give_up(pending_[i].peer);  // another one, seen already, comes into its place
    }
}

const Gate::Pending* Gate::find(std::uint32_t connection_id) const {
    const std::uint32_t index = index_of(connection_id);
    if (index >= places_.size() || places_[index].state != State::pending) return nullptr;
    const Pending& pending = pending_[places_[index].pending];
    return pending.connection_id == connection_id ? &pending : nullptr;
}

std::optional<std::uint32_t> Gate::at_home(const Address& address) const {
    const auto found = homes_.find(hash_of(address));
    return found == homes_.end() ? std::nullopt : std::optional(found->second);
}

void Gate::confirm(PeerId peer, bool is_welcome) {
    Place& place = places_[peer.index()];
    assert(place.state == State::pending);
    forget_pending(peer.index());
    place.state = is_welcome ? State::peer : State::leaving;
    if (!is_welcome) return;
    peers_ += 1;
    peer_counts_.add(place.networks);
    homes_[place.home] = peer.index();
}

void Gate::give_up(PeerId peer) {
    forget_pending(peer.index());
    free_place(peer.index());
}

void Gate::leave(PeerId peer) {
    Place& place = places_[peer.index()];
    if (place.state != State::peer) return;
    place.state = State::leaving;
    peers_ -= 1;
    peer_counts_.remove(place.networks);
    leave_home(peer.index());
}

void Gate::settle(PeerId peer, const Address& address) {
    Place& place = places_[peer.index()];
    if (place.state != State::peer) return;
    leave_home(peer.index());
    place.home = hash_of(address);
    homes_[place.home] = peer.index();
}

void Gate::release(PeerId peer) {
    assert(places_[peer.index()].state == State::leaving);
    free_place(peer.index());
}

void Gate::forget_pending(std::uint32_t index) {
    const std::uint32_t at = places_[index].pending;
    pending_counts_.remove(places_[index].networks);
    places_[pending_.back().peer.index()].pending = at;
    pending_[at] = pending_.back();
    pending_.pop_back();
}

void Gate::leave_home(std::uint32_t index) {
    const auto home = homes_.find(places_[index].home);
    if (home != homes_.end() && home->second == index) homes_.erase(home);
}

void Gate::free_place(std::uint32_t index) {
    attempts_.erase(places_[index].attempt);
    attempts_.erase(places_[index].token);
    places_[index].state = State::free;
    free_.push(index);
}

std::uint64_t Gate::unix_time_s(Time now) const {
    return config_.tokens.unix_time_s +
           static_cast<std::uint64_t>(now / std::chrono::duration_cast<Time>(std::chrono::seconds(1)));
}

/// A refusal that anyone could have sent, for clients with whom we share no key.
void Gate::hint(const Address& to, std::uint64_t client_nonce, DisconnectReason reason) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    stats_.refusals_sent += 1;
    reply(to, write(Refuse{client_nonce, reason}, buffer));
}

void Gate::reply(const Address& to, std::span<const std::byte> datagram) {
    stats_.handshake_bytes_sent += datagram.size();
    sink_.send(to, datagram);
}

std::uint64_t Gate::hash_of(const Address& address) const {
    return siphash(secret_, {address.port, address.scope, std::uint64_t(address.family)},
                   std::as_bytes(std::span(address.ip)));
}

/// Address, nonce and ephemeral key: another client cannot have all three.
std::uint64_t Gate::name_of(const Address& from, const Connect& connect) const {
    return siphash(secret_, {hash_of(from), connect.client_nonce}, connect.message.first(kNoiseKeyBytes));
}

std::uint64_t Gate::name_of_token() const {
    return siphash(secret_, {}, token_.id);
}

}  // namespace shoal::net
