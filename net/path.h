#pragma once
// Where the other side of a connection is. Home routers forget which port they lent, and telephones change
// networks: then the same connection comes from another address.

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "endpoint.h"

namespace shoal::net {

/// Packets go to an address only after it was proven: a number that was sent there, and nowhere else, came
/// back from there in an authentic packet. Until then they go on to the address that was proven last. So a
/// copy of a packet that is faster than the original moves nobody, and neither does a forged source address.
///
/// An attacker who relays the challenge as well can prove an address of its own. So two proven addresses are
/// remembered: the oldest one that packets still come from, and the newest. While packets, or copies of them,
/// come from both, everything is sent to both: an attacker who cannot drop packets gets copies, and the other
/// side loses nothing. But a client that changes its address while somebody copies its packets from many
/// addresses may be kept from proving its own: challenges are few. After RFC 9000, sections 8.2 and 9.
class Path {
public:
    /// An address from which packets came within this time is in use: it gets what the other one gets.
    static constexpr Duration kInUse = std::chrono::seconds(1);
    /// An address from which packets came within this time keeps its place when another one is proven.
    static constexpr Duration kAlive = std::chrono::seconds(3);
    /// Challenges at most in each kChallengeSlice, to all addresses together: they take packet numbers.
    static constexpr std::uint8_t kMaxChallenges = 3;
    static constexpr Duration kChallengeSlice = std::chrono::milliseconds(100);
    /// Kind, packet number, number, tag.
    static constexpr std::size_t kMinChallengeBytes = 1 + 4 + 8 + 16;

    Path(const Address& proven, Time now) : older_{proven, now} {}

    /// Of the proven ones, that of the newest packet.
    const Address& address() const { return is_newer_current_ ? newer_.address : older_.address; }
    /// The other proven one if it is in use as well, since both are proven; else null.
    const Address* second(Time now) const {
        const Place& other = is_newer_current_ ? older_ : newer_;
        const bool is_in_use = other.heard >= proved_ && now - other.heard < kInUse;
        return is_in_use && other.address.family != Address::Family::none ? &other.address : nullptr;
    }
    bool is_proven(const Address& address) const {
        return address == older_.address || address == newer_.address;
    }

    /// An authentic packet, or a copy of one, came from there. `is_newest`: no packet before had a higher
    /// number.
    void heard(const Address& from, bool is_newest, Time now) {
        if (!is_proven(from)) return;
        const bool is_newer = from == newer_.address;
        (is_newer ? newer_ : older_).heard = now;
        if (is_newest) is_newer_current_ = is_newer;
    }
    /// So many bytes came from there in an authentic packet, or a copy of one. Returns how many a challenge
    /// that goes there now may have; 0: none should. No more bytes go to an unproven address than came from
    /// there.
    std::size_t wants_challenge(const Address& from, std::size_t bytes, Time now) {
        if (is_proven(from)) return 0;
        if (candidates_[1].address == from) std::swap(candidates_[0], candidates_[1]);
        if (candidates_[0].address != from) {
            candidates_[1] = candidates_[0];
            candidates_[0] = {.address = from};
        }
        Candidate& candidate = candidates_[0];
        candidate.received += static_cast<std::uint32_t>(bytes);
        if (now - slice_ >= kChallengeSlice) {
            slice_ = now;
            challenges_ = 0;
        }
        if (candidate.received < kMinChallengeBytes || challenges_ == kMaxChallenges) return 0;
        challenges_ += 1;
        if (!candidate.is_challenged) candidate.challenged = now;
        candidate.is_challenged = true;
        return std::exchange(candidate.received, 0);
    }
    /// When the first challenge to this address left; nothing if that is not known any more.
    std::optional<Time> challenged(const Address& address_there) const {
        for (const Candidate& candidate : candidates_)
            if (candidate.is_challenged && candidate.address == address_there) return candidate.challenged;
        return std::nullopt;
    }
    /// The number that was sent there came back from there. Returns whether that is another machine, or
    /// another network; another port of the same one is most likely the same way.
    bool prove(const Address& address_there, Time now) {
        if (is_proven(address_there)) return false;
        const Address before = address();
        const bool is_older_alive = now - older_.heard < kAlive;
        if (!is_older_alive && newer_.heard > Time(0)) older_ = newer_;
        newer_ = {address_there, now};
        proved_ = now;
        is_newer_current_ = true;
        return address_there.ip != before.ip || address_there.family != before.family;
    }

private:
    struct Place {
        Address address;
        Time heard{0};  // when the last packet came from there; 0: there is no such place
    };
    struct Candidate {
        Address address;
        Time challenged{0};          // the first time, if it was
        std::uint32_t received = 0;  // bytes that came from there, since the last challenge
        bool is_challenged = false;
    };
    Place older_, newer_;
    bool is_newer_current_ = false;
    std::uint8_t challenges_ = 0;          // sent since slice_ began
    std::array<Candidate, 2> candidates_;  // the last two unproven addresses, newest first
    Time slice_{0};
    Time proved_{0};  // newer_
};

}  // namespace shoal::net
