#pragma once
// Where the other side of a connection is, and whether what is sent there arrives. Home routers forget which
// port they lent, and telephones change networks: then the same connection comes from another address.

#include <cstddef>
#include <cstdint>

#include "address.h"

namespace shoal::net {

/// An address that the other side moved to is unproven until it acknowledges a packet sent there. Somebody
/// may have raced a copy of a packet ahead of the original, from an address of his choice: until then at
/// most as many bytes as came from there are sent there. After RFC 9000, section 9.3, which allows three times.
class Path {
public:
    explicit Path(const Address& proven) : address_(proven), proven_(proven) {}

    const Address& address() const { return address_; }
    bool is_proven() const { return is_proven_; }
    /// Whether nothing was sent since the move, if the next packet has this number.
    bool is_untried(std::uint64_t next_number) const { return !is_proven_ && next_number == first_number_; }
    bool allows(std::size_t bytes) const { return is_proven_ || sent_ + bytes <= received_; }

    /// An authentic packet showed the other side there. `next_number` is that of our next packet.
    /// Back at the address that was proven last, nothing is left to prove.
    void move(const Address& to, std::uint64_t next_number) {
        address_ = to;
        is_proven_ = to == proven_;
        first_number_ = next_number;
        received_ = sent_ = 0;
    }
    /// Authentic, from address().
    void received(std::size_t bytes) { received_ += bytes; }
    void sent(std::size_t bytes) { sent_ += bytes; }
    /// The newest of our packets that the other side has.
    void acknowledged(std::uint64_t newest) {
        if (is_proven_ || newest < first_number_) return;
        is_proven_ = true;
        proven_ = address_;
    }

private:
    Address address_;
    Address proven_;  // the last one that was
    bool is_proven_ = true;
    std::uint64_t first_number_ = 0;         // of the packets sent to address_, if unproven
    std::uint64_t received_ = 0, sent_ = 0;  // bytes, since the move
};

}  // namespace shoal::net
