#pragma once
// The server's half of the handshake. An accepted client takes a place: pending at first; as a peer once a
// packet has shown that the client holds the keys; leaving until its connection is finished.
//
// A connect is checked in this order: cookie; whether it was here before, then its answer is repeated; limits
// of attempts; tag of its message; token (tag, game, server, time); room; schema; whether the token was used;
// the application. What comes from strangers changes nothing before the tag but counts of attempts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../connection.h"
#include "../crypto/entropy.h"
#include "../fifo.h"
#include "handshake.h"
#include "networks.h"
#include "token.h"

namespace shoal::net {

struct HostConfig;

class Gate {
public:
    /// Accepted, not confirmed.
    struct Pending {
        Session session;
        PacketCipher cipher;
        std::uint32_t connection_id;
        Time since;  // of the last answer
        HandshakePacket answer;
        std::array<std::byte, kAcceptanceBytes + kNoiseOverheadBytes> message{};  // of the answer
    };

    /// All must outlive the gate. If `is_open` is false, because there is no seed or key, it accepts nobody.
    Gate(const HostConfig& config, bool is_open, Handler& handler, Sink& sink, Entropy& entropy,
         EndpointStats& stats);

    /// A request or a connect.
    void receive(PacketKind kind, const Address& from, std::span<const std::byte> datagram, Time now);
    /// Answers `bytes` bytes of a connection that is not here; never with more.
    void send_reset(const Address& to, std::uint32_t connection_id, std::size_t bytes, Time now);
    ResetToken reset_token(std::uint32_t connection_id, const Address& client) const;
    /// For make_cookie(). The cookie of a connection id, in place of a nonce, proves a new address.
    const SipKey& cookie_key() const { return secret_; }
    /// Forgets handshakes whose time is over.
    void update(Time now);
    /// Refuses everyone from now on.
    void shut_down() { is_shut_down_ = true; }

    /// The part of a connection id that names the place: a PeerId's index().
    std::uint32_t index_of(std::uint32_t connection_id) const { return connection_id & (index_end_ - 1); }
    /// Null if no handshake with this id is pending. Holds until the handshake is confirmed or released.
    const Pending* find(std::uint32_t connection_id) const;
    bool has_pending() const { return !pending_.empty(); }

    /// The index of the peer with this proven address; of several, of the last one that came.
    std::optional<std::uint32_t> at_home(const Address& address) const;
    /// Why a client from there cannot be one more peer; nothing if it can. `replaces`: one less, from there.
    std::optional<std::string_view> why_full(const Address& from, bool replaces) const;
    /// A pending client becomes a peer or, if it is not welcome, leaves at once.
    void confirm(PeerId peer, bool is_welcome);
    /// A peer does not count any more. Nothing happens the second time.
    void leave(PeerId peer);
    /// A peer has proven this address.
    void set_home(PeerId peer, const Address& address);
    /// The place of a pending client, or of one that left, is free.
    void release(PeerId peer);

private:
    enum class State : std::uint8_t { free, pending, peer, leaving };
    struct Place {
        State state = State::free;
        PeerId peer;  // the last one here
        std::list<Pending>::iterator pending{};
        std::uint64_t attempt = 0;  // names the connect that it came with
        std::uint64_t token = 0;    // names its token; 0: none
        std::uint64_t home = 0;     // hash_of() its address
        Networks networks;          // from which it came
    };
    struct Attempt;

    void receive_request(const Address& from, const HandshakePacket& request, Time now);
    void receive_connect(const Address& from, const HandshakePacket& connect, Time now);
    void repeat_answer(const Address& to, const Place& place, Time now);
    std::optional<Verdict> judge(Attempt& attempt);
    std::optional<std::string_view> why_no_token(Attempt& attempt, std::uint64_t now_s);
    bool make_room(const Networks& networks);
    PeerId next_peer() const;
    void answer(Attempt& attempt, const Verdict& verdict);
    void remember(const Attempt& attempt, const Verdict& verdict, const HandshakePacket& answer);
    void end_pending(Place& place);
    void leave_home(const Place& place);
    void refuse(const Address& to, std::uint64_t client_nonce, DisconnectReason reason);
    void reply(const Address& to, const HandshakePacket& packet);
    std::uint64_t hash_of(const Address& address) const;
    std::uint64_t name_of_token() const { return siphash(secret_, {}, token_.id); }
    void count(Drop reason) { stats_.drops[reason] += 1; }

    const HostConfig& config_;
    Handler& handler_;
    Sink& sink_;
    Entropy& entropy_;
    EndpointStats& stats_;
    bool is_open_;
    bool is_shut_down_ = false;
    Key key_;
    PublicKey public_key_;
    Key reset_key_;
    SipKey secret_;  // of cookies, and of hashes that strangers must not guess
    std::optional<TokenHistory> history_;
    TokenContents token_;  // of the connect being checked; a member to reuse its buffer
    AttemptLimit attempt_limit_;
    Time resets_since_{0};
    std::uint32_t resets_ = 0;  // in this tenth of a second

    std::uint32_t max_peers_, max_pending_, max_places_, index_end_;
    std::vector<Place> places_;   // by PeerId::index(); grows with use, to max_places_
    Fifo<std::uint32_t> free_;    // free places, the one longest free first
    std::list<Pending> pending_;  // by the time of their last answer
    std::uint32_t peers_ = 0;
    NetworkCounts pending_counts_, peer_counts_;
    // Indices of places: by the names of the connect and of the token that their clients came with, and by
    // hash_of() a peer's address.
    std::unordered_map<std::uint64_t, std::uint32_t> attempts_, homes_;
};

}  // namespace shoal::net
