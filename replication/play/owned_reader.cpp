#include "owned_reader.h"

#include <algorithm>
#include <utility>

#include "../codec/codec.h"

namespace shoal::replication::all {
namespace {

constexpr double kRefusalsPerSecond = 20;
constexpr double kMaxRefusals = 3 * kRefusalsPerSecond;

constexpr std::size_t kFewNewest = 64;

}  // namespace

OwnedReader::OwnedReader(ecs::World& world, const Schema& schema, Sender& sender, Send send)
    : world_(world),
      schema_(schema),
      sender_(sender),
      send_(std::move(send)),
      codec_(*this),
      checks_(schema.components().size()) {
    for (const SchemaComponent& component : schema.components()) {
        const bool is_owned = component.role == Role::owner;
        ids_.push_back(is_owned ? component.bind(world) : ecs::ComponentId{});
        values_.push_back(is_owned ? std::make_unique<StructValue>(component) : nullptr);
    }
}

void OwnedReader::add_player(PlayerId player, Sender::Peer peer) {
    Player& added = players_[player];
    added.id = player;
    added.peer = peer;
    added.most_newest = kFewNewest;
    added.refusals_left = kMaxRefusals;
}

void OwnedReader::remove_player(PlayerId player) {
    players_.erase(player);
}

void OwnedReader::reconnect(PlayerId player) {
    Player* const found = find(player);
    if (!found) return;
    found->newest.clear();
    // The last question may be lost.
    for (const auto& [net_id, is_given_again] : had_owner_)
        if (is_given_again && owns(*found, net_id)) to_ask_[player].push_back(net_id);
}

void OwnedReader::note_owner(ecs::Entity entity, PlayerId owner) {
    const auto has_owned = [&](ecs::ComponentId id) {
        return id != ecs::ComponentId{} && world_.has(entity, id);
    };
    if (std::ranges::none_of(ids_, has_owned)) return;
    const NetId net_id = sender_.assign_net_id(entity);
    const auto [place, is_first] = had_owner_.try_emplace(net_id, false);
    place->second = !is_first;
    if (owner && !is_first) to_ask_[owner].push_back(net_id);
    if (had_owner_.size() <= most_had_owner_) return;
    std::erase_if(had_owner_, [&](const auto& one) { return !sender_.entity(one.first); });
    most_had_owner_ = std::max(kFewNewest, 2 * had_owner_.size());
}

void OwnedReader::ask() {
    for (auto& [player, net_ids] : std::exchange(to_ask_, {}))
        for (std::span<const NetId> left = net_ids; !left.empty();) {
            const std::size_t count = std::min(left.size(), kMaxAskedEntities);
            send_(player, write_send_owned(left.first(count)));
            left = left.subspan(count);
        }
}

OwnedReader::Player* OwnedReader::find(PlayerId player) {
    const auto found = players_.find(player);
    return found == players_.end() ? nullptr : &found->second;
}

bool OwnedReader::is_flood(PlayerId player) const {
    const Player* const found = const_cast<OwnedReader*>(this)->find(player);
    return found && found->refusals_left < 1;
}

OwnedReader::Stats OwnedReader::stats(PlayerId player) const {
    const Player* const found = const_cast<OwnedReader*>(this)->find(player);
    return found ? found->stats : Stats{};
}

// The format is specified in ../WIRE.md.

bool OwnedReader::read_section(PlayerId, std::uint64_t packet, BitReader& in) {
    packet_ = packet;
    sent_count_ = 0;
    const std::uint32_t more = in.read_golomb(kOwnedCountOrder);
    if (more >= kMaxOwnedValues) return false;
    NetId net_id = 0;
    for (std::uint32_t i = 0; i <= more; ++i) {
        net_id = i == 0 ? in.read(32) : net_id + unzigzag(in.read_golomb(kOwnedNetIdOrder));
        const std::uint32_t component = in.read_golomb(kOwnedComponentOrder);
        if (component >= values_.size() || !values_[component]) return false;
        if (sent_count_ == sent_values_.size()) sent_values_.emplace_back();
        SentValue& sent = sent_values_[sent_count_++];
        sent.net_id = net_id;
        sent.component = static_cast<ComponentIndex>(component);
        if (!read_value(schema_.components()[component].layout, {}, in, sent.words) || !in.ok()) return false;
    }
    return true;
}

void OwnedReader::commit_section(PlayerId id, net::Time now) {
    for (std::size_t i = 0; i < sent_count_; ++i) {
        Player* const player = find(id);  // a check may disconnect the player
        if (!player) return;
        const double passed_s = std::chrono::duration<double>(now - player->earned_until).count();
        player->earned_until = now;
        player->refusals_left =
            std::min(kMaxRefusals, player->refusals_left + std::max(0.0, passed_s) * kRefusalsPerSecond);
        if (is_flood(id)) return;
        judge(*player, sent_values_[i]);
    }
}

bool OwnedReader::owns(const Player& player, NetId net_id) const {
    const ecs::Entity entity = sender_.entity_seen_by(player.peer, net_id);
    return entity && sender_.owner(entity) == player.peer;
}

void OwnedReader::judge(Player& player, const SentValue& sent) {
    const ecs::ComponentId id = ids_[sent.component];
    const ecs::Entity entity = sender_.entity(sent.net_id);
    if (!owns(player, sent.net_id) || !world_.has(entity, id)) return void(player.stats.ignored += 1);
    std::uint64_t& newest = player.newest[{sent.net_id, sent.component}];
    if (packet_ <= newest) return void(player.stats.outdated += 1);
    newest = packet_;
    forget_not_owned(player);
    from_ = player.peer;
    const SchemaComponent& component = schema_.components()[sent.component];
    // A client that was asked sends values that it did not write: these are not refused.
    codec_.quantise(component, std::as_const(world_).try_get(entity, id), words_);
    if (words_ == sent.words) return;
    if (checks_[sent.component]) {
        void* const value = values_[sent.component]->get();
        codec_.restore(component, sent.words, value);
        const PlayerId player_id = player.id;
        std::string why = "the server could not check it";  // if the check throws
        ecs::all::call_guarded(world_, [&] { why = checks_[sent.component](player_id, entity, value); });
        Player* const still = find(player_id);  // the check may disconnect the player
        if (!still) return;
        if (!why.empty()) return refuse(*still, sent, why);
        if (!world_.has(entity, id)) return;  // the check removed the component
    }
    if (world_.patch(entity, id, [&](void* at) { codec_.restore(component, sent.words, at); }))
        player.stats.taken += 1;
}

void OwnedReader::refuse(Player& player, const SentValue& sent, std::string_view why) {
    player.stats.refused += 1;
    player.refusals_left -= 1;
    OwnedRefusal refusal{packet_, sent.net_id, sent.component, std::string(why), {}};
    const ecs::Entity entity = sender_.entity(sent.net_id);
    const void* const value = world_.try_get(entity, ids_[sent.component]);
    if (!value) return;  // the check removed the component
    codec_.quantise(schema_.components()[sent.component], value, refusal.words);
    send_(player.id, write_refusal(schema_, refusal));
}

/// If `newest` has many entries, removes those for entities that the player does not own.
void OwnedReader::forget_not_owned(Player& player) const {
    if (player.newest.size() <= player.most_newest) return;
    std::erase_if(player.newest, [&](const auto& one) { return !owns(player, one.first.net_id); });
    player.most_newest = std::max(kFewNewest, 2 * player.newest.size());
}

}  // namespace shoal::replication::all
