#pragma once
// A log with one line per tick, "tick=T entities=N hash=H", in the same format on server and clients.

#include <fstream>
#include <optional>
#include <string>

#include "replication/world_hash.h"

namespace shoal::demo {

class HashLog {
public:
    /// Returns false if the file cannot be written.
    bool open(const std::string& path);
    bool is_open() const { return out_.is_open(); }

    /// Writes the line of a tick of the server. Ticks must rise.
    void write(replication::Tick tick, const replication::WorldHash::Sum& sum);

    /// Writes the missing lines of the ticks for which the client is complete. Call it after each datagram:
    /// the next one can bring a part of a newer tick.
    void write_complete(replication::WorldHash& hash, const replication::Receiver& receiver);

    /// Returns false if something could not be written.
    bool close();

private:
    std::ofstream out_;
    std::optional<replication::Tick> last_;
};

}  // namespace shoal::demo
