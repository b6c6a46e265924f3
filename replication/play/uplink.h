#pragma once
// The state payloads that clients send to the server. WIRE.md specifies their bits.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../../net/endpoint.h"
#include "../codec/bits.h"

namespace shoal::replication::impl {

/// The sections of a client's payload, in the order of the payload. Each may be missing.
enum class Section : std::uint8_t { inputs, actions, owned_state };
inline constexpr std::size_t kSections = 3;

/// What is small is sent in three payloads, so that the loss of one or two does not delay it by a round trip.
inline constexpr std::uint32_t kSmallPayloads = 3;
inline constexpr std::size_t kSmallBits = 64 * 8;

/// Interface of a class that writes one section of a client's payloads.
class SectionWriter {
public:
    virtual ~SectionWriter() = default;

    /// Appends at most `room_bits` bits, the most urgent first, and returns true. Returns false, without
    /// effect, if there is nothing to send now. In one update this is called again for further packets, as
    /// long as any section has something to send. `packet` is the packet number; it rises with each call.
    virtual bool write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) = 0;
    /// Returns whether the room of the last write_section() was too small for the most urgent item.
    bool lacked_room() const { return lacked_room_; }

    /// Called once for each packet, also if this section wrote nothing into it. When the connection ends, all
    /// packets in flight are reported as lost.
    virtual void on_fate(std::uint64_t packet, bool delivered) = 0;

protected:
    bool lacked_room_ = false;
};

struct Player;

/// Puts the sections of a client into payloads. The inputs may use all the room, and each section after them
/// what is left. A section that lacked room comes first in the next payload, so none waits for ever. Not
/// thread-safe.
class UplinkWriter {
public:
    /// Sets the writer of a section. Null: the section is always missing. The writer must outlive this
    /// object.
    void set(Section section, SectionWriter* writer) { writers_[static_cast<std::size_t>(section)] = writer; }

    /// Writes a payload into `room` and returns its size in bytes; 0 if there is nothing to send.
    std::size_t write(std::uint64_t packet, std::span<std::byte> room);
    void on_fate(std::uint64_t packet, bool delivered);

private:
    bool lacked_room(std::size_t section) const;

    std::array<SectionWriter*, kSections> writers_{};
    std::size_t first_ = 0;  // the section that may use all the room of the next payload
    std::array<BitWriter, kSections> sections_;
    BitWriter payload_;
};

/// Interface of a class that reads one section on the server, for all clients.
class SectionReader {
public:
    virtual ~SectionReader() = default;

    /// Decodes the section without any effect that a caller can see. Returns false if the bits are invalid.
    /// Any bits are safe. Bits past the end read as zero, see BitReader.
    virtual bool read_section(Player& player, std::uint64_t packet, BitReader& in) = 0;

    /// Uses the section that the last read_section() decoded. Called only if the whole payload is valid. An
    /// earlier section may have ended the player.
    virtual void commit_section(Player& player, net::Time now) = 0;
};

/// Splits the payloads of clients into sections. Not thread-safe.
class UplinkReader {
public:
    /// Sets the reader of a section. Null: payloads with this section are invalid. The reader must outlive
    /// this object.
    void set(Section section, SectionReader* reader) { readers_[static_cast<std::size_t>(section)] = reader; }

    /// Reads a payload. Returns false, without effect, if it is invalid: disconnect the client.
    [[nodiscard]] bool read(Player& player, std::uint64_t packet, std::span<const std::byte> payload,
                            net::Time now);

private:
    std::array<SectionReader*, kSections> readers_{};
};

}  // namespace shoal::replication::impl
