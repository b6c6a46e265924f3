// Code of a game. Without -DWRONG it compiles without warnings; with -DWRONG each line with the comment
// "error:" gives a compile error with this text, see does_not_compile.sh.

#include <array>
#include <string>
#include <string_view>
#include <tuple>

#include "ecs/query.h"
#include "replication/client.h"
#include "replication/server.h"

using namespace shoal;
using namespace shoal::replication::impl;

namespace {

struct Spot {
    float x = 0;
};
struct Flag {
    std::string text;
};
struct Say {
    int number = 0;
};
struct Border {
    int relation = 0, validate = 0, fields = 0;  // a field may have any name
};
struct Follows {
    static constexpr auto relation = ecs::exclusive;
};
class Hidden {
public:
    float x = 0;
    explicit Hidden(float of = 0) : x(of) {}
};
struct Jump {
    int height = 0;
    std::string validate(const Act&) const { return height > 3 ? "too high" : ""; }
    ecs::Entity mutate(Act& act) const { return act.player; }
};
struct Wave {
    static const char* validate(const Act&) { return ""; }
};

#ifdef WRONG
struct Distance {
    static constexpr int relation = 1;
};
struct Point {
    float x = 0;
    explicit Point(float of = 0) : x(of) {}
};
struct ReturnsBool {
    bool validate(const Act&) const { return false; }
};
struct NotConst {
    void mutate(Act&) {}
};
struct TakesWorld {
    void mutate(ecs::World&) const {}
};
struct Mistyped {
    int number = 0;
};
#endif

}  // namespace

template <>
struct shoal::replication::Replicate<Hidden> {
    static auto fields(auto& v) { return std::tie(v.x); }
};
#ifdef WRONG
template <>
struct shoal::replication::Replicate<Point> {
    static auto field(auto& v) { return std::tie(v.x); }
};
#endif

void declare(Schema& schema) {
    schema.component<Spot>("spot", shown_by([](const Spot& a, const Spot&, float) { return a; }));
    schema.component<Flag>("flag", from_owner());
    schema.component<Border>("border");
    schema.component<Hidden>("hidden");
    schema.pair<Follows>("follows");
    schema.message<Say>("say");
    schema.action<Jump>("jump");
    schema.action<Wave>("wave");
#ifdef WRONG
    schema.component<Mistyped>("mistyped",
                               shown_by([](float a) { return a; }));  // error: the function of shown_by()
    schema.component<Distance>("distance");  // error: the static member `relation` must be
    schema.component<Point>("point");        // error: Replicate<T> must have: static auto fields
    schema.action<ReturnsBool>("bool");      // error: validate() must be public: std::string validate
    schema.action<NotConst>("not_const");    // error: mutate() must be public and const
    schema.action<TakesWorld>("takes");      // error: mutate() must be public and const
#endif
}

void handle(Server& server, Client& client, ecs::World& world) {
    server.on<Say>([](PlayerId, const Say&) {});
    server.on<Jump>([](const Jump&, const Call&) {});
    server.check<Flag>([](PlayerId, ecs::Entity, const Flag&) { return "no"; });
    client.on<Say>([](const Say&, const MessageInfo&) {});
    client.on<Jump>([](const auto&, const Call&) {});
    client.on_rejected<Jump>([](const Jump&, std::string_view) {});
    client.on_refused<Flag>([](ecs::Entity, std::string_view) {});
    client.on_step([](const Step& step) { step.each<Spot>([](Spot&) {}); });
    static_cast<void>(world.on_add<Spot>([](ecs::World&, ecs::Entity, const Spot&) {}));
    ecs::Query<Spot> spots(world);
    spots.each([](ecs::Entity, Spot&) {});
#ifdef WRONG
    server.on<Say>([](const Say&) {});                   // error: a handler must take
    client.on<Say>([](PlayerId, const Say&) {});         // error: a handler must take
    client.on<Jump>([](const Jump&, const Say&) {});     // error: a handler must take
    server.check<Flag>([](const Flag&) { return ""; });  // error: a check must be
    client.on_rejected<Jump>([](const Jump&) {});        // error: a handler of rejected actions must take
    client.on_refused<Flag>([](const Flag&) {});         // error: a handler of refused values must take
    static_cast<void>(world.on_add<Spot>([](const Spot&) {}));  // error: a hook takes
    spots.each([](Say&) {});                                    // error: one argument per term
#endif
}
