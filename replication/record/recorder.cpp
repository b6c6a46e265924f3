#include "recorder.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "../../net/endpoint.h"
#include "../../net/handshake/handshake.h"
#include "chunk.h"
#include "recorded_schema.h"

namespace shoal::replication::impl {

Recorder::Recorder(Sender& sender, const Schema& schema, std::uint32_t tick_us,
                   const RecorderOptions& options)
    : sender_(sender),
      schema_(schema),
      options_(options),
      tick_us_(tick_us),
      keyframe_ticks_(static_cast<Tick>(std::clamp(std::ceil(options.keyframe_s * 1e6 / tick_us), 1.0, 1e9))),
      peer_(sender.add_peer({.max_slots = PeerView::kMaxSlots, .sees_all = options.sees | to_others()})),
      room_(net::kMaxLargePayloadBytes) {
    assert(tick_us >= 1 && options.keyframe_s > 0);
}

Recorder::~Recorder() {
    if (peer_) sender_.remove_peer(*peer_);
}

std::span<const std::byte> Recorder::record() {
    out_.clear();
    if (!peer_) return {};
    const Tick tick = sender_.tick();
    if (!keyframe_) {
        append_number(out_, kRecordingMagic, sizeof kRecordingMagic);
        out_.resize(out_.size() + Chunk::kHeaderBytes);
        append_number(out_, kRecordingVersion, 1);
        append_number(out_, net::impl::kWireVersion, 1);
        append_number(out_, tick_us_, sizeof tick_us_);
        describe_schema(schema_, out_);
        finish_chunk(out_, sizeof kRecordingMagic, Chunk::Kind::head, tick);
    }
    const bool is_keyframe = !keyframe_ || tick - *keyframe_ >= keyframe_ticks_;
    if (is_keyframe) {  // a reader can begin here: no payload refers to an earlier one
        sender_.reconnect_peer(*peer_);
        sender_.restart_peer(*peer_);
        number_ = 0;
        keyframe_ = tick;
    }
    const std::size_t start = out_.size();
    out_.resize(start + Chunk::kHeaderBytes);
    write_payloads();
    finish_chunk(out_, start, is_keyframe ? Chunk::Kind::keyframe : Chunk::Kind::tick, tick);
    if (bytes_ + out_.size() > options_.max_bytes) {
        sender_.remove_peer(*std::exchange(peer_, std::nullopt));
        out_.clear();
    }
    bytes_ += out_.size();
    return out_;
}

void Recorder::write_payloads() {
    sender_.request_marker(*peer_);
    for (;;) {
        const std::span<const std::byte> payload = sender_.encode(*peer_, number_ + 1, room_.size(), room_);
        if (payload.empty()) return;
        append_number(out_, payload.size(), kPayloadSizeBytes);
        out_.insert(out_.end(), payload.begin(), payload.end());
        sender_.on_fate(*peer_, ++number_, true);
    }
}

}  // namespace shoal::replication::impl
