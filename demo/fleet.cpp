#include "fleet.h"

#include <charconv>
#include <sstream>

namespace shoal::demo {
namespace {

constexpr net::Duration kPatience = std::chrono::seconds(1), kInterval = std::chrono::seconds(2);
constexpr std::size_t kMaxStatusLine = 256, kMaxMetricsRequest = 4096;
constexpr std::array<std::string_view, 5> kCalls = {"POST /shutdown", "POST /health", "PUT /metadata/label",
                                                    "POST /ready", "PATCH /v1beta1/counters/players"};

/// Returns 0 if this is no whole number.
std::uint16_t whole_number(std::string_view digits) {
    std::uint16_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return error == std::errc() && end == digits.data() + digits.size() ? number : std::uint16_t{0};
}

/// Returns the status of an HTTP answer, 0 if the first line is not complete, or -1 if it is malformed.
int status_in(std::string_view answer) {
    const std::size_t end = answer.find('\n');
    if (end == std::string_view::npos) return answer.size() < kMaxStatusLine ? 0 : -1;
    const int status = answer.starts_with("HTTP/1.") && end > 12 ? whole_number(answer.substr(9, 3)) : 0;
    return status >= 100 ? status : -1;
}

}  // namespace

std::uint16_t agones_port(std::string_view fleet, const char* environment) {
    if (fleet == "agones") return whole_number(environment ? environment : "9358");
    return whole_number(fleet.starts_with("agones:") ? fleet.substr(7) : "");
}

Agones::Agones(std::uint16_t port, std::string schema, std::size_t capacity)
    : port_(port), schema_(std::move(schema)), capacity_(std::to_string(capacity)) {}

void Agones::poll(net::Time now, std::size_t players) {
    if (players != players_) is_done_[count] = false;
    if (!socket_.is_open()) {
        request_ = next(now);
        if (request_ == none) return;
        if (request_ == count) players_ = players;
        deadline_ = now + kPatience;
        due_[request_] = now + kInterval;
        out_ = write(request_);
        in_.clear();
        if (!socket_.connect(port_)) return finish(-1);
    }
    const bool is_connected = socket_.send(out_) && socket_.receive(in_, kMaxStatusLine);
    if (const int status = status_in(in_); status != 0) return finish(status);
    if (!is_connected || now >= deadline_) finish(-1);
}

void Agones::shut_down() {
    if (!is_ending_) socket_.close();
    is_ending_ = true;
}

Agones::Request Agones::next(net::Time now) const {
    Request first = none;
    for (const Request request : {shutdown, health, label, ready, count})
        if ((request == shutdown) == is_ending_ && !is_done_[request] && now >= due_[request] &&
            (first == none || due_[request] < due_[first]))
            first = request;
    return first;
}

std::string Agones::write(Request request) const {
    std::string body = "{}";  // an empty body gets the status 200, but is no heartbeat
    if (request == label) body = R"({"key":"schema","value":")" + schema_ + R"("})";
    if (request == count)
        body = R"({"count":")" + std::to_string(players_) + R"(","capacity":")" + capacity_ + R"("})";
    return std::string(kCalls[request]) + " HTTP/1.1\r\nHost: localhost:" + std::to_string(port_) +
           "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\nConnection: close\r\n\r\n" + body;
}

/// Ends the running request; `status` as in answers_.
void Agones::finish(int status) {
    socket_.close();
    is_done_[request_] = request_ != health && status >= 200 && status < 300;
    if (std::exchange(answers_[request_], status) == status) return;
    news_ = "Agones, " + std::string(kCalls[request_]) + ": ";
    news_ += status < 0 ? "no answer" : "status " + std::to_string(status);
}

std::string to_text(std::span<const Metric> metrics) {
    std::ostringstream out;
    out.precision(15);
    for (const auto& [name, type, help, value] : metrics)
        out << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n'
            << name << ' ' << value << '\n';
    return out.str();
}

std::string to_line(std::span<const Metric> metrics) {
    std::ostringstream out;
    out.precision(15);
    for (const Metric& metric : metrics)
        out << (&metric == metrics.data() ? "" : " ") << metric.name << '=' << metric.value;
    return out.str();
}

void MetricsServer::poll(net::Time now, const std::function<std::string()>& text) {
    if (!client_.is_open()) {
        client_ = listener_.accept();
        if (!client_.is_open()) return;
        deadline_ = now + kPatience;
        in_ = out_ = "";
    }
    const bool more = client_.receive(in_, kMaxMetricsRequest) && in_.size() < kMaxMetricsRequest;
    if (out_.empty() && in_.find("\r\n\r\n") != std::string::npos) {
        const bool is_known = in_.starts_with("GET /metrics ");
        const std::string body = is_known ? text() : "see /metrics\n";
        out_ = is_known ? "HTTP/1.1 200 OK" : "HTTP/1.1 404 Not Found";
        out_ += "\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body;
    }
    const bool waits = out_.empty() ? more : client_.send(out_) && !out_.empty();
    if (!waits || now >= deadline_) client_.close();
}

}  // namespace shoal::demo
