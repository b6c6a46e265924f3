#pragma once
// A binding of a schema and a world, without a network.

#include <string_view>
#include <utility>
#include <vector>

#include "replication/schema/binding.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {

/// A world in which entity n has net id n + 1.
class BoundWorld : public EntityMap {
public:
    explicit BoundWorld(Schema of = game_schema()) : schema(std::move(of)) {}

    std::uint32_t to_net(ecs::Entity entity) override {
        return entity && entity != hidden ? entity.index + 1 : 0;
    }
    ecs::Entity to_entity(std::uint32_t net_id) override {
        if (hides_all || net_id == 0 || entities[net_id - 1] == hidden) return {};
        return entities[net_id - 1];
    }

    template <class... Ts>
    ecs::Entity spawn(Ts&&... values) {
        entities.push_back(world.spawn(std::forward<Ts>(values)...));
        return entities.back();
    }

    /// An entity's image and its words.
    struct Picture {
        Image image() const { return {shape, words}; }
        const Shape* shape = nullptr;
        std::vector<std::uint32_t> words;
    };
    Picture picture_of(ecs::Entity entity) {
        Picture out{binding.current_shape(entity, *this), {}};
        std::vector<std::uint32_t> parts;
        out.words.resize(out.shape->lane_words);
        for (std::size_t i = 0; i < out.shape->components.size(); ++i) {
            const ComponentIndex component = out.shape->components[i];
            const ComponentLayout& layout = binding.schema().components()[component].layout;
            ComponentLayout::Misfits misfits;
            if (!layout.empty())
                layout.quantise(world.try_get(entity, binding.ids()[component]), *this,
                                out.words.data() + out.shape->lanes[i], parts, misfits);
        }
        out.words.insert(out.words.end(), parts.begin(), parts.end());
        return out;
    }

    /// As picture_of(), also with pairs.
    Picture capture_of(ecs::Entity entity) {
        const Image image = binding.capture(entity, {}, *this).image;
        return {image.shape, {image.words.begin(), image.words.end()}};
    }

    template <class T>
    ComponentIndex index() const {
        return static_cast<ComponentIndex>(schema.find<T>());
    }
    std::vector<ComponentIndex> only(std::string_view name) const {
        ComponentIndex i = 0;
        while (schema.components()[i].name != name) ++i;
        return {i};
    }

    Schema schema;
    ecs::World world;
    Binding binding{world, schema};
    std::vector<ecs::Entity> entities;
    bool hides_all = false;  // to_entity() returns null
    ecs::Entity hidden;      // has no net id
};

}  // namespace shoal::replication::impl
