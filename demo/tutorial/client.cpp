#include "game.h"
#include "screen.h"  // keys in, characters out

int main(int count, char** arguments) {
    World world;
    Screen screen;
    const std::string server = count > 1 ? arguments[1] : "127.0.0.1";
    ClientRunner runner(world, game_schema(), {.server = server, .key_file = "server.pub"});
    Client& client = runner.client();
    client.on_step(move);
    client.on<Shoot>([&](const Shoot&, const Call& call) { screen.text(call.is_mine ? "bang" : "(bang)"); });
    client.on_rejected<Shoot>([&](const Shoot&, std::string_view why) { screen.text(std::string(why)); });
    client.on_refused<Name>([&](Entity, std::string_view why) { screen.text(std::string(why)); });
    client.on<Say>([&](const Say& say, const Call& call) {
        const Name* name = world.try_get<Name>(call.player);
        screen.text((name ? name->text : "somebody") + ": " + say.text);
    });

    return runner.run([&] {  // in each frame
        const Keys keys = screen.keys();
        const Entity me = client.player();  // null until we play
        client.input(Steer{keys.x, keys.y, keys.dash});
        if (me && keys.fire) {
            const Shoot shoot{{keys.aim_x, keys.aim_y}};
            if (const std::string why = client.why_not(shoot); why.empty()) {
                client.act(shoot);
            } else {
                screen.text(why);
            }
        }
        if (me && keys.line.starts_with("/name ")) {
            world.set(me, Name{keys.line.substr(6)});  // ours to write; the server checks it
        } else if (!keys.line.empty()) {
            client.act(Say{keys.line});
        }
        client.each_shown<Position>([&](Entity entity, const Position& at) {
            const Name* name = world.try_get<Name>(entity);
            const Health* health = world.try_get<Health>(entity);
            screen.put(at.x, at.y, name && health ? std::to_string(health->points) + name->text : ".");
        });
        if (const Score* score = world.try_get<Score>(me)) screen.status(std::to_string(score->hits) + " hits");
        return screen.show();
    });
}
