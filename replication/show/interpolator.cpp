#include "interpolator.h"

#include <algorithm>

namespace shoal::replication {

void Interpolator::set_time(const RenderTime& time, Tick newest) {
    time_ = time;
    newest_ = newest;
}

void Interpolator::mix(ecs::Entity entity, const void* type, void* value) const {
    ComponentIndex component = 0;
    if (!mixer_.shows(type, component)) return;
    const std::uint32_t index = replicas_.ids().find(entity);
    if (index == Replicas::kNone) return;
    const Replicas::Replica& replica = replicas_[index];
    const std::vector<ComponentIndex>& held = replica.held;
    if (!held.empty() && std::binary_search(held.begin(), held.end(), component)) return;
    if (!replica.applied || !replicas_.is_delayed(replica)) return;
    const History& versions = replica.versions;
    const std::uint32_t count = versions.count_until(time_.tick);
    if (count == 0 || versions[count - 1].tick != *replica.applied) return;
    Mixer::Around around{versions[count - 1], {}, {}, replica.mean_gap, newest_, replica.ends.has_value()};
    if (count < versions.size()) around.next = versions[count];
    if (count > 1) around.before = versions[count - 2];
    Mixer::Mix found;
    if (mixer_.find(around, time_, found)) mixer_.mix(component, found, replicas_, value);
}

}  // namespace shoal::replication
