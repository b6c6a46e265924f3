#include "gate.h"

#include "../host.h"
#include "server_key.h"

namespace shoal::net::impl {
namespace {

constexpr std::uint32_t kMaxPeers = 60'000;
constexpr std::uint32_t kMaxPending = 5'000;  // each takes 600 bytes
// Besides places for peers and pending clients, the table has room for connections in State::leaving: a
// sixteenth of max_peers, plus this many.
constexpr std::uint32_t kLeavingPlaces = 16;
// A free place is used again only while more than this many places are free, or if the table cannot grow.
constexpr std::size_t kRestingPlaces = 16;
constexpr Duration kCookieSlice = std::chrono::seconds(8);

std::uint32_t pending_limit(const HostConfig& config) {
    const double seconds = std::chrono::duration<double>(config.handshake_timeout).count();
    return static_cast<std::uint32_t>(
        std::clamp(config.max_handshakes_per_s * seconds, 16.0, double(kMaxPending)));
}

}  // namespace

/// A connect packet with a valid cookie, while it is checked and answered.
struct Gate::Attempt {
    Address from;
    HandshakePacket connect;
    Time now;
    Place place;  // for the client, if it is accepted; if it has a token, the contents are in token_
    NoiseExchange noise;
    std::array<std::byte, kConnectMessageBytes> message{};
    ClientHello hello{};    // views into `message`
    std::string refusal{};  // text from on_admit

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
      // Everyone knows the private key of insecure servers, so their reset key is random: it is lost at a
      // restart, and clients then notice the restart only by their timeout.
      reset_key_(config.security == Security::sealed ? key_ : entropy.next_key(), public_key_,
                 config.protocol_id, config.server_id),
      cookies_{entropy.next_sip_key(), kCookieSlice},
      secret_(entropy.next_sip_key()),
      max_peers_(std::clamp(config.max_peers, 1u, kMaxPeers)),
      max_pending_(pending_limit(config)),
      max_places_(std::min(max_peers_ + max_peers_ / 16 + kLeavingPlaces + max_pending_, 0x10000u)),
      index_end_(std::bit_ceil(max_places_)) {
    if (config.security != Security::sealed || is_missing(config.tokens.backend_key)) return;
    assert(!config.tokens.servers.empty() && "TokenConfig::servers: no token is for this host");
    history_.emplace(config.tokens.max_remembered);
    token_.claims.reserve(kMaxClaimsBytes);
}

void Gate::receive(PacketKind kind, const Address& from, std::span<const std::byte> datagram, Time now) {
    HandshakePacket packet{.kind = kind};
    if (const std::optional<Drop> drop = read(datagram, packet)) return count(*drop);
    stats_.handshake_bytes_received += datagram.size();
    if (packet.version != kWireVersion || packet.protocol_id != config_.protocol_id)
        return refuse(from, packet.client_nonce, DisconnectReason::refused_protocol);
    kind == PacketKind::request ? receive_request(from, packet, now) : receive_connect(from, packet, now);
}

void Gate::receive_request(const Address& from, const HandshakePacket& request, Time now) {
    if (!is_open_) return refuse(from, request.client_nonce, DisconnectReason::refused_key);
    if (request.security != config_.security)
        return refuse(from, request.client_nonce, DisconnectReason::refused_security);
    stats_.cookies_sent += 1;
    reply(from, {.kind = PacketKind::cookie,
                 .client_nonce = request.client_nonce,
                 .cookie = cookies_.make(from, request.client_nonce, now)});
}

void Gate::receive_connect(const Address& from, const HandshakePacket& connect, Time now) {
    const bool is_proven = cookies_.is_valid(from, connect.client_nonce, connect.cookie, now);
    if (!is_open_ || !is_proven) return count(Drop::bad_cookie);
    // `name` identifies the attempt: no other client can have the same address, nonce and ephemeral key.
    const std::uint64_t name =
        siphash(secret_, {hash_of(from), connect.client_nonce}, connect.message.first(kNoiseKeyBytes));
    if (const auto found = attempts_.find(name); found != attempts_.end())
        return repeat_answer(from, places_[found->second]);
    const Networks networks(secret_, from);
    if (!attempt_limit_.take(networks, config_.max_handshakes_per_s_per_ip, config_.max_handshakes_per_s,
                             entropy_.next(), now))
        return count(Drop::too_many_attempts);

    const auto prologue =
        handshake_prologue(config_.protocol_id, config_.security, connect.client_nonce, connect.cookie);
    Attempt attempt{from, connect, now, {}, NoiseExchange(prologue, public_key_)};
    attempt.place.attempt = name;
    attempt.place.home = hash_of(from);
    attempt.place.networks = networks;
    attempt.place.is_limited = is_limited(from);
    std::ranges::copy(connect.message, attempt.message.begin());
    if (!attempt.noise.read(key_, attempt.message)) {
        count(Drop::bad_tag);  // most likely encrypted for another server key
        return refuse(from, connect.client_nonce, DisconnectReason::refused_key);
    }
    if (!read(noise_payload(attempt.message), attempt.hello)) return count(Drop::bad_handshake);
    const std::optional<Verdict> verdict = judge(attempt);
    wipe(token_.claims);
    if (verdict) answer(attempt, *verdict);
}

/// The answer was lost, or the connect arrived twice.
void Gate::repeat_answer(const Address& to, const Place& place) {
    if (is_shut_down_ || place.state == State::leaving) return count(Drop::closed);
    if (place.state != State::pending) return count(Drop::unexpected);
    stats_.answers_sent += 1;
    reply(to, place.pending->answer);
}

/// Returns nothing if the earlier answer was repeated, or the connect was dropped.
std::optional<Verdict> Gate::judge(Attempt& attempt) {
    Verdict verdict;
    verdict.schema_hash = config_.schema_hash;
    const auto refuse = [&](DisconnectReason reason, std::string_view text) {
        verdict.reason = reason;
        verdict.text = text.substr(0, kMaxReasonBytes);
        return verdict;
    };
    const std::uint64_t now_s =
        config_.tokens.unix_time_s + static_cast<std::uint64_t>(attempt.now / std::chrono::seconds(1));
    if (const auto why = why_no_token(attempt, now_s)) return refuse(DisconnectReason::refused_token, *why);
    if (is_shut_down_) return refuse(DisconnectReason::refused, "the server shuts down");
    // A pending client with the same token is the same client: our answer was lost, and it connects again
    // with another cookie. It can still open that answer, so the answer is repeated.
    Place& place = attempt.place;
    const auto same = place.token != 0 ? attempts_.find(place.token) : attempts_.end();
    if (same != attempts_.end() && places_[same->second].state == State::pending) {
        repeat_answer(attempt.from, places_[same->second]);
        return std::nullopt;
    }
    Admission admission;
    admission.schema_matches = attempt.hello.schema_hash == config_.schema_hash;
    if (admission.schema_matches) {
        if (!make_room()) {
            count(Drop::too_many_attempts);
            return std::nullopt;
        }
        if (place.token != 0) {
            if (const auto why = history_->use(token_.id, token_.expires_s, now_s))
                return refuse(DisconnectReason::refused_token, describe(*why));
        }
        admission.peer = place.peer = next_peer();
        admission.has_room = !why_full(place, former(place));
    }
    admission.address = attempt.from;
    admission.schema_hash = attempt.hello.schema_hash;
    admission.hello = attempt.hello.hello;
    if (place.token != 0) {
        admission.has_token = true;
        admission.client_id = token_.client_id;
        admission.claims = token_.claims;
    }
    const bool is_welcome = handler_.on_admit(admission, attempt.refusal);
    if (!admission.schema_matches) return refuse(DisconnectReason::refused_schema, attempt.refusal);
    if (!is_welcome) return refuse(DisconnectReason::refused, attempt.refusal);
    if (const auto why = why_full(place, former(place))) {
        if (place.token != 0) history_->forget(token_.id, token_.expires_s);
        handler_.on_never_connected(admission.peer);
        return refuse(DisconnectReason::refused_full, *why);
    }
    verdict.is_accepted = true;
    verdict.first_packet_number = config_.connection.first_packet_number;
    const std::uint32_t random = static_cast<std::uint32_t>(entropy_.next());
    verdict.connection_id = admission.peer.index() | (random & ~(index_end_ - 1));
    verdict.reset_salt = reset_key_.make_salt(verdict.connection_id, entropy_.next());
    verdict.reset_token = reset_key_.token(verdict.connection_id, verdict.reset_salt);
    return verdict;
}

/// Opens the token, if there is one. Returns why the client is refused, or nothing.
std::optional<std::string_view> Gate::why_no_token(Attempt& attempt, std::uint64_t now_s) {
    const TokenConfig& tokens = config_.tokens;
    const std::span<const std::byte> sealed = attempt.hello.token;
    if (!history_)
        return sealed.empty() ? std::nullopt : std::optional("this server takes no connect tokens");
    if (sealed.empty())
        return tokens.is_required ? std::optional("the server wants a connect token") : std::nullopt;
    if (const auto error =
            open_token(sealed, tokens.backend_key, config_.protocol_id, tokens.servers, now_s, token_))
        return describe(*error);
    attempt.place.token = siphash(secret_, {}, token_.id);
    attempt.place.client_id = token_.client_id;
    return std::nullopt;
}

bool Gate::is_limited(const Address& address) const {
    return config_.max_peers_per_ip != 0 && config_.max_peers_per_ip < max_peers_ && !address.is_loopback();
}

/// Returns why there is no seat for a newcomer after a peer has left (null: none), or nothing.
std::optional<std::string_view> Gate::why_full(const Place& newcomer, const Place* leaving) const {
    const std::uint64_t free = max_peers_ - peers_ + (leaving != nullptr);
    if (free == 0) return "";
    const std::uint64_t limit = config_.max_peers_per_ip;
    if (!newcomer.is_limited) return std::nullopt;
    // While less than half of the seats are free, the limit is lower, in proportion to the free seats.
    const std::uint64_t share = std::min((2 * limit * free + max_peers_ - 1) / max_peers_, limit);
    const bool has_room =
        peer_counts_.has_room(newcomer.networks, share, leaving ? &leaving->networks : nullptr);
    return has_room ? std::nullopt : std::optional("too many from your address");
}

const Gate::Place* Gate::former(const Place& newcomer) const {
    const Place* found = nullptr;
    for (const std::uint32_t index : silent_) {
        const Place& place = places_[index];
        if (place.state != State::peer) continue;
        if (place.home == newcomer.home) return &place;
        const bool is_same_client = newcomer.client_id && place.client_id == newcomer.client_id;
        const bool is_neighbour = place.networks.machine() == newcomer.networks.machine();
        if (!is_same_client && (!is_neighbour || found)) continue;
        if (why_full(newcomer, nullptr) && !why_full(newcomer, &place)) found = &place;
    }
    return found;
}

PeerId Gate::former_of(PeerId pending) const {
    const Place* const place = former(places_[pending.index()]);
    return place ? place->peer : PeerId{};
}

/// Makes room for one more pending handshake, if necessary by releasing the oldest one: the limits of
/// attempts gave it time for its round trip.
bool Gate::make_room() {
    const bool has_place = !free_.empty() || places_.size() < max_places_;
    if (pending_.size() < max_pending_ && has_place) return true;
    if (pending_.empty()) return false;
    stats_.handshakes_expired += 1;
    release(pending_.front().session.peer);
    return true;
}

PeerId Gate::next_peer() const {
    constexpr std::uint32_t kGeneration = 0x1'0000;
    if (free_.empty() || (free_.size() <= kRestingPlaces && places_.size() < max_places_))
        return PeerId{static_cast<std::uint32_t>(places_.size()) | kGeneration};
    const PeerId former = places_[free_[0]].peer;
    const bool is_last = former.value >= 0xFFFF'0000;
    return PeerId{is_last ? former.index() | kGeneration : former.value + kGeneration};
}

void Gate::answer(Attempt& attempt, const Verdict& verdict) {
    std::array<std::byte, kMaxAnswerMessageBytes> payload;
    const std::span<std::byte> body = std::span(payload).subspan(kNoiseKeyBytes);
    const std::size_t size = write(verdict, body.first<kMaxVerdictBytes>());
    const std::span<std::byte> message = std::span(payload).first(size + kNoiseOverheadBytes);
    (void)attempt.noise.write(entropy_.next_key(), message);  // cannot fail: read() refused low-order points
    const HandshakePacket packet{.kind = PacketKind::answer,
                                 .client_nonce = attempt.connect.client_nonce,
                                 .cookie = attempt.connect.cookie,
                                 .message = message};
    if (verdict.is_accepted) remember(attempt, verdict, packet);
    (verdict.is_accepted ? stats_.answers_sent : stats_.refusals_sent) += 1;
    reply(attempt.from, packet);
}

void Gate::remember(const Attempt& attempt, const Verdict& verdict, const HandshakePacket& answer) {
    const PeerId peer = attempt.place.peer;
    const std::uint32_t index = peer.index();
    assert(index == places_.size() || free_[0] == index);
    index == places_.size() ? void(places_.emplace_back()) : free_.pop();
    const Session session{.peer = peer,
                          .address = attempt.from,
                          .receive_id = true,
                          .send_first = verdict.first_packet_number,
                          .receive_first = attempt.hello.first_packet_number,
                          .salt = entropy_.next() | 1};
    const NoiseKeys keys = attempt.noise.split();
    const PacketCipher cipher(config_.security, config_.protocol_id, keys.to_initiator, keys.to_responder,
                              session.send_first, attempt.now);
    pending_.push_back(
        {session, cipher, verdict.connection_id, attempt.now, answer, token_.id, token_.expires_s});
    Pending& pending = pending_.back();
    assert(answer.message.size() == pending.message.size());
    std::ranges::copy(answer.message, pending.message.begin());
    pending.answer.message = pending.message;
    Place& place = places_[index] = attempt.place;
    place.state = State::pending;
    place.pending = std::prev(pending_.end());
    attempts_[place.attempt] = index;
    if (place.token != 0) attempts_[place.token] = index;
}

void Gate::send_reset(const Address& to, std::uint32_t connection_id, std::uint64_t salt) {
    if (!is_open_ || !reset_key_.is_salt(connection_id, salt)) return;
    stats_.resets_sent += 1;
    std::array<std::byte, kMaxDatagramBytes> buffer;
    sink_.send(to, write(Reset{connection_id, reset_key_.token(connection_id, salt)}, buffer));
}

void Gate::update(Time now) {
    silent_.clear();
    while (!pending_.empty() && now - pending_.front().since >= config_.handshake_timeout) {
        stats_.handshakes_expired += 1;
        release(pending_.front().session.peer);
    }
}

const Gate::Pending* Gate::find(std::uint32_t connection_id) const {
    const std::uint32_t index = index_of(connection_id);
    if (index >= places_.size() || places_[index].state != State::pending) return nullptr;
    const Pending& pending = *places_[index].pending;
    return pending.connection_id == connection_id ? &pending : nullptr;
}

std::optional<std::string_view> Gate::confirm(PeerId peer) {
    Place& place = places_[peer.index()];
    assert(place.state == State::pending);
    const std::optional<std::string_view> why = why_full(place, nullptr);
    const bool is_welcome = !why && !is_shut_down_;
    end_pending(place, is_welcome);
    if (!is_welcome) return why.value_or("");
    place.state = State::peer;
    peers_ += 1;
    peer_counts_.add(place.networks);
    return std::nullopt;
}

void Gate::leave(PeerId peer) {
    Place& place = places_[peer.index()];
    if (place.state != State::peer) return;
    place.state = State::leaving;
    peers_ -= 1;
    peer_counts_.remove(place.networks);
}

void Gate::set_home(PeerId peer, const Address& address) {
    Place& place = places_[peer.index()];
    if (place.state != State::peer) return;
    Place moved = place;
    moved.home = hash_of(address);
    moved.networks = Networks(secret_, address);
    moved.is_limited = is_limited(address);
    place.home = moved.home;
    if (why_full(moved, &place)) return;
    peer_counts_.remove(place.networks);
    peer_counts_.add(moved.networks);
    place = moved;
}

void Gate::release(PeerId peer) {
    Place& place = places_[peer.index()];
    if (place.state == State::pending) end_pending(place, false);
    assert(place.state == State::leaving);
    attempts_.erase(place.attempt);
    attempts_.erase(place.token);
    place.state = State::free;
    free_.push(peer.index());
}

/// A client that did not connect can use its token again.
void Gate::end_pending(Place& place, bool is_connected) {
    if (!is_connected && place.token != 0) {
        history_->forget(place.pending->token_id, place.pending->token_expires_s);
        attempts_.erase(std::exchange(place.token, 0));
    }
    pending_.erase(place.pending);
    place.state = State::leaving;
    if (!is_connected) handler_.on_never_connected(place.peer);
}

/// Sends an unencrypted refusal, for a client without a shared key.
void Gate::refuse(const Address& to, std::uint64_t client_nonce, DisconnectReason reason) {
    stats_.refusals_sent += 1;
    reply(to, {.kind = PacketKind::refuse, .client_nonce = client_nonce, .reason = reason});
}

void Gate::reply(const Address& to, const HandshakePacket& packet) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    const std::span<const std::byte> datagram = write(packet, buffer);
    stats_.handshake_bytes_sent += datagram.size();
    sink_.send(to, datagram);
}

std::uint64_t Gate::hash_of(const Address& address) const {
    return siphash(secret_, {address.port, address.scope, std::uint64_t(address.family)},
                   std::as_bytes(std::span(address.ip)));
}

}  // namespace shoal::net::impl
