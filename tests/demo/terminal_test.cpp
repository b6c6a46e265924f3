#include "demo/terminal.h"

#include <gtest/gtest.h>

#include <random>

namespace shoal::demo {
namespace {

std::vector<Key> take_all(std::string input) {
    std::vector<Key> keys = take_keys(input);
    EXPECT_EQ(input, "");
    return keys;
}

TEST(Terminal, ReadsLettersAndArrows) {
    EXPECT_EQ(take_all("wasd fq"), (std::vector<Key>{Key::up, Key::left, Key::down, Key::right, Key::stop,
                                                     Key::shoot, Key::quit}));
    EXPECT_EQ(take_all("\x1b[A\x1b[B\x1b[C\x1b[D"),
              (std::vector<Key>{Key::up, Key::down, Key::right, Key::left}));
    EXPECT_EQ(take_all("\x1bOA"), std::vector<Key>{Key::up});
    EXPECT_EQ(take_all("1560"), (std::vector<Key>{Key::throw_1, Key::throw_5}));
}

TEST(Terminal, EnterOpensALineOfText) {
    std::string input = "w\nhew\x7flloq";
    EXPECT_EQ(take_keys(input), (std::vector<Key>{Key::up, Key::talk}));
    std::string line;
    EXPECT_FALSE(take_line(input, line, 7));
    EXPECT_EQ(line, "helloq");
    input = "\b, \x01world\nq";
    EXPECT_TRUE(take_line(input, line, 7));
    EXPECT_EQ(line, "hello, ");
    EXPECT_EQ(input, "q") << "a key again";
    input = "no\x1b[Aw";
    EXPECT_TRUE(take_line(input, line, 7));
    EXPECT_EQ(line, "");
    EXPECT_EQ(input, "");
}

TEST(Terminal, SkipsOtherSequences) {
    EXPECT_EQ(take_all("\x1b[15~w\x1b[1;5Cw\xc3\xa4x"), (std::vector<Key>{Key::up, Key::up}));
    EXPECT_EQ(take_all("\x1bw"), std::vector<Key>{Key::up});
}

TEST(Terminal, WaitsForTheRestOfASequence) {
    std::string input = "w\x1b[";
    EXPECT_EQ(take_keys(input), std::vector<Key>{Key::up});
    EXPECT_EQ(input, "\x1b[");
    input += "D";
    EXPECT_EQ(take_keys(input), std::vector<Key>{Key::left});
    EXPECT_EQ(input, "");
}

TEST(Terminal, KeepsAtMostTwentyBytes) {
    std::mt19937 random(3);
    std::string input;
    for (int step = 0; step < 100'000; ++step) {
        input += random() % 4 == 0 ? '\x1b' : static_cast<char>(random());
        if (random() % 2 == 0) input += random() % 2 == 0 ? '[' : '0';
        take_keys(input);
        ASSERT_LE(input.size(), 20u);
    }
}

}  // namespace
}  // namespace shoal::demo
