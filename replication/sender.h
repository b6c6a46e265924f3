#pragma once
// Writes the changes of a world into payloads for peers. For each peer and entity it knows the newest version
// that the peer acknowledged; a record contains all changes since then. Lost payloads are not resent: the
// next record is written against the newest acknowledged version.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../net/fifo.h"
#include "codec.h"
#include "shadow.h"
#include "state_packet.h"

namespace shoal::replication {

struct SenderOptions {
    double tick_hz = 60.0;     // ticks per second, for the times below; > 0
    double history_s = 0.6;    // how long a version can be a baseline after it was replaced; > 0
    double heartbeat_s = 1.0;  // time between completion markers while nothing changes; > 0
};

/// Not thread-safe.
class Sender {
public:
    /// Small number of a peer, from 0; used again after remove_peer().
    using Peer = std::uint32_t;

    struct PeerStats {
        std::uint64_t records_sent = 0;
        std::uint64_t whole_records = 0;  // of these: full records
        std::uint64_t empty_records = 0;  // of these: deltas without changes
        std::uint64_t state_bytes = 0;    // of all payloads
        std::uint32_t pending = 0;        // entity slots with something to send
        std::uint32_t slots = 0;          // entity slots in use
    };

    /// World and schema must outlive the sender. A schema with an error stops the program.
    Sender(ecs::World& world, const Schema& schema, SenderOptions options = {});

    /// Takes the changes of the world as of `tick`, which must be newer than the last one. Call it at the end
    /// of a tick.
    void update(Tick tick);

    /// Adds a peer that has no entities yet.
    Peer add_peer();
    void remove_peer(Peer peer);

    /// Writes the next state payload of this tick to `out` and returns its size in bytes, or 0 if nothing is
    /// left to send. The caller sends it in packet `number`, which must rise, and reports its fate with
    /// on_fate(). The size is at most `capacity`, or more if a single record needs it; `out` must have at
    /// least kMaxRecordBytes + 100 bytes.
    std::size_t encode(Peer peer, std::uint64_t number, std::size_t capacity, std::span<std::byte> out);

    /// Reports the fate of packet `number`. Numbers of packets without state are ignored.
    void on_fate(Peer peer, std::uint64_t number, bool delivered);

    /// The peer does not have the baseline of `slot`: its next record is a full one. Any number is safe.
    void rebase(Peer peer, std::uint32_t slot);

    /// Makes an encode() of this tick write a completion marker, even if nothing changed. No effect if a
    /// marker for this tick was sent already.
    void request_mark(Peer peer);

    /// Returns whether the peer acknowledged all state of tick(), and a completion marker for it.
    bool is_settled(Peer peer) const;

    PeerStats stats(Peer peer) const;
    const Shadow& shadow() const { return shadow_; }
    /// Returns 0 if the entity did not replicate at the last update().
    NetId net_id(ecs::Entity entity) const { return shadow_.net_id(entity); }
    /// Of the last update(); 0 before the first.
    Tick tick() const { return tick_; }

    /// For tests: the slots, queues and packets of each peer agree with each other and with the shadow.
    bool is_consistent() const;

private:
    static constexpr std::uint32_t kNone = 0xffffffff;
    static constexpr std::uint32_t kGoneFlag = 0x80000000;  // marks a despawn record in PeerState::records

    /// An entity slot of a peer.
    struct Slot {
        std::uint32_t entry = kNone;    // index in the shadow; kNone: despawned or free
        Tick opened = 0;                // records of earlier ticks do not count
        Tick acked = 0;                 // newest version acknowledged; opened - 1: none
        Tick sent = 0;                  // newest version sent; opened - 1: none
        std::uint32_t sent_number = 0;  // low 32 bits of the number of the packet with the newest record
    };
    static_assert(sizeof(Slot) + sizeof(std::uint32_t) <= 24, "memory per peer and visible entity");

    struct Packet {
        std::uint64_t number;
        Tick tick;
        std::uint32_t record_count;
        std::uint32_t newest_count;  // records that are the newest of their slot
        bool settled;                // the fate is known
        bool delivered;
    };

    struct PeerState {
        bool in_use = false;
        std::vector<Slot> slots;
        std::vector<std::uint64_t> free_slots;  // one bit per slot
        std::size_t first_free_word = 0;
        std::vector<std::uint32_t> slot_of;  // by shadow index; kNone: no slot
        std::vector<bool> is_pending;        // by slot: has something to send
        std::vector<bool> is_queued;         // by slot: in the queue
        net::Fifo<std::uint32_t> queue;      // oldest first; also slots not pending any more
        std::uint32_t pending_count = 0;

        net::Fifo<Packet> packets;         // in flight, by number
        net::Fifo<std::uint32_t> records;  // the slots of their records, in the same order
        std::uint64_t anchor_number = 0;   // newest acknowledged state packet; 0: none
        Tick anchor_tick = 0;
        std::uint64_t mark_number = 0;   // newest packet with a completion marker; 0: none
        std::uint64_t mark_first = 0;    // oldest packet that the marker needs
        std::uint64_t mark_missing = 0;  // state packets from first to number, not acknowledged
        Tick mark_tick = 0;

        Tick last_sent = 0;
        bool wants_mark = true;  // a completion marker is due, also without records
        PeerStats stats;
    };

    /// A record that may be written into the current payload.
    struct Candidate {
        RecordHeader header;
        std::size_t body_offset = 0, body_bits = 0;  // in memo_bits_
        std::size_t position = 0;                    // in PeerState::queue
        bool is_empty = false;
    };

    /// The image of an entity, encoded against one baseline. Made once per tick, for all peers.
    struct MemoEntry {
        std::uint32_t entry;
        bool from_nothing;
        Tick baseline;
        std::size_t offset, bits;
        std::uint32_t next;
    };

    void update_peer(PeerState& peer);
    void open_slot(PeerState& peer, std::uint32_t entry);
    void close_slot(PeerState& peer, std::uint32_t entry);
    void free_slot(PeerState& peer, std::uint32_t slot);
    static void pend(PeerState& peer, std::uint32_t slot);
    static void unpend(PeerState& peer, std::uint32_t slot);
    static void drop_front(PeerState& peer, std::size_t count);
    static Packet* find_packet(PeerState& peer, std::uint32_t low_number);
    void settle_record(PeerState& peer, const Packet& packet, std::uint32_t record, bool delivered);

    bool prepare(std::uint32_t slot_index, const Slot& slot, Candidate& candidate);
    const MemoEntry& memo(std::uint32_t entry, const Version* baseline);
    void gather(PeerState& peer, std::size_t room_bits);
    std::size_t fit(const StateHeader& header, std::size_t room_bits, std::size_t limit_bits);
    std::size_t measure(const StateHeader& header, std::size_t count);
    StateHeader make_header(const PeerState& peer, std::uint64_t number) const;
    std::optional<StateHeader::Complete> make_mark(const PeerState& peer, std::uint64_t number) const;
    void commit(PeerState& peer, std::uint64_t number, std::size_t count);
    bool is_consistent(const PeerState& peer) const;

    SenderOptions options_;
    Shadow shadow_;
    std::vector<std::unique_ptr<PeerState>> peers_;
    Tick tick_ = 0;
    bool updated_ = false;

    BitWriter memo_bits_;
    std::vector<MemoEntry> memo_;
    std::vector<std::uint32_t>
        memo_of_;  // by shadow index: its first entry in memo_; stale if that entry is of another entity

    std::vector<Candidate> candidates_;   // oldest first
    std::vector<std::uint32_t> by_slot_;  // indices of candidates_, sorted by slot
    BitWriter packet_bits_;
};

}  // namespace shoal::replication
