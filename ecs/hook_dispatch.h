#pragma once
// Decides when hooks are called for an event: at once, when the outermost operation ends, or when the last
// World::DelayHooks ends.

#include <cstdint>
#include <span>

#include "archetype_graph.h"
#include "commands.h"
#include "component.h"
#include "entity.h"
#include "hooks.h"

namespace shoal::ecs::impl {

/// The hooks of one world, and the events that are not yet reported to them.
class HookDispatch : public HookTable {
public:
    /// All arguments must outlive the object. Events caused by hooks are queued in `commands`.
    HookDispatch(ComponentTable& components, const EntityTable& entities, const ArchetypeGraph& archetypes,
                 CommandQueue& commands)
        : HookTable(components),
          entities_(entities),
          archetypes_(archetypes),
          commands_(commands),
          delayed_(components) {}

    /// Calls the hooks of one kind, if there are any, for `count` rows of one block from row `first`. Call it
    /// after the rows got the component (add), or before they lose it (remove).
    void fire(World& world, HookKind kind, const Archetype& archetype, const Column& column,
              std::uint32_t first, std::uint32_t count, Removal reason = Removal::component) {
        if (column.type().has_hook(kind))
            run_hooks(kind,
                      {world, archetype.entities().subspan(first, count), column.at(first), &column, reason});
    }
    /// Calls the hooks, in a Deferral. If hooks are delayed, queues add and change events instead.
    void run_hooks(HookKind kind, const HookCall& call);

    /// Reports written values to the change hooks, now or later. Requires a Deferral, and that the component
    /// has change hooks.
    void fire_changed(const HookCall& call) {
        if (must_wait()) return queue(HookKind::change, call);
        run(HookKind::change, call.column->type(), call);
    }

    /// Reports an earlier event to the hooks. Skips entities that do not have the component any more. Calls
    /// the hooks once for each run of consecutive rows.
    void report(World& world, HookKind kind, std::span<const Entity> entities, ComponentId id);

    /// Begins or ends a delay; delays may overlap. Add and change events are queued until the last one ends.
    void delay(World& world, bool begins);
    /// Frees the memory of earlier delays. Requires that there is none now.
    void shrink() { delayed_.shrink(); }
    bool is_delaying() const { return delays_ != 0; }

    /// Calls the hooks for all events that were queued because of a delay.
    void report_delayed(World& world);

private:
    void queue(HookKind kind, const HookCall& call);

    const EntityTable& entities_;
    const ArchetypeGraph& archetypes_;
    CommandQueue& commands_;
    CommandQueue delayed_;  // events to report when the last delay ends: added and changed only
    std::uint32_t delays_ = 0;
};

}  // namespace shoal::ecs::impl
