#pragma once
// A world that others see: a Sender, a schema and a host.

#include <memory>
#include <string>
#include <vector>

#include "../net/host.h"
#include "sender.h"

namespace shoal::replication {

struct ServerOptions {
    /// Yours: protocol_id, the key, and a seed that is fresh for every server; not schema_hash.
    net::HostConfig host;
    SenderOptions sender;  // tick_hz is yours
    Tick first_tick = 1;
};

/// What the game hears of. Called from the host's receive(), and from tick(), poll(), resend() and
/// disconnect(). Within a call the game may send messages, disconnect peers and change the world.
class ServerListener {
public:
    virtual ~ServerListener() = default;

    /// Say no with a reason for humans. The address is proven; the hello is the schema's, not yours.
    virtual bool on_admit(const net::Admission&, std::string& /*refusal*/) { return true; }
    virtual void on_join(net::PeerId) {}
    /// Exactly once for each on_join.
    virtual void on_leave(net::PeerId, net::DisconnectReason, std::string_view /*text*/) {}
    /// Bytes from the network: check them.
    virtual void on_message(net::PeerId, net::Channel, std::span<const std::byte>) {}
};

/// Sans-IO: datagrams and time in, datagrams out through the sink. Not thread-safe.
///
///     loop: net::receive_all(socket, server.host(), now);  change the world;  server.tick(now);
class Server final : private net::Handler {
public:
    /// Everything given by reference must outlive the server; the schema must be without error.
    Server(ecs::World& world, const Schema& schema, net::Sink& sink, const ServerOptions& options,
           ServerListener* listener = nullptr);

    /// Where datagrams go in.
    net::Host& host() { return host_; }
    const net::Host& host() const { return host_; }

    /// Ends a tick: replicates what changed, as each connection's rate allows. Returns its number.
    Tick tick(net::Time now);

    /// Between ticks: timers, acks, messages, and what a rate did not allow before. Not needed where ticks
    /// come at least every 20 ms.
    void poll(net::Time now);

    /// Sends again what was lost, without a new tick: to bring everyone to the last one before the end.
    void resend(net::Time now);
    /// Every peer knows that it is complete as of the last tick.
    bool is_settled() const;

    /// Has a byte more on its way, which counts; fails like net::Endpoint::send_message.
    net::SendResult send_message(net::PeerId peer, net::Delivery how, std::span<const std::byte> message);
    /// Nothing happens if the peer is gone.
    void disconnect(net::PeerId peer, std::string_view text, net::Time now);

    Tick current_tick() const { return sender_.tick(); }
    const Sender& sender() const { return sender_; }
    Sender::PeerStats peer_stats(net::PeerId peer) const;

    /// Calls fn(net::PeerId) for each peer that joined and did not leave.
    template <class Fn>
    void for_each_peer(Fn&& fn) const {
        for (const Member& member : members_)
            if (member.id) fn(member.id);
    }

private:
    struct Member {
        net::PeerId id;
        Sender::Peer peer = 0;
    };

    void on_connected(net::PeerId peer) override;
    void on_disconnected(net::PeerId peer, net::DisconnectReason reason, std::string_view text) override;
    void on_message(net::PeerId peer, net::Channel channel, std::span<const std::byte> message) override;
    void on_fate(net::PeerId peer, const net::PacketFate& fate) override;
    bool on_admit(const net::Admission& admission, std::string& refusal) override;
    std::size_t write_payload(net::PeerId peer, net::PayloadTurn& turn) override;
    bool on_payload(net::PeerId, std::uint64_t, std::span<const std::byte>, net::Time) override {
        return false;
    }

    const Member* find(net::PeerId peer) const;

    const Schema& schema_;
    ServerListener* listener_;
    Sender sender_;
    net::Host host_;
    Tick next_tick_;
    net::Time now_{0};             // of the last call that was told
    std::vector<Member> members_;  // by PeerId::index()
    std::vector<std::byte> message_;
};

}  // namespace shoal::replication
