#pragma once
// Where the other side of a connection is, and whether what is sent there arrives. Home routers forget which
// port they lent, and telephones change networks: then the same connection comes from another address.

#include <cstddef>
#include <cstdint>

#include "address.h"
#include "endpoint.h"

namespace shoal::net {

/// An address that the other side moved to is unproven until a random number that was sent there, and nowhere
/// else, comes back from there. Acks would not do: packet numbers can be guessed. Somebody may have raced a
/// copy of a packet ahead of the original, or the other side may have forged an address of its choice: until
/// then at most as many bytes as came from there are sent there.
/// After RFC 9000, sections 8.2 and 9.3, which allows three times.
class Path {
public:
    /// Bytes of a challenge, at most. So many are kept from other packets, so that one can always go.
    static constexpr std::size_t kChallengeBytes = 1 + 4 + 8 + 16;

    explicit Path(const Address& proven) : address_(proven), proven_(proven) {}

    const Address& address() const { return address_; }
    bool is_proven() const { return is_proven_; }
    bool allows(std::size_t bytes) const {
        return is_proven_ || sent_ + bytes + kChallengeBytes <= received_;
    }

    /// Whether to send challenge() now: at once, then each `timeout` until it comes back.
    bool is_challenge_due(Time now, Duration timeout) const {
        return !is_proven_ && sent_ + kChallengeBytes <= received_ &&
               (is_untried_ || now - challenged_ >= timeout);
    }
    std::uint64_t challenge() const { return challenge_; }
    void challenged(Time now) {
        is_untried_ = false;
        challenged_ = now;
    }

    /// An authentic packet showed the other side there. `challenge`: that nobody can guess, new for each move.
    /// Back at the address that was proven last, nothing is left to prove.
    void move(const Address& to, std::uint64_t challenge) {
        address_ = to;
        is_proven_ = to == proven_;
        challenge_ = challenge;
        is_untried_ = true;
        received_ = sent_ = 0;
    }
    /// Authentic, from address().
    void received(std::size_t bytes) { received_ += bytes; }
    void sent(std::size_t bytes) { sent_ += bytes; }
    /// Authentic, from address().
    void echoed(std::uint64_t challenge) {
        if (is_proven_ || is_untried_ || challenge != challenge_) return;
        is_proven_ = true;
        proven_ = address_;
    }

private:
    Address address_;
    Address proven_;  // the last one that was
    bool is_proven_ = true;
    bool is_untried_ = false;  // no challenge was sent to address_
    std::uint64_t challenge_ = 0;
    Time challenged_{0};
    std::uint64_t received_ = 0, sent_ = 0;  // bytes, since the move
};

}  // namespace shoal::net
