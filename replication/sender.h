#pragma once
// Turns a world into records for peers. For each peer and entity it knows the newest version that
// this peer has acknowledged, and sends what leads from there to now: spawn, values, components,
// despawn alike. What is lost is not repeated; it is decided anew.

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
    double tick_hz = 60.0;     // ticks a second, for the times below; > 0
    double history_s = 0.6;    // how old a baseline may be; > 0
    double heartbeat_s = 1.0;  // in an idle world: seconds between marks; > 0
};

/// One per world; not thread-safe. Peers are numbered by the sender, from 0 and densely.
class Sender {
public:
    using Peer = std::uint32_t;

    struct PeerStats {
        std::uint64_t records_sent = 0;  // of these:
        std::uint64_t whole_records = 0;
        std::uint64_t empty_records = 0;  // that only settle what a peer may hold
        std::uint64_t state_bytes = 0;
        std::uint32_t pending = 0;  // entities that wait to be sent
        std::uint32_t slots = 0;    // entities that the peer has, or is to get or lose
    };

    /// World and schema must outlive the sender; the schema must be without error.
    Sender(ecs::World& world, const Schema& schema, SenderOptions options = {});

    /// Takes over the world's changes as of `tick`. Call it last in a tick, with a tick newer than the
    /// last one.
    void update(Tick tick);

    /// A peer that has nothing yet.
    Peer add_peer();
    void remove_peer(Peer peer);

    /// The next state payload of this tick for a peer, which the caller then sends as packet
    /// `number`; its fate comes back through on_fate(). Returns its size, 0 when nothing is left to
    /// say. `capacity` is what the packet should hold at most; a single record that is larger uses
    /// more of `out`, which must hold kMaxRecordBytes and 100 more.
    std::size_t encode(Peer peer, std::uint64_t number, std::size_t capacity, std::span<std::byte> out);

    /// What became of packet `number`. Unknown numbers are ignored: not every packet has state.
    void on_fate(Peer peer, std::uint64_t number, bool delivered);

    /// The peer cannot follow the slot: send its entity from nothing. Harmless for any number.
    void rebase(Peer peer, std::uint32_t slot);

    /// Makes the next encode() say that the state is complete, even if nothing changed.
    /// One that says so of this tick and is under way is enough.
    void request_mark(Peer peer);

    /// The peer knows that it is complete as of tick().
    bool is_settled(Peer peer) const;

    PeerStats stats(Peer peer) const;
    const Shadow& shadow() const { return shadow_; }
    NetId net_id(ecs::Entity entity) const { return shadow_.net_id(entity); }
    Tick tick() const { return tick_; }

private:
    static constexpr std::uint32_t kNone = 0xffffffff;
    static constexpr std::uint32_t kGoneFlag = 0x80000000;  // in a packet's record list

    /// What one peer knows of one entity.
    struct Slot {
        std::uint32_t entry = kNone;    // of the shadow; none: closing, or free
        Tick opened = 0;                // records of earlier packets are not about this entity
        Tick acked = 0;                 // opened - 1: nothing
        Tick sent = 0;                  // opened - 1: nothing; the peer may hold this version
        std::uint32_t sent_number = 0;  // low bits of the packet that carried it
    };
    static_assert(sizeof(Slot) + sizeof(std::uint32_t) <= 24, "memory per peer and visible entity");

    struct Packet {
        std::uint64_t number;
        Tick tick;
        std::uint32_t record_count;
        std::uint32_t newest_count;  // records that are still the newest of their slot
        bool settled;
        bool delivered;
    };

    struct PeerState {
        bool in_use = false;
        std::vector<Slot> slots;
        std::vector<std::uint64_t> free_slots;  // a bit for each slot below size
        std::size_t first_free_word = 0;
        std::vector<std::uint32_t> slot_of;  // by shadow index; kNone
        std::vector<bool> is_pending;        // by slot
        std::vector<bool> is_queued;         // by slot: has a place in the queue
        net::Fifo<std::uint32_t> queue;      // oldest first; also slots not pending any more
        std::uint32_t pending_count = 0;

        net::Fifo<Packet> packets;         // in flight, by number
        net::Fifo<std::uint32_t> records;  // their slots, in the same order
        std::uint64_t anchor_number = 0;   // newest acknowledged state packet; 0: none
        Tick anchor_tick = 0;
        std::uint64_t mark_number = 0;   // newest packet that said complete; 0: none
        std::uint64_t mark_first = 0;    // oldest packet that it needs
        std::uint64_t mark_missing = 0;  // state packets from there to it that may not have arrived
        Tick mark_tick = 0;

        Tick last_sent = 0;
        bool wants_mark = true;
        PeerStats stats;
    };

    /// A record that may go into the packet at hand.
    struct Candidate {
        RecordHeader header;
        std::size_t body_offset = 0, body_bits = 0;  // in memo_bits_
        std::size_t position = 0;                    // in the queue of pending slots
        bool is_empty = false;
    };

    /// Bits that lead from one version to the present one, made once a tick.
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

    SenderOptions options_;
    Shadow shadow_;
    std::vector<std::unique_ptr<PeerState>> peers_;
    Tick tick_ = 0;
    bool updated_ = false;

    BitWriter memo_bits_;
    std::vector<MemoEntry> memo_;
    std::vector<std::uint32_t> memo_of_;  // by shadow index: its first memo entry of this tick

    std::vector<Candidate> candidates_;   // oldest first
    std::vector<std::uint32_t> by_slot_;  // indices of candidates, slots rising
    BitWriter packet_bits_;
};

}  // namespace shoal::replication
