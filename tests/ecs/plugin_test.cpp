// Shared libraries that use a world are loaded and unloaded.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ecs/world.h"
#include "tests/ecs/plugins/plugin.h"
#include "tests/ecs/support/types.h"

using namespace shoal::ecs;

namespace {

class Library {
public:
    Library(const std::string& model, int version)
        : handle_(dlopen((PLUGINS + model + "_" + std::to_string(version) + ".so").c_str(),
                         RTLD_NOW | RTLD_LOCAL)) {
        if (handle_ == nullptr) ADD_FAILURE() << dlerror();
    }
    Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Library& operator=(Library&&) = delete;
    ~Library() {
        if (handle_ != nullptr) dlclose(handle_);
    }
    const Plugin* operator->() const { return static_cast<const Plugin*>(dlsym(handle_, "plugin")); }

private:
    void* handle_;
};

class Plugins : public testing::TestWithParam<const char*> {
protected:
    Library load(int version) const { return Library(GetParam(), version); }
};

// g++ marks some symbols as unique in the process, and does not unload a library that has one.
#ifdef __clang__
INSTANTIATE_TEST_SUITE_P(Model, Plugins, testing::Values("plain"));
#else
INSTANTIATE_TEST_SUITE_P(Model, Plugins, testing::Values("plain", "unique"));
#endif

}  // namespace

TEST_P(Plugins, ATypeOutlivesTheLibraryThatRegisteredIt) {
    World world;
    ComponentId cargo;
    std::vector<Entity> ships;
    {
        const Library first = load(1);
        cargo = first->cargo(world);
        for (int i = 0; i < 3; ++i) ships.push_back(first->spawn(world, 7));
        EXPECT_EQ(first->write(world), 3);
        for (const Entity ship : ships) world.destroy(ship);
    }
    EXPECT_EQ(world.components()[cargo].name, "plugin_types::Cargo");
    EXPECT_NE(world.component<ecs_types::Position>(), cargo);
    const Library rebuilt = load(2);
    EXPECT_EQ(rebuilt->cargo(world), cargo);
    rebuilt->adopt(world);
    const Entity ship = rebuilt->spawn(world, 8);
    EXPECT_TRUE(rebuilt->has(world, ship, 8));
    EXPECT_TRUE(world.has(ship, cargo));
    EXPECT_TRUE(world.is_consistent());
    world.clear();
}

TEST_P(Plugins, AnotherLayoutIsAnotherComponent) {
    for (int before : {1, 2}) {
        World world;
        ComponentId cargo, local;
        {
            const Library old = load(before);
            cargo = old->cargo(world), local = old->local(world);
            world.destroy(old->spawn(world, 3));
        }
        const Library changed = load(3);
        EXPECT_NE(changed->cargo(world), cargo);
        EXPECT_NE(changed->local(world), local);
        EXPECT_EQ(world.components()[changed->cargo(world)].size, changed->cargo_bytes);
        std::vector<Entity> ships;
        for (int i = 0; i < 100; ++i) ships.push_back(changed->spawn(world, i));
        EXPECT_EQ(changed->write(world), 100);
        EXPECT_FALSE(world.has(ships[0], cargo));
        EXPECT_TRUE(world.is_consistent());
        world.clear();
    }
}

TEST_P(Plugins, LibrariesThatAreLoadedTogetherShareTheTypesThatAreEqual) {
    World world;
    const Library first = load(1), second = load(2), third = load(3);
    EXPECT_EQ(first->cargo(world), second->cargo(world));
    EXPECT_NE(first->cargo(world), third->cargo(world));
    EXPECT_NE(first->local(world), second->local(world));
    const Entity a = first->spawn(world, 1), b = second->spawn(world, 2), c = third->spawn(world, 3);
    EXPECT_TRUE(second->has(world, a, 1) && first->has(world, b, 2) && third->has(world, c, 3));
    EXPECT_FALSE(third->has(world, a, 1) || first->has(world, c, 3));
    EXPECT_EQ(first->write(world), 2);
    EXPECT_EQ(third->write(world), 1);
    EXPECT_TRUE(world.is_consistent());
    world.clear();
}

TEST_P(Plugins, AdoptedValuesOutliveTheLibraryThatRegisteredTheirType) {
    World world;
    const Library second = load(2);
    std::vector<Entity> ships;
    {
        const Library first = load(1);
        for (int i = 0; i < 5; ++i) ships.push_back(first->spawn(world, i));
        second->adopt(world);
    }
    for (int i = 5; i < 50; ++i) ships.push_back(second->spawn(world, i));  // the columns grow
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(second->has(world, ships[static_cast<std::size_t>(i)], i));
    world.clear();
    EXPECT_EQ(world.size(), 0u);
}
