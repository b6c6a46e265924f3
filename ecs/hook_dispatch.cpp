#include "hook_dispatch.h"

#include "world.h"

namespace shoal::ecs::impl {

void HookDispatch::run_hooks(HookKind kind, const HookCall& call) {
    if (is_held() && kind != HookKind::remove) return queue(kind, call);
    const World::Deferral deferral(call.world);
    run(kind, call.column->type(), call);
}

/// Queues an event: if a hook caused it, until the outermost operation ends; else until the last delay ends.
void HookDispatch::queue(HookKind kind, const HookCall& call) {
    using Kind = CommandQueue::Kind;
    CommandQueue& queue = is_running() ? commands_ : delayed_;
    queue.push_entities(kind == HookKind::add ? Kind::added : Kind::changed, call.entities,
                        call.column->id());
}

void HookDispatch::report_delayed(World& world) {
    if (delayed_.empty()) return;
    hold(false);
    const AtEnd hold_again{[&] { hold(is_delaying()); }};
    const World::Deferral deferral(world);
    while (!delayed_.empty() && !is_held()) {  // a delay may begin meanwhile
        const CommandQueue::Command command = delayed_.pop();
        const bool is_add = command.kind == CommandQueue::Kind::added;
        report(world, is_add ? HookKind::add : HookKind::change, command.entities, command.components[0]);
        delayed_.finish(command);
    }
}

void HookDispatch::delay(World& world, bool begins) {
    begins ? ++delays_ : --delays_;
    hold(is_delaying());
    if (!is_delaying()) report_delayed(world);
}

void HookDispatch::report(World& world, HookKind kind, std::span<const Entity> entities, ComponentId id) {
    Cell run;
    std::size_t first = 0, end = 0;  // positions of the run in `entities`
    const auto fire_run = [&] {
        if (first != end && run.column->type().has_hook(kind))
            run_hooks(kind, {world, entities.subspan(first, end - first), run.at(), run.column,
                             Removal::component});
    };
    for (std::size_t i = 0; i < entities.size(); ++i) {
        const Cell found = archetypes_.cell(entities_.place(entities[i]), id);
        const bool follows = first != end && found.column == run.column &&
                             found.row == run.row + (end - first) && found.row % kBlockRows != 0;
        if (!follows) {
            fire_run();
            run = found;
            first = i;
        }
        end = found ? i + 1 : first;
    }
    fire_run();
}

}  // namespace shoal::ecs::impl
