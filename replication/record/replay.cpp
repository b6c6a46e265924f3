#include "replay.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "../../net/handshake/handshake.h"
#include "../send/peer_view.h"
#include "recorded_schema.h"

namespace shoal::replication::impl {

using net::impl::ByteReader;

Replay::Replay(ecs::World& world, const Schema& schema, std::span<const std::byte> recording,
               const ReceiverOptions& options)
    : world_(world), bytes_(recording), options_(options) {
    options_.max_slots = PeerView::kMaxSlots;
    open(schema);
}

/// Reads the head, and notes the keyframes and the last tick.
void Replay::open(const Schema& schema) {
    ByteReader in(bytes_);
    if (in.u64() != kRecordingMagic || !in.ok()) return void(fail(0, "this is no recording"));
    std::size_t at = in.position();
    std::optional<Chunk> chunk = read_chunk(bytes_.subspan(at));
    if (!chunk || chunk->kind != Chunk::Kind::head) return void(fail(at, "the head is damaged"));
    ByteReader head(chunk->body);
    const unsigned version = head.u8(), wire = head.u8();
    tick_us_ = head.u32();
    if (!head.ok() || version != kRecordingVersion || wire != net::impl::kWireVersion)
        return void(fail(at, "another version of the library wrote it"));
    std::string why;
    schema_ = recorded_schema(schema, head.rest(), why);
    if (schema_ && tick_us_ == 0) why = "its ticks take no time";
    if (!why.empty()) return void(fail(at, why));
    receiver_.emplace(world_, *schema_, options_);
    for (at += chunk->bytes(); at < bytes_.size(); at += chunk->bytes()) {
        chunk = read_chunk(bytes_.subspan(at));
        const bool is_keyframe = chunk && chunk->kind == Chunk::Kind::keyframe;
        const bool follows = keyframes_.empty() ? is_keyframe
                                                : chunk && is_newer(chunk->tick, last_) &&
                                                      is_newer(chunk->tick, keyframes_.front().tick);
        if (!follows || chunk->kind == Chunk::Kind::head) {
            fail(at, chunk ? "a tick is not in order" : "the recording is cut off or damaged");
            return end_at(at, last_);
        }
        if (is_keyframe) keyframes_.push_back({chunk->tick, at, last_});
        last_ = chunk->tick;
    }
}

bool Replay::fail(std::size_t at, std::string_view what) {
    error_ = "byte " + std::to_string(at) + ": " + std::string(what);
    return false;
}

bool Replay::decode(const Chunk& chunk) {
    if (chunk.kind == Chunk::Kind::keyframe) {
        receiver_->reconnect();
        number_ = 0;
    }
    ByteReader in(chunk.body);
    while (in.remaining() > 0) {
        const std::span<const std::byte> payload = in.bytes(in.uint(kPayloadSizeBytes));
        if (!in.ok() || receiver_->receive(++number_, payload) != Receiver::Verdict::accepted) return false;
    }
    return receiver_->newest_tick() == chunk.tick;
}

/// The recording ends here, and its last tick is this one. If there is no keyframe before, nothing is left.
void Replay::end_at(std::size_t at, Tick last) {
    bytes_ = bytes_.first(at);
    last_ = last;
    while (!keyframes_.empty() && keyframes_.back().at >= at) keyframes_.pop_back();
}

/// Decodes the chunks up to a tick.
bool Replay::go_on(Tick tick) {
    while (next_ < bytes_.size() && (!shown_ || is_newer(tick, *shown_))) {
        const std::optional<Chunk> chunk = read_chunk(bytes_.subspan(next_));
        if (chunk && shown_ && is_newer(chunk->tick, tick)) break;
        if (!chunk || !decode(*chunk)) {
            end_at(next_, shown_ ? *shown_ : keyframe_before(tick).before);
            shown_.reset();
            return fail(next_, "a payload is malformed");
        }
        shown_ = chunk->tick;
        next_ += chunk->bytes();
    }
    return true;
}

const Replay::Place& Replay::keyframe_before(Tick tick) const {
    const auto after = std::ranges::upper_bound(
        keyframes_, tick, [](Tick a, Tick b) { return is_newer(b, a); }, &Place::tick);
    return *std::prev(after);
}

bool Replay::seek(Tick tick) {
    ahead_ = 0;
    for (bool is_good = true; is_open(); is_good = false) {
        if (is_newer(tick, last_)) tick = last_;
        if (is_newer(first_tick(), tick)) tick = first_tick();
        const std::size_t from = keyframe_before(tick).at;
        if (!shown_ || is_newer(*shown_, tick) || next_ < from) {
            receiver_->reset();
            shown_.reset();
            next_ = from;
        }
        if (!go_on(tick)) continue;  // shows what can be shown, from its keyframe
        receiver_->apply();
        return is_good;
    }
    if (receiver_) receiver_->reset();
    return false;
}

bool Replay::step(std::int64_t ticks) {
    if (!is_open()) return false;
    const std::int64_t length = static_cast<std::int32_t>(last_tick() - first_tick());
    const std::int64_t from = shown_ ? static_cast<std::int32_t>(*shown_ - first_tick()) : -1;
    const std::int64_t most = std::numeric_limits<std::int32_t>::max();
    const std::int64_t to = from + std::clamp(ticks, -most, most);
    return seek(first_tick() + static_cast<Tick>(std::clamp<std::int64_t>(to, 0, length)));
}

bool Replay::play(net::Duration elapsed, double speed) {
    const double ticks = ahead_ + static_cast<double>(elapsed.count()) * speed / tick_us_;
    const double whole = std::clamp(std::floor(ticks), -1e9, 1e9);
    bool is_good = shown_ || step();
    if (whole < 0) is_good = is_good && step(static_cast<std::int64_t>(whole));
    for (double n = 0; n < whole && is_good && !at_end(); ++n) is_good = step();
    ahead_ = std::isfinite(ticks) ? std::clamp(ticks - whole, 0.0, 1.0) : 0;
    return is_good;
}

}  // namespace shoal::replication::impl
