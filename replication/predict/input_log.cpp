#include "input_log.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "../codec/codec.h"

namespace shoal::replication::impl {

// The format is specified in ../WIRE.md.

Tick ticks_kept(net::Duration tick) {
    // A hostile server may say that a tick is a microsecond.
    return std::bit_ceil(
        static_cast<Tick>(std::clamp<std::int64_t>(net::Duration(1'000'000) / tick, 64, 1024)));
}

InputLog::InputLog(const SchemaStruct& type, std::span<const std::uint32_t> neutral)
    : type_(type),
      neutral_(neutral.begin(), neutral.end()),
      input_(neutral_),
      waiting_(type.layout.presses().size()),
      inputs_(64) {}

void InputLog::keep(Tick ticks) {
    assert(std::has_single_bit(ticks));
    inputs_.resize(ticks);
    count_ = unacknowledged_ = unsent_ = 0;
}

std::uint32_t InputLog::set_input(std::span<const std::uint32_t> words, bool takes_presses) {
    is_in_use_ = true;
    input_.assign(words.begin(), words.end());
    const std::vector<std::uint32_t>& presses = type_.layout.presses();
    std::uint32_t dropped = 0;
    for (std::size_t i = 0; i < presses.size(); ++i) {
        const std::uint32_t all = waiting_[i] + input_[presses[i]];
        waiting_[i] = takes_presses ? std::min(all, kMaxWaiting) : 0;
        dropped += all - waiting_[i];
    }
    return dropped;
}

void InputLog::record(Tick tick) {
    assert(count_ == 0 || is_newer(tick, newest_));
    const std::vector<std::uint32_t>& presses = type_.layout.presses();
    if (count_ != 0 && tick != newest_ + 1) {
        for (Tick back = 0; back < unsent_; ++back)  // their presses are not lost
            for (std::size_t i = 0; i < presses.size(); ++i) waiting_[i] += at(newest_ - back)[presses[i]];
        count_ = unacknowledged_ = unsent_ = 0;
    }
    Input& input = inputs_[tick % inputs_.size()];
    input.lag = seen_ ? std::optional(seen_->lag(tick)) : std::nullopt;
    std::vector<std::uint32_t>& words = input.words;
    words = input_;
    for (std::size_t i = 0; i < presses.size(); ++i) {
        words[presses[i]] = std::min<std::uint32_t>(waiting_[i], Press::kMax);
        waiting_[i] -= words[presses[i]];
    }
    newest_ = tick;
    count_ = std::min(count_ + 1, static_cast<std::uint32_t>(inputs_.size()));
    unacknowledged_ = std::min(unacknowledged_ + 1, count_);
    unsent_ = std::min(unsent_ + 1, count_);
}

std::span<const std::uint32_t> InputLog::at(Tick tick) const {
    if (newest_ - tick >= count_) return {};
    return input(tick).words;
}

void InputLog::reset() {
    input_ = neutral_;
    std::fill(waiting_.begin(), waiting_.end(), 0);
    count_ = unacknowledged_ = unsent_ = 0;
    is_in_use_ = false;
    loss_ = fates_ = 0;
    fresh_ = 1;
    seen_.reset();
    packets_.fill({});
}

void InputLog::write(std::uint32_t count, BitWriter& out) const {
    out.write(newest_ % (Tick{1} << InputSection::kTickBits), InputSection::kTickBits);
    out.write(count - 1, InputSection::kCountBits);
    const std::optional<std::uint32_t> newest_lag = input(newest_).lag;
    out.write_bool(newest_lag.has_value());
    std::span<const std::uint32_t> before = neutral_;
    std::uint32_t lag_before = 0;
    for (std::uint32_t i = count; i-- > 0;) {
        if (newest_lag) {
            const std::uint32_t lag = input(newest_ - i).lag.value_or(*newest_lag);
            const bool is_first = i + 1 == count;
            out.write_golomb(is_first ? lag : zigzag(lag - lag_before),
                             is_first ? InputSection::kLagOrder : InputSection::kLagChangeOrder);
            lag_before = lag;
        }
        const std::span<const std::uint32_t> words = at(newest_ - i);
        write_value(type_.layout, before, words, out);
        before = words;
    }
}

bool InputLog::write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) {
    lacked_room_ = false;
    if (unsent_ == 0) return false;
    std::uint32_t count = std::clamp<std::uint32_t>(unacknowledged_, 1, kMaxSent);
    for (; count > 0; count /= 2) {
        bits_.clear();
        write(count, bits_);
        if (bits_.bit_count() <= room_bits) break;
    }
    lacked_room_ = count == 0;
    if (lacked_room_) return false;
    out.append(bits_, 0, bits_.bit_count());
    packets_[packet % kPackets] = {packet, newest_, static_cast<double>(unsent_), now_, position_};
    fresh_ += (unsent_ - fresh_) / 16;
    unsent_ = 0;
    return true;
}

void InputLog::on_fate(std::uint64_t packet, bool delivered) {
    const Packet& sent = packets_[packet % kPackets];
    if (sent.number != packet || packet == 0) return;
    fates_ = std::min(fates_ + 1, kFates);
    loss_ += ((delivered ? 0 : 1) - loss_) / fates_;
    if (!delivered) return;
    // The packet also contained all older inputs without an ack, except inputs that would be late anyway.
    const auto newer = static_cast<std::int32_t>(newest_ - sent.newest);
    if (newer >= 0) unacknowledged_ = std::min(unacknowledged_, static_cast<std::uint32_t>(newer));
}

bool InputSection::read(const SchemaStruct& type, std::span<const std::uint32_t> neutral, BitReader& in) {
    newest = in.read(kTickBits);
    count = in.read(kCountBits) + 1;
    is_delayed = in.read_bool();
    if (words.size() < count) words.resize(count);
    lags.resize(count);
    std::span<const std::uint32_t> before = neutral;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (is_delayed)
            lags[i] =
                i == 0 ? in.read_golomb(kLagOrder) : lags[i - 1] + unzigzag(in.read_golomb(kLagChangeOrder));
        if (!read_value(type.layout, before, in, words[i])) return false;
        before = words[i];
    }
    return in.ok();
}

}  // namespace shoal::replication::impl
