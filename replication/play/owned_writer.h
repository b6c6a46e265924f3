#pragma once
// On a client: finds the values that the game writes to components with from_owner(), and sends them to the
// server.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "../../ecs/change_collector.h"
#include "../../ecs/query.h"
#include "../receive/receiver.h"
#include "owned_wire.h"
#include "uplink.h"

namespace shoal::replication::all {

/// While this client owns an entity (it has the tag Mine), records can add and remove components with
/// from_owner(), but do not change their values. If the game writes such a component, its newest value is
/// sent, and sent again if the packet is lost. Not thread-safe.
class OwnedWriter final : public SectionWriter {
public:
    struct Stats {
        std::uint64_t sent = 0;     // values in payloads; a value sent again counts again
        std::uint64_t refused = 0;  // values that the server refused
    };

    /// The arguments must outlive this object. The receiver must be one of this world.
    OwnedWriter(ecs::World& world, const Schema& schema, Receiver& receiver);
    OwnedWriter(const OwnedWriter&) = delete;
    OwnedWriter& operator=(const OwnedWriter&) = delete;

    /// Called when the server refused a value, after the server's value was restored. If the game has written
    /// a newer value, this value stays.
    using Refused = std::function<void(ecs::Entity, std::string_view why)>;
    void on_refused(ComponentIndex component, Refused handler) { handlers_[component] = std::move(handler); }

    /// Finds the entities that this client owns now, and the values that the game wrote since the last call.
    /// Call it once between two calls of Receiver::apply(), outside of hooks and queries.
    void update();
    /// Handles the server's message that it refused a value, or that it needs the values of entities. Returns
    /// false, without effect, if the message has another kind or is malformed. Call it outside of hooks and
    /// queries.
    bool receive(std::span<const std::byte> message);
    /// Prepares for a new connection to a server that knows what this client has. Sends again the values of
    /// all components that were ever sent, because a refusal may be lost. Packet numbers begin anew.
    void reconnect();
    /// Removes all entities and values, for a new connection. Call it after Receiver::reset().
    void reset();

    bool write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) override;
    bool lacked_room() const override { return lacked_room_; }
    void on_fate(std::uint64_t packet, bool delivered) override;

    const Stats& stats() const { return stats_; }
    /// For tests: number of entities that the server has asked for and that this client remembers.
    std::size_t asked_count() const { return asked_.size(); }

    /// For tests: the pending values are counted, and the entities are in order.
    bool is_consistent() const;

private:
    /// The versions of a value are numbered by the packets that carry them.
    struct Value {
        ComponentIndex component = 0;
        bool is_pending = false;
        std::uint64_t first_packet = 0;    // first packet with the present value; 0: it was not sent
        std::uint64_t last_packet = 0;     // newest packet with any value of the component; 0: none
        std::uint64_t refused_packet = 0;  // newest packet whose value was refused
        std::vector<std::uint32_t> words;  // the last known value in the world
    };
    struct Owned {
        ecs::Entity entity;
        NetId net_id = 0;
        std::optional<Tick> shown;  // tick of the version that has the components of `values`
        std::vector<Value> values;  // in the order of their components
    };

    static constexpr std::size_t kFewAsked = 64;

    std::vector<Owned>::iterator place_of(ecs::Entity entity);
    bool use_refusal(std::span<const std::byte> message);
    void note_asked(NetId net_id);
    bool is_shown(ecs::Entity entity) const;
    void follow_version(Owned& owned);
    void hold(const Owned& owned, Value& value, const ImageCursor& image);
    bool capture(ecs::Entity entity, Value& value);
    void update_value(ecs::Entity entity, Value& value);
    void set_pending(Value& value, bool is_pending);
    Value* find(ecs::Entity entity, ComponentIndex component);

    ecs::World& world_;
    const Schema& schema_;
    Receiver& receiver_;
    ecs::ChangeCollector changes_;  // watches components_
    ecs::Query<ecs::With<Mine>> mine_;
    std::vector<ComponentIndex> components_;  // components with from_owner(), ascending
    std::vector<Refused> handlers_;           // by component
    std::vector<Owned> owned_;                // by entity, ascending
    // Entities whose values the server needs, also if this client learns only later that it owns them again.
    std::unordered_set<NetId> asked_;
    std::size_t most_asked_ = kFewAsked;  // size of asked_ above which those that are no replicas go
    std::size_t pending_count_ = 0;
    std::size_t next_ = 0;  // index in owned_, modulo its size, at which the next section begins
    bool lacked_room_ = false;
    Receiver::Value captured_;
    BitWriter value_, values_;
    Stats stats_;
};

}  // namespace shoal::replication::all
