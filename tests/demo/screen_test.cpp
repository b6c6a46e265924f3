#include "demo/screen.h"

#include <gtest/gtest.h>

#include <random>

namespace shoal::demo {
namespace {

/// A simple model of a terminal: follows cursor moves and clears, stores characters, ignores colours.
struct ModelTerminal {
    int columns, rows;
    std::vector<std::string> lines = std::vector<std::string>(
        static_cast<std::size_t>(rows), std::string(static_cast<std::size_t>(columns), '#'));
    std::size_t row = 0, column = 0;

    void take(const std::string& bytes) {
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            if (bytes[i] != '\x1b') {
                ASSERT_TRUE(bytes[i] >= ' ' && bytes[i] <= '~');
                lines.at(row).at(column++) = bytes[i];
                continue;
            }
            const std::size_t end = bytes.find_first_of("HJmhl", i);
            if (bytes[end] == 'H') {
                std::size_t used = 0;
                row = std::stoul(bytes.substr(i + 2), &used) - 1;
                column = std::stoul(bytes.substr(i + 3 + used)) - 1;
            }
            if (bytes[end] == 'J')
                for (std::string& line : lines) line.assign(line.size(), ' ');
            i = end;
        }
    }
};

TEST(Screen, SendsOnlyWhatChanged) {
    Screen screen;
    screen.resize(20, 5);
    screen.text(2, 2, "hello", {});
    EXPECT_NE(screen.update(), "");
    screen.clear({});
    screen.text(2, 2, "hello", {});
    EXPECT_EQ(screen.update(), "");
    screen.put(3, 2, 'a', {});
    EXPECT_LT(screen.update().size(), 60u);
}

TEST(Screen, IgnoresPositionsOutside) {
    Screen screen;
    screen.resize(4, 2);
    screen.text(-2, 0, "abcdefgh", {});
    screen.text(0, -1, "x", {});
    screen.text(0, 2, "x", {});
    ModelTerminal terminal{4, 2};
    terminal.take(screen.update());
    EXPECT_EQ(terminal.lines, (std::vector<std::string>{"cdef", "    "}));
}

TEST(Screen, NeverSendsControlCharactersOfTexts) {
    Screen screen;
    screen.resize(300, 1);
    std::string every;
    for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
    screen.text(0, 0, every, {});
    ModelTerminal terminal{300, 1};
    terminal.take(screen.update());
    for (int c = 0; c < 256; ++c)
        EXPECT_EQ(terminal.lines[0][static_cast<std::size_t>(c)],
                  c < ' ' || c > '~' ? '?' : static_cast<char>(c));
}

// Goal: the terminal shows the frame, whatever changed.
// Method: seeded frames with few and many changes, and resizes, compared with a model terminal.
TEST(Screen, MatchesModelTerminal) {
    std::mt19937 random(7);
    Screen screen;
    for (int size = 0; size < 20; ++size) {
        const int columns = 1 + static_cast<int>(random() % 30), rows = 1 + static_cast<int>(random() % 8);
        screen.resize(columns + 100, rows);  // forces a new size
        screen.resize(columns, rows);
        ModelTerminal terminal{columns, rows};
        std::vector<std::string> frame(static_cast<std::size_t>(rows),
                                       std::string(static_cast<std::size_t>(columns), ' '));
        for (int step = 0; step < 50; ++step) {
            for (auto changes = random() % 10; changes > 0; --changes) {
                const std::size_t row = random() % frame.size(), column = random() % frame[0].size();
                frame[row][column] = static_cast<char>('a' + random() % 26);
                const Style style{static_cast<std::uint8_t>(random() % 4), 0, random() % 2 == 0};
                screen.put(static_cast<int>(column), static_cast<int>(row), frame[row][column], style);
            }
            terminal.take(screen.update());
            ASSERT_EQ(terminal.lines, frame);
        }
    }
}

}  // namespace
}  // namespace shoal::demo
