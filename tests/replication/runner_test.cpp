#include "replication/runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "ecs/query.h"

namespace shoal::replication::impl::runner_test {
namespace {

struct Steps {
    int count = 0;
};

Schema steps_schema() {
    Schema schema;
    schema.component<Steps>("steps");
    return schema;
}

/// An empty folder. The destructor removes it.
struct RunnerFolder {
    RunnerFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "shoal_runner_XXXXXX").string();
        path = mkdtemp(name.data());
    }
    ~RunnerFolder() { std::filesystem::remove_all(path); }
    std::string file(const char* name) const { return (path / name).string(); }
    std::filesystem::path path;
};

// Over a real socket: a server in a thread, and a client that joins, plays, and leaves.
TEST(Runner, AClientPlaysUntilItLeavesAndTheServerUntilItIsStopped) {
    const RunnerFolder folder;
    ecs::World world, mirror;
    ServerRunner server(world, steps_schema(),
                        {.port = 0, .key_file = folder.file("server.key"), .tick_hz = 100});
    ASSERT_EQ(server.error(), "");
    ASSERT_TRUE(server.address());
    int joined = 0, left = 0, ticks = 0;
    server.server().on_join([&](PlayerId) {
        joined += 1;
        return world.spawn(Steps{1}, Replicated{});
    });
    server.server().on_leave([&](PlayerId) { left += 1; });
    ecs::Query<Steps> all(world);
    int code = -1;
    std::thread thread([&] {
        code = server.run([&] {
            ticks += 1;
            all.each([](Steps& steps) { steps.count += 1; });
            if (left > 0) server.stop();
            return ticks < 5'000;
        });
    });
    ClientRunner client(mirror, steps_schema(),
                        {.server = "127.0.0.1:" + std::to_string(server.address()->port),
                         .key_file = folder.file("server.pub"),
                         .frame_hz = 100});
    EXPECT_EQ(client.error(), "");
    int frames = 0;
    const int client_code = client.run([&] {
        const ecs::Entity player = client.client().player();
        return ++frames < 2'000 && (!player || mirror.get<Steps>(player).count < 20);
    });
    EXPECT_EQ(client_code, 0);
    EXPECT_LT(frames, 2'000);
    EXPECT_EQ(client.client().phase(), Phase::disconnected);
    thread.join();
    EXPECT_EQ(code, 0);
    EXPECT_EQ(joined, 1);
    EXPECT_EQ(left, 1);
    EXPECT_GT(ticks, 20);
    EXPECT_EQ(world.size(), 0u);
}

TEST(Runner, AClientSaysWhyTheServerEnded) {
    const RunnerFolder folder;
    ecs::World world, mirror;
    ServerRunner server(world, steps_schema(),
                        {.port = 0, .key_file = folder.file("server.key"), .tick_hz = 100});
    ASSERT_EQ(server.error(), "");
    std::thread thread([&] {
        int ticks_with_player = 0, ticks = 0;
        server.run([&] {
            server.server().for_each_peer([&](PlayerId) { ticks_with_player += 1; });
            return ticks_with_player < 10 && ++ticks < 2'000;
        });
    });
    ClientRunner client(mirror, steps_schema(),
                        {.server = "127.0.0.1:" + std::to_string(server.address()->port),
                         .key_file = folder.file("server.pub")});
    testing::internal::CaptureStderr();
    EXPECT_EQ(client.run(), 1);
    thread.join();
    EXPECT_NE(testing::internal::GetCapturedStderr().find("the server ends"), std::string::npos);
}

// A listen server: one thread has the server, the player who hosts, and here also a guest.
TEST(Runner, AServerAndItsOwnPlayerShareAThread) {
    const RunnerFolder folder;
    ecs::World world, mirrors[2];
    ServerRunner host(world, steps_schema(),
                      {.port = 0, .key_file = folder.file("server.key"), .tick_hz = 100});
    ASSERT_EQ(host.error(), "");
    int left = 0;
    host.server().on_join([&](PlayerId) { return world.spawn(Steps{1}, Replicated{}); });
    host.server().on_leave([&](PlayerId) { left += 1; });
    const ClientRunnerOptions options{.server = "127.0.0.1:" + std::to_string(host.address()->port),
                                      .key_file = folder.file("server.pub")};
    ClientRunner own(mirrors[0], steps_schema(), options), guest(mirrors[1], steps_schema(), options);
    ecs::Query<Steps> all(world);
    int ticks = 0;
    std::function<bool()> each_tick;
    each_tick = [&] {
        ticks += 1;
        all.each([](Steps& steps) { steps.count += 1; });
#ifdef NDEBUG                                // otherwise the program stops
        EXPECT_TRUE(host.frame(each_tick));  // no effect
#endif
        return ticks < 2'000;
    };
    const auto steps = [](const ecs::World& mirror, const ClientRunner& client) {
        const ecs::Entity player = client.client().player();
        return player ? mirror.get<Steps>(player).count : 0;
    };
    while (host.frame(each_tick) && own.frame() && guest.frame())
        if (steps(mirrors[0], own) > 20 && steps(mirrors[1], guest) > 20) break;
    EXPECT_LT(ticks, 2'000);
    EXPECT_EQ(own.client().failure() + guest.client().failure(), "");
    guest.leave();
    own.leave();
    host.leave();
    EXPECT_EQ(left, 2);
    EXPECT_EQ(mirrors[0].size() + mirrors[1].size(), 2u * 2u);  // each sees both until it connects again
    host.stop();
    EXPECT_FALSE(host.frame(each_tick));
}

/// A server in a thread, whose players count the ticks since they joined. It ends when a player has left.
struct StepsServer {
    explicit StepsServer(const RunnerFolder& folder)
        : runner(world, steps_schema(), {.port = 0, .key_file = folder.file("server.key"), .tick_hz = 100}),
          all(world) {
        runner.server().on_join([this](PlayerId) {
            joined += 1;
            return world.spawn(Steps{1}, Replicated{});
        });
        runner.server().on_back([this](PlayerId) { back += 1; });
        runner.server().on_leave([this](PlayerId) { left += 1; });
        EXPECT_EQ(runner.error(), "");
        thread = std::thread([this] {
            int ticks = 0;
            runner.run([&] {
                all.each([](Steps& steps) { steps.count += 1; });
                return left == 0 && ++ticks < 5'000;
            });
        });
    }
    std::string address() const { return "127.0.0.1:" + std::to_string(runner.address()->port); }

    ecs::World world;
    ServerRunner runner;
    ecs::Query<Steps> all;
    int joined = 0, back = 0, left = 0;
    std::thread thread;
};

/// Returns the number of steps of the player's entity; 0 if it does not play.
int steps_of(const ecs::World& world, const ClientRunner& runner) {
    const ecs::Entity player = runner.client().player();
    return player ? world.get<Steps>(player).count : 0;
}

TEST(Runner, AClientLeavesWhenItIsStopped) {
    const RunnerFolder folder;
    StepsServer server(folder);
    ecs::World mirror;
    ClientRunner client(mirror, steps_schema(),
                        {.server = server.address(), .key_file = folder.file("server.pub")});
    int frames = 0;
    EXPECT_EQ(client.run([&] {
        if (steps_of(mirror, client) >= 5) client.stop();
        return ++frames < 1'000;
    }),
              0);
    server.thread.join();
    EXPECT_LT(frames, 1'000);
    EXPECT_EQ(server.left, 1);
}

// The client's network loses a fifth of the datagrams, and delays each by 30 ms in each direction.
TEST(Runner, AClientPlaysOverASimulatedBadNetwork) {
    const RunnerFolder folder;
    StepsServer server(folder);
    ecs::World mirror;
    ClientRunner client(mirror, steps_schema(),
                        {.server = server.address(),
                         .key_file = folder.file("server.pub"),
                         .bad_network = {{.latency = std::chrono::milliseconds(30), .loss = 0.2}}});
    int frames = 0;
    net::Duration rtt{0};
    EXPECT_EQ(client.run([&] {
        const net::Client& endpoint = client.client().endpoint();
        if (client.client().is_connected()) rtt = endpoint.stats(endpoint.server()).rtt;
        return ++frames < 3'000 && steps_of(mirror, client) < 100;
    }),
              0);
    server.thread.join();
    EXPECT_LT(frames, 3'000);
    EXPECT_GE(rtt, std::chrono::milliseconds(55)) << "twice the latency, less rounding";
    EXPECT_EQ(server.left, 1);
}

TEST(Runner, AClientThatLosesItsConnectionComesBack) {
    const RunnerFolder folder;
    StepsServer server(folder);
    ecs::World mirror;
    ClientRunnerOptions options{.server = server.address(),
                                .key_file = folder.file("server.pub"),
                                .reconnect = {.pause = std::chrono::milliseconds(1)}};
    options.client.net.connection.max_packets = 60;  // then each connection ends as exhausted
    ClientRunner client(mirror, steps_schema(), options);
    int frames = 0, connections = 0;
    bool was_connected = false;
    EXPECT_EQ(client.run([&] {
        connections += client.client().is_connected() && !was_connected;
        was_connected = client.client().is_connected();
        return ++frames < 3'000 && (connections < 3 || steps_of(mirror, client) == 0);
    }),
              0);
    server.thread.join();
    EXPECT_EQ(connections, 3);
    EXPECT_EQ(server.joined, 1);
    EXPECT_EQ(server.back, 2);
    EXPECT_EQ(server.left, 1);
}

// The first client hangs, as if its process had crashed. The second one is its next start.
TEST(Runner, AnotherProcessTakesTheSeatBackWithTheTicketFile) {
    const RunnerFolder folder;
    StepsServer server(folder);
    const ClientRunnerOptions options{.server = server.address(),
                                      .key_file = folder.file("server.pub"),
                                      .ticket_file = folder.file("ticket")};
    std::ofstream(folder.file("ticket")) << "not a ticket, but a text of many bytes";
    ecs::World mirror, second_mirror;
    ClientRunner client(mirror, steps_schema(), options);
    int frames = 0, code = -1;
    testing::internal::CaptureStderr();
    EXPECT_EQ(client.run([&] {
        if (steps_of(mirror, client) < 20) return ++frames < 1'000;
        EXPECT_EQ(std::filesystem::file_size(folder.file("ticket")), Ticket::kBytes);
        EXPECT_EQ(std::filesystem::status(folder.file("ticket")).permissions(),
                  std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
        ClientRunner second(second_mirror, steps_schema(), options);
        code = second.run([&] { return ++frames < 1'000 && steps_of(second_mirror, second) == 0; });
        return false;
    }),
              0);
    testing::internal::GetCapturedStderr();
    server.thread.join();
    EXPECT_EQ(code, 0);
    EXPECT_LT(frames, 1'000);
    EXPECT_EQ(server.joined, 1);
    EXPECT_EQ(server.back, 1);
    EXPECT_EQ(server.left, 1);
    EXPECT_FALSE(std::filesystem::exists(folder.file("ticket"))) << "the second one left";
}

TEST(Runner, ErrorsAreOneLineThatNamesTheCause) {
    const RunnerFolder folder;
    ecs::World world;
    const auto expect_error = [](auto& runner, const std::string& cause) {
        EXPECT_NE(runner.error().find(cause), std::string::npos) << runner.error();
        EXPECT_EQ(runner.error().find('\n'), std::string::npos);
        testing::internal::CaptureStderr();
        EXPECT_EQ(runner.run(), 1);
        EXPECT_EQ(testing::internal::GetCapturedStderr(), runner.error() + "\n");
    };
    ServerRunner first(world, steps_schema(), {.port = 0, .key_file = folder.file("server.key")});
    ASSERT_TRUE(first.address());
    const std::uint16_t port = first.address()->port;
    ServerRunner second(world, steps_schema(), {.port = port, .key_file = folder.file("server.key")});
    expect_error(second, std::to_string(port));
    ServerRunner no_folder(world, steps_schema(), {.port = 0, .key_file = folder.file("none/server.key")});
    expect_error(no_folder, "none/server.key");
    EXPECT_FALSE(no_folder.address());
    ServerRunner same_file(world, steps_schema(), {.port = 0, .key_file = folder.file("server.pub")});
    expect_error(same_file, "server.pub");
    ClientRunner no_key(world, steps_schema(), {.key_file = folder.file("missing.pub")});
    expect_error(no_key, "missing.pub");
    std::ofstream(folder.file("bad.pub")) << "hello\n";
    ClientRunner bad_key(world, steps_schema(), {.key_file = folder.file("bad.pub")});
    expect_error(bad_key, "bad.pub");
    ClientRunner no_server(world, steps_schema(),
                           {.server = "1.2.3.4:99999", .key_file = folder.file("server.pub")});
    expect_error(no_server, "1.2.3.4:99999");
}

TEST(Runner, ErrorsArePrintedWithoutControlCharacters) {
    const RunnerFolder folder;
    ecs::World world;
    ClientRunner runner(world, steps_schema(), {.key_file = folder.file("a\nb\x1b[2J\xc3.pub")});
    testing::internal::CaptureStderr();
    EXPECT_EQ(runner.run(), 1);
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_NE(printed.find("a?b?[2J?.pub"), std::string::npos) << printed;
    EXPECT_EQ(printed.find('\n'), printed.size() - 1);
}

}  // namespace
}  // namespace shoal::replication::impl::runner_test
