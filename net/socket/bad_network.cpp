#include "bad_network.h"

#include <algorithm>
#include <array>

namespace shoal::net {

std::size_t BadNetwork::receive_all(Socket& socket, Endpoint& endpoint, Time now, std::size_t max_datagrams) {
    std::array<std::byte, kMaxDatagramBytes + 1> buffer;
    Address from;
    while (Result<std::size_t> size = socket.receive(buffer, from))
        in().push(from, {}, std::span(buffer).first(size.value()), now);
    return receive_all(Address{}, endpoint, now, max_datagrams);
}

std::size_t BadNetwork::receive_all(const Address& address, Endpoint& endpoint, Time now,
                                    std::size_t max_datagrams) {
    now_ = now;
    Place& receiver = place(address);
    std::size_t count = 0;
    for (; count < max_datagrams && receiver.in.pop(now, datagram_); ++count)
        endpoint.receive(datagram_.from, datagram_.bytes, now);
    return count;
}

void BadNetwork::flush(Time now) {
    now_ = now;
    while (out_.pop(now, datagram_)) outside_->send(datagram_.to, datagram_.bytes);
}

Time BadNetwork::next_due(Time at_most) const {
    if (out_.queued() > 0) at_most = std::min(at_most, out_.next_due());
    for (const auto& [address, place] : places_)
        if (place.in.queued() > 0) at_most = std::min(at_most, place.in.next_due());
    return at_most;
}

BadNetwork::Place& BadNetwork::place(const Address& address) {
    // The way out has the seed after that of the first way in.
    const std::uint64_t seed = seed_ + places_.size() + (places_.empty() ? 0 : 1);
    return places_.try_emplace(address, *this, address, seed).first->second;
}

void BadNetwork::carry(const Address& from, const Address& to, std::span<const std::byte> datagram) {
    if (outside_) return out_.push(from, to, datagram, now_);
    const auto receiver = places_.find(to);
    if (receiver != places_.end()) receiver->second.in.push(from, to, datagram, now_);
}

}  // namespace shoal::net
