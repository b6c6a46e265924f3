#pragma once
// Sends and checks messages between a server and a client.

#include <array>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "net/endpoint.h"
#include "tests/sim/game.h"

namespace shoal::sim {

/// One side of a connection. It has four streams with numbered messages: two ordered, one unordered, one
/// sequenced. Some messages are large. Their bytes follow from stream and number, so the other side can check
/// them.
class Chat {
public:
    /// Sends a message with `send(how, bytes)` in about one of twelve calls.
    template <class Send>
    void speak(Random& random, Send&& send) {
        if (!random.chance(0.08)) return;
        const std::uint32_t stream = random.below(4);
        const bool is_large = stream < 3 && random.chance(0.05);
        message_.resize(8 + random.below(is_large ? 6'000 : 60));
        write(stream, said_[stream] + 1, message_);
        const net::Delivery how = stream < 2    ? net::ordered_by(stream)
                                  : stream == 2 ? net::unordered()
                                                : net::latest_of(7);
        const net::Weight weight = is_large ? net::Weight::bulk : net::Weight::normal;
        said_[stream] +=
            send(how.with(weight), std::span<const std::byte>(message_)) == net::SendResult::queued;
    }

    /// Checks a message that arrived. Returns what is wrong, or nothing.
    std::string hear(std::span<const std::byte> bytes) {
        std::uint32_t stream = 4, number = 0;
        if (bytes.size() >= 8) {
            std::memcpy(&stream, bytes.data(), 4);
            std::memcpy(&number, bytes.data() + 4, 4);
        }
        if (stream >= 4) return "a message of an unknown stream";
        message_.resize(bytes.size());
        write(stream, number, message_);
        if (std::memcmp(message_.data(), bytes.data(), bytes.size()) != 0)
            return "a message with other bytes";
        larges_ += bytes.size() > net::kMaxMessageBytes;
        if (stream == 2) return unordered_.insert(number).second ? "" : "a message twice";
        if (stream < 2 ? number != heard_[stream] + 1 : number <= heard_[stream])
            return "message " + std::to_string(number) + " of stream " + std::to_string(stream) + " after " +
                   std::to_string(heard_[stream]);
        heard_[stream] = number;
        return {};
    }

    bool has_heard_all_of(const Chat& other) const {
        return heard_[0] == other.said_[0] && heard_[1] == other.said_[1] &&
               unordered_.size() == other.said_[2];
    }
    std::uint64_t larges() const { return larges_; }

private:
    static void write(std::uint32_t stream, std::uint32_t number, std::span<std::byte> out) {
        std::memcpy(out.data(), &stream, 4);
        std::memcpy(out.data() + 4, &number, 4);
        for (std::size_t i = 8; i < out.size(); ++i) out[i] = std::byte((i + i / 1000 + number) & 0xFF);
    }

    std::array<std::uint32_t, 4> said_{}, heard_{};
    std::set<std::uint32_t> unordered_;
    std::vector<std::byte> message_;
    std::uint64_t larges_ = 0;
};

}  // namespace shoal::sim
