// The tests play the other side of each connection in the same thread, so a call that waits for it never
// returns.
#include "demo/fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace shoal::demo {
namespace {

using namespace std::chrono_literals;

constexpr int kManySteps = 20'000;  // the system may deliver what was sent a little later

/// Stands in for the SDK server of Agones. Checks requests against
/// https://agones.dev/site/docs/guides/client-sdks/rest/ and answers as the test wants.
struct Sidecar {
    enum class Manner { answers, in_pieces, is_silent, hangs_up_early, hangs_up_late, babbles };

    Sidecar() {
        EXPECT_TRUE(listener.listen(0));
        port = listener.port();
    }

    void step() {
        if (manner == Manner::is_silent) return;
        if (!client.is_open()) {
            client = listener.accept();
            in.clear();
            out.clear();
            is_answered = false;
        }
        if (!client.is_open()) return;
        const std::size_t piece = manner == Manner::in_pieces ? 7 : 10'000;
        const bool is_connected = client.receive(in, in.size() + piece);
        if (!is_answered && manner == Manner::hangs_up_early && in.size() >= 10) return client.close();
        if (!is_answered && is_complete()) answer();
        const std::size_t size = manner == Manner::in_pieces ? 1 : 10'000;
        std::string part = out.substr(0, size);
        out.erase(0, part.size());
        const bool is_sent = client.send(part);
        if (!is_connected || !is_sent || (is_answered && out.empty())) client.close();
    }
    bool is_complete() const {
        const std::size_t end = in.find("\r\n\r\n");
        std::smatch length;
        return end != std::string::npos &&
               std::regex_search(in, length, std::regex("\r\nContent-Length: ([0-9]+)\r\n")) &&
               in.size() >= end + 4 + std::stoul(length[1]);
    }
    void answer() {
        is_answered = true;
        static const std::regex form(
            "(POST|PUT|PATCH) (/[^ ]*) HTTP/1\\.1\r\nHost: localhost:[0-9]+\r\n"
            "Content-Type: application/json\r\nContent-Length: ([0-9]+)\r\nConnection: close\r\n\r\n(.*)");
        std::smatch parts;
        if (!std::regex_match(in, parts, form)) {
            ADD_FAILURE() << "malformed: " << in;
            return;
        }
        const std::string call = parts.str(1) + " " + parts.str(2), body = parts.str(4);
        EXPECT_EQ(std::to_string(body.size()), parts.str(3)) << "Content-Length of " << in;
        std::string wanted = "none";
        if (call == "POST /ready" || call == "POST /health" || call == "POST /shutdown") wanted = "\\{\\}";
        if (call == "PUT /metadata/label")
            wanted = R"(\{"key":"[a-zA-Z0-9_.-]{1,40}","value":"[a-zA-Z0-9_.-]{1,63}"\})";
        if (call == "PATCH /v1beta1/counters/players") wanted = R"(\{"count":"[0-9]+","capacity":"[0-9]+"\})";
        EXPECT_TRUE(std::regex_match(body, std::regex(wanted))) << in;
        requests.push_back(call + " " + body);
        const int status = refused.contains(call) ? 500 : 200;
        out = "HTTP/1.1 " + std::to_string(status) + " Some Words\r\nContent-Length: 2\r\n\r\n{}";
        if (manner == Manner::hangs_up_late) out = "HTTP/1.1 2";
        if (manner == Manner::babbles) out = babble;
    }
    std::vector<std::string> take() {
        std::ranges::sort(requests);
        return std::exchange(requests, {});
    }

    Manner manner = Manner::answers;
    std::set<std::string> refused;
    std::string babble;
    std::vector<std::string> requests;
    std::uint16_t port = 0;
    LocalSocket listener, client;
    std::string in, out;
    bool is_answered = false;
};

/// A server of a fleet, and its Agones.
struct Tended {
    Sidecar sidecar;
    Agones agones{sidecar.port, "00ff", 64};
    net::Time now = 100s;
    std::size_t players = 0;
    std::vector<std::string> news;

    void tick() {
        agones.poll(now, players);
        if (std::string line = agones.take_news(); !line.empty()) news.push_back(line);
    }
    /// Ticks at the same time until Agones got so many requests, and for a while after that.
    std::vector<std::string> requests(std::size_t at_least) {
        for (int i = 0; i < kManySteps && sidecar.requests.size() < at_least; ++i) step();
        for (int i = 0; i < 200; ++i) step();
        return sidecar.take();
    }
    void step() {
        tick();
        sidecar.step();
    }
    /// Ticks at 30 Hz, and lets Agones finish what it says.
    void run(net::Duration time) {
        const auto may_come = [&] {
            return agones.is_asking() && sidecar.manner != Sidecar::Manner::is_silent;
        };
        for (const net::Time end = now + time; now < end; now += 33ms) {
            step();
            for (int i = 0; i < kManySteps && may_come(); ++i) step();
        }
    }
    static std::ptrdiff_t count(const std::vector<std::string>& requests, std::string_view beginning) {
        return std::ranges::count_if(requests, [&](auto& request) { return request.starts_with(beginning); });
    }
};

using Requests = std::vector<std::string>;

const std::string kNoPlayers = R"(PATCH /v1beta1/counters/players {"count":"0","capacity":"64"})";
const std::string kLabel = R"(PUT /metadata/label {"key":"schema","value":"00ff"})";

TEST(Agones, HearsOfReadinessAndPlayersOnceAndOfHealthEveryTwoSeconds) {
    Tended server;
    EXPECT_EQ(server.requests(4), (Requests{kNoPlayers, "POST /health {}", "POST /ready {}", kLabel}));
    server.now += 1'999ms;
    EXPECT_EQ(server.requests(0), Requests{});
    server.now += 1ms;
    EXPECT_EQ(server.requests(1), Requests{"POST /health {}"});

    server.now += 100ms;
    server.players = 3;
    EXPECT_EQ(server.requests(1),
              Requests{R"(PATCH /v1beta1/counters/players {"count":"3","capacity":"64"})"});
    server.run(20s);
    const Requests later = server.sidecar.take();
    EXPECT_EQ(later, Requests(later.size(), "POST /health {}"));
    EXPECT_EQ(later.size(), 9u) << "every 2,013 ms at 30 Hz, the first after 1,900 ms";
    EXPECT_EQ(
        server.news,
        (Requests{"Agones, POST /health: status 200", "Agones, PUT /metadata/label: status 200",
                  "Agones, POST /ready: status 200", "Agones, PATCH /v1beta1/counters/players: status 200"}));
}

TEST(Agones, HearsOfTheNewestCountOfPlayersIfItChangedWhileItAnswered) {
    const auto tells = [](int players) {
        return R"(PATCH /v1beta1/counters/players {"count":")" + std::to_string(players) +
               R"(","capacity":"64"})";
    };
    Tended server;
    server.requests(4);
    server.now += 2s;
    server.requests(1);
    server.players = 1;
    for (int i = 0; i < kManySteps && server.sidecar.requests.empty(); ++i) server.step();
    server.players = 2;
    EXPECT_EQ(server.requests(1), Requests{tells(1)});
    server.now += 2s;
    EXPECT_EQ(server.requests(2), (Requests{tells(2), "POST /health {}"}));
}

TEST(Agones, HearsNothingFromAServerWhoseTicksStop) {
    Tended server;
    server.requests(4);
    for (int i = 0; i < 1000; ++i) {
        server.now += 1s;
        server.sidecar.step();
    }
    EXPECT_EQ(server.sidecar.take(), Requests{});
    EXPECT_EQ(server.requests(1), Requests{"POST /health {}"}) << "the next tick";
}

TEST(Agones, MayStartAfterTheServer) {
    Tended server;
    server.sidecar.listener.close();
    server.run(10s);
    EXPECT_EQ(server.sidecar.take(), Requests{});
    EXPECT_EQ(server.news.size(), 4u) << "one line for each request, however often it is tried";
    EXPECT_EQ(server.news.front(), "Agones, POST /health: no answer");
    ASSERT_TRUE(server.sidecar.listener.listen(server.sidecar.port));
    server.run(3s);
    const Requests heard = server.sidecar.take();
    EXPECT_EQ(Tended::count(heard, "POST /ready"), 1);
    EXPECT_EQ(Tended::count(heard, "PUT"), 1);
    EXPECT_EQ(Tended::count(heard, "PATCH"), 1);
    EXPECT_GE(Tended::count(heard, "POST /health"), 1);
}

TEST(Agones, IsAskedAgainForWhatItRefused) {
    Tended server;
    server.sidecar.refused = {"POST /ready", "PATCH /v1beta1/counters/players"};
    server.run(10s);
    const Requests refused = server.sidecar.take();
    EXPECT_EQ(Tended::count(refused, "POST /health"), 5);
    EXPECT_EQ(Tended::count(refused, "POST /ready"), 5);
    EXPECT_EQ(Tended::count(refused, "PUT"), 1);
    EXPECT_EQ(Tended::count(refused, "PATCH"), 5) << "the fleet's specification may not have the counter";
    server.sidecar.refused.clear();
    server.run(4s);
    const Requests accepted = server.sidecar.take();
    EXPECT_EQ(Tended::count(accepted, "POST /ready"), 1);
    EXPECT_EQ(Tended::count(accepted, "PATCH"), 1);
}

TEST(Agones, MaySendAndReceiveInPieces) {
    Tended server;
    server.sidecar.manner = Sidecar::Manner::in_pieces;
    EXPECT_EQ(server.requests(4), (Requests{kNoPlayers, "POST /health {}", "POST /ready {}", kLabel}));
    server.run(10s);
    const Requests heard = server.sidecar.take();
    EXPECT_EQ(Tended::count(heard, "POST /health"), std::ssize(heard)) << "all answers were read";
    EXPECT_GE(std::ssize(heard), 4);
}

TEST(Agones, MayBeSilentWhileTheGameGoesOn) {
    Tended server;
    server.sidecar.manner = Sidecar::Manner::is_silent;
    server.run(60s);
    EXPECT_EQ(server.news.size(), 4u) << "each request was given up after a second";
    server.sidecar.manner = Sidecar::Manner::answers;
    server.run(5s);
    const Requests heard = server.sidecar.take();
    EXPECT_GE(Tended::count(heard, "POST /ready"), 1);
    EXPECT_GE(Tended::count(heard, "POST /health"), 2);
    server.run(10s);
    const Requests after = server.sidecar.take();
    EXPECT_EQ(after, Requests(after.size(), "POST /health {}"));
}

TEST(Agones, MayHangUpHalfWay) {
    for (const auto manner : {Sidecar::Manner::hangs_up_early, Sidecar::Manner::hangs_up_late}) {
        Tended server;
        server.sidecar.manner = manner;
        server.run(10s);
        EXPECT_EQ(server.news.size(), 4u);
        EXPECT_EQ(server.news.front(), "Agones, POST /health: no answer");
        server.sidecar.take();
        server.sidecar.manner = Sidecar::Manner::answers;
        server.run(4s);
        EXPECT_EQ(Tended::count(server.sidecar.take(), "POST /ready"), 1) << "what had no answer is repeated";
    }
}

TEST(Agones, MayAnswerNonsense) {
    for (const std::string& nonsense :
         {std::string(100'000, 'x'), std::string("HTTP/1.1 2xx\r\n"), std::string("HTTP/1.1\r\n"),
          std::string("\n"), std::string("HTTP/1.1 -20 \r\n"), std::string("SSH-2.0-OpenSSH\r\n"),
          std::string("HTTP/1.1 020 \r\n"), std::string(300, '\0')}) {
        Tended server;
        server.sidecar.manner = Sidecar::Manner::babbles;
        server.sidecar.babble = nonsense;
        server.run(5s);
        EXPECT_EQ(server.news.size(), 4u);
        for (const std::string& line : server.news) EXPECT_TRUE(line.ends_with("no answer")) << line;
        EXPECT_GE(Tended::count(server.sidecar.take(), "POST /ready"), 2);
    }
}

TEST(Agones, IsAskedToShutTheServerDownUntilItAccepts) {
    Tended server;
    server.requests(4);
    server.sidecar.refused = {"POST /shutdown"};
    server.players = 5;
    server.agones.shut_down();
    EXPECT_EQ(server.requests(1), Requests{"POST /shutdown {}"});
    EXPECT_FALSE(server.agones.is_shut_down());
    server.sidecar.refused.clear();
    server.now += 2s;
    EXPECT_EQ(server.requests(1), Requests{"POST /shutdown {}"});
    EXPECT_TRUE(server.agones.is_shut_down());
    server.run(10s);
    EXPECT_EQ(server.sidecar.take(), Requests{});
}

TEST(Agones, IsFoundAtThePortOfTheFlagOrOfTheEnvironment) {
    EXPECT_EQ(agones_port("agones", nullptr), 9358);
    EXPECT_EQ(agones_port("agones", "1234"), 1234);
    EXPECT_EQ(agones_port("agones:77", "1234"), 77);
    for (const char* wrong : {"", "agone", "agones:", "agones:x", "agones:0", "agones:65536", "agones:-1",
                              "agones:1 ", "77", "nomad:77", "AGONES"})
        EXPECT_EQ(agones_port(wrong, "1234"), 0) << wrong;
    for (const char* wrong : {"", "x", "0", "65536", " 1"})
        EXPECT_EQ(agones_port("agones", wrong), 0) << wrong;
}

constexpr Metric kMetrics[] = {{"shoal_players", "gauge", "Players that play.", 3},
                               {"shoal_sent_bytes_total", "counter", "Bytes.", 12'345'678'901'234},
                               {"shoal_tick_seconds_total", "counter", "Time.", 0.25}};

TEST(Metrics, AreTextForPrometheusAndOneLine) {
    EXPECT_EQ(to_text(kMetrics),
              "# HELP shoal_players Players that play.\n# TYPE shoal_players gauge\nshoal_players 3\n"
              "# HELP shoal_sent_bytes_total Bytes.\n# TYPE shoal_sent_bytes_total counter\n"
              "shoal_sent_bytes_total 12345678901234\n"
              "# HELP shoal_tick_seconds_total Time.\n# TYPE shoal_tick_seconds_total counter\n"
              "shoal_tick_seconds_total 0.25\n");
    EXPECT_EQ(to_line(kMetrics),
              "shoal_players=3 shoal_sent_bytes_total=12345678901234 shoal_tick_seconds_total=0.25");
}

/// A server whose metrics are read.
struct Watched {
    MetricsServer metrics;
    net::Time now = 100s;
    std::string text = "shoal_players 3\n";
    int reads = 0;

    Watched() { EXPECT_TRUE(metrics.listen(0)); }
    void tick() {
        metrics.poll(now, [&] {
            ++reads;
            return text;
        });
    }
    /// Sends a request in pieces, and returns the answer, until the server hangs up.
    std::string ask(std::string request, std::size_t piece = 10'000) {
        LocalSocket client;
        EXPECT_TRUE(client.connect(metrics.port()));
        std::string answer;
        for (int i = 0; i < kManySteps; ++i) {
            std::string part = request.substr(0, piece);
            const std::size_t size = part.size();
            EXPECT_TRUE(client.send(part) || request.empty());
            request.erase(0, size - part.size());
            tick();
            if (!client.receive(answer, 100'000'000)) return answer;
        }
        ADD_FAILURE() << "the server does not hang up";
        return answer;
    }
};

const std::string kAnswer =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n"
    "Content-Length: 16\r\n\r\nshoal_players 3\n";

TEST(Metrics, AnswerWhoeverAsks) {
    Watched server;
    server.tick();
    EXPECT_EQ(server.reads, 0);
    EXPECT_EQ(server.ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), kAnswer);
    EXPECT_EQ(server.ask("GET /metrics HTTP/1.0\r\n\r\n", 1), kAnswer) << "in pieces";
    EXPECT_EQ(server.reads, 2);
    for (const char* other : {"GET / HTTP/1.1\r\n\r\n", "POST /metrics HTTP/1.1\r\n\r\n", "\r\n\r\n"})
        EXPECT_TRUE(server.ask(other).starts_with("HTTP/1.1 404 Not Found\r\n")) << other;
    EXPECT_EQ(server.reads, 2);
    server.text.assign(3'000'000, 'x');
    const std::string large = server.ask("GET /metrics HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(large.ends_with(server.text)) << large.size();
}

TEST(Metrics, DoNotWaitForClients) {
    Watched server;
    LocalSocket silent, half, greedy;
    ASSERT_TRUE(silent.connect(server.metrics.port()));
    for (int i = 0; i < 1000; ++i) server.tick();
    ASSERT_TRUE(half.connect(server.metrics.port()));
    std::string beginning = "GET /metr";
    EXPECT_TRUE(half.send(beginning));
    half.close();
    server.now += 1s;
    EXPECT_EQ(server.ask("GET /metrics HTTP/1.1\r\n\r\n"), kAnswer) << "the two before have had their time";
    std::string nothing;
    for (int i = 0; i < kManySteps && silent.receive(nothing, 1); ++i) server.tick();
    EXPECT_FALSE(silent.receive(nothing, 1)) << "the server hung up";

    EXPECT_EQ(server.ask("GET /metrics" + std::string(4084, 'x')), "") << "too long";
    server.text.assign(50'000'000, 'x');
    std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
    ASSERT_TRUE(greedy.connect(server.metrics.port()));
    EXPECT_TRUE(greedy.send(request));
    for (int i = 0; i < kManySteps && server.reads < 2; ++i) server.tick();
    EXPECT_EQ(server.reads, 2);
    server.now += 1s;  // this client reads nothing
    server.text = "shoal_players 3\n";
    server.tick();
    EXPECT_EQ(server.ask("GET /metrics HTTP/1.1\r\n\r\n"), kAnswer);
}

TEST(LocalSocket, SaysIfAPortCannotBeUsed) {
    LocalSocket first, second;
    ASSERT_TRUE(first.listen(0));
    EXPECT_NE(first.port(), 0);
    EXPECT_FALSE(second.listen(first.port()));
    EXPECT_FALSE(second.is_open());
    EXPECT_EQ(second.port(), 0);
    EXPECT_FALSE(second.accept().is_open());
    std::string text = "x";
    EXPECT_FALSE(second.send(text));
    EXPECT_FALSE(second.receive(text, 10));
    EXPECT_FALSE(first.accept().is_open()) << "nobody connects";
    second = std::move(first);
    EXPECT_TRUE(second.is_open());
    EXPECT_FALSE(first.is_open());
}

}  // namespace
}  // namespace shoal::demo
