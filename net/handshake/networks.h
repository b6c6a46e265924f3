#pragma once
// How many of something each machine and each network has, so that none of them takes it all. An IPv4
// address is one machine. An IPv6 machine has 64 bits to itself, and often the 56 or 48 bits around it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "../crypto/siphash.h"
#include "../endpoint.h"

namespace shoal::net {

/// The machine that an address belongs to, and the networks around it.
class Networks {
public:
    Networks() = default;
    /// `key`: secret, so that nobody can choose addresses that look alike.
    Networks(const SipKey& key, const Address& address);

    std::uint64_t machine() const { return hashes_[0]; }
    /// Keyed hashes, from the machine to the widest network.
    std::span<const std::uint64_t> hashes() const { return std::span(hashes_).first(count_); }
    /// The limit of the network at this place, if `limit` is that of a machine: /56 the same, /48 four times.
    static std::uint64_t limit_at(std::size_t place, std::uint64_t limit) {
        return place < 2 ? limit : 4 * limit;
    }

private:
    std::array<std::uint64_t, 3> hashes_{};
    std::size_t count_ = 1;
};

/// Exact counts; grows with what is counted.
class NetworkCounts {
public:
    /// Whether one more is within `limit` per machine.
    bool has_room(const Networks& networks, std::uint64_t limit) const;
    void add(const Networks& networks);
    /// Requires that it was added.
    void remove(const Networks& networks);

private:
    std::unordered_map<std::uint64_t, std::uint32_t> counts_;
};

/// Limits handshake attempts, in fixed memory: each network has two counters, which it shares with others,
/// and the lower one holds (Cormode and Muthukrishnan, "An Improved Data Stream Summary", 2005). Above the
/// limit each attempt is accepted at random with the same probability, so neither early nor frequent senders
/// keep others out. The probability is computed from the attempts in this slice of time and in the one
/// before.
class AttemptLimit {
public:
    static constexpr Duration kMachineSlice = std::chrono::milliseconds(800);
    static constexpr Duration kTotalSlice = std::chrono::milliseconds(100);

    /// Whether there is time for one more. `per_machine` and `total` in each slice, on average; half of
    /// `total` is for networks that had no attempt lately. `random`: a number that nobody can guess.
    bool take(const Networks& networks, std::uint32_t per_machine, std::uint32_t total, std::uint64_t random,
              Time now);

private:
    struct Count {
        std::uint16_t now = 0, before = 0;  // attempts in this slice and in the last one; saturate
    };

    static constexpr std::size_t kCounts = 2048;
    std::array<Count, 2 * kCounts> counts_{};
    std::array<Count, 2> pools_{};  // networks without an attempt lately, and all others
    Time machines_since_{0}, total_since_{0};
};

}  // namespace shoal::net
