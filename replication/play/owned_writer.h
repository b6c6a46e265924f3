#pragma once
// On a client: finds the values that the game writes to components with from_owner(), and sends them to the
// server.

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "../../ecs/change_collector.h"
#include "../../ecs/query.h"
#include "../../net/fifo.h"
#include "../receive/receiver.h"
#include "owned_wire.h"
#include "uplink.h"

namespace shoal::replication::impl {

/// While this client owns an entity (it has the tag Mine), records can add and remove components with
/// from_owner(), but change their values only with the OwnerState. A payload contains, beginning with the
/// oldest, the values that are not known to have arrived, as many as fit. So if a payload is delivered, the
/// server has its values and all earlier ones. Not thread-safe.
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

    /// Takes the values that the game wrote since the last call. `before`: what the client did before.
    void take(const Before& before);
    /// As take(), before an action or message. Returns the version of the newest value, which the action or
    /// message names. The value is sent even if there is a newer one.
    std::uint32_t name_newest(const Before& before);
    /// Finds the entities that this client owns now, and calls take(). Then the next payload is due. Call it
    /// once between two calls of Receiver::apply(), outside of hooks and queries.
    void update(const Before& before);
    /// Keeps the server's message that it refused a value, until the world has the server's value; the
    /// handler is not told of more than 64 that wait. Returns false, without effect, if there is none, or it
    /// is malformed.
    bool receive(std::optional<OwnedRefusal> refusal);
    /// Prepares for a new connection to a server that knows what this client has: it counts messages anew.
    void reconnect();
    /// Removes all entities and values, for a new connection. Call it after Receiver::reset().
    void reset();

    bool write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) override;
    void on_fate(std::uint64_t packet, bool delivered) override;

    const Stats& stats() const { return stats_; }

    bool is_consistent() const;  // consistency.cpp

private:
    struct Value {
        ComponentIndex component = 0;
        std::uint32_t version = 0;         // of the newest value that the game wrote; 0: none
        std::vector<std::uint32_t> words;  // the last known value in the world
    };
    struct Owned {
        ecs::Entity entity;
        NetId net_id = 0;
        std::optional<Tick> shown;  // tick of the version that has the components of `values`
        OwnerState state;           // in this version
        std::vector<Value> values;  // in the order of their components
    };
    struct Sent {
        std::uint64_t packet;
        std::uint32_t newest;  // version of the last value in the packet
    };

    static constexpr std::size_t kMaxPinned = 32, kMaxNamed = 256;  // see add()
    static constexpr std::size_t kMaxRefusals = 64;

    std::vector<Owned>::iterator place_of(ecs::Entity entity);
    bool is_shown(ecs::Entity entity) const;
    void follow_version(Owned& owned);
    void restore(const Owned& owned, Value& value, const ImageCursor& image);
    void release(Owned& owned);
    bool capture(ecs::Entity entity, Value& value);
    void add(const Owned& owned, Value& value);
    void tell_refused();

    ecs::World& world_;
    const Schema& schema_;
    Receiver& receiver_;
    ecs::ChangeCollector changes_;  // watches components_
    ecs::Query<ecs::With<Mine>> mine_;
    std::vector<ComponentIndex> components_;  // components with from_owner(), ascending
    std::vector<Refused> handlers_;           // by component
    std::vector<Owned> owned_;                // by entity, ascending
    std::vector<OwnedValue> waiting_;         // not known to have arrived; the oldest first
    std::uint32_t newest_ = 0;                // version of the newest value
    std::uint32_t named_ = 0;                 // version of the newest value that an action or message names
    Before before_;                           // argument of the running take()
    bool has_input_;                          // of the schema
    bool is_due_ = false;                     // there was no payload since update()
    std::uint32_t payloads_left_ = 0;         // that will carry waiting_; with inputs, all until it is empty
    net::impl::Fifo<Sent> sent_;              // packets in flight, the oldest first
    std::vector<OwnedRefusal> refusals_;      // to be told
    Receiver::Value captured_;
    BitWriter value_, values_;
    Stats stats_;
};

}  // namespace shoal::replication::impl
