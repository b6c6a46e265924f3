#pragma once
// What those who run many servers need of each: a heartbeat to Agones, and metrics as text. No call waits.
// All of it happens in the server's tick, so a server that hangs gives no sign of life.

#include <array>
#include <functional>
#include <span>
#include <string_view>

#include "local_socket.h"
#include "net/endpoint.h"

namespace shoal::demo {

/// The port that a value of --fleet names: "agones:PORT"; or "agones", which stands for `environment`, the
/// value of AGONES_SDK_HTTP_PORT, or for 9358 if that is null. Returns 0 if it names no port.
std::uint16_t agones_port(std::string_view fleet, const char* environment);

/// Tells Agones of this server: health every two seconds; a label, readiness and each new count of players as
/// often, until Agones accepts them. One request at a time, on a connection of its own, for at most a second.
/// Source: https://agones.dev/site/docs/guides/client-sdks/rest/
class Agones {
public:
    /// `schema`: value of the label agones.dev/sdk-schema. `capacity`: of the counter "players".
    Agones(std::uint16_t port, std::string schema, std::size_t capacity);

    void poll(net::Time now, std::size_t players);
    /// From now on poll() only asks Agones to shut this server down, until Agones accepts that.
    void shut_down();
    bool is_shut_down() const { return is_done_[shutdown]; }
    bool is_asking() const { return socket_.is_open(); }  // and has no answer yet
    /// A line about the newest answer, if the last answer to the same request was another one.
    std::string take_news() { return std::exchange(news_, {}); }

private:
    enum Request : std::uint8_t { shutdown, health, label, ready, count, none };
    Request next(net::Time now) const;
    std::string write(Request request) const;
    void finish(int status);

    std::uint16_t port_;
    std::string schema_, capacity_;
    std::size_t players_ = 0;  // in the last request that told a number
    LocalSocket socket_;
    Request request_ = none;  // runs while the socket is open
    std::string out_, in_, news_;
    net::Time deadline_{0};
    bool is_ending_ = false;
    std::array<bool, none> is_done_{};
    std::array<net::Time, none> due_{};
    std::array<int, none> answers_{};  // the last HTTP status; 0: none yet; -1: there was no answer
};

struct Metric {
    std::string_view name, type, help;  // type: counter or gauge
    double value;
};
std::string to_text(std::span<const Metric> metrics);  // as Prometheus reads them
std::string to_line(std::span<const Metric> metrics);  // name=value name=value

/// Answers GET /metrics, one connection at a time, each for at most a second.
class MetricsServer {
public:
    bool listen(std::uint16_t port) { return listener_.listen(port); }
    std::uint16_t port() const { return listener_.port(); }
    /// Calls `text` if somebody asks. No effect before listen().
    void poll(net::Time now, const std::function<std::string()>& text);

private:
    LocalSocket listener_, client_;
    std::string in_, out_;
    net::Time deadline_{0};
};

}  // namespace shoal::demo
