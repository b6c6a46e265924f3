#pragma once
// The client's endpoint: one server.

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "connection.h"
#include "crypto/entropy.h"
#include "endpoint.h"
#include "handshake/connector.h"
#include "handshake/server_key.h"
#include "handshake/token.h"

namespace shoal::net {

struct ClientConfig {
    std::uint64_t protocol_id = 0;  // must equal the server's
    std::uint64_t schema_hash = 0;  // must equal the server's
    OneTimeSeed seed{};             // fresh for every Client: the keys come from it
    Security security = Security::sealed;
    PublicKey server_key{};  // sealed, without a token: the only server we talk to; see server_key.h
    Duration connect_timeout = std::chrono::seconds(10);
    ConnectionConfig connection{};
};

class Client final : public Endpoint {
public:
    enum class State : std::uint8_t { idle, connecting, connected, closing };

    /// Takes the config's seed: another Client needs a new one. Handler and sink must outlive the client.
    Client(const ClientConfig& config, Handler& handler, Sink& sink);
    ~Client() override;

    /// Starts a handshake; requires state() idle or closing, or a call from on_disconnected. Ends in
    /// on_connected or on_disconnected, both
    /// with the peer id returned. `hello` is shown to the server's on_admit; at most kMaxHelloBytes.
    /// Sealed, it can be read by the owner of the server's key only.
    PeerId connect(const Address& server, std::span<const std::byte> hello, Time now) {
        return begin(server, nullptr, hello, now);
    }
    /// With a token, which also says what the server's key is; always sealed. `server` is one of the token's,
    /// as seen from here; `hello` has at most kMaxTokenHelloBytes. After a failure ask for another token.
    PeerId connect(const Address& server, const ClientToken& token, std::span<const std::byte> hello,
                   Time now) {
        return begin(server, &token, hello, now);
    }

    void receive(const Address& from, std::span<const std::byte> datagram, Time now) override;
    void update(Time now) override;
    void flush(Time now) override;
    /// Also ends an unfinished handshake.
    void disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now) override;

    /// The server, from connect() on; never names anyone else.
    PeerId server() const { return peer_; }
    State state() const;
    bool is_idle() const { return state() == State::idle; }
    /// The server's schema hash, once a refusal has told it; else 0.
    std::uint64_t server_schema_hash() const { return server_schema_hash_; }

private:
    Connection* connection_of(PeerId peer) const override {
        return peer == peer_ ? connection_.get() : nullptr;
    }
    PeerId begin(const Address& server, const ClientToken* token, std::span<const std::byte> hello, Time now);
    void end_attempt(const Connector::Outcome& outcome, Time now);
    void open_connection(const Verdict& verdict, const NoiseKeys& keys, Time now);
    void receive_packet(std::span<const std::byte> datagram, Time now);
    void receive_reset(std::span<const std::byte> datagram, Time now);

    ClientConfig config_;
    Handler& handler_;
    Sink& sink_;
    bool has_seed_;
    Entropy entropy_;
    Address server_;
    PeerId peer_;  // its value grows with each connect()
    std::uint64_t server_schema_hash_ = 0;
    Connector connector_;
    std::unique_ptr<Connection> connection_;  // from acceptance until the next connect()
    std::unique_ptr<Connection> former_;      // which may be what called connect(), by on_disconnected
    /// A genuine reset carries one of these: the first is for the client's first address, the others are for
    /// the addresses that the server challenged most recently.
    std::array<ResetToken, 4> reset_tokens_{};
    std::uint64_t newest_challenge_ = 0;  // number of the packet that brought it; 0: the answer did
};

}  // namespace shoal::net
