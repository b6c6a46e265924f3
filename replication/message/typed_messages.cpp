#include "typed_messages.h"

#include <bit>

#include "../codec/codec.h"

namespace shoal::replication::impl {

unsigned TypedMessages::type_bits() const {
    return types().size() <= 1 ? 0 : static_cast<unsigned>(std::bit_width(types().size() - 1));
}

void TypedMessages::write(std::size_t type, const void* value, std::vector<std::byte>& out,
                          std::optional<Tick> tick) {
    written_.type = type;
    codec_.quantise(types()[type], value, written_.words);
    stats_.misfits = codec_.misfits();
    write_again(written_, out, tick);
}

void TypedMessages::write_again(const Message& message, std::vector<std::byte>& out,
                                std::optional<Tick> tick) {
    const SchemaStruct& type = types()[message.type];
    bits_.clear();
    bits_.write(message.type, type_bits());
    if (type.has_state && tick) bits_.write(*tick, 32);
    write_value(type.layout, {}, message.words, bits_);
    const std::size_t before = out.size();
    out.resize(before + bits_.byte_count());
    bits_.copy_to(std::span(out).subspan(before));
}

bool TypedMessages::read(std::span<const std::byte> bytes, Message& message, bool has_tick) {
    BitReader in(bytes);
    message.type = in.read(type_bits());
    const bool is_known = message.type < types().size();
    message.tick = is_known && has_tick && types()[message.type].has_state ? in.read(32) : 0;
    if (is_known && read_value(types()[message.type].layout, {}, in, message.words) && in.at_padding())
        return true;
    stats_.malformed += 1;
    return false;
}

void TypedMessages::deliver(const Message& message, const MessageInfo& info) {
    Type& type = types_[message.type];
    stats_.late += info.is_late;
    if (!type.value) {
        stats_.unhandled += 1;
        return;
    }
    stats_.delivered += 1;
    codec_.restore(types()[message.type], message.words, type.value->get());
    type.handler(type.value->get(), info);
}

}  // namespace shoal::replication::impl
