#pragma once
// The client's half of the handshake: asks for cookies, tries them, and knows the server's answer. Forged
// cookies, answers and refusals cost time and bytes, not the attempt.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "../crypto/entropy.h"
#include "../endpoint.h"
#include "../packet.h"
#include "cookie_sample.h"
#include "handshake.h"
#include "token.h"

namespace shoal::net {

struct ClientConfig;

class Connector {
public:
    /// How an attempt ended: the server's verdict, or our own in the same form. The text holds until the next
    /// attempt.
    struct Outcome {
        Verdict verdict;
        NoiseKeys keys;  // if accepted
    };

    /// All must outlive the connector.
    Connector(const ClientConfig& config, Sink& sink, Entropy& entropy, EndpointStats& stats)
        : config_(config), sink_(sink), entropy_(entropy), stats_(stats) {}
    ~Connector() { end(); }

    /// Begins an attempt, which ends with an outcome or by end(). `token` may be null. `fault`: why there can
    /// be no attempt, if not empty; that is the outcome, at the next update.
    void begin(const Address& server, const ClientToken* token, std::span<const std::byte> hello,
               std::string_view fault, Time now);
    bool is_active() const { return is_active_; }
    Security security() const { return security_; }
    void end();

    /// A cookie, an answer or a refusal, from the server's address.
    std::optional<Outcome> receive(PacketKind kind, std::span<const std::byte> datagram, Time now);
    std::optional<Outcome> update(Time now);
    void flush(Time now);

private:
    /// One for each cookie tried.
    struct Exchange {
        std::uint64_t cookie;
        Key ephemeral;
        NoiseInitiator noise;
        int tries = 0;
        std::uint32_t round = 0;  // of the last try
    };

    void receive_cookie(std::span<const std::byte> datagram, Time now);
    void receive_refusal(std::span<const std::byte> datagram, Time now);
    std::optional<Outcome> receive_answer(std::span<const std::byte> datagram);
    Exchange* find(std::uint64_t cookie);
    void send_request(Time now);
    Exchange& exchange_for(std::uint64_t cookie);
    void send_connect(Exchange& exchange, Time now);
    void send(std::span<const std::byte> datagram);
    /// Whether the refusals can be why nothing else came. A connect that was damaged on its way is refused as
    /// well; a server with another key refuses each one.
    bool does_hint_explain() const;
    bool believes_hint(Time now) const;
    Outcome fail(DisconnectReason reason, std::string_view text);
    std::string_view text_of(DisconnectReason hint) const;
    void count(Drop reason) { stats_.drops[reason] += 1; }

    const ClientConfig& config_;
    Sink& sink_;
    Entropy& entropy_;
    EndpointStats& stats_;

    bool is_active_ = false;
    Address server_;
    Security security_ = Security::sealed;
    PublicKey server_key_{};
    std::uint64_t nonce_ = 0;
    std::array<std::byte, kIntroductionBytes> introduction_{};  // secret: hello and token
    std::string_view fault_;
    std::optional<DisconnectReason> hint_;  // the first refusal that came
    Time hinted_{0};
    std::uint32_t hints_ = 0;          // refusals with that reason
    std::uint32_t connects_ = 0;       // sent
    CookieSample cookies_;             // since the last request
    std::vector<Exchange> exchanges_;  // the last one tried is the last
    std::uint32_t round_ = 0;          // requests sent
    int repeats_ = 0;                  // connects with the only cookie of this round
    Time started_{0}, next_send_{0}, connect_sent_{0};
    Duration backoff_{0};
    std::array<std::byte, kMaxAnswerMessageBytes> answer_{};  // the text of the outcome lies here
};

}  // namespace shoal::net
