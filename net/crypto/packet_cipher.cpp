#include "packet_cipher.h"

#include <cassert>

#include "../bytes.h"

namespace shoal::net::impl {
namespace {

constexpr std::size_t kMaxClearBytes = 1 + 4 + 4 + 8;  // kind, connection id, number, salt of a probe

/// The associated data: a tag covers it in addition to the body.
struct Associated {
    Associated(std::uint64_t protocol_id, std::span<const std::byte> header) {
        out.u64(protocol_id);
        out.bytes(header);
    }
    std::array<std::byte, 8 + kMaxClearBytes> buffer;
    ByteWriter out{buffer};
};

/// Computes the tag of an insecure packet.
std::uint64_t insecure_tag(const SecretKey& key, std::uint64_t protocol_id, std::uint64_t number,
                           std::span<const std::byte> packet) {
    const std::byte* const half = key.bytes().data();
    const SipKey sip_key{load<std::uint64_t>(half), load<std::uint64_t>(half + 8)};
    return siphash(sip_key, {protocol_id, number}, packet.first(packet.size() - kInsecureTagBytes));
}

/// Returns the key that follows `key` in one direction, by Noise's REKEY: 32 zeros, encrypted with `key` and
/// the nonce 2^64 - 1, which no packet has.
SecretKey key_after(const SecretKey& key) {
    SecretKey next;
    Tag unused;
    seal(key, nonce_from(~0ull), {}, next.bytes(), unused);
    return next;
}

}  // namespace

PacketCipher::PacketCipher(Security security, std::uint64_t protocol_id, const SecretKey& send,
                           const SecretKey& receive, std::uint64_t first_number, Time now)
    : protocol_id_(protocol_id),
      send_(send),
      receive_(receive),
      next_(key_after(receive)),
      send_first_(first_number),
      send_since_(now),
      is_sealed_(security == Security::sealed) {}

bool PacketCipher::prepare(std::uint64_t number, std::uint64_t newest_acked, const KeyLife& life, Time now) {
    const bool is_over = number - send_first_ >= life.packets || now - send_since_ >= life.time;
    if (is_sealed_ && send_ && is_over && newest_acked >= send_first_) {
        send_ = key_after(*send_);
        send_phase_ = !send_phase_;
        send_first_ = number;
        send_since_ = now;
    }
    return send_phase_;
}

void PacketCipher::seal(std::uint64_t number, std::span<std::byte> packet, std::size_t header_bytes) const {
    assert(send_);
    assert(packet.size() >= header_bytes + tag_bytes());
    if (!is_sealed_) {
        const std::uint64_t tag = insecure_tag(*send_, protocol_id_, number, packet);
        return store(packet.last<kInsecureTagBytes>().data(), tag);
    }
    const Associated associated(protocol_id_, packet.first(header_bytes));
    const std::span<std::byte> body = packet.subspan(header_bytes, packet.size() - header_bytes - kTagBytes);
    impl::seal(*send_, nonce_from(number), associated.out.written(), body, packet.last<kTagBytes>());
}

bool PacketCipher::open_with(const SecretKey& key, std::uint64_t number, std::span<std::byte> packet,
                             std::size_t header_bytes) const {
    if (!is_sealed_) {
        const std::uint64_t tag = load<std::uint64_t>(packet.last<kInsecureTagBytes>().data());
        // One comparison of 64-bit words: its time does not tell which byte of a forged tag is wrong.
        return tag == insecure_tag(key, protocol_id_, number, packet);
    }
    const Associated associated(protocol_id_, packet.first(header_bytes));
    const std::span<std::byte> body = packet.subspan(header_bytes, packet.size() - header_bytes - kTagBytes);
    return impl::open(key, nonce_from(number), associated.out.written(), body, packet.last<kTagBytes>());
}

bool PacketCipher::open(std::uint64_t number, bool key_phase, std::span<std::byte> packet,
                        std::size_t header_bytes, Time now, Duration linger) {
    if (!receive_ || packet.size() < header_bytes + tag_bytes()) return false;
    // A packet of the other phase has the former key if its number is below the first under the present key;
    // else the next key.
    const bool is_other = is_sealed_ && key_phase != receive_phase_;
    const bool is_former = is_other && number < receive_first_;
    const std::optional<SecretKey>& key = is_former ? former_ : is_other ? next_ : receive_;
    if (!key || !open_with(*key, number, packet, header_bytes)) {
        if (++forgeries_ >= kMaxForgeries) forget_receive_keys();
        return false;
    }
    if (!is_other || is_former) return true;
    former_ = receive_;
    receive_ = next_;
    next_ = key_after(*receive_);
    receive_phase_ = key_phase;
    receive_first_ = number;
    forgeries_ = 0;
    former_until_ = now + linger;
    return true;
}

void PacketCipher::update(Time now) {
    if (now >= former_until_) former_.reset();
}

void PacketCipher::forget_receive_keys() {
    receive_.reset();
    former_.reset();
    next_.reset();
}

}  // namespace shoal::net::impl
