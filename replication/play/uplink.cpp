#include "uplink.h"

namespace shoal::replication {

// The format is specified in ../WIRE.md.

std::size_t UplinkWriter::write(std::uint64_t packet, std::span<std::byte> room) {
    payload_.clear();
    bool is_empty = true;
    for (std::size_t i = 0; i < kSections; ++i) {
        const std::size_t used = payload_.bit_count() + (kSections - i);
        section_.clear();
        const bool is_present =
            writers_[i] && writers_[i]->write_section(packet, room.size() * 8 - used, section_);
        payload_.write_bool(is_present);
        if (!is_present) continue;
        payload_.append(section_, 0, section_.bit_count());
        is_empty = false;
    }
    if (is_empty) return 0;
    assert(payload_.byte_count() <= room.size());
    payload_.copy_to(room);
    return payload_.byte_count();
}

void UplinkWriter::on_fate(std::uint64_t packet, bool delivered) {
    for (SectionWriter* const writer : writers_)
        if (writer) writer->on_fate(packet, delivered);
}

bool UplinkReader::read(net::PeerId peer, std::uint64_t packet, std::span<const std::byte> payload,
                        net::Time now) {
    BitReader in(payload);
    std::array<bool, kSections> is_present{};
    bool is_empty = true;
    for (std::size_t i = 0; i < kSections; ++i) {
        is_present[i] = in.read_bool();
        if (!is_present[i]) continue;
        if (!readers_[i] || !readers_[i]->read_section(peer, packet, in)) return false;
        is_empty = false;
    }
    if (is_empty || !in.at_padding()) return false;
    for (std::size_t i = 0; i < kSections; ++i)
        if (is_present[i]) readers_[i]->commit_section(peer, now);
    return true;
}

}  // namespace shoal::replication
