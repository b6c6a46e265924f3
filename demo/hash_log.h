#pragma once
// One line per tick, the same on both sides: tick=T entities=N hash=H

#include <fstream>
#include <optional>
#include <string>

#include "replication/world_hash.h"

namespace shoal::demo {

class HashLog {
public:
    /// False if the file cannot be written.
    bool open(const std::string& path);
    bool is_open() const { return out_.is_open(); }

    /// The server's state of a tick. Ticks must rise.
    void write(replication::Tick tick, const replication::WorldHash::Sum& sum);

    /// The client's, for each tick that is complete and not written yet. Call it after each datagram: a
    /// tick that was complete only until the next datagram leaves no other trace.
    void write_complete(replication::WorldHash& hash, const replication::Receiver& receiver);

    /// False if some of it could not be written.
    bool close();

private:
    std::ofstream out_;
    std::optional<replication::Tick> last_;
};

}  // namespace shoal::demo
