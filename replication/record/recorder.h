#pragma once
// Records the state that a sender sends, as bytes for a file. Replay plays them.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../send/sender.h"

namespace shoal::replication::impl {

struct RecorderOptions {
    double keyframe_s = 10.0;  // time between keyframes; a seek decodes half of it on average; > 0
    std::uint64_t max_bytes = std::uint64_t{1} << 30;  // the recording ends before it would be larger
    // View classes whose components are recorded, besides to_others(): by default, all. to_all_groups()
    // leaves out what only owners and predictors get.
    ViewClasses sees = to_everyone();
};

/// A peer of a sender that has all entities, whatever the scope hides from players, and loses nothing. Not
/// thread-safe.
class Recorder {
public:
    /// Adds the peer. Sender and schema must outlive the recorder. `tick_us`: time between two ticks, in
    /// microseconds; >= 1.
    Recorder(Sender& sender, const Schema& schema, std::uint32_t tick_us,
             const RecorderOptions& options = {});
    /// Removes the peer.
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// Records a tick: call it after each Sender::update(). Returns the bytes to append to the file, valid
    /// until the next call; none if the recording would exceed max_bytes. All bytes so far are a recording.
    std::span<const std::byte> record();

    std::uint64_t bytes() const { return bytes_; }  // of the recording
    bool is_full() const { return !peer_; }         // max_bytes was reached: nothing is recorded any more

private:
    void write_payloads();

    Sender& sender_;
    const Schema& schema_;
    RecorderOptions options_;
    std::uint32_t tick_us_;
    Tick keyframe_ticks_;
    std::optional<Sender::Peer> peer_;  // empty: is_full()
    std::optional<Tick> keyframe_;      // the newest one
    std::uint64_t number_ = 0;          // of the last payload; begins anew at each keyframe
    std::uint64_t bytes_ = 0;
    std::vector<std::byte> out_, room_;
};

}  // namespace shoal::replication::impl

namespace shoal::replication {
using impl::RecorderOptions;
}  // namespace shoal::replication
