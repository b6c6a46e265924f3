#include "hash_log.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

namespace shoal::demo {

bool HashLog::open(const std::string& path) {
    out_.open(path, std::ios::trunc | std::ios::binary);  // the same bytes on every system
    return out_.good();
}

void HashLog::write(replication::Tick tick, const replication::WorldHash::Sum& sum) {
    std::array<char, 80> line;
    std::snprintf(line.data(), line.size(), "tick=%" PRIu32 " entities=%" PRIu32 " hash=%016" PRIx64 "\n",
                  tick, sum.entities, sum.hash);
    out_ << line.data();
    last_ = tick;
}

void HashLog::write_complete(replication::WorldHash& hash, const replication::Receiver& receiver) {
    const auto complete = receiver.complete();
    if (!complete) return;
    // The first call writes only the newest tick: the client had not joined at the earlier ones.
    replication::Tick tick = last_ ? std::max(*last_ + 1, complete->since) : complete->tick;
    if (tick > complete->tick) return;
    const replication::WorldHash::Sum sum = hash.of_client(receiver);
    for (; tick <= complete->tick; ++tick) write(tick, sum);
}

bool HashLog::close() {
    out_.close();
    return !out_.fail();
}

}  // namespace shoal::demo
