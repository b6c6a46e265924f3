#pragma once
// The addresses of the other side of a connection, which may change. WIRE.md, Addresses, has the rules.

#include "endpoint.h"

namespace shoal::net::impl {

/// Limits how often something is done for strangers: each request is granted at random. So an address that
/// asks often does not exclude the others, and no address has to be remembered.
class Lottery {
public:
    static constexpr Duration kSlice = std::chrono::milliseconds(100);
    static constexpr int kSavedSlices = 3;

    /// Returns whether this draw wins. In each kSlice, `most` win on average; after slices with fewer draws,
    /// up to kSavedSlices times as many in one slice. If draws become more frequent, more may win in one
    /// slice. `random`: an unpredictable number.
    bool draw(double most, std::uint64_t random, Time now) {
        if (now - slice_ >= kSlice) {
            const double left = (std::max)(allowed_ - draws_, 0.0),
                         earned = most * double((now - slice_) / kSlice);
            allowed_ = (std::min)(left + earned, most * kSavedSlices);
            draws_before_ = std::exchange(draws_, 0);
            slice_ = now;
        }
        draws_ += 1;
        return double(random >> 11) * 0x1p-53 < allowed_ / (std::max)(draws_, draws_before_);
    }

private:
    std::uint32_t draws_ = 0, draws_before_ = 0;  // in this slice, and in the previous one
    double allowed_ = 0;                          // how many win in this slice, on average
    Time slice_{0};                               // when this slice began
};

/// The proven addresses of one peer: the one in use and at most one other. An unpredictable number (a
/// challenge) was sent to this address only, and came back from it in an authentic packet: so no forged
/// source address and no copied packet redirects packets. An attacker who relays challenges can prove an
/// address of its own; so while packets come from both, every packet is sent to both, and each must be proven
/// again and again. Source: RFC 9000, sections 8.2 and 9.
class Path {
public:
    /// The other address is in use if packets came from it within this time; else it is forgotten.
    static constexpr Duration kInUse = std::chrono::seconds(2);
    /// If an address is silent for this time while packets come from another one, the other side has left it.
    static constexpr Duration kLeft = std::chrono::milliseconds(200);
    /// While there are two addresses: a packet from one whose proof is older than kProofAge causes a
    /// challenge, and the one whose proof is the older is forgotten when that is older than kProofLife.
    static constexpr Duration kProofAge = std::chrono::seconds(1), kProofLife = std::chrono::seconds(3);
    /// Challenges per Lottery::kSlice to all unproven addresses together, on average.
    static constexpr double kMaxChallenges = 3;
    /// The same while an ack is overdue. After a pause this makes 60, fewer than the 64 packets by which the
    /// client's challenge may be overtaken.
    static constexpr double kMaxChallengesOverdue = 20;
    static constexpr std::size_t kChallengeBytes = 1 + 4 + 8 + 16;  // kind, packet number, number, tag

    Path(const Address& proven, Time now) : main_{proven, now, now}, changed_(now) {}

    /// The one from which the packet with the highest number came, or one proven after that.
    const Address& address() const { return main_.address; }
    /// Returns whether this is the only proven address: it needs no challenge.
    bool is_alone(const Address& address) const { return main_.address == address && !other_; }
    /// Calls `use` with address(), and with the other address if it is in use. Returns the number of calls.
    template <class Use>
    std::size_t each_in_use(Time now, Use use) const {
        use(main_.address);
        if (!other_ || other_->heard < changed_ || now - other_->heard >= kInUse) return 1;
        use(other_->address);
        return 2;
    }
    bool has_left(const Address& former, Time now) const {
        if (address() == former) return false;
        return !other_ || other_->address != former || now - other_->heard >= kLeft;
    }

    /// Call it for each authentic packet and copy of one. `is_newest`: it has the highest number so far.
    void heard(const Address& from, bool is_newest, Time now) {
        if (Place* const place = find(from)) place->heard = now;
        if (!other_) return;
        if (is_newest && other_->address == from) std::swap(main_, *other_);
        const bool is_main_older = main_.proven < other_->proven;
        const Time older = is_main_older ? main_.proven : other_->proven;
        const bool was_left = other_->heard < changed_ && now - changed_ >= kLeft;
        const bool is_silent = was_left || now - other_->heard >= kInUse;
        if (!is_silent && now - older < kProofLife) return;
        if (!is_silent && is_main_older) main_ = *other_;
        other_.reset();
    }
    /// Call it after heard(), with the packet's size. Returns whether to send a challenge to `from`: never
    /// more bytes than came from there. `random`: an unpredictable number.
    bool wants_challenge(const Address& from, std::size_t bytes, bool is_ack_overdue, std::uint64_t random,
                         Time now) {
        if (Place* const place = find(from)) {
            if (!other_ || now - place->proven < kProofAge || now - place->challenged < Lottery::kSlice)
                return false;
            place->challenged = now;
            return true;
        }
        if (other_ && !is_ack_overdue) return false;
        if (candidate_ != from) received_ = 0;
        candidate_ = from;
        received_ += bytes;
        if (received_ < kChallengeBytes) return false;
        const double most = is_ack_overdue ? kMaxChallengesOverdue : kMaxChallenges;
        if (!lottery_.draw(most, random, now)) return false;
        received_ = 0;
        return true;
    }
    /// Call it when the number that was sent to an address came back from it. Returns whether this is a new
    /// proven address. Without effect if there are two others and no ack is overdue.
    bool prove(const Address& from, bool is_ack_overdue, Time now) {
        if (Place* const place = find(from)) {
            place->proven = now;
            return false;
        }
        if (other_ && !is_ack_overdue) return false;
        if (!other_) {
            other_ = main_;
            other_->proven = now;  // its time begins when there are two
        } else if (main_.heard >= other_->heard) {
            other_ = main_;
        }
        main_ = {from, now, now};
        changed_ = now;
        return true;
    }

private:
    struct Place {
        Address address;
        Time heard;          // time of the last packet from the address
        Time proven;         // time of its last proof
        Time challenged{0};  // time of the last challenge after its first proof; 0: none
    };
    Place* find(const Address& address) {
        if (main_.address == address) return &main_;
        return other_ && other_->address == address ? &*other_ : nullptr;
    }

    Place main_;
    std::optional<Place> other_;
    Time changed_;              // when the last new address was proven
    Address candidate_;         // the last unproven address from which a packet came
    std::size_t received_ = 0;  // bytes from candidate_ since the last challenge
    Lottery lottery_;
};

}  // namespace shoal::net::impl
