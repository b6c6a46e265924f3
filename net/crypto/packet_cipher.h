#pragma once
// Authenticates the packets of one connection and, unless it is insecure, encrypts them.

#include "../endpoint.h"
#include "../packet.h"
#include "primitives.h"
#include "siphash.h"

namespace shoal::net::impl {

/// How long a key is used for sending: until the first of these limits is reached.
struct KeyLife {
    std::uint64_t packets = 1ull << 20;
    Duration time = std::chrono::minutes(10);
};

/// Both directions of one connection. WIRE.md, Sealing, has the rules of the keys. A packet is a header,
/// which is not encrypted, a body, and room for the tag. Never seal two packets with the same number: the
/// packet number is the nonce.
class PacketCipher {
public:
    /// Packets with a bad tag under one key until no packet opens any more (RFC 9001, section 6.6).
    static constexpr std::uint64_t kMaxForgeries = 1ull << 36;

    /// `first_number`: number of the first packet that will be sent.
    PacketCipher(Security security, std::uint64_t protocol_id, const SecretKey& send,
                 const SecretKey& receive, std::uint64_t first_number, Time now);

    std::size_t tag_bytes() const { return is_sealed_ ? kTagBytes : kInsecureTagBytes; }

    /// Call it before each seal(), with the number of that packet. Updates the key for sending if its life is
    /// over and the other side acknowledged a packet under it. Returns the key phase of the packet.
    bool prepare(std::uint64_t number, std::uint64_t newest_acked, const KeyLife& life, Time now);
    /// Encrypts the body in place and writes the tag. An insecure cipher only writes the tag.
    void seal(std::uint64_t number, std::span<std::byte> packet, std::size_t header_bytes) const;

    /// Checks the tag and decrypts the body in place; an insecure cipher only checks the tag. Returns false,
    /// leaving the packet unchanged, if any part of it is forged. If a packet is sealed with the next key,
    /// that becomes the present key; the former key stays until now + `linger`, for late packets.
    [[nodiscard]] bool open(std::uint64_t number, bool key_phase, std::span<std::byte> packet,
                            std::size_t header_bytes, Time now, Duration linger);

    /// Forgets the former key when the `linger` time given to open() is over. Does not update any key.
    void update(Time now);
    /// Forgets the keys for receiving: no packet can be opened any more.
    void forget_receive_keys();
    /// Forgets the key for sending: no packet may be sealed any more.
    void forget_send_key() { send_.reset(); }
    /// For tests: adds to the count of packets with a bad tag under the present key.
    void add_forgeries(std::uint64_t count) { forgeries_ += count; }

private:
    bool open_with(const SecretKey& key, std::uint64_t number, std::span<std::byte> packet,
                   std::size_t header_bytes) const;

    std::uint64_t protocol_id_;
    std::optional<SecretKey> send_, receive_, former_, next_;
    std::uint64_t send_first_;         // first number sent under the present key
    std::uint64_t receive_first_ = 0;  // number of the packet that made receive_ the present key
    std::uint64_t forgeries_ = 0;      // packets with a bad tag since receive_ became the present key
    Time send_since_;
    Time former_until_{0};
    bool is_sealed_;
    bool send_phase_ = false;
    bool receive_phase_ = false;
};

}  // namespace shoal::net::impl
