#pragma once
// The models that a sender learns from its traffic, and which one each peer has.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../codec/model.h"
#include "../schema/image.h"

namespace shoal::replication::impl {

/// One per sender. A peer goes on with its model until it has the next one, or until there are two newer
/// ones.
class LearnedModels {
public:
    /// The models of one peer, counted from 1; 0: none. `offered`: on its way to the peer.
    struct Peer {
        std::uint32_t used = 0, offered = 0;
    };

    /// The schema must outlive this. `learns`: whether there are counts. `least`: between two models.
    /// Payloads that name a model must not be under way any more when its number is used again.
    LearnedModels(const Schema& schema, bool learns, Tick least);

    /// Decisions since the last model; those before it count half. Null: learns nothing.
    DecisionCounts* counts() { return counts_.empty() ? nullptr : &counts_; }
    const DecisionCounts& learned() const { return counts_; }

    /// Makes a model of the counts. Returns false, without effect, if they are too few, or if it is too soon.
    bool renew(Tick now);
    /// Adds a model of an earlier sender. Returns false, without effect, if the bytes are invalid, or if it
    /// is too soon.
    bool load(std::span<const std::byte> bytes, Tick now);

    /// write_model() of the newest model, and its number; empty and 0 if there is none.
    std::span<const std::byte> bytes() const { return bytes_; }
    std::uint8_t number() const { return number_of(newest_); }

    /// Returns whether the newest model is to be sent to the peer now. At most one is on its way.
    bool offer(Peer& peer) const;
    /// The peer has the model that was offered. Returns false if that has another number.
    bool confirm(Peer& peer, std::uint8_t number) const;
    /// The model for payloads to this peer, and its number; 0 for the built-in one.
    ModelView model_of(const Peer& peer) const;
    std::uint8_t number_of(const Peer& peer) const { return keeps(peer.used) ? number_of(peer.used) : 0; }

private:
    static std::uint8_t number_of(std::uint32_t model) {
        return static_cast<std::uint8_t>(model == 0 ? 0 : (model - 1) % kMaxModel + 1);
    }
    /// The newest two: so the number of a model is used again only `least` after the last payload named it.
    bool keeps(std::uint32_t model) const { return model != 0 && newest_ - model < 2; }
    bool is_too_soon(Tick now) const { return newest_ != 0 && now - made_ < least_; }
    void add(CodecModel model, std::vector<std::byte> bytes, Tick now);

    const Schema& schema_;
    DecisionCounts counts_;
    std::array<CodecModel, kMaxModel> models_;  // by number - 1
    std::vector<std::byte> bytes_;
    std::uint64_t old_decisions_ = 0;  // of those in counts_, from before the last model
    std::uint32_t newest_ = 0;
    const Tick least_;
    Tick made_ = 0;  // when the newest one was made
};

}  // namespace shoal::replication::impl
