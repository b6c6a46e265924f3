#pragma once
// Finds what the client's game itself writes to replicas.

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "../../ecs/world.h"
#include "../history/replicas.h"
#include "../schema/binding.h"

namespace shoal::replication::impl {

/// Called with a replica, and the name of a component or relation of the schema that the game just added to
/// it, wrote or removed. Called as a hook: it must not change the world.
using OnLocalWrite = std::function<void(ecs::Entity, std::string_view component)>;

/// Connects hooks to all components of the schema. Without a function, connects no hooks and costs nothing.
class LocalWrites {
public:
    /// The arguments must outlive this object, and must belong to the same world.
    LocalWrites(Binding& binding, const Replicas& replicas, const OnLocalWrite& on_local_write);
    LocalWrites(const LocalWrites&) = delete;
    LocalWrites& operator=(const LocalWrites&) = delete;

    std::uint64_t count() const { return count_; }

    /// While a Pause exists, writes to the world are the library's and do not count.
    class Pause {
    public:
        explicit Pause(LocalWrites& writes) : writes_(writes) { writes_.pauses_ += 1; }
        ~Pause() { writes_.pauses_ -= 1; }
        Pause(const Pause&) = delete;
        Pause& operator=(const Pause&) = delete;

    private:
        LocalWrites& writes_;
    };

private:
    void watch(ecs::World& world, ecs::ComponentId id, const SchemaComponent& component,
               ComponentIndex index);

    const Replicas& replicas_;
    const OnLocalWrite& on_local_write_;
    std::uint64_t count_ = 0;
    std::uint32_t pauses_ = 0;
    std::vector<ecs::Hook> hooks_;
};

}  // namespace shoal::replication::impl
