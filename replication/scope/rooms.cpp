#include "rooms.h"

namespace shoal::replication::impl {

bool RoomTable::enter(std::uint32_t peer, Room room) {
    if (peer >= of_peer_.size()) of_peer_.resize(peer + std::size_t{1});
    return of_peer_[peer].insert(room.number).second;
}

bool RoomTable::leave(std::uint32_t peer, Room room) {
    return peer < of_peer_.size() && of_peer_[peer].erase(room.number) != 0;
}

void RoomTable::remove_peer(std::uint32_t peer) {
    if (peer < of_peer_.size()) of_peer_[peer].clear();
}

void RoomTable::put(std::uint32_t entry, const RoomSpan& rooms) {
    remove(entry);
    rooms.any_of([&](Room room) {
        if (entries_[room.number].insert(entry).second) of_entry_[entry].push_back(room.number);
        return false;
    });
}

void RoomTable::remove(std::uint32_t entry) {
    const auto found = of_entry_.find(entry);
    if (found == of_entry_.end()) return;
    for (const std::uint32_t room : found->second) {
        const auto entries = entries_.find(room);
        entries->second.erase(entry);
        if (entries->second.empty()) entries_.erase(entries);
    }
    of_entry_.erase(found);
}

}  // namespace shoal::replication::impl
