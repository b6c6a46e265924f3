#pragma once
// The server's half of the handshake. An accepted client gets a place in a table: pending until a packet
// proves that the client has the keys, then a peer's, then leaving until the last disconnect packet was sent.
// WIRE.md has the checks of a connect packet; until its tag is valid it changes only counters.

#include <list>
#include <unordered_map>

#include "../connection.h"
#include "../crypto/entropy.h"
#include "handshake.h"
#include "networks.h"

namespace shoal::net::impl {

struct HostConfig;

class Gate {
public:
    /// An accepted client that has not sent a packet under the new keys yet.
    struct Pending {
        Session session;
        PacketCipher cipher;
        std::uint32_t connection_id;
        Time since;  // when the client was accepted
        HandshakePacket answer;
        TokenId token_id{};  // if Place::token is not 0
        std::uint64_t token_expires_s = 0;
        std::array<std::byte, kAcceptanceBytes + kNoiseOverheadBytes> message{};  // bytes of answer.message
    };

    /// The references must outlive the gate. `is_open`: false without seed or key; then it accepts nobody.
    Gate(const HostConfig& config, bool is_open, Handler& handler, Sink& sink, Entropy& entropy,
         EndpointStats& stats);

    void receive(PacketKind kind, const Address& from, std::span<const std::byte> datagram, Time now);
    /// Answers a probe of an unknown connection by a reset, if the salt is one of this server's.
    void send_reset(const Address& to, std::uint32_t connection_id, std::uint64_t salt);
    /// Releases the places of expired handshakes. Afterwards no peer is silent.
    void update(Time now);
    /// Until the next update(), this peer is silent: it may be the former connection of another client.
    void note_silent(PeerId peer) { silent_.push_back(peer.index()); }
    /// Refuses everyone from now on.
    void shut_down() { is_shut_down_ = true; }

    /// Returns the PeerId::index() that a connection id contains.
    std::uint32_t index_of(std::uint32_t connection_id) const { return connection_id & (index_end_ - 1); }
    /// Returns null if no handshake with this id is pending. Valid until confirm() or release().
    const Pending* find(std::uint32_t connection_id) const;
    bool has_pending() const { return !pending_.empty(); }

    /// Returns the silent peer that a pending client replaces, or nothing. It has the same proven address;
    /// or, if the client has no seat otherwise, the same client id or an address of the same machine.
    PeerId former_of(PeerId pending) const;
    /// Makes a pending client a peer. If there is no seat, marks its place as leaving and returns why.
    std::optional<std::string_view> confirm(PeerId peer);
    /// The peer no longer counts against the limits. A second call has no effect.
    void leave(PeerId peer);
    /// Notes the peer's new proven address. The peer counts for its networks, if they have room.
    void set_home(PeerId peer, const Address& address);
    /// Frees the place of a pending or leaving client.
    void release(PeerId peer);

private:
    friend struct Consistency;  // tests/net/support/consistency.h
    enum class State : std::uint8_t { free, pending, peer, leaving };
    struct Place {
        State state = State::free;
        PeerId peer;  // the present or last peer in this place
        std::list<Pending>::iterator pending{};
        std::uint64_t attempt = 0;  // hash of the connect packet (address, nonce, ephemeral key)
        std::uint64_t token = 0;    // hash of the connect token's id; 0: none, or it may be used again
        std::uint64_t home = 0;     // hash_of() the client's proven address
        Networks networks;          // networks of this address; of a former one if they were full
        bool is_limited = true;     // whether HostConfig::max_peers_per_ip concerns this address
        std::optional<std::uint64_t> client_id{};  // of the client's token
    };
    struct Attempt;

    void receive_request(const Address& from, const HandshakePacket& request, Time now);
    void receive_connect(const Address& from, const HandshakePacket& connect, Time now);
    void repeat_answer(const Address& to, const Place& place);
    std::optional<Verdict> judge(Attempt& attempt);
    std::optional<std::string_view> why_no_token(Attempt& attempt, std::uint64_t now_s);
    bool is_limited(const Address& address) const;
    std::optional<std::string_view> why_full(const Place& newcomer, const Place* leaving) const;
    const Place* former(const Place& newcomer) const;
    bool make_room();
    PeerId next_peer() const;
    void answer(Attempt& attempt, const Verdict& verdict);
    void remember(const Attempt& attempt, const Verdict& verdict, const HandshakePacket& answer);
    void end_pending(Place& place, bool is_connected);
    void refuse(const Address& to, std::uint64_t client_nonce, DisconnectReason reason);
    void reply(const Address& to, const HandshakePacket& packet);
    std::uint64_t hash_of(const Address& address) const;
    void count(Drop reason) { stats_.drops[reason] += 1; }

    const HostConfig& config_;
    Handler& handler_;
    Sink& sink_;
    Entropy& entropy_;
    EndpointStats& stats_;
    bool is_open_;
    bool is_shut_down_ = false;
    SecretKey key_;
    PublicKey public_key_;
    ResetKey reset_key_;
    AddressProof cookies_;
    SipKey secret_;  // key of hashes that strangers must not guess
    std::optional<TokenHistory> history_;
    TokenContents token_;  // contents of the token that is checked now; a member, to reuse its buffer
    AttemptLimit attempt_limit_;

    std::uint32_t max_peers_, max_pending_, max_places_, index_end_;
    std::vector<Place> places_;   // by PeerId::index(); grows up to max_places_
    Fifo<std::uint32_t> free_;    // free places, longest free first
    std::list<Pending> pending_;  // ordered by `since`
    std::uint32_t peers_ = 0;
    NetworkCounts peer_counts_;
    std::vector<std::uint32_t> silent_;  // indices of places
    std::unordered_map<std::uint64_t, std::uint32_t>
        attempts_;  // indices of places, by Place::attempt and ::token
};

}  // namespace shoal::net::impl
