#include "tests/net/support/attacks.h"

#include <algorithm>

#include "tests/net/support/world.h"

namespace shoal::net::impl::attacks {
namespace {

using namespace std::chrono_literals;

}  // namespace

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
    if (sighting.to != victim_.address || is_handshake(sighting.bytes) || count_++ % every_ >= in_a_row_)
        return;
    held_.push_back(sighting.bytes);
    if (static_cast<int>(held_.size()) < in_a_row_) return;
    const bool is_half_way = in_a_row_ == 1 && count_ / every_ % 2 != 0;
    const Duration more = is_half_way ? victim_.path.round_trip / 4 : Duration(0);
    for (const Bytes& copy : std::exchange(held_, {}))
        battle.inject(battle.server, victim_.address, copy, battle.copy_delay(victim_) + more);
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

Address ManyPorts::at(int port) const {
    Address result = first_;
    result.port = std::uint16_t(first_.port + port);
    return result;
}

void ManyPorts::see(Battle& battle, const Sighting& sighting) {
    const int port = sighting.to.port - first_.port;
    if (!guest_ || port < 0 || port >= ports_ || sighting.to != at(port)) return;
    if (!guest_->is_accepted()) {
        if (const std::optional<std::uint64_t> cookie = cookie_in(sighting.bytes))
            return battle.inject(first_, battle.server, guest_->connect(*cookie), kOwnLatency);
        if (guest_->read_answer(sighting.bytes, battle.now)) send(battle, 0);
        return;
    }
    bytes_drawn += sighting.bytes.size();
    if (port > 0 && is_late(battle)) forged_drawn_ += sighting.bytes.size();
    if (port > 0 && forged_) return;
    if (const std::optional<Bytes> echo = guest_->echo(sighting.bytes, battle.now))
        return battle.inject(sighting.to, battle.server, *echo, kOwnLatency);
    const std::optional<std::uint64_t> number = guest_->read_number(sighting.bytes, battle.now);
    if (!number || received_.state(*number, battle.now) != AckWindow::State::fresh) return;
    received_.arrive(*number, battle.now);
    received_.accept(*number, battle.now);
}

void ManyPorts::step(Battle& battle) {
    if (!guest_) {
        guest_.emplace(battle.random(), battle.random());
        return battle.inject(first_, battle.server, guest_->request(), kOwnLatency);
    }
    if (!guest_->is_accepted()) return;
    send(battle, 0);
    if (battle.now < next_) return;
    next_ = battle.now + interval_;
    for (int port = 1; port < ports_; ++port) send(battle, port);
}

void ManyPorts::send(Battle& battle, int port) {
    Bytes bytes = guest_->packet({.acks = received_.acks(battle.now), .ping = true});
    if (port > 0 && is_late(battle)) forged_sent_ += bytes.size();
    battle.inject(at(port), battle.server, std::move(bytes), kOwnLatency);
}

void Observer::see(Battle& battle, const Sighting& sighting) {
    if (is_handshake(sighting.bytes)) return;
    const auto later = [&](std::uint64_t most_ms) {
        return Duration(std::int64_t(random_() % (most_ms * 1000)));
    };
    if (const Player* const player = battle.player_at(sighting.from)) {
        for (std::uint64_t n = random_() % 4; n > 0; --n) {
            const Address mine = Address::ipv4(66, 2, std::uint8_t(player->number), 1,
                                               std::uint16_t(kFirstPort + random_() % kPorts));
            const Duration delay = random_() % 2 ? later(20) : later(2000);
            battle.inject(random_() % 3 ? mine : sighting.from, battle.server, sighting.bytes, delay);
        }
    }
    const bool is_mine = sighting.to.ip[0] == 66 && sighting.to.ip[1] == 2 && sighting.to.port >= kFirstPort;
    if (!is_mine || sighting.to.ip[2] >= battle.players.size()) return;
    battle.inject(battle.server, battle.players[sighting.to.ip[2]]->address, sighting.bytes, later(40));
}

Address Flood::fresh_address(Battle& battle) const {
    std::uint64_t random = battle.random();
    const auto byte = [&] { return std::uint8_t(std::exchange(random, random >> 8) & 0xFF); };
    const auto prefix = std::uint8_t(battle.random() % std::uint64_t(plan_.prefixes));
    const auto port = std::uint16_t(battle.random() | 1024);
    if (plan_.like) {
        Address result = *plan_.like;
        result.port = port;
        if (result.family == Address::Family::ipv6)
            std::generate(result.ip.begin() + 8, result.ip.end(), byte);
        return result;
    }
    if (plan_.prefix == Prefix::ipv4) return Address::ipv4(172, 16, prefix, 1, port);
    std::array<std::uint8_t, 16> ip{0x20, 0x01, 0x0d, 0xb8};
    const std::size_t fixed = plan_.prefix == Prefix::ipv6_64 ? 8 : (plan_.prefix == Prefix::ipv6_56 ? 7 : 6);
    ip[fixed - 1] = prefix;
    for (std::size_t i = fixed; i < ip.size(); ++i) ip[i] = i < 12 ? byte() : 0;
    return Address::ipv6(ip, port);
}

void Flood::step(Battle& battle) {
    if (!end_) end_ = battle.now + plan_.duration;
    if (battle.now >= *end_) return;
    if (plan_.every > Duration(0) && battle.now % plan_.every >= plan_.every / 10) return;
    // A handshake costs a request and, except for Depth::requests, a connect.
    const double cost = plan_.depth == Depth::requests ? 1200 : 2400;
    budget_ += plan_.bytes_per_second * std::chrono::duration<double>(battle.tick).count();
    for (; budget_ >= 1200 && !repeats_.empty() && repeats_.begin()->first <= battle.now; budget_ -= 1200) {
        const Sighting connect = repeats_.extract(repeats_.begin()).mapped();
        battle.inject(connect.from, connect.to, connect.bytes, kOwnLatency);
        repeats_.emplace(battle.now + 3s, connect);
    }
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
    Bytes connect = plan_.depth == Depth::bad_connects ? forge_connect(sighting.bytes, battle.random)
                                                       : found->second.connect(*cookie);
    if (plan_.depth == Depth::repeated)
        repeats_.emplace(battle.now + 3s, Sighting{sighting.to, battle.server, connect});
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
        case 0:  // random bytes
            packet.bytes.resize(random_() % 1400);
            for (std::byte& byte : packet.bytes) byte = std::byte(random_() & 0xFF);
            break;
        case 1:  // repeated, perhaps from another address
            if (random_() % 4 == 0) packet.from = stranger();
            break;
        case 2:  // reflected, or sent to another player
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

/// Changes a packet of a connection to a disconnect, perhaps with an unused number.
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

}  // namespace shoal::net::impl::attacks
