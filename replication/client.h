#pragma once
// Someone else's world, alive in ours: a Receiver, a schema and a connection.

#include <optional>
#include <string>
#include <vector>

#include "../net/client.h"
#include "receiver.h"

namespace shoal::replication {

struct ClientOptions {
    /// Yours: protocol_id, server_key, and a seed that is fresh for every client; not schema_hash.
    net::ClientConfig net;
    ReceiverOptions receiver;
};

/// What the game hears of. Called from the endpoint's receive(), update() and disconnect(). Within a
/// call the game may send messages, connect() and change the world.
class ClientListener {
public:
    virtual ~ClientListener() = default;
    virtual void on_join() {}
    /// Once for each connect(), also if it failed. The replicas stay until the next connect().
    virtual void on_leave(net::DisconnectReason, std::string_view /*text*/) {}
    /// Bytes from the network: check them.
    virtual void on_message(net::Channel, std::span<const std::byte>) {}
};

/// Sans-IO: datagrams and time in, datagrams out through the sink. Not thread-safe.
///
///     loop: net::receive_all(socket, client.endpoint(), now);  client.update(now);  use the world
class Client final : private net::Handler {
public:
    /// Everything given by reference must outlive the client; the schema must be without error.
    Client(ecs::World& world, const Schema& schema, net::Sink& sink, const ClientOptions& options,
           ClientListener* listener = nullptr);

    /// From the next update() on; ends an earlier connection and destroys its replicas then.
    void connect(const net::Address& server);
    /// With a token, as net::Client::connect.
    void connect(const net::Address& server, const net::ClientToken& token);
    void disconnect(net::Time now);

    /// Where datagrams go in.
    net::Client& endpoint() { return endpoint_; }
    const net::Client& endpoint() const { return endpoint_; }

    /// Brings the world up to date and sends what is due. Call it often: at least every 20 ms.
    void update(net::Time now);

    /// Has a byte more on its way, which counts; fails like net::Endpoint::send_message.
    net::SendResult send_message(net::Delivery how, std::span<const std::byte> message);

    bool is_connected() const { return endpoint_.is_connected(endpoint_.server()); }
    /// Why the last connection ended or failed: one line; empty while there is no such reason.
    const std::string& failure() const { return failure_; }

    const Receiver& receiver() const { return receiver_; }
    const net::ConnectionStats& stats() const { return endpoint_.stats(endpoint_.server()); }

private:
    void on_connected(net::PeerId) override;
    void on_disconnected(net::PeerId, net::DisconnectReason reason, std::string_view text) override;
    bool on_payload(net::PeerId peer, std::uint64_t number, std::span<const std::byte> payload,
                    net::Time now) override;
    void on_message(net::PeerId peer, net::Channel channel, std::span<const std::byte> message) override;

    void start_connecting(net::Time now);
    void send_rebases();

    const Schema& schema_;
    ClientListener* listener_;
    Receiver receiver_;
    net::Client endpoint_;
    std::string failure_;
    std::optional<net::Address> target_;     // to connect to with the next update()
    std::optional<net::ClientToken> token_;  // to show there
    std::vector<std::byte> message_;
};

}  // namespace shoal::replication
