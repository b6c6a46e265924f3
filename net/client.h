#pragma once
// The client's endpoint, which connects to one server at a time.

#include "connection.h"
#include "handshake/connector.h"
#include "handshake/server_key.h"

namespace shoal::net::impl {

struct ClientConfig {
    std::uint64_t protocol_id = 0;  // must equal the server's
    std::uint64_t schema_hash = 0;  // must equal the server's
    OneTimeSeed seed{};             // random (fill_random), new for every Client; keys are derived from it
    Security security = Security::sealed;
    PublicKey server_key{};  // used if packets are sealed and connect() gets no token; see server_key.h
    Duration connect_timeout = std::chrono::seconds(10);
    ConnectionConfig connection{};
};

class Client final : public Endpoint {
public:
    enum class State : std::uint8_t { idle, connecting, connected, closing };

    /// Wipes the seed in `config` and in all copies. Handler and sink must outlive the client.
    Client(const ClientConfig& config, Handler& handler, Sink& sink);
    ~Client() override;

    /// Ends the present connection or handshake with on_disconnected, in which connect() has no effect and
    /// returns an empty id. Then starts a handshake, which ends with on_connected or on_disconnected for the
    /// returned id. The server's on_admit gets `hello`, at most kMaxHelloBytes, encrypted if packets are
    /// sealed.
    PeerId connect(const Servers& servers, std::span<const std::byte> hello, Time now) {
        return begin(servers, nullptr, hello, now);
    }
    /// Connects with a connect token, always sealed. `servers` are addresses of the token, or others at which
    /// this client reaches the same server. `hello` has at most kMaxTokenHelloBytes.
    PeerId connect(const Servers& servers, const ClientToken& token, std::span<const std::byte> hello,
                   Time now) {
        return begin(servers, &token, hello, now);
    }

    void receive(const Address& from, std::span<const std::byte> datagram, Time now) override;
    void update(Time now) override;
    void flush(Time now) override;
    /// Also ends an unfinished handshake.
    void disconnect(PeerId peer, DisconnectReason reason, std::string_view text, Time now,
                    Duration deliver_for = Duration(0)) override;

    /// The id that the last connect() returned.
    PeerId server() const { return peer_; }
    State state() const;
    bool is_idle() const { return state() == State::idle; }
    /// The server's schema hash if a refusal contained it, else 0.
    std::uint64_t server_schema_hash() const { return server_schema_hash_; }

private:
    friend struct Consistency;  // tests/net/support/consistency.h
    Connection* connection_of(PeerId peer) const override {
        return peer == peer_ ? connection_.get() : nullptr;
    }
    PeerId begin(const Servers& servers, const ClientToken* token, std::span<const std::byte> hello,
                 Time now);
    void end_attempt(const Connector::Outcome& outcome, Time now);
    void open_connection(const Verdict& verdict, const NoiseKeys& keys, Time now);
    void receive_packet(std::span<const std::byte> datagram, Time now);
    void receive_reset(std::span<const std::byte> datagram, Time now);

    ClientConfig config_;
    Handler& handler_;
    Sink& sink_;
    bool has_seed_;
    Entropy entropy_;
    Address server_;  // of the present connection
    PeerId peer_;     // each connect() uses the next generation
    std::uint64_t server_schema_hash_ = 0;
    Connector connector_;
    std::unique_ptr<Connection> connection_;  // from acceptance until the next connect()
    std::unique_ptr<Connection> former_;      // the one before, until its last disconnect packet was sent
    bool is_replacing_ = false;               // connect() ends the present connection or handshake
    std::uint64_t reset_token_ = 0;           // secret; in a genuine reset of the connection
};

}  // namespace shoal::net::impl

namespace shoal::net {
using impl::Client, impl::ClientConfig;
}  // namespace shoal::net
