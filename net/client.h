#pragma once
// The client's endpoint: one server.

#include <memory>
#include <optional>
#include <vector>

#include "connection.h"
#include "handshake/cookie_sample.h"
#include "endpoint.h"
#include "handshake/handshake.h"
#include "handshake/server_key.h"
#include "handshake/token.h"

namespace shoal::net {

struct ClientConfig {
    std::uint64_t protocol_id = 0;  // must equal the server's
    std::uint64_t schema_hash = 0;  // must equal the server's
    Seed seed{};                    // fresh for every Client: the keys come from it
    Security security = Security::sealed;
    PublicKey server_key{};  // sealed: the only server we talk to; see server_key.h
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
    /// Sealed, it can be read by the owner of the server's key only.
    PeerId connect(const Address& server, std::span<const std::byte> hello, Time now);
    /// With a token, whose key takes the place of the server's; always sealed. `server` is one of the
    /// token's, as seen from here; `hello` has at most kMaxTokenHelloBytes. After a failure ask for another
    /// token.
    PeerId connect(const Address& server, const ClientToken& token, std::span<const std::byte> hello,
                   Time now);

    void receive(const Address& from, std::span<const std::byte> datagram, Time now) override;
    void update(Time now) override;
    void flush(Time now) override;

    bool is_connected(PeerId peer) const override;
    std::size_t payload_capacity(PeerId peer) const override;
    std::uint64_t next_packet_number(PeerId peer) const override;
    std::uint64_t send_payload(PeerId peer, std::span<const std::byte> payload, std::uint64_t cookie,
                               Time now) override;
    SendResult send_message(PeerId peer, Delivery how, std::span<const std::byte> message) override;
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
    PeerId refuse(std::string_view why, Time now);
    void begin(const Address& server, std::span<const std::byte> hello, Time now);
    void send_handshake(Time now);
    void end_handshake();
    void fail(DisconnectReason reason, std::string_view text);
    void receive_reply(PacketKind kind, std::span<const std::byte> datagram, Time now);
    void receive_reset(std::span<const std::byte> datagram, Time now);
    void receive_answer(std::span<const std::byte> datagram, Time now);
    void receive_cookie(std::span<const std::byte> datagram, Time now);
    void try_cookie(std::uint64_t cookie, Time now);
    void send_connect(Time now);
    void send_handshake_packet(std::span<const std::byte> datagram);
    bool introduce();
    void introduce_with_token();
    NoiseInitiator* exchange_of(std::span<std::byte> body);
    std::optional<PacketCipher> open_answer(std::span<std::byte> body, Verdict& verdict, Time now);
    void start(const PacketCipher& cipher, const Verdict& verdict, Time now);
    Way way() const {
        if (token_) return Way::token;
        return config_.security == Security::sealed ? Way::key : Way::insecure;
    }
    std::string_view text_of(DisconnectReason hint) const;
    void count(Drop reason) { stats_.drops[reason] += 1; }

    /// A Noise exchange to which the server may answer.
    struct Exchange {
        std::uint64_t cookie;  // with a token: that of its message 1
        Key ephemeral;
        NoiseInitiator noise;
    };

    ClientConfig config_;
    Handler& handler_;
    Sink& sink_;
    Entropy entropy_;
    bool has_seed_;
    EndpointStats stats_;
    std::unique_ptr<Connection> connection_;  // from acceptance to the last word
    ResetToken reset_token_{};                // sealed: what the server says if it forgets connection_
    std::uint64_t newest_challenge_ = 0;      // number of the packet that brought it; 0: the answer did
    Address server_;
    // While connecting.
    std::optional<ClientToken> token_;
    std::vector<Exchange> exchanges_;  // sealed: one; with a token, of the last cookies, newest last
    std::vector<std::byte> hello_;
    std::vector<std::byte> introduction_;   // the body of connect
    std::optional<DisconnectReason> hint_;  // a refusal that could be forged, or is our own
    std::string_view fault_;                // why, if misconfigured
    Time believe_hint_at_{0};
    PeerId peer_;
    std::uint16_t generation_ = 0;
    std::uint64_t nonce_ = 0;
    CookieSample cookies_;      // since the last request
    std::uint64_t cookie_ = 0;  // of the last connect; 0: none since the last request
    std::uint64_t server_schema_hash_ = 0;
    bool connecting_ = false;
    Time give_up_{0};  // when connecting fails
    Time next_attempt_{0};
    Time connect_sent_{0};
    Duration backoff_{0};
    int connects_sent_ = 0;  // with the present cookie
};

}  // namespace shoal::net
