#pragma once
// Turns the messages, inputs and actions of a schema into integers, and back.

#include <cstdint>
#include <span>
#include <vector>

#include "../schema/lanes.h"
#include "../schema/schema.h"

namespace shoal::replication::impl {

/// Owns one value of a type of the schema. The constructor makes the value, the destructor destroys it.
class StructValue {
public:
    explicit StructValue(const SchemaType& type);
    ~StructValue();
    StructValue(const StructValue&) = delete;
    StructValue& operator=(const StructValue&) = delete;

    void* get() { return memory_; }

private:
    const SchemaType& type_;
    void* memory_;
};

/// Not thread-safe.
class StructCodec {
public:
    /// The map must outlive the codec; it translates references.
    explicit StructCodec(EntityMap& map) : map_(map) {}

    /// Quantises a value: replaces `words` by its lanes and parts.
    void quantise(const SchemaType& type, const void* value, std::vector<std::uint32_t>& words);
    /// Writes every field of the existing object `value`. `words` must come from quantise() or read_value(),
    /// for the same type.
    void restore(const SchemaType& type, std::span<const std::uint32_t> words, void* value);

    /// Writes a component of a living entity, unless it has this value already: then no change hook runs. No
    /// effect if the entity lacks it.
    void write(ecs::World& world, ecs::Entity entity, ecs::ComponentId component, const SchemaType& type,
               std::span<const std::uint32_t> words);

    /// Counts the numbers that did not fit their codecs.
    const ComponentLayout::Misfits& misfits() const { return misfits_; }

private:
    EntityMap& map_;
    std::vector<std::uint32_t> parts_, before_;
    PointerStack stack_;
    ComponentLayout::Misfits misfits_;
};

}  // namespace shoal::replication::impl
