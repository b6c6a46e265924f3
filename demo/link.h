#pragma once
// A client's way to the server: a socket behind a network as bad as the flags ask for.

#include <algorithm>
#include <array>

#include "net/socket/link_conditioner.h"
#include "net/socket/socket.h"

namespace shoal::demo {

class Link final : public net::Sink {
public:
    /// `config` holds for each direction.
    Link(net::Socket& socket, const net::LinkConfig& config, std::uint64_t seed)
        : socket_(socket), in_(config, seed), out_(config, seed + 1) {}

    void send(const net::Address& to, std::span<const std::byte> datagram) override {
        out_.push({}, to, datagram, now_);
    }

    /// Calls fn(from, datagram) for each that has made its way in, and lets out what has made its way out.
    template <class Fn>
    void update(net::Time now, Fn&& fn) {
        now_ = now;
        std::array<std::byte, net::kMaxDatagramBytes + 1> buffer;
        net::Address from;
        while (auto size = socket_.receive(buffer, from))
            in_.push(from, {}, std::span(buffer).first(size.value()), now);
        while (in_.pop(now, datagram_)) fn(datagram_.from, std::span<const std::byte>(datagram_.bytes));
        flush(now);
    }

    void flush(net::Time now) {
        while (out_.pop(now, datagram_)) socket_.send(datagram_.to, datagram_.bytes);
    }

    /// When there is something to do at the latest, even if nothing arrives; never after `deadline`.
    net::Time next_due(net::Time deadline) const {
        if (in_.queued() > 0) deadline = std::min(deadline, in_.next_due());
        if (out_.queued() > 0) deadline = std::min(deadline, out_.next_due());
        return deadline;
    }

private:
    net::Socket& socket_;
    net::LinkConditioner in_, out_;
    net::LinkConditioner::Datagram datagram_;
    net::Time now_{0};
};

}  // namespace shoal::demo
