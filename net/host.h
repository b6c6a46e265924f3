#pragma once
// The server's endpoint: many peers, found by connection id.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "connection.h"
#include "crypto/entropy.h"
#include "endpoint.h"
#include "handshake/gate.h"
#include "handshake/server_key.h"

namespace shoal::net {

/// Clients that come with a connect token; see token.h.
struct TokenConfig {
    Key backend_key{};                      // private; zero: tokens are not taken
    std::vector<Address> servers{};         // under which clients reach this host, port included
    std::uint64_t unix_time_s = 0;          // at Time zero
    std::uint32_t max_remembered = 10'000;  // tokens used and not expired; at least 1; about 80 bytes each
    bool is_required = true;                // false: clients may also come without a token
};

struct HostConfig {
    std::uint64_t protocol_id = 0;  // names the game and its version
    std::uint64_t schema_hash = 0;
    OneTimeSeed seed{};  // fresh for every Host: the keys come from it; the same seed gives the same run
    Security security = Security::sealed;
    Key key{};                    // sealed: private; see server_key.h
    std::uint64_t server_id = 0;  // another one for each server that shares the key; the same after a restart
    TokenConfig tokens{};         // sealed
    std::uint32_t max_peers = 64;        // 1 to 60,000; what is outside counts as the nearest that is not
    std::uint32_t max_peers_per_ip = 8;  // 0: no limit. Of an IPv4 address or an IPv6 /56; four times as many
                                         // of a /48; any number of this machine. Homes, schools and mobile
                                         // networks share addresses.
    std::uint32_t max_pending_per_ip = 32;      // >= 1; accepted, not confirmed; then their oldest gives way
    std::uint32_t max_handshakes_per_s = 1000;  // 0.2 ms of CPU each; of one machine at most
                                                // max_pending_per_ip in 0.8 s, on average
    std::uint32_t max_resets_per_s = 2000;      // answers to packets of unknown connections
    std::uint64_t max_bytes_per_second = 0;  // 0: no limit. Sent in flush() to all peers together, without IP
                                             // and UDP; acks and pings go over it
    Duration handshake_timeout = std::chrono::seconds(5);  // from accepting to the client's first packet
    ConnectionConfig connection{};
};

class Host final : public Endpoint {
public:
    /// Takes the config's seed: another Host needs a new one. Handler and sink must outlive the host.
    /// Destroying it tells nobody: see shut_down.
    Host(const HostConfig& config, Handler& handler, Sink& sink);
    ~Host() override;

    void receive(const Address& from, std::span<const std::byte> datagram, Time now) override;
    void update(Time now) override;
    void flush(Time now) override;
    void disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) override;

    /// Where it is now: peers may move. Also in on_disconnected. Empty for a peer that is gone.
    const Address& address(PeerId peer) const;
    /// Disconnects everyone and refuses newcomers. Keep flushing for about a third of a second so that the
    /// news gets through.
    void shut_down(std::string_view text, Time now);
    /// Connected peers. Looks at every place.
    std::uint32_t peer_count() const;
    /// Whether nothing is left to send: no peer, also none that is still being told of its end, and no
    /// handshake unless the host was shut down. Looks at every place.
    bool is_idle() const;

private:
    struct Peer;

    Connection* connection_of(PeerId peer) const override;
    void receive_packet(const Address& from, std::span<const std::byte> datagram, Time now);
    Peer* peer_for(const Address& from, const Envelope& envelope, std::span<const std::byte> datagram,
                   Time now);
    Peer* confirm(const Gate::Pending& pending, const Envelope& envelope, std::span<const std::byte> datagram,
                  Time now);
    void locate(Peer& peer, const Address& from, std::size_t bytes, const Packet& packet, bool is_newest,
                Time now);
    void replace_former(const Address& home, Time now);
    void close(Peer& peer, DisconnectReason reason, std::string_view text, bool tell_peer, Time now);
    void note_end(Peer& peer);
    Peer* at(std::uint32_t index) const { return index < peers_.size() ? peers_[index].get() : nullptr; }

    HostConfig config_;
    Handler& handler_;
    Sink& sink_;
    bool has_seed_;
    Entropy entropy_;
    Gate gate_;
    std::vector<std::unique_ptr<Peer>> peers_;  // by PeerId::index(); null: none, or pending
    std::size_t first_flushed_ = 0;             // the place where the next flush begins
    double allowance_ = 0;                      // bytes that all may send now, if there is a limit
    Time allowed_until_{0};
    bool is_shut_down_ = false;
    std::string shut_down_text_;  // for clients that were pending
};

}  // namespace shoal::net
