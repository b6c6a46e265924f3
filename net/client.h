#pragma once
// The client's endpoint: one server.

#include <memory>
#include <vector>

#include "connection.h"
#include "endpoint.h"
#include "handshake.h"
#include "siphash.h"

namespace shoal::net {

struct ClientConfig {
    std::uint64_t protocol_id = 0;  // must equal the server's
    std::uint64_t schema_hash = 0;  // must equal the server's
    Seed seed{};                    // fresh for every Client
    Duration connect_timeout = std::chrono::seconds(10);
    ConnectionConfig connection{};
};

class Client final : public Endpoint {
public:
    enum class State : std::uint8_t { idle, connecting, connected, closing };

    /// Handler and sink must outlive the client.
    Client(const ClientConfig& config, Handler& handler, Sink& sink);
    ~Client() override;

    /// Starts a handshake; requires state() idle or closing. Ends in on_connected or on_disconnected, both
    /// with the peer id returned. `hello` is shown to the server's on_admit; at most kMaxHelloBytes.
    PeerId connect(const Address& server, std::span<const std::byte> hello, Time now);

    void receive(const Address& from, std::span<const std::byte> datagram, Time now) override;
    void update(Time now) override;
    void flush(Time now) override;

    bool is_connected(PeerId peer) const override;
    std::size_t payload_capacity(PeerId peer) const override;
    std::uint64_t next_packet_number(PeerId peer) const override;
    std::uint64_t send_payload(PeerId peer, std::span<const std::byte> payload, std::uint64_t cookie,
                               Time now) override;
    SendResult send_message(PeerId peer, Channel channel, std::span<const std::byte> message) override;
    /// Also ends an unfinished handshake.
    void disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) override;
    const ConnectionStats& stats(PeerId peer) const override;
    const EndpointStats& endpoint_stats() const override { return stats_; }

    /// The server, from connect() on; never names anyone else.
    PeerId server() const { return peer_; }
    State state() const;
    bool is_idle() const { return state() == State::idle; }
    /// The server's schema hash, once a refusal has told it; else 0.
    std::uint64_t server_schema_hash() const { return server_schema_hash_; }

private:
    void send_handshake(Time now);
    void fail(DisconnectReason reason, std::string_view text);
    void receive_reply(PacketKind kind, std::span<const std::byte> datagram, Time now);
    void receive_accept(std::span<const std::byte> datagram, Time now);
    void count(Drop reason) { stats_.drops[reason] += 1; }

    ClientConfig config_;
    Handler& handler_;
    Sink& sink_;
    Entropy entropy_;
    EndpointStats stats_;
    std::unique_ptr<Connection> connection_;  // from acceptance to the last word
    Address server_;
    std::vector<std::byte> hello_;
    PeerId peer_;
    std::uint16_t generation_ = 0;
    std::uint64_t nonce_ = 0;
    std::uint64_t cookie_ = 0;  // 0: none yet
    std::uint64_t server_schema_hash_ = 0;
    bool connecting_ = false;
    Time give_up_{0};  // when connecting fails
    Time next_attempt_{0};
    Duration backoff_{0};
    int connects_sent_ = 0;  // with the present cookie
};

}  // namespace shoal::net
