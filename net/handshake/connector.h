#pragma once
// The client's half of the handshake: it requests a cookie, tries each cookie that comes, and waits for the
// answer. Forged cookies, answers and refusals cost time and bytes, but do not end the attempt.

#include "../crypto/entropy.h"
#include "cookie_sample.h"
#include "handshake.h"

namespace shoal::net::impl {

struct ClientConfig;

class Connector {
public:
    /// The server's verdict, or a failure in the same form. The text is valid until the next attempt.
    struct Outcome {
        Verdict verdict;
        Address server;  // set if verdict.is_accepted: the address that answered
        NoiseKeys keys;  // set if verdict.is_accepted
    };

    /// The references must outlive the connector. Without a seed each attempt fails.
    Connector(const ClientConfig& config, bool has_seed, Sink& sink, Entropy& entropy, EndpointStats& stats)
        : config_(config), has_seed_(has_seed), sink_(sink), entropy_(entropy), stats_(stats) {}
    ~Connector() { end(); }

    /// `token` may be null.
    void begin(const Servers& servers, const ClientToken* token, std::span<const std::byte> hello, Time now);
    bool is_active() const { return is_active_; }
    Security security() const { return security_; }
    void end();

    /// Takes a cookie, an answer or a refusal. Returns the outcome if this packet decides it.
    std::optional<Outcome> receive(PacketKind kind, const Address& from, std::span<const std::byte> datagram,
                                   Time now);
    /// Ends an attempt whose time is over or that cannot succeed, and returns its outcome; else nothing.
    std::optional<Outcome> update(Time now);
    void flush(Time now);

private:
    /// A cookie that was tried, and the message made for it.
    struct Exchange {
        Cookie cookie;
        SecretKey ephemeral;
        NoiseExchange noise;
        std::array<std::byte, kConnectMessageBytes> message{};
        int tries = 0;
        std::uint32_t round = 0;  // value of round_ at the last try
    };

    std::string_view fault_of(const ClientToken* token, std::span<const std::byte> hello) const;
    Outcome fail(DisconnectReason reason, std::string_view text);
    bool does_hint_explain() const;
    bool believes_hint(Time now) const;
    void send_next(Time now);
    void send_request(Time now);
    bool begin_exchange(const Cookie& cookie);
    void send_connect(Time now);
    void send(HandshakePacket packet, std::size_t server);
    void wait(Duration time, Time now);
    bool note_error(std::size_t server);
    std::string why_unreachable() const;
    void receive_cookie(std::size_t from, std::span<const std::byte> datagram, Time now);
    void receive_refusal(std::span<const std::byte> datagram, Time now);
    std::optional<Outcome> receive_answer(std::size_t from, std::span<const std::byte> datagram);
    std::vector<Exchange>::iterator find(const Cookie& cookie);
    void count(Drop reason) { stats_.drops[reason] += 1; }

    const ClientConfig& config_;
    bool has_seed_;
    Sink& sink_;
    Entropy& entropy_;
    EndpointStats& stats_;

    bool is_active_ = false;
    std::vector<Address> servers_;
    std::vector<NetError> errors_;  // of servers_, since the last packet to each address
    std::size_t next_server_ = 0;   // index of the address that gets the next request
    std::string error_text_;
    Security security_ = Security::sealed;
    PublicKey server_key_{};
    std::uint64_t nonce_ = 0;
    std::array<std::byte, kClientHelloBytes> client_hello_{};  // hello and token; secret
    std::string_view fault_;                                   // why no attempt is possible, or empty
    std::optional<DisconnectReason> hint_;                     // reason of the first refusal packet
    Time hinted_{0};
    std::uint32_t hints_ = 0;          // refusals with the reason hint_
    std::uint32_t connects_ = 0;       // connects sent in this attempt
    CookieSample cookies_;             // received since the last request
    std::vector<Exchange> exchanges_;  // at most 32, in the order of their last try
    std::uint32_t round_ = 0;          // requests sent in this attempt
    int repeats_ = 0;                  // connects sent since the last cookie was taken from cookies_
    Time started_{0}, next_send_{0}, connect_sent_{0};
    Duration backoff_{0};
    std::array<std::byte, kMaxAnswerMessageBytes> answer_{};  // holds the text of an Outcome
};

}  // namespace shoal::net::impl
