// A recording that its author damaged. The input changes a world that is recorded, and says which bytes of
// the recording change; their chunks get right checksums. The recording as it was must show at each tick what
// the recorder had. The damaged one may show anything, but is refused with one line where it is malformed,
// and the receiver stays consistent.

#include "replication/record/replay.h"

#include <map>

#include "replication/record/recorder.h"
#include "tests/fuzz/replication_parts.h"

using namespace shoal::replication::impl;
using namespace shoal::replication::impl::fuzz;
using shoal::net::impl::ByteReader;

namespace {

class Projection {
public:
    explicit Projection(std::span<const std::byte> input)
        : in_(input),
          flags_(in_.u8()),
          recorded_(fuzz_schema(!(flags_ & 1))),
          played_(fuzz_schema(!(flags_ & 2))),
          origin_(recorded_, flags_ & 4 ? 0xffffffe0 : 1),
          recorder_(origin_.sender, recorded_, 20'000, {.keyframe_s = 0.02 * (1 + flags_ / 16)}) {}

    void run() {
        while (in_.ok() && in_.remaining() > 0) {
            const unsigned what = in_.u8();
            if (what % 8 < 5) {
                origin_.change(in_);
            } else if (what % 8 < 7) {
                tick(1 + what / 64);
            } else {
                damages_.push_back({in_.u16(), in_.u8()});
            }
        }
        tick(1);
        play_original();
        for (const Damage& damage : damages_) file_[damage.at % file_.size()] ^= std::byte(damage.flips);
        forge();
        play_damaged();
    }

private:
    struct Damage {
        std::size_t at;
        unsigned flips;
    };

    void tick(Tick ticks) {
        // A reference to an entity with a key is null in a world that did not load it.
        for (const shoal::ecs::Entity entity : origin_.entities)
            if (origin_.world.has<StableKey>(entity)) origin_.world.add<Replicated>(entity);
        origin_.update(ticks);
        const auto bytes = recorder_.record();
        CHECK(!bytes.empty());
        file_.insert(file_.end(), bytes.begin(), bytes.end());
        sums_[origin_.tick] = sum_.of_server(origin_.sender.shadow());
    }

    void play_original() {
        shoal::ecs::World world;
        Replay replay(world, played_, file_);
        CHECK(replay.is_open() && replay.error().empty() && replay.last_tick() == origin_.tick);
        WorldHash sum(world, played_);
        const auto check_tick = [&] {
            const auto had = sums_.find(*replay.tick());
            CHECK(had != sums_.end() && sum.of_client(replay.receiver()) == had->second);
        };
        for (Tick next = replay.first_tick(); !replay.at_end(); ++next) {
            CHECK(replay.seek(next));
            check_tick();
        }
        for (const Damage& damage : damages_) {
            CHECK(replay.seek(replay.first_tick() + static_cast<Tick>(damage.at % 64)));
            check_tick();
        }
        CHECK(replay.receiver().is_consistent());
    }

    /// Writes right checksums, as far as the sizes of the chunks lead.
    void forge() {
        for (std::size_t at = sizeof kRecordingMagic; at + Chunk::kHeaderBytes <= file_.size();) {
            const std::size_t size =
                Chunk::kHeaderBytes + shoal::net::impl::load<std::uint32_t>(&file_[at + 4]);
            if (size > file_.size() - at) return;
            const std::span<std::byte> chunk = std::span(file_).subspan(at, size);
            shoal::net::impl::ByteWriter(chunk).u32(chunk_checksum(chunk.subspan(4)));
            at += size;
        }
    }

    void play_damaged() {
        shoal::ecs::World world;
        Replay replay(world, played_, file_, {.max_held_bytes = 4 << 20});
        for (int i = 0; i < 40 && replay.is_open(); ++i)
            if (!replay.step()) CHECK(!replay.error().empty());
        for (const Damage& damage : damages_)
            if (replay.is_open() && !replay.seek(replay.first_tick() + static_cast<Tick>(damage.flips)))
                CHECK(!replay.error().empty());
        CHECK(replay.is_open() || !replay.error().empty());
        CHECK(replay.error().find('\n') == std::string::npos);
        if (replay.is_open()) CHECK(replay.receiver().is_consistent());
    }

    ByteReader in_;
    unsigned flags_;
    Schema recorded_, played_;
    Origin origin_;
    Recorder recorder_;
    WorldHash sum_{origin_.world, recorded_};
    Payload file_;
    std::map<Tick, WorldHash::Sum> sums_;
    std::vector<Damage> damages_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2 || size > 4096) return 0;
    Projection(std::as_bytes(std::span(data, size))).run();
    return 0;
}
