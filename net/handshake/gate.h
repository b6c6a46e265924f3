#pragma once
// The server's half of the handshake. Who comes in takes a place: pending at first, then, once a packet has
// shown that the client holds the keys, as a peer, until the last word of its connection.
//
// A connect is checked in this order: cookie; whether it was here before, then its answer is repeated; limits
// of attempts; tag of its message; token (tag, game, server, time); room; schema; whether the token was used;
// the application. What comes from strangers changes nothing before the tag but counts of attempts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../crypto/entropy.h"
#include "../endpoint.h"
#include "../fifo.h"
#include "handshake.h"
#include "networks.h"
#include "reset.h"
#include "token.h"

namespace shoal::net {

struct HostConfig;

class Gate {
public:
    /// Accepted, not confirmed.
    struct Pending {
        PeerId peer;
        Address address;
        std::uint64_t machine = 0;
        std::uint32_t connection_id = 0;
        std::uint64_t first_packet_number = 1;  // the client's
        NoiseKeys keys;
        Time since{0};  // that we answered last
        std::array<std::byte, kAnswerHeadBytes + kAcceptanceBytes + kNoiseOverheadBytes> answer;
    };

    /// All must outlive the gate. Without a seed or a key nobody comes in: `is_open` is false.
    Gate(const HostConfig& config, bool is_open, Handler& handler, Sink& sink, Entropy& entropy,
         EndpointStats& stats);

    void receive_request(const Address& from, std::span<const std::byte> datagram, Time now);
    void receive_connect(const Address& from, std::span<const std::byte> datagram, Time now);
    /// Tells whoever sends packets of a connection that is not here. `bytes` came, and no more go back.
    void send_reset(const Address& to, std::uint32_t connection_id, std::size_t bytes, Time now);
    ResetToken reset_token(std::uint32_t connection_id, const Address& client) const;
    /// The number that proves the address of a client when it comes back from there, within some seconds.
    std::uint64_t challenge(std::uint32_t connection_id, const Address& client, Time now) const {
        return make_cookie(secret_, client, connection_id, now);
    }
    bool is_challenge(std::uint32_t connection_id, const Address& client, std::uint64_t number,
                      Time now) const {
        return is_cookie_valid(secret_, client, connection_id, number, now);
    }
    /// Forgets handshakes whose time is over.
    void update(Time now);
    /// Refuses everyone from now on.
    void shut_down() { is_shut_down_ = true; }

    /// The part of a connection id that names the place: a PeerId's index().
    std::uint32_t index_of(std::uint32_t connection_id) const { return connection_id & (index_end_ - 1); }
    /// Null if no handshake with this id is pending. Holds until the next change.
    const Pending* find(std::uint32_t connection_id) const;
    bool has_pending() const { return !pending_.empty(); }

    /// The peer at home at this address; of several, the last one that came.
    std::optional<std::uint32_t> at_home(const Address& address) const;
    /// Why a client from there cannot be one more peer; nothing if it can. `replaces`: one less, from there.
    std::optional<std::string_view> why_full(const Address& from, bool replaces) const;
    /// A pending client becomes a peer or, if it is not welcome, somebody who leaves.
    void confirm(PeerId peer, bool is_welcome);
    /// A pending client is forgotten, and its place free.
    void give_up(PeerId peer);
    /// A peer does not count any more. Nothing happens the second time.
    void leave(PeerId peer);
    /// A peer lives at this address now, which is proven.
    void settle(PeerId peer, const Address& address);
    /// The place of a peer that left is free.
    void release(PeerId peer);

private:
    enum class State : std::uint8_t { free, pending, peer, leaving };
    struct Place {
        State state = State::free;
        std::uint16_t generation = 0;  // of the last one here
        std::uint32_t pending = 0;     // its index in pending_
        std::uint64_t attempt = 0;     // names the connect that it came with
        std::uint64_t token = 0;       // names its token; 0: none
        std::uint64_t home = 0;        // hash_of() its address
        Networks networks;             // from which it came in
    };
    struct Attempt;

    void repeat_answer(const Address& to, std::uint32_t index, Time now);
    std::optional<Verdict> judge(Attempt& attempt);
    std::optional<std::string_view> why_no_token(Attempt& attempt, Time now);
    std::uint64_t name_of_token() const;
    bool make_room(const Networks& networks);
    PeerId next_peer() const;
    void accept(Attempt& attempt, Verdict& verdict);
    void remember(Attempt& attempt, const Verdict& verdict, std::span<const std::byte> answer);
    void forget_pending(std::uint32_t index);
    void leave_home(std::uint32_t index);
    void free_place(std::uint32_t index);
    std::uint64_t unix_time_s(Time now) const;
    void hint(const Address& to, std::uint64_t client_nonce, DisconnectReason reason);
    void reply(const Address& to, std::span<const std::byte> datagram);
    Networks networks_of(const Address& address) const { return Networks(secret_, address); }
    std::uint64_t hash_of(const Address& address) const;
    std::uint64_t name_of(const Address& from, const Connect& connect) const;
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
    std::vector<Place> places_;     // by PeerId::index(); grows with use, to max_places_
    Fifo<std::uint32_t> free_;      // free places, the one longest free first
    std::vector<Pending> pending_;  // in any order
    std::uint32_t peers_ = 0;
    NetworkCounts pending_counts_, peer_counts_;
    std::unordered_map<std::uint64_t, std::uint32_t>
        attempts_;  // by name: of all that are here, and of their tokens
    std::unordered_map<std::uint64_t, std::uint32_t> homes_;  // by hash_of() a peer's address
};

}  // namespace shoal::net
