#include "attacker.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "tests/net_world.h"

namespace shoal::net::attacks {
namespace {

using namespace std::chrono_literals;
using Buffer = std::array<std::byte, kMaxDatagramBytes>;

constexpr Duration kTalkInterval = 100ms;
constexpr Duration kOwnLatency = 2ms;  // between the attacker and the server, each way

Bytes copy_of(std::span<const std::byte> bytes) {
    return {bytes.begin(), bytes.end()};
}

std::uint64_t number_in(std::string_view digits) {
    std::uint64_t number = 0;
    for (const char digit : digits) number = number * 10 + std::uint64_t(digit - '0');
    return number;
}

LinkConfig link_of(const PlayerPath& path) {
    LinkConfig link;
    link.latency = path.round_trip / 2;
    link.loss = path.loss;
    return link;
}

}  // namespace

// --- Packets of the handshake ---

std::optional<PacketKind> kind_of(std::span<const std::byte> datagram) {
    return datagram.empty() ? std::nullopt : read_kind(datagram[0]);
}

bool is_handshake(std::span<const std::byte> datagram) {
    const auto kind = kind_of(datagram);
    return kind && datagram.size() >= 10 && *kind <= PacketKind::refuse;
}

std::uint64_t nonce_of(std::span<const std::byte> datagram) {
    return ByteReader(datagram.subspan(2)).u64();
}

std::optional<std::uint64_t> cookie_in(std::span<const std::byte> datagram) {
    CookieReply reply;
    if (kind_of(datagram) != PacketKind::cookie || read(datagram, reply)) return std::nullopt;
    return reply.cookie;
}

Bytes make_request(std::uint64_t nonce) {
    Buffer buffer;
    return copy_of(write(Request{kWireVersion, nonce, host_config().protocol_id, Security::sealed}, buffer));
}

Bytes forge_cookie(std::uint64_t nonce, std::uint64_t cookie) {
    Buffer buffer;
    return copy_of(write(CookieReply{nonce, cookie}, buffer));
}

Bytes forge_refuse(std::uint64_t nonce, DisconnectReason reason) {
    Buffer buffer;
    return copy_of(write(Refuse{nonce, reason}, buffer));
}

Bytes forge_answer(std::uint64_t nonce, std::mt19937_64& random) {
    std::array<std::byte, kNoiseOverheadBytes + kAcceptanceBytes> message;
    for (std::byte& byte : message) byte = std::byte(random() & 0xFF);
    Buffer buffer;
    return copy_of(write(Answer{nonce, random() | 1, message}, buffer));
}

Bytes forge_connect(std::span<const std::byte> cookie, std::mt19937_64& random) {
    std::array<std::byte, kConnectMessageBytes> message;
    for (std::byte& byte : message) byte = std::byte(random() & 0xFF);
    const Connect connect{kWireVersion, nonce_of(cookie), host_config().protocol_id, *cookie_in(cookie),
                          message};
    Buffer buffer;
    return copy_of(write(connect, buffer));
}

Bytes copy_with_cookie(std::span<const std::byte> connect, std::uint64_t cookie) {
    Connect packet;
    if (read(connect, packet)) return {};
    packet.cookie = cookie;
    Buffer buffer;
    return copy_of(write(packet, buffer));
}

// --- Guest ---

Bytes Guest::connect(std::uint64_t cookie) {
    static const PublicKey known = public_key(server_key());
    const HostConfig host = host_config();
    std::array<std::byte, kConnectMessageBytes> message{};
    write(Introduction{host.schema_hash, 1, {}, {}}, noise_payload(message).first<kIntroductionBytes>());
    const auto prologue = handshake_prologue(host.protocol_id, Security::sealed, nonce_, cookie);
    noise_.emplace(prologue, known, Key(seed_of(secret_)));
    if (!noise_->write(message)) return {};
    Buffer buffer;
    return copy_of(write(Connect{kWireVersion, nonce_, host.protocol_id, cookie, message}, buffer));
}

bool Guest::read_answer(std::span<const std::byte> datagram, Time now) {
    Answer answer;
    if (!noise_ || cipher_ || kind_of(datagram) != PacketKind::answer || read(datagram, answer)) return false;
    Bytes body = copy_of(answer.message);
    Verdict verdict;
    if (!noise_->read(body) || !read(noise_payload(body), verdict) || !verdict.is_accepted) return false;
    const NoiseKeys keys = noise_->split();
    cipher_ = PacketCipher::make(Security::sealed, host_config().protocol_id, keys.to_responder,
                                 keys.to_initiator, next_number_, now);
    connection_id_ = verdict.connection_id;
    server_newest_ = verdict.first_packet_number - 1;
    return true;
}

Bytes Guest::packet(const Contents& contents) {
    Buffer buffer;
    ByteWriter out(buffer);
    out.u8(data_flags(contents.acks, contents.ping, !contents.runs.empty(), false));
    write_acks(out, contents.acks);
    out.bytes(contents.runs);
    return seal(PacketKind::data, out.written());
}

Bytes Guest::empty_messages(std::uint8_t count) {
    Buffer buffer;
    ByteWriter out(buffer);
    write_run(out, {.is_last = true, .fills_packet = true, .count = count});
    return copy_of(out.written());
}

Bytes Guest::reliable_message(std::uint64_t id, std::uint16_t distance, std::size_t size) {
    Buffer buffer;
    ByteWriter out(buffer);
    Run run;
    run.channel = Channel::reliable;
    run.is_last = run.fills_packet = true;
    run.id_bytes = 2;
    run.distance = distance;
    run.size = std::uint16_t(size);
    run.first_id = id;
    write_run(out, run);
    Bytes result = copy_of(out.written());
    result.resize(result.size() + size);
    return result;
}

Bytes Guest::seal(PacketKind kind, std::span<const std::byte> body) {
    Buffer buffer;
    ByteWriter out(buffer);
    write_envelope(out, kind, false, connection_id_, next_number_, 4);
    const std::size_t head = out.written().size();
    out.bytes(body);
    const auto packet = std::span(buffer).first(out.written().size() + cipher_->tag_bytes());
    cipher_->seal(next_number_++, packet, head);
    return copy_of(packet);
}

std::optional<Bytes> Guest::open(std::span<const std::byte> datagram, Time now) {
    const auto envelope = read_envelope(datagram, false);
    if (!cipher_ || !envelope || datagram.size() < envelope->body_offset + 1u + cipher_->tag_bytes())
        return std::nullopt;
    const std::uint64_t number =
        expand_number(envelope->truncated_number, envelope->number_bytes, server_newest_ + 1);
    Bytes copy = copy_of(datagram);
    if (!cipher_->open(number, envelope->key_phase, copy, envelope->body_offset, now, 1s))
        return std::nullopt;
    server_newest_ = std::max(server_newest_, number);
    return Bytes(copy.begin() + envelope->body_offset,
                 copy.end() - static_cast<std::ptrdiff_t>(cipher_->tag_bytes()));
}

std::optional<Bytes> Guest::echo(std::span<const std::byte> datagram, Time now) {
    if (kind_of(datagram) != PacketKind::challenge) return std::nullopt;
    const std::optional<Bytes> body = open(datagram, now);
    if (!body || body->size() < 8) return std::nullopt;
    return seal(PacketKind::echo, std::span(*body).first(8));
}

std::optional<std::uint64_t> Guest::read_number(std::span<const std::byte> datagram, Time now) {
    const auto envelope = read_envelope(datagram, false);
    if (!envelope || !open(datagram, now)) return std::nullopt;
    return expand_number(envelope->truncated_number, envelope->number_bytes, server_newest_);
}

// --- Witness ---

void Witness::on_connected(PeerId peer) {
    connects += 1;
    connected.push_back(peer);
}

void Witness::on_disconnected(PeerId peer, DisconnectReason reason, std::string_view text) {
    std::erase(connected, peer);
    ends.emplace_back(reason, std::string(text));
}

void Witness::on_message(PeerId, Channel, std::span<const std::byte> bytes) {
    messages += 1;
    if (hears) hears(as_text(bytes));
}

bool Witness::on_admit(const Admission& admission, std::string&) {
    hellos[as_text(admission.hello)] += 1;
    return true;
}

// --- Player ---

void Player::Ear::expect(Time now) {
    if (last) longest = std::max(longest, now - *last);
    last = now;
}

void Player::Ear::hear(Time now, std::uint64_t next) {
    expect(now);
    disorders += last_number && next != *last_number + 1;
    last_number = next;
}

Player::Player(Battle& battle, int index, const Address& at, const PlayerPath& on)
    : number(index),
      address(at),
      path(on),
      battle_(battle),
      up_(link_of(on), battle.random()),
      down_(link_of(on), battle.random()) {
    out_.battle = &battle;
    out_.player = this;
    client_ = std::make_unique<Client>(client_config(battle.random()), witness, out_);
    witness.hears = [this](std::string_view text) { at_client_.hear(battle_.now, number_in(text)); };
}

void Player::connect() {
    client_->connect(battle_.server, as_bytes("player " + std::to_string(number)), battle_.now);
}

std::optional<DisconnectReason> Player::end() const {
    return witness.ends.empty() ? std::nullopt : std::optional(witness.ends.back().first);
}

Duration Player::silence_at_client() const {
    return at_client_.last ? std::max(at_client_.longest, battle_.now - *at_client_.last) : Duration(0);
}

Duration Player::silence_at_server() const {
    return at_server_.last ? std::max(at_server_.longest, battle_.now - *at_server_.last) : Duration(0);
}

void Player::Out::send(const Address& to, std::span<const std::byte> datagram) {
    battle->seen({player->address, to, copy_of(datagram)});
    player->up_.push(player->address, to, datagram, battle->now);
}

// --- Battle ---

Battle::Battle(std::uint64_t seed) : Battle(seed, host_config(seed)) {}

Battle::Battle(std::uint64_t seed, HostConfig config) : random(seed) {
    host_sink_.battle = this;
    config.max_peers_per_ip = HostConfig().max_peers_per_ip;
    at_server.hears = [this](std::string_view text) {
        const std::size_t space = text.find(' ');
        if (space == text.npos) return;  // not from a player
        Player& player = *players.at(number_in(text.substr(0, space)));
        if (!player.heard) player.heard = now;
        player.at_server_.hear(now, number_in(text.substr(space + 1)));
    };
    start_host(config);
}

void Battle::start_host(HostConfig& config) {
    host = std::make_unique<Host>(config, at_server, host_sink_);
}

Player& Battle::enter(const PlayerPath& path, std::optional<Address> at) {
    const auto index = static_cast<int>(players.size());
    const Address own = Address::ipv4(10, 1, std::uint8_t(index / 250), std::uint8_t(index % 250 + 1), 5000);
    players.push_back(std::make_unique<Player>(*this, index, at.value_or(own), path));
    players.back()->connect();
    return *players.back();
}

Player& Battle::enter_and_wait(const PlayerPath& path, std::optional<Address> at) {
    Player& player = enter(path, at);
    const std::uint64_t connects = at_server.connects;
    run_until([&] { return player.entered && at_server.connects > connects; }, 10s);
    run(path.round_trip);
    return player;
}

void Battle::inject(const Address& from, const Address& to, Bytes bytes, Duration delay) {
    injected += 1;
    injections_.emplace(now + delay, Sighting{from, to, std::move(bytes)});
}

Duration Battle::reply_delay(const Player& player) const {
    return std::max(player.path.round_trip - lead, Duration(0));
}

Duration Battle::copy_delay(const Player& player) const {
    return std::max(player.path.round_trip / 2 - lead, Duration(0));
}

void Battle::run(Duration duration) {
    for (const Time end = now + duration; now < end;) step();
}

bool Battle::run_until(const std::function<bool()>& condition, Duration longest) {
    for (const Time end = now + longest; now < end && !condition();) step();
    return condition();
}

void Battle::seen(const Sighting& sighting) {
    if (records && sighting.to == server) record.emplace_back(now, sighting);
    for (const auto& attack : attacks_) attack->see(*this, sighting);
}

Player* Battle::player_at(const Address& address) {
    for (const auto& player : players) {
        if (player->is_alive() && player->address == address) return player.get();
    }
    return nullptr;
}

void Battle::HostSink::send(const Address& to, std::span<const std::byte> datagram) {
    Account& account = battle->accounts_[to];
    account.spent += datagram.size();
    if (!account.is_proven && account.spent > account.paid)
        battle->amplified_ = std::max(battle->amplified_, account.spent - account.paid);
    battle->seen({battle->server, to, copy_of(datagram)});
    Player* const player = battle->player_at(to);
    if (!player) return;  // the attacker has it
    player->down_.push(battle->server, to, datagram, battle->now);
}

void Battle::step() {
    const Time end = now + tick;
    while (deliver_next(end)) {
    }
    now = end;
    for (const auto& attack : attacks_) attack->step(*this);
    host->update(now);
    if (talks && now >= next_talk_) talk();
    if (server_tick) server_tick();
    host->flush(now);
    for (const auto& player : players) {
        if (!player->client_) continue;
        player->client_->update(now);
        if (!player->entered && player->witness.connects > 0) {
            player->entered = now;
            player->at_client_.expect(now);
            player->at_server_.expect(now);
        }
        player->client_->flush(now);
    }
}

/// Delivers the earliest datagram that is due. Returns false if there is none.
bool Battle::deliver_next(Time until) {
    LinkConditioner* first = nullptr;
    Time due = until;
    for (const auto& player : players) {
        for (LinkConditioner* link : {&player->up_, &player->down_}) {
            if (link->queued() == 0 || link->next_due() > due) continue;
            if (first && link->next_due() == due) continue;
            due = link->next_due();
            first = link;
        }
    }
    if (!injections_.empty() && injections_.begin()->first <= due) {
        const auto node = injections_.extract(injections_.begin());
        now = std::max(now, node.key());
        deliver(node.mapped().from, node.mapped().to, node.mapped().bytes);
        return true;
    }
    if (!first || !first->pop(due, incoming_)) return false;
    now = std::max(now, due);
    deliver(incoming_.from, incoming_.to, Bytes(incoming_.bytes));
    return true;
}

void Battle::deliver(const Address& from, const Address& to, const Bytes& bytes) {
    if (to == server) {
        Account& account = accounts_[from];
        account.paid += bytes.size();
        const std::optional<PacketKind> kind = kind_of(bytes);
        account.is_proven |= kind == PacketKind::connect || kind == PacketKind::echo;
        return host->receive(from, bytes, now);
    }
    Player* const player = player_at(to);
    if (player) player->client_->receive(from, bytes, now);
}

/// A full queue is no error: the messages before it wait.
void Battle::talk() {
    next_talk_ = now + kTalkInterval;
    const std::string number = std::to_string(said_++);
    for (const PeerId peer : at_server.connected)
        (void)host->send_message(peer, Channel::reliable, as_bytes(number));
    for (const auto& player : players) {
        if (!player->client_ || !player->is_connected()) continue;
        const std::string text = std::to_string(player->number) + " " + number;
        (void)player->client_->send_message(player->client_->server(), Channel::reliable, as_bytes(text));
    }
}

// --- Attacks ---

void Forger::see(Battle& battle, const Sighting& sighting) {
    const Player* const player = battle.player_at(sighting.from);
    if (!player || kind_of(sighting.bytes) != PacketKind::request) return;
    constexpr DisconnectReason kHints[] = {DisconnectReason::refused_protocol, DisconnectReason::refused_key,
                                           DisconnectReason::refused_security};
    const std::uint64_t nonce = nonce_of(sighting.bytes);
    const Duration delay = battle.reply_delay(*player);
    const auto reply = [&](Bytes bytes) {
        battle.inject(battle.server, player->address, std::move(bytes), delay);
    };
    for (int i = 0; i < hints_; ++i) reply(forge_refuse(nonce, kHints[battle.random() % 3]));
    for (int i = 0; i < cookies_; ++i) reply(forge_cookie(nonce, battle.random() | 1));
    for (int i = 0; i < answers_; ++i) reply(forge_answer(nonce, battle.random));
}

Address Racer::address(int index) const {
    return Address::ipv4(66, 1, std::uint8_t(victim_.number), 1, std::uint16_t(6000 + index));
}

void Racer::see(Battle& battle, const Sighting& sighting) {
    if (is_handshake(sighting.bytes) || (end_ && battle.now >= *end_)) return;
    const Duration delay = battle.copy_delay(victim_);
    if (sighting.from == victim_.address && sighting.to == battle.server) {
        const bool is_raced = double(battle.random() % 1000) < plan_.share * 1000;
        for (int i = 0; i < plan_.addresses && is_raced; ++i)
            battle.inject(address(first_ + i), battle.server, sighting.bytes, delay);
        return;
    }
    bool is_mine = false;
    for (int i = 0; i < plan_.addresses; ++i) is_mine |= sighting.to == address(first_ + i);
    const bool is_relayed =
        plan_.relay == Relay::everything ||
        (plan_.relay == Relay::challenges && kind_of(sighting.bytes) == PacketKind::challenge);
    if (is_mine && is_relayed) battle.inject(battle.server, victim_.address, sighting.bytes, delay);
}

void Racer::step(Battle& battle) {
    if (!end_) end_ = battle.now + plan_.duration;
    if (plan_.interval == Duration(0)) return;
    if (!next_change_) next_change_ = battle.now + plan_.interval;
    if (battle.now < *next_change_) return;
    *next_change_ += plan_.interval;
    first_ += plan_.addresses;
}

void DownRacer::see(Battle& battle, const Sighting& sighting) {
    if (sighting.to != victim_.address || is_handshake(sighting.bytes) || ++count_ % every_ != 0) return;
    battle.inject(battle.server, victim_.address, sighting.bytes, battle.copy_delay(victim_));
}

OwnClient::OwnClient(Battle& battle, const Address& from)
    : client_(client_config(battle.random()), witness_, out_) {
    out_.battle = &battle;
    out_.from = from;
    client_.connect(battle.server, as_bytes("attacker"), battle.now);
}

void OwnClient::Out::send(const Address& to, std::span<const std::byte> datagram) {
    battle->inject(from, to, copy_of(datagram), kOwnLatency);
}

void OwnClient::see(const Sighting& sighting) {
    if (sighting.to == out_.from) replies_.push_back(sighting.bytes);
}

void OwnClient::step(Battle& battle) {
    for (const Bytes& reply : std::exchange(replies_, {})) client_.receive(battle.server, reply, battle.now);
    client_.update(battle.now);
    client_.flush(battle.now);
}

void Usurper::see(Battle&, const Sighting& sighting) {
    if (client_) client_->see(sighting);
}

void Usurper::step(Battle& battle) {
    if (battle.now >= next_) {
        next_ = battle.now + interval_;
        client_ = std::make_unique<OwnClient>(battle, victim_.address);
    }
    client_->step(battle);
}

void Replayer::see(Battle& battle, const Sighting& sighting) {
    if (!connect_ && sighting.from == victim_.address && kind_of(sighting.bytes) == PacketKind::connect) {
        connect_ = sighting.bytes;
        next_ = begin_ = battle.now + after_;
    }
    if (!connect_ || sighting.from != battle.server || sighting.to != at_) return;
    const std::optional<std::uint64_t> cookie = cookie_in(sighting.bytes);
    if (!cookie || battle.now < begin_) return;
    battle.inject(at_, battle.server, copy_with_cookie(*connect_, *cookie), kOwnLatency);
    battle.inject(at_, battle.server, *connect_, kOwnLatency);
    replays += 1;
}

void Replayer::step(Battle& battle) {
    if (!connect_ || battle.now < next_) return;
    next_ = battle.now + 500ms;
    battle.inject(at_, battle.server, make_request(nonce_of(*connect_)), kOwnLatency);
}

void Relayer::see(Battle& battle, const Sighting& sighting) {
    if (!is_handshake(sighting.bytes)) return;
    const Duration delay = battle.copy_delay(victim_);
    if (sighting.from == victim_.address) battle.inject(mine_, battle.server, sighting.bytes, delay);
    if (sighting.to != mine_) return;
    has_answer |= kind_of(sighting.bytes) == PacketKind::answer;
    battle.inject(battle.server, victim_.address, sighting.bytes, delay);
}

void NonceThief::see(Battle& battle, const Sighting& sighting) {
    if (sighting.from == victim_.address && kind_of(sighting.bytes) == PacketKind::request) {
        guest_.emplace(nonce_of(sighting.bytes), battle.random());
        battle.inject(victim_.address, battle.server, guest_->request(), battle.copy_delay(victim_));
    }
    if (!guest_ || sighting.to != victim_.address) return;
    const std::optional<std::uint64_t> cookie = cookie_in(sighting.bytes);
    if (!cookie || nonce_of(sighting.bytes) != nonce_of(guest_->request())) return;
    battle.inject(victim_.address, battle.server, guest_->connect(*cookie), kOwnLatency);
    guest_.reset();
    has_connected = true;
}

void Intruder::see(Battle& battle, const Sighting& sighting) {
    if (!guest_ || sighting.from != battle.server || sighting.to != at_) return;
    if (guest_->is_accepted()) {
        bytes_drawn += sighting.bytes.size();
        return hear(battle, sighting);
    }
    if (const std::optional<std::uint64_t> cookie = cookie_in(sighting.bytes))
        return battle.inject(at_, battle.server, guest_->connect(*cookie), kOwnLatency);
    if (guest_->read_answer(sighting.bytes, battle.now)) send(battle, {.ping = true});
}

void Intruder::step(Battle& battle) {
    if (guest_) return;
    guest_.emplace(battle.random(), battle.random());
    battle.inject(at_, battle.server, guest_->request(), kOwnLatency);
}

void Intruder::send(Battle& battle, const Guest::Contents& contents) {
    Bytes bytes = guest_->packet(contents);
    bytes_sent += bytes.size();
    battle.inject(source_, battle.server, std::move(bytes), kOwnLatency);
}

void AckLiar::hear(Battle& battle, const Sighting& sighting) {
    const auto number = guest().read_number(sighting.bytes, battle.now);
    if (number) sent_.emplace_back(battle.now + 20ms, *number);
}

void AckLiar::step(Battle& battle) {
    Intruder::step(battle);
    std::uint64_t newest = 0;
    for (; !sent_.empty() && sent_.front().first <= battle.now; sent_.pop_front())
        newest = std::max(newest, sent_.front().second);
    if (newest == 0) return;
    Acks acks;
    acks.present = true;
    acks.newest = std::uint16_t(newest & 0xFFFF);
    acks.bits = ~std::uint64_t(0);
    send(battle, {.acks = acks, .ping = true});
}

Address Flood::fresh_address(Battle& battle) const {
    std::uint64_t random = battle.random();
    const auto byte = [&] { return std::uint8_t(std::exchange(random, random >> 8) & 0xFF); };
    const auto prefix = std::uint8_t(battle.random() % std::uint64_t(plan_.prefixes));
    const auto port = std::uint16_t(battle.random() | 1024);
    if (plan_.prefix == Prefix::ipv4) {
        if (!plan_.like) return Address::ipv4(172, 16, prefix, 1, port);
        Address result = *plan_.like;
        result.port = port;
        return result;
    }
    std::array<std::uint8_t, 16> ip{0x20, 0x01, 0x0d, 0xb8};
    const std::size_t fixed = plan_.prefix == Prefix::ipv6_64 ? 8 : (plan_.prefix == Prefix::ipv6_56 ? 7 : 6);
    ip[fixed - 1] = prefix;
    for (std::size_t i = fixed; i < ip.size(); ++i) ip[i] = i < 12 ? byte() : 0;
    return Address::ipv6(ip, port);
}

void Flood::step(Battle& battle) {
    if (!end_) end_ = battle.now + plan_.duration;
    if (battle.now >= *end_) return;
    // A handshake costs a request and, but for `requests`, a connect.
    const double cost = plan_.depth == Depth::requests ? 1200 : 2400;
    budget_ += plan_.bytes_per_second * std::chrono::duration<double>(battle.tick).count();
    for (; budget_ >= cost; budget_ -= cost) {
        const Address from = fresh_address(battle);
        const Guest guest(battle.random(), battle.random());
        const Duration when = Duration(std::int64_t(battle.random() % std::uint64_t(battle.tick.count())));
        battle.inject(from, battle.server, guest.request(), when);
        if (plan_.depth != Depth::requests) asking_.insert_or_assign(from, guest);
    }
}

void Flood::see(Battle& battle, const Sighting& sighting) {
    if (asking_.empty() || sighting.from != battle.server) return;
    const auto found = asking_.find(sighting.to);
    if (found == asking_.end()) return;
    const std::optional<std::uint64_t> cookie = cookie_in(sighting.bytes);
    if (!cookie) return;
    Bytes connect = plan_.depth == Depth::pending ? found->second.connect(*cookie)
                                                  : forge_connect(sighting.bytes, battle.random);
    battle.inject(sighting.to, battle.server, std::move(connect), 2 * kOwnLatency);
    asking_.erase(found);
}

void Bursts::see(Battle& battle, const Sighting& sighting) {
    if (sighting.from != battle.server || !cookie_in(sighting.bytes)) return;
    for (std::size_t i = 0; i < from_.size(); ++i) {
        if (from_[i] == sighting.to) cookies_[i] = sighting;
    }
}

void Bursts::step(Battle& battle) {
    if (battle.now >= next_request_) {
        next_request_ = battle.now + 4s;
        for (const Address& from : from_)
            battle.inject(from, battle.server, make_request(battle.random()), kOwnLatency);
    }
    if (battle.now < next_) return;
    next_ = battle.now + interval_;
    for (const auto& cookie : cookies_) {
        for (int i = 0; i < count_ && cookie; ++i) {
            Bytes connect = forge_connect(cookie->bytes, battle.random);
            battle.inject(cookie->to, battle.server, std::move(connect), kOwnLatency);
        }
    }
}

void Vandal::see(Battle&, const Sighting& sighting) {
    constexpr std::size_t kRemembered = 1000;
    if (seen_.size() < kRemembered)
        seen_.push_back(sighting);
    else
        seen_[random_() % kRemembered] = sighting;
}

void Vandal::step(Battle& battle) {
    if (!end_) end_ = battle.now + duration_;
    if (battle.now >= *end_) return;
    for (std::uint64_t n = random_() % 12; n > 0 && !seen_.empty(); --n) act(battle);
}

void Vandal::act(Battle& battle) {
    Sighting packet = any();
    switch (random_() % 6) {
        case 0:  // noise
            packet.bytes.resize(random_() % 1400);
            for (std::byte& byte : packet.bytes) byte = std::byte(random_() & 0xFF);
            break;
        case 1:  // the same again, perhaps from elsewhere
            if (random_() % 4 == 0) packet.from = stranger();
            break;
        case 2:  // back to its sender, or to another player
            if (random_() % 2)
                std::swap(packet.from, packet.to);
            else
                packet.to = battle.players[random_() % battle.players.size()]->address;
            break;
        case 3:
            damage(packet.bytes);
            break;
        case 4:
            resize(packet.bytes);
            break;
        default:
            forge_end(battle, packet);
            break;
    }
    battle.inject(packet.from, packet.to, std::move(packet.bytes), Duration(random_() % 20'000));
}

Address Vandal::stranger() {
    return Address::ipv4(172, 17, std::uint8_t(random_() & 0xFF), 1, std::uint16_t(random_() | 1));
}

void Vandal::damage(Bytes& bytes) {
    for (std::uint64_t n = 1 + random_() % 3; n > 0; --n)
        bytes[random_() % bytes.size()] ^= std::byte(1u << random_() % 8);
}

void Vandal::resize(Bytes& bytes) {
    if (random_() % 2)
        bytes.resize(random_() % (bytes.size() + 1));
    else
        bytes.resize(bytes.size() + 1 + random_() % 40, std::byte(random_() & 0xFF));
}

/// Makes a disconnect of a packet of a connection, perhaps under a fresh number.
void Vandal::forge_end(const Battle& battle, Sighting& packet) {
    if (is_handshake(packet.bytes) || packet.bytes.size() < 30) return;
    packet.bytes[0] = std::byte(0xB0) | (packet.bytes[0] & std::byte(7));
    const std::size_t head = packet.to == battle.server ? 5 : 1;
    packet.bytes[head] = std::byte(random_() & 0xFF);
    if (random_() % 2) packet.bytes.resize(head + 5 + 16);
}

void SeatTaker::see(Battle&, const Sighting& sighting) {
    const auto found = clients_.find(sighting.to);
    if (found != clients_.end()) found->second.see(sighting);
}

void SeatTaker::step(Battle& battle) {
    for (int i = 0; i < 2 && count_ > 0; ++i, --count_, ++next_.port)
        clients_.try_emplace(next_, battle, next_);
    for (auto& [address, client] : clients_) client.step(battle);
}

}  // namespace shoal::net::attacks
