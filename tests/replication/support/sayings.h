#pragma once
// Messages of the tests: with references, small and large.

#include <cstdint>
#include <string>
#include <vector>

#include "replication/schema/schema.h"

namespace shoal::replication::impl::sayings {

struct Saying {
    std::string text;
    ecs::Entity about;
    std::vector<ecs::Entity> others;
};
struct Beep {
    std::uint8_t pitch = 0;
};
struct Blob {
    std::vector<std::uint8_t> bytes;
};
struct Spot {
    int x = 0;
};

inline Schema saying_schema() {
    Schema schema;
    schema.component<Spot>("spot");
    schema.message<Saying>("saying", field(&Saying::text, max_length(30)),
                           element(&Saying::others, max_length(8)));
    schema.message<Beep>("beep", bounded(0, 100));
    schema.message<Blob>("blob", max_length(300'000));
    return schema;
}

}  // namespace shoal::replication::impl::sayings
