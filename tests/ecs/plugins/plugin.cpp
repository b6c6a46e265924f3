// A part of a game in a shared library, in three versions: the second has other code and the same types, and
// the third has other types of the same names.

#include "tests/ecs/plugins/plugin.h"

#include <array>
#include <cstring>
#include <memory>

#include "ecs/query.h"

using namespace shoal::ecs;

namespace plugin_types {

struct Cargo {
    std::array<unsigned char, VERSION == 3 ? 200 : 4> bytes{};
};
/// Values are moved and destroyed by functions of the library.
struct Crew {
    std::unique_ptr<int> number;
#if VERSION == 3
    std::unique_ptr<int> captain;
#endif
};
struct Sealed {};
struct Inside {
    static constexpr auto relation = exclusive;
    int number = VERSION;
};

}  // namespace plugin_types

namespace {

using namespace plugin_types;

struct Local {
    std::array<int, VERSION == 3 ? 30 : 1> numbers{};
};

#if VERSION == 2
struct More {
    std::array<int, 7> numbers{};
};
#endif

ComponentId cargo(World& world) {
    return world.component<Cargo>();
}

ComponentId local(World& world) {
    return world.component<Local>();
}

Entity spawn(World& world, int number) {
    Local local;
    local.numbers.back() = number;
    Cargo loaded;
    loaded.bytes.fill(static_cast<unsigned char>(number));
    Crew crew;
    crew.number = std::make_unique<int>(number);
    const Entity entity = world.spawn(std::move(loaded), std::move(crew), Sealed{}, local);
#if VERSION == 2
    world.set(entity, More{});
#endif
    world.set(entity, to<Inside>(world.spawn(Local{})), Inside{number});
    return entity;
}

int write(World& world) {
    int count = 0;
    Query<Cargo, const Crew, With<Sealed>> loaded(world);
    loaded.each([&](Cargo& each, const Crew&) {
        for (unsigned char& byte : each.bytes) byte = static_cast<unsigned char>(byte + 1);
        ++count;
    });
    return count;
}

bool has(World& world, Entity entity, int number) {
    const Cargo* const loaded = world.try_get<Cargo>(entity);
    const Crew* const crew = world.try_get<Crew>(entity);
    return loaded != nullptr && loaded->bytes.back() == number && crew != nullptr && *crew->number == number;
}

void adopt(World& world) {
    world.adopt_component<Cargo>();
    world.adopt_component<Crew>();
}

}  // namespace

extern "C" {
extern const Plugin plugin;
const Plugin plugin{sizeof(Cargo), cargo, local, spawn, write, has, adopt};
}
