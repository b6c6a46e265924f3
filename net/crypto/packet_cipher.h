#pragma once
// What makes the packets of one connection unforgeable and, unless it is insecure, unreadable.

#include <optional>

#include "../endpoint.h"
#include "../packet.h"
#include "primitives.h"
#include "siphash.h"

namespace shoal::net {

/// How long a key is used for sending, whichever ends first.
struct KeyLife {
    std::uint64_t packets = 1ull << 20;
    Duration time = std::chrono::minutes(10);
};

/// Both directions of one connection. Sealed: ChaCha20-Poly1305; each direction has its own key, and turns to
/// the next one by itself; bit 2 of a packet's first byte, the key phase, says which of two neighbouring keys
/// sealed it. Insecure: SipHash over packets in the clear; the keys never turn.
/// A packet is a header, which stays clear, a body, and room for the tag. Its number must never come twice.
class PacketCipher {
public:
    /// Source: RFC 9001, section 6.6.
    static constexpr std::uint64_t kMaxForgeries = 1ull << 36;

    /// `first_number` will be sent first, `now` or later.
    PacketCipher(Security security, std::uint64_t protocol_id, const Key& send, const Key& receive,
                 std::uint64_t first_number, Time now);

    std::size_t tag_bytes() const { return is_sealed_ ? kTagBytes : kInsecureTagBytes; }

    /// Turns the key for sending if its life is over and the other side has followed so far: it acknowledged
    /// a packet under the present key. Returns the key phase of the packets sealed from now on.
    bool prepare(std::uint64_t number, std::uint64_t newest_acked, const KeyLife& life, Time now);
    /// Encrypts the body where it is and writes the tag.
    void seal(std::uint64_t number, std::span<std::byte> packet, std::size_t header_bytes) const;

    /// Decrypts the body where it is. False, with nothing changed, if anything about the packet is forged.
    /// An authentic packet under the next key makes that the present one; the former serves until now +
    /// `linger`, for packets overtaken. After kMaxForgeries under one key nothing opens any more.
    [[nodiscard]] bool open(std::uint64_t number, bool key_phase, std::span<std::byte> packet,
                            std::size_t header_bytes, Time now, Duration linger);

    /// Forgets the former key when its time is over.
    void update(Time now);
    /// Forgets keys for good: after this nothing can be opened, or nothing sealed.
    void forget_receive_keys();
    void forget_send_key() { send_.reset(); }
    /// As if so many forgeries had come under the present key. For tests.
    void add_forgeries(std::uint64_t count) { forgeries_ += count; }

private:
    bool open_with(const Key& key, std::uint64_t number, std::span<std::byte> packet,
                   std::size_t header_bytes) const;

    std::uint64_t protocol_id_;
    std::optional<Key> send_, receive_, former_, next_;
    std::uint64_t send_first_;         // first number under the present key
    std::uint64_t receive_first_ = 0;  // smallest number seen under the present key
    std::uint64_t forgeries_ = 0;      // since receive_ became the present key
    Time send_since_;
    Time former_until_{0};
    bool is_sealed_;
    bool send_phase_ = false;
    bool receive_phase_ = false;
};

}  // namespace shoal::net
