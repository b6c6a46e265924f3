#pragma once
// Applies the records of a Sender to a world. receive() decodes and checks a payload before it is
// acknowledged; apply() changes the world.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../../ecs/world.h"
#include "../codec/codec.h"
#include "../codec/state_packet.h"
#include "../history/net_id_map.h"
#include "../history/reference_index.h"
#include "../history/version.h"
#include "../schema/binding.h"
#include "completion.h"

namespace shoal::replication {

struct ReceiverOptions {
    std::uint32_t max_slots = 65'536;  // >= 1; entity slots: one per entity or unacknowledged despawn
    std::size_t max_version_bytes = std::size_t{256} << 20;  // memory for the versions of all entities
    std::uint32_t max_versions = 256;  // >= 4; versions kept per entity; use twice the round trip in ticks
};

/// Not thread-safe. The world may have other entities beside the replicas.
class Receiver final : private EntityMap {
public:
    enum class [[nodiscard]] Verdict : std::uint8_t{
        accepted,   // acknowledge the packet; the other values mean that no record of it was used
        refused,    // a baseline is missing, or a limit was reached: do not acknowledge the packet
        too_many,   // disconnect: a slot is not below max_slots, or the versions exceed max_version_bytes
        malformed,  // disconnect: no correct sender writes this payload
    };

    /// The sender's entities did not change from tick `since` to tick `tick`. The replicas equal their
    /// quantised values in these ticks, except for what the receiving game itself changed or destroyed.
    using Complete = Completion::Complete;

    struct Stats {
        std::uint64_t records = 0;          // that were used
        std::uint64_t stale_records = 0;    // not used, because the slot had a record as new or newer
        std::uint64_t refused_packets = 0;  // a baseline was missing, or a limit was reached
        std::uint64_t malformed_packets = 0;
        std::uint64_t suppressed = 0;  // replicas that the game destroyed; counted at their next record
        std::uint64_t rebases = 0;     // how often a slot was added to rebases()
    };

    /// World and schema must outlive the receiver. A schema with an error stops the program. The destructor
    /// leaves the replicas in the world.
    Receiver(ecs::World& world, const Schema& schema, const ReceiverOptions& options = {});
    Receiver(const Receiver&) = delete;
    Receiver& operator=(const Receiver&) = delete;

    /// Decodes the payload of packet `number`. Any bytes are safe. Pass each number at most once.
    Verdict receive(std::uint64_t number, std::span<const std::byte> payload);

    /// Applies the newest versions to the world: destroys replicas, creates new ones, writes all values,
    /// calls the add and change hooks, and then removes components. So a hook sees every replica with all
    /// values of the same call, and references translated to this world's entities. Call it outside of hooks
    /// and queries.
    void apply();

    /// The ticks at which the replicas equal the sender's entities (see Complete), as of the last apply().
    /// Nothing if there is no completion marker yet, if a packet that the marker needs is missing, or if a
    /// payload of a newer tick than the marker's has arrived.
    std::optional<Complete> complete() const { return complete_; }

    /// Tick of the newest payload accepted; nothing before the first.
    std::optional<Tick> newest_tick() const { return completion_.newest_tick(); }

    /// Returns the replica of a net id; null if there is none, or the game destroyed it.
    ecs::Entity entity(std::uint32_t net_id) const;
    /// Returns 0 if the entity is not a replica.
    std::uint32_t net_id(ecs::Entity entity) const;
    /// Number of replicas in the world. Takes time in proportion to all slots.
    std::uint32_t entity_count() const {
        std::uint32_t count = 0;
        for_each_entity([&](std::uint32_t, ecs::Entity) { ++count; });
        return count;
    }

    /// Calls fn(net_id, entity) for each replica in the world.
    template <class Fn>
    void for_each_entity(Fn&& fn) const {
        for (const auto& page : pages_)
            for (std::uint32_t i = 0; page && i < kPageSlots; ++i)
                if (world_.is_alive(page->slots[i].entity)) fn(page->slots[i].net_id, page->slots[i].entity);
    }

    /// Entity slots that need a full record: a baseline is missing, or max_versions is reached. Send them to
    /// the server in a reliable message, so that it calls Sender::rebase() for each. Then call drop_rebases()
    /// with the number of slots sent, which removes them from the front. A slot is listed again only after a
    /// record of it was used.
    std::span<const std::uint32_t> rebases() const { return rebases_; }
    void drop_rebases(std::size_t count) {
        rebases_.erase(rebases_.begin(), rebases_.begin() + static_cast<std::ptrdiff_t>(count));
    }

    /// Destroys all replicas and forgets all versions and packets, for a new connection.
    void reset();

    const Stats& stats() const { return stats_; }
    const ReceiverOptions& options() const { return options_; }

    /// Calls fn(slot, net_id, tick, image) for each version kept; for tests and tools.
    template <class Fn>
    void for_each_version(Fn&& fn) const {
        for (std::size_t p = 0; p < pages_.size(); ++p)
            for (std::uint32_t i = 0; pages_[p] && i < kPageSlots; ++i) {
                const Slot& slot = pages_[p]->slots[i];
                for (const Version* v = slot.versions.oldest(); v; v = v->newer)
                    fn(static_cast<std::uint32_t>(p * kPageSlots + i), slot.net_id, v->tick, v->image);
            }
    }

    /// For tests: slots, their versions, and the tables that find a slot agree with each other.
    bool is_consistent() const;

private:
    static constexpr std::uint32_t kPageSlots = 64;

    struct Slot {
        std::uint32_t net_id = 0;    // 0: the slot is closed
        bool has_tick = false;       // last_tick has a value
        bool is_dirty = false;       // the slot is in dirty_
        bool is_applied = false;     // apply() has written version `applied` to the world
        bool is_suppressed = false;  // the game destroyed the replica
        bool is_rebasing = false;    // a full record was requested, and no record was used since
        bool has_news = false;       // an entity that the replica refers to appeared or disappeared
        Tick last_tick = 0;          // of the newest record; kept when the slot is closed
        Tick floor = 0;              // tick of the newest baseline used
        Tick applied = 0;            // tick of the version that apply() wrote last
        ecs::Entity entity;
        VersionList versions;
    };

    struct Page {
        std::array<Slot, kPageSlots> slots;
    };

    /// A decoded record. commit() uses it after the whole payload was decoded.
    struct Staged {
        RecordHeader header;
        const Shape* shape = nullptr;
        std::size_t offset = 0, size = 0;  // the words of the image in staged_words_
    };

    std::uint32_t to_net(ecs::Entity entity) override { return net_id(entity); }
    ecs::Entity to_entity(std::uint32_t net_id) override { return entity(net_id); }

    const Slot* find(std::uint32_t slot) const;
    Slot& obtain(std::uint32_t slot);
    Slot& slot(std::uint32_t index) { return pages_[index / kPageSlots]->slots[index % kPageSlots]; }
    Verdict stage(const RecordHeader& header, Tick tick, BitReader& in);
    void commit(const Staged& staged, Tick tick);
    void drop_old_versions(Slot& slot);
    void move_replica(std::uint32_t from_index, std::uint32_t to_index);
    void close(std::uint32_t index, Slot& slot);
    void touch(std::uint32_t index, Slot& slot);

    void request_rebase(std::uint32_t index);
    void destroy_gone();
    void create_new();
    void announce_news();
    void write_values(Slot& slot);
    void finish_values(std::uint32_t index, Slot& slot);

    ecs::World& world_;
    ReceiverOptions options_;
    Binding binding_;
    VersionPool pool_;

    std::vector<std::unique_ptr<Page>> pages_;
    NetIdMap slot_of_;                    // net id -> open slot
    std::vector<std::uint32_t> slot_at_;  // by entity index: slot of the replica
    ReferenceIndex references_;           // net id -> slots whose applied version refers to it
    std::vector<std::uint32_t> dirty_;    // slots that apply() must write to the world
    struct Gone {
        std::uint32_t net_id;
        ecs::Entity entity;
        bool was_suppressed;
    };
    std::vector<Gone> gone_;              // replicas to destroy
    std::vector<std::uint32_t> news_;     // net ids that appeared or disappeared
    std::vector<std::uint32_t> readers_;  // slots whose replicas refer to news_

    Completion completion_;
    std::optional<Complete> complete_;

    std::vector<std::uint32_t> rebases_;

    std::vector<Staged> staged_;
    std::vector<std::uint32_t> staged_words_, words_;
    Stats stats_;
};

}  // namespace shoal::replication
