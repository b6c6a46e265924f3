#include "world_hash.h"

namespace shoal::replication {
namespace {

/// Gets net ids from a Namer: a Shadow or a Receiver.
template <class Namer>
class NameMap final : public EntityMap {
public:
    explicit NameMap(const Namer& namer) : namer_(namer) {}
    std::uint32_t to_net(ecs::Entity entity) override { return namer_.net_id(entity); }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }

private:
    const Namer& namer_;
};

/// Source of the mixer: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
std::uint64_t mix(std::uint64_t hash, std::uint64_t number) {
    hash += number + 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return hash ^ hash >> 31;
}

}  // namespace

std::uint64_t WorldHash::of_entity(std::uint32_t net_id, ecs::Entity entity, EntityMap& map) {
    std::uint64_t hash = mix(0, net_id);
    const ecs::World& world = binding_.world();
    for (std::size_t i = 0; i < binding_.ids().size(); ++i) {
        const ecs::ComponentId id = binding_.ids()[i];
        const SchemaComponent& component = binding_.schema().components()[i];
        if (component.viewers != to_everyone() || !world.has(entity, id)) continue;
        hash = mix(hash, component.id);
        if (component.is_tag) continue;
        lanes_.resize(component.layout.lanes().size());
        parts_.clear();
        ComponentLayout::Misfits misfits;
        component.layout.quantise(world.try_get(entity, id), map, lanes_.data(), parts_, misfits);
        for (const std::uint32_t lane : lanes_) hash = mix(hash, lane);
        for (const std::uint32_t word : parts_) hash = mix(hash, word);
    }
    return hash;
}

WorldHash::Sum WorldHash::of_server(const Shadow& shadow) {
    NameMap<Shadow> map(shadow);
    Sum sum;
    binding_.world().each_entity([&](ecs::Entity entity) {
        if (!binding_.world().has<Replicated>(entity)) return;
        sum.hash += of_entity(shadow.net_id(entity), entity, map);
        sum.entities += 1;
    });
    return sum;
}

WorldHash::Sum WorldHash::of_client(const Receiver& receiver) {
    NameMap<Receiver> map(receiver);
    Sum sum;
    receiver.for_each_entity([&](std::uint32_t net_id, ecs::Entity entity) {
        sum.hash += of_entity(net_id, entity, map);
        sum.entities += 1;
    });
    return sum;
}

}  // namespace shoal::replication
