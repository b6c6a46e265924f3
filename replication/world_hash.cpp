#include "world_hash.h"

namespace shoal::replication::all {
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

/// Gets the net ids of the entities that a peer sees.
class SeenMap final : public EntityMap {
public:
    SeenMap(const Sender& sender, Sender::Peer peer) : sender_(sender), peer_(peer) {}
    std::uint32_t to_net(ecs::Entity entity) override {
        const NetId net_id = sender_.net_id(entity);
        return net_id != 0 && sender_.hides(peer_, net_id) ? 0 : net_id;
    }
    ecs::Entity to_entity(std::uint32_t) override { return {}; }

private:
    const Sender& sender_;
    Sender::Peer peer_;
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
    NameMap<Shadow> map(shadow);
    binding_.shapes().drop_unused();
    Sum sum;
    binding_.world().each_entity([&](ecs::Entity entity) {
        if (!binding_.world().has(entity, shadow.tag())) return;
        add_entity(sum, shadow.net_id(entity), entity, map);
    });
    return sum;
}

WorldHash::Sum WorldHash::of_peer(const Sender& sender, Sender::Peer peer) {
    SeenMap map(sender, peer);
    binding_.shapes().drop_unused();
    Sum sum;
    binding_.world().each_entity([&](ecs::Entity entity) {
        if (binding_.world().has(entity, sender.shadow().tag()) && sender.sees(peer, entity))
            add_entity(sum, sender.net_id(entity), entity, map);
    });
    return sum;
}

WorldHash::Sum WorldHash::of_client(const Receiver& receiver) {
    NameMap<Receiver> map(receiver);
    binding_.shapes().drop_unused();
    Sum sum;
    receiver.for_each_entity([&](std::uint32_t net_id, ecs::Entity entity) {
        const std::optional<Version> shown = receiver.shown(net_id);
        add_entity(sum, net_id, entity, map, shown ? shown->image : Image{}, receiver.held(net_id));
    });
    return sum;
}

}  // namespace shoal::replication::all
