#pragma once
// Plays a recording into a world.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../receive/receiver.h"
#include "chunk.h"

namespace shoal::replication::impl {

/// The entities of a recording, as replicas in a world: the game's queries, hooks and drawing work as with a
/// Client. The last seconds before a death, in half speed:
///
///     Replay replay(world, schema, recording);
///     if (!replay.seek(replay.last_tick() - 150)) return;
///     while (!replay.at_end()) {  // once per frame
///         replay.play(frame_time, 0.5);
///         draw(world, replay.receiver().entity(victim));
///     }
///
/// Not thread-safe.
class Replay {
public:
    /// Finds the ticks of a recording. Any bytes are safe; error() says what is wrong with them. They may be
    /// the start of a recording, up to any byte. World and bytes must outlive the replay. The schema
    /// may differ from the recorder's as a client's may differ from the server's: in optional components. A
    /// schema with an error stops the program. Nothing is in the world before the first seek() or play().
    Replay(ecs::World& world, const Schema& schema, std::span<const std::byte> recording,
           const ReceiverOptions& options = {});
    Replay(ecs::World&, const Schema&&, std::span<const std::byte>, const ReceiverOptions& = {}) = delete;

    /// Returns whether there is a tick to show.
    bool is_open() const { return receiver_ && !keyframes_.empty(); }
    /// One line that says what is wrong with the recording; empty if nothing is. If is_open(), the ticks from
    /// first_tick() to last_tick() can be played all the same.
    const std::string& error() const { return error_; }

    // If not is_open(), these have no meaning.
    Tick first_tick() const { return keyframes_.empty() ? last_ : keyframes_.front().tick; }
    Tick last_tick() const { return last_; }
    /// The time between two ticks.
    net::Duration tick_time() const { return net::Duration(tick_us_); }
    /// The tick that the world shows; nothing before the first seek() or play().
    std::optional<Tick> tick() const { return shown_; }
    bool at_end() const { return !is_open() || shown_ == last_; }

    /// Shows the world as of a tick, or the nearest one that is in the recording. Forward within the time of
    /// one keyframe, replicas stay the same entities. Otherwise they are destroyed and spawned again:
    /// receiver().entity() finds the new entity of a net id. Returns false if a payload of this tick is
    /// malformed: error() says so, and the recording then ends before it; without a tick left it is not
    /// is_open() any more. Call it outside of hooks and queries.
    bool seek(Tick tick);
    /// Shows the next tick, or one that is this many ticks later, or earlier if `ticks` is negative.
    bool step(std::int64_t ticks = 1);
    /// Lets time go on by `elapsed` times `speed`: shows each tick on the way, with its hooks. With a
    /// negative speed shows only the last one.
    bool play(net::Duration elapsed, double speed = 1.0);

    /// The replicas, by net id. Requires is_open().
    const Receiver& receiver() const { return *receiver_; }

private:
    struct Place {
        Tick tick = 0;
        std::size_t at = 0;  // of its chunk in bytes_
        Tick before = 0;     // tick of the chunk before, if there is one
    };

    void open(const Schema& schema);
    bool fail(std::size_t at, std::string_view what);
    bool decode(const Chunk& chunk);
    void end_at(std::size_t at, Tick last);
    bool go_on(Tick tick);
    /// The last keyframe that is not after a tick, which must be in the recording.
    const Place& keyframe_before(Tick tick) const;

    ecs::World& world_;
    std::span<const std::byte> bytes_;
    ReceiverOptions options_;
    std::string error_;
    std::optional<Schema> schema_;  // of the recording
    std::optional<Receiver> receiver_;
    std::vector<Place> keyframes_;
    std::uint32_t tick_us_ = 1;
    Tick last_ = 0;
    std::optional<Tick> shown_;
    std::size_t next_ = 0;      // of the chunk after shown_
    std::uint64_t number_ = 0;  // of the last payload, see Recorder
    double ahead_ = 0;          // ticks since shown_, less than one, see play()
};

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::NetId, impl::Receiver, impl::ReceiverOptions, impl::Replay, impl::Tick;
}  // namespace shoal::replication
