#pragma once
// Files of recorded workloads. Both formats are little-endian.
//
// Cubes: frames at 60 Hz without a header. A frame has 901 cubes of 8 i32: the index 0..3 of the largest
// component of the orientation (a quaternion), the three other components in 0..511, the position x and y in
// +-131072 and z in 0..16383, and whether the player touches the cube.
//
// Quake III:
//   header         "Q3T1", u32 number of fields (51), u32 number of snapshots, u32 number of baselines
//   each field     u8 kind, u8 bits, 22 characters of name
//   each baseline  u16 number of the entity, 51 u32
//   each snapshot  u32 message number, i32 time in ms, u8 distance to the acknowledged message that the
//                  game used as baseline (0: none), u8 flags, u16 entities, u16 removed, u16 changed, u32
//                  bits of the game's own encoding, 8 unused bytes; a u16 per removed entity; per changed
//                  entity a u16 number, u8 starts from zeros, u64 mask of fields, and a u32 per field in the
//                  mask, rising; then the bytes of the game's own encoding

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace trace {

inline constexpr std::size_t kCubes = 901;

/// 28,832 bytes per frame: {orientation_largest, orientation[3], position[3], interacting} per cube.
struct CubesTrace {
    using Cube = std::array<std::int32_t, 8>;
    std::vector<std::array<Cube, kCubes>> frames;
};

inline constexpr std::size_t kQuakeFields = 51;

struct QuakeTrace {
    using State = std::array<std::uint32_t, kQuakeFields>;
    struct Change {
        std::uint16_t number;
        bool is_new;  // starts from zeros
        std::uint64_t mask;
        State values;  // of the fields in the mask
    };
    struct Snapshot {
        std::uint32_t message = 0;
        std::uint8_t distance = 0;  // 0: full
        std::vector<std::uint16_t> removed;
        std::vector<Change> changed;
    };
    std::vector<std::string> names;
    std::vector<Snapshot> snapshots;
};

inline std::optional<std::string> read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Reads little-endian numbers from a string. A read past the end makes ok() false.
class Bytes {
public:
    explicit Bytes(const std::string& bytes) : bytes_(bytes) {}
    std::uint64_t take(std::size_t count) {
        std::uint64_t value = 0;
        if (bytes_.size() - at_ < count) {
            ok_ = false;
            return 0;
        }
        for (std::size_t i = 0; i < count; ++i)
            value |= std::uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
        at_ += count;
        return value;
    }
    void skip(std::size_t count) {
        ok_ = ok_ && bytes_.size() - at_ >= count;
        at_ += ok_ ? count : 0;
    }
    bool ok() const { return ok_; }

private:
    const std::string& bytes_;
    std::size_t at_ = 0;
    bool ok_ = true;
};

inline std::optional<CubesTrace> load_cubes(const std::string& path) {
    const std::optional<std::string> bytes = read_file(path);
    constexpr std::size_t kFrameBytes = kCubes * sizeof(CubesTrace::Cube);
    if (!bytes || bytes->empty() || bytes->size() % kFrameBytes != 0) return std::nullopt;
    CubesTrace out;
    out.frames.resize(bytes->size() / kFrameBytes);
    std::memcpy(out.frames.data(), bytes->data(), bytes->size());
    return out;
}

inline std::optional<QuakeTrace> load_quake(const std::string& path) {
    const std::optional<std::string> file = read_file(path);
    if (!file || file->substr(0, 4) != "Q3T1") return std::nullopt;
    Bytes in(*file);
    in.skip(4);
    const std::uint64_t fields = in.take(4), snapshots = in.take(4), baselines = in.take(4);
    if (fields != kQuakeFields) return std::nullopt;
    QuakeTrace out;
    for (std::size_t i = 0; i < fields; ++i) {
        in.skip(2);
        std::string name;
        for (int c = 0; c < 22; ++c)
            if (const char letter = static_cast<char>(in.take(1)); letter != 0) name += letter;
        out.names.push_back(name);
    }
    for (std::size_t i = 0; i < baselines; ++i) in.skip(2 + 4 * kQuakeFields);
    for (std::size_t i = 0; i < snapshots && in.ok(); ++i) {
        QuakeTrace::Snapshot snapshot;
        snapshot.message = static_cast<std::uint32_t>(in.take(4));
        in.skip(4);
        snapshot.distance = static_cast<std::uint8_t>(in.take(1));
        in.skip(3);
        const std::uint64_t removed = in.take(2), changed = in.take(2), wire_bits = in.take(4);
        in.skip(8);
        for (std::size_t r = 0; r < removed; ++r)
            snapshot.removed.push_back(static_cast<std::uint16_t>(in.take(2)));
        for (std::size_t c = 0; c < changed && in.ok(); ++c) {
            QuakeTrace::Change change{};
            change.number = static_cast<std::uint16_t>(in.take(2));
            change.is_new = in.take(1) != 0;
            change.mask = in.take(8);
            for (std::size_t f = 0; f < kQuakeFields; ++f)
                if (change.mask >> f & 1) change.values[f] = static_cast<std::uint32_t>(in.take(4));
            snapshot.changed.push_back(change);
        }
        in.skip((wire_bits + 7) / 8);
        out.snapshots.push_back(std::move(snapshot));
    }
    if (!in.ok()) return std::nullopt;
    return out;
}

}  // namespace trace
