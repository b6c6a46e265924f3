#pragma once
// Where the other side of a connection is, and whether what is sent there arrives. Home routers forget which
// port they lent, and telephones change networks: then the same connection comes from another address.

#include <cstddef>
#include <cstdint>

#include "socket/address.h"
#include "packet.h"

namespace shoal::net {

/// An address that the other side moved to is unproven until a random number that was sent there, and nowhere
/// else, comes back from there. Acks would not do: packet numbers can be guessed. Somebody may have raced a
/// copy of a packet ahead of the original, or the other side may have forged an address of its choice: until
/// then at most as many bytes as came from there are sent there. A second challenge, to a proven address,
/// brings what else is in one. After RFC 9000, sections 8.2 and 9.3, which allows three times.
class Path {
public:
    /// So many bytes are kept from other packets, so that a challenge can always go.
    static constexpr std::size_t kChallengeBytes = 1 + 4 + 8 + 16;

    explicit Path(const Address& proven) : address_(proven), proven_(proven) {}

    const Address& address() const { return address_; }
    bool is_proven() const { return is_proven_; }
    bool allows(std::size_t bytes) const {
        return is_proven_ || sent_ + bytes + kChallengeBytes <= received_;
    }

    /// Whether to send challenge(), which takes so many bytes: at once, then each `timeout` until it comes
    /// back.
    bool is_challenge_due(std::size_t bytes, Time now, Duration timeout) const {
        if (is_done_ || !(is_proven_ || sent_ + bytes <= received_)) return false;
        return is_untried_ || now - challenged_ >= timeout;
    }
    Challenge challenge() const {
        return {challenge_, is_proven_ ? std::optional(reset_token_) : std::nullopt};
    }
    void challenged(Time now) {
        if (is_untried_) first_challenged_ = now;
        is_untried_ = false;
        challenged_ = now;
    }
    /// The present one; if it was.
    Time first_challenged() const { return first_challenged_; }

    /// An authentic packet showed the other side there. Back at the address that was proven last, nothing is
    /// left to prove. `challenge` is new for each move.
    void move(const Address& to, std::uint64_t challenge, const ResetToken& token) {
        address_ = to;
        is_proven_ = to == proven_;
        challenge_ = challenge;
        reset_token_ = token;
        is_done_ = false;
        is_untried_ = true;
        received_ = sent_ = 0;
    }
    /// Authentic, from address().
    void received(std::size_t bytes) { received_ += bytes; }
    void sent(std::size_t bytes) { sent_ += bytes; }
    /// Authentic, from address(). True if this proves it, and it is on another machine than the one proven
    /// before, or behind another router. Another port is most likely the same way.
    bool echoed(std::uint64_t number) {
        if (is_done_ || is_untried_ || number != challenge_) return false;
        is_done_ = is_proven_;
        if (is_done_) return false;
        is_proven_ = true;
        challenge_ += 1;  // the second one proves nothing: it may be guessed
        is_untried_ = true;
        const bool is_same_way = address_.ip == proven_.ip && address_.family == proven_.family;
        proven_ = address_;
        return !is_same_way;
    }

private:
    Address address_;
    Address proven_;  // the last one that was
    bool is_proven_ = true;
    bool is_done_ = true;      // the other side has all that challenges bring
    bool is_untried_ = false;  // the challenge was not sent yet
    std::uint64_t challenge_ = 0;
    ResetToken reset_token_{};  // of address_, unless done
    Time first_challenged_{0}, challenged_{0};
    std::uint64_t received_ = 0, sent_ = 0;  // bytes, since the move
};

}  // namespace shoal::net
