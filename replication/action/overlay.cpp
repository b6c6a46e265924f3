#include "overlay.h"

#include <algorithm>

namespace shoal::replication::impl {

void Overlay::add(Key action, ecs::Entity entity, ComponentIndex component) {
    if (!receiver_.overlay(entity, component)) return;
    Entry entry{action, entity, component, false, 0, {}};
    receiver_.capture(entity, component, entry.value);
    entries_.push_back(std::move(entry));
}

void Overlay::accept(Key action, Tick tick) {
    for (Entry& entry : entries_)
        if (entry.action == action) {
            entry.is_accepted = true;
            entry.tick = tick;
        }
}

void Overlay::undo(Key action) {
    end([&](const Entry& entry) { return entry.action == action; });
}

void Overlay::undo_from(std::uint32_t sequence) {
    end([&](const Entry& entry) {
        return entry.action.stream == ActionStream::ordered &&
               static_cast<std::int32_t>(entry.action.sequence - sequence) >= 0;
    });
}

void Overlay::end_accepted() {
    end([&](const Entry& entry) { return is_over(entry); });
}

/// Returns whether the world has the server's version with the action's effects, or the replica was
/// destroyed.
bool Overlay::is_over(const Entry& entry) const {
    const std::optional<Tick> shown = receiver_.shown_tick(entry.entity);
    return !shown || (entry.is_accepted && !is_newer(entry.tick, *shown));
}

/// Removes the entries for which `ends` is true. The world then shows the newest remaining entry of each
/// component, or else the server's value.
template <class Ends>
void Overlay::end(Ends&& ends) {
    if (std::none_of(entries_.begin(), entries_.end(), ends)) return;
    const auto first = std::stable_partition(entries_.begin(), entries_.end(),
                                             [&](const Entry& entry) { return !ends(entry); });
    ended_.assign(std::make_move_iterator(first), std::make_move_iterator(entries_.end()));
    entries_.erase(first, entries_.end());
    for (const Entry& entry : ended_) {
        const auto is_same = [&](const Entry& other) {
            return other.entity == entry.entity && other.component == entry.component;
        };
        const auto below = std::find_if(entries_.rbegin(), entries_.rend(), is_same);
        if (below == entries_.rend()) {
            receiver_.end_overlay(entry.entity, entry.component);
        } else {
            receiver_.show(entry.entity, entry.component, below->value);
        }
    }
    ended_.clear();
}

}  // namespace shoal::replication::impl
