#pragma once
// A second decoder for the packets of a connection, written from net/WIRE.md and as simple as possible. It
// uses only the ciphers of net/.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "net/crypto/primitives.h"
#include "net/crypto/siphash.h"

namespace naive {

using Bytes = std::vector<std::byte>;

struct Message {
    unsigned channel = 0;
    bool goes_on = false;        // reliable: a piece that is not the last one
    bool is_parity = false;      // reliable: ids `id` and `id - 1`, combined
    std::uint64_t id = 0;        // reliable
    std::uint64_t distance = 0;  // reliable; 0: delivered at once
    unsigned key = 0;            // sequenced
    Bytes bytes;
};

struct Packet {
    bool is_disconnect = false;
    bool is_challenge = false;
    bool is_echo = false;
    std::uint32_t connection_id = 0;
    std::uint64_t number = 0;
    bool has_acks = false;
    unsigned ack = 0;
    unsigned ack_delay = 0;  // in 256 us
    std::vector<bool> ack_bits;
    bool is_ping = false;
    std::vector<Message> messages;
    bool has_payload = false;
    Bytes payload;
    bool is_fragment = false;
    unsigned fragment_index = 0;
    bool is_last_fragment = false;
    std::uint64_t fragment_distance = 0;
    bool is_outdated = false;        // a fragment that must not be acknowledged
    std::optional<Bytes> large;      // the payload that this fragment completes
    std::uint64_t large_number = 0;  // number of the fragment's payload
    unsigned reason = 0;
    Bytes text;
    std::uint64_t challenge = 0;
    bool is_probe = false;
    std::uint64_t reset_salt = 0;  // of a probe
};

/// Reads bytes from the front. A read past the end returns zeros and sets `failed`.
struct Reader {
    unsigned u8() {
        if (left() > 0) return std::to_integer<unsigned>(all[at++]);
        failed = true;
        return 0;
    }
    std::uint64_t little_endian(unsigned size) {
        std::uint64_t value = 0;
        for (unsigned i = 0; i < size; ++i) value += std::uint64_t(u8()) << (8 * i);
        return value;
    }
    Bytes take(std::size_t size) {
        Bytes result;
        for (std::size_t i = 0; i < size && !failed; ++i) result.push_back(std::byte(u8()));
        return result;
    }
    std::size_t left() const { return all.size() - at; }

    Bytes all;
    std::size_t at = 0;
    bool failed = false;
};

/// Returns the number closest to `expected` that has these low bytes.
inline std::uint64_t closest(std::uint64_t low, unsigned bytes, std::uint64_t expected) {
    const std::uint64_t step = 1ull << (8 * bytes);
    const std::uint64_t middle = expected / step * step + low;
    std::uint64_t best = middle;
    const auto distance = [&](std::uint64_t value) {
        return value > expected ? value - expected : expected - value;
    };
    if (distance(middle + step) < distance(best)) best = middle + step;
    if (middle >= step && distance(middle - step) < distance(best)) best = middle - step;
    return best;
}

/// Reads a size or distance.
inline std::uint64_t read_short(Reader& in) {
    const unsigned low = in.u8();
    if (low < 128) return low;
    const unsigned high = in.u8();
    if (high == 0) in.failed = true;  // has a shorter form
    return high * 128 + (low - 128);
}

/// Reads the acks.
inline bool read_acks(Reader& in, unsigned flags, Packet& packet) {
    packet.has_acks = flags & 1;
    if (!packet.has_acks) return flags / 16 == 0;
    packet.ack = static_cast<unsigned>(in.little_endian(2));
    packet.ack_delay = in.u8();
    for (unsigned group = 0; group < 4; ++group) {
        std::uint64_t bits = 0xFFFF;
        if (flags >> (4 + group) & 1) {
            bits = in.little_endian(2);
            if (bits == 0xFFFF) return false;
        }
        for (unsigned bit = 0; bit < 16; ++bit) packet.ack_bits.push_back(bits >> bit & 1);
    }
    return true;
}

/// Reads a run. `follows` is the id after the last reliable message of this packet. Sets `is_last`.
inline bool read_run(Reader& in, std::uint64_t expected_id, std::optional<std::uint64_t>& follows,
                     bool& is_last, Packet& packet) {
    const unsigned head = in.u8();
    const bool goes_on = (head & 3) == 3;
    const unsigned channel = goes_on ? 2 : head & 3;
    is_last = head & 4;
    const unsigned count = head & 8 ? in.u8() : 1;
    const unsigned id_bytes = head >> 4 & 3;
    const unsigned predecessor = head >> 6;
    const bool is_parity = channel == 2 && predecessor == 3;
    if (id_bytes == 3 || (is_parity && (goes_on || count != 1))) return false;
    if ((head & 8) && count < 2) return false;
    if (packet.messages.size() + count > 255) return false;
    std::uint64_t id = 0;
    std::uint64_t distance = 0;
    if (channel == 2) {
        if (id_bytes == 0 && !follows) return false;
        id = id_bytes == 0 ? *follows : closest(in.little_endian(id_bytes), id_bytes, expected_id);
        if (is_parity && id_bytes == 0) {
            if (id < 2) return false;
            id -= 2;  // the one before the last message of this packet
        } else {
            follows = id + count;
        }
        if (is_parity && id < 2) return false;
        if (predecessor == 1) distance = 1;
        if (predecessor == 2) distance = read_short(in);
        if (predecessor == 2 && (distance < 2 || distance > 4095)) return false;
    } else if (id_bytes != 0 || predecessor != 0) {
        return false;
    }
    std::uint64_t size = 0;
    const unsigned key_bytes = channel == 1 ? 1 : 0;
    if (goes_on) {
        size = 1000;
    } else if (is_last && !packet.has_payload) {
        if (in.left() < key_bytes * count || in.left() % count != 0) return false;
        size = in.left() / count - key_bytes;
    } else {
        size = read_short(in);
    }
    if (size > 1000 || in.failed) return false;
    if ((is_parity && size > 128) || (count > 1 && size == 0)) return false;
    for (unsigned i = 0; i < count; ++i) {
        Message message{channel, goes_on, is_parity, channel == 2 ? id + i : 0, distance, 0, {}};
        if (key_bytes > 0) message.key = in.u8();
        message.bytes = in.take(size);
        packet.messages.push_back(message);
    }
    return !in.failed;
}

/// Reads the header of a fragment.
inline bool read_fragment_head(Reader& in, Packet& packet) {
    const unsigned head = in.u8();
    packet.fragment_index = head % 128;
    packet.is_last_fragment = head >= 128;
    if (packet.fragment_index > 63 || (packet.fragment_index == 0 && packet.is_last_fragment)) return false;
    packet.fragment_distance = read_short(in);
    return packet.fragment_distance >= packet.fragment_index;
}

/// Reads the sealed part. Returns nothing if it is malformed; acks and ids are checked elsewhere.
inline bool read_contents(const Bytes& body, std::uint64_t expected_id, Packet& packet) {
    Reader in{body};
    if (packet.is_disconnect) {
        packet.reason = in.u8();
        packet.text = in.take(in.left());
        return !in.failed && packet.reason <= 17 && packet.text.size() <= 200;
    }
    if (packet.is_challenge || packet.is_echo) {
        packet.challenge = in.little_endian(8);
        return !in.failed && in.left() == 0;
    }
    const unsigned flags = in.u8();
    packet.is_ping = (flags & 10) == 2;
    packet.has_payload = flags & 8;
    packet.is_fragment = (flags & 10) == 10;
    if (!read_acks(in, flags, packet)) return false;
    std::optional<std::uint64_t> follows;
    for (bool is_last = !(flags & 4); !is_last;) {
        if (!read_run(in, expected_id, follows, is_last, packet) || in.failed) return false;
    }
    if (packet.is_fragment && !read_fragment_head(in, packet)) return false;
    if (packet.has_payload) packet.payload = in.take(in.left());
    const std::size_t size = packet.payload.size();
    if (packet.is_fragment && (size == 0 || size > 1024 || (size < 1024 && !packet.is_last_fragment)))
        return false;
    return !in.failed && in.left() == 0;
}

/// One direction of one connection, as its receiver reads it.
class Decoder {
public:
    enum class Verdict { good, dropped, malformed };

    static Decoder sealed(std::uint64_t protocol_id, bool to_server, std::uint64_t first_number,
                          const shoal::net::impl::SecretKey& key) {
        Decoder decoder(protocol_id, to_server, first_number);
        decoder.keys_.push_back(key);
        return decoder;
    }
    static Decoder insecure(std::uint64_t protocol_id, bool to_server, std::uint64_t first_number,
                            const shoal::net::impl::SecretKey& key) {
        Decoder decoder(protocol_id, to_server, first_number);
        const auto word = [&](std::size_t at) {
            std::uint64_t value = 0;
            for (std::size_t i = 8; i-- > 0;) value = value << 8 | std::uint64_t(key.bytes()[at + i]);
            return value;
        };
        decoder.insecure_ = shoal::net::impl::SipKey{word(0), word(8)};
        return decoder;
    }

    /// Reads a datagram; call it in the order of arrival. A good one counts as arrived.
    Verdict decode(std::span<const std::byte> datagram, Packet& packet) {
        Reader in{Bytes(datagram.begin(), datagram.end())};
        const unsigned first = in.u8();
        const unsigned kind = first >> 3 & 15;
        const unsigned challenge_or_echo = to_server_ ? 9 : 8;
        packet.is_probe = to_server_ && kind == 10;
        if (first < 128 || (kind != 5 && kind != 6 && kind != challenge_or_echo && !packet.is_probe))
            return Verdict::dropped;
        packet.is_disconnect = kind == 6;
        packet.is_challenge = kind == 8;
        packet.is_echo = kind == 9;
        if (to_server_) packet.connection_id = static_cast<std::uint32_t>(in.little_endian(4));
        const unsigned number_bytes = (first & 3) + 1;
        const std::uint64_t low = in.little_endian(number_bytes);
        if (packet.is_probe) packet.reset_salt = in.little_endian(8);
        packet.number = closest(low, number_bytes, newest_ + 1);
        const std::size_t tag_bytes = insecure_ ? 8 : 16;
        if (in.failed || in.left() < 1 + tag_bytes) return Verdict::dropped;
        const Bytes header(in.all.begin(), in.all.begin() + std::ptrdiff_t(in.at));
        Bytes body = in.take(in.left() - tag_bytes);
        const Bytes tag = in.take(tag_bytes);
        if (!(insecure_ ? check(packet.number, header, body, tag)
                        : open(packet.number, first & 4, header, body, tag)))
            return Verdict::dropped;
        const bool is_new = packet.number >= first_ && !arrived_.contains(packet.number);
        if (!is_new || packet.number + 64 < newest_) return Verdict::dropped;
        if (!read_contents(body, expected_id(packet.number), packet)) return Verdict::malformed;
        if (packet.is_fragment && !join(packet)) return Verdict::malformed;
        arrive(packet);
        return Verdict::good;
    }
    /// Says that the receiver refused this complete large payload.
    void refuse(std::uint64_t large_number) { larges_[large_number].is_refused = true; }
    unsigned keys_used() const { return present_ + 1; }

private:
    Decoder(std::uint64_t protocol_id, bool to_server, std::uint64_t first_number)
        : protocol_id_(protocol_id), to_server_(to_server), first_(first_number), newest_(first_number - 1) {}

    static Bytes eight_bytes(std::uint64_t value) {
        Bytes bytes;
        for (int i = 0; i < 8; ++i) bytes.push_back(std::byte(value >> (8 * i) & 0xFF));
        return bytes;
    }
    static Bytes joined(Bytes a, const Bytes& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    }
    bool check(std::uint64_t number, const Bytes& header, const Bytes& body, const Bytes& tag) const {
        const Bytes covered =
            joined(joined(eight_bytes(protocol_id_), eight_bytes(number)), joined(header, body));
        return eight_bytes(shoal::net::impl::siphash(*insecure_, {}, covered)) == tag;
    }
    /// Opens a datagram with the present key or, as phase and number say, the former or next one.
    bool open(std::uint64_t number, bool phase, const Bytes& header, Bytes& body, const Bytes& tag) {
        while (keys_.size() < present_ + 2) keys_.push_back(key_after(keys_.back()));
        unsigned key = present_;
        if ((present_ % 2 == 1) != phase)
            key = present_ > 0 && number < lowest_ ? present_ - 1 : present_ + 1;
        const std::span<const std::byte, 16> fixed(tag.data(), 16);
        const bool is_authentic =
            shoal::net::impl::open(keys_[key], shoal::net::impl::nonce_from(number),
                                   joined(eight_bytes(protocol_id_), header), body, fixed);
        if (!is_authentic) return false;
        if (key == present_ + 1 || (key == present_ && number < lowest_)) lowest_ = number;
        if (key > present_) present_ = key;
        return true;
    }
    static shoal::net::impl::SecretKey key_after(const shoal::net::impl::SecretKey& key) {
        shoal::net::impl::Bytes32 zeros{};
        shoal::net::impl::Tag tag;
        shoal::net::impl::seal(key, shoal::net::impl::nonce_from(0xFFFF'FFFF'FFFF'FFFF), {}, zeros, tag);
        return shoal::net::impl::SecretKey(zeros);
    }
    std::uint64_t expected_id(std::uint64_t number) const {
        std::uint64_t highest = first_ - 1;
        for (const auto& [packet, id] : highest_ids_) {
            if (packet < number && id > highest) highest = id;
        }
        return highest + 1;
    }
    /// Adds a fragment to its payload; no payload is ever forgotten.
    bool join(Packet& packet) {
        if (packet.number < first_ + packet.fragment_distance) return false;
        packet.large_number = packet.number - packet.fragment_distance;
        const std::uint64_t newest = larges_.empty() ? 0 : larges_.rbegin()->first;
        Large& large = larges_[packet.large_number];
        packet.is_outdated = packet.large_number < newest || large.is_refused;
        if (packet.is_outdated || large.is_complete) return true;
        if (large.fragments.contains(packet.fragment_index)) {
            const bool was_last = large.last == packet.fragment_index;
            return large.fragments[packet.fragment_index].size() == packet.payload.size() &&
                   was_last == packet.is_last_fragment;
        }
        if (packet.is_last_fragment && large.last) return false;
        if (packet.is_last_fragment) large.last = packet.fragment_index;
        large.fragments[packet.fragment_index] = packet.payload;
        if (large.last && large.fragments.rbegin()->first > *large.last) return false;
        Bytes all;
        for (const auto& [index, bytes] : large.fragments) all = joined(all, bytes);
        large.is_complete = large.last && large.fragments.size() == *large.last + 1u;
        if (large.is_complete) packet.large = all;
        return true;
    }
    void arrive(const Packet& packet) {
        arrived_.insert(packet.number);
        if (packet.number > newest_) newest_ = packet.number;
        for (const Message& message : packet.messages) {
            std::uint64_t& highest = highest_ids_[packet.number];
            if (message.channel == 2 && !message.is_parity && message.id > highest) highest = message.id;
        }
    }

    struct Large {
        std::map<unsigned, Bytes> fragments;  // by index
        std::optional<unsigned> last;         // its index
        bool is_complete = false, is_refused = false;
    };

    std::uint64_t protocol_id_;
    bool to_server_;
    std::uint64_t first_;
    std::uint64_t newest_;  // newest number that arrived
    std::set<std::uint64_t> arrived_;
    std::map<std::uint64_t, std::uint64_t> highest_ids_;  // by packet number
    std::map<std::uint64_t, Large> larges_;               // by number
    std::vector<shoal::net::impl::SecretKey> keys_;       // all former keys, the present one and the next
    unsigned present_ = 0;
    std::uint64_t lowest_ = ~0ull;  // lowest number with the present key
    std::optional<shoal::net::impl::SipKey> insecure_;
};

}  // namespace naive
