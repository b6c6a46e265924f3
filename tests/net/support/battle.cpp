#include "tests/net/support/battle.h"

#include <algorithm>
#include <string_view>

#include "tests/net/support/world.h"

namespace shoal::net::impl::attacks {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTalkInterval = 100ms;

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

// --- Witness ---

void Witness::on_connected(PeerId peer) {
    connects += 1;
    connected.push_back(peer);
}

void Witness::on_disconnected(PeerId peer, DisconnectReason reason, std::string_view text) {
    std::erase(connected, peer);
    ends.emplace_back(reason, std::string(text));
}

void Witness::on_message(PeerId, Channel channel, std::span<const std::byte> bytes) {
    messages += 1;
    unreliable += channel == Channel::unreliable;
    if (hears && channel == Channel::reliable) hears(as_text(bytes));
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
    began = battle_.now;
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
    if (!player) return;  // it is for the attacker
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

/// A full queue is not an error: earlier messages still wait.
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

}  // namespace shoal::net::impl::attacks
