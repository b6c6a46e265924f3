#include "packet_cipher.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "../bytes.h"

namespace shoal::net {
namespace {

constexpr std::size_t kMaxClearBytes = 1 + 4 + 4;  // kind, connection id, number

SipKey sip_key(const Key& key) {
    ByteReader in(key.bytes());
    const std::uint64_t low = in.u64();
    return {low, in.u64()};
}

/// What a tag covers besides the body.
struct Associated {
    Associated(std::uint64_t protocol_id, std::span<const std::byte> header) {
        ByteWriter out(buffer);
        out.u64(protocol_id);
        out.bytes(header);
        size = out.size();
    }
    std::span<const std::byte> bytes() const { return std::span(buffer).first(size); }

    std::array<std::byte, 8 + kMaxClearBytes> buffer;
    std::size_t size = 0;
};

/// Noise's REKEY: what this key makes of 32 zeros under the one number that no packet has.
Key key_after(const Key& key) {
    Key next;
    Tag unused;
    seal(key, nonce_from(~0ull), {}, next.bytes(), unused);
    return next;
}

bool open_with(const Key& key, std::uint64_t protocol_id, std::uint64_t number, std::span<std::byte> packet,
               std::size_t header_bytes) {
    const Associated associated(protocol_id, packet.first(header_bytes));
    const std::span<std::byte> body = packet.subspan(header_bytes, packet.size() - header_bytes - kTagBytes);
    return open(key, nonce_from(number), associated.bytes(), body, packet.last<kTagBytes>());
}

}  // namespace

PacketCipher PacketCipher::sealed(std::uint64_t protocol_id, const Key& send, const Key& receive,
                                  std::uint64_t first_number, Time now) {
    PacketCipher cipher;
    cipher.protocol_id_ = protocol_id;
    cipher.send_ = send;
    cipher.receive_ = receive;
    cipher.next_ = key_after(receive);
    cipher.send_first_ = first_number;
    cipher.send_since_ = now;
    return cipher;
}

PacketCipher PacketCipher::insecure(std::uint64_t protocol_id, const SipKey& send, const SipKey& receive) {
    PacketCipher cipher;
    cipher.protocol_id_ = protocol_id;
    cipher.insecure_send_ = send;
    cipher.insecure_receive_ = receive;
    cipher.is_sealed_ = false;
    return cipher;
}

PacketCipher PacketCipher::make(Security security, std::uint64_t protocol_id, const Key& send,
                                const Key& receive, std::uint64_t first_number, Time now) {
    if (security == Security::sealed) return sealed(protocol_id, send, receive, first_number, now);
    return insecure(protocol_id, sip_key(send), sip_key(receive));
}

bool PacketCipher::prepare(std::uint64_t number, std::uint64_t newest_acked, const KeyLife& life, Time now) {
    const bool is_over = number - send_first_ >= life.packets || now - send_since_ >= life.time;
    if (is_sealed_ && is_over && newest_acked >= send_first_) {
        send_ = key_after(send_);
        send_phase_ = !send_phase_;
        send_first_ = number;
        send_since_ = now;
    }
    return send_phase_;
}

void PacketCipher::seal(std::uint64_t number, std::span<std::byte> packet, std::size_t header_bytes) const {
    assert(can_send_);
    assert(packet.size() >= header_bytes + tag_bytes());
    if (!is_sealed_) {
        const std::span<const std::byte> covered = packet.first(packet.size() - kInsecureTagBytes);
        ByteWriter tag(packet.last(kInsecureTagBytes));
        tag.u64(siphash(insecure_send_, {protocol_id_, number}, covered));
        return;
    }
    const Associated associated(protocol_id_, packet.first(header_bytes));
    const std::span<std::byte> body = packet.subspan(header_bytes, packet.size() - header_bytes - kTagBytes);
    net::seal(send_, nonce_from(number), associated.bytes(), body, packet.last<kTagBytes>());
}

bool PacketCipher::open(std::uint64_t number, bool key_phase, std::span<std::byte> packet,
                        std::size_t header_bytes, Time now, Duration linger) {
    if (!can_receive_ || packet.size() < header_bytes + tag_bytes()) return false;
    if (is_authentic(number, key_phase, packet, header_bytes, now, linger)) return true;
    if (++forgeries_ >= kMaxForgeries) forget_receive_keys();
    return false;
}

bool PacketCipher::is_authentic(std::uint64_t number, bool key_phase, std::span<std::byte> packet,
                                std::size_t header_bytes, Time now, Duration linger) {
    if (!is_sealed_) {
        const std::span<const std::byte> covered = packet.first(packet.size() - kInsecureTagBytes);
        ByteReader tag(packet.last(kInsecureTagBytes));
        const std::uint64_t expected = siphash(insecure_receive_, {protocol_id_, number}, covered);
        return (expected ^ tag.u64()) == 0;  // one comparison of whole words leaks no position
    }
    if (key_phase == receive_phase_) {
        if (!open_with(receive_, protocol_id_, number, packet, header_bytes)) return false;
        receive_first_ = std::min(receive_first_, number);
        return true;
    }
    // The former key or the next one: the sender turns forward only, so its number tells.
    if (number < receive_first_)
        return has_former_ && open_with(former_, protocol_id_, number, packet, header_bytes);
    if (!open_with(next_, protocol_id_, number, packet, header_bytes)) return false;
    former_ = receive_;
    receive_ = next_;
    next_ = key_after(receive_);
    receive_phase_ = key_phase;
    receive_first_ = number;
    forgeries_ = 0;
    has_former_ = true;
    former_until_ = now + linger;
    return true;
}

void PacketCipher::update(Time now) {
    if (!has_former_ || now < former_until_) return;
    has_former_ = false;
    former_ = Key();
}

void PacketCipher::forget_receive_keys() {
    can_receive_ = has_former_ = false;
    receive_ = former_ = next_ = Key();
    insecure_receive_ = {};
}

void PacketCipher::forget_send_key() {
    can_send_ = false;
    send_ = Key();
    insecure_send_ = {};
}

}  // namespace shoal::net
