#pragma once
// The server's endpoint: many peers, found by connection id; a handshake that remembers nothing about
// anyone who has not proven his address.

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "connection.h"
#include "endpoint.h"
#include "handshake.h"
#include "siphash.h"

namespace shoal::net {

struct HostConfig {
    std::uint64_t protocol_id = 0;  // names the game and its version
    std::uint64_t schema_hash = 0;
    Seed seed{};                   // fresh for every Host; the same seed gives the same run
    std::uint32_t max_peers = 64;  // 1 to 60,000
    std::uint32_t max_pending_per_ip = 16;  // accepted, not confirmed; several may play behind one
    Duration handshake_timeout = std::chrono::seconds(5);  // from accepting to the client's first packet
    ConnectionConfig connection{};
};

class Host final : public Endpoint {
public:
    /// Handler and sink must outlive the host. Destroying it tells nobody: see shut_down.
    Host(const HostConfig& config, Handler& handler, Sink& sink);
    ~Host() override;

    void receive(const Address& from, std::span<const std::byte> datagram, Time now) override;
    void update(Time now) override;
    void flush(Time now) override;

    bool is_connected(PeerId peer) const override;
    std::size_t payload_capacity(PeerId peer) const override;
    std::uint64_t next_packet_number(PeerId peer) const override;
    std::uint64_t send_payload(PeerId peer, std::span<const std::byte> payload, std::uint64_t cookie,
                               Time now) override;
    SendResult send_message(PeerId peer, Channel channel, std::span<const std::byte> message) override;
    void disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) override;
    const ConnectionStats& stats(PeerId peer) const override;
    const EndpointStats& endpoint_stats() const override { return stats_; }

    /// Also in on_disconnected.
    const Address& address(PeerId peer) const;
    /// Disconnects everyone and refuses newcomers. Keep flushing for about a third of a second so that the
    /// news gets through.
    void shut_down(std::string_view text, Time now);
    /// Connected peers. Looks at every slot.
    std::uint32_t peer_count() const;
    /// Whether nothing is left to say: no peer, no handshake, no last words. Looks at every slot.
    bool is_idle() const;

private:
    struct Peer;

    void receive_request(const Address& from, std::span<const std::byte> datagram, Time now);
    void receive_connect(const Address& from, std::span<const std::byte> datagram, Time now);
    void receive_packet(const Address& from, std::span<const std::byte> datagram, Time now);
    void admit(const Address& from, const Connect& connect, Time now);
    bool confirm(Peer& peer, Time now);
    void accept(const Peer& peer);
    void refuse(const Address& to, std::uint64_t client_nonce, DisconnectReason reason,
                std::string_view text);
    void reply(const Address& to, std::span<const std::byte> datagram);
    Peer* find(PeerId peer) const;
    std::optional<std::uint32_t> free_slot();
    void count(Drop reason) { stats_.drops[reason] += 1; }

    HostConfig config_;
    Handler& handler_;
    Sink& sink_;
    Entropy entropy_;
    SipKey cookie_key_;
    EndpointStats stats_;
    std::vector<std::unique_ptr<Peer>> peers_;  // by slot; null when free
    std::vector<std::uint16_t> generations_;    // by slot; of its last peer
    std::uint32_t next_slot_ = 0;               // where the search for a free one starts
    bool is_shut_down_ = false;
};

}  // namespace shoal::net
