#include "net/ack_window.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace shoal::net::impl {
namespace {

// Goal: AckWindow equals sets of all numbers, with gaps, late packets, duplicates and withheld acks.
// Method: seeded arrivals around a moving newest number, from several first numbers; compares every bit each
// step.
TEST(AckWindow, MatchesSetModel) {
    int runs = 0;
    for (const std::uint64_t first : {1ull, 250ull, 65'500ull, (1ull << 32) - 50, 1ull << 62}) {
        for (std::uint32_t seed = 1; seed <= 10; ++seed) {
            SCOPED_TRACE(testing::Message() << "first " << first << " seed " << seed);
            std::mt19937 random(seed);
            AckWindow window(first);
            std::set<std::uint64_t> arrived, accepted;
            std::map<std::uint64_t, Time> accepted_at;
            std::uint64_t head = first;
            std::int64_t credit = 64;
            std::uint64_t next = 0;  // the number after the last early packet
            int in_a_row = 0;        // consecutive early packets since another arrived
            Time now(0), arrived_at(0);
            for (int step = 0; step < 3000; ++step) {
                now += random() % 20 == 0 ? AckWindow::kGap : Duration(step % 3);
                head += random() % 50 == 0 ? random() % 200 : random() % 3;
                const std::uint64_t number =
                    in_a_row != 0 && random() % 8 != 0
                        ? next
                        : std::max(first, head - std::min<std::uint64_t>(head, random() % 80));
                const std::uint64_t newest = arrived.empty() ? first - 1 : *arrived.rbegin();
                const bool is_stale = number + 64 < newest;
                const std::int64_t skipped = number > newest ? std::int64_t(number - newest - 1) : 0;
                const bool ends_run = in_a_row >= AckWindow::kRun - 1 && number == next;
                const bool is_early = skipped > credit && now < arrived_at + AckWindow::kGap && !ends_run;
                const auto expected = is_stale                   ? AckWindow::State::stale
                                      : is_early                 ? AckWindow::State::early
                                      : arrived.contains(number) ? AckWindow::State::duplicate
                                                                 : AckWindow::State::fresh;
                ASSERT_EQ(window.state(number, now), expected) << number;
                if (expected == AckWindow::State::early) {
                    window.drop_early(number);
                    in_a_row = number == next ? in_a_row + 1 : 1;
                    next = number + 1;
                    runs += in_a_row == AckWindow::kRun - 1;
                }
                if (expected == AckWindow::State::fresh) {
                    window.arrive(number, now);
                    arrived.insert(number);
                    arrived_at = now;
                    in_a_row = 0;
                    credit = skipped > credit
                                 ? 64
                                 : std::min<std::int64_t>(64, credit - skipped + (number > newest ? 4 : 1));
                    if (random() % 4 != 0) {
                        window.accept(number, now);
                        accepted.insert(number);
                        accepted_at[number] = now;
                    }
                }
                if (arrived.empty()) continue;
                ASSERT_EQ(window.newest_arrived(), *arrived.rbegin());
                // Acceptance is forgotten where no ack can name the packet any more.
                std::uint64_t newest_accepted = first - 1;
                if (!accepted.empty() && *accepted.rbegin() + 64 >= *arrived.rbegin()) {
                    newest_accepted = *accepted.rbegin();
                    ASSERT_TRUE(window.has_acks());
                    const Acks acks = window.acks(now + Duration(7));
                    ASSERT_TRUE(acks.present);
                    ASSERT_EQ(acks.newest, static_cast<std::uint16_t>(newest_accepted));
                    ASSERT_EQ(acks.delay, now + Duration(7) - accepted_at[newest_accepted]);
                    for (unsigned n = 0; n < 64; ++n) {
                        const std::uint64_t older = newest_accepted - 1 - n;
                        const bool is_kept = older + 64 >= *arrived.rbegin();
                        const bool was = older < first || older > newest_accepted || accepted.contains(older);
                        ASSERT_EQ(acks.bits >> n & 1, is_kept && was) << "bit " << n;
                    }
                } else {
                    ASSERT_FALSE(window.has_acks());
                    ASSERT_FALSE(window.acks(now).present);
                }
            }
        }
    }
    EXPECT_GE(runs, 100) << "the test no longer plays packets that come early in a row";
}

TEST(AckWindow, CountsAllNumbersBeforeTheFirstAsArrived) {
    AckWindow window(1);
    EXPECT_FALSE(window.has_acks());
    EXPECT_EQ(window.state(0, Time(5)), AckWindow::State::duplicate);
    EXPECT_EQ(window.state(1, Time(5)), AckWindow::State::fresh);
    window.arrive(1, Time(5));
    EXPECT_FALSE(window.has_acks());
    window.accept(1, Time(5));
    EXPECT_TRUE(window.has_acks());
    EXPECT_EQ(window.acks(Time(5)).newest, 1u);
    EXPECT_EQ(window.acks(Time(5)).bits, ~0ull);
}

}  // namespace
}  // namespace shoal::net::impl
