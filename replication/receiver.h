#pragma once
// Turns records into a world. What arrives is decoded and checked at once, and only then
// acknowledged; the world waits for apply().

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../ecs/world.h"
#include "codec.h"
#include "net_id_map.h"
#include "reference_index.h"
#include "state_packet.h"
#include "version.h"

namespace shoal::replication {

struct ReceiverOptions {
    std::uint32_t max_slots = 65'536;  // entities at a time, and those whose end is not acknowledged
    std::uint32_t max_versions = 128;  // kept of an entity; twice the ticks of a round trip are needed
};

/// One per world; not thread-safe. The world may hold entities of its own beside the replicas.
class Receiver final : private EntityMap {
public:
    enum class [[nodiscard]] Verdict : std::uint8_t{
        accepted,   // acknowledge the packet
        refused,    // do not: nothing has changed, and the sender will decide anew
        too_many,   // a slot over max_slots: disconnect, it would never fit; nothing has changed
        malformed,  // no sender writes this: disconnect; nothing has changed
    };

    /// The replicas equal the sender's entities, quantised, as of each tick from `since` to `tick`, but
    /// for what the game itself wrote to them or destroyed.
    struct Complete {
        Tick since, tick;
    };

    struct Stats {
        std::uint64_t records = 0;          // taken over; further:
        std::uint64_t stale_records = 0;    // older than what the slot has, or for a closed one
        std::uint64_t refused_packets = 0;  // a baseline was missing, or no room for more versions
        std::uint64_t malformed_packets = 0;
        std::uint64_t suppressed = 0;  // replicas that the game destroyed, noticed with their next record
        std::uint64_t rebases = 0;     // slots that the sender was asked to send anew
    };

    /// World and schema must outlive the receiver; the schema must be without error. Replicas stay
    /// in the world when the receiver goes.
    Receiver(ecs::World& world, const Schema& schema, const ReceiverOptions& options = {});
    ~Receiver();
    Receiver(const Receiver&) = delete;
    Receiver& operator=(const Receiver&) = delete;

    /// A packet's state payload; any bytes are safe. Each number at most once.
    Verdict receive(std::uint64_t number, std::span<const std::byte> payload);

    /// Brings the world up to the newest versions: destroys, then spawns with all components at
    /// once and values, then removals; hooks see references mapped. Call it outside of hooks and
    /// queries.
    void apply();

    /// As of the last apply(); none while anything is missing or newer than a complete tick.
    std::optional<Complete> complete() const { return complete_; }

    /// Tick of the newest state received; none before the first.
    std::optional<Tick> newest_tick() const { return newest_tick_; }

    /// The replica of a net id; null if there is none, or the game destroyed it.
    ecs::Entity entity(std::uint32_t net_id) const;
    /// 0 if the entity is no replica.
    std::uint32_t net_id(ecs::Entity entity) const;
    /// Replicas in the world.
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

    /// Slots whose baseline is missing: ask the sender, reliably, to rebase them, then drop them
    /// here. Each comes once until a record brings it back.
    std::span<const std::uint32_t> rebases() const { return rebases_; }
    void drop_rebases(std::size_t count) {
        rebases_.erase(rebases_.begin(), rebases_.begin() + static_cast<std::ptrdiff_t>(count));
    }

    /// Destroys all replicas and forgets everything, as for a new connection.
    void reset();

    const Stats& stats() const { return stats_; }

    /// Calls fn(slot, net_id, tick, image) for each version held; for tests and tools.
    template <class Fn>
    void for_each_version(Fn&& fn) const {
        for (std::size_t p = 0; p < pages_.size(); ++p)
            for (std::uint32_t i = 0; pages_[p] && i < kPageSlots; ++i) {
                const Slot& slot = pages_[p]->slots[i];
                for (const Version* v = slot.versions.oldest(); v; v = v->newer)
                    fn(static_cast<std::uint32_t>(p * kPageSlots + i), slot.net_id, v->tick, v->image);
            }
    }

private:
    static constexpr std::uint32_t kPageSlots = 64;

    struct Slot {
        std::uint32_t net_id = 0;  // 0: closed
        bool has_tick = false;
        bool is_dirty = false;       // in dirty_
        bool is_applied = false;     // the world shows, or showed, version `applied`
        bool is_suppressed = false;  // the game destroyed the replica
        bool is_rebasing = false;    // asked for, and no record came since
        bool has_news = false;       // references in it have changed their meaning
        Tick last_tick = 0;          // of the newest record, also for a closed slot
        Tick floor = 0;              // newest baseline that a record named: older versions are not needed
        Tick applied = 0;            // version that the world shows
        ecs::Entity entity;
        VersionList versions;
    };

    struct Page {
        std::array<Slot, kPageSlots> slots;
    };

    /// A decoded record that waits for the rest of its packet to be good.
    struct Staged {
        RecordHeader header;
        const Shape* shape = nullptr;
        std::size_t offset = 0, size = 0;  // in staged_words_
    };

    /// Which of the latest state packets were accepted, and their ticks.
    class PacketLog {
    public:
        void insert(std::uint64_t number, Tick tick);
        std::optional<Tick> tick(std::uint64_t number) const;
        /// Accepted ones from `first` to `last`.
        std::uint64_t count(std::uint64_t first, std::uint64_t last) const;

    private:
        static constexpr std::size_t kSize = 1024;
        static_assert(kSize > 2 * kMaxPacketDistance);
        struct Entry {
            std::uint64_t number = 0;  // 0: none
            Tick tick = 0;
        };
        std::array<Entry, kSize> entries_{};
    };

    std::uint32_t to_net(ecs::Entity entity) override { return net_id(entity); }
    ecs::Entity to_entity(std::uint32_t net_id) override { return entity(net_id); }

    const Slot* find(std::uint32_t slot) const;
    Slot& obtain(std::uint32_t slot);
    Slot& slot(std::uint32_t index) { return pages_[index / kPageSlots]->slots[index % kPageSlots]; }
    Verdict stage(const RecordHeader& header, Tick tick, BitReader& in);
    void commit(const Staged& staged, Tick tick);
    void close(std::uint32_t index, Slot& slot);
    void touch(std::uint32_t index, Slot& slot);

    void request_rebase(std::uint32_t index);
    void destroy_gone();
    void create_new();
    void announce_news();
    void write_values(Slot& slot);
    void finish_values(std::uint32_t index, Slot& slot);
    void update_complete();

    ecs::World& world_;
    ReceiverOptions options_;
    ShapeTable shapes_;
    std::vector<ecs::ComponentId> ids_;  // by ComponentIndex
    VersionPool pool_;

    std::vector<std::unique_ptr<Page>> pages_;
    NetIdMap slot_of_;                    // by net id, of open slots
    std::vector<std::uint32_t> slot_at_;  // by ecs index: slot of a replica
    ReferenceIndex references_;           // net id -> slots whose applied version refers to it
    std::vector<std::uint32_t> dirty_;    // slots to apply
    struct Gone {
        std::uint32_t net_id;
        ecs::Entity entity;
        bool was_suppressed;
    };
    std::vector<Gone> gone_;              // replicas to destroy
    std::vector<std::uint32_t> news_;     // net ids that came or went
    std::vector<std::uint32_t> readers_;  // slots that refer to those

    PacketLog log_;
    std::optional<Tick> newest_tick_;
    struct Mark {
        Tick tick, quiet;
        std::uint64_t first, last;  // packets
        std::uint64_t count;        // of these, those with state
    };
    std::optional<Mark> mark_;  // of the newest tick that has one
    std::optional<Complete> complete_;

    std::vector<std::uint32_t> rebases_;

    std::vector<Staged> staged_;
    std::vector<std::uint32_t> staged_words_, words_;
    std::vector<void*> scratch_;  // by ComponentIndex: room for one value; null for tags
    std::vector<ComponentIndex> added_;
    std::vector<ecs::ComponentId> added_ids_;
    std::vector<void*> added_values_;
    Stats stats_;
};

}  // namespace shoal::replication
