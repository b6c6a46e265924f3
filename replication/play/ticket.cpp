#include "ticket.h"

#include <algorithm>

namespace shoal::replication::all {

std::vector<std::byte> Ticket::bytes() const {
    std::vector<std::byte> result(kBytes);
    net::all::ByteWriter out(result);
    out.u32(seat.value);
    out.bytes(secret);
    return result;
}

std::optional<Ticket> Ticket::from(std::span<const std::byte> bytes) {
    if (bytes.size() != kBytes) return std::nullopt;
    Ticket ticket;
    ticket.seat.value = net::all::load<std::uint32_t>(bytes.data());
    std::copy(bytes.begin() + 4, bytes.end(), ticket.secret.begin());
    return ticket.is_valid() ? std::optional(ticket) : std::nullopt;
}

bool SeatKey::accepts(const Ticket& ticket) const {
    const bool is_newest = net::all::equal_in_constant_time(ticket.secret, newest_);
    const bool is_used = net::all::equal_in_constant_time(ticket.secret, used_);
    return is_newest | is_used;
}

void SeatKey::use(const Ticket& ticket, net::Entropy& entropy) {
    outdated_ = ticket.secret == used_ ? newest_ : used_;
    used_ = ticket.secret;
    newest_ = new_secret(entropy);
}

std::array<std::byte, 16> SeatKey::new_secret(net::Entropy& entropy) {
    const net::all::SecretKey key = entropy.next_key();
    std::array<std::byte, 16> secret{};
    std::copy_n(key.bytes().begin(), secret.size(), secret.begin());
    return secret;
}

}  // namespace shoal::replication::all
