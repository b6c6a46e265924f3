#include "ticket.h"

#include <algorithm>

#include "control_codec.h"

namespace shoal::replication::impl {

std::vector<std::byte> Ticket::bytes() const {
    BitWriter out;
    write_field(*this, out);
    return to_bytes(out);
}

std::optional<Ticket> Ticket::from(std::span<const std::byte> bytes) {
    return read_control<Ticket>(bytes);
}

bool SeatKey::accepts(const Ticket& ticket) const {
    const bool is_newest = net::impl::equal_in_constant_time(ticket.secret, newest_);
    const bool is_used = net::impl::equal_in_constant_time(ticket.secret, used_);
    return is_newest | is_used;
}

void SeatKey::use(const Ticket& ticket, net::Entropy& entropy) {
    outdated_ = ticket.secret == used_ ? newest_ : used_;
    used_ = ticket.secret;
    newest_ = new_secret(entropy);
}

std::array<std::byte, 16> SeatKey::new_secret(net::Entropy& entropy) {
    const net::impl::SecretKey key = entropy.next_key();
    std::array<std::byte, 16> secret{};
    std::copy_n(key.bytes().begin(), secret.size(), secret.begin());
    return secret;
}

}  // namespace shoal::replication::impl
