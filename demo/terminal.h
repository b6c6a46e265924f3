#pragma once
// Switches the terminal to a mode for games: keys without Enter, no echo, no cursor, a screen of its own. The
// destructor restores the terminal and its former contents.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::demo {

enum class Key : std::uint8_t {
    up,
    down,
    left,
    right,
    stop,
    quit,
    talk,
    shoot,
    throw_1,
    throw_2,
    throw_3,
    throw_4,
    throw_5
};

/// Removes the keys from `input` and returns them. An incomplete escape sequence stays in `input`, and so
/// does what comes after Key::talk: it belongs to a line of text.
std::vector<Key> take_keys(std::string& input);

/// Moves a line of text from `input` to the end of `line`, until Enter. Backspace removes a character. Escape
/// empties and ends the line. Leaves out characters that are not printable ASCII, and characters after
/// max_bytes. Returns whether the line has ended.
bool take_line(std::string& input, std::string& line, std::size_t max_bytes);

class Terminal {
public:
    /// Returns whether standard input and output are a terminal that can draw. On Windows: a console that
    /// obeys virtual terminal sequences, as Windows 10 and later have.
    static bool is_present();

    Terminal();
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    struct Size {
        int columns = 80, rows = 24;
    };
    /// The present size; it can change at any time.
    Size size() const;

    /// Returns the keys pressed since the last call.
    std::vector<Key> keys();
    /// See take_line().
    bool read_line(std::string& line, std::size_t max_bytes);
    void write(std::string_view bytes);

private:
    struct System;

    std::unique_ptr<System> system_;
    std::string input_;
};

}  // namespace shoal::demo
