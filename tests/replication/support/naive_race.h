#pragma once
// Gives the payloads of a sender to both decoders, the library's and the naive one.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "replication/codec/codec.h"
#include "tests/replication/support/naive_decoder.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {

namespace naive = naive_replication;

inline std::vector<ComponentIndex> naive_indices(const naive::State& state) {
    std::vector<ComponentIndex> out;
    for (const auto& [index, value] : state) out.push_back(static_cast<ComponentIndex>(index));
    return out;
}

/// The words of an Image: the lanes of all components, then the parts, each with its count.
inline std::vector<std::uint32_t> naive_words(const naive::State& state) {
    std::vector<std::uint32_t> out;
    for (const auto& [index, value] : state) out.insert(out.end(), value.lanes.begin(), value.lanes.end());
    for (const auto& [index, value] : state)
        for (const auto& part : value.parts) {
            out.push_back(static_cast<std::uint32_t>(part.size()));
            for (const auto& element : part) out.insert(out.end(), element.begin(), element.end());
        }
    return out;
}

inline void compare_with_naive(const Image& ours, const naive::State& theirs) {
    ASSERT_EQ(ours.shape->components, naive_indices(theirs));
    ASSERT_TRUE(std::ranges::equal(ours.words, naive_words(theirs)));
}

/// What occurred, to check that the test covers everything.
struct Coverage {
    int accepted = 0, refused = 0, at_anchor = 0, other = 0, same = 0, full = 0, later_full = 0, ahead = 0;
    int despawns[3] = {}, no_anchor = 0, markers = 0, others = 0, empty = 0, reordered = 0, complete = 0;
    int checks = 0, differences = 0;
    int flipped_accepted = 0, flipped_refused = 0, large = 0, trained = 0, listed = 0, uniform = 0, older = 0;
    std::map<std::string, int> reasons;
};

/// Gives each payload to both decoders.
class Race {
public:
    using Verdict = Receiver::Verdict;
    Race(Receiver& receiver, const Schema& schema, naive::Decoder second, Coverage& coverage)
        : decoder(std::move(second)), receiver_(receiver), shapes_(schema), seen_(coverage) {}

    void receive(std::uint64_t number, std::span<const std::byte> bytes, Verdict& verdict) {
        is_accepted = decoder.receive(number, bytes);
        if (is_accepted) {
            ASSERT_NO_FATAL_FAILURE(compare_payload(number, bytes));
        }
        const std::uint64_t before = receiver_.stats().differences;
        verdict = receiver_.receive(number, bytes);
        if (is_accepted && decoder.payload().check) {
            seen_.checks += 1;
            ASSERT_TRUE(receiver_.stats().differences == before || decoder.payload().differs);
            seen_.differences += decoder.payload().differs;
        }
        ASSERT_EQ(verdict == Verdict::accepted, is_accepted)
            << "verdict " << int(verdict) << ": " << decoder.why();
        const bool is_missing =
            decoder.why().starts_with("an anchor that") || decoder.why().ends_with("its baseline");
        if (verdict != Verdict::too_many) {
            ASSERT_EQ(verdict == Verdict::refused, is_missing) << decoder.why();
        }
        ASSERT_NO_FATAL_FAILURE(compare_versions());
        (is_accepted ? seen_.accepted : seen_.refused) += 1;
        if (!is_accepted) seen_.reasons[decoder.why()] += 1;
    }

    /// Both decoders get a trained model.
    void add_model(std::uint8_t number, std::span<const std::byte> bytes) {
        ASSERT_TRUE(receiver_.decoder().add_model(number, bytes));
        ASSERT_TRUE(decoder.add_model(number, bytes));
        models_[number] = *read_model(bytes, shapes_.schema());
    }

    /// After an apply().
    void compare_complete() {
        const auto ours = receiver_.complete();
        const auto theirs = decoder.complete();
        ASSERT_EQ(ours.has_value(), theirs.has_value());
        if (!ours) return;
        ASSERT_EQ(ours->since, theirs->first);
        ASSERT_EQ(ours->tick, theirs->second);
        seen_.complete += 1;
    }

    /// Every version of the library is one of the naive decoder, which then forgets the others. The library
    /// keeps the newest version, and the versions that deltas may name.
    void compare_versions() {
        std::map<std::uint32_t, std::map<Tick, const naive::State*>> left;
        for (const auto& [slot, replica] : decoder.replicas())
            for (const auto& [tick, state] : replica.versions) left[slot][tick] = &state;
        receiver_.for_each_version(
            [&](std::uint32_t slot, std::uint32_t net_id, Tick tick, const Image& image) {
                if (testing::Test::HasFatalFailure()) return;
                const auto found = left.find(slot);
                if (const auto& former = decoder.replicas().at(slot).former; former.count(tick) != 0) {
                    ASSERT_NO_FATAL_FAILURE(compare_with_naive(image, former.at(tick)));
                    return;
                }
                ASSERT_TRUE(found != left.end() && found->second.count(tick) != 0)
                    << "slot " << slot << " tick " << tick;
                ASSERT_EQ(net_id, decoder.replicas().at(slot).net_id);
                ASSERT_NO_FATAL_FAILURE(compare_with_naive(image, *found->second[tick]));
                found->second.erase(tick);
            });
        if (testing::Test::HasFatalFailure()) return;
        for (const auto& [slot, ticks] : left)
            for (const auto& [tick, state] : ticks) {
                ASSERT_TRUE(is_newer(decoder.replicas().at(slot).needed, tick)) << "slot " << slot;
                decoder.forget(slot, tick);
                ASSERT_FALSE(decoder.replicas().at(slot).versions.empty());
            }
    }

    naive::Decoder decoder;
    bool is_accepted = false;

private:
    /// Compares the headers and images that the library reads from an accepted payload.
    void compare_payload(std::uint64_t number, std::span<const std::byte> bytes) {
        const naive::Payload& theirs = decoder.payload();
        BitReader in(bytes);
        StateHeader header = read_state_header(in);
        ASSERT_EQ(header.anchor.has_value(), theirs.anchor.has_value());
        std::optional<Tick> anchor_tick;
        if (header.anchor) {
            ASSERT_EQ(number - header.anchor->distance, *theirs.anchor);
            anchor_tick = theirs.tick - header.anchor->age;
            ASSERT_EQ(header.anchor->older, theirs.older);
            ASSERT_EQ(header.is_listed, theirs.is_listed);
            ASSERT_EQ(header.is_uniform, theirs.is_uniform);
            header.tick = theirs.tick;
        } else {
            ASSERT_EQ(header.tick, theirs.tick);
        }
        ASSERT_EQ(header.complete.has_value(), theirs.is_complete);
        if (header.complete) {
            ASSERT_EQ(header.complete->distance, theirs.distance);
            ASSERT_EQ(header.complete->others, theirs.others);
            ASSERT_EQ(header.complete->quiet, theirs.quiet);
        }
        ASSERT_EQ(header.record_count, theirs.records.size());
        std::map<std::pair<std::uint32_t, Tick>, Image> baselines;
        receiver_.for_each_version([&](std::uint32_t slot, std::uint32_t, Tick tick, const Image& image) {
            baselines[{slot, tick}] = image;
        });
        const std::vector<std::uint32_t> listed =
            header.is_listed ? decoder.listed() : std::vector<std::uint32_t>();
        RecordHeaderCoder headers(header, listed);
        seen_.listed += header.is_listed;
        seen_.uniform += header.is_uniform;
        int full_records = 0;
        for (const naive::Record& record : theirs.records) {
            const RecordHeader ours = headers.read(in);
            ASSERT_EQ(ours.slot, record.slot);
            ASSERT_EQ(int(ours.kind), int(record.kind));
            ASSERT_EQ(ours.baseline, record.baseline);
            ASSERT_EQ(ours.older, record.older);
            ASSERT_EQ(ours.net_id, record.net_id);
            ASSERT_EQ(ours.pending, record.pending);
            ASSERT_EQ(unsigned(ours.reason), record.reason);
            full_records += record.kind == naive::Kind::full;
            if (record.kind == naive::Kind::full) (full_records > 1 ? seen_.later_full : seen_.full) += 1;
            seen_.ahead += record.pending != 0;
            if (record.kind == naive::Kind::despawn) {
                seen_.despawns[record.reason] += 1;
                continue;
            }
            Image base;
            Trend trend;
            if (record.kind == naive::Kind::delta) {
                (record.is_at_anchor ? seen_.at_anchor : record.is_same ? seen_.same : seen_.other) += 1;
                base = baselines[{record.slot, record.base_tick}];
                ASSERT_NE(base.shape, nullptr);
                trend.factor = record.factor;
                if (record.older_tick) trend.older = baselines[{record.slot, *record.older_tick}];
                seen_.older += record.older_tick.has_value();
            }
            const ModelView model = header.coding == Coding::bits ? ModelView()
                                    : header.model == 0           ? ModelView(kBuiltInModel)
                                                                  : ModelView(models_.at(header.model));
            const Shape* const shape = read_image(shapes_, base, in, words_, trend, model);
            ASSERT_NE(shape, nullptr);
            ASSERT_NO_FATAL_FAILURE(compare_with_naive({shape, words_}, record.state));
        }
        ASSERT_TRUE(in.at_padding());
        seen_.no_anchor += !theirs.anchor;
        seen_.markers += theirs.is_complete;
        seen_.others += theirs.others > 0;
        seen_.empty += theirs.records.empty();
        seen_.large += bytes.size() > 1'300;
        seen_.trained += header.model != 0;
    }

    Receiver& receiver_;
    ShapeTable shapes_;
    std::map<unsigned, CodecModel> models_;  // by number
    std::vector<std::uint32_t> words_;
    Coverage& seen_;
};

/// Changes some bits, or the length.
inline std::vector<std::byte> damaged_copy(std::vector<std::byte> bytes, sim::Random& random) {
    const std::uint32_t kind = random.below(20);
    if (kind == 0) {
        bytes.pop_back();
    } else if (kind == 1) {
        bytes.push_back(std::byte{0});
    }
    for (std::uint32_t n = 1 + random.below(2); n > 0 && !bytes.empty(); --n) {
        // Most bits of interest are at the front.
        const std::size_t bits =
            random.chance(0.5) ? std::min<std::size_t>(bytes.size() * 8, 64) : bytes.size() * 8;
        const std::uint32_t at = random.below(static_cast<std::uint32_t>(bits));
        bytes[at / 8] ^= std::byte(1u << at % 8);
    }
    return bytes;
}

/// Carries packets from a sender to both decoders: late, in another order, lost, or damaged.
class NaivePath {
public:
    NaivePath(Pair& pair, Race& race, sim::Random& random, Coverage& seen)
        : pair_(pair), race_(race), random_(random), seen_(seen) {}

    double damage = 0, delay = 0, loss = 0.1;
    /// Called after each accepted payload.
    std::function<void()> check = [] {};

    void send(std::size_t capacity) {
        for (int n = 0; n < 5; ++n) {
            const auto packet = pair_.encode(capacity);
            if (!packet) break;
            under_way_.push_back(*packet);
            pair_.next_number += random_.below(4) / 3;  // a packet without state
        }
    }

    /// Delivers some of the packets. Sets `is_over` when no other packets may follow.
    void deliver(bool& is_over) {
        for (std::size_t i = under_way_.size(); i > 0 && !is_over; --i) {
            if (random_.chance(delay)) continue;
            const std::size_t at = random_.below(static_cast<std::uint32_t>(under_way_.size()));
            const SentPacket packet = under_way_[at];
            seen_.reordered += at != 0;
            under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(at));
            if (random_.chance(loss)) {
                pair_.lose(packet);
            } else {
                ASSERT_NO_FATAL_FAILURE(deliver(packet, is_over));
            }
        }
    }

private:
    void deliver(const SentPacket& packet, bool& is_over) {
        Receiver::Verdict verdict = Receiver::Verdict::refused;
        ASSERT_NO_FATAL_FAILURE(deliver_damaged(packet, verdict, is_over));
        if (is_over) return;
        if (verdict != Receiver::Verdict::accepted) {
            ASSERT_NO_FATAL_FAILURE(race_.receive(packet.number, packet.bytes, verdict));
        }
        if (damage == 0) {
            ASSERT_NE(verdict, Receiver::Verdict::malformed) << race_.decoder.why();
            ASSERT_NE(verdict, Receiver::Verdict::too_many);
        }
        pair_.tell(packet, verdict == Receiver::Verdict::accepted);
        ASSERT_NO_FATAL_FAILURE(check());
        if (random_.chance(0.5)) pair_.forward_rebases();
        if (random_.chance(0.5)) return;
        pair_.receiver.apply();
        ASSERT_NO_FATAL_FAILURE(race_.compare_complete());
        ASSERT_NO_FATAL_FAILURE(race_.compare_versions());
    }

    void deliver_damaged(const SentPacket& packet, Receiver::Verdict& verdict, bool& is_over) {
        for (std::uint32_t n = random_.chance(damage) ? 5 : 0;
             n > 0 && verdict != Receiver::Verdict::accepted && !is_over; --n) {
            ASSERT_NO_FATAL_FAILURE(
                race_.receive(packet.number, damaged_copy(packet.bytes, random_), verdict));
            (race_.is_accepted ? seen_.flipped_accepted : seen_.flipped_refused) += 1;
            // Far ticks make the library forget when a slot was closed.
            const Tick tick = race_.decoder.payload().tick;
            is_over = race_.is_accepted && tick - packet.tick + 1'000'000 > 2'000'000;
        }
    }

    Pair& pair_;
    Race& race_;
    sim::Random& random_;
    Coverage& seen_;
    std::vector<SentPacket> under_way_;
};

}  // namespace shoal::replication::impl
