#pragma once
// The tutorial's screen, 80 x 24 characters of a terminal on Linux or macOS. It shows x from -40 to 40, y
// from -20 to 20. w a s d fly, space stops, e dashes, f fires, q quits; Enter begins and ends a line of text.
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

struct Keys {
    std::int8_t x = 0, y = 0;  // where to; a terminal does not report released keys, so the ship flies on
    bool dash = false, fire = false;  // pressed in this frame
    float aim_x = 1, aim_y = 0;       // where the ship flew last; of length 1
    std::string line;                 // the text that was entered in this frame
};

class Screen {
public:
    Screen() {
        tcgetattr(0, &before_);
        termios settings = before_;
        settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);  // each key at once, also Ctrl-C
        tcsetattr(0, TCSANOW, &settings);
        std::printf("\x1b[2J\x1b[?25l");  // an empty screen without a cursor
    }
    ~Screen() {
        tcsetattr(0, TCSANOW, &before_);
        std::printf("\x1b[?25h\n");
    }
    Keys keys() {
        char key = 0;
        pollfd input{0, POLLIN, 0};
        if (poll(&input, 1, 0) != 1 || read(0, &key, 1) != 1) key = 0;
        keys_.line = key == '\n' ? std::exchange(typed_, "") : "";
        keys_.dash = !is_typing_ && key == 'e';
        keys_.fire = !is_typing_ && key == 'f';
        is_over_ = key == 3 || (!is_typing_ && key == 'q');
        if (key == '\n') is_typing_ = !is_typing_;
        if (key == 127 && !typed_.empty()) typed_.pop_back();
        if (key >= ' ' && key < 127 && is_typing_) typed_ += key;
        if (is_typing_ || key == 0 || std::string("wasd ").find(key) == std::string::npos) return keys_;
        keys_.x = static_cast<std::int8_t>((key == 'd') - (key == 'a'));
        keys_.y = static_cast<std::int8_t>((key == 'w') - (key == 's'));
        if (key != ' ') keys_.aim_x = keys_.x, keys_.aim_y = keys_.y;
        return keys_;
    }
    void put(float x, float y, const std::string& look) {  // in the game
        const auto row = static_cast<std::size_t>(std::lround(std::clamp(10 - y / 2, 0.0f, 20.0f)));
        const auto column =
            static_cast<std::size_t>(std::lround(std::clamp((x + 40) * 79 / 80, 0.0f, 79.0f)));
        rows_[row].replace(column, look.size(), plain(look)).resize(80);
    }
    /// Adds a line below the game, where the last two are shown.
    void text(const std::string& line) { lines_ = {lines_[1], plain(line)}; }
    /// Sets the line above the game.
    void status(const std::string& line) { status_ = line; }
    /// Returns false when the player quits.
    bool show() {
        std::string frame = "\x1b[H\x1b[K" + (is_typing_ ? "> " + typed_ : status_);
        for (std::string& row : rows_) frame += "\n" + std::exchange(row, std::string(80, ' '));
        for (const std::string& line : lines_) frame += "\n\x1b[K" + line;
        std::fputs(frame.c_str(), stdout);
        std::fflush(stdout);
        return !is_over_;
    }

private:
    /// Other players' texts may contain codes that control a terminal.
    static std::string plain(std::string text) {
        for (char& letter : text) letter = letter < ' ' || letter > '~' ? '?' : letter;
        return text;
    }

    termios before_ = {};
    Keys keys_;
    bool is_typing_ = false, is_over_ = false;
    std::string typed_, status_;
    std::vector<std::string> rows_ = std::vector<std::string>(21, std::string(80, ' ')), lines_ = {"", ""};
};
