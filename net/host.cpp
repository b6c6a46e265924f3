#include "host.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace shoal::net {
namespace {

// Slots for handshakes and last words, beside those of the peers.
constexpr std::uint32_t kSpareSlots = 16;
constexpr Duration kAttemptSlice = std::chrono::milliseconds(100);
constexpr Duration kResetSlice = std::chrono::milliseconds(100);

/// What addresses of one machine have in common: one that speaks IPv6 has 64 bits to itself.
std::span<const std::byte> machine_of(const Address& address) {
    const bool is_ipv4 = address.family == Address::Family::ipv4;
    return std::as_bytes(std::span(address.ip)).first(is_ipv4 ? 4 : 8);
}

bool is_same_machine(const Address& a, const Address& b) {
    return a.family == b.family && std::ranges::equal(machine_of(a), machine_of(b));
}

/// Zeros where there is none.
PublicKey ephemeral_in(const Connect& connect) {
    PublicKey key{};
    if (connect.way == Way::key) std::copy_n(connect.body.begin(), key.size(), key.begin());
    return key;
}

}  // namespace

struct Host::Peer {
    Address home;                // where it came in; connection knows where it is
    PublicKey client_ephemeral;  // way key; tells a repeated connect from one by somebody else
    std::uint32_t connection_id;
    std::vector<std::byte> answer;  // to be repeated, until the client goes on
    Connection connection;

    /// Whether someone who comes in from there must be this one, started anew. An address that is not proven
    /// says nothing: else whoever races a copy of a packet could move a peer to his own, and replace it.
    bool is_at(const Address& from) const {
        return connection.path().is_proven() && connection.path().address() == from;
    }
};

/// A connect with a valid cookie, while it is being answered.
struct Host::Attempt {
    Address from;
    Connect connect;
    Time now;
    std::uint64_t server_nonce{0};  // way insecure
    std::array<std::byte, kConnectBodyBytes> body;
    std::optional<NoiseResponder> noise;  // unless insecure
    Introduction introduction;            // views into body
    bool has_token = false;               // an authentic one: token_ is what it contains
    std::optional<TokenError> token_error;
};

Host::Host(const HostConfig& config, Handler& handler, Sink& sink)
    : config_(config),
      handler_(handler),
      sink_(sink),
      entropy_(config.seed),
      has_seed_(!is_missing(config.seed)),
      cookie_key_(entropy_.next_sip_key()) {
    wipe(config_.seed);
    assert(has_seed_ && "HostConfig::seed is missing: see fill_random");
    if (config.security == Security::sealed) {
        assert((takes(Way::key) || takes(Way::token)) && "HostConfig::key is missing: see make_server_key");
        if (takes(Way::key)) public_key_ = public_key(config.key);
        reset_key_ = derive_reset_key(takes(Way::key) ? config.key : config.tokens.backend_key);
    }
    if (takes(Way::token)) {
        assert(!config.tokens.servers.empty() && "TokenConfig::servers: no token is for this host");
        history_.emplace(config.tokens.max_remembered);
        token_.claims.reserve(kMaxClaimsBytes);
    }
    assert(config.max_peers >= 1 && config.max_peers <= 60'000);
    const std::uint32_t slots = config.max_peers + config.max_peers / 16 + kSpareSlots;
    assert(slots <= 0x10000);
    peers_.resize(slots);
    nonces_.resize(slots);
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
        case PacketKind::echo:
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

SendResult Host::send_message(PeerId peer, Delivery how, std::span<const std::byte> message) {
    if (!is_connected(peer)) return SendResult::not_connected;
    return find(peer)->connection.send_message(how, message);
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
    static const Address kNowhere;
    const Peer* const found = find(peer);
    return found ? found->connection.path().address() : kNowhere;
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
        return hint(from, request.client_nonce, DisconnectReason::refused_protocol);
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
        return hint(from, connect.client_nonce, DisconnectReason::refused_protocol);
    }
    if (!is_cookie_valid(cookie_key_, from, connect.client_nonce, connect.cookie, now)) {
        return count(Drop::bad_cookie);
    }
    // From here on the sender's address is proven.
    if (!takes(connect.way)) return hint(from, connect.client_nonce, refusal_of(connect.way));
    for (std::size_t slot = 0; slot < peers_.size(); ++slot) {
        if (nonces_[slot] != connect.client_nonce) continue;  // an array: strangers can make us look often
        const std::unique_ptr<Peer>& peer = peers_[slot];
        if (!peer || peer->home != from) continue;
        if (!peer->connection.is_open()) return count(Drop::closed);
        if (peer->answer.empty() || peer->client_ephemeral != ephemeral_in(connect)) {
            return count(Drop::unexpected);
        }
        stats_.answers_sent += 1;
        return reply(from, peer->answer);  // our answer was lost, or his request came twice
    }
    if (!may_attempt(from, now)) return count(Drop::too_many_attempts);
    Attempt attempt{from, connect, now, entropy_.next(), {}, {}, {}, false, {}};
    std::copy(connect.body.begin(), connect.body.end(), attempt.body.begin());
    if (open(attempt)) admit(attempt);
    token_.key = Key();
}

bool Host::takes(Way way) const {
    if (!has_seed_) return false;  // whoever knows that could compute every key
    if (config_.security == Security::insecure) return way == Way::insecure;
    if (way == Way::key) return !is_missing(config_.key);
    return way == Way::token && !is_missing(config_.tokens.backend_key);
}

/// Why we do not take it.
DisconnectReason Host::refusal_of(Way way) const {
    if (!has_seed_) return DisconnectReason::refused_key;
    const bool is_sealed = way == Way::key || way == Way::token;
    if (!is_sealed || config_.security == Security::insecure) return DisconnectReason::refused_security;
    // Without either key somebody forgot one.
    return way == Way::key && !takes(Way::token) ? DisconnectReason::refused_key
                                                 : DisconnectReason::refused_token;
}

/// Whether there is time for one more handshake. Nobody can take it all from the others.
bool Host::may_attempt(const Address& from, Time now) {
    if (now - attempts_since_ >= kAttemptSlice) {
        attempts_since_ = now;
        attempts_ = 0;
        attempts_by_machine_.fill(0);
    }
    const std::uint64_t machine = siphash(cookie_key_, {}, machine_of(from));
    std::uint32_t& here = attempts_by_machine_[machine % attempts_by_machine_.size()];
    if (attempts_ >= std::max(config_.max_handshakes_per_s / 10, 1u)) return false;
    if (here >= config_.max_pending_per_ip) return false;
    attempts_ += 1;
    here += 1;
    return true;
}

/// Reads the introduction. False, having counted why, if there is none for us.
bool Host::open(Attempt& attempt) {
    switch (attempt.connect.way) {
        case Way::key:
            return open_with_key(attempt);
        case Way::token:
            return open_with_token(attempt);
        case Way::insecure:
            break;
    }
    if (read(std::span(attempt.body).first(kIntroductionBytes), attempt.introduction)) return true;
    count(Drop::bad_handshake);
    return false;
}

bool Host::open_with_key(Attempt& attempt) {
    const Connect& connect = attempt.connect;
    attempt.noise.emplace(handshake_prologue(config_.protocol_id, connect.way, connect.client_nonce),
                          public_key_);
    if (!attempt.noise->read(config_.key, attempt.body)) {
        count(Drop::bad_tag);  // sealed for another key
        hint(attempt.from, connect.client_nonce, DisconnectReason::refused_key);
        return false;
    }
    if (read(noise_payload(attempt.body), attempt.introduction)) return true;
    count(Drop::bad_handshake);
    return false;
}

/// The order of the checks is that of token.h.
bool Host::open_with_token(Attempt& attempt) {
    const Connect& connect = attempt.connect;
    const std::optional<TokenBody> body = split_token_body(attempt.body);
    if (!body) {
        count(Drop::bad_handshake);
        return false;
    }
    const TokenConfig& tokens = config_.tokens;
    attempt.token_error = open_token(body->sealed, tokens.backend_key, config_.protocol_id, tokens.servers,
                                     unix_time_s(attempt.now), token_);
    attempt.has_token = !attempt.token_error || is_authentic(*attempt.token_error);
    if (attempt.has_token) {
        attempt.noise.emplace(
            token_prologue(config_.protocol_id, connect.client_nonce, connect.cookie, body->sealed),
            token_.key);
    }
    if (!attempt.has_token || !attempt.noise->read({}, body->message)) {
        count(Drop::bad_tag);  // the token's, or by somebody who has not got its key
        hint(attempt.from, connect.client_nonce, DisconnectReason::refused_token);
        return false;
    }
    if (read(noise_payload(body->message), attempt.introduction)) return true;
    count(Drop::bad_handshake);
    return false;
}

std::uint64_t Host::unix_time_s(Time now) const {
    return config_.tokens.unix_time_s +
           static_cast<std::uint64_t>(now / std::chrono::duration_cast<Time>(std::chrono::seconds(1)));
}

void Host::admit(Attempt& attempt) {
    if (attempt.token_error)
        return refuse(attempt, DisconnectReason::refused_token, describe(*attempt.token_error));
    if (is_shut_down_) return refuse(attempt, DisconnectReason::refused, "the server shuts down");
    const Introduction& introduction = attempt.introduction;
    const bool schema_matches = introduction.schema_hash == config_.schema_hash;
    const auto others = std::count_if(peers_.begin(), peers_.end(), [&](const auto& peer) {
        return peer && peer->connection.is_open() && peer->connection.is_announced() &&
               !peer->is_at(attempt.from);
    });
    if (schema_matches && others >= std::ptrdiff_t(config_.max_peers)) {
        return refuse(attempt, DisconnectReason::refused_full, {});
    }
    const std::optional<std::uint32_t> slot = slot_for(attempt);
    if (!slot) return count(Drop::too_many_attempts);
    if (attempt.has_token && schema_matches && !use_token(attempt)) return;
    std::string refusal;
    Admission admission;
    admission.peer = next_id(*slot);
    admission.address = attempt.from;
    admission.schema_hash = introduction.schema_hash;
    admission.schema_matches = schema_matches;
    admission.hello = introduction.hello;
    if (attempt.has_token) {
        admission.has_token = true;
        admission.client_id = token_.client_id;
        admission.claims = token_.claims;
    }
    const bool is_welcome = handler_.on_admit(admission, refusal);
    if (!schema_matches) return refuse(attempt, DisconnectReason::refused_schema, refusal);
    if (!is_welcome) return refuse(attempt, DisconnectReason::refused, refusal);
    accept(attempt, *slot);
}

/// False, having told the client, if its token was here before.
bool Host::use_token(Attempt& attempt) {
    std::string_view why;
    switch (history_->use(token_.id, token_.expires_s, unix_time_s(attempt.now))) {
        case TokenUse::first:
            return true;
        case TokenUse::used:
            why = "connect token used before";
            break;
        case TokenUse::expired:  // by a clock that went back since
            why = describe(TokenError::expired);
            break;
        case TokenUse::full:
            why = "too many connect tokens at once";
            break;
    }
    refuse(attempt, DisconnectReason::refused_token, why);
    return false;
}

/// For accept(). Only who has gone on counts as a peer: who never does takes a spare slot, until another
/// comes into it.
std::optional<std::uint32_t> Host::slot_for(const Attempt& attempt) {
    std::uint32_t pending_here = 0;
    std::unique_ptr<Peer>* oldest_pending = nullptr;
    for (std::unique_ptr<Peer>& peer : peers_) {
        if (!peer || !peer->connection.is_open() || peer->connection.is_announced()) continue;
        pending_here += is_same_machine(peer->home, attempt.from);
        if (!oldest_pending || peer->connection.created() < (*oldest_pending)->connection.created())
            oldest_pending = &peer;
    }
    if (pending_here >= config_.max_pending_per_ip) return std::nullopt;
    const std::optional<std::uint32_t> slot = free_slot();
    if (slot || !oldest_pending) return slot;
    return static_cast<std::uint32_t>(oldest_pending - peers_.data());
}

PeerId Host::next_id(std::uint32_t slot) const {
    const std::uint32_t generation = generations_[slot] == 0xFFFF ? 1 : generations_[slot] + 1u;
    return PeerId{slot | generation << 16};
}

void Host::accept(Attempt& attempt, std::uint32_t slot) {
    const PeerId id = next_id(slot);
    generations_[slot] = static_cast<std::uint16_t>(id.value >> 16);
    next_slot_ = slot + 1;
    const std::uint32_t connection_id = slot | static_cast<std::uint32_t>(entropy_.next() << 16);
    std::array<std::byte, kMaxDatagramBytes> buffer;
    Verdict verdict;
    verdict.is_accepted = true;
    verdict.first_packet_number = config_.connection.first_packet_number;
    verdict.connection_id = connection_id;
    if (attempt.connect.way != Way::insecure)
        verdict.reset_token = make_reset_token(reset_key_, config_.protocol_id, connection_id, attempt.from);
    const std::span<const std::byte> answer = write_answer(attempt, verdict, buffer);
    if (answer.empty()) return count(Drop::bad_handshake);
    Session session;
    session.peer = id;
    session.address = attempt.from;
    session.receive_id = true;
    session.send_first = config_.connection.first_packet_number;
    session.receive_first = attempt.introduction.first_packet_number;
    if (peers_[slot]) stats_.handshakes_expired += 1;
    nonces_[slot] = attempt.connect.client_nonce;
    peers_[slot].reset(new Peer{attempt.from, ephemeral_in(attempt.connect), connection_id,
                                std::vector(answer.begin(), answer.end()),
                                Connection(config_.connection, session, cipher_for(attempt, connection_id),
                                           handler_, sink_, attempt.now)});
    stats_.answers_sent += 1;
    reply(attempt.from, answer);
}

PacketCipher Host::cipher_for(const Attempt& attempt, std::uint32_t connection_id) const {
    if (attempt.noise) {
        const NoiseKeys keys = attempt.noise->split();
        return PacketCipher::sealed(config_.protocol_id, keys.to_initiator, keys.to_responder,
                                    config_.connection.first_packet_number, attempt.now);
    }
    const InsecureKeys keys =
        derive_insecure_keys(config_.protocol_id, config_.schema_hash, attempt.connect.client_nonce,
                             attempt.server_nonce, connection_id);
    return PacketCipher::insecure(config_.protocol_id, keys.server_to_client, keys.client_to_server);
}

void Host::receive_packet(const Address& from, std::span<const std::byte> datagram, Time now) {
    const std::optional<Envelope> envelope = read_envelope(datagram, true);
    if (!envelope) return count(Drop::truncated);
    const std::uint32_t slot = envelope->connection_id & 0xFFFF;
    if (slot >= peers_.size() || !peers_[slot] || peers_[slot]->connection_id != envelope->connection_id) {
        count(Drop::unknown_connection);
        // A disconnect packet needs no answer: its sender has hung up.
        if (envelope->kind == PacketKind::data) reset(from, envelope->connection_id, datagram.size(), now);
        return;
    }
    Peer& peer = *peers_[slot];
    Packet packet;
    if (!peer.connection.open(datagram, packet, now)) return;
    const bool hangs_up = packet.kind == PacketKind::disconnect;
    if (!peer.connection.is_announced() && !hangs_up && !confirm(peer, now)) return;
    if (peer.connection.moves(from, packet)) {
        stats_.moves += 1;
        ResetToken token{};
        if (config_.security == Security::sealed)
            token = make_reset_token(reset_key_, config_.protocol_id, peer.connection_id, from);
        peer.connection.move(from, entropy_.next(), token);
    }
    peer.connection.follow(from, packet, now);
    peer.connection.apply(packet, now);
}

/// Tells who thinks he is connected that he is not. `bytes` came, and no more go back. Without a key of its
/// own a host says nothing: others have the backend's key as well, and would make the same tokens.
void Host::reset(const Address& to, std::uint32_t connection_id, std::size_t bytes, Time now) {
    if (config_.security == Security::insecure || is_missing(config_.key) || bytes < kResetBytes) return;
    if (now - resets_since_ >= kResetSlice) {
        resets_since_ = now;
        resets_ = 0;
    }
    if (resets_ >= (config_.max_resets_per_s + 9) / 10) return;
    resets_ += 1;
    stats_.resets_sent += 1;
    std::array<std::byte, kResetBytes> buffer;
    const ResetToken token = make_reset_token(reset_key_, config_.protocol_id, connection_id, to);
    sink_.send(to, write(Reset{connection_id, token}, buffer));
}

/// The peer has proven that it holds the keys, which no replayed request can. It takes the place of others
/// at the address where it came in, which its cookie proved; where this packet came from proves nothing.
/// False if it was closed.
bool Host::confirm(Peer& peer, Time now) {
    for (const std::unique_ptr<Peer>& other : peers_) {
        if (!other || other.get() == &peer || !other->is_at(peer.home)) continue;
        other->connection.close(DisconnectReason::replaced, {}, false, now);
    }
    if (peer_count() >= config_.max_peers) {
        peer.connection.close(DisconnectReason::refused_full, {}, true, now);
        return false;
    }
    peer.answer = {};
    peer.connection.announce();
    return peer.connection.is_open();
}

/// A refusal that the client can trust.
void Host::refuse(Attempt& attempt, DisconnectReason reason, std::string_view text) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    stats_.refusals_sent += 1;
    Verdict verdict;
    verdict.reason = reason;
    verdict.schema_hash = config_.schema_hash;
    verdict.text = text.substr(0, kMaxReasonBytes);
    const std::span<const std::byte> answer = write_answer(attempt, verdict, buffer);
    if (!answer.empty()) reply(attempt.from, answer);
}

/// A refusal that anyone could have sent, for clients with whom we share no key.
void Host::hint(const Address& to, std::uint64_t client_nonce, DisconnectReason reason) {
    std::array<std::byte, kMaxDatagramBytes> buffer;
    stats_.refusals_sent += 1;
    reply(to, write(Refuse{client_nonce, reason}, buffer));
}

/// Once per attempt. Empty if the client's ephemeral key is none, which in the way of tokens shows only now.
std::span<const std::byte> Host::write_answer(Attempt& attempt, const Verdict& verdict,
                                              DatagramBuffer buffer) {
    std::array<std::byte, kMaxAnswerBodyBytes> body;
    const bool is_sealed = attempt.noise.has_value();
    const std::size_t head = is_sealed ? kNoiseKeyBytes : 8;
    const std::size_t size = write(verdict, std::span(body).subspan(head).first<kMaxVerdictBytes>());
    if (is_sealed) {
        const std::span<std::byte> message = std::span(body).first(size + kNoiseOverheadBytes);
        if (!attempt.noise->write(entropy_.next_key(), message)) return {};
        return write(Answer{attempt.connect.client_nonce, message}, buffer);
    }
    ByteWriter(body).u64(attempt.server_nonce);
    return write(Answer{attempt.connect.client_nonce, std::span(body).first(head + size)}, buffer);
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
