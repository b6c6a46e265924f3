#pragma once
// How a client shows an entity that it predicts: between its last two ticks, and without the jumps that
// corrections make.

#include <cstdint>
#include <vector>

#include "../../ecs/world.h"
#include "../../net/endpoint.h"
#include "../schema/schema.h"

namespace shoal::replication {

/// Shows the numbers of predicted components with the Display linear(). After a correction, the difference to
/// what was shown before is shown too, and shrinks to a third in kDecay. Not thread-safe.
class Smoothing {
public:
    static constexpr net::Duration kDecay = std::chrono::milliseconds(100);

    /// World and schema must outlive this object.
    Smoothing(ecs::World& world, const Schema& schema);

    /// What is shown of one entity.
    struct Entity {
        std::vector<double> previous, current;  // values of the last two ticks, by number
        std::vector<double> error;              // is added
        std::vector<double> before;             // what was shown before a correction
        bool is_new = true;                     // no tick was taken yet
    };

    /// Takes the values of a tick that was computed.
    void take_tick(ecs::Entity entity, Entity& shown) const;
    /// Call these around a correction, or around ticks that were computed at once. `fraction`: how much of
    /// the newest tick has passed.
    void begin_jump(Entity& shown, double fraction) const;
    void end_jump(Entity& shown, double fraction) const;
    /// Shows the next values as they are.
    void forget(Entity& shown) const;
    void decay(Entity& shown, net::Duration passed) const;

    /// Changes the numbers of a value of the component with this C++ type to what is shown.
    void show(const Entity& shown, double fraction, const void* type, void* value) const;

private:
    struct Number {
        std::uint32_t offset;  // in the component
        bool is_double;
        double cut;  // a greater error is not shown; 0: no limit
    };
    struct Component {
        const void* type;
        ecs::ComponentId id;
        std::size_t first = 0;  // of its numbers
        std::vector<Number> numbers;
    };

    static double mixed(const Entity& shown, std::size_t number, double fraction) {
        return shown.previous[number] + (shown.current[number] - shown.previous[number]) * fraction;
    }

    ecs::World& world_;
    std::vector<Component> components_;
    std::size_t count_ = 0;  // of all numbers
};

}  // namespace shoal::replication
