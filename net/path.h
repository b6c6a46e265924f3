#pragma once
// The addresses of the other side of a connection. When a router forgets the port that it gave to a client,
// or a telephone changes networks, packets of the same connection come from another address.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "endpoint.h"

namespace shoal::net {

/// Packets go to an address only after it was proven: a number that was sent there, and nowhere else, came
/// back from there in an authentic packet. So a copy of a packet that is faster than the original moves
/// nobody, and neither does a forged source address.
///
/// An attacker who relays challenges as well can prove addresses of its own, even before the client proves
/// its own. So there may be several, and everything is sent to each of them from which packets, or copies
/// of them, come. An attacker who cannot drop packets gets copies, and the other side loses at most what is
/// sent between its proof and the other side's next packet. While acks come, an address in use keeps its
/// place. When an ack is overdue, the other side may be at none of them, and the one that was silent the
/// longest gives way. After RFC 9000, sections 8.2 and 9.
class Path {
public:
    /// Proven addresses at once.
    static constexpr std::size_t kPlaces = 8;
    /// An address from which packets came within this time is in use. Others must be proven again, but for
    /// the present one.
    static constexpr Duration kInUse = std::chrono::seconds(2);
    /// The other side has left an address that was silent for this time while packets came from another one.
    static constexpr Duration kLeft = std::chrono::milliseconds(200);
    /// Challenges in each kChallengeSlice, to all addresses together, on average: they take packet numbers.
    /// What was not used in up to kSavedSlices is added.
    static constexpr double kMaxChallenges = 3;
    static constexpr Duration kChallengeSlice = std::chrono::milliseconds(100);
    static constexpr std::int64_t kSavedSlices = 5;
    /// Kind, packet number, number, tag.
    static constexpr std::size_t kMinChallengeBytes = 1 + 4 + 8 + 16;

    Path(const Address& proven, Time now) { places_.push_back({proven, now, now}); }

    /// Of the proven ones, that of the newest packet.
    const Address& address() const { return places_[0].address; }
    bool is_proven(const Address& address) const {
        return std::any_of(places_.begin(), places_.end(),
                           [&](const Place& place) { return place.address == address; });
    }
    /// Calls `use` with address(), then with the other ones from which packets came since it was proven.
    /// Returns how many they are.
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

    /// An authentic packet, or a copy of one, came from there. `is_newest`: no packet before had a higher
    /// number.
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
    /// So many bytes came from an unproven address in an authentic packet, or a copy of one. Returns how many
    /// a challenge that goes there now may have; 0: none should. No more bytes go to an unproven address than
    /// came from there. `random`: a number that nobody can guess, so that each packet has the same chance to
    /// draw a challenge, however many come from other addresses before it.
    std::size_t wants_challenge(const Address& from, std::size_t bytes, bool is_ack_overdue,
                                std::uint64_t random, Time now) {
        if (places_.size() == kPlaces && !is_ack_overdue) return 0;
        if (candidate_ != from) received_ = 0;
        candidate_ = from;
        received_ += bytes;
        if (received_ < kMinChallengeBytes) return 0;
        if (now - slice_ >= kChallengeSlice) {
            allowed_ = kMaxChallenges * double(std::min((now - slice_) / kChallengeSlice, kSavedSlices));
            asked_before_ = std::exchange(asked_, 0);
            slice_ = now;
        }
        asked_ += 1;
        const double chance = allowed_ / std::max(asked_, asked_before_);
        return double(random >> 11) * 0x1p-53 < chance ? std::exchange(received_, 0) : 0;
    }
    /// The number that was sent to an unproven address came back from there. Returns false if there is no
    /// place for it.
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
        Time heard, proven;  // when the last packet came from there; when the address was proven
    };
    std::vector<Place> places_;       // the present one, then the others in use
    Address candidate_;               // the last unproven address from which a packet came
    std::size_t received_ = 0;        // bytes that came from there since the last challenge
    std::uint32_t asked_ = 0;         // packets that could have drawn a challenge since slice_ began
    std::uint32_t asked_before_ = 0;  // the same in the slice before
    double allowed_ = 0;              // challenges in this slice, on average
    Time slice_{0};
};

}  // namespace shoal::net
