#pragma once
// The screen of README.md's game in tests/vendor.sh: plays keys of a script, and prints each text once. With
// the environment variable SHOOTER the script moves, talks and shoots, and then ends the program. Without it,
// the program ends when the other player has left.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

struct Keys {
    std::int8_t x = 0, y = 0;
    bool dash = false, fire = false;
    float aim_x = 0, aim_y = 0;
    std::string line;
};

class Screen {
public:
    Keys keys() {
        Keys keys;
        if (frame_ == 0) return keys;
        if (!is_shooter_) {
            if (frame_ == 5) keys.line = "/name ";
            return keys;
        }
        if (frame_ < 30) keys.x = -1;  // away from the other ship
        if (frame_ == 10) keys.dash = true;
        if (frame_ == 5) keys.line = "/name Ann";
        if (frame_ == 40) keys.line = "ahoy";
        const bool empties = frame_ >= 50 && frame_ < 120, aims = frame_ >= 200 && frame_ < 225;
        keys.fire = (empties || aims) && frame_ % 7 == 0;  // not more than are allowed per second
        keys.aim_x = empties ? -1 : 1;
        return keys;
    }

    void text(const std::string& line) {
        if (printed_.insert(line).second) std::printf("%s\n", line.c_str());
    }

    void put(float, float, const std::string& look) {
        ships_ += look[0] >= '0' && look[0] <= '9';
        text("sees " + look);
    }
    void status(const std::string& line) { text(line); }

    /// Returns false when the program has to end.
    bool show() {
        const int ships = ships_;
        ships_ = 0;
        std::fflush(stdout);
        if (frame_ > 0 || ships == 2) frame_ += 1;  // the script begins when both players play
        return is_shooter_ ? frame_ < 260 : frame_ == 0 || ships == 2;
    }

private:
    bool is_shooter_ = std::getenv("SHOOTER") != nullptr;
    int frame_ = 0, ships_ = 0;
    std::set<std::string> printed_;
};
