#include "delta_cache.h"

#include <cassert>

#include "../codec/state_packet.h"

namespace shoal::replication::impl {

DeltaCache::DeltaCache(const Shadow& shadow) : shadow_(shadow), visible_shapes_(shadow.schema()) {
    items_.reserve(kExpectedRecords);
}

void DeltaCache::clear() {
    bits_.clear();
    items_.clear();
    first_.resize(std::size_t{shadow_.index_count()} * kPlaces, kNone);
    visible_shapes_.drop_unused();
}

/// Each version has the same chance: a pattern of entities and ticks would see some of them only.
bool DeltaCache::is_learned_from(std::uint32_t entry, Tick tick) const {
    return counts_ && ((entry * 0x9e3779b1u + tick * 0x85ebca6bu) >> 8) % learn_every_ == 0;
}

DeltaCache::Delta DeltaCache::get(std::uint32_t entry, const std::optional<Version>& baseline, View view,
                                  const std::optional<Version>& older, std::uint32_t factor,
                                  const NameSight* sight) {
    assert(entry < first_.size() / kPlaces && !shadow_[entry].versions.empty());
    const Version newest = *shadow_[entry].versions.newest();
    const auto either = [&](bool Shape::*has) {
        return newest.image.shape->*has || (baseline && baseline->image.shape->*has) ||
               (older && older->image.shape->*has);
    };
    if (!either(&Shape::is_restricted)) view.classes = to_everyone();
    if (!either(&Shape::has_optional)) view.numbers = nullptr;
    Item item{entry, kNone, baseline ? baseline->tick : 0, 0, 0, !baseline, view, model_.data(), {}};
    if (baseline && older && older->tick != baseline->tick) {
        item.older = older->tick;
        item.factor = factor;
    }
    std::uint32_t& first = first_[place(entry, item.baseline)];
    if (first >= items_.size() || items_[first].entry != entry) first = kNone;
    uses_.asked += 1;
    for (std::uint32_t i = first; i != kNone && !sight; i = items_[i].next)
        if (items_[i].is_alike(item)) return uses_.found += 1, items_[i].delta;
    Image from = baseline ? baseline->image : Image{}, to = newest.image;
    Trend trend{item.factor != 0 ? older->image : Image{}, item.factor};
    if (view != View{}) {
        if (baseline) from = visible_part(from, view, visible_shapes_, baseline_words_);
        if (trend.older.shape) trend.older = visible_part(trend.older, view, visible_shapes_, older_words_);
        to = visible_part(to, view, visible_shapes_, visible_words_);
    }
    if (baseline && view.is_owner() && from.shape->has_owned)
        to = keep_owned(shadow_.schema(), from, to, kept_words_);
    if (sight) {
        if (baseline) from = hidden_.remove(from, *sight, visible_shapes_, hidden_baseline_words_);
        if (trend.older.shape)
            trend.older = hidden_.remove(trend.older, *sight, visible_shapes_, hidden_older_words_);
        to = hidden_.remove(to, *sight, visible_shapes_, hidden_words_);
    }
    item.delta.offset = bits_.bit_count();
    item.delta.is_empty = !write_image(shadow_.schema(), from, to, bits_, view.numbers, trend, model_);
    if (is_learned_from(entry, newest.tick)) count_decisions(shadow_.schema(), from, to, trend, *counts_);
    item.delta.bits = bits_.bit_count() - item.delta.offset;
    if (sight) return item.delta;
    item.next = first;
    items_.push_back(item);
    first = static_cast<std::uint32_t>(items_.size() - 1);
    return item.delta;
}

std::uint16_t DeltaCache::check_sum_of(Image image, View view, const NameSight* sight) {
    if (image.shape->is_restricted) image = visible_part(image, view, visible_shapes_, visible_words_);
    if (sight) image = hidden_.remove(image, *sight, visible_shapes_, hidden_words_);
    return check_sum(shadow_.schema(), image);
}

}  // namespace shoal::replication::impl
