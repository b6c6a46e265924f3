#pragma once
// The addresses of the other side of a connection. When a router forgets the port that it gave to a client,
// or a telephone changes networks, packets of the same connection come from another address.

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "endpoint.h"

namespace shoal::net {

/// Packets go to an address only after it was proven: a number that was sent there, and nowhere else, came
/// back from there in an authentic packet. After RFC 9000, sections 8.2 and 9.
///
/// An attacker who relays the challenge can prove an address of its own. So two proven addresses are kept:
/// the oldest one that packets still come from, and the newest. While packets, or copies of them, come from
/// both, everything is sent to both: the attacker gets copies, and the other side loses nothing. Limit:
/// somebody who copies a client's packets from many addresses can keep it from proving a new one, as
/// challenges are few.
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

    Path(const Address& proven, Time now) : places_{{{proven, now}, {}}} {}

    /// Of the proven ones, that of the newest packet.
    const Address& address() const { return places_[current_].address; }
    /// The other proven address if it was in use since both are proven; else null.
    const Address* second(Time now) const {
        const Place& other = places_[1u - current_];
        const bool is_in_use = other.heard >= proved_ && now - other.heard < kInUse;
        return is_in_use && other.address.family != Address::Family::none ? &other.address : nullptr;
    }
    bool is_proven(const Address& address) const {
        return address == places_[kOlder].address || address == places_[kNewer].address;
    }

    /// An authentic packet, or a copy of one, came from there. `is_newest`: no packet before had a higher
    /// number.
    void heard(const Address& from, bool is_newest, Time now) {
        if (!is_proven(from)) return;
        const std::uint8_t place = from == places_[kNewer].address ? kNewer : kOlder;
        places_[place].heard = now;
        if (is_newest) current_ = place;
    }
    /// So many bytes came from there in an authentic packet, or a copy of one. Returns how many bytes a
    /// challenge may have that goes there now: no more than came from there. 0: none should go.
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
    std::optional<Time> challenged(const Address& to) const {
        for (const Candidate& candidate : candidates_)
            if (candidate.is_challenged && candidate.address == to) return candidate.challenged;
        return std::nullopt;
    }
    /// The number that was sent there came back from there. Returns whether that is another machine or
    /// network; another port of the same one most likely has the same path.
    bool prove(const Address& from, Time now) {
        if (is_proven(from)) return false;
        const Address before = address();
        const bool is_older_alive = now - places_[kOlder].heard < kAlive;
        if (!is_older_alive && places_[kNewer].heard > Time(0)) places_[kOlder] = places_[kNewer];
        places_[kNewer] = {from, now};
        proved_ = now;
        current_ = kNewer;
        return from.ip != before.ip || from.family != before.family;
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
    static constexpr std::uint8_t kOlder = 0, kNewer = 1;
    std::array<Place, 2> places_;  // proven
    std::uint8_t current_ = kOlder;
    std::uint8_t challenges_ = 0;          // sent since slice_ began
    std::array<Candidate, 2> candidates_;  // the last two unproven addresses, newest first
    Time slice_{0};
    Time proved_{0};  // when the newer place was
};

}  // namespace shoal::net
