#pragma once
// On the server: checks the values that clients send for components with from_owner(), and writes them to the
// world.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../../net/endpoint.h"
#include "../send/sender.h"
#include "owned_wire.h"
#include "player_id.h"
#include "struct_codec.h"
#include "uplink.h"

namespace shoal::replication::all {

/// Reads the section Section::owned_state of all clients. Not thread-safe.
class OwnedReader final : public SectionReader, private EntityMap {
public:
    struct Stats {
        std::uint64_t taken = 0;    // values written to the world, which had others
        std::uint64_t refused = 0;  // values refused by a check
        // Values that came when the player did not own the entity, or the entity lacked the component.
        std::uint64_t ignored = 0;
        std::uint64_t outdated = 0;  // values that arrived after a newer value
    };

    /// Sends a reliable message to a player.
    using Send = std::function<void(PlayerId, std::span<const std::byte>)>;
    /// The arguments must outlive this object.
    OwnedReader(ecs::World& world, const Schema& schema, Sender& sender, Send send);
    OwnedReader(const OwnedReader&) = delete;
    OwnedReader& operator=(const OwnedReader&) = delete;

    void add_player(PlayerId player, Sender::Peer peer);
    void remove_player(PlayerId player);
    /// Call it when the player has a new connection: packet numbers begin anew.
    void reconnect(PlayerId player);
    /// Call it when a player becomes the owner of an entity, or nobody does.
    void note_owner(ecs::Entity entity, PlayerId owner);
    /// Asks the new owners of note_owner() for their values, if the entity had an earlier owner. A client may
    /// not have noticed that it was not the owner for a time: then it holds a value that the server ignored,
    /// or another one than the server has. Call it once in a tick.
    void ask();

    /// Returns the reason to refuse a value; at most kMaxRefusalBytes of it are sent. Empty: the value is
    /// accepted. It is not called for a value that the server has already.
    using Check = std::function<std::string(PlayerId, ecs::Entity, const void* value)>;
    /// Sets the check of a component. Without a check all values are accepted.
    void set_check(ComponentIndex component, Check check) { checks_[component] = std::move(check); }

    /// Returns whether too many values of the player were refused: more than 20 per second (60 at once). Then
    /// further values of the player have no effect.
    bool is_flood(PlayerId player) const;
    /// All zero for an unknown player.
    Stats stats(PlayerId player) const;

    bool read_section(PlayerId player, std::uint64_t packet, BitReader& in) override;
    void commit_section(PlayerId player, net::Time now) override;

private:
    struct Key {
        NetId net_id;
        ComponentIndex component;
        auto operator<=>(const Key&) const = default;
    };
    struct Player {
        PlayerId id;
        Sender::Peer peer = 0;
        std::map<Key, std::uint64_t> newest;  // number of the packet with the newest value
        std::size_t most_newest = 0;          // size of `newest` above which forget_not_owned() cleans it
        double refusals_left = 0;
        net::Time earned_until{0};  // time up to which refusals_left has grown
        Stats stats;
    };
    /// A value that a client sent.
    struct SentValue {
        NetId net_id = 0;
        ComponentIndex component = 0;
        std::vector<std::uint32_t> words;
    };

    std::uint32_t to_net(ecs::Entity entity) override { return sender_.net_id(entity); }
    ecs::Entity to_entity(std::uint32_t net_id) override { return sender_.entity_seen_by(from_, net_id); }

    Player* find(PlayerId player);
    void judge(Player& player, const SentValue& sent);
    void refuse(Player& player, const SentValue& sent, std::string_view why);
    void forget_not_owned(Player& player) const;
    bool owns(const Player& player, NetId net_id) const;

    ecs::World& world_;
    const Schema& schema_;
    Sender& sender_;
    Send send_;
    StructCodec codec_;
    std::vector<ecs::ComponentId> ids_;                 // by component; only if it has from_owner()
    std::vector<std::unique_ptr<StructValue>> values_;  // by component; null without from_owner()
    std::vector<Check> checks_;                         // by component
    std::unordered_map<PlayerId, Player> players_;
    // Entities with components with from_owner() that had an owner; true: the owner has changed since.
    std::unordered_map<NetId, bool> had_owner_;
    std::size_t most_had_owner_ = 64;  // size of had_owner_ above which dead entities are removed
    std::map<PlayerId, std::vector<NetId>> to_ask_;

    Sender::Peer from_ = 0;  // peer of the player whose value judge() handles
    // From read_section(), for commit_section().
    std::uint64_t packet_ = 0;
    std::vector<SentValue> sent_values_;
    std::vector<std::uint32_t> words_;  // scratch: a value in the world
    std::size_t sent_count_ = 0;
};

}  // namespace shoal::replication::all
