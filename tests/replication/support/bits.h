#pragma once

#include <cstddef>
#include <vector>

#include "replication/codec/bits.h"

namespace shoal::replication::impl {

inline std::vector<std::byte> bytes_of(const BitWriter& out) {
    std::vector<std::byte> bytes(out.byte_count());
    out.copy_to(bytes);
    return bytes;
}

}  // namespace shoal::replication::impl
