#pragma once
// The terminal as a game wants it, for as long as this lives: keys at once, no echo, no cursor, and another
// screen, so that what was there before comes back.

#include <termios.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoal::demo {

enum class Key : std::uint8_t { up, down, left, right, stop, quit };

/// Takes the keys that `input` begins with out of it; half an escape sequence stays for the next time.
std::vector<Key> take_keys(std::string& input);

class Terminal {
public:
    /// Whether standard input and output are a terminal that can draw.
    static bool is_present();

    Terminal();
    ~Terminal();
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    struct Size {
        int columns = 80, rows = 24;
    };
    /// As it is now: to be asked before each frame.
    Size size() const;

    /// Pressed since the last call.
    std::vector<Key> keys();
    void write(std::string_view bytes);

private:
    termios before_{};
    std::string input_;
};

}  // namespace shoal::demo
