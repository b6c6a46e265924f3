#pragma once
// Compares the world of a client with the server's while both run: the server sends a hash of its world three
// times a second, and the client compares the hash of its own world at the same tick.

#include <array>

#include "arena.h"
#include "replication/world_hash.h"

namespace shoal::demo {

class WorldCheck {
public:
    static constexpr replication::Tick kEvery = 10;  // the server sends a checksum of each 10th tick

    static Checksum checksum(replication::Tick tick, const replication::WorldHash::Sum& sum) {
        return {tick, sum.entities, sum.hash};
    }

    /// Call it after each datagram: the next one can bring a part of a newer tick. Requires that the client
    /// does not interpolate.
    void note(replication::WorldHash& hash, const replication::Receiver& receiver);
    /// Takes a checksum of the server. The checksum may come before or after the client is complete as of its
    /// tick.
    void hear(const Checksum& server);

    std::uint64_t compared() const { return compared_; }
    std::uint64_t divergences() const { return divergences_; }  // compared ticks whose worlds differed

private:
    struct Pair {
        Checksum server, client;
    };
    Pair& pair(replication::Tick tick) { return pairs_[tick / kEvery % pairs_.size()]; }
    void compare(const Pair& pair);

    std::array<Pair, 16> pairs_{};  // of the last ticks with a checksum
    std::uint64_t compared_ = 0, divergences_ = 0;
};

}  // namespace shoal::demo
