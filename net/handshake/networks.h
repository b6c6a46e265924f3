#pragma once
// Limits the peers and the handshakes of each machine and network. An IPv4 address is one machine. An
// IPv6 /64 is one machine, and its owner often has the /56 or /48 around it.

#include <unordered_map>

#include "../crypto/siphash.h"
#include "../endpoint.h"

namespace shoal::net::impl {

/// The machine that an address belongs to, and the networks around it.
class Networks {
public:
    Networks() = default;
    /// `key`: secret, so that nobody can choose addresses with equal hashes.
    Networks(const SipKey& key, const Address& address);

    std::uint64_t machine() const { return hashes_[0]; }
    /// Keyed hashes, from the machine to the widest network.
    std::span<const std::uint64_t> hashes() const { return std::span(hashes_).first(count_); }
    /// Returns the limit for hashes()[place]: `limit` for a machine and a /56, four times `limit` for a /48.
    static std::uint64_t limit_at(std::size_t place, std::uint64_t limit) {
        return place < 2 ? limit : 4 * limit;
    }

private:
    std::array<std::uint64_t, 3> hashes_{};
    std::size_t count_ = 1;
};

/// Exact counts per machine and network; memory grows with the number of networks counted.
class NetworkCounts {
public:
    /// Returns whether one more add() keeps the counts of the machine and its networks within limit_at(),
    /// after remove(*leaving) if that is not null.
    bool has_room(const Networks& networks, std::uint64_t limit, const Networks* leaving) const;
    void add(const Networks& networks);
    void remove(const Networks& networks);
    bool operator==(const NetworkCounts&) const = default;

private:
    std::unordered_map<std::uint64_t, std::uint32_t> counts_;
};

/// Limits handshake attempts, in fixed memory. Each machine and network has two counters, shared with others;
/// the lower one counts (Cormode and Muthukrishnan, "An Improved Data Stream Summary", 2005). Beyond the
/// limit chance decides, so frequent senders keep nobody out.
class AttemptLimit {
public:
    /// Counts an attempt and returns whether to accept it. Per second, at most `total` are accepted on
    /// average: half of it from networks without a recent attempt and half from others; each group may use
    /// what the other leaves. Attempts beyond `per_machine` per second, or limit_at(), get what both groups
    /// leave. If attempts become more frequent, more are accepted. `random`: an unpredictable number.
    bool take(const Networks& networks, std::uint32_t per_machine, std::uint32_t total, std::uint64_t random,
              Time now);

private:
    static constexpr Duration kMachineSlice = std::chrono::milliseconds(800);
    static constexpr Duration kTotalSlice = std::chrono::milliseconds(100);
    struct Count {
        std::uint16_t now = 0, before = 0;  // attempts in this slice and in the previous one
    };

    static constexpr std::size_t kCounts = 2048;
    std::array<Count, 2 * kCounts> counts_{};
    // [0] from networks without a recent attempt; [1] from others; [2] beyond the limits of their networks
    std::array<Count, 3> pools_{};
    Time machines_since_{0}, total_since_{0};
};

}  // namespace shoal::net::impl
