#pragma once
// Finds writes for which no hook was called: through a raw pointer, or in a patch() that returned false.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "change_collector.h"
#include "world.h"

namespace shoal::ecs::impl {

/// A component or relation with a value to hash.
template <class T>
concept Audited = Storable<T> && !std::is_empty_v<T>;

/// An Audited type whose bytes can be hashed.
template <class T>
concept AuditedBytes = Audited<T> && std::is_trivially_copyable_v<T>;

/// For debug builds and tests: each compare() reads every watched value. Must not outlive its world.
class WriteAudit {
public:
    struct Missed {
        Entity entity;
        ComponentId component;  // or relation
        std::string_view name;  // name of the component; valid as long as the world
    };

    /// Hashes one value of `size` bytes. The result must not depend on the address of the value.
    using Hash = std::uint64_t (*)(const void* value, std::size_t size);
    static std::uint64_t hash_bytes(const void* value, std::size_t size);

    explicit WriteAudit(World& world) : world_(world), told_(world) {}

    /// Watches a component or relation from the next compare() on. A type that is not trivially copyable
    /// needs its own hash function.
    template <Audited T>
    void watch(Hash hash) {
        watch(world_.component<T>(), hash);
    }
    template <AuditedBytes T>
    void watch() {
        watch(world_.component<T>(), hash_bytes);
    }
    void watch(ComponentId id, Hash hash);

    /// Returns the values that differ from those at the last compare(), although no hook of the component was
    /// called for the entity since then. Requires that nothing is deferred.
    std::vector<Missed> compare();

private:
    struct Known {
        Entity entity;  // null: no hash stored
        std::uint64_t hash = 0;
    };
    struct Watched {
        ComponentId id;
        Hash hash;
        std::vector<Known> known;  // by entity index
    };

    void compare(const Archetype& archetype, Watched& watched, std::vector<Missed>& missed);

    World& world_;
    ChangeCollector told_;          // collects the writes for which a hook was called
    std::vector<Watched> watched_;  // by watch index: see ChangeCollector::watch()
};

}  // namespace shoal::ecs::impl

namespace shoal::ecs {
using impl::WriteAudit;
}  // namespace shoal::ecs
