#include "why.h"

#include <cmath>
#include <cstdio>

namespace shoal::replication::all {
namespace {

std::string short_number(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", number);
    return text;
}

std::string reason_text(const Why& why) {
    switch (why.reason) {
        case Reason::unknown_player:
            return "there is no such player";
        case Reason::not_replicated:
            return "does not replicate";
        case Reason::not_loading:
            return "the client does not load the world yet";
        case Reason::hidden:
            return "is hidden";
        case Reason::not_in_room:
            return "the player is not in room " + std::to_string(why.room.number);
        case Reason::too_far:
            if (std::isinf(why.distance)) return "has a place, and the player has no viewpoint";
            return "is beyond " + short_number(why.radius) + " (at " + short_number(why.distance) + ")";
        case Reason::filtered:
            return "the filter of " + std::string(why.filter) + " says no";
        case Reason::seen_next_tick:
            return "is seen from the next tick on";
        case Reason::waits_for_slot:
            return "waits for an entity slot of the client";
        case Reason::waits_to_be_sent:
            return "waits for room in a packet";
        case Reason::not_acknowledged:
            return "sent in tick " + std::to_string(why.tick) + ", no answer yet";
        case Reason::waits_for_interval:
            return "waits: at most every " + short_number(why.interval_s) + " s, next in " +
                   short_number(why.next_s) + " s";
        case Reason::waits_to_be_updated:
            return "has it as of tick " + std::to_string(why.tick) + ", a newer version waits";
        case Reason::has_it:
            return "has it as of tick " + std::to_string(why.tick);
    }
    return {};
}

}  // namespace

std::string describe(const Why& why) {
    std::string text = reason_text(why);
    if (why.follows) text = "follows an entity: " + text;
    if (why.other_views != 0)
        text += "; " + std::to_string(why.other_views) + " components are for other view classes";
    return text;
}

}  // namespace shoal::replication::all
