#include "message.h"

namespace shoal::replication::impl {

std::vector<std::byte> write_hello(const Hello& hello) {
    BitWriter out;
    write_field(hello.max_slots, out);
    write_field(static_cast<std::uint8_t>(hello.resumption.has_value()), out);
    if (hello.resumption) write_field(*hello.resumption, out);
    std::vector<std::byte> bytes = to_bytes(out);
    bytes.insert(bytes.end(), hello.summary.begin(), hello.summary.end());
    return bytes;
}

std::optional<Hello> read_hello(std::span<const std::byte> bytes) {
    BitReader in(bytes);
    Hello hello;
    std::uint8_t resumes = 0;
    read_field(hello.max_slots, in);
    read_field(resumes, in);
    if (resumes == 1) read_field(hello.resumption.emplace(), in);
    if (!in.ok() || hello.max_slots == 0 || resumes > 1) return std::nullopt;
    hello.summary = bytes.subspan(in.bits_read() / 8);
    return hello;
}

}  // namespace shoal::replication::impl
