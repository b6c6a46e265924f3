#pragma once
// The words and bits of single values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "replication/codec/codec.h"
#include "replication/schema/schema.h"
#include "tests/replication/support/bits.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {

/// Quantises, writes and reads values of the first component of a schema.
class ComponentImages {
public:
    explicit ComponentImages(const Schema& of) : schema(of), shapes(of) {}

    const ComponentLayout& layout() const { return schema.components()[0].layout; }
    template <class T>
    std::vector<std::uint32_t> words_of(const T& value) {
        std::vector<std::uint32_t> words(layout().lanes().size()), parts;
        layout().quantise(&value, map, words.data(), parts, misfits, &stack);
        words.insert(words.end(), parts.begin(), parts.end());
        return words;
    }
    template <class T>
    void restore(const std::vector<std::uint32_t>& words, T& value) {
        const std::uint32_t* const parts = words.data() + layout().lanes().size();
        layout().restore(words.data(), parts, map, &value, &stack);
    }
    Image image(const std::vector<std::uint32_t>& words) {
        return {shapes.shape(std::vector<ComponentIndex>{0}), words};
    }
    std::vector<std::byte> write(const std::vector<std::uint32_t>& from,
                                 const std::vector<std::uint32_t>& to) {
        BitWriter out;
        write_image(schema, from.empty() ? Image{} : image(from), image(to), out);
        return bytes_of(out);
    }
    /// Returns nothing if the bytes are refused.
    std::optional<std::vector<std::uint32_t>> read(const std::vector<std::uint32_t>& from,
                                                   std::span<const std::byte> bytes) {
        const std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
        std::copy(bytes.begin(), bytes.end(), exact.get());
        BitReader in({exact.get(), bytes.size()});
        std::vector<std::uint32_t> words;
        if (!read_image(shapes, from.empty() ? Image{} : image(from), in, words)) return std::nullopt;
        return words;
    }
    template <class T>
    std::size_t bits(const T& from, const T& to) {
        const auto old = words_of(from), now = words_of(to);
        return measure_image(schema, image(old), image(now));
    }

    const Schema& schema;
    ShapeTable shapes;
    NoEntities map;
    PointerStack stack;
    ComponentLayout::Misfits misfits;
};

}  // namespace shoal::replication::impl
