#pragma once
// Writes the changes of a world into payloads for peers. For each peer and entity it knows the newest version
// that the peer acknowledged; a record contains all changes since that version. Lost payloads are not resent:
// the next record is written against the newest acknowledged version.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../../net/fifo.h"
#include "../codec/codec.h"
#include "../codec/state_packet.h"
#include "../history/shadow.h"

namespace shoal::replication {

struct SenderOptions {
    double tick_hz = 60.0;       // ticks per second, to convert the times below to ticks; > 0
    double history_s = 0.6;      // how long a version can be a baseline after it was replaced; > 0
    double max_history_s = 4.0;  // as long as that if a peer's acks take long; at least history_s
    double heartbeat_s = 1.0;    // time between completion markers while nothing changes; > 0
};

struct PeerOptions {
    /// What the peer can take. Entities without a slot wait until despawn records of others are acknowledged.
    std::uint32_t max_slots = 65'536;  // >= 1
};

/// Not thread-safe.
class Sender {
public:
    /// A small number that stands for a peer, from 0. add_peer() reuses the number of a removed peer.
    using Peer = std::uint32_t;

    struct PeerStats {
        std::uint64_t records_sent = 0;
        std::uint64_t whole_records = 0;  // of records_sent: full records
        std::uint64_t empty_records = 0;  // of records_sent: deltas without changes
        std::uint64_t state_bytes = 0;    // sum of all payload sizes
        std::uint32_t pending = 0;        // entity slots with something to send
        std::uint32_t slots = 0;          // entity slots in use
        std::uint32_t waiting = 0;        // entities that wait for a slot
    };

    /// World and schema must outlive the sender. A schema with an error stops the program.
    Sender(ecs::World& world, const Schema& schema, SenderOptions options = {});

    /// Takes the changes of the world as of `tick`, which must be newer than that of the last call. Call it
    /// at the end of a tick.
    void update(Tick tick);

    /// Adds a peer that has no entities yet.
    Peer add_peer(const PeerOptions& options = {});
    void remove_peer(Peer peer);

    /// Returns the next state payload of this tick; empty if nothing is left to send. The caller sends it in
    /// packet `number`, which must be higher in each call, and reports with on_fate() whether it was
    /// delivered. The payload exceeds `capacity` bytes only if one record, or a completion marker without
    /// records, needs more. It is in `room`, which must have at least 100 bytes. If one record needs more
    /// than `room`, the payload is in memory of the sender, valid until the next call; it has at most
    /// kMaxEntityBytes + 100 bytes.
    std::span<const std::byte> encode(Peer peer, std::uint64_t number, std::size_t capacity,
                                      std::span<std::byte> room);

    /// Reports that packet `number` was delivered or lost. Numbers of packets without state are ignored.
    void on_fate(Peer peer, std::uint64_t number, bool delivered);

    /// Makes the next record of `slot` a full one, because the peer requested it. Any slot number is safe.
    void rebase(Peer peer, std::uint32_t slot);

    /// Makes encode() write a completion marker for tick(), even if nothing changed. No effect if a marker
    /// for this tick was sent to the peer already.
    void request_mark(Peer peer);

    /// Returns true if the peer acknowledged two things: all state of tick(), and a completion marker for
    /// tick().
    bool is_settled(Peer peer) const;

    PeerStats stats(Peer peer) const;
    const Shadow& shadow() const { return shadow_; }
    /// Returns 0 if the entity did not replicate at the last update().
    NetId net_id(ecs::Entity entity) const { return shadow_.net_id(entity); }
    /// Tick of the last update(); 0 before the first.
    Tick tick() const { return tick_; }

    /// For tests: the slots, queues and packets of each peer agree with each other and with the shadow.
    bool is_consistent() const;

private:
    static constexpr std::uint32_t kNone = 0xffffffff;
    static constexpr std::uint32_t kGoneFlag = 0x80000000;  // marks a despawn record in PeerState::records

    /// An entity slot of a peer.
    struct Slot {
        std::uint32_t entry = kNone;    // index in the shadow; kNone: entity despawned, or slot free
        Tick opened = 0;                // tick when opened or rebased; on_fate() ignores older records
        Tick acked = 0;                 // tick of the newest version acknowledged; `opened` - 1: none
        Tick sent = 0;                  // tick of the newest version sent; `opened` - 1: none
        std::uint32_t sent_number = 0;  // low 32 bits of the number of the packet with the newest record
    };
    static_assert(sizeof(Slot) + sizeof(std::uint32_t) <= 24, "memory per peer and visible entity");

    struct Packet {
        std::uint64_t number;
        Tick tick;
        std::uint32_t record_count;
        std::uint32_t newest_count;  // how many of its records are the newest of their slot
        bool settled;                // known to be delivered or lost
        bool delivered;
    };

    struct PeerState {
        bool in_use = false;
        PeerOptions options;
        std::vector<Slot> slots;
        std::vector<std::uint64_t> free_slots;  // one bit per slot; 1: free
        std::size_t first_free_word = 0;
        std::vector<std::uint32_t> slot_of;  // by index in the shadow; kNone: no slot
        std::uint32_t next_waiting = 0;      // index in the shadow where give_slots() continues
        std::vector<bool> is_pending;        // by slot: there is something to send
        std::vector<bool> is_queued;         // by slot: it is in `queue`
        net::Fifo<std::uint32_t> queue;      // oldest first; also slots that are no longer pending
        std::uint32_t pending_count = 0;

        net::Fifo<Packet> packets;         // by number, from the oldest one in flight on
        net::Fifo<std::uint32_t> records;  // the slots of all records in `packets`, in the same order
        std::uint64_t anchor_number = 0;   // number of the newest acknowledged state packet; 0: none
        Tick anchor_tick = 0;
        // The newest completion marker. The marker holds once all state packets with the numbers mark_first
        // to mark_number arrived.
        std::uint64_t mark_number = 0;  // number of the packet with the marker; 0: no marker was sent
        std::uint64_t mark_first = 0;
        std::uint64_t mark_missing = 0;  // the number of these state packets that are not acknowledged
        Tick mark_tick = 0;

        Tick last_sent = 0;
        bool wants_mark = true;  // send a completion marker, even if there are no records
        PeerStats stats;
    };

    /// A record that may be written into the current payload.
    struct Candidate {
        RecordHeader header;
        std::size_t body_offset = 0, body_bits = 0;  // the encoded image in memo_bits_; in bits
        std::size_t position = 0;                    // in PeerState::queue
        bool is_empty = false;
    };

    /// An entity's image, encoded against one baseline or none. Made once per tick, then used for all peers.
    struct MemoEntry {
        std::uint32_t entry;
        bool from_nothing;
        Tick baseline;
        std::size_t offset, bits;
        std::uint32_t next;
    };

    std::uint32_t history_ticks(Tick tick) const;
    void update_peer(PeerState& peer);
    void open_slot(PeerState& peer, std::uint32_t entry);
    void give_slots(PeerState& peer);
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
    std::size_t fit(const StateHeader& header, std::size_t room_bits);
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
    // By index in the shadow: where in memo_ the entity's list of MemoEntries begins. Not cleared with memo_:
    // valid only if memo_ has an element there, and its `entry` is this index.
    std::vector<std::uint32_t> memo_of_;

    std::vector<Candidate> candidates_;   // oldest first
    std::vector<std::uint32_t> by_slot_;  // indices of candidates_, sorted by slot
    BitWriter packet_bits_;
    std::vector<std::byte> large_;  // the last payload that did not fit the caller's memory
};

}  // namespace shoal::replication
