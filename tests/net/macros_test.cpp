// Every header of net/ compiles behind the macros of other systems, and its templates too.

#include <gtest/gtest.h>

#include "tests/support/foreign_macros.h"
// after the macros
#include "net/ack_window.h"
#include "net/bytes.h"
#include "net/client.h"
#include "net/connection.h"
#include "net/crypto/entropy.h"
#include "net/crypto/noise.h"
#include "net/crypto/packet_cipher.h"
#include "net/crypto/primitives.h"
#include "net/crypto/siphash.h"
#include "net/endpoint.h"
#include "net/fifo.h"
#include "net/handshake/connector.h"
#include "net/handshake/cookie_sample.h"
#include "net/handshake/gate.h"
#include "net/handshake/handshake.h"
#include "net/handshake/networks.h"
#include "net/handshake/server_key.h"
#include "net/handshake/token.h"
#include "net/host.h"
#include "net/index_pool.h"
#include "net/message/inbox.h"
#include "net/message/large_payload.h"
#include "net/message/message_store.h"
#include "net/message/send_queue.h"
#include "net/packet.h"
#include "net/path.h"
#include "net/rate/budget.h"
#include "net/rate/rate_controller.h"
#include "net/rate/round_trips.h"
#include "net/rate/usual_loss.h"
#include "net/result.h"
#include "net/scheduler.h"
#include "net/sent_packets.h"
#include "net/socket/address.h"
#include "net/socket/bad_network.h"
#include "net/socket/key_file.h"
#include "net/socket/network_thread.h"
#include "net/socket/socket.h"
#include "net/socket/system_random.h"
#include "net/stats.h"

using namespace shoal::net;

TEST(Macros, OfOtherSystemsDoNotReachTheNetwork) {
    RoundTrips trips{Time(0)};
    trips.sample(Duration(5'000), true);
    EXPECT_EQ(trips.recent(), Duration(5'000));
    Budget budget{Time(0)};
    budget.limit(1'000);
    BadNetwork network(LinkConfig{}, 1);
    const Address address = Address::ipv4(10, 0, 0, 1, 7777);
    EXPECT_EQ(&network.at(address), &network.at(address));
}
