#include "owned_wire.h"

#include <cassert>

#include "../../net/bytes.h"
#include "../codec/codec.h"
#include "message_kind.h"

namespace shoal::replication::all {

// The format is specified in ../WIRE.md.

std::vector<std::byte> write_refusal(const Schema& schema, const OwnedRefusal& refusal) {
    const std::string_view why = std::string_view(refusal.why).substr(0, kMaxRefusalBytes);
    BitWriter out;
    out.write(static_cast<std::uint64_t>(MessageKind::refused_value), 8);
    out.write(refusal.packet & 0xffff'ffff, 32);
    out.write(refusal.packet >> 32, 32);
    out.write(refusal.net_id, 32);
    out.write(refusal.component, 16);
    out.write(why.size(), 8);
    for (const char c : why) out.write(static_cast<unsigned char>(c), 8);
    write_value(schema.components()[refusal.component].layout, {}, refusal.words, out);
    std::vector<std::byte> message(out.byte_count());
    out.copy_to(message);
    return message;
}

std::optional<OwnedRefusal> read_refusal(const Schema& schema, std::span<const std::byte> message) {
    BitReader in(message);
    if (in.read(8) != static_cast<std::uint32_t>(MessageKind::refused_value)) return std::nullopt;
    OwnedRefusal refusal;
    refusal.packet = in.read(32);
    refusal.packet |= std::uint64_t{in.read(32)} << 32;
    refusal.net_id = in.read(32);
    refusal.component = static_cast<ComponentIndex>(in.read(16));
    const std::uint32_t length = in.read(8);
    if (refusal.component >= schema.components().size() || length > kMaxRefusalBytes) return std::nullopt;
    const SchemaComponent& component = schema.components()[refusal.component];
    if (component.role != Role::owner) return std::nullopt;
    for (std::uint32_t i = 0; i < length; ++i) refusal.why.push_back(static_cast<char>(in.read(8)));
    if (!read_value(component.layout, {}, in, refusal.words) || !in.at_padding()) return std::nullopt;
    return refusal;
}

std::vector<std::byte> write_send_owned(std::span<const std::uint32_t> net_ids) {
    assert(net_ids.size() <= kMaxAskedEntities);
    std::vector<std::byte> message(1 + 4 * net_ids.size());
    net::all::ByteWriter out(message);
    out.u8(static_cast<std::uint8_t>(MessageKind::send_owned));
    for (const std::uint32_t net_id : net_ids) out.u32(net_id);
    return message;
}

std::optional<std::vector<std::uint32_t>> read_send_owned(std::span<const std::byte> message) {
    net::all::ByteReader in(message);
    const bool is_send_owned = in.u8() == static_cast<std::uint8_t>(MessageKind::send_owned);
    if (!is_send_owned || message.size() % 4 != 1 || message.size() > 1 + 4 * kMaxAskedEntities)
        return std::nullopt;
    std::vector<std::uint32_t> net_ids(message.size() / 4);
    for (std::uint32_t& net_id : net_ids) net_id = in.u32();
    return net_ids;
}

}  // namespace shoal::replication::all
