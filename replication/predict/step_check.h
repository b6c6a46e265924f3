#pragma once
// Finds mistakes in step functions, which would make predictions wrong now and then.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../../ecs/change_collector.h"
#include "../../ecs/query.h"
#include "step.h"

namespace shoal::replication::impl {

/// Something that a step function did, but must not do: see Step.
struct StepFault {
    enum class Kind : std::uint8_t {
        write,       // it added, wrote or removed a component that a step must not change
        destroy,     // it destroyed the entity
        difference,  // it computed the same tick twice, with different results
    };
    Kind kind;
    Tick tick;
    ecs::Entity entity;  // dead if it was destroyed
    // The component's name in the schema, or the name of its type if it is not in the schema. Empty for
    // Kind::destroy. Valid during the call.
    std::string_view component;
    // For Kind::difference: the results, as texts for humans.
    std::string first, second;
};
using OnStepFault = std::function<void(const StepFault&)>;

/// Checks a client's step function in each `every`-th tick. Not thread-safe.
///
/// Writes are found with hooks. So writes by hooks of the game are found, too, and a query with write access
/// (T&) writes to each entity that it visits. After a step the predicted components get back their values
/// from before it, the step runs again, and both results must have equal bits.
class StepCheck {
public:
    /// World and schema must outlive the check. every >= 1; `on_fault` must not be empty, and must not change
    /// the world.
    StepCheck(ecs::World& world, const Schema& schema, Tick every, OnStepFault on_fault);

    bool is_due(Tick tick) const { return tick % every_ == 0; }

    /// Runs the step for a tick twice: step(true), then step(false). The result of the first one stays.
    void run(Tick tick, const std::function<void(bool is_new)>& step);

private:
    /// The predicted components of an entity. `values` has the fields of each component that the entity has,
    /// at Component::offset.
    struct Saved {
        ecs::Entity entity;
        std::vector<bool> present;
        std::vector<std::byte> values;
    };
    struct Component {
        const SchemaComponent* described;
        ecs::ComponentId id;
        std::size_t offset;  // in Saved::values
    };

    void watch_new_components();
    void save(std::vector<Saved>& out);
    void restore(const std::vector<Saved>& saved);
    void report_writes(Tick tick);
    bool report_differences(Tick tick);
    bool may_write(ecs::Entity entity, ecs::ComponentId component) const;
    std::string_view name_of(ecs::ComponentId component) const;

    ecs::World& world_;
    const Schema& schema_;
    Tick every_;
    OnStepFault on_fault_;
    ecs::ChangeCollector writes_;
    ecs::Query<ecs::With<Predicted>> stepped_;
    std::vector<Component> predicted_;
    std::size_t value_bytes_ = 0;
    std::vector<ecs::Entity> entities_;  // entities that the checked step may change
    std::vector<Saved> before_, first_, second_;
};

}  // namespace shoal::replication::impl
