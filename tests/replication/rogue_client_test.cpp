// What a server does with bytes that no client of this library sends.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "replication/message.h"
#include "replication/server.h"
#include "tests/replication/support/link.h"
#include "tests/sim/session.h"

namespace shoal::replication::impl {
namespace {

using sim::Position;

/// A client that sends any messages.
struct Rogue final : net::Handler {
    explicit Rogue(Link& in, const std::vector<std::byte>& hello = write_hello({100, {}}))
        : link(in),
          wire(in, net::Address::ipv4(10, 0, 0, 99, 5000)),
          endpoint(config(in.schema), *this, wire) {
        endpoint.connect(link.wire.address, hello, link.now);
    }
    static net::ClientConfig config(const Schema& schema) {
        net::ClientConfig out;
        out.protocol_id = 5;
        out.schema_hash = schema.hash();
        out.seed = seed_of(77);
        give_key(out);
        return out;
    }
    void step() {
        link.now += std::chrono::milliseconds(17);
        endpoint.update(link.now);
        endpoint.flush(link.now);
        for (int round = 0; round < 3; ++round)
            for (const Link::Datagram& datagram : std::exchange(link.under_way, {})) {
                if (datagram.to == wire.address) endpoint.receive(datagram.from, datagram.bytes, link.now);
                if (datagram.to == link.wire.address)
                    link.server.host().receive(datagram.from, datagram.bytes, link.now);
            }
        link.server.tick(link.now);
    }
    void on_disconnected(net::PeerId, net::DisconnectReason, std::string_view text) override {
        last_text = text;
    }
    std::size_t write_payload(net::PeerId, net::PayloadTurn& turn) override {
        const std::vector<std::byte> payload = std::exchange(to_send, {});
        std::copy(payload.begin(), payload.end(), turn.room.begin());
        return payload.size();
    }
    Link& link;
    Link::Wire wire;
    net::Client endpoint;
    std::vector<std::byte> to_send;
    std::string last_text;
};

TEST(Server, AMalformedPayloadEndsTheConnectionWithAReason) {
    Link link;
    Rogue rogue(link);
    for (int i = 0; i < 8; ++i) rogue.step();
    ASSERT_EQ(link.listener.joins, 1);
    rogue.to_send = {std::byte{0xff}, std::byte{0xff}};
    for (int i = 0; i < 8; ++i) rogue.step();
    EXPECT_EQ(link.listener.leaves, 1);
    EXPECT_NE(rogue.last_text.find("malformed state"), std::string::npos) << rogue.last_text;
}

TEST(Server, AMalformedHelloIsRefused) {
    Schema schema = game_schema();
    const std::vector<std::byte> summary = schema.summary();
    std::vector<std::vector<std::byte>> hellos = {{}, {std::byte{1}}, write_hello({0, summary})};
    hellos.push_back(std::vector<std::byte>(3, std::byte{1}));
    for (const auto& hello : hellos) {
        Link link;
        Rogue rogue(link, hello);
        for (int i = 0; i < 8; ++i) rogue.step();
        EXPECT_EQ(link.listener.joins, 0) << hello.size() << " bytes";
        EXPECT_TRUE(rogue.endpoint.is_idle());
    }
    for (const std::uint32_t max_slots : {1u, 7u, 0xffffffffu}) {
        Link link;
        Rogue rogue(link, write_hello({max_slots, {}}));
        for (int i = 0; i < 8; ++i) rogue.step();
        EXPECT_EQ(link.listener.joins, 1) << max_slots;
    }
}

TEST(Server, MalformedMessagesEndTheConnection) {
    const auto longer = [](std::vector<std::byte> message, std::size_t by) {
        message.resize(message.size() + by);
        return message;
    };
    std::vector<std::byte> padded = write_control(Rebase{{1}});
    padded.back() |= std::byte{0x80};
    std::vector<std::vector<std::byte>> messages = {
        {},                            // nothing
        {std::byte{9}, std::byte{1}},  // unknown kind
        {std::byte{255}},              // unknown kind
        {std::byte{3}},                // a typed message without its order
        {std::byte{1}},                // a rebase without a length
        write_control(Rebase{}),       // a rebase without slots
        longer(write_control(Rebase{{1}}), 1),
        padded,
        write_control(Rebase{std::vector<std::uint32_t>(Rebase::kMax + 1)}),
        {std::byte{1}, std::byte{0xd}, std::byte{0}, std::byte{0}},  // two slots, but not their bits
        longer(write_control(CanLoad{}), 1),
        write_control(HasModel{1}),  // none was sent
        // What only a server says.
        write_control(NextModel{}),
        write_control(Welcome{1, 1}),
        write_control(ActionResults{}),
        {std::byte{5}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}},
        write_control(Gone{}),
        write_control(PlayerEntity{}),
        write_control(OwnedRefusal{}),
        write_control(NextTicket{{PlayerId{9}, {}}, 5}),
        write_control(Resumed{}),
    };
    for (const auto& message : messages) {
        SCOPED_TRACE(testing::Message() << (message.empty() ? -1 : std::to_integer<int>(message[0])) << ", "
                                        << message.size() << " bytes");
        Link link;
        Rogue rogue(link);
        for (int i = 0; i < 8; ++i) rogue.step();
        ASSERT_EQ(link.listener.joins, 1);
        ASSERT_EQ(rogue.endpoint.send_message(rogue.endpoint.server(), net::Channel::reliable, message),
                  net::SendResult::queued);
        for (int i = 0; i < 8; ++i) rogue.step();
        EXPECT_EQ(link.listener.leaves, 1);
        EXPECT_EQ(link.listener.last_reason, net::DisconnectReason::protocol_error);
        EXPECT_NE(rogue.last_text.find("malformed message"), std::string::npos) << rogue.last_text;
    }
}

TEST(Server, ARebaseOfAnySlotsIsHarmless) {
    Link link;
    link.world.spawn(Replicated{}, Position{});
    Rogue rogue(link);
    for (int i = 0; i < 8; ++i) rogue.step();
    const Rebase rebase{std::vector<std::uint32_t>(Rebase::kMax, 0xeeeeeeee)};
    ASSERT_EQ(
        rogue.endpoint.send_message(rogue.endpoint.server(), net::Channel::reliable, write_control(rebase)),
        net::SendResult::queued);
    for (int i = 0; i < 8; ++i) rogue.step();
    EXPECT_EQ(link.listener.leaves, 0);
}

}  // namespace
}  // namespace shoal::replication::impl
