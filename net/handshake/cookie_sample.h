#pragma once
// The cookies that answered a request and were not tried yet. An attacker who sees the request can forge
// cookies faster than the server answers. So the client tries one cookie after another.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace shoal::net::impl {

struct Cookie {
    Cookie(std::uint64_t cookie = 0, std::size_t server = 0) : number(cookie), from(server) {}
    friend bool operator==(const Cookie&, const Cookie&) = default;
    std::uint64_t number;
    std::size_t from;  // index of the server's address that it came from
};

/// A bounded sample: if more than kMax cookies come, each has the same chance to be kept. Source: Vitter,
/// "Random Sampling with a Reservoir", 1985, algorithm R.
class CookieSample {
public:
    /// The most cookies that the sample keeps, and the most that take() returns after a clear().
    static constexpr std::size_t kMax = 32;

    void clear() { waiting_ = given_ = 0, came_ = 0; }
    bool has(const Cookie& cookie) const {
        const auto end = cookies_.begin() + static_cast<std::ptrdiff_t>(waiting_);
        return std::find(cookies_.begin(), end, cookie) != end;
    }
    /// Requires that the cookie is not in the sample, and was not taken since clear(). `random`: a number
    /// that nobody can guess; it decides which cookies are kept if there are too many.
    void add(const Cookie& cookie, std::uint64_t random) {
        came_ += 1;
        const std::uint64_t place = waiting_ < kMax ? waiting_++ : random % came_;
        if (place < kMax) cookies_[static_cast<std::size_t>(place)] = cookie;
    }
    /// Takes a random cookie. Returns nothing if none is left, or kMax were taken.
    std::optional<Cookie> take(std::uint64_t random) {
        if (!has_more()) return std::nullopt;
        given_ += 1;
        std::swap(cookies_[static_cast<std::size_t>(random % waiting_)], cookies_[waiting_ - 1]);
        return cookies_[--waiting_];
    }
    bool has_more() const { return waiting_ > 0 && given_ < kMax; }
    /// The number of cookies added since clear().
    std::uint64_t came() const { return came_; }

private:
    std::array<Cookie, kMax> cookies_{};
    std::size_t waiting_ = 0, given_ = 0;
    std::uint64_t came_ = 0;
};

}  // namespace shoal::net::impl
