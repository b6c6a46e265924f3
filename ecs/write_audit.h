#pragma once
// Catches writes that no hook told of: raw pointers kept too long, patches that deny what they did.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "change_collector.h"
#include "world.h"

namespace shoal::ecs {

/// A component or relation with a value to hash.
template <class T>
concept Audited = Storable<T> && !std::is_empty_v<T>;

/// The same, and the bytes of the value are all there is to hash.
template <class T>
concept AuditedBytes = Audited<T> && std::is_trivially_copyable_v<T>;

/// For debug builds and tests: each check() costs as much as reading every watched value. Must not
/// outlive its world.
class WriteAudit {
public:
    struct Missed {
        Entity entity;
        ComponentId component;  // or the relation
        std::string_view name;  // of the component, while the world lives
    };

    /// Of one value, `size` bytes large. Must not depend on where it is.
    using Hash = std::uint64_t (*)(const void* value, std::size_t size);
    static std::uint64_t hash_bytes(const void* value, std::size_t size);

    explicit WriteAudit(World& world) : world_(world), told_(world) {}

    /// From the next check() on. Values that are not trivially copyable need a hash of their own.
    template <Audited T>
    void watch(Hash hash) {
        watch(world_.component<T>(), hash);
    }
    template <AuditedBytes T>
    void watch() {
        watch(world_.component<T>(), hash_bytes);
    }
    void watch(ComponentId id, Hash hash);

    /// Values that are not what they were at the last check() although no hook of their component has
    /// run for their entity since. Requires that no hook runs and no query iterates.
    std::vector<Missed> check();

private:
    struct Known {
        Entity entity;  // null: not known
        std::uint64_t hash = 0;
    };
    struct Watched {
        ComponentId id;
        Hash hash;
        std::vector<Known> known;  // by entity index
    };

    void check(const Archetype& archetype, Watched& watched, std::vector<Missed>& missed);

    World& world_;
    ChangeCollector told_;
    std::vector<Watched> watched_;  // as told_ numbers them
};

}  // namespace shoal::ecs
