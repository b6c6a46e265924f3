#pragma once
// The cookies that came in answer to a request. Who sees the request can forge some, faster than the server
// makes its own, and only the server knows which one is genuine. So they all get their turn.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace shoal::net {

/// A bounded sample: of more cookies than it keeps, each has the same chance, whether it came first or last.
/// Source: Vitter, "Random Sampling with a Reservoir", 1985, algorithm R.
class CookieSample {
public:
    /// To be tried, and tried.
    static constexpr std::size_t kMost = 32;

    void clear() { waiting_ = tried_ = came_ = 0; }
    /// Whether it waits or was tried.
    bool has(std::uint64_t cookie) const {
        const auto is_in = [&](std::span<const std::uint64_t> some) {
            return std::find(some.begin(), some.end(), cookie) != some.end();
        };
        return is_in(std::span(cookies_).first(waiting_)) || is_in(std::span(tried_cookies_).first(tried_));
    }
    /// Requires !has(cookie). `random`: a number that nobody can guess; it decides who stays when there are
    /// too many.
    void add(std::uint64_t cookie, std::uint64_t random) {
        came_ += 1;
        if (waiting_ < kMost) {
            cookies_[waiting_++] = cookie;
            return;
        }
        const std::uint64_t place = random % came_;
        if (place < kMost) cookies_[place] = cookie;
    }
    /// One to try, any. Nothing if there is none, or kMost were tried.
    std::optional<std::uint64_t> take(std::uint64_t random) {
        if (!has_more()) return std::nullopt;
        std::swap(cookies_[random % waiting_], cookies_[waiting_ - 1]);
        waiting_ -= 1;
        return tried_cookies_[tried_++] = cookies_[waiting_];
    }
    bool has_more() const { return waiting_ > 0 && tried_ < kMost; }
    /// Whether only one came since clear().
    bool is_single() const { return came_ == 1; }

private:
    std::array<std::uint64_t, kMost> cookies_{}, tried_cookies_{};
    std::size_t waiting_ = 0, tried_ = 0;
    std::uint64_t came_ = 0;  // different ones, as far as that is known
};

}  // namespace shoal::net
