#include "uplink.h"

namespace shoal::replication::impl {

// The format is specified in ../WIRE.md.

std::size_t UplinkWriter::write(std::uint64_t packet, std::span<std::byte> room) {
    std::array<bool, kSections> is_present{};
    std::size_t used_bits = kSections;  // one bit for each section says whether it is there
    for (std::size_t turn = 0; turn < kSections; ++turn) {
        const std::size_t i = (first_ + turn) % kSections;
        sections_[i].clear();
        is_present[i] =
            writers_[i] && writers_[i]->write_section(packet, room.size() * 8 - used_bits, sections_[i]);
        used_bits += is_present[i] ? sections_[i].bit_count() : 0;
    }
    std::size_t turn = 1;
    while (turn < kSections && !lacked_room((first_ + turn) % kSections)) ++turn;
    first_ = turn < kSections ? (first_ + turn) % kSections : 0;
    if (used_bits == kSections) return 0;
    payload_.clear();
    for (std::size_t i = 0; i < kSections; ++i) {
        payload_.write_bool(is_present[i]);
        if (is_present[i]) payload_.append(sections_[i], 0, sections_[i].bit_count());
    }
    assert(payload_.byte_count() <= room.size());
    payload_.copy_to(room);
    return payload_.byte_count();
}

bool UplinkWriter::lacked_room(std::size_t section) const {
    return writers_[section] && writers_[section]->lacked_room();
}

void UplinkWriter::on_fate(std::uint64_t packet, bool delivered) {
    for (SectionWriter* const writer : writers_)
        if (writer) writer->on_fate(packet, delivered);
}

bool UplinkReader::read(Player& player, std::uint64_t packet, std::span<const std::byte> payload,
                        net::Time now) {
    BitReader in(payload);
    std::array<bool, kSections> is_present{};
    bool is_empty = true;
    for (std::size_t i = 0; i < kSections; ++i) {
        is_present[i] = in.read_bool();
        if (!is_present[i]) continue;
        if (!readers_[i] || !readers_[i]->read_section(player, packet, in)) return false;
        is_empty = false;
    }
    if (is_empty || !in.at_padding()) return false;
    for (std::size_t i = 0; i < kSections; ++i)
        if (is_present[i]) readers_[i]->commit_section(player, now);
    return true;
}

}  // namespace shoal::replication::impl
