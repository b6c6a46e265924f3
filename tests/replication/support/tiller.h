#pragma once
// A schema with an input, and the words of inputs.

#include <cstdint>
#include <vector>

#include "replication/play/struct_codec.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {

struct Tiller {
    std::int8_t x = 0, y = 0;
    Press dash, jump;
};

inline Schema tiller_schema() {
    Schema schema;
    schema.input<Tiller>("tiller", bounded(-1, 1));
    return schema;
}

/// Turns inputs into words and back.
struct TillerWords {
    std::vector<std::uint32_t> of(const Tiller& tiller) {
        std::vector<std::uint32_t> words;
        codec.quantise(type, &tiller, words);
        return words;
    }
    Tiller from(std::span<const std::uint32_t> words) {
        Tiller tiller;
        codec.restore(type, words, &tiller);
        return tiller;
    }

    Schema schema = tiller_schema();
    const SchemaStruct& type = schema.structs(StructKind::input)[0];
    NoEntities no_entities;
    StructCodec codec{no_entities};
    std::vector<std::uint32_t> neutral = of({});
};

}  // namespace shoal::replication::impl
