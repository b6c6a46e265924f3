#pragma once
// Payloads with chosen records.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replication/codec/state_packet.h"
#include "tests/replication/support/bits.h"
#include "tests/replication/support/world.h"

namespace shoal::replication {

/// A payload with the newest state of an entity as a full record in `slot`.
inline std::vector<std::byte> full_record(Pair& pair, ecs::Entity entity, std::uint32_t slot) {
    StateHeader header;
    header.tick = pair.sender.tick();
    header.record_count = 1;
    BitWriter out;
    write_state_header(header, &out);
    RecordHeaderWriter(header, &out).write({slot, RecordKind::whole, 0, pair.sender.net_id(entity)});
    const auto& shadow = pair.sender.shadow();
    for (std::uint32_t i = 0; i < shadow.index_count(); ++i)
        if (shadow[i].entity == entity)
            write_image(pair.schema, Image{}, shadow[i].versions.newest()->image, out);
    return bytes_of(out);
}

/// A payload with one delta whose baseline does not exist.
inline std::vector<std::byte> baseless(std::uint32_t slot) {
    StateHeader header;
    header.tick = 900;
    header.record_count = 1;
    BitWriter out;
    write_state_header(header, &out);
    RecordHeaderWriter(header, &out).write({slot, RecordKind::delta, 7, 0});
    out.write(0, 16);
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    return bytes;
}

}  // namespace shoal::replication
