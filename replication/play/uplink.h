#pragma once
// The state payloads of clients: what each of them sends up to the server. WIRE.md specifies their bits.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../../net/endpoint.h"
#include "../codec/bits.h"

namespace shoal::replication {

/// The sections of a payload, in their order there. Each may be missing.
enum class Section : std::uint8_t { inputs, actions, owned_state };
inline constexpr std::size_t kSections = 3;

/// Writes one section on a client.
class SectionWriter {
public:
    virtual ~SectionWriter() = default;

    /// Appends what is best to send now, at most `room_bits` bits, and returns true. Returns false, without
    /// effect, if there is nothing to send now. Called several times in one update, as long as any section
    /// has something to send; the packet number rises with each call.
    virtual bool write_section(std::uint64_t packet, std::size_t room_bits, BitWriter& out) = 0;

    /// The fate of a packet. The section may have written nothing in it. At the end of the connection all
    /// packets whose fate is open are lost.
    virtual void on_fate(std::uint64_t packet, bool delivered) = 0;
};

/// Puts the sections of a client into payloads. Not thread-safe.
class UplinkWriter {
public:
    /// Null: the section is always missing. The writer must outlive this object.
    void set(Section section, SectionWriter* writer) { writers_[static_cast<std::size_t>(section)] = writer; }

    /// Writes a payload into `room` and returns its size in bytes; 0 if there is nothing to send.
    std::size_t write(std::uint64_t packet, std::span<std::byte> room);
    void on_fate(std::uint64_t packet, bool delivered);

private:
    std::array<SectionWriter*, kSections> writers_{};
    BitWriter payload_, section_;
};

/// Reads one section on the server, for all clients.
class SectionReader {
public:
    virtual ~SectionReader() = default;

    /// Decodes the section without any effect that a caller can see. Any bits are safe: returns false if no
    /// correct client writes them. Bits past the end read as zero, see BitReader.
    virtual bool read_section(net::PeerId peer, std::uint64_t packet, BitReader& in) = 0;

    /// Uses what the last read_section() decoded: the rest of the payload is correct, too.
    virtual void commit_section(net::PeerId peer, net::Time now) = 0;
};

/// Takes the payloads of clients apart. Not thread-safe.
class UplinkReader {
public:
    /// Null: payloads with this section are refused. The reader must outlive this object.
    void set(Section section, SectionReader* reader) { readers_[static_cast<std::size_t>(section)] = reader; }

    /// Reads a payload. Returns false, without effect, if no correct client writes it: disconnect the client.
    [[nodiscard]] bool read(net::PeerId peer, std::uint64_t packet, std::span<const std::byte> payload,
                            net::Time now);

private:
    std::array<SectionReader*, kSections> readers_{};
};

}  // namespace shoal::replication
