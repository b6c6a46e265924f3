#include "message.h"

#include "../net/bytes.h"

namespace shoal::replication::all {
namespace {

constexpr std::size_t kMinHelloBytes = 5;  // without summary
constexpr std::size_t kResumptionBytes = Ticket::kBytes + 4 + 4 * kActionStreams;

}  // namespace

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
