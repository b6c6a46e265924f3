#pragma once
// A server and two clients, of which the first one owns a ship with components that clients decide.

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/replication/support/stage.h"

namespace shoal::replication::impl::harbour {

struct Banner {
    std::string text;
};
struct Aim {
    float angle = 0;
    ecs::Entity target;
};
struct Cargo {
    int tons = 0;
};

inline Schema owned_schema() {
    Schema schema;
    schema.component<Banner>("banner", max_length(16), from_owner());
    schema.component<Aim>("aim", from_owner(), field(&Aim::angle, quantised(0, 7, 0.125)));
    schema.component<Cargo>("cargo", bounded(0, 1000));
    schema.tag<Mine>("mine", to_owner());
    return schema;
}

/// Two clients; the first one owns a ship.
struct Harbour {
    explicit Harbour(std::uint32_t seed = 1) : stage(owned_schema(), seed) {
        stage.give(&first, ship);
        stage.owned.set_check(component<Banner>(), [](net::PeerId, ecs::Entity, const void* value) {
            const std::string& text = static_cast<const Banner*>(value)->text;
            return std::string(text.starts_with("bad") ? "no such words" : "");
        });
        for (Stage::Client* const client : {&first, &second})
            client->owned.on_refused(component<Banner>(), [this, client](ecs::Entity, std::string_view why) {
                refusals[client].emplace_back(why);
            });
        stage.run(4);
    }
    template <class T>
    static ComponentIndex component() {
        return static_cast<ComponentIndex>(owned_schema().find<T>());
    }
    std::string banner_of(Stage::Client& client) {
        const Banner* const banner = client.world.try_get<Banner>(stage.replica(client, ship));
        return banner ? banner->text : "(none)";
    }
    std::string banner() const { return stage.world.get<Banner>(ship).text; }
    void write(Stage::Client& client, std::string text) {
        client.world.set(stage.replica(client, ship), Banner{std::move(text)});
    }

    Stage stage;
    Stage::Client& first = stage.add_client();
    Stage::Client& second = stage.add_client();
    const ecs::Entity ship = stage.world.spawn(Replicated{}, Banner{"guest"}, Aim{}, Cargo{3});
    std::map<Stage::Client*, std::vector<std::string>> refusals;
};

}  // namespace shoal::replication::impl::harbour
