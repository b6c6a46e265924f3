#pragma once
// Which state packets arrived, and at which ticks the client has everything.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "../codec/state_packet.h"

namespace shoal::replication::impl {

/// One per connection; not thread-safe.
class Completion {
public:
    /// A span of ticks: the state that the client sees did not change from tick `since` to tick `tick`.
    struct Complete {
        Tick since, tick;
        bool operator==(const Complete&) const = default;
    };

    /// Adds an accepted state packet, in any order. Requires number >= 1, and each number at most once. A
    /// `marker` or `group` that names a packet number below 1 is invalid, and is ignored.
    void insert(std::uint64_t number, Tick tick, const std::optional<StateHeader::Complete>& marker,
                const std::optional<StateHeader::Group>& group = {});

    /// Forgets all packets, for a new connection if the client keeps its state.
    void reconnect();

    /// Returns the tick of an accepted packet. Returns nothing if the packet was not accepted, or is more
    /// than 1,023 numbers older than the newest.
    std::optional<Tick> tick_of(std::uint64_t number) const;

    /// Tick of the newest packet; nothing before the first.
    std::optional<Tick> newest_tick() const { return newest_tick_; }

    /// The ticks at which everything has arrived. Nothing if newest_tick() has no completion marker, or if a
    /// packet that the marker needs is missing.
    std::optional<Complete> complete() const;

    /// The newest tick as of which the client has all entities of its group. Empty before the first such
    /// tick.
    std::optional<Tick> group_complete() const { return group_complete_; }

    bool is_consistent() const;  // consistency.cpp

private:
    static constexpr std::size_t kSize = 1024;
    static_assert(kSize > 2 * kMaxPacketDistance);

    struct Packet {
        std::uint64_t number = 0;  // 0: the entry is not in use
        Tick tick = 0;
    };
    /// What a completion or group marker names. The packets may not have arrived yet.
    struct Marker {
        Tick tick = 0;
        std::uint64_t first = 0, last = 0;  // numbers of the packets that it needs; last 0: not in use
        std::uint64_t count = 0;            // how many of these packets carry state
        Tick quiet = 0;                     // only of a completion marker
    };

    bool has_all(const Marker& marker) const;
    void check_groups();

    std::array<Packet, kSize> packets_{};  // by number modulo kSize
    std::optional<Tick> newest_tick_;
    std::array<Marker, 16> groups_{};  // the newest ones, by packet number
    std::optional<Tick> group_complete_;
    // The marker of the newest tick that has one. Of several markers for this tick: the one in the newest
    // packet.
    Marker marker_;
};

}  // namespace shoal::replication::impl
