#include "message.h"

#include <cassert>

namespace shoal::replication::all {
namespace {

constexpr std::size_t kMinHelloBytes = 5;  // without summary
constexpr std::size_t kResumptionBytes = Ticket::kBytes + 4 + 4 * kActionStreams;
constexpr std::size_t kResumedBytes = 2 + 4 * kActionStreams + 1;

}  // namespace

std::vector<std::byte> write_welcome(const Welcome& welcome) {
    std::vector<std::byte> message(13);
    net::all::ByteWriter out(message);
    out.u8(static_cast<std::uint64_t>(MessageKind::welcome));
    out.u32(welcome.tick_us);
    out.u64(welcome.random_seed);
    return message;
}

std::optional<Welcome> read_welcome(std::span<const std::byte> message) {
    if (message.size() != 13 || message[0] != static_cast<std::byte>(MessageKind::welcome))
        return std::nullopt;
    net::all::ByteReader in(message.subspan(1));
    Welcome welcome;
    welcome.tick_us = in.u32();
    welcome.random_seed = in.u64();
    if (welcome.tick_us == 0) return std::nullopt;
    return welcome;
}

void write_player(NetId net_id, std::vector<std::byte>& message) {
    message.resize(5);
    net::all::ByteWriter out(message);
    out.u8(static_cast<std::uint64_t>(MessageKind::player));
    out.u32(net_id);
}

std::optional<NetId> read_player(std::span<const std::byte> message) {
    if (message.size() != 5 || message[0] != static_cast<std::byte>(MessageKind::player)) return std::nullopt;
    return net::all::load<NetId>(message.data() + 1);
}

void write_rebase(std::span<const std::uint32_t> slots, std::vector<std::byte>& message) {
    assert(!slots.empty() && slots.size() <= kMaxRebases);
    message.resize(1 + 4 * slots.size());
    net::all::ByteWriter out(message);
    out.u8(static_cast<std::uint64_t>(MessageKind::rebase));
    for (const std::uint32_t slot : slots) out.u32(slot);
}

std::vector<std::byte> write_ticket(const Ticket& ticket, std::uint32_t state_number) {
    std::vector<std::byte> message(1 + Ticket::kBytes + 4);
    net::all::ByteWriter out(message);
    out.u8(static_cast<std::uint64_t>(MessageKind::ticket));
    out.bytes(ticket.bytes());
    out.u32(state_number);
    return message;
}

std::optional<TicketMessage> read_ticket(std::span<const std::byte> message) {
    if (message.size() != 1 + Ticket::kBytes + 4) return std::nullopt;
    if (message[0] != static_cast<std::byte>(MessageKind::ticket)) return std::nullopt;
    const std::optional<Ticket> ticket = Ticket::from(message.subspan(1, Ticket::kBytes));
    if (!ticket) return std::nullopt;
    return TicketMessage{*ticket, net::all::load<std::uint32_t>(message.data() + 1 + Ticket::kBytes)};
}

std::vector<std::byte> write_resumed(const Resumed& resumed) {
    std::vector<std::byte> message(kResumedBytes);
    net::all::ByteWriter out(message);
    out.u8(static_cast<std::uint64_t>(MessageKind::resumed));
    out.u8(resumed.keeps);
    for (const std::uint32_t next : resumed.next_actions) out.u32(next);
    out.u8(resumed.epoch);
    return message;
}

std::optional<Resumed> read_resumed(std::span<const std::byte> message) {
    if (message.size() != kResumedBytes || message[0] != static_cast<std::byte>(MessageKind::resumed))
        return std::nullopt;
    net::all::ByteReader in(message.subspan(1));
    const std::uint8_t keeps = in.u8();
    if (keeps > 1) return std::nullopt;
    Resumed resumed;
    resumed.keeps = keeps != 0;
    for (std::uint32_t& next : resumed.next_actions) next = in.u32();
    resumed.epoch = in.u8();
    return resumed;
}

std::vector<std::byte> write_hello(const Hello& hello) {
    const std::size_t of_resumption = hello.resumption ? kResumptionBytes : 0;
    std::vector<std::byte> bytes(kMinHelloBytes + of_resumption + hello.summary.size());
    net::all::ByteWriter out(bytes);
    out.u32(hello.max_slots);
    out.u8(hello.resumption.has_value());
    if (hello.resumption) {
        out.bytes(hello.resumption->ticket.bytes());
        out.u32(hello.resumption->state_number);
        for (const std::uint32_t first : hello.resumption->first_actions) out.u32(first);
    }
    out.bytes(hello.summary);
    return bytes;
}

std::optional<Hello> read_hello(std::span<const std::byte> bytes) {
    if (bytes.size() < kMinHelloBytes) return std::nullopt;
    net::all::ByteReader in(bytes);
    Hello hello{in.u32(), bytes.subspan(kMinHelloBytes)};
    const std::uint8_t resumes = in.u8();
    if (hello.max_slots == 0 || resumes > 1) return std::nullopt;
    if (resumes == 0) return hello;
    if (hello.summary.size() < kResumptionBytes) return std::nullopt;
    const std::optional<Ticket> ticket = Ticket::from(hello.summary.first(Ticket::kBytes));
    if (!ticket) return std::nullopt;
    net::all::ByteReader rest(hello.summary.subspan(Ticket::kBytes));
    hello.resumption = Resumption{*ticket, rest.u32(), {}};
    for (std::uint32_t& first : hello.resumption->first_actions) first = rest.u32();
    hello.summary = hello.summary.subspan(kResumptionBytes);
    return hello;
}

}  // namespace shoal::replication::all
