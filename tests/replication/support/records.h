#pragma once
// Payloads with chosen records.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replication/codec/codec.h"
#include "replication/codec/state_packet.h"
#include "tests/replication/support/bits.h"
#include "tests/replication/support/world.h"

namespace shoal::replication::impl {

struct ChosenRecord {
    RecordHeader header;
    Image from, to;  // `from` of a delta; neither of a despawn record
};

/// Slots must rise. `header.record_count` is overwritten.
inline std::vector<std::byte> payload_of(const Schema& schema, StateHeader header,
                                         const std::vector<ChosenRecord>& records) {
    header.record_count = static_cast<std::uint32_t>(records.size());
    BitWriter out;
    write_state_header(header, &out);
    RecordHeaderCoder writer(header);
    for (const ChosenRecord& record : records) {
        writer.write(record.header, &out);
        if (record.header.kind != RecordKind::despawn) write_image(schema, record.from, record.to, out);
    }
    return bytes_of(out);
}
inline std::vector<std::byte> payload_of(const Schema& schema, Tick tick,
                                         const std::vector<ChosenRecord>& records) {
    StateHeader header;
    header.tick = tick;
    return payload_of(schema, header, records);
}

/// The sender's newest image of an entity that replicates.
inline Image image_of(const Pair& pair, ecs::Entity entity) {
    const Shadow& shadow = pair.sender.shadow();
    std::uint32_t i = 0;
    while (shadow[i].entity != entity) ++i;
    return shadow[i].versions.newest()->image;
}

/// A payload with the newest state of an entity as a full record in `slot`.
inline std::vector<std::byte> full_record(const Pair& pair, ecs::Entity entity, std::uint32_t slot) {
    return payload_of(
        pair.schema, pair.sender.tick(),
        {{{slot, RecordKind::full, 0, pair.sender.net_id(entity)}, {}, image_of(pair, entity)}});
}

/// A payload with one delta whose baseline does not exist.
inline std::vector<std::byte> baseless(const Schema& schema, std::uint32_t slot) {
    ShapeTable shapes(schema);
    const Image empty{shapes.shape({}), {}};
    return payload_of(schema, 900, {{{slot, RecordKind::delta, 0u - 7, 0}, empty, empty}});
}

}  // namespace shoal::replication::impl
