#pragma once
// Decodes the payloads of a Sender into versions of replicas. It does not change the world.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../codec/bits.h"
#include "../codec/state_packet.h"
#include "../codec/trend.h"
#include "../history/replicas.h"
#include "../schema/binding.h"
#include "completion.h"
#include "local_writes.h"

namespace shoal::replication::impl {

struct ReceiverOptions {
    std::uint32_t max_slots = 65'536;  // >= 1; entity slots: one per entity or unacknowledged despawn
    // Most that a server can make this client hold, in bytes of memory, roughly; see receive/README.md. If it
    // sends more, the client disconnects.
    std::size_t max_held_bytes = std::size_t{512} << 20;
    std::uint32_t max_versions = 256;  // >= 4; versions kept per entity; use twice the round trip in ticks
    // Seed of the hash tables. Keep it secret, so that a hostile server cannot cause collisions. 0: a Client
    // chooses a seed.
    std::uint64_t hash_seed = 0;
    // Whether a Client shows entities that have a component with a Display (options.h) later than
    // they arrive, so that their values can be mixed between two versions.
    bool interpolate = true;
    OnLocalWrite on_local_write = {};  // use it to find mistakes of the game; costs time for each write
};

/// Opens and closes replicas, and adds their versions. Not thread-safe.
class Decoder {
public:
    /// What the caller must do with the packet. If it is not accepted, none of its records was used.
    enum class [[nodiscard]] Verdict : std::uint8_t{
        accepted,   // acknowledge the packet
        refused,    // do not acknowledge it: the anchor or a baseline is missing, or max_versions is reached
        too_many,   // disconnect: a slot is not below max_slots, or held_bytes() would exceed max_held_bytes
        malformed,  // disconnect: the payload is invalid
    };

    struct Stats {
        std::uint64_t records = 0;          // records that were used
        std::uint64_t stale_records = 0;    // records that arrived after a record of their entity with the
                                            // same or a newer tick: not shown, but perhaps a baseline
        std::uint64_t refused_packets = 0;  // a baseline was missing, or a limit was reached
        std::uint64_t malformed_packets = 0;
        std::uint64_t rebases = 0;  // how often a full record was requested
        // Of these: because a self-check found that this side has other values than the server.
        std::uint64_t differences = 0;
    };

    /// The arguments must outlive the decoder. It makes the versions of `replicas` with shapes of `binding`.
    Decoder(Binding& binding, Replicas& replicas, const ReceiverOptions& options);
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    /// Decodes the payload of packet `number`. Any bytes are safe. Requires number >= 1. Pass each number at
    /// most once.
    Verdict receive(std::uint64_t number, std::span<const std::byte> payload);

    /// Later payloads can name this model, until reconnect() or reset(). Any bytes are safe. Returns false,
    /// without effect, if they are invalid.
    bool add_model(std::uint8_t number, std::span<const std::byte> bytes);

    /// What the replicas and their sets of components take, in bytes.
    std::size_t held_bytes() const { return replicas_.bytes() + binding_.shapes().bytes(); }

    /// The packets that were accepted.
    const Completion& completion() const { return completion_; }

    /// StateHeader::margin of the last payload accepted.
    const std::optional<StateHeader::Margin>& margin() const { return margin_; }

    /// Entity slots that need a full record, each once. A slot is added again only after a record of it was
    /// used.
    std::span<const std::uint32_t> rebases() const { return rebases_; }
    /// Returns whether a slot is in rebases() because a self-check found that this side has other values than
    /// the server.
    bool differs(std::uint32_t slot) const { return slots_[slot].differs; }
    std::uint32_t replica_in(std::uint32_t slot) const { return slots_[slot].replica; }
    /// Removes the first `count` slots of rebases().
    void drop_rebases(std::size_t count);

    /// For a new connection, if the sender still knows what this decoder acknowledged: forgets packets and
    /// rebases, and keeps slots and versions.
    void reconnect();

    /// Closes all replicas, and forgets slots, packets and rebases; for a new connection.
    void reset();

    const Stats& stats() const { return stats_; }

    /// Calls fn(slot, replica index) for each slot that describes a replica.
    template <class Fn>
    void for_each_replica(Fn&& fn) const {
        for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
            if (slots_[slot].replica != Replicas::kNone) fn(slot, slots_[slot].replica);
    }

    bool is_consistent() const;  // consistency.cpp

private:
    struct Slot {
        std::uint32_t replica = Replicas::kNone;
        std::optional<Tick> last_tick;  // tick of the newest record; kept when the slot is closed
        bool is_rebasing = false;       // a full record was requested, and no record was used since
        bool is_listed = false;         // the slot is in rebases_
        bool differs = false;           // is_listed: because of a self-check
    };

    /// A decoded record. commit() uses it after the whole payload was decoded.
    struct Staged {
        RecordHeader header;
        const Shape* shape = nullptr;
        std::size_t offset = 0, size = 0;  // the words of the image in staged_words_
        std::size_t cost = 0;              // see Replicas::note_cost()
    };

    Verdict decode(std::uint64_t number, std::span<const std::byte> payload);
    Verdict stage_records(const StateHeader& header, RecordHeaderCoder records, BitReader& in);
    Verdict stage(const RecordHeader& header, const StateHeader& payload, BitReader& in);
    /// Finds the versions that a delta is based on. Returns false if one is missing.
    bool find_versions(std::uint32_t replica, const RecordHeader& header, Tick tick, Image& baseline,
                       Trend& trend) const;
    ModelView model_of(const StateHeader& payload) const;
    void keep_list(std::uint64_t number);
    void request_rebase(std::uint32_t slot, bool differs = false);
    void compare(const StateHeader::Check& check, Tick tick);
    void commit(const Staged& staged, Tick tick);
    bool is_overtaken(const RecordHeader& header, Tick tick) const;
    void keep_overtaken(const Staged& staged, Tick tick, const Image& image);
    void close(Slot& slot, Despawn reason, Tick tick);
    void forget_old_tick(Tick now);
    void bind(const RecordHeader& header, Tick tick);

    Binding& binding_;
    Replicas& replicas_;
    ReceiverOptions options_;
    std::vector<Slot> slots_;           // slots above the highest one that was used are missing
    std::uint32_t next_to_forget_ = 0;  // slot that forget_old_tick() looks at next
    Completion completion_;
    std::optional<StateHeader::Margin> margin_;
    std::array<CodecModel, kMaxModel> models_;  // by number - 1; empty: none
    std::vector<std::uint32_t> rebases_;
    Stats stats_;

    /// The slots with a delta or full record in an accepted packet, ascending.
    struct SlotList {
        std::uint64_t number = 0;
        std::vector<std::uint32_t> listed;
    };
    std::array<SlotList, 2 * kMaxListDistance> lists_;  // by number of the packet, modulo the size

    // Scratch for the current payload.
    std::vector<Staged> staged_;
    std::size_t staged_cost_ = 0;  // what they cost more than the versions before
    std::vector<std::uint32_t> staged_words_, words_;
};

}  // namespace shoal::replication::impl
