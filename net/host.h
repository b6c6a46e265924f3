#pragma once
// The server's endpoint: many peers, found by connection id.

#include "handshake/gate.h"
#include "handshake/server_key.h"

namespace shoal::net::impl {

/// How a host treats connect tokens; see token.h.
struct TokenConfig {
    SecretKey backend_key{};                // secret, shared with the backend; zero: tokens are refused
    std::vector<Address> servers{};         // addresses and ports under which clients reach this host
    std::uint64_t unix_time_s = 0;          // Unix time, in seconds, at Time(0)
    std::uint32_t max_remembered = 10'000;  // limit of used tokens kept until expiry; >= 1; 80 bytes each
    bool is_required = true;                // false: clients may also come without a token
};

struct HostConfig {
    std::uint64_t protocol_id = 0;  // names the game and its version
    std::uint64_t schema_hash = 0;
    /// Random bytes (fill_random), new for every Host. Keys are derived from them; the same seed gives the
    /// same run. After fork(), only one of the two processes may use the Host: see README.md.
    OneTimeSeed seed{};
    Security security = Security::sealed;
    SecretKey key{};               // the server's private key, if packets are sealed; see server_key.h
    std::uint64_t server_id = 0;   // different for each server that shares the key; the same after a restart
    TokenConfig tokens{};          // used if packets are sealed
    std::uint32_t max_peers = 64;  // 1 to 60,000; other values are moved into this range
    /// 0: no limit. Per IPv4 address or IPv6 /56; four times as many per /48; no limit for loopback. While
    /// less than half of max_peers is free, the limits shrink in proportion to it, down to 1, unless they are
    /// at least max_peers.
    std::uint32_t max_peers_per_ip = 8;
    std::uint32_t max_handshakes_per_s = 1000;  // each takes 0.2 ms of CPU
    /// >= 1; of one IPv4 address or IPv6 /56; four times as many per /48. See WIRE.md.
    std::uint32_t max_handshakes_per_s_per_ip = 40;
    /// 0: no limit. Bytes that flush() sends to all peers together, without IP and UDP headers; acks and
    /// pings may exceed it. Peers that want more than an equal part share what the others leave.
    std::uint64_t max_bytes_per_second = 0;
    Duration handshake_timeout = std::chrono::seconds(10);  // longest time from acceptance to first packet
    ConnectionConfig connection{};
};

class Host final : public Endpoint {
public:
    /// Wipes the seed in `config` and in all copies. Handler and sink must outlive the host. The destructor
    /// sends no disconnect packets: see shut_down.
    Host(const HostConfig& config, Handler& handler, Sink& sink);
    ~Host() override;

    void receive(const Address& from, std::span<const std::byte> datagram, Time now) override;
    void update(Time now) override;
    void flush(Time now) override;
    void disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now,
                    Duration deliver_for = Duration(0)) override;

    /// The peer's present proven address; empty for an unknown peer. Valid also in on_disconnected.
    const Address& address(PeerId peer) const;
    /// Disconnects all peers, see disconnect(), and refuses new ones. Call update() and flush() until
    /// is_idle(), about 0.2 s after the end of the last connection, so that disconnect packets are repeated.
    void shut_down(std::string_view text, Time now, Duration deliver_for = Duration(0));
    /// The number of connected peers. This and is_idle() take time in proportion to the highest peer index.
    std::uint32_t peer_count() const;
    /// No peer is left, every disconnect packet was sent, and, unless shut down, no handshake is pending.
    bool is_idle() const;

private:
    friend struct Consistency;  // tests/net/support/consistency.h
    struct Peer {
        std::uint32_t connection_id;
        Address home;  // proven address; replaced when the peer has left it
        Connection connection;
        // In a flush() with a limit for all peers:
        bool is_waiting = false;  // the peer may have more to send
        std::uint32_t turns = 0;  // packets so far
        double credit = 0;        // bytes; at or below 0 others come first
        PeerId id() const { return connection.session().peer; }
    };

    Connection* connection_of(PeerId peer) const override;
    void receive_packet(const Address& from, std::span<const std::byte> datagram, Time now);
    Peer* peer_for(const Address& from, std::span<const std::byte> datagram, Time now);
    Peer* confirm(const Gate::Pending& pending, const Envelope& envelope, std::span<const std::byte> datagram,
                  Time now);
    void locate(Peer& peer, const Address& from, std::size_t bytes, const Packet& packet, bool is_newest,
                Time now);
    void close(Peer& peer, DisconnectReason reason, std::string_view text, bool tell_peer, Time now);
    void note_end(Peer& peer);
    void take_turn(Peer& peer, bool is_allowed, bool is_first, Time now);
    Peer* at(std::uint32_t index) const { return index < peers_.size() ? peers_[index].get() : nullptr; }

    HostConfig config_;
    Handler& handler_;
    Sink& sink_;
    bool has_seed_;
    Entropy entropy_;
    Gate gate_;
    AddressProof challenges_;
    std::vector<std::unique_ptr<Peer>> peers_;  // by PeerId::index(); null: no connection yet, or no longer
    std::size_t next_first_ = 0;  // modulo the size: index in peers_ at which the next flush begins
    double allowance_ = 0;  // with max_bytes_per_second: bytes that may be sent now to all peers together
    Time flushed_{0};       // time of the last flush()
    Time updated_{0};       // time of the last update()
    Time awake_since_{0};   // since then, update() was called regularly
    bool is_shut_down_ = false;
    std::string shut_down_text_;  // for clients whose handshake was pending at shut_down()
};

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::Host, impl::HostConfig, impl::TokenConfig;
}  // namespace shoal::net
