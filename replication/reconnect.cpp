#include "reconnect.h"

#include <utility>
#include <vector>

namespace shoal::replication {

void Reconnect::start(const net::Servers& servers, std::span<const std::byte> ticket) {
    servers_ = servers;
    may_join_anew_ = !ticket.empty();
    lost_.reset();
    client_.connect(servers, ticket);
}

bool Reconnect::update(net::Time now) {
    if (client_.is_connected()) {
        lost_.reset();
        may_join_anew_ = has_tried_ = false;
    }
    if (client_.failure().empty()) return true;
    const std::vector<std::byte> ticket = client_.ticket();
    if (ticket.empty()) {
        if (!std::exchange(may_join_anew_, false)) return false;
        client_.connect(*servers_);
        return true;
    }
    if (!lost_) lost_ = now;
    if (now - *lost_ >= options_.time) return false;
    if (now < next_) return true;
    next_ = now + options_.pause;
    if (std::exchange(has_tried_, true) && look_up_)
        if (const std::optional<net::Servers> found = look_up_()) servers_ = found;
    client_.connect(*servers_, ticket);
    return true;
}

}  // namespace shoal::replication
