#include "message.h"

#include <cassert>

namespace shoal::replication {
namespace {

constexpr std::int32_t kMostShiftUs = 1'000'000;

}  // namespace

std::vector<std::byte> write_welcome(const Welcome& welcome) {
    std::vector<std::byte> message(13);
    net::ByteWriter out(message);
    out.u8(static_cast<std::uint64_t>(MessageKind::welcome));
    out.u32(welcome.tick_us);
    out.u64(welcome.random_seed);
    return message;
}

std::optional<Welcome> read_welcome(std::span<const std::byte> message) {
    if (message.size() != 13 || message[0] != static_cast<std::byte>(MessageKind::welcome))
        return std::nullopt;
    net::ByteReader in(message.subspan(1));
    Welcome welcome;
    welcome.tick_us = in.u32();
    welcome.random_seed = in.u64();
    if (welcome.tick_us == 0) return std::nullopt;
    return welcome;
}

void write_player(NetId net_id, std::vector<std::byte>& message) {
    message.resize(5);
    net::ByteWriter out(message);
    out.u8(static_cast<std::uint64_t>(MessageKind::player));
    out.u32(net_id);
}

std::optional<NetId> read_player(std::span<const std::byte> message) {
    if (message.size() != 5 || message[0] != static_cast<std::byte>(MessageKind::player)) return std::nullopt;
    return net::load<NetId>(message.data() + 1);
}

std::vector<std::byte> write_shift(net::Duration shift) {
    std::vector<std::byte> message(5);
    net::ByteWriter out(message);
    out.u8(static_cast<std::uint64_t>(MessageKind::shift));
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(shift).count();
    out.u32(static_cast<std::uint32_t>(static_cast<std::int32_t>(us)));
    return message;
}

std::optional<net::Duration> read_shift(std::span<const std::byte> message) {
    if (message.size() != 5 || message[0] != static_cast<std::byte>(MessageKind::shift)) return std::nullopt;
    net::ByteReader in(message.subspan(1));
    const auto us = static_cast<std::int32_t>(in.u32());
    if (us < -kMostShiftUs || us > kMostShiftUs) return std::nullopt;
    return std::chrono::microseconds(us);
}

void write_rebase(std::span<const std::uint32_t> slots, std::vector<std::byte>& message) {
    assert(!slots.empty());
    message.resize(1 + 4 * slots.size());
    net::ByteWriter out(message);
    out.u8(static_cast<std::uint64_t>(MessageKind::rebase));
    for (const std::uint32_t slot : slots) out.u32(slot);
}

std::vector<std::byte> write_hello(const Hello& hello) {
    std::vector<std::byte> bytes(4 + hello.summary.size());
    net::ByteWriter out(bytes);
    out.u32(hello.max_slots);
    out.bytes(hello.summary);
    return bytes;
}

std::optional<Hello> read_hello(std::span<const std::byte> bytes) {
    if (bytes.size() < 4) return std::nullopt;
    net::ByteReader in(bytes);
    const Hello hello{in.u32(), bytes.subspan(4)};
    if (hello.max_slots == 0) return std::nullopt;
    return hello;
}

}  // namespace shoal::replication
