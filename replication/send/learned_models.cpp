#include "learned_models.h"

#include <optional>
#include <utility>

namespace shoal::replication::impl {
namespace {

constexpr std::uint64_t kEnoughDecisions = 20'000;

}  // namespace

LearnedModels::LearnedModels(const Schema& schema, bool learns, Tick least) : schema_(schema), least_(least) {
    if (learns) counts_.resize(untrained_model(schema).size());
}

bool LearnedModels::renew(Tick now) {
    std::uint64_t sum = 0;
    for (const auto& [zeros, ones] : counts_) sum += std::uint64_t{zeros} + ones;
    if (sum < old_decisions_ + kEnoughDecisions || is_too_soon(now)) return false;
    CodecModel model = newest_ != 0 ? models_[number() - 1u] : untrained_model(schema_);
    train(model, counts_);
    std::vector<std::byte> bytes = write_model(model, schema_);
    for (std::uint64_t enough = 32; bytes.size() > kMaxModelBytes; enough *= 4) {
        model = untrained_model(schema_);
        train(model, counts_, enough);
        bytes = write_model(model, schema_);
    }
    old_decisions_ = 0;
    for (auto& [zeros, ones] : counts_) {
        zeros /= 2;
        ones /= 2;
        old_decisions_ += std::uint64_t{zeros} + ones;
    }
    add(std::move(model), std::move(bytes), now);
    return true;
}

bool LearnedModels::load(std::span<const std::byte> bytes, Tick now) {
    if (is_too_soon(now)) return false;
    std::optional<CodecModel> model = read_model(bytes, schema_);
    if (model) add(std::move(*model), {bytes.begin(), bytes.end()}, now);
    return model.has_value();
}

void LearnedModels::add(CodecModel model, std::vector<std::byte> bytes, Tick now) {
    newest_ += 1;
    models_[number() - 1u] = std::move(model);
    bytes_ = std::move(bytes);
    made_ = now;
}

bool LearnedModels::offer(Peer& peer) const {
    if (peer.offered != 0 || peer.used == newest_) return false;
    peer.offered = newest_;
    return true;
}

bool LearnedModels::confirm(Peer& peer, std::uint8_t number) const {
    if (peer.offered == 0 || number_of(peer.offered) != number) return false;
    peer.used = std::exchange(peer.offered, 0);
    return true;
}

ModelView LearnedModels::model_of(const Peer& peer) const {
    return keeps(peer.used) ? ModelView(models_[number_of(peer.used) - 1u]) : ModelView(kBuiltInModel);
}

}  // namespace shoal::replication::impl
