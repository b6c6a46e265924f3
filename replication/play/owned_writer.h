#pragma once
// On a client: finds what the game writes to components with from_owner(), and sends it to the server.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "../../ecs/change_collector.h"
#include "../../ecs/query.h"
#include "../receive/receiver.h"
#include "owned_wire.h"
#include "uplink.h"

namespace shoal::replication {

/// While this client owns an entity (it has the tag Mine), records do not change such components, but for
/// whether they are there. Sends the newest value of each component that is not known to have arrived. Not
/// thread-safe.
class OwnedWriter final : public SectionWriter {
public:
    struct Stats {
        std::uint64_t sent = 0;     // values in payloads; again if a payload was lost
        std::uint64_t refused = 0;  // values that the server did not take
    };

    /// The arguments must outlive this object. Their world must be the same.
    OwnedWriter(ecs::World& world, const Schema& schema, Receiver& receiver);
    OwnedWriter(const OwnedWriter&) = delete;
    OwnedWriter& operator=(const OwnedWriter&) = delete;

    /// Called when the server did not take a value, after the component got the server's value again. But if
    /// the game wrote a newer value in the meantime, that one stays.
    using Refused = std::function<void(ecs::Entity, std::string_view why)>;
    void on_refused(ComponentIndex component, Refused handler) { handlers_[component] = std::move(handler); }

    /// Takes what changed since the last call: owners, and what the game wrote. Call it after each
    /// Receiver::apply(), before the next one; outside of hooks and queries.
    void update();
    /// Uses a message of the server. Returns false, without effect, if it is not a refusal, or malformed.
    /// Call it outside of hooks and queries.
    bool receive(std::span<const std::byte> message);
    /// Forgets everything, for a new connection. Call it after Receiver::reset().
    void reset();

    bool write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) override;
    void on_fate(std::uint64_t packet, bool delivered) override;

    const Stats& stats() const { return stats_; }

    /// For tests: the pending values are counted, and the entities are in order.
    bool is_consistent() const;

private:
    /// The versions of a value are numbered by the packets that carry them.
    struct Value {
        ComponentIndex component = 0;
        bool is_pending = false;
        std::uint64_t first_packet = 0;    // the first one with the value; 0: it was not sent
        std::uint64_t last_packet = 0;     // the newest one, also with an earlier value; 0: none
        std::uint64_t refused_packet = 0;  // the newest one whose value was refused
        std::vector<std::uint32_t> words;  // that the world had last
    };
    struct Owned {
        ecs::Entity entity;
        NetId net_id = 0;
        std::optional<Tick> shown;  // tick of the version whose components `values` are
        std::vector<Value> values;  // in the order of their components
    };

    std::vector<Owned>::iterator place_of(ecs::Entity entity);
    void follow_version(Owned& owned);
    void hold(const Owned& owned, Value& value, const ImageCursor& image);
    bool capture(ecs::Entity entity, Value& value);
    void look_at(ecs::Entity entity, Value& value);
    void set_pending(Value& value, bool is_pending);
    Value* find(ecs::Entity entity, ComponentIndex component);

    ecs::World& world_;
    const Schema& schema_;
    Receiver& receiver_;
    ecs::ChangeCollector changes_;  // of components_
    ecs::Query<ecs::With<Mine>> mine_;
    std::vector<ComponentIndex> components_;  // those with from_owner(), ascending
    std::vector<Refused> handlers_;           // by component
    std::vector<Owned> owned_;                // by entity, ascending
    std::size_t pending_count_ = 0;
    std::size_t next_ = 0;  // where in owned_ the next section begins
    Receiver::Value captured_;
    BitWriter value_, values_;
    Stats stats_;
};

}  // namespace shoal::replication
