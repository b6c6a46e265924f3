#pragma once
// What hooks are told, and when: at once, when the hook that runs has ended, or when hooks are delayed no
// more.

#include <cstdint>
#include <span>

#include "archetype_graph.h"
#include "commands.h"
#include "component.h"
#include "entity.h"
#include "hooks.h"

namespace shoal::ecs {

/// The hooks of one world, and what they still have to be told.
class HookDispatch : public HookTable {
public:
    /// All of them must outlive it. Changes that hooks make are told by `commands`.
    HookDispatch(ComponentTable& components, const EntityTable& entities, const ArchetypeGraph& archetypes,
                 CommandQueue& commands)
        : HookTable(components),
          entities_(entities),
          archetypes_(archetypes),
          commands_(commands),
          waiting_(components) {}

    /// Rows got a component, or are about to lose it: `count` rows of one block from `first`.
    void fire(World& world, HookKind kind, const Archetype& archetype, const Column& column,
              std::uint32_t first, std::uint32_t count, Removal reason = Removal::component) {
        if (column.type().has_hook(kind))
            run_hooks(kind,
                      {world, archetype.entities().subspan(first, count), column.at(first), &column, reason});
    }
    void run_hooks(HookKind kind, const HookCall& call);

    /// Values were written, and somebody listens. Requires a Deferral.
    void fire_changed(const HookCall& call);
    /// The same in the caller's code, which saves a call for each write.
    void fire_changed_here(const HookCall& call) {
        if (must_wait()) {
            queue(HookKind::change, call);
        } else {
            run(HookKind::change, call.column->type(), call);
        }
    }

    /// Tells of those entities that still have the component, in runs of rows.
    void tell(World& world, HookKind kind, std::span<const Entity> entities, ComponentId id);

    /// Add and change hooks wait from the first beginning to the last end.
    void delay(World& world, bool begins);
    bool is_delaying() const { return delays_ != 0; }

    /// Tells everything that waits for the end of a delay.
    void tell_waiting(World& world);

private:
    void queue(HookKind kind, const HookCall& call);

    const EntityTable& entities_;
    const ArchetypeGraph& archetypes_;
    CommandQueue& commands_;
    CommandQueue waiting_;  // for the end of the delay: added and changed only
    std::uint32_t delays_ = 0;
};

}  // namespace shoal::ecs
