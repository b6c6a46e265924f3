#pragma once
// Shares the bytes of a connection's packets among urgent messages, payload and normal messages, by deficit
// round robin. Source: Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round-Robin", 1996.

#include "message/send_queue.h"

namespace shoal::net::impl {

/// How urgent messages, payloads and normal messages share the bytes while all three wait; each at least 1.
struct Shares {
    std::uint8_t urgent = 3, payload = 2, normal = 1;
};

/// For each byte sent, its kind pays one byte of credit, which is divided among all kinds that wait. Only a
/// kind that waits beside others pays or has credit.
class Scheduler {
public:
    explicit Scheduler(const Shares& shares) : shares_(shares) {}
    void set_shares(const Shares& shares) { shares_ = shares; }

    /// Starts a packet with `room` bytes for messages and payload. Returns the payload's share in bytes: at
    /// least kMinPayloadBytes, or 0 if this packet is for messages only or no payload waits.
    std::size_t begin(std::size_t room, const SendQueue::Waiting& urgent, const SendQueue::Waiting& normal,
                      bool payload_waits);
    /// Call it if begin() returned more than 0, with the size of the payload; 0: there was none.
    void payload_took(std::size_t bytes);
    /// Moves messages from the queue into the draft until the draft is full or no message is left: urgent and
    /// normal messages by credit, then repeats, then bulk messages if the terms allow.
    void fill(SendQueue::Draft& draft, SendQueue& queue, const SendQueue::Terms& terms);

private:
    using Credit = std::int32_t;  // 256ths of a byte
    struct Kind {
        Credit credit = 0;
        unsigned share = 0;  // 0: does not wait
    };
    /// Returns whether this kind and another one wait.
    bool competes(const Kind& kind) const { return kind.share > 0 && kind.share < all_shares(); }
    unsigned all_shares() const { return urgent_.share + normal_.share + payload_.share; }
    std::size_t may_take(const Kind& kind) const;
    void pay(Kind& payer, std::size_t bytes);

    Shares shares_;
    Kind urgent_, normal_, payload_;
    std::uint32_t room_ = 0;  // bytes for messages and payload in the present packet
};

}  // namespace shoal::net::impl
