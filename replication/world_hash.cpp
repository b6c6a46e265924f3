#include "world_hash.h"

namespace shoal::replication::impl {
namespace {

/// Gets net ids from a function.
template <class ToNet>
class NameMap final : public EntityMap {
public:
    explicit NameMap(ToNet to_net) : to_net_(to_net) {}
    std::uint32_t to_net(ecs::Entity entity) override { return to_net_(entity); }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }

private:
    ToNet to_net_;
};

}  // namespace

void WorldHash::mix_value(Sum& sum, const ImageCursor& value) const {
    const SchemaComponent& component = binding_.schema().components()[value.component()];
    if (component.viewers != to_everyone() || component.is_optional) return;
    sum.hash = mix(sum.hash, component.id);
    std::uint64_t& hash = component.role == Role::owner ? sum.owned_hash : sum.hash;
    for (std::size_t i = 0; i < component.layout.lanes().size(); ++i) hash = mix(hash, value.lanes()[i]);
    for (std::size_t i = 0; i < value.part_words(); ++i) hash = mix(hash, value.parts()[i]);
}

void WorldHash::add_entity(Sum& sum, std::uint32_t net_id, ecs::Entity entity, EntityMap& map,
                           const Image& shown, std::span<const ComponentIndex> held) {
    Sum one{mix(0, net_id), mix(0, net_id), 1};
    const Image image = binding_.capture(entity, {}, map).image;
    ImageCursor value(binding_.schema(), image), confirmed(binding_.schema(), shown);
    for (const ComponentIndex component : held) {
        // What the client decides itself will be on the server as it is here.
        if (binding_.schema().components()[component].role == Role::owner) continue;
        for (; !value.at_end() && value.component() < component; value.next()) mix_value(one, value);
        if (!value.at_end() && value.component() == component) value.next();
        if (confirmed.seek(component)) mix_value(one, confirmed);
    }
    for (; !value.at_end(); value.next()) mix_value(one, value);
    sum.hash += one.hash;
    sum.owned_hash += one.owned_hash;
    sum.entities += one.entities;
}

WorldHash::Sum WorldHash::of_server(const Shadow& shadow) {
    NameMap map([&](ecs::Entity entity) { return shadow.net_id(entity); });
    return of_world(shadow, map, [](ecs::Entity) { return true; });
}

WorldHash::Sum WorldHash::of_peer(const Sender& sender, Sender::Peer peer) {
    NameMap map([&](ecs::Entity entity) {
        const NetId net_id = sender.net_id(entity);
        return net_id != 0 && sender.hides(peer, net_id) ? 0 : net_id;
    });
    return of_world(sender.shadow(), map, [&](ecs::Entity entity) { return sender.sees(peer, entity); });
}

/// Hash of the replicated entities that are seen.
template <class Sees>
WorldHash::Sum WorldHash::of_world(const Shadow& shadow, EntityMap& map, Sees&& sees) {
    binding_.shapes().drop_unused();
    Sum sum;
    binding_.world().each_entity([&](ecs::Entity entity) {
        if (shadow.replicates(entity) && sees(entity)) add_entity(sum, shadow.net_id(entity), entity, map);
    });
    return sum;
}

WorldHash::Sum WorldHash::of_client(const Receiver& receiver) {
    NameMap map([&](ecs::Entity entity) { return receiver.net_id(entity); });
    binding_.shapes().drop_unused();
    Sum sum;
    receiver.for_each_entity([&](std::uint32_t net_id, ecs::Entity entity) {
        const std::optional<Version> shown = receiver.shown(net_id);
        add_entity(sum, net_id, entity, map, shown ? shown->image : Image{}, receiver.held(net_id));
    });
    return sum;
}

}  // namespace shoal::replication::impl
