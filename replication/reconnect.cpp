#include "reconnect.h"

#include <vector>

namespace shoal::replication::impl {

void Reconnect::start(const net::Servers& servers, std::span<const std::byte> ticket) {
    servers_ = servers;
    has_seat_ = uses_ticket_ = !ticket.empty();
    lost_.reset();
    client_.connect(servers, ticket);
}

bool Reconnect::update(net::Time now) {
    if (client_.is_connected() && client_.phase() != Phase::resuming) {
        lost_.reset();
        uses_ticket_ = has_tried_ = false;
    }
    if (client_.failure().empty()) return true;
    const std::vector<std::byte> ticket = client_.ticket();
    has_seat_ = has_seat_ || !ticket.empty();
    if (!lost_) lost_ = now;
    if (!client_.is_refused()) {
        if (!has_seat_ || now - *lost_ >= options_.time) return false;
        if (now < next_) return true;
        next_ = now + options_.pause;
        if (std::exchange(has_tried_, true) && look_up_)
            if (const std::optional<net::Servers> found = look_up_()) servers_ = found;
    } else if (!uses_ticket_) {
        return false;
    }
    uses_ticket_ = !ticket.empty();
    client_.connect(*servers_, ticket);
    return true;
}

}  // namespace shoal::replication::impl
