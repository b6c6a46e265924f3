#pragma once
// The parts of a recording. README.md specifies the format.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "../../net/bytes.h"
#include "../schema/image.h"

namespace shoal::replication::impl {

inline constexpr std::uint64_t kRecordingMagic = 0x4345524c414f4853;  // "SHOALREC"
inline constexpr std::uint8_t kRecordingVersion = 1;
inline constexpr std::size_t kPayloadSizeBytes = 3;

struct Chunk {
    enum class Kind : std::uint8_t {
        head,      // the schema; once, at the start of the recording
        keyframe,  // the state of all entities at a tick
        tick,      // what changed since the tick before
    };
    static constexpr std::size_t kHeaderBytes = 13;

    Kind kind = Kind::head;
    Tick tick = 0;
    std::span<const std::byte> body;

    std::size_t bytes() const { return kHeaderBytes + body.size(); }
};

/// Finds accidental errors, such as each error in only one byte; no protection against forgery (FNV-1a).
inline std::uint32_t chunk_checksum(std::span<const std::byte> bytes, std::uint32_t hash = 2166136261u) {
    for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint32_t>(byte)) * 16777619u;
    return hash;
}

/// Returns the first chunk of `bytes`; nothing if it is incomplete or damaged.
inline std::optional<Chunk> read_chunk(std::span<const std::byte> bytes) {
    net::impl::ByteReader in(bytes);
    const std::uint32_t sum = in.u32(), size = in.u32();
    const std::uint8_t kind = in.u8();
    const Tick tick = in.u32();
    const std::span<const std::byte> body = in.bytes(size);
    if (!in.ok() || kind > static_cast<std::uint8_t>(Chunk::Kind::tick)) return std::nullopt;
    if (chunk_checksum(bytes.subspan(sizeof sum, in.position() - sizeof sum)) != sum) return std::nullopt;
    return Chunk{static_cast<Chunk::Kind>(kind), tick, body};
}

/// Appends a number to a recording.
inline void append_number(std::vector<std::byte>& out, std::uint64_t number, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) out.push_back(std::byte(number >> 8 * i & 0xff));
}

/// Completes the chunk that begins at `start` and goes to the end of `out`, with room for its header.
inline void finish_chunk(std::vector<std::byte>& out, std::size_t start, Chunk::Kind kind, Tick tick) {
    const std::span<std::byte> bytes = std::span(out).subspan(start);
    net::impl::ByteWriter header(bytes.first(Chunk::kHeaderBytes));
    header.u32(0);
    header.u32(bytes.size() - Chunk::kHeaderBytes);
    header.u8(static_cast<std::uint8_t>(kind));
    header.u32(tick);
    net::impl::ByteWriter(bytes).u32(chunk_checksum(bytes.subspan(sizeof(std::uint32_t))));
}

}  // namespace shoal::replication::impl
