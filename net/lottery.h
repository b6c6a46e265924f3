#pragma once
// Limits how often something is done for strangers: each request is granted at random. So an address that
// asks often does not exclude the others, and no address has to be remembered.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "endpoint.h"

namespace shoal::net::all {

class Lottery {
public:
    static constexpr Duration kSlice = std::chrono::milliseconds(100);
    static constexpr int kSavedSlices = 3;

    /// Returns whether this draw wins. In each kSlice, `most` win on average; after slices with fewer draws,
    /// up to kSavedSlices times as many in one slice. If draws become more frequent, more may win in one
    /// slice. `random`: an unpredictable number.
    bool draw(double most, std::uint64_t random, Time now) {
        if (now - slice_ >= kSlice) {
            const double left = (std::max)(allowed_ - draws_, 0.0),
                         earned = most * double((now - slice_) / kSlice);
            allowed_ = (std::min)(left + earned, most * kSavedSlices);
            draws_before_ = std::exchange(draws_, 0);
            slice_ = now;
        }
        draws_ += 1;
        return double(random >> 11) * 0x1p-53 < allowed_ / (std::max)(draws_, draws_before_);
    }

private:
    std::uint32_t draws_ = 0, draws_before_ = 0;  // in this slice, and in the previous one
    double allowed_ = 0;                          // how many win in this slice, on average
    Time slice_{0};                               // when this slice began
};

}  // namespace shoal::net::all
