// A client that lies to a server. The first byte of an input chooses what the input drives: a Sender, with
// fates and rebases in any order; or a Server with a host, to which a client with any hello sends any
// messages, and acknowledges what it likes. After each operation the server must be consistent and within its
// limits. At the end it must serve an honest client.

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "replication/message.h"
#include "replication/server.h"
#include "tests/fuzz/replication_parts.h"
#include "tests/net/support/consistency.h"

using namespace shoal::replication::impl;
using namespace shoal::replication::impl::fuzz;
using namespace std::chrono_literals;
using shoal::net::impl::ByteReader;

namespace {

std::uint32_t some_slot(ByteReader& in) {
    const unsigned byte = in.u8();
    return byte < 250 ? byte % 64 : in.u32();
}

/// A Sender with up to three peers whose fates and rebases come from the input.
class LiedToSender {
public:
    explicit LiedToSender(std::span<const std::byte> input)
        : in_(input), flags_(in_.u8()), origin_(schema_, flags_ & 1 ? 1 : 0xffffffd0) {}

    void run() {
        while (in_.ok() && in_.remaining() > 0) {
            step();
            check_limits();
        }
        for (std::uint32_t peer = 0; peer < kPeers; ++peer)
            if (liars_[peer]) check_settles(peer);
        shoal::ecs::World world;
        const Schema& of_client = flags_ & 2 ? without_hats_ : schema_;
        Receiver receiver(world, of_client);
        check_new_client_converges(origin_, of_client, world, receiver);
        CHECK(origin_.sender.is_consistent());
    }

private:
    static constexpr std::uint32_t kPeers = 3;

    struct Liar {
        std::uint32_t max_slots = 0;
        std::uint64_t number = 0;
        std::vector<std::uint64_t> unsettled;
    };

    void step() {
        const unsigned op = in_.u8();
        const std::uint32_t peer = (op >> 4) % kPeers;
        if (!liars_[peer]) return join(peer, op);
        Liar& liar = *liars_[peer];
        switch (op % 16) {
            case 0:
            case 1:
            case 2:
                return origin_.change(in_);
            case 3:
            case 4:
                return origin_.update(op & 128 ? 1 + in_.u8() : 1);
            case 5:
            case 6:
            case 7:
            case 8:
                return static_cast<void>(encode(peer, op & 128 ? 1'200 : 20 + in_.u8()));
            case 9:
            case 10: {
                if (liar.unsettled.empty()) return;
                const std::size_t at = in_.u8() % liar.unsettled.size();
                const std::uint64_t number = liar.unsettled[at];
                liar.unsettled.erase(liar.unsettled.begin() + std::ptrdiff_t(at));
                origin_.sender.on_fate(peer, number, op & 128);
                if (op & 64) origin_.sender.on_fate(peer, number, !(op & 128));  // ignored
                return;
            }
            case 11:  // a packet without state
                return origin_.sender.on_fate(peer, liar.number + 1 + in_.u8(), op & 128);
            case 12:
            case 13:
                origin_.sender.rebase(peer, some_slot(in_));
                return;
            case 14:
                return origin_.sender.request_marker(peer);
            default:
                if (in_.u8() % 8 != 0) return;
                origin_.sender.remove_peer(peer);
                liars_[peer].reset();
                return;
        }
    }

    /// A sender reuses the number of a removed peer.
    void join(std::uint32_t peer, unsigned op) {
        for (std::uint32_t lower = 0; lower < peer; ++lower)
            if (!liars_[lower]) return;
        constexpr std::uint32_t kSlots[] = {65'536, 1, 7, 64};
        const std::uint32_t max_slots = kSlots[op % 4];
        CHECK(origin_.add_peer(op & 8 ? without_hats_ : schema_, max_slots) == peer);
        liars_[peer] = Liar{max_slots, 0, {}};
    }

    std::size_t encode(std::uint32_t peer, std::size_t capacity) {
        Liar& liar = *liars_[peer];
        liar.number += 1 + in_.u8() % 4;
        const auto payload = origin_.sender.encode(peer, liar.number, capacity, room_);
        if (payload.empty()) return 0;
        CHECK(payload.size() <= kMaxEntityBytes + 100);
        liar.unsettled.push_back(liar.number);
        return payload.size();
    }

    /// When all fates are known and nothing changes, the peer has acknowledged everything after some packets.
    void check_settles(std::uint32_t peer) {
        Sender& sender = origin_.sender;
        origin_.update(1);
        Liar& liar = *liars_[peer];
        for (int round = 0; round < 10 && !sender.is_settled(peer); ++round) {
            for (const std::uint64_t number : liar.unsettled) sender.on_fate(peer, number, true);
            liar.unsettled.clear();
            origin_.update(1);
            sender.request_marker(peer);
            while (encode(peer, 1'200) > 0) CHECK(liar.unsettled.size() < 1'000);
            for (const std::uint64_t number : liar.unsettled) sender.on_fate(peer, number, true);
            liar.unsettled.clear();
        }
        const Sender::PeerStats stats = sender.stats(peer);
        CHECK(stats.pending == 0);
        if (stats.waiting != 0)  // it takes fewer entities than there are
            CHECK(stats.slots_used == liar.max_slots);
        else
            CHECK(sender.is_settled(peer));
        check_limits();
    }

    void check_limits() {
        CHECK(origin_.sender.is_consistent());
        for (std::uint32_t peer = 0; peer < kPeers; ++peer) {
            if (!liars_[peer]) continue;
            const Sender::PeerStats stats = origin_.sender.stats(peer);
            CHECK(stats.slots_used <= liars_[peer]->max_slots && stats.pending <= stats.slots_used);
            CHECK(stats.full_records + stats.empty_records <= stats.records_sent);
        }
    }

    ByteReader in_;
    unsigned flags_;
    Schema schema_ = fuzz_schema(), without_hats_ = fuzz_schema(false);
    Origin origin_;
    std::array<std::optional<Liar>, kPeers> liars_;
    Payload room_ = Payload(1'200);
};

const shoal::net::Address kLiar = shoal::net::Address::ipv4(10, 0, 0, 1, 1000);
const shoal::net::Address kHost = shoal::net::Address::ipv4(10, 0, 0, 2, 7777);

/// A client without a Receiver.
struct LyingHandler final : shoal::net::Handler {
    bool on_payload(shoal::net::PeerId, std::uint64_t, std::span<const std::byte>,
                    shoal::net::Time) override {
        payloads += 1;
        return accepts;
    }
    void on_disconnected(shoal::net::PeerId, shoal::net::DisconnectReason reason, std::string_view) override {
        last_reason = reason;
    }
    bool accepts = true;
    std::uint64_t payloads = 0;
    shoal::net::DisconnectReason last_reason = shoal::net::DisconnectReason::closed;
};

struct Attendance final : ServerListener {
    void on_join(shoal::net::PeerId peer) override {
        present += 1;
        newest = peer;
        newest_timed_out = false;
    }
    void on_leave(shoal::net::PeerId peer, shoal::net::DisconnectReason reason, std::string_view) override {
        CHECK(present > 0);
        present -= 1;
        last_reason = reason;
        newest_timed_out =
            newest_timed_out || (peer == newest && reason == shoal::net::DisconnectReason::timed_out);
    }
    void on_message(shoal::net::PeerId, shoal::net::Channel, std::span<const std::byte>) override {
        messages += 1;
    }
    std::uint32_t present = 0;
    std::uint64_t messages = 0;
    shoal::net::PeerId newest;
    bool newest_timed_out = false;
    shoal::net::DisconnectReason last_reason = shoal::net::DisconnectReason::closed;
};

/// A Server with one client that sends what the input says.
class LiedToServer {
public:
    explicit LiedToServer(std::span<const std::byte> input)
        : in_(input),
          schema_(fuzz_schema()),
          server_(world_, schema_, from_server_, server_options(), &attendance_),
          client_(client_config(schema_, in_.u8()), handler_, from_client_) {
        for (int i = 0; i < 12; ++i) entities_.push_back(world_.spawn(Replicated{}, Place{}, Label{"abc"}));
        server_.on<Shout>([this](PlayerId from, const Shout& shout) {
            CHECK(from && shout.text.size() <= 12 && shout.about.size() <= 16 && shout.kind <= 4);
            for (const shoal::ecs::Entity entity : shout.about) CHECK(!entity || world_.is_alive(entity));
            handled_ += 1;
        });
        server_.on_join([this](PlayerId) { return world_.spawn(Replicated{}, Place{}); });
        server_.on<Pile>([this](PlayerId, const Pile& pile) {
            CHECK(pile.rows.size() <= 40);
            handled_ += 1;
        });
    }

    void run() {
        join();
        while (in_.ok() && in_.remaining() > 0) {
            step();
            check_limits();
        }
        for (int i = 0; i < 60 && attendance_.present > 0; ++i) tick(200ms, 255);
        CHECK(attendance_.present == 0);
        CHECK(is_consistent(server_.host()) && server_.sender().is_consistent());
        CHECK(server_.is_settled());
    }

private:
    static ServerOptions server_options() {
        ServerOptions options;
        options.host = shoal::net::impl::fuzz::fuzz_config<shoal::net::HostConfig>(false, 1);
        options.host.connection.timeout = 5s;
        options.join.resume_time = 0s;  // a player whose connection times out leaves at once
        return options;
    }
    static shoal::net::ClientConfig client_config(const Schema& schema, unsigned choice) {
        auto config = shoal::net::impl::fuzz::fuzz_config<shoal::net::ClientConfig>(false, 2);
        config.schema_hash = choice % 16 == 0 ? 1 : schema.hash();
        return config;
    }

    /// Connects, with a hello from the input or a correct one.
    void join() {
        if (!client_.is_idle()) return;
        const unsigned how = in_.u8();
        std::vector<std::byte> hello;
        if (how % 4 == 0) {
            const auto bytes = in_.bytes(std::min<std::size_t>(in_.u8(), in_.remaining()));
            hello.assign(bytes.begin(), bytes.end());
        } else {
            constexpr std::uint32_t kSlots[] = {65'536, 1, 5, 0xffffffff};
            hello = write_hello({kSlots[how / 4 % 4], schema_.summary()});
        }
        const std::optional<Hello> said = read_hello(hello);
        const bool is_hello = said.has_value();
        if (said) most_slots_ = std::max(most_slots_, said->max_slots);
        const std::uint32_t before = attendance_.present;
        (void)client_.connect(kHost, hello, now_);
        for (int i = 0; i < 4; ++i) tick(20ms, 0);
        if (how < 192) say(0, {static_cast<std::byte>(MessageKind::ready)});
        if (!is_hello) CHECK(attendance_.present <= before && !client_.is_connected(client_.server()));
    }

    void step() {
        const unsigned op = in_.u8();
        switch (op % 8) {
            case 0: {
                const std::size_t at = in_.u8() % entities_.size();
                if (op & 64) {
                    world_.destroy(entities_[at]);
                    entities_[at] = world_.spawn(Replicated{}, Place{1, 1});
                    return;
                }
                return world_.set(entities_[at], Place{static_cast<float>(in_.u8()), 2},
                                  Label{std::string(op / 16u, 'b')});
            }
            case 1:
            case 2:
                return tick(std::chrono::milliseconds(1 + in_.u8()), in_.u8());
            case 3: {  // any bytes
                const auto bytes = in_.bytes(std::min<std::size_t>(in_.u8(), in_.remaining()));
                Payload message(bytes.begin(), bytes.end());
                if (op & 128) message.insert(message.begin(), static_cast<std::byte>(MessageKind::typed));
                return say(op, message);
            }
            case 4: {  // a rebase
                Rebase rebase;
                for (unsigned slots = 1 + (op >> 4); slots > 0; --slots)
                    rebase.entity_slots.push_back(some_slot(in_));
                Payload message = write_control(rebase);
                if (op & 8) message.resize(message.size() - in_.u8() % 4u);
                return say(op, message);
            }
            case 5:
                handler_.accepts = !(op & 64);
                return;
            case 6:
                if (op & 64) return server_.resend(now_);
                if (op & 128) return server_.disconnect(attendance_.newest, "out", now_);
                if (in_.u8() % 4 == 0)
                    client_.disconnect(client_.server(), shoal::net::DisconnectReason::closed, "bye", now_);
                return;
            default:
                return join();
        }
    }

    void say(unsigned op, const Payload& message) {
        if (!client_.is_connected(client_.server())) return;
        const Payload exact(message);
        const bool is_game = !exact.empty() && exact[0] == static_cast<std::byte>(MessageKind::game);
        const bool is_rebase = !exact.empty() && exact[0] == static_cast<std::byte>(MessageKind::rebase) &&
                               read_control<Rebase>(std::span(exact).subspan(1));
        using shoal::net::Channel;
        constexpr Channel kChannels[] = {Channel::reliable, Channel::unreliable, Channel::sequenced};
        const Channel channel = kChannels[op / 16 % 3];
        const bool is_typed = is_typed_message(exact, channel);
        const bool is_ready = exact == Payload{static_cast<std::byte>(MessageKind::ready)};
        said_typed_ += is_typed;
        has_lied_ = has_lied_ || (!is_game && !is_rebase && !is_typed && !is_ready);
        said_games_ += is_game;
        const auto sent = client_.send_message(client_.server(), channel, exact);
        if (sent != shoal::net::SendResult::queued) return;
        const bool is_known = is_game || is_rebase || is_typed || is_ready;
        if (!is_known && channel == Channel::reliable) {  // the connection ends
            tick(100ms, 0);
            // A client whose connection timed out did not send the message.
            if (attendance_.present > 0 && !client_.is_connected(client_.server())) return;
            for (int i = 0; i < 60 && attendance_.present > 0; ++i) tick(100ms, 0);
            CHECK(attendance_.present == 0);
            CHECK(!attendance_.newest_timed_out);  // an earlier connection of this client may time out
        }
    }

    bool is_typed_message(const Payload& message, shoal::net::Channel channel) {
        if (message.size() < 2 || message[0] != static_cast<std::byte>(MessageKind::typed)) return false;
        const unsigned order = std::to_integer<unsigned>(message[1]);
        if (order > 2 || (order < 2 && channel != shoal::net::Channel::reliable)) return false;
        const std::size_t begin = order == 1 ? 7 : 2;
        if (message.size() < begin) return false;
        struct Nothing final : EntityMap {
            std::uint32_t to_net(shoal::ecs::Entity) override { return 0; }
            shoal::ecs::Entity to_entity(std::uint32_t) override { return {}; }
        } nothing;
        TypedMessages::Message read;
        return TypedMessages(schema_, nothing).read(std::span(message).subspan(begin), read);
    }

    /// Datagrams that `lost` has a bit for are lost.
    void tick(shoal::net::Duration time, unsigned lost) {
        now_ += time;
        client_.update(now_);
        client_.flush(now_);
        for (; heard_by_server_ < from_client_.sent.size(); ++heard_by_server_)
            if ((lost >> heard_by_server_ % 4 & 1) == 0)
                server_.host().receive(kLiar, from_client_.sent[heard_by_server_].second, now_);
        server_.tick(now_);
        for (; heard_by_client_ < from_server_.sent.size(); ++heard_by_client_)
            if ((lost >> heard_by_client_ % 4 & 16) == 0)
                client_.receive(kHost, from_server_.sent[heard_by_client_].second, now_);
    }

    void check_limits() {
        CHECK(server_.sender().is_consistent());
        CHECK(is_consistent(server_.host()));
        std::uint32_t peers = 0;
        server_.for_each_peer([&](shoal::net::PeerId peer) {
            peers += 1;
            const Sender::PeerStats stats = server_.stats(peer).state;
            CHECK(stats.pending <= stats.slots_used && stats.slots_used <= most_slots_);
            CHECK(stats.unjoined <= stats.slots_used);
            if (server_.phase(peer) == Phase::waiting) CHECK(stats.slots_used == 0);
        });
        CHECK(peers == attendance_.present);
        CHECK(attendance_.messages <= said_games_);
        CHECK(handled_ + server_.stats().messages.unhandled <= said_typed_);
        if (server_.stats().messages.malformed != 0) CHECK(has_lied_);
        // The server ends a connection for nothing but malformed messages.
        if (attendance_.last_reason == shoal::net::DisconnectReason::protocol_error) CHECK(has_lied_);
    }

    ByteReader in_;
    Schema schema_;
    shoal::ecs::World world_;
    std::vector<shoal::ecs::Entity> entities_;
    shoal::net::impl::fuzz::Caught from_server_, from_client_;
    Attendance attendance_;
    LyingHandler handler_;
    Server server_;
    shoal::net::Client client_;
    shoal::net::Time now_{100s};
    std::uint32_t most_slots_ = 0;  // that a hello said
    std::uint64_t said_games_ = 0, said_typed_ = 0, handled_ = 0;
    bool has_lied_ = false;
    std::size_t heard_by_server_ = 0, heard_by_client_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 3 || size > 4096) return 0;
    const auto input = std::as_bytes(std::span(data, size)).subspan(1);
    if (data[0] % 4 == 0)
        LiedToServer(input).run();
    else
        LiedToSender(input).run();
    return 0;
}
