#pragma once
// The server's endpoint: many peers, found by connection id; a handshake that remembers nothing about
// anyone who has not proven his address.

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "connection.h"
#include "endpoint.h"
#include "handshake/handshake.h"
#include "handshake/reset.h"
#include "handshake/server_key.h"
#include "handshake/token.h"

namespace shoal::net {

/// Clients that come with a connect token; see token.h.
struct TokenConfig {
    Key backend_key{};                      // private; zero: tokens are not taken
    std::vector<Address> servers{};         // under which clients reach this host, port included
    std::uint64_t unix_time_s = 0;          // at Time zero
    std::uint32_t max_remembered = 10'000;  // tokens used and not expired; 1 to 2^24, 48 bytes each
};

/// Sealed, clients come by key, by token, or by either: as many of the two keys as are given, at least one.
struct HostConfig {
    std::uint64_t protocol_id = 0;  // names the game and its version
    std::uint64_t schema_hash = 0;
    Seed seed{};  // fresh for every Host: the keys come from it; the same seed gives the same run
    Security security = Security::sealed;
    Key key{};             // sealed: private; see make_server_key. Zero: nobody comes without a token.
    TokenConfig tokens{};  // sealed
    std::uint32_t max_peers = 64;               // 1 to 60,000
    std::uint32_t max_pending_per_ip = 16;      // accepted, not confirmed; several may play behind one
    std::uint32_t max_handshakes_per_s = 1000;  // sealed ones cost about 0.1 ms each; of one machine at most
                                                // max_pending_per_ip in 100 ms
    std::uint32_t max_resets_per_s = 2000;      // sealed: answers to packets of unknown connections
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
    SendResult send_message(PeerId peer, Delivery how, std::span<const std::byte> message) override;
    void disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) override;
    const ConnectionStats& stats(PeerId peer) const override;
    const EndpointStats& endpoint_stats() const override { return stats_; }

    /// Where it is now: peers may move. Also in on_disconnected. Empty for a peer that is gone.
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
    struct Attempt;

    void receive_request(const Address& from, std::span<const std::byte> datagram, Time now);
    void receive_connect(const Address& from, std::span<const std::byte> datagram, Time now);
    void receive_packet(const Address& from, std::span<const std::byte> datagram, Time now);
    bool takes(Way way) const;
    DisconnectReason refusal_of(Way way) const;
    bool may_attempt(const Address& from, Time now);
    bool open(Attempt& attempt);
    bool open_with_key(Attempt& attempt);
    bool open_with_token(Attempt& attempt);
    std::uint64_t unix_time_s(Time now) const;
    void admit(Attempt& attempt);
    bool use_token(Attempt& attempt);
    std::optional<std::uint32_t> slot_for(const Attempt& attempt);
    /// Of whom comes into the slot next.
    PeerId next_id(std::uint32_t slot) const;
    void accept(Attempt& attempt, std::uint32_t slot);
    PacketCipher cipher_for(const Attempt& attempt, std::uint32_t connection_id) const;
    bool confirm(Peer& peer, Time now);
    void reset(const Address& to, std::uint32_t connection_id, std::size_t bytes, Time now);
    void refuse(Attempt& attempt, DisconnectReason reason, std::string_view text);
    void hint(const Address& to, std::uint64_t client_nonce, DisconnectReason reason);
    std::span<const std::byte> write_answer(Attempt& attempt, const Verdict& verdict, DatagramBuffer buffer);
    void reply(const Address& to, std::span<const std::byte> datagram);
    Peer* find(PeerId peer) const;
    std::optional<std::uint32_t> free_slot();
    void count(Drop reason) { stats_.drops[reason] += 1; }

    HostConfig config_;
    Handler& handler_;
    Sink& sink_;
    Entropy entropy_;
    bool has_seed_;
    SipKey cookie_key_;
    PublicKey public_key_{};
    Key reset_key_;  // sealed
    EndpointStats stats_;
    std::optional<TokenHistory> history_;  // if tokens are taken
    TokenContents token_;                  // of the present attempt; here because it keeps its memory
    // Handshakes since the last tenth of a second began, all and by a hash of the machine.
    Time attempts_since_{0};
    std::uint32_t attempts_ = 0;
    std::array<std::uint32_t, 256> attempts_by_machine_{};
    Time resets_since_{0};
    std::uint32_t resets_ = 0;                  // in this tenth of a second
    std::vector<std::unique_ptr<Peer>> peers_;  // by slot; null when free
    std::vector<std::uint64_t> nonces_;         // their clients', or those of the last in the slot
    std::vector<std::uint16_t> generations_;    // by slot; of its last peer
    std::uint32_t next_slot_ = 0;               // where the search for a free one starts
    bool is_shut_down_ = false;
};

}  // namespace shoal::net
