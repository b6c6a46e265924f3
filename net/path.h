#pragma once
// The addresses of the other side of a connection. When a router assigns another port to a client, or a phone
// changes networks, packets of the same connection come from another address.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "endpoint.h"

namespace shoal::net {

/// The proven addresses of one peer. Packets are sent to an address only after it was proven: an
/// unpredictable number was sent to this address only (a challenge), and came back from it in an authentic
/// packet. So an attacker cannot redirect packets with a forged source address, nor with a copied packet that
/// arrives before the original.
///
/// An attacker who relays challenges can prove addresses of its own. So a connection may have several proven
/// addresses, and every packet is sent to each of them that is in use (kInUse). An attacker who cannot drop
/// packets then only gets copies. There is one exception: from the proof of the attacker's address until the
/// peer's next packet arrives, packets are sent to that address alone.
///
/// If there are kPlaces proven addresses, no new address is accepted while acks arrive. When an ack is
/// overdue, the peer may have left all of them, and a new address replaces the one that was silent the
/// longest. Source: RFC 9000, sections 8.2 and 9.
class Path {
public:
    /// Maximum number of proven addresses at a time.
    static constexpr std::size_t kPlaces = 8;
    /// An address is in use if packets came from it within this time. Any other address must be proven again,
    /// unless it is address().
    static constexpr Duration kInUse = std::chrono::seconds(2);
    /// If an address is silent for this time while packets come from another address, the other side is
    /// believed to have left it.
    static constexpr Duration kLeft = std::chrono::milliseconds(200);
    /// Limit of the average number of challenges per kChallengeSlice, to all addresses together. After slices
    /// in which no packet could cause a challenge, the limit is higher: up to kSavedSlices times as many in
    /// one slice. If such packets become more frequent, the limit may be exceeded in one slice.
    static constexpr double kMaxChallenges = 3;
    /// As kMaxChallenges, while an ack is overdue: the client may be at one of the unproven addresses, among
    /// copies of its packets from many addresses of an attacker. In kSavedSlices slices this makes 60
    /// challenges, fewer than the 64 packets by which the challenge of the client may be overtaken.
    static constexpr double kMaxChallengesOverdue = 12;
    static constexpr Duration kChallengeSlice = std::chrono::milliseconds(100);
    static constexpr std::int64_t kSavedSlices = 5;
    /// Size of a challenge without reset token: kind, packet number, unpredictable number, tag.
    static constexpr std::size_t kMinChallengeBytes = 1 + 4 + 8 + 16;

    Path(const Address& proven, Time now) { places_.push_back({proven, now, now}); }

    /// The proven address from which the packet with the highest number came, or an address proven after
    /// that.
    const Address& address() const { return places_[0].address; }
    bool is_proven(const Address& address) const {
        return std::any_of(places_.begin(), places_.end(),
                           [&](const Place& place) { return place.address == address; });
    }
    /// Calls `use` with address(), then with each other address in use from which packets came since
    /// address() was proven. Returns the number of calls.
    template <class Use>
    std::size_t each_in_use(Time now, Use use) const {
        use(address());
        std::size_t count = 1;
        for (std::size_t i = 1; i < places_.size(); ++i) {
            if (places_[i].heard < places_[0].proven || now - places_[i].heard >= kInUse) continue;
            use(places_[i].address);
            count += 1;
        }
        return count;
    }
    bool has_left(const Address& former, Time now) const {
        return address() != former && std::none_of(places_.begin(), places_.end(), [&](const Place& place) {
                   return place.address == former && now - place.heard < kLeft;
               });
    }

    /// Call it when an authentic packet, or a copy of one, came from any address. `is_newest`: the packet has
    /// the highest number so far.
    void heard(const Address& from, bool is_newest, Time now) {
        for (std::size_t i = places_.size(); i-- > 0;) {
            if (places_[i].address == from) {
                places_[i].heard = now;
                if (is_newest) std::swap(places_[0], places_[i]);
            } else if (i > 0 && now - places_[i].heard >= kInUse) {
                places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(i));
            }
        }
    }
    /// Call it when an authentic packet, or a copy of one, of `bytes` bytes came from an unproven address.
    /// Returns the largest size in bytes of a challenge to send to this address now; 0: send none. An
    /// unproven address never gets more bytes than came from it. `random`: an unpredictable number, which
    /// decides whether this packet causes a challenge if there are too many. Because the choice is random, an
    /// address that sends many packets does not prevent challenges to other addresses.
    std::size_t wants_challenge(const Address& from, std::size_t bytes, bool is_ack_overdue,
                                std::uint64_t random, Time now) {
        if (places_.size() == kPlaces && !is_ack_overdue) return 0;
        if (candidate_ != from) received_ = 0;
        candidate_ = from;
        received_ += bytes;
        if (received_ < kMinChallengeBytes) return 0;
        if (now - slice_ >= kChallengeSlice) {
            const double most = is_ack_overdue ? kMaxChallengesOverdue : kMaxChallenges;
            allowed_ = most * double((std::min)((now - slice_) / kChallengeSlice, kSavedSlices));
            asked_before_ = std::exchange(asked_, 0);
            slice_ = now;
        }
        asked_ += 1;
        const double chance = allowed_ / (std::max)(asked_, asked_before_);
        return double(random >> 11) * 0x1p-53 < chance ? std::exchange(received_, 0) : 0;
    }
    /// Call it when the number that was sent to an unproven address came back from it: the address is proven.
    /// Returns false, without effect, if there are kPlaces proven addresses and no ack is overdue.
    bool prove(const Address& from, bool is_ack_overdue, Time now) {
        if (places_.size() == kPlaces) {
            if (!is_ack_overdue) return false;
            const auto is_older = [](const Place& a, const Place& b) { return a.heard < b.heard; };
            places_.erase(std::min_element(places_.begin(), places_.end(), is_older));
        }
        places_.insert(places_.begin(), {from, now, now});
        return true;
    }

private:
    struct Place {
        Address address;
        Time heard, proven;  // time of the last packet from the address; time of the address's proof
    };
    std::vector<Place> places_;       // the proven addresses; address() is the first
    Address candidate_;               // the last unproven address from which a packet came
    std::size_t received_ = 0;        // bytes from candidate_ since the last challenge
    std::uint32_t asked_ = 0;         // packets in this slice that could cause a challenge
    std::uint32_t asked_before_ = 0;  // packets in the previous slice that could cause a challenge
    double allowed_ = 0;              // limit of the average number of challenges in this slice
    Time slice_{0};                   // when this slice began
};

}  // namespace shoal::net
