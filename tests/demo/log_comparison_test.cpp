#include "demo/log_comparison.h"

#include <gtest/gtest.h>

#include <sstream>

namespace shoal::demo {
namespace {

std::string line(std::uint64_t tick, int entities = 3) {
    return "tick=" + std::to_string(tick) + " entities=" + std::to_string(entities) +
           " hash=00000000000000ab";
}

std::vector<LogLine> log(std::uint64_t first, std::uint64_t last) {
    std::vector<LogLine> lines;
    for (std::uint64_t tick = first; tick <= last; ++tick) lines.push_back({tick, line(tick)});
    return lines;
}

std::string error_of(const std::string& text) {
    std::istringstream in(text);
    std::string error;
    const bool is_good = read_log(in, error).has_value();
    EXPECT_EQ(is_good, error.empty());
    return error;
}

TEST(LogComparison, ReadsOnlyWellFormedLogs) {
    EXPECT_EQ(error_of(line(1) + "\n" + line(2) + "\n" + line(9) + "\n"), "");
    EXPECT_NE(error_of(""), "");
    EXPECT_NE(error_of(line(2) + "\n" + line(2) + "\n"), "");
    EXPECT_NE(error_of(line(2) + "\n" + line(1) + "\n"), "");
    const std::string whole = line(12);
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_NE(error_of(whole.substr(0, size) + "\n"), "") << size;
    EXPECT_NE(error_of(whole + " \n"), "");
    EXPECT_NE(error_of("tick=-1 entities=3 hash=00000000000000ab"), "");
    EXPECT_NE(error_of("tick=1 entities=3 hash=00000000000000AB"), "");
}

TEST(LogComparison, CountsFromTheClientsFirstTick) {
    const Comparison result = compare_logs(log(1, 100), log(41, 100), 90);
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.compared, 60u);
    EXPECT_EQ(result.possible, 60u);
}

TEST(LogComparison, FindsADifference) {
    std::vector<LogLine> client = log(1, 100);
    client[50].text = line(51, 4);
    EXPECT_NE(compare_logs(log(1, 100), client, 90).error.find("worlds differ"), std::string::npos);
}

TEST(LogComparison, FailsIfTheLastTickOrTooManyTicksAreMissing) {
    EXPECT_NE(compare_logs(log(1, 100), log(1, 99), 90).error.find("100"), std::string::npos);
    EXPECT_NE(compare_logs(log(1, 100), log(1, 101), 90).error.find("101"), std::string::npos);
    EXPECT_NE(compare_logs(log(50, 100), log(49, 100), 90).error.find("49"), std::string::npos);
    std::vector<LogLine> client = log(1, 100);
    client.erase(client.begin() + 20, client.begin() + 40);
    EXPECT_NE(compare_logs(log(1, 100), client, 90).error, "");
    EXPECT_EQ(compare_logs(log(1, 100), client, 80).error, "");
}

TEST(LogComparison, FindsTheValueOfAKey) {
    EXPECT_EQ(value_of("summary entities=12 kB/s=3.5 name=a b=c", "entities"), "12");
    EXPECT_EQ(value_of("summary entities=12 kB/s=3.5 name=a b=c", "kB/s"), "3.5");
    EXPECT_EQ(value_of("summary entities=12 kB/s=3.5 name=a b=c", "name"), "a b=c");
    EXPECT_EQ(value_of("", "name"), "-");
}

}  // namespace
}  // namespace shoal::demo
